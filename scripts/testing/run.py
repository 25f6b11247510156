# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs the stages of scripts/test and closes with `N passed, N failed, N skipped`."""

import argparse
import concurrent.futures
import contextvars
import itertools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from testing.processes import interruptible, thread_pool  # noqa: E402
from testing.progress import say  # noqa: E402
from testing.results import Counts  # noqa: E402
from testing.stages import (QUICK_STAGES, QUICK_SUITES, STAGES, build_gcc,  # noqa: E402
                            build_gcc_programs, in_background, warnings)

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

Tests that look at the clock run by themselves, and all else beside them with low priority.
scripts/test --quick is for the loop of work and answers in minutes, from build/gcc alone.

One suite by hand:  meson test -C build/gcc --suite sim
Outputs are kept in build/logs/.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog='scripts/test', description=DESCRIPTION, epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('stages', nargs='*', metavar='STAGE',
                        help='run only these stages (see --list); default: all')
    parser.add_argument('--quick', action='store_true',
                        help=f'only format and the suites {", ".join(QUICK_SUITES)}, with a tenth of '
                        'the seeds, and without scripts/setup')
    parser.add_argument('--list', action='store_true', help='list the stages and exit')
    parser.add_argument('--no-setup', action='store_true', help='do not call scripts/setup')
    arguments = parser.parse_args()
    unknown = [stage for stage in arguments.stages if stage not in STAGES]
    if arguments.quick and arguments.stages:
        parser.error('--quick has stages of its own: give no other')
    if unknown:
        parser.error(f'unknown stage {unknown[0]}; scripts/test --list names them')
    return arguments


def report(total, rows):
    say(f'\n{"stage":<10} {"suite":<12} {"passed":>8} {"failed":>8} {"skipped":>8}')
    for stage, suite, counts in rows:
        say(f'{stage:<10} {suite:<12} {counts.passed:>8} {counts.failed:>8} {counts.skipped:>8}')
    for case, reason in total.skips:
        say(f'skipped: {case}: {reason}')
    for case in total.repeats:
        say(f'run again: {case}')
    for case in total.failures:
        say(f'FAILED: {case}')
    for test, text in total.excerpts:
        say(f'\n-- {test} printed:\n{text}\n')
    longest = sorted(total.times, reverse=True)[:LONGEST]
    if longest:
        say('took longest: ' + ', '.join(f'{name} {seconds:.0f} s' for seconds, name in longest))


class Run:
    """Runs stages, and keeps what they return."""

    def __init__(self, stages):
        self.stages = stages
        self.results = {name: {} for name in stages}

    def all(self):
        """Stages before the first one that needs the tree of gcc, then that tree, or of it what a
        stage needs that begins early, then the others: what looks at the clock by itself, and beside
        it the rest."""
        first = list(itertools.takewhile(lambda name: not self.stages[name].needs_gcc, self.stages))
        others = [name for name in self.stages if name not in first]
        for name in first:
            self._run(name, self.stages[name].real_time, self.stages[name].others)
        if not others:
            return
        early = any(self.stages[name].begins_early for name in others)
        if failed := build_gcc_programs() if early else build_gcc():
            self._fail_without_gcc(others, failed)
            others = [name for name in others if not self.stages[name].needs_gcc]
            early = False
        self._in_lanes(others, build_gcc if early else dict)

    def rows(self):
        results = {**self.results, 'compile': warnings()}
        return [(name, suite, counts) for name, suites in results.items()
                for suite, counts in suites.items()]

    def _fail_without_gcc(self, names, failed):
        for name in names:
            if self.stages[name].needs_gcc:
                self._add(name, failed)

    def _in_lanes(self, names, build):
        """`build()` makes what is missing of the tree of gcc: in the background, before all else."""
        built = concurrent.futures.Future()  # whether it could

        def foreground():
            for name in names:
                stage = self.stages[name]
                if stage.real_time and (not stage.needs_gcc or stage.begins_early or built.result()):
                    self._run(name, stage.real_time)

        def others():
            try:
                failed = build()
            except BaseException as error:
                built.set_exception(error)
                raise
            if failed:
                self._fail_without_gcc(names, failed)
            built.set_result(not failed)
            for name in names:
                if not failed or not self.stages[name].needs_gcc:
                    self._run(name, self.stages[name].others)

        if not any(self.stages[name].real_time for name in names):
            others()  # with all of the machine
            return
        with thread_pool(2) as pool:
            lanes = [pool.submit(contextvars.copy_context().run, foreground),
                     pool.submit(contextvars.copy_context().run, in_background, others)]
            for lane in concurrent.futures.as_completed(lanes):
                lane.result()

    def _run(self, name, *parts):
        for part in filter(None, parts):
            start = time.monotonic()
            say(f'== {name}: {self.stages[name].says}')
            self._add(name, part())
            say(f'== {name}: {time.monotonic() - start:.0f} s')

    def _add(self, name, suites):
        for suite, counts in suites.items():
            added = Counts()
            added.add(counts)
            added.failures = [f'{name}: {case}' for case in counts.failures]
            added.times = [(seconds, f'{name}: {test}') for seconds, test in counts.times]
            self.results[name].setdefault(suite, Counts()).add(added)


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name, stage in STAGES.items():
            print(f'{name:<10} {stage.says}')
        return 0
    start = time.monotonic()
    run = Run(QUICK_STAGES if arguments.quick else
              {name: STAGES[name] for name in arguments.stages or STAGES})
    run.all()
    total = Counts()
    for _, _, counts in run.rows():
        total.add(counts)
    report(total, run.rows())
    say(f'{time.monotonic() - start:.0f} s in all')
    say(str(total))
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == '__main__':
    sys.exit(interruptible(main))
