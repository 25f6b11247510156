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

from player import report, selftest
from player import script as scripts
from player.device import DeviceError, Simulated, Unavailable
from player.play import Mismatch, Player

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ROCKHOPPER_BUILD", HERE.parents[1] / "build/gcc"))


# A script that fails while its own steps came too late, or the machine stood still, has said nothing
# of the device. It is played again, so often at most.
ATTEMPTS = 5

PROGRAMS = {"sim": "conformance-sim", "live": "conformance-live", "rxe": "conformance-verbs",
            "front": "conformance-verbs"}  # fmt: skip


def make_device(arguments):
    program = str(arguments.program or BUILD / "tests/conformance" / PROGRAMS[arguments.device])
    if arguments.device == "sim":
        segments = random.Random(arguments.seed) if arguments.segmented else None
        return Simulated(program, segments, arguments.personality)
    from player import real_time  # needs a machine with more than the simulator does

    if arguments.device == "front":
        return real_time.Front(program, BUILD)
    if arguments.device == "live":
        return real_time.Live(program, arguments.personality)
    return real_time.SoftRoce(program)


def play(player, script, arguments):
    try:
        player.play()
    finally:
        if arguments.pcap:
            arguments.pcap.mkdir(parents=True, exist_ok=True)
            player.save(arguments.pcap / (script.name.replace("/", "-") + ".pcap"))


def outcome(script, device, arguments):
    """One word and the story behind it: passed, failed, deviates, skipped."""
    for kind in device.kinds:
        if kind in script.skips:
            return "skipped", script.skips[kind]
    for left in reversed(range(ATTEMPTS)):
        player = Player(script, device, arguments.seed, arguments.ipv6)
        with device.watch() as machine:
            word, story = verdict(player, script, device, arguments)
        late_ns = max(player.late_ns, machine.longest_s * 1e9)
        if word != "failed" or late_ns <= device.early_ns or left == 0:
            break
        print(f"again {script.name}: this machine was up to {late_ns / 1e6:.1f} ms late", flush=True)
    return word, story


def verdict(player, script, device, arguments):
    expected = next((script.deviations[k] for k in device.kinds if k in script.deviations), None)
    try:
        play(player, script, arguments)
    except Mismatch as mismatch:
        if expected is None or not any(part in mismatch.problem for part in expected.mismatches):
            return "failed", str(mismatch)
        return "deviates", f"{expected.text}\n{mismatch}"
    except ValueError as error:
        return "failed", str(error)
    if expected and scripts.MAY_PASS not in expected.mismatches:
        return "failed", f"{script.path}: does not deviate any more as said: {expected.text}"
    return "passed", ""


def play_all(found, device, arguments):
    """Plays the scripts; True if all went as expected."""
    counts = dict.fromkeys(("passed", "failed", "deviates", "skipped"), 0)
    for script in found:
        word, story = outcome(script, device, arguments)
        counts[word] += 1
        if word in ("failed", "skipped") or arguments.verbose:
            print(f"{word} {script.name}" + (f"\n{story}" if story else ""), flush=True)
    if counts["deviates"]:
        print(f"{counts['deviates']} deviate as listed, and count as passed (-v tells how)")
    passed = counts["passed"] + counts["deviates"]
    print(f"{passed} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return counts["failed"] == 0


def test_scripts(found, device, arguments):
    """Plays wrong variants of the scripts, which must fail; True if all did."""
    noticed = missed = 0
    for script in found:
        if any(kind in script.deviations or kind in script.skips for kind in device.kinds):
            continue
        before = noticed
        for what, variant in selftest.variants(script):
            try:
                play(Player(variant, device, arguments.seed, arguments.ipv6), variant, arguments)
            except (Mismatch, ValueError, DeviceError):
                noticed += 1
                continue
            missed += 1
            print(f"passes although wrong: {script.path}: {what}", flush=True)
        if noticed == before:
            missed += 1
            print(f"no variant of it fails: {script.path}", flush=True)
    print(f"{noticed} passed, {missed} failed")
    return missed == 0


def check_docs(found):
    """True if scripts, clauses, code and documentation fit together."""
    problems = report.problems(found)
    for problem in problems:
        print(problem)
    print(f"{len(found)} passed, {len(problems)} failed")
    return not problems


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--device", choices=tuple(PROGRAMS), default="sim",
                        help="what to play against (sim)")
    parser.add_argument("--program", type=pathlib.Path, help="the device's program")
    parser.add_argument("--ipv6", action="store_true", help="over IPv6 (IPv4)")
    parser.add_argument("--personality", metavar="NAME", default="",
                        help="sim, live: the device looks and behaves like this one (docs/hardware.md)")
    parser.add_argument("--segmented", action="store_true",
                        help="sim: packets arrive in chains of buffers, cut at random places")
    parser.add_argument("--seed", type=lambda text: int(text, 0),
                        default=os.environ.get("ROCKHOPPER_SEED"),
                        help="of PSNs, QPNs and contents (a new one)")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "scripts",
                        help="where the scripts are")
    parser.add_argument("--pcap", type=pathlib.Path, metavar="DIR",
                        help="write the packets of each script into a file of this folder")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each script")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--list", action="store_true",
                       help="names, clauses and rules of the scripts")
    other.add_argument("--self-test", action="store_true",
                       help="play variants of the scripts that must fail")
    other.add_argument("--check-docs", action="store_true",
                       help="do scripts, clauses.json, code and docs/conformance.md fit together?")
    other.add_argument("--write-docs", action="store_true", help="update docs/conformance.md")
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
    if arguments.write_docs:
        report.write(found)
        return 0
    if arguments.check_docs:
        return 0 if check_docs(found) else 1
    print(f"seed {arguments.seed} (ROCKHOPPER_SEED={arguments.seed} repeats this run)")
    device = None
    try:
        device = make_device(arguments)
        task = test_scripts if arguments.self_test else play_all
        return 0 if task(found, device, arguments) else 1
    except Unavailable as reason:
        print(reason)
        return 77
    except DeviceError as error:
        print(f"the device failed: {error}\n0 passed, 1 failed, 0 skipped")
        return 1
    finally:
        if device:
            device.close()


if __name__ == "__main__":
    sys.exit(main())
