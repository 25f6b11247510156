#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Locks against a responder that knows none, Soft-RoCE in the guest: scopes of several queue pairs by
compare and swap, which end with the right count, and a clear refusal of locks at the target."""

import json
import unittest

import lab
from testing.standstill import RepeatedTest

QPS = 6
SCOPES = 200
WARMUP = 20
PORT = 18515
COMMON = ('--op', 'lock', '--timeout', 60, '--json')

_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module('apps/rh-perf')


class Locks(RepeatedTest):
    def run_client(self, family, *options):
        """The exit statuses of client and server, the client's process and the guest's server."""
        gid = _lab.guest.gid_index('rxe0', lab.GUEST_ADDRESSES[family])
        server = _lab.run_in_guest(f'rh-perf --backend verbs -d rxe0 -x {gid} -p {PORT}')
        _lab.wait_for_guest_listener(PORT)
        with _lab.host('apps/rh-perf', '-p', _lab.guest.forward(PORT), '-x',
                       '0' if family == 4 else '1', *COMMON, *options, '127.0.0.1') as client:
            return client.wait(), server.finish(), client, server

    def test_by_compare_and_swap(self):
        """That a run is validated means that the lock word is free, with the generation that so many
        scopes have left, that the counter behind it is as high, and that each scope has found it at
        another value. LK-14 and the fallback of LK-1 to LK-6."""
        for family in lab.GUEST_ADDRESSES:
            for options in (('-q', QPS), ('-q', 1, '--mode', 'lat')):
                with self.subTest(ip=family, options=options):
                    status, served, client, server = self.run_client(
                        family, '--lock-mode', 'cas', '-n', SCOPES, '--warmup', WARMUP, *options)
                    self.assertEqual((status, served), (0, 0), client.said() + server.said())
                    report = json.loads(client.out.read_text())
                    self.assertEqual(report['lock_mode'], 'cas')
                    result = report['results'][0]
                    self.assertEqual(result['op'], 'lock')
                    self.assertTrue(result['validated'])
                    self.assertEqual(_lab.judge(), '')

    def test_locks_at_the_target_are_refused(self):
        status, served, client, server = self.run_client(4, '--lock-mode', 'target', '-n', SCOPES)
        self.assertEqual((status, served), (1, 1), client.said() + server.said())
        for said in (client.err.read_text(), server.said()):
            self.assertRegex(said.strip().splitlines()[-1],
                             'verbs rxe0 executes no locks; --lock-mode cas does without')

    def test_both_directions_are_refused(self):
        status, served, client, server = self.run_client(4, '--lock-mode', 'cas', '-b', '-n', SCOPES)
        self.assertEqual((status, served), (1, 1), client.said() + server.said())
        self.assertRegex(client.err.read_text().strip().splitlines()[-1], 'asks for no locks')


if __name__ == '__main__':
    unittest.main(verbosity=2)
