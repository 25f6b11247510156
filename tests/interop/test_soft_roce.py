#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Rockhopper and Linux's Soft-RoCE: stock ibv_rc_pingpong and its sisters, and the peer program's
script of all RC operations, in both roles, over a clean and over a bad path (WIRE-2). Every packet
that we sent is judged by the independent checker and by tshark, its ICRC included (WIRE-1).

A random half of the combinations of family and path MTU, and 300 operations of each kind;
ROCKHOPPER_SOAK=1 runs all, and 100,000 operations; ROCKHOPPER_OPERATIONS sets that number. Many
operations have messages of up to 8 KiB, few ones of up to 96 KiB."""

import itertools
import os
import sys
import unittest

import lab
from testing.standstill import RepeatedTest

OPERATIONS = int(os.environ.get('ROCKHOPPER_OPERATIONS', '100000' if lab.SOAK else '300'))
FAILS_AT_LOST_READS = (6, 4)  # the kernels from this one on; see BadPath
BAD_PATH = lab.Impairment(loss=1, duplicate=1, reorder=1)

_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module()


class Pingpong(RepeatedTest):
    """ibv_rc_pingpong -c in the guest against rh-pingpong."""

    maxDiff = None
    transport = 'rc'
    path_mtus = (1024, 4096)
    sizes = ((1, 100), (4096, 100), (1 << 20, 4))

    def run_matrix(self, pingpong):
        cases = itertools.product(lab.GUEST_ADDRESSES.items(), self.path_mtus)
        for (family, address), mtu in lab.some_of(cases, 2):
            index = _lab.guest.gid_index('rxe0', address)
            with self.subTest(ip=family, path_mtu=mtu):
                for size, count in self.sizes:
                    stock, ours = self.options(mtu, size, count)
                    pingpong(family, f'ibv_{self.transport}_pingpong -d rxe0 -g {index} {stock}',
                             ['--transport', self.transport, *ours.split()])
                self.assertEqual(_lab.judge(), '')

    def options(self, mtu, size, count):
        """Of the stock tool and of ours."""
        common = f'-c -m {mtu} -s {size} -n {count}'
        return common, common

    def test_we_are_the_server(self):
        def pingpong(family, stock, options):
            port = lab.free_port()
            gid = ['-g', '0' if family == 4 else '1']
            with _lab.host('apps/rh-pingpong', '-p', port, *gid, *options) as server:
                server.wait_for(lambda: lab.host_listens(port))
                _lab.wait_for_active_port()
                client = _lab.run_in_guest(f'{stock} -p {port} 10.0.2.2')
                # Ours first: it gives up when nothing comes, and says so; ibv_uc_pingpong waits.
                self.assertEqual(server.wait(), 0, server.said())
                self.assertEqual(client.finish(), 0, client.said() + server.said())

        self.run_matrix(pingpong)

    def test_we_are_the_client(self):
        def pingpong(family, stock, options):
            port = 18515
            server = _lab.run_in_guest(f'{stock} -p {port}')
            _lab.wait_for_guest_listener(port)
            forwarded = _lab.guest.forward(port)
            gid = ['-g', '0' if family == 4 else '1']
            with _lab.host('apps/rh-pingpong', '-p', forwarded, *gid, *options,
                           '127.0.0.1') as client:
                self.assertEqual(client.wait(), 0, client.said() + server.last_words())
                self.assertEqual(server.finish(), 0, server.said())

        self.run_matrix(pingpong)


class UnreliablePingpong(Pingpong):
    """ibv_uc_pingpong, which does not check what it receives; we do."""

    transport = 'uc'

    def options(self, mtu, size, count):
        common = f'-m {mtu} -s {size} -n {count}'
        return common, f'-c {common}'


class DatagramPingpong(Pingpong):
    """ibv_ud_pingpong, which has no path MTU: a datagram may be as long as the link allows."""

    transport = 'ud'
    path_mtus = (4096,)
    sizes = ((1, 100), (1000, 100), (4096, 100))

    def options(self, mtu, size, count):
        common = f'-s {size} -n {count}'
        return common, f'-c -m {mtu} {common}'


class SrqPingpong(Pingpong):
    """ibv_srq_pingpong: 16 queue pairs, which share their receives. It does not check; we do."""

    transport = 'srq'
    sizes = ((1, 100), (4096, 100), (20000, 50))

    def options(self, mtu, size, count):
        common = f'-m {mtu} -s {size} -n {count}'
        return common, f'-c {common}'


def of_requester(client, server):
    """The client's summary if that has made requests, else the server's."""
    return next(found for found in map(lab.summary, (client, server)) if found['requested'])


class Script(RepeatedTest):
    """rc_peer in the guest against rh_rc_peer: every operation, both ends requesting at once.

    The ACK timeout is longer than a busy host leaves a guest without an answer: a retry of
    Soft-RoCE's while the acknowledgements come can renumber packets (docs/soft-roce.md)."""

    maxDiff = None
    ack_timeout = 18  # a second
    KINDS = ('send', 'send_imm', 'send_inv', 'write', 'write_imm', 'read', 'compare_swap',
             'fetch_add')

    def we_serve(self, family, *options):
        ipv6 = ['--ipv6'] if family == 6 else []
        with _lab.host('tests/interop/rh_rc_peer', *ipv6) as server:
            port = server.wait_for(lambda: lab.listening_port(server.out.read_text()))
            client = _lab.run_in_guest(
                f'rc_peer -d rxe0 --address {lab.GUEST_ADDRESSES[family]} -p {port} '
                f'{" ".join(options)} 10.0.2.2')
            status = client.finish()
            self.assertEqual(status, 0, client.said() + server.said())
            self.assertEqual(server.wait(), 0, server.said())
            return of_requester(client.output(), server.out.read_text())

    def we_connect(self, family, *options):
        ipv6 = ['--ipv6'] if family == 6 else []
        server, port = _lab.guest_server(
            f'rc_peer -d rxe0 --address {lab.GUEST_ADDRESSES[family]}')
        forwarded = _lab.guest.forward(port)
        with _lab.host('tests/interop/rh_rc_peer', *ipv6, '-p', forwarded, *options,
                       '127.0.0.1') as client:
            self.assertEqual(client.wait(), 0, client.said() + server.last_words())
            self.assertEqual(server.finish(), 0, server.said())
            return of_requester(client.out.read_text(), server.output())

    def verify(self, run, family, *options, lossy=False, kinds=()):
        length = 8192 if OPERATIONS >= 3_000 else 98304
        result = run(family, '--operations', str(OPERATIONS), '--max-length', str(length),
                     '--timeout', str(self.ack_timeout), *options)
        requested = result['requested']['operations']
        done = {kind: count for kind, count in requested.items() if count}
        self.assertEqual(done, dict.fromkeys(kinds or self.KINDS, OPERATIONS), result)
        judged = ['--memory-changes', *(['--lossy', 'far'] if lossy else [])]
        self.assertEqual(_lab.judge(*judged), '')

    def test_we_serve_ipv4(self):
        self.verify(self.we_serve, 4)

    def test_we_serve_ipv6(self):
        self.verify(self.we_serve, 6)

    def test_we_connect_ipv4(self):
        self.verify(self.we_connect, 4)

    def test_we_connect_ipv6(self):
        self.verify(self.we_connect, 6)

    def test_path_mtu_1024(self):
        self.verify(self.we_connect, 4, '--path-mtu', '1024')


class Placements(Script):
    """ATOMIC WRITE among WRITEs, READs and atomics (IBTA 1.6, annex A19). FLUSH is left out: that of
    Soft-RoCE 6.12 has an ICRC of its own (docs/soft-roce.md)."""

    KINDS = ('write', 'read', 'fetch_add', 'atomic_write')

    def setUp(self):
        _lab.need_kernel((6, 2), 'knows no ATOMIC WRITE')

    def verify(self, run, family, *options, lossy=False):
        super().verify(run, family, '--kinds', ','.join(self.KINDS), *options, lossy=lossy)


class BadPath(Script):
    """The same with 1 % loss, duplication and reordering in both directions.

    Soft-RoCE 6.1 does not come through some retries between two devices of its own either
    (docs/soft-roce.md): as requester, one that meets a fence or a request of several elements; its
    requests avoid both here, ours do not. As responder, the late copy of a READ whose key a SEND
    with Invalidate has ended since; so READs use another key. That of 6.12 refuses late copies of
    any READ, and its own READs do not come through a loss: each end makes requests alone there, and
    none are READs."""

    ack_timeout = 16  # 0.27 s, as each loss that no later packet shows costs one

    def setUp(self):
        _lab.guest.impair('rdma0', BAD_PATH)
        self.addCleanup(_lab.guest.impair, 'rdma0', None)

    def verify(self, run, family, *options, lossy=True):
        guest, ours = ('client', 'server') if run == self.we_serve else ('server', 'client')
        options = ('--wait-for-fence', guest, '--max-sges', '1', '--lasting-read-keys', *options)
        if _lab.kernel < FAILS_AT_LOST_READS:
            super().verify(run, family, *options, lossy=lossy)
            return
        kinds = [kind for kind in self.KINDS if kind != 'read']
        for requester in (guest, ours):
            super().verify(run, family, '--requester', requester, '--kinds', ','.join(kinds),
                           *options, lossy=lossy, kinds=kinds)


if __name__ == '__main__':
    if sys.flags.optimize:
        sys.exit('assertions are off')
    unittest.main(verbosity=2)
