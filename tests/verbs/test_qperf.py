#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""All RDMA tests of qperf, unmodified, between two processes under rh-run. It knows addresses by LID
alone."""

import re
import unittest

from pairs import LIMIT_S, PairTest
from lab.pairs import free_port

BANDWIDTHS = ('rc_bw', 'rc_bi_bw', 'rc_rdma_read_bw', 'rc_rdma_write_bw', 'uc_bw', 'uc_bi_bw',
              'uc_rdma_write_bw', 'ud_bw', 'ud_bi_bw')
LATENCIES = ('rc_lat', 'rc_rdma_read_lat', 'rc_rdma_write_lat', 'rc_rdma_write_poll_lat', 'uc_lat',
             'uc_rdma_write_lat', 'uc_rdma_write_poll_lat', 'ud_lat')
# The last two check what the atomics have returned.
ATOMICS = ('rc_compare_swap_mr', 'rc_fetch_add_mr', 'ver_rc_compare_swap', 'ver_rc_fetch_add')
FIGURE = re.compile(r'(bw|latency|msg_rate) += +([0-9.]+)')


class Qperf(PairTest):
    def setUp(self):
        super().setUp()
        self.need('qperf')
        self.port = free_port()
        self.server = self.start_listening(self.port, 'qperf', '--listen_port', self.port)

    def client(self, *arguments):
        client = self.start_verbs('qperf-client', 'qperf', '--listen_port', self.port, 'localhost',
                                  *arguments)
        self.assertEqual(client.wait(LIMIT_S), 0,
                         f'{arguments}\n{client.messages()}\n{self.server.messages()}')
        return client.output()

    def test_every_test_of_rdma(self):
        for test in (*BANDWIDTHS, *LATENCIES, *ATOMICS):
            with self.subTest(test):
                output = self.client('--time', 1, test)
                figures = FIGURE.findall(output)
                self.assertTrue(figures, output)
                for _, figure in figures:
                    self.assertGreater(float(figure), 0, output)

    def test_the_server_ends_when_it_is_told_to(self):
        self.client('quit')
        self.assertEqual(self.server.wait(LIMIT_S), 0, self.server.messages())


if __name__ == '__main__':
    unittest.main(verbosity=2)
