# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-pingpong against itself over memif, and its exchange byte for byte."""

import signal
import socket

import support
from support import LIMIT_S, pcapng_packets, wait_until

# So that a test of losses does not wait for the default of 67 ms each time.
FAST_RETRY = ('--ack-timeout', '10')


class PingPong(support.ProgramTest):
    def check(self, size, iterations, *options, **more):
        server, client = self.run_pair('rh-pingpong', '-c', '-s', size, '-n', iterations, *options,
                                       **more)
        for end in (server, client):
            self.assertEqual(end['messages_checked'], iterations)
            self.assertEqual(end['size'], size)
        self.assertEqual(server['local'], client['remote'])
        self.assertEqual(server['remote'], client['local'])
        return server, client

    def test_sizes_ipv4(self):
        for size, iterations in ((1, 300), (4096, 300), (1048576, 20)):
            with self.subTest(size=size):
                _, client = self.check(size, iterations)
                self.assertEqual(client['local']['gid'], '10.42.0.2')

    def test_sizes_ipv6(self):
        for size, iterations in ((1, 300), (4096, 300), (1048576, 20)):
            with self.subTest(size=size):
                _, client = self.check(size, iterations, family=6)
                self.assertEqual(client['local']['gid'], 'fd42::2')

    def test_path_mtus(self):
        for mtu in (256, 4096):
            with self.subTest(mtu=mtu):
                self.check(10000, 100, '-m', mtu)

    def test_unreliable_connection(self):
        for family in (4, 6):
            for size, iterations in ((1, 300), (4096, 300), (1048576, 20)):
                with self.subTest(size=size, family=family):
                    _, client = self.check(size, iterations, '--transport', 'uc', family=family)
                    self.assertEqual(client['transport'], 'UC')

    def test_datagrams(self):
        for family in (4, 6):
            for size in (1, 1000, 4096):
                with self.subTest(size=size, family=family):
                    _, client = self.check(size, 300, '--transport', 'ud', '-m', 4096,
                                           family=family)
                    self.assertEqual(client['transport'], 'UD')

    def test_shared_receive_queue(self):
        for family in (4, 6):
            for size, queue_pairs in ((1, 1), (4096, 16), (10000, 256)):
                with self.subTest(size=size, family=family, queue_pairs=queue_pairs):
                    ends = self.run_pair('rh-pingpong', '-c', '--transport', 'srq', '-s', size,
                                         '-n', 1000, '-q', queue_pairs, family=family)
                    for end in ends:
                        self.assertEqual(end['transport'], 'SRQ')
                        # Some queue pairs may send once more than their share.
                        self.assertIn(end['messages_checked'], range(1000, 1000 + queue_pairs))

    def test_shared_receive_queue_with_one_receive_for_each_queue_pair(self):
        self.run_pair('rh-pingpong', '-c', '--transport', 'srq', '-q', 8, '-r', 8)

    def test_shared_receive_queue_under_loss(self):
        self.run_pair('rh-pingpong', '-c', '--transport', 'srq', '-s', 5000, *FAST_RETRY,
                      '--faults', 'loss=2%,dup=2%,reorder=2%:1ms')

    def test_more_queue_pairs_than_the_peer(self):
        server, client = self.start_pair('rh-pingpong', '--transport', 'srq', server=('-q', '8'),
                                         client=('-q', '4'))
        self.assert_failed(server, 'the peer has 4 queue pairs, not 8')
        self.assert_failed(client, 'the peer')

    def test_options_that_do_not_fit_are_refused(self):
        for options in (('-q', 2), ('--transport', 'srq', '-q', 8, '-r', 7),
                        ('--transport', 'srq', '-q', 257)):
            with self.subTest(options=options):
                self.assert_status(self.start('rh-pingpong', *options), 2)

    def test_a_lost_datagram_ends_the_run(self):
        server, client = self.start_pair('rh-pingpong', '--transport', 'ud', '--timeout', 1,
                                         client=('--faults', 'tx.drop_opcode=0x64*1'))
        for process in (server, client):
            self.assert_failed(process, 'no message for 1 s after 0 of|the link went down')

    def test_datagrams_longer_than_the_path_mtu_are_refused(self):
        self.assert_status(self.start('rh-pingpong', '--transport', 'ud', '-s', 2048), 2)

    def test_one_receive_at_a_time(self):
        self.check(100, 200, '-r', 1)

    def test_events(self):
        self.check(100, 100, '-e')

    def test_loss_duplication_reordering_corruption(self):
        server, client = self.start_pair(
            'rh-pingpong', '-c', '-s', 8192, '-n', 300, *FAST_RETRY, '--stats', 1,
            '--faults', 'loss=2%,dup=2%,reorder=2%:1ms,corrupt=1%')
        for process in (client, server):
            self.assert_status(process, 0)
            self.assertIn('300 messages checked', process.output())
            self.assertRegex(process.messages(), r'engine +retransmitted_pkts +[1-9]')

    def test_the_server_answers_in_the_clients_family(self):
        both = ('--ip', '10.42.0.1/24', '--ip', 'fd42::1/64')
        socket_path = self.lab.path('memif.sock')
        server, port = self.start_server('rh-pingpong', '--memif-socket', socket_path, *both)
        client = self.start('rh-pingpong', '-p', port, '--memif-socket', socket_path, '-g', 1,
                            '--ip', '10.42.0.2/24', '--ip', 'fd42::2/64', 'localhost')
        for process in (client, server):
            self.assert_status(process, 0)
            self.assertIn('GID fd42::2', process.output())

    def test_output_is_the_stock_tools(self):
        server, client = self.start_pair('rh-pingpong', '-n', 100)
        for process in (client, server):
            self.assert_status(process, 0)
            lines = process.output().splitlines()
            address = r'address: {1,2}LID 0x0000, QPN 0x[0-9a-f]{6}, PSN 0x[0-9a-f]{6}, GID '
            self.assertRegex(lines[0], '^  local ' + address + r'::ffff:10\.42\.0\.')
            self.assertRegex(lines[1], '^  remote ' + address + r'::ffff:10\.42\.0\.')
            self.assertRegex(lines[2], r'^819200 bytes in \d+\.\d\d seconds = \d+\.\d\d Mbit/sec$')
            self.assertRegex(lines[3], r'^100 iters in \d+\.\d\d seconds = \d+\.\d\d usec/iter$')

    def test_different_sizes_fail(self):
        server, client = self.start_pair('rh-pingpong', server=('-s', '4096'),
                                         client=('-s', '8192'))
        self.assert_failed(server, 'failed with status')
        self.assert_failed(client, 'failed with status|the peer')


class Exchange(support.ProgramTest):
    """With the test in the place of ibv_rc_pingpong. The port is one on which nothing answers."""

    PORT = ('--device', 'net_null0', '--ip', '10.42.0.7/24', '--timeout', '0.5')
    MESSAGE = b'0000:00abcd:123456:00000000000000000000ffff0a2a0008\0'

    def test_server(self):
        server, port = self.start_server('rh-pingpong', *self.PORT)
        with socket.create_connection(('localhost', port), LIMIT_S) as client:
            client.sendall(self.MESSAGE)
            # The stock client reads once.
            answer = client.recv(1000)
            self.assertRegex(answer, rb'^0000:[0-9a-f]{6}:[0-9a-f]{6}:'
                                     rb'00000000000000000000ffff0a2a0007\0$')
            client.sendall(b'done\0')
        wait_until(lambda: 'QPN 0x00abcd, PSN 0x123456, GID ::ffff:10.42.0.8' in server.output(),
                   LIMIT_S, 'the server prints whom it talks to')
        self.assert_failed(server, 'no message for 0.5 s after 0 of 1000 exchanges')

    def test_client(self):
        with socket.create_server(('localhost', 0)) as listener:
            client = self.start('rh-pingpong', *self.PORT, '-p', listener.getsockname()[1],
                                'localhost')
            listener.settimeout(LIMIT_S)
            server, _ = listener.accept()
            with server:
                server.settimeout(LIMIT_S)
                self.assertRegex(server.recv(1000), rb'^0000:[0-9a-f]{6}:[0-9a-f]{6}:'
                                                    rb'00000000000000000000ffff0a2a0007\0$')
                server.sendall(self.MESSAGE)
                self.assertEqual(server.recv(1000), b'done\0')
        self.assert_failed(client, 'exchanges')

    def test_other_languages_are_refused(self):
        for text in (b'GET / HTTP/1.0\r\n\r\n' + 40 * b' ', self.MESSAGE[:-1] + b'x'):
            with self.subTest(text=text):
                server, port = self.start_server('rh-pingpong', *self.PORT)
                with socket.create_connection(('localhost', port), LIMIT_S) as client:
                    client.sendall(text)
                    self.assert_failed(server, 'something else than the address of a queue pair')

    def test_a_client_that_hangs_up(self):
        server, port = self.start_server('rh-pingpong', *self.PORT)
        socket.create_connection(('localhost', port), LIMIT_S).close()
        self.assert_failed(server, 'the peer closed its connection')


class Ends(support.ProgramTest):
    """What ends a run before its time."""

    def start_endless(self):
        capture = self.lab.path(self.lab.unique('client') + '.pcapng')
        server, client = self.start_pair('rh-pingpong', '-n', 10 ** 9,
                                         client=('--pcap', capture))
        wait_until(lambda: capture.exists() and capture.stat().st_size > 20000, LIMIT_S,
                   'packets are captured')
        return server, client, capture

    def check_stopped_by(self, number):
        server, client, capture = self.start_endless()
        client.child.send_signal(number)
        self.assert_failed(client, f'interrupted by {number.name}')
        self.assertIn('counters that are not 0', client.messages())
        self.assertGreater(pcapng_packets(capture), 10)
        self.assert_failed(server, 'the peer|no message|failed with status')

    def test_sigint(self):
        self.check_stopped_by(signal.SIGINT)

    def test_sigterm(self):
        self.check_stopped_by(signal.SIGTERM)

    def test_sigint_while_waiting_for_a_client(self):
        server, _ = self.start_server('rh-pingpong', '--memif-socket', self.lab.path('m.sock'))
        server.child.send_signal(signal.SIGINT)
        self.assert_failed(server, 'interrupted by SIGINT')

    def test_killed_peer(self):
        for victim in ('server', 'client'):
            with self.subTest(victim=victim):
                server, client, _ = self.start_endless()
                killed, other = (server, client) if victim == 'server' else (client, server)
                killed.child.kill()
                self.assert_failed(other, 'the peer|no message|failed with status', limit_s=40)


if __name__ == '__main__':
    support.main()
