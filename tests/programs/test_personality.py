# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Programs that look and behave like another device, beside an ordinary one: everything arrives and
is right, and the ordinary end's capture is judged."""

import itertools
import subprocess
import sys

import support
from support import ROOT

PERSONALITIES = sorted(path.stem for path in (ROOT / 'apps/common/personalities').glob('*.json'))
CHECKER = ROOT / 'tests/judge/check_capture.py'


class Personalities(support.ProgramTest):
    def pair(self, personality, operation, device_asks):
        capture = self.lab.path(self.lab.unique('ordinary') + '.pcapng')
        played = ('--personality', personality)
        ordinary = ('--pcap', capture)
        server, client = (ordinary, played) if device_asks else (played, ordinary)
        self.run_pair('rh-perf', '--op', operation, '-s', 4096, '-n', 300,
                      server=server, client=client)
        return capture

    def assert_clean(self, capture, own):
        done = subprocess.run([sys.executable, CHECKER, '--endpoint', own, '--queued', '64', capture],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_device(self):
        runs = itertools.product(PERSONALITIES, ('write', 'read', 'send'))
        for number, (personality, operation) in enumerate(runs):
            device_asks = number % 2 == 0
            with self.subTest(personality=personality, operation=operation, device_asks=device_asks):
                capture = self.pair(personality, operation, device_asks)
                self.assert_clean(capture, support.ADDRESSES[4][not device_asks].split('/')[0])

    def test_what_it_does_not_serve_is_said(self):
        server, client = self.start_pair('rh-perf', '--op', 'faa', '-n', 10, server=('--personality', 'e810'))
        self.assert_failed(client, 'remote invalid request')
        server.wait(support.LIMIT_S)

    def test_bad_ones(self):
        for text, said in (('cx9', 'mlx5-cx5'), ('e810,credits=31', 'static:N'), ('e810,colour=red', 'colour'),
                           ('/nonexistent/mine.json', '/nonexistent/mine.json')):
            with self.subTest(text=text):
                done = self.run_program('rh-pingpong', '--personality', text)
                self.assert_status(done, 2)
                self.assertRegex(done.messages().splitlines()[-1], f'--personality .*{said}')

    def test_at_udp_sockets(self):
        """The kernel writes the headers there."""
        done = self.run_program('rh-pingpong', '--device', 'udp', '--ip', '127.0.0.1', '--personality', 'ionic')
        self.assert_failed(done, 'the knob source_mac')


if __name__ == '__main__':
    support.main()
