# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs the demonstration: builds, proves, prints one table, leaves captures."""

import argparse
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from demonstration import comparison  # noqa: E402
from demonstration.proofs import Demo, proofs  # noqa: E402
from lab.processes import Lab, LabError  # noqa: E402
from testing.processes import interruptible  # noqa: E402
from testing.stages import BUILD, PROGRAMS, compile_tree, say  # noqa: E402

DESCRIPTION = """\
Sets up, builds, then runs two processes that exchange data over memif in RoCEv2 packets, with and
without 1 % packet loss, every byte compared, and two of a stock program of libibverbs; checks the
captures with an independent checker and with tshark; measures beside testpmd. Needs no
NIC, no huge pages and, once set up, no root.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(prog='scripts/demo', description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--captures', type=pathlib.Path, default=BUILD / 'demo',
                        help='folder for the captures (build/demo)')
    parser.add_argument('--seconds', type=float, default=0.5,
                        help='seconds of each measurement (0.5)')
    parser.add_argument('--no-measure', action='store_true', help='leave the measurements out')
    parser.add_argument('--no-setup', action='store_true', help='do not call scripts/setup')
    return parser.parse_args()


def prove(demo):
    """Runs all proofs and prints the table's rows; the number that failed."""
    failed = 0
    for what, proof in proofs(demo):
        start = time.monotonic()
        try:
            outcome, verdict = proof(), 'ok'
        except LabError as error:
            outcome, verdict = str(error), 'FAILED'
            failed += 1
        say(f'{what:<26} {verdict:<6} {time.monotonic() - start:>5.1f} s  {outcome}')
    return failed


def measure(lab, programs, seconds):
    say('\nrh-perf over memif beside testpmd\'s raw rate of such frames, '
        f'path MTU {comparison.PATH_MTU}:')
    try:
        rows = comparison.measure(lab, programs, seconds)
    except LabError as error:
        say(f'FAILED: {error}')
        return 1
    say('\n'.join(comparison.table(rows)))
    say('Mframe/s: frames that carry the data. ratio: of testpmd\'s frames a second. '
        f'Load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors'
        ' (2 while this measures, if nothing else runs).')
    return 0


def main():
    arguments = parse_arguments()
    if not compile_tree(PROGRAMS, ('apps/rh-accounts', 'apps/rh-ami', 'apps/rh-dag', 'apps/rh-perf',
                                   'apps/rh-pingpong', 'apps/rh-publish', 'apps/rh-subscribe',
                                   'apps/rh-run', 'apps/rh-switch', 'apps/verbs/verbs-front.stamp',
                                   'tests/live/many-targets')):
        return 1
    programs = PROGRAMS.folder / 'apps'
    captures = arguments.captures.resolve()
    captures.mkdir(parents=True, exist_ok=True)
    with Lab() as lab:
        say(f'\n{"what":<26} {"":<6} {"time":>7}  outcome')
        failed = prove(Demo(lab, programs, captures))
        if not arguments.no_measure:
            failed += measure(lab, programs, arguments.seconds)
    say(f'\ncaptures, for Wireshark: {captures}')
    say('demo: ' + (f'{failed} FAILED' if failed else 'all proved'))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(interruptible(main))
