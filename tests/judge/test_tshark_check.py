# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Tests of tshark_check.py: it passes good captures and finds malformed packets."""

import contextlib
import dataclasses
import io
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import packets as p  # noqa: E402
import scenarios  # noqa: E402
import tshark_check  # noqa: E402

CAPTURES = HERE.parent / "data" / "captures"


class Tshark(unittest.TestCase):
    def run_check(self, *arguments: str) -> tuple[int, str]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = tshark_check.main(list(arguments))
        return status, output.getvalue()

    def check(self, data: bytes) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test.pcapng")
            with open(path, "wb") as file:
                file.write(data)
            return self.run_check(path)

    def test_missing_program_is_a_skip(self):
        status, output = self.run_check("--tshark", "no-such-program", "file")
        self.assertEqual(status, 77)
        self.assertIn("no-such-program", output)


@unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
class WithTshark(Tshark):
    def test_real_captures(self):
        status, output = self.run_check(*map(str, sorted(CAPTURES.glob("*.pcap"))))
        self.assertEqual(status, 0, output)

    def test_good_dialogues(self):
        packets = [packet for build, _ in scenarios.CLEAN.values() for packet in build()]
        packets += [scenarios.as_service(packet, 0xA0) for packet in scenarios.basic()]
        packets += [scenarios.as_ipv6(packet) for packet in scenarios.basic()]
        status, output = self.check(p.pcapng(packets))
        self.assertEqual(status, 0, output)
        self.assertIn(f"{len(packets)} RoCEv2 packets", output)

    def test_malformed_packets_are_found(self):
        good = scenarios.basic()[0]
        for fields in (
            {"opcode": p.READ, "payload": b""},
            {"opcode": 0x15},
            {"udp_length": 2000},
        ):
            packets = [good, dataclasses.replace(good, **fields)]
            status, output = self.check(p.pcapng(packets))
            self.assertEqual(status, 1, (fields, output))
            self.assertIn("frame 2: ", output)

    def test_a_cut_file_is_read_up_to_there(self):
        data = p.pcapng(scenarios.basic())
        self.assertEqual(self.check(data[:-40])[0], 0)
        self.assertEqual(self.check(b"nonsense")[0], 2)


if __name__ == "__main__":
    unittest.main()
