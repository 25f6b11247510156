#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""QEMU, unmodified, under rh-run: a running guest of 256 MB moves to another process by RDMA, its memory
registered as a whole before or piece by piece."""

import contextlib
import json
import random
import socket
import unittest

from pairs import PairTest
from support import wait_until

LIMIT_S = 120
RUNNING = {'status': 'running', 'running': True}


class Monitor:
    """QEMU's machine protocol."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile('rw')
        self.lines.readline()  # a greeting
        self.ask('qmp_capabilities')

    def ask(self, command, **arguments):
        self.lines.write(json.dumps({'execute': command, 'arguments': arguments}) + '\n')
        self.lines.flush()
        while 'event' in (answer := json.loads(self.lines.readline())):
            pass
        return answer['return']

    def close(self):
        self.lines.close()
        self.socket.close()


class Migration(PairTest):
    def setUp(self):
        super().setUp()
        self.need('qemu-system-x86_64')

    def start_guest(self, name, *options):
        """It runs its firmware, which looks for a disk for ever."""
        path = self.lab.path(f'{name}.qmp')
        guest = self.start_verbs(name, 'qemu-system-x86_64', '-machine', 'pc,accel=tcg', '-m', 256, '-nodefaults',
                                 '-display', 'none', '-device', 'VGA', '-qmp', f'unix:{path},server=on,wait=off',
                                 *options)
        wait_until(lambda: path.exists() or guest.has_ended(), LIMIT_S, 'QEMU has a monitor')
        monitor = Monitor(path)
        self.addCleanup(monitor.close)
        return guest, monitor

    def migrate(self, pinned):
        place = f'rdma:127.0.0.1:{random.randrange(10000, 30000)}'
        target, to = self.start_guest('target', '-incoming', 'defer')
        source, origin = self.start_guest('source')
        for monitor in (to, origin):
            monitor.ask('migrate-set-capabilities', capabilities=[{'capability': 'rdma-pin-all', 'state': pinned}])
        to.ask('migrate-incoming', uri=place)
        self.assertLessEqual(RUNNING.items(), origin.ask('query-status').items())
        origin.ask('migrate', uri=place)
        wait_until(lambda: origin.ask('query-migrate').get('status') in ('completed', 'failed'), LIMIT_S,
                   'the guest has moved', 0.1)
        self.assertEqual(origin.ask('query-migrate')['status'], 'completed',
                         source.messages() + target.messages())
        wait_until(lambda: to.ask('query-status')['running'], LIMIT_S, 'the guest runs there', 0.1)
        self.assertEqual(origin.ask('query-status')['status'], 'postmigrate')
        moved = origin.ask('query-migrate')['ram']
        # Empty pages are told, and not sent, unless all are registered before.
        self.assertGreater(moved['transferred'], 256 << 20 if pinned else 1 << 20)
        for monitor in (origin, to):
            with contextlib.suppress(ConnectionError):
                monitor.ask('quit')
        self.finish([target, source], LIMIT_S)

    def test_piece_by_piece(self):
        self.migrate(pinned=False)

    def test_registered_before(self):
        self.migrate(pinned=True)


if __name__ == '__main__':
    unittest.main(verbosity=2)
