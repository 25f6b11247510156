#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Stock programs between hosts, under rh-run --uplink udp: two segments of this machine, joined by
the loopback device, and two network namespaces that any user may make."""

import random
import re
import socket
import subprocess
import unittest

from pairs import LINE_BY_LINE, PairTest
import support
from lab.pairs import free_port, has_port, waiting_bytes
from support import LIMIT_S, wait_until
from verbs_support import SANITIZER, SOAK, as_ordinary_user

UPLINK = ('--uplink', 'udp')
ADDRESSES = {4: ('10.8.0.1', '10.8.0.2'), 6: ('fd08::1', 'fd08::2')}
MTU = 4200
MANY_BYTES = 50_000  # a socket with a buffer of the smallest default has room for more


class Segment:
    """In the place of a host; all are in this network namespace."""

    def __init__(self, name, address):
        self.pid = name  # of the folder
        self.options = (*UPLINK, '--addresses', f'{address}/8')

    @staticmethod
    def enter():
        return as_ordinary_user()


class UplinkTest(PairTest):
    ITERATIONS = 200

    def exchange(self, *options, program='ibv_rc_pingpong', size=9000, **more):
        self.ping_pong(program, *options, size=size, iterations=self.ITERATIONS, **more)


class OneMachine(UplinkTest):
    """Two addresses of the loopback device."""

    def setUp(self):
        super().setUp()
        self.addresses = support.loopback_addresses()
        self.segments = [Segment(name, address) for name, address in zip('ab', self.addresses)]

    def start_verbs(self, name, *command, options=(), host=None):
        return super().start_verbs(name, *command, options=(*host.options, *options), host=host)

    def start_pair(self, program, *options, hosts=None, **more):
        return super().start_pair(program, *options, hosts=hosts or self.segments, **more)

    def start_receiver(self, segment, address):
        """The first process of a segment, once it receives for all; it waits for a peer."""
        process = self.start_verbs('receiver', 'ibv_rc_pingpong', '-g', 0, '-p', free_port(), host=segment)
        wait_until(lambda: has_port(address), LIMIT_S, f'{process.name} receives')
        return process

    def begun_pair(self, iterations):
        """Both have each other's address."""
        pair = self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', iterations, by=LINE_BY_LINE)
        wait_until(lambda: 'remote address' in pair[1].output() or pair[1].has_ended(), LIMIT_S, 'the pair has begun')
        return pair

    def test_each_transport(self):
        for program, size in (('ibv_rc_pingpong', 9000), ('ibv_uc_pingpong', 9000), ('ibv_ud_pingpong', 2000),
                              ('ibv_srq_pingpong', 9000), ('ibv_xsrq_pingpong', 9000)):
            for events in ((), ('-e',)):
                with self.subTest(program=program, events=events):
                    self.exchange('-g', 0, *events, program=program, size=size)

    def test_each_way_of_progress(self):
        for modes in (('adaptive', 'thread'), ('thread', 'inline'), ('inline', 'adaptive')):
            with self.subTest(modes=modes):
                self.exchange('-c', '-g', 0, runs=[('--progress', mode) for mode in modes])

    def test_what_is_sent_keeps_the_rules(self):
        captures = [self.lab.path(f'{end}.pcapng') for end in ('server', 'client')]
        self.exchange('-c', '-g', 0, runs=[('--pcap', capture) for capture in captures])
        for capture in captures:
            self.assertGreater(self.checked(capture)['judged_packets'], 2 * self.ITERATIONS)
            for packet in support.roce_packets(capture):
                self.assertGreaterEqual(packet.src_port, 0xC000)

    def test_packets_twice_and_late(self):
        self.exchange('-c', '-g', 0, runs=(('--faults', 'dup=1%,reorder=1%:1ms'), ()))

    @unittest.skipIf(SANITIZER, 'perftest frees little at its end')
    def test_loss(self):
        """Of these programs neither leaves before the other has all acknowledgements, as the ping-pong
        programs do."""
        self.run_pair('ib_write_bw', '-x', 0, '-n', 500, '-s', 65536, '-F',
                      runs=(('--faults', 'loss=1%,dup=1%,reorder=1%:1ms'), ()))

    def test_several_processes_of_each_host(self):
        """One of them receives for all, on either side; on one side the first one also ends first."""
        short = self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', 1000)
        pairs = [self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', 3000, *events, hosts=hosts)
                 for hosts in (self.segments, self.segments[::-1]) for events in ((), ('-e',))]
        # These meet within their host.
        pairs.append(self.start_pair('ibv_rc_pingpong', '-c', '-g', 0, '-n', 3000, hosts=self.segments[:1] * 2))
        for pair in (short, *pairs):
            self.finish(pair)

    def test_another_process_receives_when_one_is_killed(self):
        """The programs' timeout is 67 ms, and they repeat 7 times."""
        for _ in range(200 if SOAK else 2 if SANITIZER else 5):
            holders = [self.start_receiver(segment, address)
                       for segment, address in zip(self.segments, self.addresses)]
            pair = self.begun_pair(10000)
            for holder in holders:
                holder.child.kill()
            self.finish(pair)

    def test_random_datagrams_cost_nothing_but_time(self):
        """Some begin like a packet for a queue pair that there is. They come as fast as they are received:
        what a full socket loses may well be the pair's, seven times in a row."""
        count = 1_000_000 if SOAK else 20_000
        pair = self.begun_pair(count)
        numbers = [int(number, 16) for number in re.findall(r'QPN 0x(\w+)', pair[1].output())]
        chance = random.Random(0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hostile:
            for _ in range(count):
                packet = bytearray(chance.randbytes(chance.choice((chance.randrange(64), chance.randrange(4500)))))
                if len(packet) >= 12 and chance.random() < 0.5:
                    packet[0] = chance.randrange(0x20)  # of RC
                    packet[1:4] = bytes((0x40, 0xff, 0xff))
                    packet[4:8] = chance.choice(numbers).to_bytes(4, 'big')
                address = chance.choice(self.addresses)
                wait_until(lambda address=address: (waiting_bytes(address) or 0) < MANY_BYTES or pair[1].has_ended(), LIMIT_S,
                           'the datagrams are received', interval_s=0.001)
                hostile.sendto(packet, (address, 4791))
        self.finish(pair, LIMIT_S + count // 1000)

    def test_a_child_does_not_keep_the_port(self):
        """As a program may leave one behind that knows nothing of the device."""
        script = ('import os, sys, time\n'
                  'import pyverbs.device as d\n'
                  'context = d.Context(name="rh0")\n'
                  'if os.fork() == 0: time.sleep(1000)\n'
                  'print("here", flush=True)\n'
                  'time.sleep(1000)\n')
        if subprocess.run(['/usr/bin/python3', '-c', 'import pyverbs'], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest('there is no pyverbs')
        parent = self.start_verbs('parent', '/usr/bin/python3', '-c', script, host=self.segments[0])
        wait_until(lambda: parent.output() or parent.has_ended(), LIMIT_S, 'the child is there')
        self.assertFalse(parent.has_ended(), parent.messages())
        parent.child.kill()
        wait_until(lambda: not has_port(self.addresses[0]), LIMIT_S, 'the port is free')
        self.exchange('-c', '-g', 0)

    def test_a_port_that_somebody_else_has(self):
        other = Segment('c', self.addresses[0])
        self.start_receiver(self.segments[0], self.addresses[0])
        second = self.start_verbs('second', 'ibv_rc_pingpong', '-g', 0, '-p', free_port(), host=other)
        self.assertNotEqual(second.wait(LIMIT_S), 0)
        self.assertIn(f'UDP port 4791 of {self.addresses[0]} is in use', second.messages())

    def test_addresses_that_no_interface_has(self):
        lost = Segment('d', '192.0.2.7')
        process = self.start_verbs('lost', 'ibv_rc_pingpong', '-g', 0, host=lost)
        self.assertNotEqual(process.wait(LIMIT_S), 0)
        self.assertIn('192.0.2.7 is no address of this machine', process.messages())


class TwoHosts(UplinkTest):
    def setUp(self):
        super().setUp()
        self.hosts = self.two_hosts(MTU, ADDRESSES)

    def start_pair(self, program, *options, runs=((), ()), **more):
        return super().start_pair(program, *options, hosts=self.hosts, to=ADDRESSES[4][0],
                                  runs=[(*UPLINK, *run) for run in runs], **more)

    def test_both_families(self):
        """No address is given: the GIDs are those of the interfaces."""
        for family, index in ((4, 0), (6, 1)):
            captures = [self.segment(host) / f'{family}.pcapng' for host in self.hosts]
            with self.subTest(family=family):
                self.exchange('-c', '-g', index, runs=[('--pcap', capture) for capture in captures])
                for capture in captures:
                    self.assertGreater(self.checked(capture)['judged_packets'], 2 * self.ITERATIONS)

    def test_an_mtu_of_ethernet(self):
        for host in self.hosts:
            host.run('ip link set eth0 mtu 1500')
        shown = self.start_verbs('devinfo', 'ibv_devinfo', '-v', options=UPLINK, host=self.hosts[0])
        self.assertEqual(shown.wait(LIMIT_S), 0, shown.messages())
        self.assertRegex(shown.output(), r'active_mtu:\s+1024')
        self.exchange('-c', '-g', 0)

    @unittest.skipIf(SANITIZER, 'perftest frees little at its end')
    def test_bandwidth(self):
        for program in ('ib_write_bw', 'ib_read_bw', 'ib_send_bw'):
            with self.subTest(program=program):
                self.run_pair(program, '-x', 0, '-n', 500, '-s', 65536, '-F')


if __name__ == '__main__':
    unittest.main(verbosity=2)
