# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-pingpong against itself over memif, and its exchange byte for byte."""

import signal
import socket

import support
from judge import dcformat
from support import LIMIT_S, pcapng_packets, wait_until

# A second, all retries together: a busy machine may leave a process without a core for long.
PATIENT = ('--ack-timeout', '15')
# Of what fails in any case: 30 ms.
IMPATIENT = ('--ack-timeout', '10')


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
        self.run_pair('rh-pingpong', '-c', '--transport', 'srq', '-s', 5000, *PATIENT,
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
            'rh-pingpong', '-c', '-s', 8192, '-n', 300, *PATIENT, '--stats', 1,
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
        both = 'the client has .*--size 8192 .*, the server .*--size 4096 '
        self.assert_failed(server, both)
        self.assert_failed(client, both)


class DynamicConnections(support.ProgramTest):
    """--transport dc: an initiator and targets at both ends."""

    FULL = 1  # flag of a connect
    CONTROL = 0xD8
    CONNECT_DATA = 0xDE

    def check(self, size, iterations, *options, lanes=1, **more):
        ends = self.run_pair('rh-pingpong', '-c', '--transport', 'dc', '-s', size, '-n', iterations,
                             '-q', lanes, *options, **more)
        for end in ends:
            self.assertEqual(end['transport'], 'DC')
            # Some lanes may send once more than their share.
            self.assertIn(end['messages_checked'], range(iterations, iterations + lanes))
        server, client = ends
        self.assertEqual(server['local'], client['remote'])
        self.assertEqual(server['remote'], client['local'])
        return client

    def captured(self, name, size, iterations, *options, **more):
        """The same with a capture of the client's: its path, and what the checker has counted."""
        path = self.lab.path(f'{name}.pcapng')
        self.check(size, iterations, *options, client=('--pcap', path), **more)
        return path, self.judged(path)

    def test_sizes(self):
        """DC-9, DC-12, DC-18, DC-21: from one byte to many packets, over IPv4 and IPv6."""
        for family, gid in ((4, '10.42.0.2'), (6, 'fd42::2')):
            for size, iterations in ((1, 300), (1024, 300), (1025, 300), (4096, 300),
                                     (1048576, 20)):
                with self.subTest(size=size, family=family):
                    client = self.check(size, iterations, family=family)
                    self.assertEqual(client['local']['gid'], gid)

    def test_path_mtus(self):
        for mtu in (256, 4096):
            with self.subTest(mtu=mtu):
                self.check(10000, 100, '-m', mtu)

    def test_one_target_keeps_its_connection(self):
        """DC-23: a connect of each end, and another one where the machine has been so slow that a
        lease ended."""
        _, counted = self.captured('kept', 5000, 300)
        self.assertLess(counted['connects'], 20)

    def test_a_target_for_each_message(self):
        """DC-1 to DC-7, DC-10, DC-16, DC-24: 16 targets of each end take turns on the only stream,
        so that each message goes to another one than the last."""
        _, counted = self.captured('turns', 3000, 400, lanes=16)
        self.assertGreaterEqual(counted['connects'], 2 * 400)
        # The end may come before the answer to the last connect of an end does.
        self.assertGreaterEqual(counted['sessions'], counted['connects'] - 2)
        self.assertGreaterEqual(counted['target_changes'], 2 * (400 - 1))
        self.assertGreaterEqual(counted['disconnects'], counted['sessions'] - 2)

    def test_a_stream_for_each_target(self):
        """DC-17, DC-25: so many connections at a time, none of which has to give way."""
        _, counted = self.captured('streams', 3000, 800, '--streams', 8, lanes=8)
        self.assertLess(counted['connects'], 160)
        self.check(3000, 200, '--streams', 4, lanes=16)
        self.check(1000, 300, '--streams', 128, lanes=256)

    def test_handshakes(self):
        """DC-8, DC-11: data that carries the nonce of its connect has not waited; with the full
        handshake there is none."""
        for kind in ('data', 'half', 'full'):
            path, _ = self.captured(kind, 64, 100, '--handshake', kind, lanes=4)
            connects, early = [], 0
            for packet in support.roce_packets(path):
                if packet.opcode == self.CONTROL:
                    message = dcformat.message(packet)[0]
                    if message.subtype == dcformat.CONNECT:
                        connects.append('full' if message.flags & self.FULL else 'half')
                elif packet.opcode == self.CONNECT_DATA:
                    connects.append('data')
                else:
                    early += dcformat.header(packet)[0].form == 0
            self.assertGreaterEqual(len(connects), 200)
            self.assertEqual(set(connects), {kind})
            self.assertEqual(early > 0, kind == 'half')

    def test_events(self):
        self.check(100, 100, '-e', lanes=3)

    def test_one_receive_for_each_target(self):
        """DC-21."""
        self.check(5000, 200, '-r', 4, lanes=4)

    def test_partition(self):
        client = self.check(5000, 50, '--pkeys', '0xffff,0x8123', '--pkey-index', 1, lanes=2)
        self.assertEqual(client['transport'], 'DC')
        server, client = self.start_pair('rh-pingpong', '--transport', 'dc', '--pkeys',
                                         '0xffff,0x8123', '--timeout', 5, *IMPATIENT,
                                         client=('--pkey-index', 1))
        self.assert_failed(client, 'send failed with status transport retry counter exceeded')
        self.assert_failed(server, 'the peer|no message')

    def test_loss_duplication_reordering_corruption(self):
        """DC-18, DC-26 to DC-29."""
        for lanes in (1, 8):
            server, client = self.start_pair(
                'rh-pingpong', '-c', '--transport', 'dc', '-q', lanes, '-s', 8192, '-n', 300,
                *PATIENT, '--stats', 1, '--faults', 'loss=2%,dup=2%,reorder=2%:1ms,corrupt=1%')
            for process in (client, server):
                self.assert_status(process, 0)
                self.assertRegex(process.output(), r'30\d messages checked')
                self.assertRegex(process.messages(), r'engine +retransmitted_pkts +[1-9]')
                self.assertRegex(process.messages(), r'dc +sessions_opened +[1-9]')

    def test_the_peer_must_have_as_many_targets(self):
        server, client = self.start_pair('rh-pingpong', '--transport', 'dc', server=('-q', 8),
                                         client=('-q', 4))
        self.assert_failed(server, 'the peer has 4 targets, not 8')
        self.assert_failed(client, 'the peer')

    def test_the_peer_must_have_the_same_transport(self):
        for other in ('rc', 'ud', 'srq'):
            with self.subTest(other=other):
                server, client = self.start_pair('rh-pingpong', server=('--transport', other),
                                                 client=('--transport', 'dc'))
                self.assert_failed(server, 'the peer has --transport dc; give both ends the same')
                self.assert_failed(client, 'the peer reports: the peer has --transport dc')
                server, client = self.start_pair('rh-pingpong', server=('--transport', 'dc'),
                                                 client=('--transport', other))
                self.assert_failed(server, 'the peer has a queue pair, not --transport dc')
                self.assert_failed(client, 'the peer reports: the peer has a queue pair')

    def test_options_that_do_not_fit_are_refused(self):
        for options in (('--streams', 2), ('--handshake', 'full'),
                        ('--transport', 'dc', '--streams', 2),
                        ('--transport', 'dc', '-q', 257),
                        ('--transport', 'dc', '-q', 8, '-r', 7),
                        ('--transport', 'dc', '--streams', 0),
                        ('--transport', 'dc', '--handshake', 'none')):
            with self.subTest(options=options):
                self.assert_status(self.start('rh-pingpong', *options), 2)

    def test_different_sizes_fail(self):
        server, client = self.start_pair('rh-pingpong', '--transport', 'dc', server=('-s', '4096'),
                                         client=('-s', '8192'))
        both = 'the client has .*--size 8192 .*, the server .*--size 4096 '
        self.assert_failed(server, both)
        self.assert_failed(client, both)

    def test_wrong_access_key(self):
        """DC-20: who has it wrong gets no answer."""
        memif = self.lab.path('memif.sock')
        common = ('--transport', 'dc', '--memif-socket', memif, '--timeout', 5, '--stats', 1)
        server, port = self.start_server('rh-pingpong', *common, '--ip', '10.42.0.1/24')
        with socket.create_server(('localhost', 0)) as listener:
            client = self.start('rh-pingpong', *common, *IMPATIENT, '--ip', '10.42.0.2/24', '-p',
                                listener.getsockname()[1], 'localhost')
            listener.settimeout(LIMIT_S)
            relay = KeyBreaker(listener.accept()[0], port)
        relay.run()
        self.assert_failed(client, 'send failed with status transport retry counter exceeded')
        self.assert_failed(server, 'the peer|no message')
        relay.close()
        self.assertRegex(server.messages(), r'dc +access_key_violations +[1-9]')
        self.assertNotRegex(server.messages(), r'dc +(sessions_opened|tx_accept)')


class KeyBreaker:
    """Between a client and a server: what the server tells of its first target gets another access
    key."""

    TARGETS, BYTES = 256, 69

    def __init__(self, client, port):
        self.client = client
        self.server = socket.create_connection(('localhost', port), LIMIT_S)
        self.client.settimeout(LIMIT_S)

    def run(self):
        self.server.sendall(self._take(self.client))
        targets = bytearray(self._take(self.server))
        digit = self.BYTES - 2
        targets[digit] = ord('0' if targets[digit] != ord('0') else '1')
        self.client.sendall(targets)
        self.server.sendall(self.client.recv(100))

    def _take(self, end):
        data = b''
        while len(data) < self.TARGETS * self.BYTES:
            data += end.recv(self.TARGETS * self.BYTES - len(data))
        return data

    def close(self):
        self.client.close()
        self.server.close()


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

    def test_target(self):
        """Of each end's targets, 256 places, the used ones first."""
        server, port = self.start_server('rh-pingpong', '--transport', 'dc', '-q', 2, *self.PORT)
        nobody = b'DCT1:000000:000000:' + 32 * b'0' + b':' + 16 * b'0' + b'\0'
        own = [b'DCT1:d00%03x:123456:00000000000000000000ffff0a2a0008:0123456789abcdef\0' % i
               for i in range(2)]
        with socket.create_connection(('localhost', port), LIMIT_S) as client:
            client.sendall(b''.join(own) + 254 * nobody)
            answer = b''
            while len(answer) < 256 * len(nobody):
                answer += client.recv(256 * len(nobody))
            self.assertRegex(answer, rb'^(DCT1:d[0-9a-f]{5}:[0-9a-f]{6}:'
                                     rb'00000000000000000000ffff0a2a0007:[0-9a-f]{16}\0){2}')
            self.assertEqual(answer[2 * len(nobody):], 254 * nobody)
            client.sendall(b'done\0')
        self.assert_failed(server, 'no message for 0.5 s after 0 of 1000 exchanges')
        self.assertIn('QPN 0xd00001, PSN 0x123456, GID ::ffff:10.42.0.8', server.output())

    def test_what_is_no_target_is_refused(self):
        for text, why in (
                (self.MESSAGE, 'the peer has a queue pair, not --transport dc'),
                (b'GET / HTTP/1.0\r\n\r\n' + 60 * b' ', 'something else than the address'),
                (b'DCT1' + self.MESSAGE[4:-1] + b':0123456789abcdefg', 'something else than'),
                (b'DCT1' + self.MESSAGE[4:] + b'0123456789abcdef\0', 'something else than')):
            with self.subTest(text=text):
                server, port = self.start_server('rh-pingpong', '--transport', 'dc', *self.PORT)
                with socket.create_connection(('localhost', port), LIMIT_S) as client:
                    client.sendall(text)
                    self.assert_failed(server, why)

    def test_a_client_that_hangs_up(self):
        server, port = self.start_server('rh-pingpong', *self.PORT)
        socket.create_connection(('localhost', port), LIMIT_S).close()
        self.assert_failed(server, 'the peer closed its connection')


class Ends(support.ProgramTest):
    """What ends a run before its time."""

    def start_endless(self, *options):
        capture = self.lab.path(self.lab.unique('client') + '.pcapng')
        server, client = self.start_pair('rh-pingpong', '-n', 10 ** 9, *options,
                                         client=('--pcap', capture))
        wait_until(lambda: capture.exists() and capture.stat().st_size > 20000, LIMIT_S,
                   'packets are captured')
        return server, client, capture

    def check_stopped_by(self, number, *options):
        server, client, capture = self.start_endless(*options)
        client.child.send_signal(number)
        self.assert_failed(client, f'interrupted by {number.name}')
        self.assertIn('counters that are not 0', client.messages())
        self.assertGreater(pcapng_packets(capture), 10)
        self.assert_failed(server, 'the peer|no message|failed with status')
        return client.messages()

    def test_sigint(self):
        self.check_stopped_by(signal.SIGINT)

    def test_sigint_over_dynamic_connections(self):
        for lanes in (1, 8):
            messages = self.check_stopped_by(signal.SIGINT, '--transport', 'dc', '-q', lanes)
            self.assertRegex(messages, r'dc +rx_accept +[1-9]')

    def test_sigterm(self):
        self.check_stopped_by(signal.SIGTERM)

    def test_sigint_while_waiting_for_a_client(self):
        server, _ = self.start_server('rh-pingpong', '--memif-socket', self.lab.path('m.sock'))
        server.child.send_signal(signal.SIGINT)
        self.assert_failed(server, 'interrupted by SIGINT')

    def test_killed_peer(self):
        for victim, transport in (('server', 'rc'), ('client', 'rc'), ('server', 'dc'),
                                  ('client', 'dc')):
            with self.subTest(victim=victim, transport=transport):
                server, client, _ = self.start_endless('--transport', transport)
                killed, other = (server, client) if victim == 'server' else (client, server)
                killed.child.kill()
                self.assert_failed(other, 'the peer|no message|failed with status', limit_s=40)


if __name__ == '__main__':
    support.main()
