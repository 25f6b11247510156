#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Stock programs under rh-run --uplink udp between two hosts with kernels of their own: guests, on
whose link netem loses, repeats and reorders packets in both directions."""

import itertools
import os
import unittest

from pairs import PairTest  # it finds lab
from lab.guests import PREPARE, pack
from rxe_guest.background import Background
from rxe_guest.errors import Skip
from rxe_guest.guest import Guest
from rxe_guest.links import Link
from rxe_guest.netem import Impairment
from support import wait_until
from testing.segment_table import has_listener
from verbs_support import RH_RUN

SERVER, CLIENT = 0, 1
NETDEV = 'rdma0'
MTU = 4200
ADDRESSES = {4: ('10.44.0.1', '10.44.0.2'), 6: ('fd44::1', 'fd44::2')}
FAULTS = Impairment(loss=1, duplicate=1, reorder=1)
SEGMENT = '/dev/shm/segment'
LIMIT_S = 240  # emulated processors

ports = itertools.count(18700)  # of the guests, which have no others


class Command(Background):
    """One that runs in a guest; what it said is there when it has ended."""

    def __init__(self, guest, command):
        super().__init__(guest, command, LIMIT_S)

    def wait(self):
        self.join(LIMIT_S + 30)
        assert self.result is not None, f'{self.error or "still running"}: {self.command}\n{self.output()}'
        return self.result.status

    def said(self):
        errors = self.result.stderr.decode(errors='replace') if self.result else ''
        return f'{self.guest.name}: {self.command}\n{self.output()[-2000:]}\n{errors[-2000:]}'


def start_guests(archive):
    """Two hosts without Soft-RoCE, which would hold the port, and with rh-run."""
    names = [f'hosts-{os.getpid()}-{end}' for end in 'ab']
    kinds = (f'guest-server={names[CLIENT]}', f'guest-client={names[SERVER]}')
    pack([RH_RUN], archive)
    for end, (name, kind) in enumerate(zip(names, kinds)):
        link = Link.parse(f'{kind},mtu={MTU},rxe=no,ip={ADDRESSES[4][end]}/24,ip={ADDRESSES[6][end]}/64')
        guest = Guest.start(name, [link], memory_mb=768, owner=os.getpid())
        unittest.addModuleCleanup(guest.stop)
        with archive.open('rb') as content:
            guest.check(f'rmmod rdma_rxe && {PREPARE}', stdin=content, what='preparing it')
        yield guest


class Guests(PairTest):
    guests = []

    def setUp(self):
        super().setUp()
        if not self.guests:
            try:
                self.guests.extend(start_guests(self.lab.path('guest.tar')))
            except Skip as reason:
                self.skipTest(f'no guests: {reason}')
        for guest in self.guests:
            guest.impair(NETDEV, FAULTS, 'out')
        self.addCleanup(self.was_impaired)

    def was_impaired(self):
        for guest in self.guests:
            self.assertRegex(guest.check(f'tc -s qdisc show dev {NETDEV}'), r'dropped [1-9]', 'nothing was lost')

    def start(self, end, command):
        own = f'{ADDRESSES[4][end]}/24,{ADDRESSES[6][end]}/64'
        return Command(self.guests[end], f'mkdir -p -m 700 {SEGMENT} && ROCKHOPPER_SEGMENT={SEGMENT} '
                       f'rh-run --uplink udp --addresses {own} --pcap /run/{end}.pcapng {command}')

    def listens(self, port):
        """A program of librdmacm, at the server's host."""
        copy = self.lab.path('table')
        if self.guests[SERVER].execute(f'[ -e {SEGMENT}/table ]').status != 0:
            return False
        self.guests[SERVER].pull(f'{SEGMENT}/table', copy)
        return has_listener(copy.parent, port)

    def run_pair_of(self, server, client, ready):
        first = self.start(SERVER, server)
        wait_until(lambda: not first.is_alive() or ready(), LIMIT_S, f'the server is ready: {server}')
        second = self.start(CLIENT, client)
        for process in (second, first):
            self.assertEqual(process.wait(), 0, f'{second.said()}\n{first.said()}')
        for end, guest in enumerate(self.guests):
            capture = self.lab.path(f'{end}.pcapng')
            guest.pull(f'/run/{end}.pcapng', capture)
            own = [word for version in (4, 6) for word in ('--endpoint', ADDRESSES[version][end])]
            self.assertGreater(self.checked(capture, *own)['judged_packets'], 0)

    def test_programs_that_meet_by_tcp(self):
        for program, options in (('ibv_rc_pingpong', '-s 9000 -n 300 -c -g {gid}'),
                                 ('ib_write_bw', '-s 65536 -n 100 -F -m 4096 -x {gid}'),
                                 ('ib_read_bw', '-s 65536 -n 100 -F -m 4096 -x {gid}'),
                                 ('ib_atomic_bw', '-n 200 -F -x {gid}')):
            for gid in (0, 1):
                with self.subTest(program=program, gid=gid):
                    port = next(ports)
                    command = f'{program} {options.format(gid=gid)} -p {port}'
                    self.run_pair_of(command, f'{command} {ADDRESSES[4][SERVER]}', lambda: self.guests[SERVER].execute(
                        f'grep -q ":{port:04X} .* 0A " /proc/net/tcp /proc/net/tcp6').status == 0)

    def test_programs_of_librdmacm(self):
        for server, client in (
                ('rping -s -a {address} -p {port} -C 50 -V -S 3000', 'rping -c -a {address} -p {port} -C 50 -V -S 3000'),
                ('ucmatose -b {address} -p {port} -c 4 -C 10 -S 5000', 'ucmatose -s {address} -p {port} -c 4 -C 10 -S 5000'),
                ('rdma_server -s {address} -p {port}', 'rdma_client -s {address} -p {port}')):
            for family in (4, 6):
                with self.subTest(server=server, ip=family):
                    port = next(ports)
                    words = {'address': ADDRESSES[family][SERVER], 'port': port}
                    self.run_pair_of(server.format(**words), client.format(**words), lambda: self.listens(port))


if __name__ == '__main__':
    unittest.main(verbosity=2)
