# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs the stages of scripts/test and closes with `N passed, N failed, N skipped`."""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from testing.processes import interruptible  # noqa: E402
from testing.results import Counts  # noqa: E402
from testing.stages import STAGES, say  # noqa: E402

DESCRIPTION = 'Sets up, builds and runs every test suite. Exit status 1 if anything failed.'
LONGEST = 5  # tests that are named at the end, with their times
EPILOGUE = """\
environment:
  ROCKHOPPER_SEEDS=N         seeds of each randomised test; N%: that share of its own default
  ROCKHOPPER_SEED=N          only this seed: repeats a failure
  ROCKHOPPER_FUZZ_SECONDS=N  time for each fuzzer (10)
  ROCKHOPPER_MUTATIONS=all   every mutation, not a tenth of them
  ROCKHOPPER_SOAK=1          the long versions: more seeds, 10 minutes of each fuzzer,
                             every mutation, larger interoperation runs

One suite by hand:  meson test -C build/gcc --suite sim
Outputs are kept in build/logs/.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog='scripts/test', description=DESCRIPTION, epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('stages', nargs='*', metavar='STAGE',
                        help='run only these stages (see --list); default: all')
    parser.add_argument('--list', action='store_true', help='list the stages and exit')
    parser.add_argument('--no-setup', action='store_true', help='do not call scripts/setup')
    arguments = parser.parse_args()
    unknown = [stage for stage in arguments.stages if stage not in STAGES]
    if unknown:
        parser.error(f'unknown stage {unknown[0]}; scripts/test --list names them')
    return arguments


def report(total, rows):
    say(f'\n{"stage":<10} {"suite":<12} {"passed":>8} {"failed":>8} {"skipped":>8}')
    for stage, suite, counts in rows:
        say(f'{stage:<10} {suite:<12} {counts.passed:>8} {counts.failed:>8} {counts.skipped:>8}')
    for case, reason in total.skips:
        say(f'skipped: {case}: {reason}')
    for case in total.failures:
        say(f'FAILED: {case}')
    for test, text in total.excerpts:
        say(f'\n-- {test} printed:\n{text}\n')
    longest = sorted(total.times, reverse=True)[:LONGEST]
    if longest:
        say('took longest: ' + ', '.join(f'{name} {seconds:.0f} s' for seconds, name in longest))


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name, stage in STAGES.items():
            print(f'{name:<10} {stage.__doc__}')
        return 0
    start = time.monotonic()
    total, rows = Counts(), []
    for name in arguments.stages or STAGES:
        say(f'== {name}: {STAGES[name].__doc__}')
        stage_start = time.monotonic()
        for suite, counts in STAGES[name]().items():
            counts.failures = [f'{name}: {case}' for case in counts.failures]
            counts.times = [(seconds, f'{name}: {test}') for seconds, test in counts.times]
            total.add(counts)
            rows.append((name, suite, counts))
        say(f'== {name}: {time.monotonic() - stage_start:.0f} s')
    report(total, rows)
    say(f'{time.monotonic() - start:.0f} s in all')
    say(str(total))
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == '__main__':
    sys.exit(interruptible(main))
