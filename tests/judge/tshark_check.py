#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Has tshark dissect captures, and reports each RoCEv2 packet that it finds something wrong with.

Exit status: 0 nothing found, 1 something found, 2 bad arguments or files, 77 tshark is missing.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Iterator

ROCE_PORT = 4791
CLEAN, FOUND, BAD_INPUT, SKIPPED = 0, 1, 2, 77

# Dissectors that guess at payloads: our test data may look like anything to them.
_GUESSERS = (
    "drbd", "fcoib", "infiniband.eoib", "infiniband_sdp", "ipoib", "iser", "lnet", "nvme-rdma",
    "rpcordma", "smb_direct", "smc",
)  # fmt: skip

# Opcodes which tshark 4.0 takes for unknown; it dissects the BTH and leaves the rest.
_UNKNOWN_TO_TSHARK = frozenset(
    (0x1C, 0x1D)  # RC FLUSH and ATOMIC WRITE
    + (0x81,)  # CNP
    + tuple(range(0xA0, 0xC0))  # XRC
    + tuple(range(0xC0, 0xE0))  # Rockhopper's extensions
)
# RoCEv2 wants no UDP checksum, over IPv6 too; tshark's UDP dissector does not know.
_ACCEPTED_EXPERT = ("Illegal checksum value (0)",)
_WARNING = 0x00600000

_FIELDS = (
    "frame.number", "frame.protocols", "infiniband.bth.opcode", "_ws.malformed",
    "_ws.expert.severity", "_ws.expert.message", "_ws.col.Info",
)  # fmt: skip
_SEPARATOR, _AGGREGATOR = "\x1f", "\x1e"


@contextlib.contextmanager
def _settings() -> Iterator[dict[str, str]]:
    """The environment in which tshark has our settings and nobody else's. In its file of disabled
    protocols it skips those that it does not know; on its command line they are an error."""
    with tempfile.TemporaryDirectory(prefix="rockhopper-") as folder:
        pathlib.Path(folder, "disabled_protos").write_text("\n".join((*_GUESSERS, "")))
        yield {**os.environ, "WIRESHARK_CONFIG_DIR": folder}


def _complaint(fields: list[str]) -> str:
    """What is wrong with one packet; empty when nothing is."""
    _, protocols, opcode, malformed, severities, messages, info = fields
    names = protocols.split(":")
    if "infiniband" not in names:
        return f"not dissected as RoCEv2: {protocols}"
    if "ethertype" in names[names.index("infiniband") :]:
        # One guess cannot be switched off: payload that begins like an ethertype is taken for a
        # frame. What follows says nothing about our headers, which have been dissected by then.
        return ""
    if malformed:
        return f"malformed: {malformed.split(_AGGREGATOR)[0]}"
    experts = zip(severities.split(_AGGREGATOR), messages.split(_AGGREGATOR))
    for severity, message in experts:
        if severity and int(severity) >= _WARNING and message not in _ACCEPTED_EXPERT:
            return f"expert: {message}"
    if "Unknown OpCode" in info and int(opcode) not in _UNKNOWN_TO_TSHARK:
        return f"unknown opcode 0x{int(opcode):02X}"
    return ""


def complaints(tshark: str, settings: dict[str, str], path: str) -> Iterator[tuple[int, str]]:
    """Frame number and complaint of each packet that has one, then (0, number of packets)."""
    # A packet quoted by an ICMP error is cut and no concern of ours.
    command = [tshark, "-r", path, "-Y", f"udp.dstport == {ROCE_PORT} and not icmp and not icmpv6"]
    command += ["-T", "fields", "-E", f"separator={_SEPARATOR}", "-E", f"aggregator={_AGGREGATOR}"]
    command += [word for field in _FIELDS for word in ("-e", field)]
    count = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        env=settings,
    ) as process:  # fmt: skip
        for line in process.stdout:
            count += 1
            fields = line.rstrip("\n").split(_SEPARATOR)
            complaint = _complaint(fields)
            if complaint:
                yield int(fields[0]), complaint
        errors = process.stderr.read()
    # A capture whose writer was killed ends in the middle of a packet; the rest is good.
    if process.returncode and "cut short" not in errors:
        raise OSError(errors.strip().splitlines()[-1] if errors.strip() else "tshark failed")
    yield 0, str(count)


def check(tshark: str, settings: dict[str, str], path: str) -> int:
    """Prints what is wrong with one capture; returns the exit status for it."""
    found = 0
    try:
        for frame, complaint in complaints(tshark, settings, path):
            if frame:
                found += 1
                print(f"{path}: frame {frame}: {complaint}")
            else:
                print(f"{path}: {complaint} RoCEv2 packets, {found} found wanting")
    except OSError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return BAD_INPUT
    return FOUND if found else CLEAN


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--tshark", default="tshark", help="the program (default: tshark)")
    arguments = parser.parse_args(argv)
    tshark = shutil.which(arguments.tshark)
    if tshark is None:
        print(f"skipped: no {arguments.tshark} here (Debian package tshark)")
        return SKIPPED
    with _settings() as settings:
        return max(check(tshark, settings, path) for path in arguments.files)


if __name__ == "__main__":
    sys.exit(main())
