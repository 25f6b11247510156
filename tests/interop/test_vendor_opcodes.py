#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Packets of our own opcodes leave a stock receiver unharmed (WIRE-3): every opcode of 0xC0 to 0xDF,
with a right ICRC, at a Soft-RoCE whose queue pairs of RC, UC and UD are in use. Afterwards these are
in RTS and have gone on, other ones have moved right data meanwhile, and the kernel's memory is what
it was.

ROCKHOPPER_HOSTILE_PACKETS is the number of packets to each kind of destination (100,000; 1,000,000
with ROCKHOPPER_SOAK=1)."""

import json
import os
import re
import sys
import unittest

import lab
from testing.standstill import RepeatedTest

PACKETS = int(os.environ.get('ROCKHOPPER_HOSTILE_PACKETS', 10**6 if lab.SOAK else 10**5))
WARM_UP = 2000
RATE = 20_000  # packets a second: programs in the emulated machine shall get on, too
TRANSPORTS = ('rc', 'uc', 'ud')
# Of memory that rxe and the NIC's queues use; one packet in twenty that stayed would be 5 MB.
SLAB_SLACK_KIB = 2048
HW_COUNTERS = '/sys/class/infiniband/rxe0/ports/1/hw_counters'

_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module()


def queue_pairs():
    """{number: (type, state, send PSN)} of the guest's queue pairs in use."""
    rows = json.loads(_lab.guest.check('rdma -j resource show qp link rxe0'))
    return {row['lqpn']: (row['type'], row['state'], row.get('sq-psn')) for row in rows
            if row['type'] in ('RC', 'UC', 'UD') and row.get('comm', '').startswith('ibv_')}


def processes():
    """Of the guest, that have queue pairs."""
    rows = json.loads(_lab.guest.check('rdma -j resource show qp link rxe0'))
    return {row['pid'] for row in rows if 'pid' in row}


def slab_kib():
    """What the kernel's objects take, when what can be given back has been."""
    text = _lab.guest.check('echo 2 >/proc/sys/vm/drop_caches; cat /proc/meminfo')
    return int(re.search(r'^SUnreclaim:\s+(\d+)', text, re.M)[1])


def hw_counters():
    text = _lab.guest.check(f'cd {HW_COUNTERS} && grep . *')
    return {name: int(value) for name, value in re.findall(r'^(\w+):(\d+)$', text, re.M)}


def received():
    return int(_lab.guest.check(
        'cat /sys/class/net/$(cat /sys/class/infiniband/rxe0/parent)/statistics/rx_packets'))


class VendorOpcodes(RepeatedTest):
    def setUp(self):
        self.index = _lab.guest.gid_index('rxe0', lab.GUEST_ADDRESSES[4])
        parent = '$(cat /sys/class/infiniband/rxe0/parent)'
        self.mac = _lab.guest.check(f'cat /sys/class/net/{parent}/address').strip()

    def pingpong(self, transport, port, options):
        """Both ends in the guest, as one command."""
        tool = f'ibv_{transport}_pingpong -d rxe0 -g {self.index} -p {port} {options}'
        listens = f'grep -q ":{port:04X} .* 0A " /proc/net/tcp /proc/net/tcp6'
        return (f'{tool} >/dev/null & until {listens}; do sleep 0.05; done; '
                f'{tool} 127.0.0.1 >/dev/null && wait $!')

    def blast(self, packets, *numbers):
        options = [word for number in numbers for word in ('--number', number)]
        with lab.Process([lab.BUILD / 'tests/live/packet-blast', '--device',
                          f'eth_vhost0,iface={_lab.socket},client=1', '--link-mtu', _lab.mtu,
                          '--to-mac', self.mac, '--to', lab.GUEST_ADDRESSES[4],
                          '--from', lab.OUR_ADDRESSES[0], '--kind', 'opcodes',
                          '--packets', packets, '--rate', RATE, *options],
                         _lab.folder, 'packet-blast') as blast:
            self.assertEqual(blast.wait(), 0, blast.said())
            return json.loads(blast.out.read_text())['sent']

    def test_nothing_happens(self):
        endless = [_lab.run_in_guest(self.pingpong(transport, 18600 + number, '-n 1000000000'))
                   for number, transport in enumerate(TRANSPORTS)]
        _lab.guest.check('for i in $(seq 1200); do '
                         '[ $(rdma resource show qp link rxe0 | grep -c "state RTS.*comm ibv_") = 6 ]'
                         ' && exit 0; sleep 0.1; done; exit 1', what='six queue pairs in RTS')
        before = queue_pairs()  # of the endless ones, and of no others yet
        checked = _lab.run_in_guest(
            'while [ ! -e /tmp/blasted ]; do '
            f'{{ {self.pingpong("rc", 18610, "-c -n 200 -s 4096")}; }} || exit 1; '
            'n=$((n + 1)); done; echo $n')
        try:
            self.check_blasts(before)
        finally:
            _lab.guest.check('touch /tmp/blasted')
            checked_status = checked.finish()
            running = [command.is_alive() for command in endless]
            _lab.guest.execute('kill ' + ' '.join(map(str, processes())))
            for command in endless:
                command.finish()
        self.assertEqual(checked_status, 0, checked.said())
        self.assertGreater(int(checked.output()), 0)
        self.assertEqual(running, [True] * len(endless))

    def check_blasts(self, before):
        self.assertEqual(sorted(kind for kind, _, _ in before.values()),
                         ['RC', 'RC', 'UC', 'UC', 'UD', 'UD'])
        unused = [number for number in range(0x100, 0x140) if number not in before]
        for what, numbers in (('the window of our numbers', ()), ('numbers not in use', unused),
                              ('the queue pairs themselves', tuple(before))):
            with self.subTest(what):
                self.blast(WARM_UP, *numbers)
                slab, counted, arrived = slab_kib(), hw_counters(), received()
                sent = self.blast(PACKETS, *numbers)
                arrived = received() - arrived
                after = slab_kib()
                changes = {name: value - counted[name] for name, value in hw_counters().items()
                           if value != counted[name]}
                print(f'{what}: {sent} packets sent, {arrived} arrived in the guest; unreclaimable '
                      f'slab {slab} KiB, then {after} KiB; rxe counted {changes}', file=sys.stderr,
                      flush=True)
                self.assertGreaterEqual(arrived, sent * 0.9)
                self.assertLessEqual(after, slab + SLAB_SLACK_KIB)
                now = queue_pairs()
                for number, (kind, state, psn) in before.items():
                    self.assertIn(number, now)
                    self.assertEqual(now[number][:2], (kind, 'RTS'))
                    self.assertNotEqual(now[number][2], psn, f'{kind} {number} stands still')
                before = {number: now[number] for number in before}


if __name__ == '__main__':
    unittest.main(verbosity=2)
