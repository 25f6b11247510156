# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-perf against itself over memif."""

import json
import os
import signal
import unittest

import support
from support import LIMIT_S, LOSSY, PATIENT, pcapng_packets, wait_until

OPERATIONS = ['send', 'write', 'read', 'cas', 'faa']


class Perf(support.ProgramTest):
    def run_perf(self, *client, common=(), **more):
        """The client's results."""
        server, report = self.run_pair('rh-perf', *common, client=client, **more)
        self.assertEqual(server['results'], report['results'])
        for result in report['results']:
            self.assertTrue(result['validated'], result)
        return report['results']

    def check_rates(self, result):
        self.assertAlmostEqual(result['mops'], result['iterations'] / result['seconds'] * 1e-6,
                               delta=result['mops'] * 1e-6)
        self.assertAlmostEqual(result['gbit_per_s'], result['mops'] * result['size'] * 8e-3,
                               delta=result['gbit_per_s'] * 1e-6)

    def test_bandwidth_of_all_operations(self):
        results = self.run_perf('--op', 'all', '-s', 5000, '-n', 500)
        self.assertEqual([result['op'] for result in results], OPERATIONS)
        for result in results:
            self.assertEqual(result['iterations'], 500)
            self.assertEqual(result['size'], 8 if result['op'] in ('cas', 'faa') else 5000)
            self.assertGreaterEqual(result['peak_gbit_per_s'], result['gbit_per_s'] * 0.999)
            self.check_rates(result)

    def test_reports_name_the_version(self):
        self.assert_versions('rh-perf', self.run_pair('rh-perf', client=('-n', 10)))

    def test_latency_of_all_operations(self):
        results = self.run_perf('--op', 'all', '--mode', 'lat', '-s', 64, '-n', 300)
        self.assertEqual([result['op'] for result in results], OPERATIONS)
        for result in results:
            self.assertEqual(result['iterations'], 300)
            latency = result['latency_us']
            order = [latency[key] for key in ('min', 'p50', 'p90', 'p99', 'p99.9', 'max')]
            self.assertEqual(order, sorted(order))
            self.assertGreater(latency['min'], 0)
            self.assertTrue(latency['min'] <= latency['avg'] <= latency['max'])

    def test_sizes(self):
        sizes = [0, 1, 4095, 4096, 4097, 1048576]
        results = self.run_perf('--op', 'send,write,read', '-s', ','.join(map(str, sizes)),
                                '-n', 20)
        self.assertEqual([result['size'] for result in results], 3 * sizes)

    @unittest.skipUnless(os.environ.get('ROCKHOPPER_SOAK') == '1', 'takes 8 GiB and a minute')
    def test_the_longest_message(self):
        """Of InfiniBand: 2^31 bytes, packet by packet."""
        results = self.run_perf('--op', 'send,write,read', '-s', '2GiB', '-n', 1,
                                common=('-u', 20, '--timeout', LIMIT_S))
        self.assertEqual([result['size'] for result in results], 3 * [1 << 31])

    def test_many_queue_pairs_in_both_directions(self):
        results = self.run_perf('--op', 'all', '-q', 5, '-b', '-s', 3000, '-n', 100)
        for result in results:
            self.assertEqual(result['iterations'], 2 * 5 * 100)
            self.check_rates(result)

    def test_duration(self):
        for result in self.run_perf('--op', 'write,faa', '-D', 0.3, '-q', 2):
            self.assertGreaterEqual(result['seconds'], 0.3)
            self.assertGreater(result['iterations'], 0)

    def test_small_windows(self):
        for window in (1, 2, 3):
            with self.subTest(window=window):
                self.run_perf('--op', 'all', '-t', window, '-n', 100, '-r', 1, '-s', 100)

    def test_inline(self):
        self.run_perf('--op', 'send,write', '-I', 64, '-s', '64,65', '-n', 200)

    def test_ipv6_and_path_mtu(self):
        server, client = self.run_pair('rh-perf', client=('--op', 'read', '-m', 1024, '-n', 20),
                                       family=6)
        self.assertEqual(client['path_mtu'], 1024)

    def test_path_mtu_is_the_smaller_ends(self):
        _, client = self.run_pair('rh-perf', server=('--link-mtu', 1500),
                                  client=('-n', 20, '-s', 4096))
        self.assertEqual(client['path_mtu'], 1024)
        server, client = self.start_pair('rh-perf', server=('--link-mtu', 1500),
                                         client=('-m', 2048))
        self.assert_failed(client, 'path MTU 1024, not 2048')
        self.assert_failed(server, 'path MTU')

    def test_loss_duplication_reordering_corruption(self):
        results = self.run_perf(
            '--op', 'all', '-s', 10000, '-n', 200, *LOSSY,
            common=('--faults', 'loss=1%,dup=1%,reorder=1%:1ms,corrupt=0.5%'))
        self.assertEqual([result['op'] for result in results], OPERATIONS)

    def test_selective_repeat(self):
        faults = ('--faults', 'loss=1%,dup=1%,reorder=5%:1ms')
        asked = ('--recovery', 'selective', '--adaptive-timeout')
        server, client = self.start_pair('rh-perf', '--op', 'all', '-s', 20000, '-n', 300,
                                         *LOSSY, *faults, '--stats', 1, '--json', client=asked)
        for process in (client, server):
            self.assert_status(process, 0)
        self.assertEqual(json.loads(client.output())['recovery'], 'selective')
        for process, counters in ((server, ('held_requests', 'send_selective_ack')),
                                  (client, ('held_responses', 'rcvd_selective_ack'))):
            for counter in counters:
                self.assertRegex(process.messages(), rf'{counter} +[1-9]')

    def test_go_back_n_is_the_default(self):
        _, client = self.run_pair('rh-perf', client=('-n', 100))
        self.assertEqual(client['recovery'], 'go-back-n')

    def test_tables(self):
        server, client = self.start_pair('rh-perf', client=('--op', 'write', '-n', 100))
        for process in (client, server):
            self.assert_status(process, 0)
        lines = client.output().splitlines()
        header = lines.index(' #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   '
                             'MsgRate[Mpps]')
        self.assertRegex(lines[header + 1], r'^ 65536 +100 +[\d.]+ +[\d.]+\s+[\d.]+$')


class Locks(support.ProgramTest):
    """--op lock: all queue pairs contend for one lock and the counter behind it. That a run is
    validated means that the counter and the generation of the lock word, which is free, are the
    number of scopes, and that in the last pass each scope found another value."""

    # Where packets are counted nothing is to be sent again, however busy the machine is.
    NO_REPEATS = ('-u', '18')
    FAULTS = ('--faults', 'loss=1%,dup=1%,reorder=1%:1ms,corrupt=0.5%')
    # A stream serves its targets in turns: with one for each target they contend.
    DC = ('--transport', 'dc', '--streams', 8)
    QPS = 8

    def run_locks(self, *client, common=(), qps=QPS):
        _, report = self.run_pair('rh-perf', *common, client=('--op', 'lock', '-q', qps, *client))
        self.assertEqual(len(report['results']), 1)
        result = report['results'][0]
        self.assertTrue(result['validated'])
        self.assertEqual((result['op'], result['size']), ('lock', 8))
        return report['lock_mode'], result

    def check_statistics(self, locks, scopes):
        """`scopes` of each queue pair, each granted and released once."""
        self.assertEqual(locks['grants'], self.QPS * scopes)
        for name in ('failures', 'lease_expiries', 'foreign_releases', 'aborts'):
            self.assertEqual(locks[name], 0, name)

    def check_target(self, *judge, common=()):
        capture = self.lab.path('client.pcapng')
        mode, result = self.run_locks('-n', 300, '--warmup', 20, *self.NO_REPEATS, '--pcap', capture,
                                      common=common)
        self.assertEqual(mode, 'target')
        self.assertEqual(result['iterations'], self.QPS * 300)
        self.check_statistics(result['locks'], 320)
        counted = self.judged_locks(capture, *judge)
        self.assertGreater(counted['granted'], result['locks']['grants'])  # and those of the last pass
        self.assertEqual(counted['pipelined'], counted['granted'])
        self.assertEqual(counted['releases'], counted['granted'])
        self.assertLessEqual(counted['packets_per_granted_scope'], 6)
        self.assertAlmostEqual(result['packets_per_operation'],
                               counted['packets_per_granted_scope'], delta=0.1)

    def test_at_the_target(self):
        """LK-1, LK-2, LK-3, LK-4, LK-6, LK-34: one round trip for each scope, at most 6 packets."""
        self.check_target()

    def test_at_the_target_over_dynamic_connections(self):
        """The same over DC."""
        self.check_target('--dynamic-connections', common=self.DC)

    def test_by_compare_and_swap(self):
        """The scopes of a responder that knows no locks: no packet of theirs is a lock request."""
        capture = self.lab.path('client.pcapng')
        mode, result = self.run_locks('-n', 200, '--lock-mode', 'cas', *self.NO_REPEATS, '--pcap',
                                      capture)
        self.assertEqual(mode, 'cas')
        self.assertEqual(result['iterations'], self.QPS * 200)
        self.assertNotIn('locks', result)
        # A request and a response each for the lock, the access and the release; tries come on top.
        self.assertGreater(result['packets_per_operation'], 6)
        # Without --locks their opcodes are a violation.
        self.checked(capture)

    def test_latency(self):
        """Of one initiator, and of several that contend."""
        for common, client in (((), ()), ((), ('--lock-mode', 'cas')), (self.DC, ())):
            for qps, length in ((1, ('-n', 200)), (self.QPS, ('-n', 200)), (self.QPS, ('-D', 0.2))):
                with self.subTest(common=common, client=client, qps=qps, length=length):
                    _, result = self.run_locks('--mode', 'lat', *length, *client, common=common,
                                               qps=qps)
                    if '-n' in length:
                        self.assertEqual(result['iterations'], qps * 200)
                    latency = result['latency_us']
                    self.assertGreater(latency['min'], 0)
                    self.assertLessEqual(latency['p50'], latency['p99'])

    def test_windows_durations_and_both_directions(self):
        for options in (('-t', 3, '-n', 200), ('-t', 128, '-n', 500), ('-b', '-n', 200),
                        ('-o', 1, '-n', 100), ('-D', 0.3), ('-b', '-D', 0.3, '--lock-mode', 'cas')):
            with self.subTest(options=options):
                _, result = self.run_locks(*options, *PATIENT)
                self.assertGreater(result['iterations'], 0)
        self.run_locks('-t', 4, *PATIENT, '-b', '-n', 100, common=('--transport', 'dc'))

    def test_loss_duplication_reordering_corruption(self):
        """LK-22: nothing is taken, counted or freed twice."""
        for common, client in (((), ()), (self.DC, ()), ((), ('--lock-mode', 'cas'))):
            with self.subTest(common=common, client=client):
                _, result = self.run_locks('-n', 300, '--warmup', 20, *LOSSY, *client,
                                           common=(*common, *self.FAULTS))
                if not client:
                    self.check_statistics(result['locks'], 320)


class PerftestRdmaCm(support.ProgramTest):
    """perftest's exchange between two of us with -R: both connections by the connection manager."""

    def start_ends(self, *common, server=(), client=(), family=4):
        ends = support.ADDRESSES[family]
        common = ('--peer', 'perftest', '-R', '--memif-socket',
                  self.lab.path(self.lab.unique('memif') + '.sock'), *common)
        listening = self.start('rh-perf', '--ip', ends[0], *common, *server)
        wait_until(lambda: self.listens(listening), LIMIT_S, 'rh-perf listens')
        return listening, self.start('rh-perf', '--ip', ends[1], *common, *client,
                                     ends[0].split('/')[0])

    def listens(self, server):
        self.assertIsNone(server.child.poll(), server.messages())
        return 'listening on port' in server.messages()

    def run_ends(self, *common, **more):
        for process in self.start_ends('--json', *common, **more):
            self.assert_status(process, 0)
            report = json.loads(process.output())
            self.assertTrue(report['rdma_cm'])
        return report

    def test_all_operations(self):
        for operation in OPERATIONS:
            for mode, family in (('bw', 4), ('lat', 6)):
                with self.subTest(operation=operation, mode=mode):
                    report = self.run_ends('--op', operation, '--mode', mode, '-n', 100, '-s', 64,
                                           family=family)
                    self.assertEqual(report['operation'], operation)

    def test_loss_duplication_reordering_corruption(self):
        # Until a message of the connection manager is repeated, a second goes by.
        for operation in ('send', 'write'):
            self.run_ends('--op', operation, '-n', 500, '-s', 3000, *LOSSY,
                          '--faults', 'loss=1%,dup=1%,reorder=1%:1ms,corrupt=0.5%')

    def test_path_mtu(self):
        self.assertEqual(self.run_ends('-m', 1024, '-n', 20)['path_mtu'], 1024)

    def test_different_operations_do_not_hang(self):
        server, client = self.start_ends('-n', 20, '--timeout', 2, server=('--op', 'send'),
                                         client=('--op', 'write'))
        for process in (server, client):
            self.assert_failed(process, 'the peer disconnected too early|--timeout|bytes where')

    def test_signals_and_a_killed_peer(self):
        """The other end hears of it from the connection manager, or by the link."""
        for number, operation in ((signal.SIGINT, 'send'), (signal.SIGTERM, 'write'),
                                  (signal.SIGKILL, 'read')):
            with self.subTest(signal=number):
                capture = self.lab.path(self.lab.unique('server') + '.pcapng')
                server, client = self.start_ends('--op', operation, '-n', 10 ** 9, '-s', 8,
                                                 server=('--pcap', capture))
                wait_until(lambda: capture.exists() and capture.stat().st_size > 60000, LIMIT_S,
                           'packets are captured')
                client.child.send_signal(number)
                if number != signal.SIGKILL:
                    self.assert_failed(client, f'interrupted by {number.name}')
                self.assert_failed(server, 'the peer disconnected too early'
                                   if number != signal.SIGKILL else 'the peer|the link went down')


class Report(support.ProgramTest):
    """A page of this end's wire, by another program."""

    def test_a_page_is_made_of_the_capture(self):
        page, folder = self.lab.path('page.html'), self.lab.path('programs')
        folder.mkdir()
        maker = folder / 'rh-report'
        maker.write_text('#!/bin/sh\ntest -s "$1" && test "$2" = -o && cp "$1" "$3"\n')
        maker.chmod(0o755)
        socket = self.lab.path(self.lab.unique('memif') + '.sock')
        ends = support.ADDRESSES[4]
        server, port = self.start_server('rh-perf', '--memif-socket', socket, '--ip', ends[0])
        client = self.start('rh-perf', '-p', port, '--memif-socket', socket, '--ip', ends[1],
                            '--op', 'write', '-n', 50, '--json', '--report', page, 'localhost',
                            prefix=('env', f'PATH={folder}:/usr/bin:/bin'))
        for process in (server, client):
            process.wait(LIMIT_S)
            self.assert_status(process, 0)
        json.loads(client.output())
        self.assertGreater(support.pcapng_packets(page), 50)

    def test_what_cannot_be(self):
        for arguments, message in (
                (('--report', 'x.html'), 'needs the program rh-report'),
                (('--report', 'x.html', '--backend', 'verbs', '-d', 'none'), 'for --backend rock'),
                (('--report', 'x.html', '--pcap', '-'), 'needs the capture in a file')):
            process = self.run_program('rh-perf', *arguments, 'localhost',
                                       prefix=('env', 'PATH=/usr/bin:/bin'))
            self.assert_status(process, 2)
            self.assertRegex(process.messages(), message)


class Ends(support.ProgramTest):
    """What ends a run before its time."""

    def start_endless(self, operation):
        capture = self.lab.path(self.lab.unique('server') + '.pcapng')
        server, client = self.start_pair(
            'rh-perf', server=('--pcap', capture),
            client=('--op', operation, '-D', 3600, '-s', 4096, '--no-validate'))
        wait_until(lambda: capture.exists() and capture.stat().st_size > 20000, LIMIT_S,
                   'packets are captured')
        return server, client, capture

    def test_signals(self):
        for number, operation in ((signal.SIGINT, 'send'), (signal.SIGTERM, 'read')):
            with self.subTest(signal=number):
                server, client, capture = self.start_endless(operation)
                server.child.send_signal(number)
                self.assert_failed(server, f'interrupted by {number.name}')
                self.assertIn('counters that are not 0', server.messages())
                self.assertGreater(pcapng_packets(capture), 10)
                self.assert_failed(client, 'the peer|the link went down|failed')

    def test_killed_peer(self):
        for victim, operation in (('server', 'write'), ('client', 'send')):
            with self.subTest(victim=victim):
                server, client, _ = self.start_endless(operation)
                killed, other = (server, client) if victim == 'server' else (client, server)
                killed.child.kill()
                self.assert_failed(other, 'the peer|the link went down|failed', limit_s=40)

    def test_failure_as_json(self):
        client = self.run_program('rh-perf', '--device', 'net_null0', '--json', '-p', 1,
                                  '--connect-timeout', 0.2, 'localhost')
        self.assert_failed(client, 'no server answers')
        self.assertRegex(client.output(), r'^\{"error":"no server answers .*"\}|"program":"rh-perf"')


if __name__ == '__main__':
    support.main()
