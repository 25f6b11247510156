#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What programs of verbs send under rh-run, judged: captures of both ends pass the checker, which
shares no code with the engine, and tshark. Among the programs is rc_peer, the one by which the interop
suite verifies every operation with Soft-RoCE."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from pairs import PairTest
from lab.peers import without_mpi  # it is pairs that finds lab
from support import LIMIT_S, ROOT, wait_until

RC_PEER = pathlib.Path(os.environ.get('ROCKHOPPER_RC_PEER', ROOT / 'build/gcc/tests/interop/rc_peer'))
# Processes share processors, and one that waits for them answers later than a device would.
RACE_US = 1_000_000
PERFTEST = ('-d', 'rh0', '-x', 0, '-F', '-n', 200, '--use_old_post_send')


class Judged(PairTest):
    def setUp(self):
        super().setUp()
        self.pcap = ('--pcap', self.lab.path('%p.pcapng'))

    def captures(self):
        return sorted(self.lab.folder.glob('*.pcapng'))

    def judge(self, *options, least=50):
        """Both ends' captures, each with at least so many packets."""
        captures = self.captures()
        self.assertEqual(len(captures), 2)
        for capture in captures:
            self.checked(capture, '--race-us', RACE_US, '--min-packets', least, *options)
        if shutil.which('tshark'):
            done = subprocess.run([sys.executable, ROOT / 'tests/judge/tshark_check.py', *captures],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr)

    def check(self, program, *options, **more):
        self.need(program)
        with self.subTest(program=program, options=options):
            for capture in self.captures():
                capture.unlink()
            self.run_pair(program, *options, runs=(self.pcap, self.pcap))
            self.judge(**more)

    def test_pingpong(self):
        for service in ('rc', 'uc', 'srq', 'xsrq'):
            self.check(f'ibv_{service}_pingpong', '-g', 0, '-s', 20000, '-n', 50)
        self.check('ibv_ud_pingpong', '-g', 0, '-s', 1000, '-n', 50)

    def test_perftest(self):
        self.check('ib_send_bw', *PERFTEST, '-s', 20000)
        self.check('ib_write_bw', *PERFTEST, '-s', 20000, '-q', 4)
        self.check('ib_read_bw', *PERFTEST, '-s', 20000)
        self.check('ib_atomic_bw', *PERFTEST)
        self.check('ib_send_lat', *PERFTEST, '-c', 'UD', '-s', 64)

    def test_ucx(self):
        batch = self.lab.path('batch')
        batch.write_text('am -t am_lat -D zcopy -s 8000\nput -t put_bw -D zcopy -s 30000\n'
                         'get -t get -D zcopy -s 30000\ncswap -t cswap -s 8\n')
        self.check('ucx_perftest', *without_mpi(), '-b', batch, '-n', 20, '-w', 2, '-O', 1, '-d', 'rh0:1',
                   '-x', 'rc_verbs')

    def run_peers(self, *options):
        """Two of rc_peer, to success; the summary of the client."""
        if not RC_PEER.exists():
            self.skipTest(f'{RC_PEER} is not built')
        server = self.start_verbs('server', RC_PEER, options=self.pcap)
        port = wait_until(lambda: listening_port(server.output()), LIMIT_S, 'the server listens')
        client = self.start_verbs('client', RC_PEER, '-p', port, *options, '127.0.0.1',
                                  options=self.pcap)
        for process in (client, server):
            self.assertEqual(process.wait(LIMIT_S), 0, process.output()[-2000:] + process.messages())
        return json.loads(client.output().splitlines()[-1])

    def test_every_operation(self):
        summary = self.run_peers('--operations', 100, '--max-length', 20000)
        self.assertTrue(summary['ok'])
        requested = summary['requested']['operations']
        for kind in ('send', 'send_imm', 'send_inv', 'write', 'write_imm', 'read', 'compare_swap',
                     'fetch_add'):
            self.assertEqual(requested[kind], 100, kind)
        self.judge(least=1000)

    def test_every_operation_with_loss(self):
        self.pcap += ('--faults', 'loss=1%')
        summary = self.run_peers('--operations', 100, '--max-length', 20000, '--timeout', 12)
        self.assertTrue(summary['ok'])
        self.judge('--lossy', 'both', least=1000)

    def test_refusals(self):
        self.assertTrue(self.run_peers('--negative', 'all')['ok'])


def listening_port(text):
    """The port of the line {"listening":PORT}, once it is there."""
    return next((json.loads(line)['listening'] for line in text.splitlines(keepends=True)
                 if line.startswith('{"listening"') and line.endswith('\n')), None)


if __name__ == '__main__':
    unittest.main(verbosity=2)
