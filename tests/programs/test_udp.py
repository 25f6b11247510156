#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Programs over ordinary UDP sockets (--device udp): on one machine, and on two hosts, which are
network namespaces that any user may make."""

import subprocess
import sys
import unittest

import support
from lab.pairs import has_port
from support import LIMIT_S, LOSSY, loopback_addresses, wait_until

MTU = 4200
# Writes the frames of eth0 to a capture file, until it is ended and has all of them.
TAP = '''
import signal, socket, struct, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind(('eth0', 0))
tap.settimeout(0.1)
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(True))
with open(sys.argv[1], 'wb', 0) as capture:
    capture.write(struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 1 << 18, 1))
    print('ready', flush=True)
    number = 0
    while True:
        try:
            frame = tap.recv(1 << 18)
        except TimeoutError:
            if ended: break
            continue
        capture.write(struct.pack('<IIII', 0, number, len(frame), len(frame)) + frame)
        number += 1
'''
ADDRESSES = {4: ('10.7.0.1', '10.7.0.2'), 6: ('fd07::1', 'fd07::2')}


class OneMachine(support.ProgramTest):
    def start_pair(self, program, *common, server=(), client=(), family=4):
        del family
        self.ends = loopback_addresses()
        common = ('--device', 'udp', *common)
        server_process, port = self.start_server(program, *common, '--ip', self.ends[0], *server)
        client_process = self.start(program, '-p', port, *common, '--ip', self.ends[1], *client,
                                    'localhost')
        return server_process, client_process

    def test_each_transport(self):
        for ends in self.ping_pongs():
            self.assertEqual([end['local']['gid'] for end in ends], list(self.ends))

    def test_operations(self):
        for operation in ('send', 'write', 'read', 'faa', 'lock'):
            with self.subTest(operation=operation):
                ends = self.run_pair('rh-perf', '--op', operation, '-n', 500)
                self.assert_versions('rh-perf', ends)

    def test_captures(self):
        captures = [self.lab.path(f'{end}.pcapng') for end in ('server', 'client')]
        self.run_pair('rh-pingpong', '-c', '-s', 9000, '-n', 300, '--tclass', 104,
                      server=('--pcap', captures[0]), client=('--pcap', captures[1]))
        for capture in captures:
            self.assertGreater(self.checked(capture)['judged_packets'], 2 * 300 * 3)
            for packet in support.roce_packets(capture):
                self.assertGreaterEqual(packet.src_port, 0xC000)

    def test_faults(self):
        self.run_pair('rh-pingpong', '-c', '-s', 9000, '-n', 300,
                      client=('--faults', 'loss=2%,dup=2%,reorder=2%:1ms'))

    def test_the_connection_manager(self):
        ends = loopback_addresses()
        server = self.start('rh-cm', '-V', '-C', 10, '--device', 'udp', '--ip', ends[0])
        wait_until(lambda: has_port(ends[0]), LIMIT_S, 'the server has its port')
        client = self.start('rh-cm', '-V', '-C', 10, '--device', 'udp', '--ip', ends[1], ends[0])
        for process in (client, server):
            self.assert_status(process, 0)

    def test_a_port_that_another_program_has(self):
        address = loopback_addresses()[0]
        self.start_server('rh-pingpong', '--device', 'udp', '--ip', address)
        second = self.run_program('rh-pingpong', '--device', 'udp', '--ip', address)
        self.assert_failed(second, f'UDP port 4791 of {address} is in use: by another program')

    def test_an_address_that_no_interface_has(self):
        process = self.run_program('rh-pingpong', '--device', 'udp', '--ip', '192.0.2.7/24')
        self.assert_failed(process, '192.0.2.7 is no address of this machine')

    def test_options_that_are_the_kernels_affair(self):
        for option in (('--gateway', '127.0.0.9'), ('--vlan', 7), ('--priority-tags',)):
            process = self.run_program('rh-pingpong', '--device', 'udp', '--ip', '127.0.0.1', *option)
            self.assert_status(process, 2)
            self.assertIn('exclude --device udp', process.messages())


class TwoHosts(support.ProgramTest):
    """Joined by a veth pair, in a user namespace: no right is needed."""

    def setUp(self):
        super().setUp()
        self.hosts = self.two_hosts(MTU, ADDRESSES)

    def start_pair(self, program, *common, server=(), client=(), family=4):
        """Neither end is told any address: all of the machine's are its GIDs."""
        common = ('--device', 'udp', *common)
        server_process, port = self.start_server(program, *common, *server, prefix=self.hosts[0].enter())
        client_process = self.start(program, '-p', port, *common, *client, ADDRESSES[family][0],
                                    prefix=self.hosts[1].enter())
        return server_process, client_process

    def test_both_families(self):
        for family, index in ((4, 0), (6, 1)):
            with self.subTest(family=family):
                captures = [self.lab.path(f'{family}-{end}.pcapng') for end in ('server', 'client')]
                ends = self.run_pair('rh-pingpong', '-c', '-s', 9000, '-n', 300, '-g', index,
                                     family=family, server=('--pcap', captures[0]),
                                     client=('--pcap', captures[1]))
                self.assertEqual([end['local']['gid'] for end in ends], list(ADDRESSES[family]))
                for capture in captures:
                    self.assertGreater(self.checked(capture)['judged_packets'], 2 * 300 * 3)

    def test_what_goes_together(self):
        """The kernel cuts it before it passes a tap on the interface: what other hosts get is right."""
        for host in self.hosts:
            host.run('ip link set eth0 gso_max_segs 1')
        for family, index in ((4, 0), (6, 1)):
            with self.subTest(family=family):
                capture = self.lab.path(f'tap-{family}.pcap')
                tap = self.lab.start('tap', self.hosts[0].enter(sys.executable, '-c', TAP, str(capture)))
                wait_until(lambda: 'ready' in tap.output(), LIMIT_S, 'the tap is there')
                # Not more than the tap has room for.
                _, client = self.start_pair('rh-perf', '--op', 'write', '-s', '32K', '-t', 1, '-n', 2, '--warmup', 0,
                                            '--no-validate', '--stats', 10, '-x', index, family=family)
                self.assert_status(client, 0)
                self.assertRegex(client.messages(), r'tx_segmented +[1-9]')
                tap.end()
                # The sums of UDP are the affair of devices, behind the tap.
                self.assertGreaterEqual(self.checked(capture, '--ignore', 'udp-checksum')['judged_packets'], 2 * 8 + 2)

    def test_a_tap_in_place_of_the_interface(self):
        """A peer that reads packets before they are cut gets none of them, but those that are sent again."""
        server, port = self.start_server('rh-perf', '--device', 'net_af_packet0,iface=eth0,framesz=8192,blocksz=65536',
                                         '--ip', '10.7.0.9/24', '--link-mtu', MTU, prefix=self.hosts[0].enter())
        client = self.start('rh-perf', '-p', port, '--device', 'udp', '--op', 'write', '-s', '64K', '-n', 100,
                            '--stats', 10, ADDRESSES[4][0], prefix=self.hosts[1].enter())
        for process in (client, server):
            self.assert_status(process, 0)
        self.assertRegex(client.messages(), r'tx_repeats +[1-9]')

    def test_operations(self):
        for operation in ('send', 'write', 'read', 'faa'):
            with self.subTest(operation=operation):
                self.run_pair('rh-perf', '--op', operation, '-s', 64 if operation != 'faa' else 8, '-n', 500)

    def test_a_lossy_network(self):
        for host in self.hosts:
            impaired = subprocess.run(host.enter('tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'netem', 'delay', '100us',
                                                 'loss', '1%', 'duplicate', '1%', 'reorder', '1%', '50%'),
                                      capture_output=True, text=True, check=False)
            if impaired.returncode != 0:
                self.skipTest(f'no netem: {impaired.stderr.strip()}')
        capture = self.lab.path('lossy.pcapng')
        self.run_pair('rh-pingpong', '-c', '-s', 20_000, '-n', 300, *LOSSY, client=('--pcap', capture))
        self.checked(capture)

    def test_a_path_mtu_beyond_the_interfaces(self):
        self.hosts[0].run('ip link set eth0 mtu 1500')
        process = self.run_program('rh-pingpong', '--device', 'udp', '-m', 2048, prefix=self.hosts[0].enter())
        self.assert_status(process, 2)
        self.assertIn('path MTU 2048 needs interfaces with an MTU of 2128 or more', process.messages())

    def test_a_machine_without_addresses(self):
        self.hosts[0].run('ip link set eth0 down')
        process = self.run_program('rh-pingpong', '--device', 'udp', prefix=self.hosts[0].enter())
        self.assert_status(process, 2)
        self.assertIn('no interface has an address but the loopback device', process.messages())


if __name__ == '__main__':
    support.main()
