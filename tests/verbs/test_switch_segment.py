#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Stock programs under rh-run --uplink switch: the processes of a host reach other hosts through a
port of DPDK, which rh-switch --segment has for all of them."""

import json
import signal
import subprocess
import unittest

from pairs import PairTest
import support
from support import LIMIT_S, wait_until
from verbs_support import PROGRAMS, SANITIZER, clean_environment

# Of the kernels, by which the programs find each other, and of the devices, which no kernel has.
ADDRESSES = {4: ('10.8.0.1', '10.8.0.2')}
DEVICES = ('10.9.0.1', '10.9.0.2')
LISTS = tuple(f'{address}/24,fd09::{number}/64' for number, address in enumerate(DEVICES, 1))
MTU = 4200
ITERATIONS = 200


class SwitchSegmentTest(PairTest):
    """Two hosts that a veth pair joins, whose ends the switches have by AF_PACKET."""

    def setUp(self):
        super().setUp()
        self.hosts = self.two_hosts(MTU, ADDRESSES)
        self.options = {host: ('--uplink', 'switch', '--addresses', own) for host, own in zip(self.hosts, LISTS)}

    def start_verbs(self, name, *command, options=(), host=None):
        return super().start_verbs(name, *command, options=(*self.options[host], *options), host=host)

    def start_pair(self, program, *options, hosts=None, **more):
        hosts = hosts or self.hosts
        return super().start_pair(program, *options, hosts=hosts, to=ADDRESSES[4][self.hosts.index(hosts[0])], **more)

    def start_switch(self, host, *options, segment=None, ports=('net_af_packet0,iface=eth0',)):
        """Once it is ready."""
        folder = self.segment(host)
        folder.mkdir(mode=0o700, exist_ok=True)
        self.addCleanup(lambda: subprocess.run(['rm', '-rf', folder], check=True))
        settings = {'HOME': folder, 'XDG_RUNTIME_DIR': folder, 'ROCKHOPPER_SEGMENT': folder,
                    'PATH': clean_environment()['PATH']}
        own = [word for port in ports for word in ('--port', port)]
        switch = self.lab.start('switch', [
            *host.enter(), 'env', '-i', *(f'{name}={value}' for name, value in settings.items()),
            PROGRAMS / 'rh-switch', '--json', '--link-mtu', MTU, *support.IDLE, *own,
            '--segment', segment or LISTS[self.hosts.index(host)], *options])
        wait_until(lambda: 'rh-switch: ready' in switch.messages() or switch.has_ended(), LIMIT_S, 'the switch is ready')
        return switch

    def start_switches(self, *options):
        switches = [self.start_switch(host, *options) for host in self.hosts]
        for switch in switches:
            self.assertFalse(switch.has_ended(), switch.messages())
        return switches

    def report(self, switch):
        """The counters of its segment; the switch has ended."""
        switch.child.send_signal(signal.SIGTERM)
        self.assertEqual(switch.wait(LIMIT_S), 0, switch.messages())
        return next(port['counters'] for port in json.loads(switch.output())['ports'] if 'segment' in port)

    def exchange(self, *options, program='ibv_rc_pingpong', size=9000, **more):
        self.ping_pong(program, *options, size=size, iterations=ITERATIONS, **more)

    def test_each_transport(self):
        switches = self.start_switches()
        for program, size in (('ibv_rc_pingpong', 9000), ('ibv_uc_pingpong', 9000), ('ibv_ud_pingpong', 2000),
                              ('ibv_srq_pingpong', 9000), ('ibv_xsrq_pingpong', 9000)):
            for events in ((), ('-e',)):
                with self.subTest(program=program, events=events):
                    self.exchange('-g', 0, *events, program=program, size=size)
        for switch in switches:
            counters = self.report(switch)
            self.assertGreater(counters['device_rx_frames'], 10 * ITERATIONS)
            self.assertEqual(counters['device_out_foreign_source'], 0)


if __name__ == '__main__':
    unittest.main(verbosity=2)
