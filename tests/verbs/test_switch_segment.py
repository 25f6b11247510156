#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Stock programs under rh-run --uplink switch: the processes of a host reach other hosts through a
port of DPDK, which rh-switch --segment has for all of them."""

import json
import os
import signal
import time
import unittest

from test_rdma_cm import RdmaCmTest
import support
from lab.pairs import free_port
from support import LIMIT_S, wait_until
from verbs_support import PROGRAMS, SANITIZER, as_ordinary_user

# Of the kernels, by which the programs find each other, and of the devices, which no kernel has.
ADDRESSES = {4: ('10.8.0.1', '10.8.0.2')}
DEVICES = {4: ('10.9.0.1', '10.9.0.2'), 6: ('fd09::1', 'fd09::2')}
LISTS = [f'{address}/24,{other}/64' for address, other in zip(*DEVICES.values())]
PORT = ('--port', 'net_af_packet0,iface=eth0')
MTU = 4200
ITERATIONS = 200
# Sends COUNT frames out of eth0: random ones, and those that are right up to some header.
HOSTILE = '''
import random, socket, sys
count, station = int(sys.argv[1]), bytes.fromhex(sys.argv[2])
chance = random.Random(1)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
groups = (b'\\xff' * 6, bytes.fromhex('01005e010101'), bytes.fromhex('333300000001'), chance.randbytes(6))
for _ in range(count):
    frame = bytearray(chance.randbytes(chance.choice((chance.randrange(14, 100), chance.randrange(14, 4200)))))
    frame[0:6] = station if chance.random() < 0.8 else chance.choice(groups)
    frame[6:12] = station if chance.random() < 0.05 else b'\\x02\\x99' + chance.randbytes(4)
    frame[12:14] = chance.choice((b'\\x08\\x00', b'\\x08\\x06', b'\\x86\\xdd', chance.randbytes(2)))
    if frame[12:14] == b'\\x08\\x06' and len(frame) >= 42 and chance.random() < 0.8:
        frame[14:22] = bytes.fromhex('000108000604') + bytes((0, chance.choice((1, 2))))
    if frame[12:14] == b'\\x08\\x00' and len(frame) >= 54 and chance.random() < 0.8:
        frame[14] = 0x45
        frame[20:22] = bytes(2)
        frame[23] = chance.choice((1, 17))
        frame[36:38] = (4791).to_bytes(2, 'big')
        if chance.random() < 0.5: frame[47:50] = b'\\x00' + chance.choice((b'\\x00\\x01', chance.randbytes(2)))
    out.send(frame)
'''
# An echo from the kernel's IP, until it is answered.
PING = '''
import socket, sys
found = socket.getaddrinfo(sys.argv[1], 0, flags=socket.AI_NUMERICHOST)[0]
four = found[0] == socket.AF_INET
wire = socket.socket(found[0], socket.SOCK_RAW, socket.IPPROTO_ICMP if four else socket.IPPROTO_ICMPV6)
wire.settimeout(10)
request = bytes.fromhex('0800f7fd00010001') if four else bytes.fromhex('8000000000010001')
wire.sendto(request, found[4])
while True:
    answer, sender = wire.recvfrom(2000)
    if answer[20 if four else 0] == (0 if four else 129) and sender[0] == sys.argv[1]: break
'''


class Segment:
    """In the place of a host; all are in this network namespace."""

    def __init__(self, name):
        self.pid = name  # of the folder

    @staticmethod
    def enter():
        return as_ordinary_user()


class SwitchSegmentTest(RdmaCmTest):
    """Two hosts, and what their devices are called."""

    hosts = ()

    def uplink(self, host):
        return '--uplink', 'switch', '--addresses', LISTS[self.hosts.index(host)]

    def start_verbs(self, name, *command, options=(), host=None):
        return super().start_verbs(name, *command, options=(*self.uplink(host), *options), host=host)

    def start_pair(self, program, *options, hosts=None, **more):
        return super().start_pair(program, *options, hosts=hosts or self.hosts, **more)

    def begin_switch(self, host, *options):
        self.make_segment(host)
        return self.lab.start('switch', self.at_segment(
            host, PROGRAMS / 'rh-switch', '--json', *support.IDLE, *options))

    def start_switch(self, host, *options, segment=None):
        """Once it is ready."""
        segment = segment or LISTS[self.hosts.index(host)]
        switch = self.begin_switch(host, '--segment', segment, *options)
        self.wait_for_switch(switch)
        return switch

    def wait_for_switch(self, switch):
        wait_until(lambda: 'rh-switch: ready' in switch.messages() or switch.has_ended(), LIMIT_S, 'it is ready')
        self.assertFalse(switch.has_ended(), switch.messages())

    def segment_counters(self, switch):
        """Of its first one; ends the switch."""
        switch.child.send_signal(signal.SIGTERM)
        self.assertEqual(switch.wait(LIMIT_S), 0, switch.messages())
        return next(port['counters'] for port in json.loads(switch.output())['ports'] if 'segment' in port)

    def exchange(self, *options, program='ibv_rc_pingpong', size=9000, **more):
        self.ping_pong(program, *options, size=size, iterations=ITERATIONS, **more)


class TwoHosts(SwitchSegmentTest):
    """A veth pair joins them, whose ends the switches have by AF_PACKET."""

    def setUp(self):
        super().setUp()
        self.hosts = self.two_hosts(MTU, ADDRESSES)

    def start_pair(self, program, *options, hosts=None, **more):
        hosts = hosts or self.hosts
        return super().start_pair(program, *options, hosts=hosts, to=ADDRESSES[4][self.hosts.index(hosts[0])], **more)

    def start_switch(self, host, *options, mtu=MTU, **more):
        return super().start_switch(host, *PORT, '--link-mtu', mtu, *options, **more)

    def start_switches(self, **more):
        return [self.start_switch(host, **more) for host in self.hosts]

    def segment_mac(self, host):
        """See stack/segment/layout.h."""
        return (self.segment(host) / 'table').read_bytes()[8:14].hex()

    def wait_for_packets(self, capture, process):
        """Until there are some of it in its capture."""
        wait_until(lambda: any(True for _ in support.packets_so_far(capture)) or process.has_ended(), LIMIT_S,
                   f'{process.name} has begun')
        self.assertFalse(process.has_ended(), process.messages())

    def test_each_transport(self):
        switches = self.start_switches()
        for program, size in (('ibv_rc_pingpong', 9000), ('ibv_uc_pingpong', 9000), ('ibv_ud_pingpong', 2000),
                              ('ibv_srq_pingpong', 9000), ('ibv_xsrq_pingpong', 9000)):
            for events in ((), ('-e',)):
                with self.subTest(program=program, events=events):
                    self.exchange('-g', 0, *events, program=program, size=size)
        for switch in switches:
            counters = self.segment_counters(switch)
            self.assertGreater(counters['device_rx_frames'], 10 * ITERATIONS)
            for name in ('out_foreign_source', 'out_own_destination', 'in_refused', 'in_own_source'):
                self.assertEqual(counters[f'device_{name}'], 0, name)

    def test_both_families_keep_the_rules(self):
        switches = [self.start_switch(host, '--pcap', self.segment(host) / 'switch.pcapng') for host in self.hosts]
        for family, index in ((4, 0), (6, 1)):
            captures = [self.segment(host) / f'{family}.pcapng' for host in self.hosts]
            with self.subTest(family=family):
                self.exchange('-c', '-g', index, runs=[('--pcap', capture) for capture in captures])
                for capture in captures:
                    self.assertGreater(self.checked(capture)['judged_packets'], 2 * ITERATIONS)
        for host, switch in zip(self.hosts, switches):
            self.segment_counters(switch)
            on_the_wire = self.checked(self.segment(host) / 'switch.0.pcapng')
            self.assertGreater(on_the_wire['judged_packets'], 4 * ITERATIONS)

    def test_the_mtu_of_the_port(self):
        self.start_switches(mtu=1500)
        shown = self.start_verbs('devinfo', 'ibv_devinfo', '-v', host=self.hosts[0])
        self.assertEqual(shown.wait(LIMIT_S), 0, shown.messages())
        self.assertRegex(shown.output(), r'active_mtu:\s+1024')
        self.exchange('-c', '-g', 0)

    @unittest.skipIf(SANITIZER, 'perftest frees little at its end')
    def test_bandwidth(self):
        self.start_switches()
        for program in ('ib_write_bw', 'ib_read_bw', 'ib_send_bw'):
            with self.subTest(program=program):
                self.run_pair(program, '-x', 0, '-n', 500, '-s', 65536, '-F')

    def test_several_processes_of_each_host(self):
        """Two of them meet within their host."""
        self.start_switches()
        pairs = [self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', 2000, *events, hosts=hosts)
                 for hosts in (self.hosts, self.hosts[::-1], self.hosts[:1] * 2) for events in ((), ('-e',))]
        for pair in pairs:
            self.finish(pair)

    def test_rping(self):
        self.start_switches()
        for (server, client), more in ((DEVICES[4], ()), (DEVICES[6], ()), (DEVICES[4][::-1], ('-S', 3000))):
            with self.subTest(server=server):
                hosts = self.hosts if server.endswith('1') else self.hosts[::-1]
                self.rping(server, server, *more, hosts=hosts)
                self.rping(server, server, '-I', client, hosts=hosts)

    def test_groups(self):
        """The receiver does not say when it is there: they are sent again and again."""
        self.start_switches()
        self.need('mckey')
        common = ('mckey', '-m', '239.1.1.1', '-b')
        receiver = self.start_verbs('receiver', *common, DEVICES[4][0], host=self.hosts[0])
        limit = time.monotonic() + LIMIT_S
        while not receiver.has_ended() and time.monotonic() < limit:
            sender = self.start_verbs('sender', *common[:1], '-s', *common[1:], DEVICES[4][1], host=self.hosts[1])
            self.succeeds(sender, 'return status 0')
        self.succeeds(receiver, 'return status 0')

    def test_a_port_that_nobody_has_and_an_address_without_a_way(self):
        self.start_switches()
        for address, message in (('192.0.2.1', 'No such device|unreachable|ADDR_ERROR'),
                                 (DEVICES[4][0], 'UNREACHABLE|REJECTED')):
            with self.subTest(address=address):
                process = self.start_verbs('rping', 'rping', '-c', '-a', address, '-p', free_port(), host=self.hosts[1])
                self.assertNotEqual(process.wait(LIMIT_S), 0)
                self.assertRegex(process.messages() + process.output(), message)

    @unittest.skipIf(SANITIZER, 'perftest frees little at its end')
    def test_another_switch_after_one_that_is_killed(self):
        """All retries of the programs together take more than eight seconds."""
        switches = self.start_switches()
        for end in (0, 1):
            capture = self.segment(self.hosts[1]) / f'{end}.pcapng'
            pair = self.start_pair('ib_write_bw', '-x', 0, '-D', 5, '-s', 65536, '-F', '-u', 18,
                                   runs=((), ('--pcap', capture)))
            self.wait_for_packets(capture, pair[1])
            switches[end].child.kill()
            switches[end].wait(LIMIT_S)
            switches[end] = self.start_switch(self.hosts[end])
            self.finish(pair)
        for switch in switches:
            self.assertGreater(self.segment_counters(switch)['device_rx_frames'], 0)

    def test_a_process_that_is_killed_costs_others_nothing(self):
        self.start_switches()
        capture = self.segment(self.hosts[1]) / 'doomed.pcapng'
        doomed = self.start_pair('ibv_rc_pingpong', '-g', 0, '-n', 10**8, runs=((), ('--pcap', capture)))
        pair = self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', 5000)
        self.wait_for_packets(capture, doomed[1])
        doomed[0].child.kill()
        self.finish(pair)
        doomed[1].child.kill()  # it may wait for its peer for ever
        self.exchange('-c', '-g', 0)

    def test_the_kernel_of_another_host_reaches_the_addresses(self):
        """With and without a process, which sleeps."""
        switch = self.start_switch(self.hosts[0])
        for address in ('10.9.0.9/24', 'fd09::9/64 nodad'):
            self.hosts[1].run(f'ip address add {address} dev eth0')

        def ping():
            for addresses in DEVICES.values():
                self.hosts[1].run('ip neighbour flush dev eth0')
                echo = self.lab.start('ping', self.hosts[1].enter('python3', '-c', PING, addresses[0]))
                self.assertEqual(echo.wait(LIMIT_S), 0, echo.messages())
        ping()
        sleeper = self.start_listening(port := free_port(), 'ibv_rc_pingpong', '-e', '-g', 0, '-p', port,
                                       host=self.hosts[0])
        ping()
        self.assertFalse(sleeper.has_ended(), sleeper.messages())
        counters = self.segment_counters(switch)
        for name in ('arp_replies_sent', 'neighbour_advertisements_sent'):
            self.assertGreaterEqual(counters[f'device_host_{name}'], 2, name)

    def test_hostile_frames_from_outside(self):
        switches = self.start_switches()
        pair = self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', 5000)
        hostile = self.lab.start('hostile', self.hosts[1].enter(
            'python3', '-c', HOSTILE, '20000', self.segment_mac(self.hosts[0])))
        self.assertEqual(hostile.wait(LIMIT_S), 0, hostile.messages())
        self.finish(pair)
        self.exchange('-c', '-g', 0)
        counters = self.segment_counters(switches[0])
        for name in ('tx_no_owner', 'in_for_host', 'in_for_all'):
            self.assertGreater(counters[f'device_{name}'], 0, name)

    @unittest.skipUnless('ROCKHOPPER_HOSTILE_NEIGHBOUR' in os.environ, 'meson tells where it is')
    def test_hostile_frames_of_a_process(self):
        switches = self.start_switches()
        pair = self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', 5000)
        hostile = self.lab.start('hostile', self.at_segment(
            self.hosts[0], os.environ['ROCKHOPPER_HOSTILE_NEIGHBOUR'], self.segment(self.hosts[0]), 'frames', 20000, 1))
        self.assertEqual(hostile.wait(LIMIT_S), 0, hostile.messages())
        for process in pair:  # which may be what the frames were for
            process.wait(LIMIT_S)
        counters = self.segment_counters(switches[0])
        self.assertGreater(counters['device_out_foreign_source'], 0)
        self.assertGreater(counters['device_out_own_destination'], 0)

    def test_refusals(self):
        process = self.start_verbs('early', 'ibv_rc_pingpong', '-g', 0, host=self.hosts[0])
        self.assertNotEqual(process.wait(LIMIT_S), 0)
        self.assertIn('no rh-switch has the segment', process.messages())
        switch = self.start_switch(self.hosts[0])
        second = self.begin_switch(self.hosts[0], '--memif', 1, '--segment', LISTS[0])
        self.assertEqual(second.wait(LIMIT_S), 1)
        self.assertRegex(second.messages().strip().splitlines()[-1], rf'process {switch.child.pid} is the way out')
        process = RdmaCmTest.start_verbs(
            self, 'other', 'ibv_rc_pingpong', '-g', 0, options=('--uplink', 'switch', '--addresses', '10.9.0.7/24'),
            host=self.hosts[0])
        self.assertNotEqual(process.wait(LIMIT_S), 0)
        self.assertIn('has other addresses', process.messages())
        self.assertFalse(switch.has_ended(), switch.messages())


class OneMachine(SwitchSegmentTest):
    """Two segments of an ordinary user."""

    def setUp(self):
        super().setUp()
        self.hosts = [Segment(name) for name in 'ab']

    def sockets(self):
        folder = self.segment(self.hosts[0])
        self.make_segment(self.hosts[0])
        return '--socket-dir', folder, folder / 'switch0.sock'

    def test_two_devices_of_one_switch(self):
        for host in self.hosts:
            self.make_segment(host)
        switch = self.begin_switch(self.hosts[0], *(
            word for host, own in zip(self.hosts, LISTS) for word in ('--segment', f'{own}@{self.segment(host)}')))
        self.wait_for_switch(switch)
        self.assertIn(f'ROCKHOPPER_SEGMENT={self.segment(self.hosts[1])} rh-run --uplink switch --addresses {LISTS[1]}',
                      switch.messages())
        self.exchange('-c', '-g', 0)
        self.exchange('-c', '-g', 1, hosts=self.hosts[::-1])

    def test_two_switches_over_memif(self):
        *folder, socket = self.sockets()
        first = self.start_switch(self.hosts[0], '--memif', 1, *folder)
        self.start_switch(self.hosts[1], '--port', f'net_memif0,role=client,socket-abstract=no,socket={socket}')
        self.exchange('-c', '-g', 0)
        self.rping(DEVICES[4][0], DEVICES[4][0], hosts=self.hosts)
        self.assertGreater(self.segment_counters(first)['device_rx_frames'], ITERATIONS)

    def test_a_program_with_an_engine_of_its_own_over_memif(self):
        *folder, socket = self.sockets()
        self.start_switch(self.hosts[0], '--memif', 1, *folder)
        port = free_port()
        common = ('-n', ITERATIONS, '-s', 9000)
        server = self.start_listening(port, 'ibv_rc_pingpong', '-g', 0, '-p', port, *common, host=self.hosts[0])
        client = self.lab.start('rh-pingpong', self.at_segment(
            self.hosts[0], PROGRAMS / 'rh-pingpong', '-p', port, *common, '--memif-role', 'client',
            '--memif-socket', socket, '--ip', f'{DEVICES[4][1]}/24', *support.IDLE, 'localhost'))
        self.finish((server, client))

    def test_wrong_arguments(self):
        for options, text in ((('--segment', '10.9.0.1'), 'prefix length'),
                              (('--segment', '10.9.0.1/24@/no/such'), 'no such directory'),
                              (('--segment', LISTS[0]), '1 ports'),
                              (('--segment', LISTS[0], '--segment', LISTS[1]), 'given twice')):
            with self.subTest(options=options):
                switch = self.begin_switch(self.hosts[0], *options)
                self.assertEqual(switch.wait(LIMIT_S), 2, switch.messages())
                self.assertIn(text, switch.messages())
                self.assertEqual(len(switch.messages().splitlines()), 1, switch.messages())
        process = RdmaCmTest.start_verbs(self, 'run', 'true', options=('--uplink', 'switch'), host=self.hosts[0])
        self.assertEqual(process.wait(LIMIT_S), 2, process.messages())
        self.assertIn('addresses', process.messages())


if __name__ == '__main__':
    unittest.main(verbosity=2)
