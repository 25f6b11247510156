# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What users tripped over, kind by kind: where it is written, what two ends of which one is another
than was meant say, and who waits for whom. docs/testing.md has the list."""

import json
import os
import re
import signal
import subprocess
import threading

import support
from support import LIMIT_S, PROGRAMS, pcapng_packets, wait_until

QUICK = ('--connect-timeout', 1)


def listens(process):
    return 'listening on' in process.messages()


class StandardOutput(support.ProgramTest):
    """A capture, a log or a chart on standard output: nothing else is there."""

    def pair(self, program, output, server=('-n', 10), client=('-n', 10)):
        socket = self.lab.path(self.lab.unique('memif') + '.sock')
        listening, port = self.start_server(program, '--memif-socket', socket, *server)
        with open(output, 'wb') as file:
            done = subprocess.run(
                [str(word) for word in (PROGRAMS / program, '-p', port, '--memif-socket', socket,
                                        *client, 'localhost')],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, text=True,
                check=False, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_status(listening, 0)
        return done.stderr

    def test_captures(self):
        for name in ('-', '/dev/stdout', '/dev/fd/1'):
            with self.subTest(name=name):
                path = self.lab.path('capture')
                said = self.pair('rh-pingpong', path, client=('-n', 10, '--pcap', name))
                self.assertGreater(pcapng_packets(path), 20)
                self.assertIn('bytes', said, 'the table is on standard error')
                self.checked(path)
        self.assertFalse(self.lab.path('-').exists())

    def test_captures_of_other_programs(self):
        for program, options in (('rh-perf', ('-n', 10, '--op', 'write', '--json')),
                                 ('rh-ami', ('-n', 10,))):
            with self.subTest(program=program):
                path = self.lab.path('capture')
                self.pair(program, path, server=(), client=(*options, '--pcap', '-'))
                self.assertGreater(pcapng_packets(path), 20)

    def test_a_pipe_that_tshark_reads(self):
        """The point of it: to look while it runs."""
        socket = self.lab.path('memif.sock')
        server, port = self.start_server('rh-pingpong', '--memif-socket', socket, '-n', 5)
        client = subprocess.Popen(
            [PROGRAMS / 'rh-pingpong', '-p', str(port), '--memif-socket', socket, '-n', '5',
             '--pcap', '-', 'localhost'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        seen = subprocess.run(['tshark', '-r', '-', '-Y', 'infiniband', '-T', 'fields', '-e',
                               'infiniband.bth.opcode'], stdin=client.stdout, capture_output=True,
                              text=True, check=True, timeout=LIMIT_S)
        client.stdout.close()
        self.assertEqual(client.wait(LIMIT_S), 0)
        self.assert_status(server, 0)
        self.assertGreater(len(seen.stdout.split()), 10)

    def test_logs_and_charts(self):
        letters = support.ROOT / 'tests/data/workflows/letters.json'
        log = self.run_program('rh-dag', 'run-local', letters, '--log', '-')
        self.assert_status(log, 0)
        lines = [json.loads(line) for line in log.output().splitlines()]
        self.assertEqual(len(lines), 1 + 5)
        self.assertIn('digest', log.messages())
        path = self.lab.path('log')
        path.write_text(log.output())
        chart = self.run_program('rh-dag', 'report', path, '--gantt', '-')
        self.assert_status(chart, 0)
        self.assertTrue(chart.output().startswith('<svg') or chart.output().startswith('<?xml'))
        self.assertIn('makespan', chart.messages())

    def test_where_there_are_several_files(self):
        scenario = support.ROOT / 'apps/rh_sim/scenarios'
        scenario = sorted(scenario.glob('*.json'))[0]
        for program, arguments in (('rh-sim', (scenario, '--pcap', '-')),
                                   ('rh-sim', (scenario, '--plot', '/dev/stdout')),
                                   ('rh-switch', ('--memif', 2, '--pcap', '-')),
                                   ('rh-run', ('--pcap', '-', 'true'))):
            with self.subTest(program=program):
                process = self.run_program(program, *arguments)
                self.assert_status(process, 2)
                self.assertRegex(process.messages(), 'standard output')


class Captures(support.ProgramTest):
    def test_a_fifo_that_nobody_reads(self):
        """It is said who is waited for; a reader makes it go on, a signal ends it."""
        fifo = self.lab.path('fifo')
        os.mkfifo(fifo)
        process = self.start('rh-pingpong', '--memif-socket', self.lab.path('s'), '--pcap', fifo)
        wait_until(lambda: f'waiting for a reader of the FIFO {fifo}' in process.messages(),
                   LIMIT_S, 'it says so')
        reader = threading.Thread(target=lambda: fifo.read_bytes(), daemon=True)
        reader.start()
        wait_until(lambda: listens(process), LIMIT_S, 'it goes on')
        process.child.send_signal(signal.SIGTERM)
        self.assert_failed(process, 'SIGTERM')
        reader.join(LIMIT_S)
        process = self.start('rh-pingpong', '--memif-socket', self.lab.path('t'), '--pcap', fifo)
        wait_until(lambda: 'waiting for a reader' in process.messages(), LIMIT_S, 'it says so')
        process.child.send_signal(signal.SIGINT)
        self.assert_failed(process, 'SIGINT')

    def test_a_capture_that_ends_early(self):
        """The data has gone its way, and yet something that was asked for is missing."""
        fifo = self.lab.path('fifo')
        os.mkfifo(fifo)
        socket = self.lab.path('memif.sock')
        server, port = self.start_server('rh-pingpong', '--memif-socket', socket)
        client = self.start('rh-pingpong', '-p', port, '--memif-socket', socket, '--pcap', fifo,
                            'localhost')
        with open(fifo, 'rb') as file:
            self.assertEqual(file.read(4), b'\n\r\r\n')
        self.assert_failed(client, rf'the capture {fifo} is not complete: \d+ packets are missing')
        self.assert_status(server, 0)


class Ends(support.ProgramTest):
    """Two ends that do not fit: both say what, and what is known before the first packet is said
    before it."""

    def failing_pair(self, program, server, client, *, server_says, client_says, ip=True):
        socket = self.lab.path(self.lab.unique('memif') + '.sock')
        listening, port = self.start_server(program, '--memif-socket', socket, *server)
        asking = self.start(program, '-p', port, '--memif-socket', socket, *client, 'localhost')
        self.assert_failed(asking, client_says)
        self.assert_failed(listening, server_says)

    def test_one_address_at_both(self):
        ip = ('--ip', '10.42.0.7/24')
        for program in ('rh-pingpong', 'rh-perf', 'rh-ami'):
            with self.subTest(program=program):
                self.failing_pair(program, ip, ip, server_says='both ends have the address 10.42.0.7',
                                  client_says='both ends have the address 10.42.0.7')

    def test_no_way_to_the_peer(self):
        for program in ('rh-pingpong', 'rh-perf', 'rh-ami'):
            with self.subTest(program=program):
                self.failing_pair(program, (), ('--ip', '10.43.0.2/24'),
                                  server_says='no way to 10.43.0.2: .* no --gateway',
                                  client_says='no way to')

    def test_transports_and_sizes(self):
        for server, client, said in (
                (('--transport', 'ud', '-s', 1000), ('-s', 1000), '--transport'),
                (('--transport', 'rc'), ('--transport', 'uc', '--timeout', 2), '--transport'),
                (('-s', 64), ('-s', 65), '--size 65'),
                (('-s', 65), ('-s', 64), '--size')):
            with self.subTest(said=said):
                self.failing_pair('rh-pingpong', server, client, client_says=said, server_says=said)
        self.failing_pair('rh-perf', ('--transport', 'dc'), (), client_says='--transport rc',
                          server_says='--transport rc')

    def test_another_vlan(self):
        """Nobody knows before: what was dropped, and why, is said with the error."""
        self.failing_pair('rh-pingpong', ('--vlan', 5), (), client_says='retry',
                          server_says='ethernet_wrong_vlan')

    def test_a_server_that_nobody_comes_to(self):
        """What waits for a peer is no backpressure."""
        server, _ = self.start_server('rh-perf', '--memif-socket', self.lab.path('s'), '--stats', 1)
        wait_until(lambda: server.messages().count('tx 0 packets/s') > 2, LIMIT_S, 'it waits')
        server.child.send_signal(signal.SIGTERM)
        self.assert_failed(server, 'SIGTERM')
        self.assertNotIn('tx_backpressure', server.messages())


class Waiting(support.ProgramTest):
    def test_servers_say_where(self):
        for program in ('rh-perf', 'rh-pingpong', 'rh-ami'):
            with self.subTest(program=program):
                socket = self.lab.path(program)
                server = self.start(program, '-p', 0, '--memif-socket', socket)
                wait_until(lambda s=server: listens(s), LIMIT_S, 'it listens')
                self.assertRegex(server.messages(),
                                 rf'listening on TCP port \d+, memif socket {socket}, id 0')
                server.child.send_signal(signal.SIGTERM)
                server.wait(LIMIT_S)

    def test_clients_say_for_whom(self):
        socket = self.lab.path('nobody')
        client = self.start('rh-pingpong', '--memif-socket', socket, '--connect-timeout', 3,
                            'localhost')
        self.assert_failed(client, f'no memif server at {socket}')
        self.assertIn(f'waiting for the other end of the link: memif socket {socket}, id 0',
                      client.messages())

    def test_a_link_that_the_server_does_not_have(self):
        socket = self.lab.path('memif.sock')
        server, port = self.start_server('rh-pingpong', '--memif-socket', socket)
        client = self.start('rh-pingpong', '--memif-socket', socket, '--memif-id', 3, '-p', port,
                            '--connect-timeout', 2, 'localhost')
        self.assert_failed(client, 'no link with id 3')
        server.child.send_signal(signal.SIGTERM)
        server.wait(LIMIT_S)

    def test_rping_serves_one_after_another(self):
        server = self.start('rh-cm', '-P', '-V', '--memif-socket', self.lab.path('cm.sock'))
        wait_until(lambda: listens(server), LIMIT_S, 'it listens')
        for _ in range(3):
            client = self.start('rh-cm', '-V', '-C', 3, '--memif-socket', self.lab.path('cm.sock'),
                                '10.42.0.1')
            self.assert_status(client, 0)
        server.child.send_signal(signal.SIGTERM)
        self.assert_status(server, 0)


class Words(support.ProgramTest):
    """The text names what is wrong."""

    def test_arguments(self):
        for program, arguments, said in (
                ('rh-perf', ('',), 'host: it is empty'),
                ('rh-perf', ('--op', 'all,lock'), '--op all,lock: all stands alone'),
                ('rh-dag', ('frob',), 'frob: there is no such command; there are .*serve, '),
                ('rh-subscribe', ('--watch', '1', 'localhost'),
                 'localhost; --watch takes no value, and 1 follows it'),
                ('rh-dag', ('get',), r'\(see rh-dag get --help\)'),
                ('rh-perf', ('-n', '18446744073709551615'), '--iters: .*1000000000000000')):
            with self.subTest(program=program, arguments=arguments):
                self.assertRegex(self.assert_refused(program, *arguments), said)

    def test_a_bad_file_has_nothing_to_do_with_help(self):
        path = self.lab.path('bad.json')
        path.write_text('{}')
        for program, command in (('rh-dag', ('check',)), ('rh-sim', ())):
            process = self.run_program(program, *command, path)
            self.assert_status(process, 2)
            self.assertNotIn('--help', process.messages())
            self.assertIn(str(path), process.messages())

    def test_an_address_of_a_link(self):
        process = self.run_program('rh-pingpong', *QUICK, 'fe80::1')
        self.assertNotEqual(process.child.returncode, 0)
        self.assertIn('fe80::1%eth0', process.messages())


if __name__ == '__main__':
    support.main()
