#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""perftest, unmodified: every program, connection and variant that perftest itself allows, between
two processes under rh-run; and what perftest refuses, by what it says.

A sample, unless ROCKHOPPER_ALL_CELLS=1 is set. ROCKHOPPER_SEED chooses it; failures tell theirs."""

import itertools
import os
import random
import unittest

from pairs import PairTest, free_port
from support import LIMIT_S
from verbs_support import SOAK

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
    'multicast': ('--mcg', '-x', 1),
}
# perftest's own group is one of IPv6, so that the GID has to be one too.
ADDRESSES = ('--addresses', '192.0.2.1/24,2001:db8::1/64')
# By default a sample: each program with each connection, and each variant, at least once.
ALL = SOAK or os.environ.get('ROCKHOPPER_ALL_CELLS', '0') not in ('', '0')
SEED = int(os.environ.get('ROCKHOPPER_SEED', random.randrange(1 << 32)))
# Lists of 8 make it a multiple of that; of all sizes, the largest is 8 MiB.
ITERATIONS = 320
ITERATIONS_OF_ALL_SIZES = 16


def operation_of(program):
    return program.split('_')[1]


def is_latency(program):
    return program.endswith('_lat')


def refusal(program, connection, variant):
    """What perftest 4.5 says where it refuses that; None where it does not."""
    operation, latency = operation_of(program), is_latency(program)
    if operation in ('read', 'atomic') and connection in ('UC', 'UD'):
        return f'{connection} connection (not|only) possible in'
    if operation == 'write' and connection == 'UD':
        return 'UD connection only possible in SEND verb'
    if latency and variant == 'both ways':
        return 'Bidirectional is only available in BW test'
    if latency and variant == '8 queue pairs':
        return 'Multiple QPs only available on bw tests'
    if latency and variant == 'lists of 8':
        return 'Post list is supported in BW tests only'
    if variant == 'inline' and operation in ('read', 'atomic'):
        return 'Inline feature not available on READ/Atomic verbs'
    if variant == 'all sizes' and operation == 'atomic':
        return 'Message size cannot be changed for Atomic tests'
    if variant == 'shared receive queue' and operation != 'send':
        return 'Using SRQ only avavilible in SEND tests'
    if variant == 'multicast' and operation != 'send':
        return 'MultiCast feature only available on SEND verb'
    if variant == 'events' and operation == 'write':
        return 'Events feature not available on WRITE verb'
    return None


def is_meaningless(program, connection, variant):
    """perftest does not refuse it, though the service has no such thing, or has failed."""
    if variant == 'shared receive queue' and connection == 'UC':
        return True  # an SRQ is not for UC
    return variant == 'multicast' and connection != 'UD'  # it measures datagrams then too


ALL_CELLS = list(itertools.product(PROGRAMS, CONNECTIONS, VARIANTS))
REFUSED = [cell for cell in ALL_CELLS if refusal(*cell)]
ALLOWED = [cell for cell in ALL_CELLS if not refusal(*cell) and not is_meaningless(*cell)]


def sample(cells, aspects):
    """The cells, or as few as show each aspect of all of them."""
    if ALL:
        return cells
    shuffled = random.Random(SEED).sample(cells, len(cells))
    seen, chosen = set(), []
    for cell in shuffled:
        if not seen.issuperset(aspects(cell)):
            seen.update(aspects(cell))
            chosen.append(cell)
    return sorted(chosen)


class Perftest(PairTest):
    def setUp(self):
        super().setUp()
        for program in PROGRAMS:
            self.need(program)

    def test_what_is_allowed(self):
        for program, connection, variant in sample(ALLOWED, lambda cell: (cell[:2], cell[2])):
            options = ['-c', connection, '-F', *VARIANTS[variant]]
            if variant == 'all sizes':
                options += ['-n', ITERATIONS_OF_ALL_SIZES]
            elif variant != 'two seconds':
                options += ['-n', ITERATIONS]
            with self.subTest(program=program, connection=connection, variant=variant, seed=SEED):
                self.run_pair(program, *options, runs=(ADDRESSES, ADDRESSES))

    def test_what_perftest_refuses(self):
        for cell in sample(REFUSED, lambda cell: (refusal(*cell),)):
            program, connection, variant = cell
            with self.subTest(program=program, connection=connection, variant=variant, seed=SEED):
                process = self.start_verbs(program, program, '-F', '-p', free_port(),
                                           '-c', connection, *VARIANTS[variant])
                self.assertNotEqual(process.wait(LIMIT_S), 0)
                self.assertRegex(process.output() + process.messages(), refusal(*cell))


if __name__ == '__main__':
    unittest.main(verbosity=2)
