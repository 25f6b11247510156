#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""UCX, unmodified: what it finds, and ucx_perftest between two processes under rh-run."""

import re
import shutil
import unittest

from pairs import PairTest
from lab.peers import without_mpi
from support import LIMIT_S

# Not all at once are on the way: who waits for a processor loses no packets then, and no seconds by retries.
COMMON = ('-n', 20, '-w', 2, '-O', 1)

RELIABLE = {
    'short': '-t am_lat -D short -s 8',
    'copied': '-t am_lat -D bcopy -s 4096',
    'not_copied': '-t am_lat -D zcopy -s 8000',
    'put': '-t put_bw -D zcopy -s 300000',
    'get_copied': '-t get -D bcopy -s 4096',
    'get': '-t get -D zcopy -s 300000',
    'add': '-t add_mr -s 8',
    'fadd': '-t fadd -s 8',
    'cswap': '-t cswap -s 8',
}
DATAGRAMS = {
    'short': '-t am_lat -D short -s 8',
    'copied': '-t am_lat -D bcopy -s 4000',
    'not_copied': '-t am_lat -D zcopy -s 4000',
}
PROTOCOLS = {
    'tag': '-t tag_lat -s 8',
    'tag_large': '-t tag_lat -s 300000',
    'stream': '-t stream_lat -s 8',
    'stream_large': '-t stream_lat -s 300000',
    'message': '-t ucp_am_lat -s 8',
    'message_large': '-t ucp_am_lat -s 300000',
    'get': '-t ucp_get -s 300000',
    'fadd': '-t ucp_fadd -s 8',
}


class Ucx(PairTest):
    transports = 'rc_v,self'

    def setUp(self):
        super().setUp()
        for program in ('ucx_info', 'ucx_perftest'):
            if shutil.which(program) is None:
                self.skipTest(f'{program} is not installed (package ucx-utils)')

    def under_rh_run(self, *command, **more):
        return super().under_rh_run('env', f'UCX_TLS={self.transports}', *command, **more)

    def test_transports(self):
        self.transports = 'all'
        process = self.start_verbs('ucx_info', 'ucx_info', '-d')
        self.assertEqual(process.wait(LIMIT_S), 0, process.messages())
        domain = process.output().partition('Memory domain: rh0')[2].partition('Memory domain:')[0]
        found = dict(re.findall(r'Transport: (\w+)\n(.*?)(?=Transport:|\Z)', domain, re.DOTALL))
        self.assertEqual(sorted(found), ['rc_verbs', 'ud_verbs'])
        for description in found.values():
            self.assertIn('Device: rh0:1', description)
        self.assertRegex(found['rc_verbs'], r'(?i)atomic_fadd: .*64.bit')
        self.assertRegex(found['rc_verbs'], r'(?i)atomic_cswap: .*64.bit')

    def check(self, transports, tests, *options):
        """One pair of processes does these tests, one after the other."""
        self.transports = transports
        batch = self.lab.path('batch')
        batch.write_text(''.join(f'{name} {test}\n' for name, test in tests.items()))
        _, output = self.run_pair('ucx_perftest', *without_mpi(), '-b', batch, *COMMON,
                                  *options)
        self.assertEqual(re.findall(r'^\+(\w+)-+\+', output, re.MULTILINE), list(tests))
        self.assertEqual(len(re.findall(r'^Final: +20 ', output, re.MULTILINE)), len(tests), output)

    def test_reliable_connection(self):
        self.check('rc_verbs', RELIABLE, '-d', 'rh0:1', '-x', 'rc_verbs')

    def test_datagrams(self):
        self.check('ud_verbs', DATAGRAMS, '-d', 'rh0:1', '-x', 'ud_verbs')

    def test_protocols_on_reliable_connections(self):
        """And datagrams, by which the two sides first speak."""
        self.check('rc_v,self', PROTOCOLS)

    def test_protocols_on_datagrams(self):
        self.check('ud_v,self', PROTOCOLS)

    def test_asleep(self):
        """UCX does not poll once more when it has armed a queue."""
        for transports in ('rc_v,self', 'ud_v,self'):
            with self.subTest(transports=transports):
                self.check(transports, {'tag': '-t tag_lat -s 8'}, '-E', 'sleep')


if __name__ == '__main__':
    unittest.main(verbosity=2)
