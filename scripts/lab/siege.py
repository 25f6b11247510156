# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A session of dynamic connections at a switch, and forged connects from a third port of it."""

import json
import pathlib
import tempfile

from lab.processes import LabError, processors, wait_until
from lab.stations import Stations

FORGED = '10.42.128.0'
SOURCES = 4096
SIZE = 65536
WINDOW = 16


class Siege:
    """The target has a processor of its own, as the rest has the other: the flood costs the
    session what it costs the target, and what the rest loses it loses with a flood that goes
    elsewhere, too."""

    def __init__(self, lab, programs):
        self.lab = lab
        self.programs = programs
        self.live = programs.parent / 'tests/live'
        self.processes = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.lab.folder))
        self.target_cpu, self.cpu = processors()
        self.stations = Stations(self.lab, self.programs, 3, self.folder, self.cpu)
        self.processes.append(self.stations.switch)
        self.target = self._start('dc-target', [
            self.live / 'dc-node', 'target', '--targets', 1, *self.stations.options(0, 16),
            '--memory', SIZE * WINDOW, '--lease-ms', 10_000], self.target_cpu)
        wait_until(lambda: self.target.output().endswith('\n') or self.target.has_ended(), 20,
                   'the target is not ready')
        if self.target.has_ended():
            self.target.expect_success(0)
        self.introduction = json.loads(self.target.output())
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.end()

    def _start(self, name, command, cpu=None):
        process = self.lab.start(name, command, self.cpu if cpu is None else cpu)
        self.processes.append(process)
        return process

    def run(self, where, seconds):
        """The session's goodput for so long, and the flood's rates, beside a flood: 'none', 'aside'
        for one that the switch drops, or a kind of packet-blast."""
        blast = None
        if where != 'none':
            [target] = self.introduction['targets']
            # What is for the flooder itself the switch drops: it does not go back where it came from.
            to_mac = 'self' if where == 'aside' else self.introduction['mac']
            blast = self._start('packet-blast', [
                self.live / 'packet-blast', '--memif-socket', self.stations.socket(2),
                '--to-mac', to_mac, '--to', self.introduction['address'], '--from', FORGED, '--sources', SOURCES,
                '--kind', 'wrong-key' if where == 'aside' else where,
                '--number', target['number']])
            wait_until(lambda: 'begins' in blast.messages() or blast.has_ended(), 20,
                       'packet-blast does not begin')
        session = self._start('dc-initiator', [
            self.live / 'dc-node', 'initiator', '--peer', self.target.out, *self.stations.options(1),
            '--op', 'write', '--size', SIZE, '--window', WINDOW, '--seconds', seconds])
        session.expect_success(60 + 10 * seconds)
        report = _last(session)
        if report['lost_sessions']:
            raise LabError('the session was lost')
        found = {'gbit_per_s': report['gbit_per_s']}
        if blast is not None:
            blast.end()
            sent = _last(blast)
            self.target.end()
            dc = _last(self.target)['dc']
            forged = (dc['access_key_violations'] + dc['tx_cnak_no_such_dct'] +
                      dc['cnaks_suppressed'])
            found |= {'sent_mpps': sent['sent'] / sent['seconds'] * 1e-6,
                      'forged_mpps': forged / sent['seconds'] * 1e-6}
        return found


def _last(process):
    lines = process.output().splitlines()
    if not lines:
        raise LabError(f'{process.name} printed nothing: {process.messages()}')
    return json.loads(lines[-1])
