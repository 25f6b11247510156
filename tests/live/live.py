# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the live tests share, and those of dynamic connections: a target and initiators at the ports
of an rh-switch, each a process (dc-node)."""

import json
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'programs'))

import support  # noqa: E402 (needs the path above)
from support import LIMIT_S, PATIENT_OF_LINK, wait_until  # noqa: E402, F401

LIVE = support.PROGRAMS.parent / 'tests/live'
# A mutated one takes its place.
DC_NODE = os.environ.get('ROCKHOPPER_DC_NODE', LIVE / 'dc-node')
# Of the target's network; there is room for stations that do not exist.
PREFIX_LENGTH = 16
FORGED = '10.42.128.0'
SOAK = os.environ.get('ROCKHOPPER_SOAK', '0') not in ('', '0')


def amount(variable, short, long):
    """How much a test does: as the variable says, else by whether this is a soak."""
    return int(os.environ.get(variable, long if SOAK else short))


def resident_bytes(process):
    """What the process has in memory, its programs' text left out. The page tables are asked: what
    statm and status say may be wrong by hundreds of KiB since Linux 6.2, as each processor keeps
    counts of its own."""
    with open(f'/proc/{process.child.pid}/smaps_rollup', encoding='ascii') as rollup:
        sizes = dict(line.split(':') for line in list(rollup)[1:])
    return sum(int(sizes[kind].split()[0]) << 10 for kind in ('Pss_Anon', 'Pss_Shmem'))


class LiveTest(support.SwitchTest):
    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get('ROCKHOPPER_SEED', random.SystemRandom().getrandbits(32)))
        self.random = random.Random(self.seed)
        print(f'ROCKHOPPER_SEED={self.seed}', flush=True)

    def runs(self, process):
        self.assertFalse(process.has_ended(), f'{process.name}: status {process.child.returncode}, '
                                              f'{process.messages()}')
        return True

    def end(self, process):
        """Asks it to stop: the last line that it has printed, as an object."""
        process.child.terminate()
        return self.report(process)

    def report(self, process):
        self.assert_status(process, 0)
        return json.loads(process.output().splitlines()[-1])


class DynamicConnectionsTest(LiveTest):
    def start_target(self, *options):
        """The target at port 0 of the switch, and what it says of itself; that is in a file, too,
        which initiators read."""
        target = self.lab.start('target', [DC_NODE, 'target', *self.station(0, PREFIX_LENGTH),
                                           *PATIENT_OF_LINK, *options])
        wait_until(lambda: self.runs(target) and target.output().endswith('\n'), LIMIT_S,
                   'the target is ready')
        return target, json.loads(target.output())

    def start_initiator(self, port, target, *options):
        return self.lab.start(f'initiator{port}', [
            DC_NODE, 'initiator', '--peer', target.out, *self.station(port),
            *PATIENT_OF_LINK, '--seed', self.random.getrandbits(32), *options])

    def start_blast(self, port, introduction, *options):
        """Forged packets from there to the target."""
        return self.lab.start('packet-blast', [
            LIVE / 'packet-blast', '--memif-socket', self.socket(port),
            '--to-mac', introduction['mac'], '--to', introduction['address'], '--from', FORGED,
            '--seed', self.random.getrandbits(32), *options])

    def counters(self, process):
        """Of the process's dynamic connections, while it runs."""
        stats = self.run_program('rh-stats', '--pid', process.child.pid, '--group', 'dc', '--json')
        self.assert_status(stats, 0)
        return json.loads(stats.output())['programs'][0]['counters']['dc']

    def assert_words(self, words, report):
        """DC-26 to DC-28: each FETCH_ADD that succeeded was executed once; of those with an unknown
        outcome each may have been."""
        for word, succeeded, unknown in zip(words, report['succeeded'], report['unknown'],
                                            strict=True):
            self.assertGreaterEqual(word, succeeded, report)
            self.assertLessEqual(word, succeeded + unknown, report)
