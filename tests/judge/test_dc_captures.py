# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The checker on captures that sim-dc takes at both ends of simulated dynamic connections.

Argument: the program sim-dc. JUDGE_DC_SEEDS sets the number of seeds, JUDGE_SEED the first one.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import packets as p  # noqa: E402
from judge import cli  # noqa: E402
from judge.capture import Capture  # noqa: E402

PROFILES = (
    "CleanNetworkConnectsOncePerTargetChange", "FullHandshake", "Loss", "P2", "FewContexts",
    "SessionsThatGoUnderLoss", "ShortLeases", "LatePacketsOfEarlierSessions", "MarkedPackets",
    "HalfHandshakeWithDataApart", "LateConnectsWithData",
)  # fmt: skip
ENDS = (("10.0.0.1", "fd52:6f00::1"), ("10.0.0.2", "fd52:6f00::2"))  # initiators, targets
MESSAGE, DISCONNECT, CONNECT_DATA = 0xD8, 4, 0xDE


def simulate(profile: str, seed: int, folder: str) -> dict[str, int]:
    """Leaves SEED-0.pcapng and SEED-1.pcapng in the folder; the endpoints' counters."""
    done = subprocess.run(
        [PROGRAM, f"--gtest_filter=DcSimulation.{profile}"],
        env=os.environ | {"ROCKHOPPER_SEED": str(seed), "ROCKHOPPER_CAPTURES": folder},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"{profile}, seed {seed}: {done.stdout}{done.stderr}")
    line = next(line for line in done.stdout.splitlines() if ": 1 runs in" in line)
    return {name: int(value) for name, value in re.findall(r"([a-z][a-z ]*) (\d+)", line)}


def judge(path: str, *options: str) -> dict:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = cli.main(["--json", "--dynamic-connections", *options, path])
    if status == cli.BAD_INPUT:
        raise AssertionError(f"{path}: {output.getvalue()}")
    return json.loads(output.getvalue())["files"][0]


def judge_end(folder: str, seed: int, end: int) -> dict:
    """What one end sent, by the capture taken there."""
    addresses = [word for address in ENDS[end] for word in ("--endpoint", address)]
    options = (*addresses, "--lossy", "far", "--race-us", "0", "--min-packets", "2")
    return judge(os.path.join(folder, f"{seed}-{end}.pcapng"), *options)


class Runs(unittest.TestCase):
    def test_both_ends_keep_the_rules(self):
        """WIRE-1: a rule is the ICRC of every packet that either end sends, and a note would say
        that one could not be checked."""
        first = int(os.environ.get("JUDGE_SEED", "1"))
        for profile in PROFILES:
            for seed in range(first, first + int(os.environ.get("JUDGE_DC_SEEDS", "2"))):
                with self.subTest(profile, seed=seed), tempfile.TemporaryDirectory() as folder:
                    counters = simulate(profile, seed, folder)
                    verdicts = [judge_end(folder, seed, end) for end in (0, 1)]
                    for verdict in verdicts:
                        self.assertEqual((verdict["violations"], verdict["notes"]), ([], []))
                    self.compare(counters, *(one["dynamic_connections"] for one in verdicts))

    def compare(self, counters: dict, initiator: dict, target: dict) -> None:
        """The endpoints count what they have sent."""
        self.assertEqual(initiator["connect_packets"], counters["connects"])
        self.assertEqual(initiator["connect_data_packets"], counters["with data"])
        self.assertEqual(target["sessions"], counters["sessions"])
        self.assertEqual(target["cnak_no_context"], counters["no context"])


class Damaged(unittest.TestCase):
    """A capture of a clean run with one packet too few or too many."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = os.path.join(folder.name, "damaged.pcap")
        simulate(PROFILES[0], 1, folder.name)
        capture = Capture(os.path.join(folder.name, "1-0.pcapng"))
        cls.frames = [(one.time_ns, bytearray(one.data)) for one in capture]

    def found(self, frames: list) -> set[str]:
        p.save(self.path, frames)
        return set(judge(self.path)["violations_by_rule"])

    def indexes(self, opcode: int, subtype: int = 0) -> list[int]:
        """Of the packets with this opcode, or message."""
        places = []
        for index, (_, data) in enumerate(self.frames):
            bth = 62 if data[12:14] == b"\x86\xdd" else 42
            if len(data) > bth + 24 and data[bth - 6 : bth - 4] == b"\x12\xb7":
                if data[bth] == opcode and subtype in (0, data[bth + 17]):
                    places.append(index)
        return places

    def without(self, index: int) -> set[str]:
        return self.found(self.frames[:index] + self.frames[index + 1 :])

    def test_whole(self):
        self.assertEqual(self.found(self.frames), set())

    def test_without_a_connect(self):
        self.assertIn("dc-accept", self.without(self.indexes(MESSAGE, 1)[0]))
        self.assertIn("dc-accept", self.without(self.indexes(CONNECT_DATA)[0]))

    def test_without_an_accept(self):
        self.assertIn("dc-session", self.without(self.indexes(MESSAGE, 2)[0]))

    def test_without_a_disconnect(self):
        found = [self.without(index) for index in self.indexes(MESSAGE, DISCONNECT)]
        # The last of a stream is followed by no connect.
        self.assertTrue(all(rules <= {"dc-one-connect"} for rules in found), found)
        self.assertGreater(sum(map(bool, found)), 0)

    def test_without_an_acknowledgement(self):
        found = [self.without(index) for index in self.indexes(0xD1)]
        self.assertTrue(all(rules <= {"dc-unacknowledged"} for rules in found), found)
        self.assertGreater(sum(map(bool, found)), 0)

    def test_a_request_sent_again_behind_its_disconnect(self):
        for index in self.indexes(0xC4):  # SEND ONLY
            late = [*self.frames, self.frames[index]]
            rules = self.found(late)
            self.assertLessEqual({"dc-closed"}, rules)

    def test_a_connect_with_data_sent_again_behind_its_disconnect(self):
        for index in self.indexes(CONNECT_DATA)[:-1]:
            rules = self.found([*self.frames, self.frames[index]])
            self.assertTrue({"dc-closed", "dc-one-target"} & rules, rules)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
