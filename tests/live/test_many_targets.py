# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""One DC initiator writes to 10,000 targets in eight processes, joined by rh-switch.

What is written, to which target and in which order is drawn here, with no seed; the programs see it
only as a file. What arrived is read from the targets' memory, the connections are judged in a
capture by the checker, and the initiator's memory is compared with that of one who has 10 targets.

ROCKHOPPER_SOAK=1 does 1,000,000 WRITEs; ROCKHOPPER_OPERATIONS sets the number.
"""

import json
import os
import pathlib
import random
import signal
import struct
import sys

import live
from live import IDLE, PATIENT_OF_LINK, support, wait_until

WRITES = live.amount('ROCKHOPPER_OPERATIONS', 20_000, 1_000_000)
LIMIT_S = 7200 if live.SOAK else 600
PROGRAM = live.LIVE / 'many-targets'
PROCESSES = 8
WORK = struct.Struct('=II16s')
VALUE_BYTES = 16
# Numbers of targets whose initiators' memory may not differ by more: what the caller keeps of a
# target is in it.
FEW, MANY, ALLOWED_KIB = 10, 10_000, 1024


def resident_kib(pid):
    """Memory of a process, huge pages included; not its code, of which the kernel drops what it
    likes."""
    status = pathlib.Path(f'/proc/{pid}/status').read_text()
    fields = dict(line.split(':', 1) for line in status.splitlines())
    return sum(int(fields[name].split()[0]) for name in ('RssAnon', 'RssShmem', 'HugetlbPages'))


class Order:
    """Random WRITEs to random targets: each to a place of its own, which no other has."""

    def __init__(self, targets):
        source = random.SystemRandom()
        self.targets = targets
        self.visits = [source.randrange(targets) for _ in range(WRITES)]
        secret = os.urandom(WRITES * VALUE_BYTES)
        places = [0] * targets
        self.memory = [bytearray() for _ in range(targets)]
        self.work = bytearray()
        for number, target in enumerate(self.visits):
            value = secret[number * VALUE_BYTES:(number + 1) * VALUE_BYTES]
            self.work += WORK.pack(target, places[target], value)
            self.memory[target] += value
            places[target] += VALUE_BYTES
        self.bytes_each = max(places) + VALUE_BYTES  # and a place that nobody writes to

    def changes(self):
        """How often the next WRITE is for another target."""
        return sum(a != b for a, b in zip(self.visits, self.visits[1:]))


class ManyTargets(support.SwitchTest):
    def start_process(self, port, *arguments):
        return self.lab.start(f'node{port}', [PROGRAM, *self.station(port), *PATIENT_OF_LINK,
                                              *IDLE, *arguments])

    def start_targets(self, order):
        """The processes, and the lists of their targets."""
        shares = [len(range(i, order.targets, PROCESSES)) for i in range(PROCESSES)]
        lists = [self.lab.path(f'targets{i}') for i in range(PROCESSES)]
        nodes = [self.start_process(i + 1, '--targets', shares[i], '--bytes', order.bytes_each,
                                    '--list', lists[i], '--dump', self.lab.path(f'memory{i}'))
                 for i in range(PROCESSES)]
        for node, path in zip(nodes, lists):
            wait_until(lambda node=node, path=path: self.is_there(node, path), LIMIT_S, 'targets')
        return nodes, lists

    def is_there(self, node, path):
        self.assertIsNone(node.child.poll(), node.messages())
        return path.exists()

    def report(self, node):
        if not node.output():
            self.assertIsNone(node.child.poll(), node.messages())
            return None
        return json.loads(node.output())

    def stop(self, node):
        node.child.send_signal(signal.SIGTERM)
        self.assert_status(node, 0)

    def run_order(self, order):
        """The initiator's report with its memory in KiB, and the capture's path. What the targets
        have is compared."""
        switch = self.start_switch(PROCESSES + 1)
        nodes, lists = self.start_targets(order)
        work = self.lab.path('work')
        work.write_bytes(order.work)
        capture = self.lab.path(f'{order.targets}.pcapng')
        initiator = self.start_process(0, '--work', work, '--pcap', capture, *lists)
        report = wait_until(lambda: self.report(initiator), LIMIT_S, 'all is written')
        report['memory_kib'] = resident_kib(initiator.child.pid)
        self.assertEqual(report['writes'], WRITES)
        for node in (initiator, *nodes):
            self.stop(node)
        self.compare(order, nodes)
        self.stop(switch)
        for path in lists:
            path.unlink()
        return report, capture

    def compare(self, order, nodes):
        target = 0
        for number, _ in enumerate(nodes):
            memory = self.lab.path(f'memory{number}').read_bytes()
            for offset in range(0, len(memory), order.bytes_each):
                expected = bytes(order.memory[target]).ljust(order.bytes_each, b'\0')
                self.assertEqual(memory[offset:offset + order.bytes_each], expected,
                                 f'target {target}')
                target += 1
        self.assertEqual(target, order.targets)

    def test_random_order(self):
        """DC-1, DC-2, DC-3, DC-4, DC-5, DC-6, DC-7, DC-13, DC-16, DC-22, DC-24, DC-37: each WRITE
        arrives at its target alone, each change of target is one connection, and 10,000 targets
        cost the initiator no memory. SYS-4: what is written, and where, is drawn when it runs."""
        memory = {}
        for targets in (FEW, MANY):
            order = Order(targets)
            report, capture = self.run_order(order)
            memory[targets] = report['memory_kib']
            counted = self.judged(capture)
            connections = order.changes() + 1
            self.assertEqual(counted['initiators'], 1)
            self.assertEqual(counted['targets'], len(set(order.visits)))
            for name in ('connects', 'sessions'):
                self.assertEqual(counted[name], connections, name)
            self.assertEqual(counted['target_changes'], connections - 1)
            counters = report['counters']
            self.assertEqual(counters['tx_connect'], counted['connect_packets'])
            self.assertEqual(counters['tx_disconnect'], counted['disconnects'])
            print(f'{targets} targets: {WRITES / report["seconds"]:.0f} WRITEs/s, '
                  f'{connections} connections, {memory[targets]} KiB', file=sys.stderr)
        self.assertLess(memory[MANY] - memory[FEW], ALLOWED_KIB)


if __name__ == '__main__':
    support.main()
