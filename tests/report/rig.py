# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the tests of rh-report share: its package, captures to draw, and the fields that tshark sees in them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURES = ROOT / 'tests/data/captures'
PROGRAMS = pathlib.Path(os.environ.get('ROCKHOPPER_PROGRAMS', ROOT / 'build/gcc/apps'))
PACKAGES = [str(ROOT / 'apps/rh_report'), str(ROOT / 'tests/judge')]
sys.path[:0] = PACKAGES
sys.dont_write_bytecode = True
LIMIT_S = 240

# Two hosts whose link loses packets in both directions, with requests of both: each kind of recovery is there.
LOSSY = {
    'seed': 5, 'duration': '200ms', 'hosts': [{'name': 'a'}, {'name': 'b'}],
    'links': [{'from': 'a', 'to': 'b', 'rate': '10Gbit', 'delay': '2us', 'faults': 'tx.loss=0.5%,rx.loss=0.5%'}],
    'flows': [
        {'name': 'w', 'from': 'a', 'to': 'b', 'operation': 'write', 'size': '32KiB', 'window': 4, 'count': 60,
         'timeout': 8},
        {'name': 'r', 'from': 'a', 'to': 'b', 'operation': 'read', 'size': '16KiB', 'window': 2, 'count': 60,
         'timeout': 8},
        {'name': 's', 'from': 'b', 'to': 'a', 'operation': 'send', 'size': 700, 'window': 4, 'count': 200,
         'timeout': 8},
        {'name': 'u', 'from': 'a', 'to': 'b', 'transport': 'ud', 'operation': 'send', 'size': 512, 'count': 50}]}


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix='rh-report-')
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def run_report(self, *arguments, status=0):
        done = subprocess.run(
            ['/usr/bin/python3', '-B', '-m', 'rh_report', *map(str, arguments)], cwd=self.folder, text=True,
            capture_output=True, timeout=LIMIT_S, env={**os.environ, 'PYTHONPATH': ':'.join(PACKAGES)})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def figures(self, *captures):
        return json.loads(self.run_report(*captures, '--json').stdout)

    @classmethod
    def simulate(cls, document, name):
        """Captures of both hosts."""
        if not (PROGRAMS / 'rh-sim').exists():
            raise unittest.SkipTest(f'no rh-sim in {PROGRAMS}')
        scenario = cls.folder / f'{name}.json'
        scenario.write_text(json.dumps(document))
        subprocess.run([PROGRAMS / 'rh-sim', scenario, '--pcap', cls.folder / f'{name}.pcapng'], check=True,
                       capture_output=True, timeout=LIMIT_S)
        return [cls.folder / f'{name}.{host["name"]}.pcapng' for host in document['hosts']]


def needs_tshark(test):
    return unittest.skipUnless(shutil.which('tshark'), 'tshark is not installed')(test)


_FIELDS = ('frame.number', 'frame.time_epoch', 'ip.src', 'ip.dst', 'ipv6.src', 'ipv6.dst', 'udp.length',
           'infiniband.bth.opcode', 'infiniband.bth.destqp', 'infiniband.bth.psn', 'infiniband.bth.padcnt',
           'infiniband.aeth.syndrome', 'infiniband.reth.dmalen', 'frame.comment', 'ip.dsfield.ecn')
# Bytes of extension headers by operation (IBTA vol. 1, 9.2.1).
_HEADERS = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28,
            22: 4, 23: 4}
_UD, _CNP = 0x60, 0x81


class Packet:
    """As tshark dissects it."""

    def __init__(self, line):
        values = [value.split('|')[0] for value in line.rstrip('\n').split('\t')]
        (number, time, source4, destination4, source6, destination6, size, opcode, qpn, psn, pad, syndrome, length,
         comment, ecn) = values
        seconds, _, fraction = time.partition('.')
        self.number, self.time_ns = int(number), int(seconds) * 10**9 + int(fraction.ljust(9, '0')[:9])
        self.source, self.destination = source4 or source6, destination4 or destination6
        self.opcode, self.qpn, self.psn = int(opcode), int(qpn, 16), int(psn)
        self.operation, self.service = self.opcode & 0x1F, self.opcode & 0xE0
        headers = 16 if self.opcode == _CNP else _HEADERS.get(self.operation, 0) + 8 * (self.service == _UD)
        self.payload = int(size) - 8 - 12 - headers - int(pad) - 4
        self.syndrome = int(syndrome) if syndrome else None
        self.read_length = int(length) if length and self.operation == 12 else 0
        self.dropped = comment.startswith('drop:')
        self.is_marked = ecn == '3'
        self.is_cnp = self.opcode == _CNP

    @property
    def is_request(self):
        return not 13 <= self.operation <= 18 and not self.is_cnp

    @property
    def kind(self):
        """Of an acknowledgement: 0 ACK, 1 RNR NAK, 3 NAK; 0 for other responses."""
        return self.syndrome >> 5 if self.operation == 17 else 0


def tshark(path):
    command = ['tshark', '-r', path, '-Y', 'infiniband.bth and not icmp', '-T', 'fields', '-E', 'aggregator=|']
    for field in _FIELDS:
        command += ['-e', field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    return [Packet(line) for line in done.stdout.splitlines()]


def _unwrapped(reference, psn):
    return reference + ((psn - reference + (1 << 23)) & 0xFFFFFF) - (1 << 23)


class Counted:
    """The figures of one connection of RC, counted from what tshark says: by sets of PSNs, not by states."""

    def __init__(self, packets, a, b, path_mtu):
        """`a` and `b` are (address, QPN); requests of both are counted."""
        self.retransmissions = self.naks = self.rnr_naks = self.marks = self.cnps = 0
        self.goodput = [0, 0]
        self.round_trips = []
        for way, (near, far) in enumerate(((a, b), (b, a))):
            out = [p for p in packets if (p.source, p.destination, p.qpn) == (near[0], far[0], far[1])]
            back = [p for p in packets if (p.source, p.destination, p.qpn) == (far[0], near[0], near[1])]
            self.cnps += sum(p.is_cnp for p in back)
            self.marks += sum(p.is_marked for p in out)
            self._requests([p for p in out if p.is_request], way, path_mtu)
            answers = [p for p in back if not p.is_request and not p.is_cnp]
            self.naks += sum(p.kind == 3 for p in answers)
            self.rnr_naks += sum(p.kind == 1 for p in answers)
            self._answers([p for p in out if p.is_request], answers, way)

    def _requests(self, requests, way, path_mtu):
        highest = None
        for p in requests:
            p.place = p.psn if highest is None else _unwrapped(highest, p.psn)
            last = p.place + max(1, -(-p.read_length // path_mtu)) - 1
            p.is_repeated = highest is not None and p.place <= highest
            if p.is_repeated:
                self.retransmissions += 1
                continue
            highest = last
            if not p.read_length:
                self.goodput[way] += p.payload

    def _answers(self, requests, answers, way):
        sent = {}
        for p in requests:
            sent.setdefault(p.psn, []).append(p)
        taken, answered = set(), set()
        acknowledged = None
        for p in answers:
            if p.dropped:
                continue
            place = p.psn if acknowledged is None else _unwrapped(acknowledged, p.psn)
            is_read = 13 <= p.operation <= 16
            if is_read and place not in taken and (acknowledged is None or place >= acknowledged):
                # What comes behind a gap was sent on the way, and is asked for again.
                self.goodput[1 - way] += p.payload
                taken.add(place)
            if p.kind == 0 and p.psn in sent and p.psn not in answered and (
                    acknowledged is None or place >= acknowledged):
                before = [request for request in sent[p.psn] if request.time_ns <= p.time_ns]
                if len(before) == 1 and not before[0].is_repeated:
                    self.round_trips.append(p.time_ns - before[0].time_ns)
                answered.add(p.psn)
            if p.kind == 0 and not is_read:
                acknowledged = place + 1 if acknowledged is None else max(acknowledged, place + 1)
            elif is_read and (acknowledged is None or place == acknowledged):
                acknowledged = place + 1
