#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Programs over UDP sockets (--device udp, and stock ones under rh-run --uplink udp) against the
kernel's Soft-RoCE, with no right at all: in a network namespace that any user may make, whose kernel
has a tap device to the guest."""

import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import lab
from testing.segment_table import has_listener
from testing.standstill import RepeatedTest

PROGRAMS = lab.BUILD / 'apps'
RXE_GUEST = lab.ROOT / 'scripts/rxe-guest'
LIMIT_S = 300
MTU = 4300
OURS = {4: '10.42.0.1', 6: 'fd42::1'}
GUESTS = {4: '10.42.0.2', 6: 'fd42::2'}
NAME = f'udp-{os.getpid()}'

UDADDY_PORT = 7174  # it has no option for it

ports = itertools.count(18600)  # of the namespace and of the guest, which have no others


def setUpModule():
    """The namespaces, whose only process waits for the end of its input; then the guest."""
    global _holder, _folder
    _folder = tempfile.TemporaryDirectory(prefix='rockhopper-')
    unittest.addModuleCleanup(_folder.cleanup)
    _holder = subprocess.Popen(
        ['unshare', '--user', '--map-root-user', '--net', 'sh', '-c',
         f'ip link set lo up && ip tuntap add tap0 mode tap && ip link set tap0 mtu {MTU} up && '
         f'ip address add {OURS[4]}/24 dev tap0 && ip address add {OURS[6]}/64 dev tap0 nodad && '
         'echo ready && exec cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    unittest.addModuleCleanup(_holder.communicate)
    if _holder.stdout.readline() != 'ready\n':
        raise unittest.SkipTest(f'no namespaces of a user here: {_holder.communicate()[1].strip()}')
    started = subprocess.run(
        [*inside(), sys.executable, RXE_GUEST, 'start', NAME, '--owner', str(os.getpid()), '--link',
         f'tap=tap0,mtu={MTU},ip={GUESTS[4]}/24,ip={GUESTS[6]}/64'],
        capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if started.returncode != 0:
        raise unittest.SkipTest(f'no guest: {started.stderr.strip()}')
    unittest.addModuleCleanup(subprocess.run, [*inside(), sys.executable, RXE_GUEST, 'stop', NAME], check=True)


def inside():
    return ['nsenter', '--target', str(_holder.pid), '--user', '--net', '--preserve-credentials']


def in_guest():
    return [*inside(), sys.executable, RXE_GUEST, 'exec', NAME, '--']


def segment():
    return pathlib.Path(_folder.name, 'segment')


class SoftRoce(RepeatedTest):
    def start(self, name, command):
        process = lab.Process([*map(str, command)], _folder.name, f'{next(ports)}-{name}')
        self.addCleanup(process.__exit__, None, None, None)
        return process

    def ours(self, program, *arguments):
        return self.start(program, [*inside(), PROGRAMS / program, '--device', 'udp', '--idle', 'sleep',
                                    *arguments])

    def under_rh_run(self, command, capture):
        """A stock program; all of them have one segment."""
        segment().mkdir(mode=0o700, exist_ok=True)
        return self.start('rh-run', [*inside(), 'env', f'ROCKHOPPER_SEGMENT={segment()}',
                                     f'XDG_RUNTIME_DIR={segment()}', PROGRAMS / 'rh-run', '--uplink', 'udp', '--pcap',
                                     capture, *command.split()])

    def theirs(self, command):
        return self.start('guest', [*in_guest(), command])

    @staticmethod
    def wait_for_port(command, port):
        """Until a program listens on the TCP port where `command` starts a shell."""
        subprocess.run([*command, f"for i in $(seq 600); do grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6 "
                                  "&& exit 0; sleep 0.1; done; exit 1"], check=True, timeout=LIMIT_S)

    def assert_judged(self, capture):
        """What we sent keeps the rules, and tshark reads it all."""
        ends = [word for address in OURS.values() for word in ('--endpoint', address)]
        for judge in ([lab.CHECKER, *ends, '--queued', str(lab.BURST)], [lab.TSHARK]):
            done = subprocess.run([sys.executable, *judge, capture], capture_output=True, text=True,
                                  check=False, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr)

    def run_both(self, first, second):
        for process in (second, first):
            self.assertEqual(process.wait(), 0, second.said() + first.said())

    def meet(self, port, we_serve, ours, theirs):
        """`ours` and `theirs` start their ends: a client is given its server's address."""
        if we_serve:
            server = ours()
            self.wait_for_port([*inside(), 'sh', '-c'], port)
            client = theirs(OURS[4])
        else:
            server = theirs()
            self.wait_for_port(in_guest(), port)
            client = ours(GUESTS[4])
        self.run_both(server, client)

    def test_ping_pong(self):
        for family, we_serve in itertools.product((4, 6), (True, False)):
            with self.subTest(ip=family, we_serve=we_serve):
                port = next(ports)
                capture = pathlib.Path(_folder.name, f'{port}.pcapng')
                # The guest's table begins with a link-local address. Its programs meet over IPv4.
                stock = f'ibv_rc_pingpong -d rxe0 -g {1 if family == 4 else 2} -p {port} -s 9000 -n 200 -c'
                own = ('-c', '-g', 0 if family == 4 else 1, '-p', port, '-s', 9000, '-n', 200, '--pcap', capture)
                self.meet(port, we_serve, lambda *peer, own=own: self.ours('rh-pingpong', *own, *peer),
                          lambda *peer, stock=stock: self.theirs(' '.join((stock, *peer))))
                self.assert_judged(capture)

    def run_stock(self, program, options, family, we_serve):
        """The same program at both ends; they meet over IPv4."""
        port = next(ports)
        capture = pathlib.Path(_folder.name, f'{port}.pcapng')
        # The guest's table of GIDs begins with a link-local address, ours ends with one.
        flag = '-g' if program.startswith('ibv_') else '-x'
        own = f'{program} {flag} {0 if family == 4 else 1} -p {port} {options}'
        stock = f'{program} -d rxe0 {flag} {1 if family == 4 else 2} -p {port} {options}'
        self.meet(port, we_serve, lambda *peer: self.under_rh_run(' '.join((own, *peer)), capture),
                  lambda *peer: self.theirs(' '.join((stock, *peer))))
        self.assert_judged(capture)

    def test_stock_programs(self):
        for program, options in (('ibv_rc_pingpong', '-s 9000 -n 200 -c'), ('ibv_ud_pingpong', '-s 2000 -n 200'),
                                 ('ib_write_bw', '-s 65536 -n 100 -F -m 4096'), ('ib_read_bw', '-s 65536 -n 100 -F -m 4096'),
                                 ('ib_atomic_bw', '-n 100 -F')):
            for family, we_serve in itertools.product((4, 6), (True, False)):
                with self.subTest(program=program, ip=family, we_serve=we_serve):
                    self.run_stock(program, options, family, we_serve)

    def connect_stock(self, server, client, family, we_serve, port):
        """Programs of librdmacm; {address} stands for the server's."""
        capture = pathlib.Path(_folder.name, f'{next(ports)}.pcapng')
        address = (OURS if we_serve else GUESTS)[family]
        server, client = (command.format(address=address, port=port) for command in (server, client))
        if we_serve:
            first = self.under_rh_run(server, capture)
            first.wait_for(lambda: has_listener(segment(), port))
            second = self.theirs(client)
        else:
            first = self.theirs(server)
            subprocess.run([*in_guest(), 'for i in $(seq 600); do rdma resource show cm_id | '
                            f'grep -q "LISTEN.*:{port} " && exit 0; sleep 0.05; done; exit 1'],
                           check=True, timeout=LIMIT_S)
            second = self.under_rh_run(client, capture)
        self.run_both(first, second)
        self.assert_judged(capture)

    def test_stock_programs_of_librdmacm(self):
        for server, client, port in (
                ('rping -s -a {address} -p {port} -C 50 -V -S 3000', 'rping -c -a {address} -p {port} -C 50 -V -S 3000', None),
                ('ucmatose -b {address} -p {port} -c 4 -C 10 -S 5000', 'ucmatose -s {address} -p {port} -c 4 -C 10 -S 5000', None),
                ('udaddy -b {address} -c 2 -S 1000', 'udaddy -s {address} -c 2 -S 1000', UDADDY_PORT),
                ('rdma_server -s {address} -p {port}', 'rdma_client -s {address} -p {port}', None)):
            for family, we_serve in itertools.product((4, 6), (True, False)):
                with self.subTest(server=server, ip=family, we_serve=we_serve):
                    self.connect_stock(server, client, family, we_serve, port or next(ports))

    def test_perftest_by_librdmacm(self):
        """We serve: its server stops listening between its two connections, and an emulated one is not
        always back when its client asks again."""
        for program in ('ib_write_bw', 'ib_send_lat'):
            with self.subTest(program=program):
                command = program + ' -R -p {port} -n 100 -F'
                self.connect_stock(command, command + ' {address}', 4, True, next(ports))

    def test_the_connection_manager(self):
        for family in (4, 6):
            with self.subTest(ip=family):
                port = next(ports)
                capture = pathlib.Path(_folder.name, f'{port}.pcapng')
                server = self.ours('rh-cm', '-V', '-C', 50, '-S', 3000, '-p', port, '--pcap', capture)
                server.wait_for(lambda: 'listening on port' in server.err.read_text())
                client = self.theirs(f'rping -c -a {OURS[family]} -p {port} -V -C 50 -S 3000')
                self.run_both(server, client)
                self.assert_judged(capture)


if __name__ == '__main__':
    unittest.main(verbosity=2)
