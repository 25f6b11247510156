#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-cm and the stock programs of librdmacm in a Soft-RoCE guest: rping, ucmatose, udaddy and
rdma_client with rdma_server, each in both roles, over IPv4 and IPv6; requests that are refused; and
rping over a bad path (WIRE-2).
Every packet that we sent is judged by the independent checker and by tshark."""

import itertools
import sys
import unittest

import lab
from testing.standstill import RepeatedTest

UDADDY_PORT = 7174  # it has no option for it
# Of service IDs: the guest is ours alone, but a failed test may leave a program there.
ports = itertools.count(7200)
# Each is used once: rxe 6.1 leaves the MAC of a group in the filter when nobody is attached any more.
groups = (f'239.129.2.{last}' for last in itertools.count(3))
BAD_PATH = lab.Impairment(loss=1, duplicate=1, reorder=1)
_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module()


OUR_ADDRESSES = dict(zip((4, 6), lab.OUR_ADDRESSES))


def wait_for_guest_member(group):
    """Returns when a queue pair in the guest is attached to an IPv4 group."""
    mac = '33:33:' + ':'.join(f'{int(part):02x}' for part in group.split('.'))
    _lab.guest.check(f'for i in $(seq 600); do ip -o maddr | grep -q {mac} && exit 0; sleep 0.05; '
                     'done; exit 1', what=f'a member of {group}')


class Stage(RepeatedTest):
    """One end of a connection is ours, the other a stock program's."""

    maxDiff = None
    judged = ()  # options of the capture checker

    def we_serve(self, play, stock, *options, port=None):
        """`stock` is a client's command for address and port; gives what our end reports."""
        port = port or next(ports)
        for family, address in OUR_ADDRESSES.items():
            with self.subTest(ip=family, play=play):
                with _lab.host('apps/rh-cm', '--as', play, '-p', port, '--json', *options) as server:
                    server.wait_for(lambda: 'listening on port' in server.err.read_text())
                    client = _lab.run_in_guest(stock.format(address=address, port=port))
                    self.assertEqual(client.finish(), 0, client.said() + server.said())
                    self.assertEqual(server.wait(), 0, server.said() + client.said())
                self.assertEqual(_lab.judge(*self.judged), '')
                yield lab.summary(server.out.read_text())

    def we_connect(self, play, stock, *options, fixed_port=None):
        """`stock` is a server's command for its own address and the port."""
        for family, address in lab.GUEST_ADDRESSES.items():
            port = fixed_port or next(ports)
            with self.subTest(ip=family, play=play):
                server = _lab.run_in_guest(stock.format(address=address, port=port))
                _lab.wait_for_guest_service(port)
                with _lab.host('apps/rh-cm', '--as', play, '-p', port, '--json', *options,
                               address) as client:
                    self.assertEqual(client.wait(), 0, client.said() + server.last_words())
                    self.assertEqual(server.finish(), 0, server.said() + client.said())
                self.assertEqual(_lab.judge(*self.judged), '')
                yield lab.summary(client.out.read_text())

    def serve_rping(self, size, count):
        for result in self.we_serve(
                'rping', 'rping -c -a {address} -p {port} -C ' f'{count} -S {size} -V',
                '-V', '-S', size, '-C', count):
            self.assertEqual((result['messages'], result['messages_checked']), (count, count))

    def connect_rping(self, size, count):
        for result in self.we_connect(
                'rping', 'rping -s -a {address} -p {port} ' f'-S {size}',
                '-V', '-S', size, '-C', count):
            self.assertEqual((result['messages'], result['messages_checked']), (count, count))


class ConnectionManager(Stage):
    def test_rping_is_the_client(self):
        for size, count in ((64, 100), (8000, 30)):
            self.serve_rping(size, count)

    def test_rping_is_the_server(self):
        for size, count in ((64, 100), (8000, 30)):
            self.connect_rping(size, count)

    def test_ucmatose_is_the_client(self):
        for result in self.we_serve(
                'ucmatose', 'ucmatose -s {address} -p {port} -c 4 -C 10 -S 5000',
                '-c', 4, '-C', 10, '-S', 5000):
            self.assertEqual((result['connections'], result['messages']), (4, 40))

    def test_ucmatose_is_the_server(self):
        for result in self.we_connect(
                'ucmatose', 'ucmatose -b {address} -p {port} -c 4 -C 10 -S 5000',
                '-c', 4, '-C', 10, '-S', 5000):
            self.assertEqual((result['connections'], result['messages']), (4, 40))

    def test_rdma_client(self):
        for result in self.we_serve('rdma_client',
                                    'rdma_client -s {address} -p {port}'):
            self.assertEqual(result['messages'], 1)

    def test_rdma_server(self):
        for result in self.we_connect('rdma_client', 'rdma_server -s {address} -p {port}'):
            self.assertEqual(result['messages'], 1)

    def test_udaddy_is_the_client(self):
        for result in self.we_serve('udaddy', 'udaddy -s {address} -c 2 -S 1000',
                                    '-c', 2, '-S', 1000, port=UDADDY_PORT):
            self.assertEqual((result['connections'], result['messages']), (2, 20))

    def test_udaddy_is_the_server(self):
        for result in self.we_connect('udaddy', 'udaddy -b {address} -c 2 -S 1000',
                                      '-c', 2, '-S', 1000, fixed_port=UDADDY_PORT):
            self.assertEqual((result['connections'], result['messages']), (2, 20))

    def test_mckey_sends(self):
        _lab.need_older_kernel((6, 4), 'sends one of the ten messages (docs/soft-roce.md)')
        group = next(groups)
        with _lab.host('apps/rh-cm', '--as', 'mckey', '--json', '-c', 2, '-S', 1000,
                       group) as receiver:
            receiver.wait_for(lambda: 'receiving what is sent' in receiver.err.read_text())
            _lab.wait_for_active_port()
            sender = _lab.run_in_guest(
                f'mckey -m {group} -b {lab.GUEST_ADDRESSES[4]} -s -S 1000 -C 10')
            self.assertEqual(sender.finish(), 0, sender.said() + receiver.said())
            self.assertEqual(receiver.wait(), 0, receiver.said() + sender.said())
        self.assertEqual(_lab.judge('--min-packets', 0), '')
        result = lab.summary(receiver.out.read_text())
        self.assertEqual((result['connections'], result['messages']), (2, 20))

    def test_mckey_receives(self):
        group = next(groups)
        receiver = _lab.run_in_guest(
            f'mckey -m {group} -b {lab.GUEST_ADDRESSES[4]} -S 1000 -C 10')
        wait_for_guest_member(group)
        with _lab.host('apps/rh-cm', '--as', 'mckey', '--sender', '-S', 1000, group) as sender:
            self.assertEqual(sender.wait(), 0, sender.said() + receiver.output())
            self.assertEqual(receiver.finish(), 0, receiver.said() + sender.said())
        self.assertEqual(_lab.judge(), '')

    def test_nobody_listens_here(self):
        port, other = next(ports), next(ports)
        with _lab.host('apps/rh-cm', '-p', port) as server:
            server.wait_for(lambda: 'listening on port' in server.err.read_text())
            client = _lab.run_in_guest(f'rping -c -a {OUR_ADDRESSES[4]} -p {other} -C 1')
            self.assertNotEqual(client.finish(), 0)
            self.assertIn('REJECTED, error 8', client.said(), 'invalid service ID')
        self.assertEqual(_lab.judge(), '')

    def test_nobody_listens_there(self):
        for play in ('rping', 'udaddy'):
            with self.subTest(play=play), \
                    _lab.host('apps/rh-cm', '--as', play, '-p', next(ports),
                              lab.GUEST_ADDRESSES[4]) as client:
                self.assertEqual(client.wait(), 1)
                self.assertIn('nobody listens on that service ID', client.err.read_text())
            self.assertEqual(_lab.judge(), '')


class BadPath(Stage):
    """rping with 1 % loss, duplication and reordering in both directions: of its requests and of the
    messages that connect and disconnect."""

    judged = ('--memory-changes', '--lossy', 'far')

    def setUp(self):
        _lab.guest.impair('rdma0', BAD_PATH)
        self.addCleanup(_lab.guest.impair, 'rdma0', None)

    def test_rping_is_the_client(self):
        self.serve_rping(8000, 200)

    def test_rping_is_the_server(self):
        self.connect_rping(8000, 200)


if __name__ == '__main__':
    if sys.flags.optimize:
        sys.exit('assertions are off')
    unittest.main(verbosity=2)
