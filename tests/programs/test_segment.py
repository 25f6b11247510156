# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Programs that meet in shared memory (--device segment): any number, with no switch and no socket,
one address for all, and nothing left of those that were killed."""

import fcntl
import json
import os
import pathlib
import random
import signal
import struct

import support
from support import LIMIT_S, wait_until

# A second, all retries together: a busy machine may leave a process without a core for long.
PATIENT = ('--ack-timeout', '15')


class Segment(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.lab.path('segment'))
        self.at_segment = ('env', f'ROCKHOPPER_SEGMENT={self.folder}')
        self.captures = 0

    def start_pair(self, program, *common, server=(), client=(), family=4):
        """The two ends find each other without any option but the device."""
        del family
        common = ('--device', 'segment', *common)
        server_process, port = self.start_server(program, *common, *server,
                                                 prefix=self.at_segment)
        client_process = self.start(program, '-p', port, *common, *client, 'localhost',
                                    prefix=self.at_segment)
        return server_process, client_process

    def files(self):
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []

    def test_each_transport(self):
        for ends in self.ping_pongs():
            self.assertEqual({end['local']['gid'] for end in ends}, {'10.42.0.1'})
            numbers = {end['local']['qpn'] % 2**16 for end in ends}
            self.assertEqual(len(numbers), 2, 'of one port')
        self.assertEqual(self.files(), ['table'], 'all have left')

    def test_operations(self):
        for operation in ('send', 'write', 'read', 'faa'):
            with self.subTest(operation=operation):
                ends = self.run_pair('rh-perf', '--op', operation, '-n', 500)
                self.assert_versions('rh-perf', ends)

    def test_captures(self):
        captures = [self.lab.path(f'{end}.pcapng') for end in ('server', 'client')]
        self.run_pair('rh-pingpong', '-c', '-s', 9000, '-n', 300, *PATIENT,
                      server=('--pcap', captures[0]), client=('--pcap', captures[1]))
        for capture in captures:
            self.assertGreater(self.checked(capture)['judged_packets'], 2 * 300 * 9)

    def test_faults(self):
        self.run_pair('rh-pingpong', '-c', '-s', 9000, '-n', 300, *PATIENT,
                      client=('--faults', 'loss=2%,dup=2%,reorder=2%:1ms'))

    def test_many_pairs_at_once(self):
        pairs = [self.start_pair('rh-pingpong', '--json', '-c', '-s', 5000, '-n', 300, *PATIENT)
                 for _ in range(4)]
        for pair in pairs:
            for process in pair:
                self.assert_status(process, 0)
        self.assertEqual(self.files(), ['table'])

    def test_killed_ones_harm_no_other(self):
        survivors = self.start_pair('rh-pingpong', '-c', '-s', 5000, '-n', 20_000,
                                    '--ack-timeout', 18)
        for end in (0, 1, 0, 1):
            before = set(self.files())
            victims = self.start_pair('rh-pingpong', '-n', 2**31 - 1)
            # Each member's file has a name of its own.
            wait_until(lambda: len(set(self.files()) - before) >= 2, LIMIT_S, 'both have joined')
            victims[end].child.send_signal(signal.SIGKILL)
            victims[end].wait(LIMIT_S)
            victims[1 - end].child.send_signal(random.choice([signal.SIGKILL, signal.SIGTERM]))
            victims[1 - end].wait(LIMIT_S)
        for process in survivors:
            self.assert_status(process, 0, 2 * LIMIT_S)
        self.run_pair('rh-pingpong', '-n', 10)
        self.assertEqual(self.files(), ['table'], 'who comes cleans up after the dead')

    def test_publisher_and_subscribers(self):
        lines = [f'line {number}\n' for number in range(2000)]
        source = pathlib.Path(self.lab.path('lines'))
        source.write_text(''.join(lines), encoding='utf-8')
        publisher, port = self.start_server(
            'rh-publish', '--device', 'segment', '--store', 'news=1MiB', '--input', f'lines:{source}',
            '--wait', 2, '--linger', LIMIT_S, prefix=self.at_segment)
        subscribers = [self.start('rh-subscribe', '-p', port, '--device', 'segment', '--store', 'news',
                                  '--from', 'oldest', 'localhost', prefix=self.at_segment) for _ in range(2)]
        for subscriber in subscribers:
            self.assert_status(subscriber, 0)
            self.assertEqual(subscriber.output().splitlines(True), lines)
        self.assert_status(publisher, 0)

    def test_segment_of_another_version(self):
        """In use it is refused; otherwise it is what an older release has left, and is replaced."""
        self.folder.mkdir(mode=0o700)
        with open(self.folder / 'table', 'w+b') as table:
            table.write(bytes(100))
            table.flush()
            lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 3, 1, 0)
            fcntl.fcntl(table, fcntl.F_OFD_SETLK, lock)
            process = self.run_program('rh-pingpong', '--device', 'segment', prefix=self.at_segment)
            self.assert_failed(process, 'not a table of this version')
        process = self.start('rh-pingpong', '-p', 0, '--device', 'segment', prefix=self.at_segment)
        wait_until(lambda: support.listening_port(process), LIMIT_S, 'it listens')

    def test_folder_that_others_may_enter(self):
        self.folder.mkdir()
        self.folder.chmod(0o755)
        process = self.run_program('rh-pingpong', '--device', 'segment', prefix=self.at_segment)
        self.assert_failed(process, 'not a directory of this user alone')

    def test_json_names_the_link(self):
        _, client = self.run_pair('rh-perf', '-n', 100)
        self.assertIn('segment', json.dumps(client))


if __name__ == '__main__':
    support.main()
