#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The ping-pong programs of rdma-core, unmodified, between two processes under rh-run."""

import os
import unittest

from pairs import LIMIT_S, PairTest
from verbs_support import SANITIZER, SOAK, as_ordinary_user

SIZES = (1, 1000, 4096, 65536, 1 << 20)
if SANITIZER and not SOAK:
    SIZES = (65536,)
ITERATIONS = 100


class PingPong(PairTest):
    def check(self, program, *options, size=4096, iterations=ITERATIONS, gid=('-g', 0), **more):
        self.need(program)
        with self.subTest(program=program, options=options, size=size):
            self.ping_pong(program, *gid, *options, size=size, iterations=iterations, **more)

    def test_the_programs_are_not_of_root(self):
        if os.geteuid() == 0 and not as_ordinary_user():
            self.skipTest('the tree is closed to ordinary users')
        shown = self.start_verbs('id', 'id', '-u')
        self.assertEqual(shown.wait(LIMIT_S), 0, shown.messages())
        self.assertNotEqual(int(shown.output()), 0)

    def test_reliable_connection(self):
        for size in SIZES:
            self.check('ibv_rc_pingpong', '-c', size=size)
            self.check('ibv_rc_pingpong', '-c', '-e', size=size)

    def test_without_a_gid(self):
        """The LID says where the peer is."""
        for program in ('ibv_rc_pingpong', 'ibv_uc_pingpong', 'ibv_ud_pingpong', 'ibv_srq_pingpong'):
            self.check(program, '-c', gid=(), size=1000)

    def test_events_without_a_thread(self):
        """Who waits for an event moves the packets that make it."""
        alone = ('--progress', 'inline')
        for program in ('ibv_rc_pingpong', 'ibv_ud_pingpong'):
            self.check(program, '-e', size=1000, runs=(alone, alone))

    def test_on_demand_paging(self):
        self.check('ibv_rc_pingpong', '-c', '-o')

    def test_new_interface_of_posting(self):
        self.check('ibv_rc_pingpong', '-c', '-N')

    def test_time_stamps(self):
        self.check('ibv_rc_pingpong', '-c', '-t')

    def test_unreliable_connection(self):
        for size in SIZES:
            self.check('ibv_uc_pingpong', '-c', size=size)
            self.check('ibv_uc_pingpong', '-c', '-e', size=size)

    def test_datagrams(self):
        for size in (1, 1000, 2048):
            self.check('ibv_ud_pingpong', '-c', size=size)
            self.check('ibv_ud_pingpong', '-c', '-e', size=size)

    def test_shared_receive_queue(self):
        for size in SIZES:
            for events in ((), ('-e',)):
                self.check('ibv_srq_pingpong', '-c', *events, size=size, iterations=1000)

    def test_extended_reliable_connection(self):
        for size in SIZES:
            for events in ((), ('-e',)):
                self.check('ibv_xsrq_pingpong', *events, size=size)


if __name__ == '__main__':
    unittest.main(verbosity=2)
