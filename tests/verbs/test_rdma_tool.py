#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The program `rdma` of iproute2, unmodified, which asks by netlink which RDMA devices there are."""

import json
import os
import shutil
import signal
import socket
import struct
import sys
import unittest

from verbs_support import PATHS, RunTest

# Of <rdma/rdma_netlink.h> and <linux/netlink.h>.
NETLINK_RDMA = 20
GET_DEVICES = 5 << 10 | 1
REQUEST, ACK, DUMP = 1, 4, 0x300
DONE = 3
HEADER = struct.Struct('=IHHII')
GARBLED = 'garbled'
# Seconds; a good run takes less than one.
LIMIT_S = 30
# The library that answers, or another one in its place.
ANSWERS = os.environ.get('ROCKHOPPER_RH_PATHS', PATHS)


class RdmaTool(RunTest):
    def setUp(self):
        super().setUp()
        if not PATHS.exists():
            self.skipTest('there is no library')
        if shutil.which('rdma') is None:
            self.skipTest('iproute2 is not installed')

    def rdma(self, *arguments, options=()):
        return json.loads(self.assert_good(self.rh_run(*options, '--', 'rdma', '-j', *arguments)))

    def test_devices(self):
        device, = self.rdma('dev')
        self.assertEqual((device['ifname'], device['node_type']), ('rh0', 'ca'))
        folder = '/sys/class/infiniband/rh0'
        self.assertEqual(self.assert_good(self.rh_run(
            '--', 'cat', f'{folder}/node_guid', f'{folder}/fw_ver')).split(),
            [device['node_guid'], device['fw']])
        self.assertNotEqual(device['node_guid'].strip('0:'), '', 'librdmacm takes 0 for no device')

    def test_links(self):
        link, = self.rdma('link', 'show')
        self.assertEqual((link['ifname'], link['port'], link['state'], link['physical_state']),
                         ('rh0', 1, 'ACTIVE', 'LINK_UP'))
        interfaces = self.rh_run('--', 'ls', '/sys/class/infiniband/rh0/device/net').stdout.split()
        self.assertEqual('netdev' in link, bool(interfaces))
        if interfaces:
            self.assertIn(link['netdev'], interfaces)

    def test_one_of_several(self):
        several = ('--device', 'a', '--device', 'b')
        self.assertEqual([device['ifname'] for device in self.rdma('dev', options=several)], ['a', 'b'])
        link, = self.rdma('link', 'show', 'b/1', options=several)
        self.assertEqual((link['ifname'], link['ifindex']), ('b', 1))

    def test_addresses_of_no_interface(self):
        link, = self.rdma('link', options=('--addresses', '192.0.2.7/24'))
        self.assertNotIn('netdev', link)

    def test_what_is_not_answered(self):
        self.assert_one_line(self.rh_run('--', 'rdma', 'resource'), 1, 'not supported')
        self.assert_one_line(self.rh_run('--', 'rdma', 'dev', 'show', 'rh9'), 1, 'rh9')

    def test_without_devices_of_ours(self):
        done = self.run_command('rdma', 'dev')
        with_none = self.rh_run('--', 'rdma', 'dev', ROCKHOPPER_VERBS='off')
        self.assertEqual((with_none.returncode, with_none.stdout, with_none.stderr),
                         (done.returncode, done.stdout, done.stderr))

    def test_garbled_requests(self):
        self.assertEqual(self.assert_good(self.rh_run(
            '--', 'env', f'LD_PRELOAD={ANSWERS}', '/usr/bin/python3', __file__, GARBLED)).split(),
            ['sent', 'rh0'])


def send_garbled_requests():
    """Requests whose lengths say too much, too little and nothing, then a right one."""
    signal.alarm(LIMIT_S)
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    attribute = struct.pack('=HHI', 8, 1, 0)
    for length in (0, 1, 15, 16, 17, 20, 23, 24, 25, 4096, 0xffffffff):
        for attribute_length in (0, 1, 3, 4, 5, 7, 8, 9, 0xffff):
            body = struct.pack('=H', attribute_length) + attribute[2:]
            for kind in (GET_DEVICES, 0xffff):
                message = HEADER.pack(length, kind, REQUEST | ACK, 1, 0) + body
                for size in range(0, len(message) + 1, 3):
                    netlink.sendto(message[:size], (0, 0))
    netlink.close()
    print('sent')
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    netlink.sendmsg([HEADER.pack(HEADER.size, GET_DEVICES, REQUEST | DUMP, 7, 0)], [], 0, (0, 0))
    answer = netlink.recv(65536)
    _, kind, _, sequence, port = HEADER.unpack_from(answer)
    assert (kind, sequence, port) == (GET_DEVICES, 7, netlink.getsockname()[0])
    assert HEADER.unpack_from(netlink.recv(65536))[1] == DONE
    # The second attribute is the name, behind the index.
    print(answer[HEADER.size + 12:].partition(b'\0')[0].decode())


if __name__ == '__main__':
    if sys.argv[1:] == [GARBLED]:
        send_garbled_requests()
    else:
        unittest.main(verbosity=2)
