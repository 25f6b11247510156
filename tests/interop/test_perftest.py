#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-perf --peer perftest and perftest's eight programs in a Soft-RoCE guest, both roles, over IPv4
and IPv6, and with -R over IPv4, which is all that they can (WIRE-2). Every packet that we sent is
judged by the independent checker and by tshark. A random half of the cases, unless
ROCKHOPPER_SOAK=1."""

import itertools
import os
import sys
import unittest

import lab
from testing.standstill import RepeatedTest

_lab = None

# Sizes by mode and address family: each combination that differs once, as guests are slow.
SIZES = {'bw': {4: (8, 65536), 6: (4096,)}, 'lat': {4: (8,), 6: (4096,)}}
COUNTS = {'bw': 300, 'lat': 100}
# Of service IDs: the guest is ours alone, but a failed test may leave a program there.
rdma_ports = itertools.count(18600)


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module()


def start_with_active_port(stock, wait_for_listener):
    """Starts a program that wants an RDMA port that is up when it starts; then leaves it alone."""
    with _lab.host('tests/interop/rh_rc_peer'):
        _lab.wait_for_active_port()
        server = _lab.run_in_guest(stock)
        wait_for_listener()
    os.unlink(_lab.capture)
    return server


class Perftest(RepeatedTest):
    maxDiff = None

    def cases(self, operation):
        """The stock command without its end, our arguments, and the message size."""
        name = 'atomic' if operation in ('faa', 'cas') else operation
        kind = {'faa': '-A FETCH_AND_ADD', 'cas': '-A CMP_AND_SWAP'}.get(operation)
        for mode, count in COUNTS.items():
            for family, address in lab.GUEST_ADDRESSES.items():
                index = _lab.guest.gid_index('rxe0', address)
                for size in (8,) if kind else SIZES[mode][family]:
                    yield (f'ib_{name}_{mode} -d rxe0 -x {index} -F -n {count} '
                           f'{kind or f"-s {size}"}',
                           ['--peer', 'perftest', '--op', operation, '--mode', mode, '-n', count,
                            '-s', size, '-x', '0' if family == 4 else '1', '--json'],
                           {'size': size, 'iterations': count})

    def we_serve(self, operation):
        for stock, options, expected in lab.some_of(self.cases(operation), 2):
            port = lab.free_port()
            with self.subTest(stock=stock), \
                    _lab.host('apps/rh-perf', '-p', port, *options) as server:
                server.wait_for(lambda: lab.host_listens(port))
                client = _lab.run_in_guest(f'{stock} -p {port} 10.0.2.2')
                self.assertEqual(client.finish(), 0, client.said() + server.said())
                self.assertEqual(server.wait(), 0, server.said() + client.said())
                report = lab.summary(server.out.read_text())
                self.assertEqual(report['iterations'], expected['iterations'])
        self.assertEqual(_lab.judge(), '')

    def we_connect(self, operation):
        for stock, options, expected in lab.some_of(self.cases(operation), 2):
            with self.subTest(stock=stock):
                server, port = self.start_stock_server(stock)
                with _lab.host('apps/rh-perf', '-p', port, *options, '127.0.0.1') as client:
                    self.assertEqual(client.wait(), 0, client.said() + server.last_words())
                    self.assertEqual(server.finish(), 0, server.said())
                    report = lab.summary(client.out.read_text())
                self.assertEqual(report['results'][0]['size'], expected['size'])
                self.assertGreater(report['results'][0]['iterations'], 0)
        self.assertEqual(_lab.judge(), '')

    def start_stock_server(self, stock):
        """Returns it and the port that leads to it."""
        port = 18515
        server = start_with_active_port(f'{stock} -p {port}',
                                        lambda: _lab.wait_for_guest_listener(port))
        return server, _lab.guest.forward(port)


class RdmaCm(RepeatedTest):
    """Both ends with -R: no TCP, two connections of the connection manager."""

    maxDiff = None

    def cases(self, operation):
        """The stock command without its end, our arguments, and the number of iterations."""
        name = 'atomic' if operation in ('faa', 'cas') else operation
        kind = {'faa': '-A FETCH_AND_ADD', 'cas': '-A CMP_AND_SWAP'}.get(operation)
        for mode, count in COUNTS.items():
            size = 8 if kind else {'bw': 65536, 'lat': 64}[mode]
            port = next(rdma_ports)
            yield (f'ib_{name}_{mode} -R -d rxe0 -F -n {count} -p {port} {kind or f"-s {size}"}',
                   ['--peer', 'perftest', '-R', '--op', operation, '--mode', mode, '-n', count,
                    '-s', size, '-p', port, '--json'], port, count)

    def we_serve(self, operation):
        for stock, options, _, count in lab.some_of(self.cases(operation), 2):
            with self.subTest(stock=stock), _lab.host('apps/rh-perf', *options) as server:
                server.wait_for(lambda: 'listening on port' in server.err.read_text())
                client = _lab.run_in_guest(f'{stock} {lab.OUR_ADDRESSES[0]}')
                self.assertEqual(client.finish(), 0, client.said() + server.said())
                self.assertEqual(server.wait(), 0, server.said() + client.said())
                report = lab.summary(server.out.read_text())
                self.assertTrue(report['rdma_cm'])
                self.assertEqual(report['iterations'], count)
        self.assertEqual(_lab.judge(), '')

    def we_connect(self, operation):
        for stock, options, port, count in lab.some_of(self.cases(operation), 2):
            with self.subTest(stock=stock):
                server = start_with_active_port(stock, lambda: _lab.wait_for_guest_service(port))
                with _lab.host('apps/rh-perf', *options, lab.GUEST_ADDRESSES[4]) as client:
                    self.assertEqual(client.wait(), 0, client.said() + server.last_words())
                    self.assertEqual(server.finish(), 0, server.said())
                    report = lab.summary(client.out.read_text())
                self.assertTrue(report['rdma_cm'])
                # Of a latency run of WRITEs, the server's first one begins it.
                self.assertIn(report['results'][0]['iterations'], (count, count - 1))
        self.assertEqual(_lab.judge(), '')

    def test_nobody_listens(self):
        with _lab.host('apps/rh-perf', '--peer', 'perftest', '-R', '-p', next(rdma_ports),
                       '--connect-timeout', 5, lab.GUEST_ADDRESSES[4]) as client:
            self.assertEqual(client.wait(), 1, client.said())
            self.assertIn('nobody listens on RDMA port', client.err.read_text())
            self.assertEqual(_lab.judge(), '')

    def test_a_third_connection_is_refused(self):
        port = next(rdma_ports)
        options = ['--peer', 'perftest', '-R', '--mode', 'lat', '-n', 30000, '-s', 8, '-p', port]
        with _lab.host('apps/rh-perf', *options) as server:
            server.wait_for(lambda: 'listening on port' in server.err.read_text())
            client = _lab.run_in_guest(
                f'ib_send_lat -R -d rxe0 -F -n 30000 -s 8 -p {port} {lab.OUR_ADDRESSES[0]}')
            _lab.guest.check('for i in $(seq 600); do [ $(rdma resource show cm_id | '
                             f'grep -c "CONNECT .*:{port} ") = 2 ] && exit 0; sleep 0.05; done; '
                             'exit 1', what='two connections')
            other = _lab.run_in_guest(f'rping -c -C 1 -p {port} -a {lab.OUR_ADDRESSES[0]}')
            other.finish()
            self.assertIn('REJECTED', other.said())
            self.assertEqual(client.finish(), 0, client.said() + server.said())
            self.assertEqual(server.wait(), 0, server.said() + client.said())
            self.assertEqual(_lab.judge(), '')

    def test_a_client_that_is_no_perftest(self):
        port = next(rdma_ports)
        with _lab.host('apps/rh-perf', '--peer', 'perftest', '-R', '-p', port) as server:
            server.wait_for(lambda: 'listening on port' in server.err.read_text())
            client = _lab.run_in_guest(f'rping -c -C 1 -p {port} -a {lab.OUR_ADDRESSES[0]}')
            client.finish()  # with status 0: rping does not mind
            self.assertEqual(server.wait(), 1, server.said() + client.said())
            self.assertIn('the peer is no perftest', server.err.read_text())
            self.assertEqual(_lab.judge(), '')


def add_tests():
    for case in (Perftest, RdmaCm):
        for operation in ('send', 'write', 'read', 'faa', 'cas'):
            for role in ('we_serve', 'we_connect'):
                def test(self, role=role, operation=operation):
                    getattr(self, role)(operation)
                setattr(case, f'test_{role}_{operation}', test)


add_tests()

if __name__ == '__main__':
    if sys.flags.optimize:
        sys.exit('assertions are off')
    unittest.main(verbosity=2)
