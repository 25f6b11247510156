#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-stats --top: what it shows on a terminal and elsewhere, and that a terminal is as it was when it has ended."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import support
from stats_support import WebTest
from support import LIMIT_S, PROGRAMS

ENTER, LEAVE = b'\033[?1049h', b'\033[?1049l'


class Top(WebTest):
    def resize(self, terminal, lines, columns):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))

    def start_top(self, *arguments, lines=24, columns=120):
        """rh-stats --top with a terminal of its own."""
        self.terminal, end = pty.openpty()
        self.addCleanup(os.close, self.terminal)
        self.resize(self.terminal, lines, columns)
        self.before = termios.tcgetattr(self.terminal)
        self.child = subprocess.Popen(
            [PROGRAMS / 'rh-stats', '--top', '--watch', '0.2', *arguments], stdin=end, stdout=end, stderr=end,
            env={**os.environ, 'TERM': 'xterm'}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(end)
        self.addCleanup(self.child.wait)
        self.addCleanup(self.child.kill)
        self.shown = b''

    def read_until(self, is_there, what):
        end_s = time.monotonic() + LIMIT_S
        while not is_there():
            self.assertLess(time.monotonic(), end_s, f'{what}: {self.shown[-2000:]}')
            if select.select([self.terminal], [], [], 1)[0]:
                try:
                    self.shown += os.read(self.terminal, 65536)
                except OSError:
                    self.assertTrue(is_there(), f'{what}: the terminal has ended: {self.shown[-2000:]}')

    def last_screen(self):
        """The lines of the last screen that is whole."""
        whole = self.shown.rpartition(b'\033[J')[0]
        return whole.rpartition(b'\033[H')[2].replace(b'\033[K', b'').replace(b'\033[1m', b'').replace(
            b'\033[0m', b'').decode().split('\r\r\n' if b'\r\r\n' in whole else '\r\n')

    def assert_restored(self):
        self.read_until(lambda: LEAVE in self.shown, 'the screen is left')
        self.assertLess(self.shown.index(ENTER), self.shown.rindex(LEAVE))
        self.assertTrue(self.shown.rstrip(b'\r\n').endswith(LEAVE), self.shown[-100:])
        self.assertEqual(termios.tcgetattr(self.terminal), self.before)

    def test_terminal(self):
        server, client = self.start_perf('-q', 3, loss='1%')
        self.start_top()

        def pids():
            lines = self.last_screen()
            return [int(line.split()[0]) for line in lines[3:] if line.split()[:1] and line.split()[0].isdigit() and
                    'rh-perf' in line]
        # The receiver of data is first, and the sender is when sorted by what is sent.
        ours = {server.child.pid, client.child.pid}
        self.read_until(lambda: [pid for pid in pids() if pid in ours] == [server.child.pid, client.child.pid],
                        'the receiver is first')
        os.write(self.terminal, b's')
        self.read_until(lambda: [pid for pid in pids() if pid in ours] == [client.child.pid, server.child.pid],
                        'the sender is first')
        self.read_until(lambda: any('packets lost by chance' in line for line in self.last_screen()), 'drops are told of')
        self.resize(self.terminal, 6, 40)
        self.read_until(lambda: len(self.last_screen()) <= 6 and max(map(len, self.last_screen())) <= 40, 'it fits')
        os.write(self.terminal, b'q')
        self.assertEqual(self.child.wait(LIMIT_S), 0)
        self.assert_restored()

    def test_ends(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                self.start_top()
                self.read_until(lambda: b'\033[J' in self.shown, 'it is drawn')
                self.child.send_signal(number)
                self.assertEqual(self.child.wait(LIMIT_S), 0)
                self.assert_restored()

    def test_count(self):
        self.start_top('--count', '2')
        self.assertEqual(self.child.wait(LIMIT_S), 0)
        self.assert_restored()

    def test_no_terminal(self):
        server, _ = self.start_server('rh-perf', '--memif-socket', self.lab.path('one.sock'), '--ip', '10.42.0.1/24')
        top = self.run_program('rh-stats', '--top', '--watch', 0.05, '--count', 3, '--pid', server.child.pid)
        self.assert_status(top, 0)
        self.assertEqual(top.output().count(str(server.child.pid)), 3)
        self.assertNotIn('\033', top.output())


if __name__ == '__main__':
    support.main()
