#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Plays conformance scripts against a RoCEv2 device; see docs/conformance.md.

Without patterns all scripts are played, else those whose names begin with one of them, such as
`responder/` or `responder/send/duplicate`. Exit status: 0 all as expected, 1 something failed,
2 bad arguments, 77 this machine cannot run the device.
"""

import argparse
import os
import pathlib
import random
import sys

from player import script as scripts
from player.device import DeviceError, Simulated
from player.play import Mismatch, Player

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ROCKHOPPER_BUILD", HERE.parents[1] / "build/gcc"))


def make_device(arguments):
    if arguments.device == "sim":
        return Simulated(str(arguments.program or BUILD / "tests/conformance/conformance-sim"))
    raise SystemExit(2)


def outcome(script, device, arguments):
    """One word and the story behind it: passed, failed, deviates, skipped."""
    for kind in device.kinds:
        if kind in script.skips:
            return "skipped", script.skips[kind]
    expected = next((script.deviations[k] for k in device.kinds if k in script.deviations), None)
    player = Player(script, device, arguments.seed, arguments.ipv6)
    try:
        player.play()
    except Mismatch as mismatch:
        return ("deviates", f"{expected}\n{mismatch}") if expected else ("failed", str(mismatch))
    if expected:
        return "failed", f"{script.path}: does not deviate any more as said: {expected}"
    return "passed", ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--device", choices=("sim",), default="sim", help="what to play against")
    parser.add_argument("--program", type=pathlib.Path, help="the device's program")
    parser.add_argument("--ipv6", action="store_true", help="over IPv6 (IPv4)")
    parser.add_argument("--seed", type=lambda text: int(text, 0),
                        default=os.environ.get("ROCKHOPPER_SEED"),
                        help="of PSNs, QPNs and contents (a new one)")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "scripts",
                        help="where the scripts are")
    parser.add_argument("--list", action="store_true", help="names and rules of the scripts")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each script")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 32)
    arguments.seed = int(arguments.seed)
    return arguments


def main():
    arguments = parse_arguments()
    try:
        found = scripts.find(arguments.folder, arguments.patterns)
    except scripts.ScriptError as error:
        print(error, file=sys.stderr)
        return 2
    if not found:
        print("no such script", file=sys.stderr)
        return 2
    if arguments.list:
        for script in found:
            print(f"{script.name}: {'; '.join(script.clauses)}: {script.rule}")
        return 0
    print(f"seed {arguments.seed} (ROCKHOPPER_SEED={arguments.seed} repeats this run)")
    device = make_device(arguments)
    counts = dict.fromkeys(("passed", "failed", "deviates", "skipped"), 0)
    try:
        for script in found:
            word, story = outcome(script, device, arguments)
            counts[word] += 1
            if word != "passed" or arguments.verbose:
                print(f"{word} {script.name}" + (f"\n{story}" if story else ""), flush=True)
    except (ValueError, DeviceError) as error:
        print(f"{script.path}: {error}", file=sys.stderr)
        return 2
    finally:
        device.close()
    if counts["deviates"]:
        print(f"{counts['deviates']} deviate as listed, and count as passed")
    passed = counts["passed"] + counts["deviates"]
    print(f"{passed} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
