#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-perf with one end on Rockhopper and the other on verbs, which is Soft-RoCE in the guest: all
five operations in both roles, data verified, our packets judged."""

import json
import re
import unittest

import lab
from testing.standstill import RepeatedTest

# An ACK timeout of a second: a guest on a busy host answers late, and Soft-RoCE's retries can renumber
# packets (docs/soft-roce.md).
WORKLOAD = '--op all -n 100 -t 16 --timeout 60 -u 18 --json'
OPERATIONS = ['send', 'write', 'read', 'cas', 'faa']

_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module('apps/rh-perf')


class PerfBackends(RepeatedTest):
    maxDiff = None

    def we_serve(self, gid, *options):
        with _lab.host('apps/rh-perf', '-p', 0) as server:
            port = server.wait_for(lambda: announced_port(server.err.read_text()))
            client = _lab.run_in_guest(f'rh-perf --backend verbs -d rxe0 -x {gid} -p {port} '
                                       f'{WORKLOAD} {" ".join(options)} 10.0.2.2')
            self.assertEqual(client.finish(), 0, client.said() + server.said())
            self.assertEqual(server.wait(), 0, server.said())
            return json.loads(client.output())

    def we_connect(self, gid, *options):
        port = 18515
        server = _lab.run_in_guest(f'rh-perf --backend verbs -d rxe0 -x {gid} -p {port}')
        _lab.wait_for_guest_listener(port)
        forwarded = _lab.guest.forward(port)
        own = ['-x', '0' if gid == _lab.guest.gid_index('rxe0', lab.GUEST_ADDRESSES[4]) else '1']
        with _lab.host('apps/rh-perf', '-p', forwarded, *own, *WORKLOAD.split(), *options,
                       '127.0.0.1') as client:
            self.assertEqual(client.wait(), 0, client.said() + server.last_words())
            self.assertEqual(server.finish(), 0, server.said())
            return json.loads(client.out.read_text())

    def verify(self, run):
        for family, address in lab.GUEST_ADDRESSES.items():
            gid = _lab.guest.gid_index('rxe0', address)
            for options in (['-s', '5000'], ['-s', '100', '--mode', 'lat'],
                            ['-s', '20000', '-q', '3', '-b', '-m', '1024']):
                with self.subTest(ip=family, options=options):
                    results = run(gid, *options)['results']
                    self.assertEqual([result['op'] for result in results], OPERATIONS)
                    self.assertTrue(all(result['validated'] for result in results), results)
                    self.assertEqual(_lab.judge('--memory-changes'), '')

    def test_we_are_the_server(self):
        self.verify(self.we_serve)

    def test_we_are_the_client(self):
        self.verify(self.we_connect)


def announced_port(text):
    """The port in "listening on TCP port N", once it is there."""
    words = text.split('listening on TCP port ')
    return int(re.match(r'\d+', words[1]).group()) if len(words) > 1 and '\n' in words[1] else None


if __name__ == '__main__':
    unittest.main(verbosity=2)
