# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-ami against itself over memif: every operation, everything compared."""

import itertools
import json
import re
import signal

import support
from support import LIMIT_S, LOSSY, PATIENT, wait_until

OPERATIONS = ['am_lat', 'am_bw', 'put', 'put_notify', 'get', 'fetch_add']
MESSAGES = ('am_lat', 'am_bw')
# With the slot, in one packet of the default path MTU, and beyond eager_bytes.
SIZES = (8, 2000, 10000)
MANY = 10_000
CALLED = r'; callbacks called with an error: \d+ [^;]*$'

BAD = [
    (['--op', 'fly'], 'fly'),
    (['--op', 'put,'], '--op'),
    (['--op', 'lat'], 'lat'),
    (['-s', '4x'], '4x'),
    (['-s', '17M'], '17M'),
    (['-n', '0'], '--iters'),
    (['-n', '5', '-D', '5'], '--duration'),
    (['--mode', 'bits'], '--mode'),
    (['--slots', '1000'], '--slots 1000'),
    (['--slots', '1'], '--slots'),
    (['--threads', '3'], '--threads'),
    (['--level', 'done'], '--level'),
    (['--callbacks', '101'], '--callbacks'),
    (['-t', '0'], '--window'),
    (['--check', '-s', '16M', '-t', '128'], '--window'),
    (['--transport', 'ud'], '--transport'),
    (['--transport', 'dc', '--pkey-index', '1'], '--pkey-index'),
    (['-m', '1000'], '1000'),
    (['-m', '4096', '--link-mtu', '1500'], '--link-mtu'),
    (['a', 'b'], 'b'),
]


class Ami(support.ProgramTest):
    def check_counts(self, server, client):
        """AM-2, AM-3, AM-9: a descriptor for each instruction, one more for each callback."""
        results = client['results']
        self.assertEqual(server['results'], results)
        instructions = sum(result['iterations'] for result in results)
        callbacks = sum(result['callbacks'] for result in results)
        pairs = callbacks if client['mode'] == 'mask' else 0
        self.assertEqual(client['counters']['completion_descriptors'], pairs)
        self.assertEqual(client['counters']['descriptors'], instructions + pairs)
        self.assertEqual(client['counters']['transfers_failed'], 0)
        self.assertEqual(server['handled'], sum(result['iterations'] for result in results
                                                if result['op'] in MESSAGES))

    def check_content(self, client):
        """AM-22, AM-26, AM-29: what a callback tells of was there, in the other process's memory
        itself."""
        self.assertTrue(client['peer_memory_seen'])
        for result in client['results']:
            self.assertTrue(result['checked'])
            seen = (result['op'] in ('get', 'fetch_add')
                    or client['level'] != 'local' and result['op'] in ('put', 'put_notify')
                    or client['level'] == 'handled' and result['op'] == 'am_bw')
            self.assertEqual(result['seen_in_callbacks'], result['callbacks'] if seen else 0,
                             result)

    def run_checked(self, *common, client=()):
        """Runs a pair that compares everything, and counts; the client's results."""
        patience = LOSSY if '--faults' in common else PATIENT
        server, report = self.run_pair('rh-ami', *common,
                                       client=('--warmup', 0, '--check', *patience, *client))
        self.check_counts(server, report)
        self.check_content(report)
        return report['results']

    def test_all_operations(self):
        """AM-1 to AM-9, AM-12, AM-14, AM-22, AM-26, AM-27, AM-29, AM-30, AM-31, AM-32: both
        transports, both completion modes, one thread and two."""
        sizes = ','.join(map(str, SIZES))
        expected = [(op, size) for op in OPERATIONS[:-1] for size in SIZES] + [('fetch_add', 8)]
        for transport, mode, threads in itertools.product(('rc', 'dc'), ('mask', 'counter'),
                                                          (1, 2)):
            with self.subTest(transport=transport, mode=mode, threads=threads):
                results = self.run_checked(
                    '--transport', transport, '--threads', threads,
                    client=('--op', 'all', '-s', sizes, '-n', 150, '--mode', mode, '-t', 32,
                            '--callbacks', 40, '--level', 'handled'))
                found = [(result['op'], result['size']) for result in results]
                self.assertEqual(found, expected)
                for result in results:
                    self.assertTrue(0 < result['callbacks'] < result['iterations'], result)
                    self.assertEqual('latency_us' in result, result['op'] == 'am_lat')

    def test_levels(self):
        """AM-26."""
        for level in ('local', 'remote', 'handled'):
            with self.subTest(level=level):
                self.run_checked(client=('--op', 'am_bw,put', '-s', '0,8,3000,20000', '-n', 100,
                                         '--level', level))

    def test_small_fifos_and_windows(self):
        """AM-10, AM-13, AM-20, AM-24, AM-28: the FIFO wraps and is full nearly all the time."""
        for slots, window in ((2, 64), (4, 3), (8, 1)):
            for mode in ('mask', 'counter'):
                with self.subTest(slots=slots, window=window, mode=mode):
                    self.run_checked('--slots', slots, '--mode', mode,
                                     client=('--op', 'am_bw,put,fetch_add', '-n', 500,
                                             '-t', window, '--callbacks', 70))

    def test_callbacks(self):
        """AM-9: all, or one in a window."""
        for percent, expected in ((100, 1000), (0, 10)):
            with self.subTest(percent=percent):
                result, = self.run_checked(client=('--op', 'put', '-n', 1000, '-t', 100,
                                                   '--callbacks', percent))
                self.assertEqual(result['callbacks'], expected)

    def test_loss_duplication_reordering_corruption(self):
        for transport in ('rc', 'dc'):
            with self.subTest(transport=transport):
                self.run_checked(
                    '--transport', transport, '--faults',
                    'loss=1%,dup=1%,reorder=1%:1ms,corrupt=0.5%',
                    client=('--op', 'all', '-s', '8,10000', '-n', 200, '--level', 'handled'))

    def test_figures(self):
        _, client = self.run_pair('rh-ami', client=('--op', 'am_lat,am_bw,get', '-s', '8,5000',
                                                    '-D', 0.2, *PATIENT))
        for result in client['results']:
            self.assertGreaterEqual(result['seconds'], 0.2)
            self.assertAlmostEqual(result['mops'], result['iterations'] / result['seconds'] * 1e-6,
                                   delta=result['mops'] * 1e-6)
            self.assertAlmostEqual(result['gbit_per_s'], result['mops'] * result['size'] * 8e-3,
                                   delta=result['gbit_per_s'] * 1e-6)
            if result['op'] == 'am_lat':
                latency = result['latency_us']
                order = [latency[key] for key in ('min', 'p50', 'p90', 'p99', 'p99.9', 'max')]
                self.assertEqual(order, sorted(order))
                self.assertGreater(latency['min'], 0)

    def test_table(self):
        server, client = self.start_pair('rh-ami', client=('--op', 'am_lat,put', '-n', 100,
                                                         *PATIENT))
        for process in (client, server):
            self.assert_status(process, 0)
        self.assertEqual(len(re.findall(r'^ 8 +100 ', client.output(), re.MULTILINE)), 2)
        self.assertEqual(server.output().count('served '), 2)

    def test_ipv6_path_mtu_capture_and_trace(self):
        capture = self.lab.path('client.pcapng')
        server, client = self.start_pair(
            'rh-ami', '--json', family=6,
            client=('--op', 'put', '-s', 3000, '-n', 20, '-m', 1024, '--pcap', capture,
                    '--trace', 'all', '--stats', 1, *PATIENT))
        for process in (client, server):
            self.assert_status(process, 0)
        self.assertRegex(client.messages(), r'(?m)^  ami +descriptors +\d+$')
        self.assertEqual(json.loads(client.output())['path_mtu'], 1024)
        self.assertGreater(self.checked(capture)['judged_packets'], 60)

    def test_ends_that_differ(self):
        server, client = self.start_pair('rh-ami', client=('--transport', 'dc'))
        self.assert_failed(client, 'the client has --transport dc, the server rc')
        self.assert_failed(server, 'the client has --transport dc, the server rc')

    def test_bad_arguments(self):
        for arguments, named in BAD:
            with self.subTest(arguments=arguments):
                process = self.run_program('rh-ami', *arguments)
                self.assert_status(process, 2)
                self.assertEqual(process.output(), '')
                line, = process.messages().splitlines()
                self.assertTrue(line.startswith('rh-ami: '), line)
                self.assertIn(named, line)

    def test_help(self):
        process = self.run_program('rh-ami', '--help')
        self.assert_status(process, 0)
        for part in ('USAGE', 'EXAMPLES', 'EXIT STATUS', '--callbacks', '--pcap', '--json'):
            self.assertIn(part, process.output())
        self.assertLessEqual(max(map(len, process.output().splitlines())), 80)


class Ends(support.ProgramTest):
    """AM-22: whoever goes, each callback is called once, and the rest says so in one line."""

    def start_long(self, *common, operation='am_bw', client=()):
        """A pair in the middle of a run that has no end."""
        server, client = self.start_pair(
            'rh-ami', *common, client=('--op', operation, '-D', 1000, '-t', MANY, '--slots',
                                       1 << 15, '--stats', 0.1, *PATIENT, *client))
        wait_until(lambda: self.is_busy(client), LIMIT_S, 'the run has begun')
        return server, client

    def is_busy(self, client):
        self.assertIsNone(client.child.poll(), client.messages())
        return re.search(r'^tx [1-9]\d{2,} packets/s', client.messages(), re.MULTILINE)

    def called(self, client):
        """How many callbacks were called with an error, by name."""
        last = client.messages().strip().splitlines()[-1]
        self.assertNotIn('never called', last)
        return {name: int(count) for count, name in
                re.findall(r'(\d+) ([a-z ]+)', last.partition('with an error: ')[2])}

    def test_a_server_that_does_not_answer(self):
        for transport, mode, threads in itertools.product(('rc', 'dc'), ('mask', 'counter'),
                                                          (1, 2)):
            with self.subTest(transport=transport, mode=mode, threads=threads):
                server, client = self.start_long(
                    '--transport', transport,
                    client=('--mode', mode, '--threads', threads, '--level', 'handled'))
                server.child.send_signal(signal.SIGSTOP)
                self.assert_failed(client, '^rh-ami: the server does not answer' + CALLED)
                server.child.kill()
                # The window was full when the transport gave up.
                self.assertEqual(self.called(client), {'unreachable': MANY})

    def test_an_instruction_without_callback_is_not_waited_for(self):
        server, client = self.start_long(operation='am_lat', client=('--callbacks', 0))
        server.child.send_signal(signal.SIGSTOP)
        self.assert_failed(client, '^rh-ami: the server does not answer$')
        server.child.kill()

    def test_a_killed_server(self):
        for transport in ('rc', 'dc'):
            with self.subTest(transport=transport):
                server, client = self.start_long('--transport', transport)
                server.child.kill()
                self.assert_failed(client, '^rh-ami: .*(closed its connection|the peer has gone|'
                                   'does not answer)' + CALLED)
                self.assertEqual(set(self.called(client)), {'unreachable'})

    def test_a_killed_client(self):
        server, client = self.start_long()
        client.child.kill()
        self.assert_failed(server, '^rh-ami: the peer closed its connection$')

    def test_an_interrupted_client(self):
        for threads in (1, 2):
            with self.subTest(threads=threads):
                server, client = self.start_long(client=('--threads', threads))
                client.child.send_signal(signal.SIGINT)
                self.assert_failed(client, '^rh-ami: interrupted by SIGINT')
                self.assertLessEqual(set(self.called(client)), {'canceled'})
                self.assert_failed(server, '^rh-ami: the peer reports: interrupted by SIGINT')

    def test_an_interrupted_server(self):
        for threads in (1, 2):
            with self.subTest(threads=threads):
                server, client = self.start_long('--threads', threads)
                server.child.send_signal(signal.SIGINT)
                self.assert_failed(server, '^rh-ami: interrupted by SIGINT$')
                self.assert_failed(client, '^rh-ami: the peer reports: interrupted by SIGINT')
                self.assertLessEqual(set(self.called(client)), {'unreachable'})

    def test_a_server_that_waits_is_interrupted(self):
        server, _ = self.start_server('rh-ami', '--memif-socket', self.lab.path('memif.sock'))
        server.child.send_signal(signal.SIGTERM)
        self.assert_failed(server, '^rh-ami: interrupted by SIGTERM$')


if __name__ == '__main__':
    support.main()
