#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""perftest, unmodified: every program, connection and variant that perftest itself allows, between
two processes under rh-run. It takes some minutes, and is run by hand so far.

ROCKHOPPER_SOAK=1 runs each with 4800 iterations, and the durations; without, a few hundred."""

import itertools
import os
import shutil
import unittest

from pairs import PairTest

PROGRAMS = tuple(f'ib_{operation}_{figure}' for operation in ('send', 'write', 'read', 'atomic')
                 for figure in ('bw', 'lat'))
CONNECTIONS = ('RC', 'UC', 'UD', 'XRC')
VARIANTS = {
    'plain': (),
    'all sizes': ('-a',),
    'both ways': ('-b',),
    'events': ('-e',),
    '8 queue pairs': ('-q', 8),
    'lists of 8': ('-l', 8),
    'inline': ('-I', 64, '-s', 64),
    'shared receive queue': ('--use-srq',),
    'path MTU 1024': ('-m', 1024),
    'two seconds': ('-D', 2),
    'old post_send': ('--use_old_post_send',),
    'multicast': ('--mcg',),
}
SOAK = os.environ.get('ROCKHOPPER_SOAK', '0') not in ('', '0')
# Lists of 8 make it a multiple of that.
ITERATIONS = 4800 if SOAK else 320


def operation_of(program):
    return program.split('_')[1]


def is_latency(program):
    return program.endswith('_lat')


# What perftest refuses (4.5, src/perftest_parameters.c), each with what it says or does.
def refused(program, connection, variant):
    operation, latency = operation_of(program), is_latency(program)
    if operation in ('read', 'atomic') and connection in ('UC', 'UD'):
        return 'the operation is not of this service'
    if operation == 'write' and connection == 'UD':
        return 'the operation is not of this service'
    if latency and variant in ('both ways', '8 queue pairs', 'lists of 8'):
        return 'an option of bandwidth'
    if variant == 'inline' and operation in ('read', 'atomic'):
        return 'nothing is sent that could be inline'
    if variant == 'all sizes' and operation == 'atomic':
        return 'atomics have 8 bytes'
    if variant == 'shared receive queue' and (operation != 'send' or connection == 'UC'):
        return 'no receives, or no SRQ'
    if variant == 'multicast' and (operation != 'send' or connection != 'UD'):
        return 'for datagrams'
    if variant == 'events' and operation == 'write':
        return 'the end of a WRITE is seen in memory'
    return None


# What does not work yet, and how it fails.
FAILING = {
    ('ib_send_bw', 'UC', 'all sizes'): 'messages are lost, and it waits for them',
    ('ib_send_bw', 'UD', 'multicast'): 'joins by management datagrams of InfiniBand',
    ('ib_send_lat', 'UD', 'multicast'): 'joins by management datagrams of InfiniBand',
}


def cells():
    for program, connection, variant in itertools.product(PROGRAMS, CONNECTIONS, VARIANTS):
        cell = program, connection, variant
        if refused(*cell) is None and cell not in FAILING:
            yield cell


class Perftest(PairTest):
    def check(self, program, connection, variant):
        with self.subTest(program=program, connection=connection, variant=variant):
            options = ['-c', connection, '-F', *VARIANTS[variant]]
            if variant != 'two seconds':
                # Those of bandwidth keep 128 requests under way.
                options += ['-n', ITERATIONS]
            self.run_pair(program, *options, limit_s=60)

    def check_all(self, operation):
        for program, connection, variant in cells():
            if operation_of(program) != operation:
                continue
            if shutil.which(program) is None:
                self.skipTest(f'{program} is not installed')
            self.check(program, connection, variant)

    def test_send(self):
        self.check_all('send')

    def test_write(self):
        self.check_all('write')

    def test_read(self):
        self.check_all('read')

    def test_atomic(self):
        self.check_all('atomic')


if __name__ == '__main__':
    unittest.main(verbosity=2)
