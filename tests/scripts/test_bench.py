#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What scripts/bench makes of figures of locks, active messages, message stores and graphs: lines,
verdicts, curves."""

import contextlib
import io
import pathlib
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'scripts'))

from benchmark.lines import lines  # noqa: E402
from benchmark.plots import GROUPS, contention, delivery  # noqa: E402
from benchmark.run import figures, measure, taken_quickly  # noqa: E402
from lab.feeds import paired  # noqa: E402
from lab.guests import RESULT  # noqa: E402
from lab.processes import LabError, Unavailable  # noqa: E402
from testing import standstill  # noqa: E402

ENGINE = {'lock_scope/target/qps:1': 2, 'lock_scope/target/qps:64': 1,
          'responder/atomic_cmp_and_swp/bytes:8/qps:1': 6,
          'lock_beside_waiting/scopes:0': 10, 'lock_beside_waiting/scopes:0/p99': 4,
          'lock_beside_waiting/scopes:1': 9.6, 'lock_beside_waiting/scopes:1/p99': 4.1,
          'lock_beside_waiting/scopes:1000': 9, 'lock_beside_waiting/scopes:1000/p99': 5}


def one_round(target, cas, packets=6):
    return {'locks/target/64': {'mops': target, 'packets': packets},
            'locks/cas/64': {'mops': cas, 'packets': 20}}


def found(*rounds):
    return {(line.text, line.basis): line for line in lines(rounds)}


class Perftest(unittest.TestCase):
    """A line of ib_write_lat 6.0 in a guest, whose deviation was no number."""

    LINE = ('       70          5044.71        244123.86      13885.88  \t       21162.85     '
            '\t-nan   \t\t244123.86 \t\t244123.86\n')

    def test_a_deviation_that_is_no_number(self):
        for line in (self.LINE, self.LINE.replace('-nan', '12.50')):
            rows = re.findall(RESULT, f'{"-" * 80}\n{line}{"-" * 80}\n', re.MULTILINE)
            self.assertEqual([row.split()[4] for row in rows], ['21162.85'])

    def test_words_are_no_figures(self):
        self.assertEqual(re.findall(RESULT, self.LINE.replace('-nan', 'nana'), re.MULTILINE), [])


class Rounds(unittest.TestCase):
    """measure() of figures that fail, on a machine that stands still or that runs."""

    def measured(self, longest_s, *fates):
        """What measure() returned when a measurement met such fates; how often it was taken."""
        left = list(fates)

        def run():
            if (fate := left.pop(0)) == 'fails':
                raise LabError('of no use')
            return {'mops': fate}

        watch = mock.MagicMock()
        watch.return_value.__enter__.return_value.longest_s = longest_s
        with mock.patch.object(standstill, 'Standstill', watch), \
                contextlib.redirect_stdout(io.StringIO()):
            measured = measure([('one', run)], 1, taken_quickly(mock.Mock(processes=[])))
        return measured, len(fates) - len(left)

    def test_a_failure_tells_of_itself(self):
        self.assertEqual(self.measured(0, 'fails', 7),
                         (([{}], ['one, round 1: of no use']), 1))

    def test_what_failed_on_a_machine_that_stood_still_is_taken_again(self):
        self.assertEqual(self.measured(1, 'fails', 7), (([{'one': {'mops': 7}}], []), 2))

    def test_what_is_missing_costs_its_figures_alone(self):
        def missing():
            raise Unavailable('no such program')

        with contextlib.redirect_stderr(io.StringIO()) as said:
            rounds, failures = measure([('one', missing), ('two', lambda: {'mops': 2})], 2,
                                       lambda _, run: figures(run))
        self.assertEqual((rounds, failures), ([{'two': {'mops': 2}}] * 2, []))
        self.assertEqual(said.getvalue(), 'bench: without one: no such program\n')


class Locks(unittest.TestCase):
    GOODPUT = ('64 initiators, one lock', 'compare and swap')
    PACKETS = ('64 initiators, one lock: a success', 'the most there may be')

    def test_five_times_the_baseline(self):
        for target, cas, met in ((5, 1, True), (4.9, 1, False)):
            self.assertIs(found(one_round(target, cas))[self.GOODPUT].met, met)

    def test_at_most_six_packets(self):
        for packets, met in ((6, True), (6.01, False)):
            self.assertIs(found(one_round(5, 1, packets))[self.PACKETS].met, met)

    def test_ratios_are_of_one_round(self):
        """A round in which the machine was slower weighs as much as others."""
        line = found(one_round(6, 1), one_round(0.7, 0.1), one_round(5, 1))[self.GOODPUT]
        self.assertEqual((line.value, line.against, line.ratio), (5, 1, 6))

    def test_nothing_of_what_was_not_measured(self):
        self.assertEqual(found({'locks/target/64': {'mops': 1, 'packets': 6}}).keys(),
                         {self.PACKETS})
        self.assertEqual(found({}), {})

    def test_a_scope_beside_a_round_trip(self):
        line = found({'locks/latency/target/1': {'p50': 3, 'p99': 9},
                      'locks/latency/write': {'usec': 1}})[
                          ('one initiator: a scope', 'WRITE 8 bytes, there and back')]
        self.assertEqual(line.ratio, 1.5)

    def test_beside_scopes_that_wait(self):
        """LK-25: at most 5 % for others."""
        of = found({'locks/engine': ENGINE})
        for count, met in ((1, True), (1000, False)):
            what = f'WRITE 8 bytes beside {count} waiting, no link'
            self.assertIs(of[(what, 'none waits')].met, met)
            self.assertIs(of[(f'{what}: p99 of a turn', 'none waits')].met, met)
        self.assertEqual(of[('scopes of one connection at the target, no link',
                             'three compare and swaps')].ratio, 1)

    def test_their_group_has_a_title(self):
        self.assertLessEqual({line.group for line in lines([one_round(1, 1)])}, GROUPS.keys())

    def test_curve(self):
        rounds = [one_round(3, 1), one_round(5, 1), one_round(4, 1)]
        self.assertEqual(contention(rounds), {'target': [(64, 4, 6)], 'cas': [(64, 1, 20)]})
        self.assertEqual(contention([{}]), {})


class ActiveMessages(unittest.TestCase):
    LATENCY = ('active messages, 8 bytes, half a round trip', 'UCX over tcp')
    RATE = ('active messages, 8 bytes', 'UCX over shared memory')

    def round(self, usec, mops):
        return {'ami/few-callbacks': {'usec': usec, 'mops': mops, 'gbit_per_s': 1},
                'ami/ucx/tcp': {'usec': 10, 'mops': 1, 'gbit_per_s': 1},
                'ami/ucx/shm': {'usec': 0.1, 'mops': 5, 'gbit_per_s': 1}}

    def test_five_times_lower_latency_than_tcp(self):
        for usec, met in ((2, True), (2.1, False)):
            self.assertIs(found(self.round(usec, 1))[self.LATENCY].met, met)

    def test_the_message_rate_of_shared_memory(self):
        for mops, met in ((5, True), (4.9, False)):
            self.assertIs(found(self.round(1, mops))[self.RATE].met, met)

    def test_no_other_targets(self):
        of = found(self.round(1, 1))
        self.assertEqual({key for key, line in of.items() if line.target},
                         {self.LATENCY, self.RATE})
        self.assertLessEqual({line.group for line in of.values()}, GROUPS.keys())


class Publisher(unittest.TestCase):
    def writer(self, ratio, name='many'):
        return {f'publisher/writer/{name}': {'alone_ns': 50, 'beside_ns': 50 * ratio,
                                             'ratio': ratio, 'noise': 1.01}}

    def test_publishing_costs_the_same_whoever_reads(self):
        """PB-24: less than 2 % with readers, with stopped ones too."""
        for name, text in (('one', 'one subscriber that reads'),
                           ('many', '64 subscribers that read'),
                           ('stopped', '64 subscribers that are stopped')):
            for ratio, met in ((1.02, True), (0.99, True), (1.03, False)):
                line = found(self.writer(ratio, name))[
                    (f'writer, a message beside {text}', 'no subscriber')]
                self.assertEqual((line.met, line.ratio), (met, ratio))

    def test_nothing_for_an_added_subscriber(self):
        """PB-24: a thousandth of a message each at most; less than nothing is noise."""
        for ratio, met in ((1.06, True), (0.98, True), (1.07, False)):
            line = found(self.writer(ratio))[('writer, for each of 64 subscribers', 'a message')]
            self.assertIs(line.met, met)
            self.assertAlmostEqual(line.value, 50 * (ratio - 1) / 64)

    def test_pairs(self):
        """PB-24: each window with subscribers is set against the one before it."""
        def window(ns):
            return {'messages': 1000, 'writer_seconds': ns * 1e-6}
        figures = paired(list(map(window, (10, 20, 40))), list(map(window, (11, 20, 42))))
        self.assertAlmostEqual(figures['ratio'], 1.05)
        self.assertAlmostEqual(figures['alone_ns'], 20)
        self.assertAlmostEqual(figures['noise'], 2)

    def delivered(self, mops, count=8):
        return {f'publisher/deliver/stores/{count}/64': {'mops': mops},
                f'publisher/deliver/ipc/{count}/64': {'mops': 1},
                f'publisher/deliver/tcp/{count}/64': {'mops': 2}}

    def test_five_times_zeromq_with_eight_subscribers(self):
        of = found(self.delivered(5))
        what = '8 subscribers, 64 bytes: delivered to all'
        self.assertIs(of[(what, 'ZeroMQ over ipc')].met, True)
        self.assertIs(of[(what, 'ZeroMQ over tcp')].met, False)
        self.assertTrue(all(line.met is None for line in found(self.delivered(5, 64)).values()))

    def test_what_an_added_subscriber_costs(self):
        figures = {f'publisher/paced/{name}/{count}': {'writer_ns': writer, 'engine_ns': engine}
                   for name, count, writer, engine in (
                       ('stores', 1, 50, 100), ('stores', 64, 50, 730),
                       ('ipc', 1, 200, 300), ('ipc', 64, 830, 930))}
        of = found(figures)
        for text, ours, theirs in (('writer', 0, 10), ('writer and engine', 10, 20)):
            line = of[(f'{text}, a message, for each added subscriber', 'ZeroMQ over ipc')]
            self.assertEqual((line.value, line.against), (ours, theirs))

    def test_latency_has_no_target(self):
        of = found({f'publisher/latency/{name}': {'p50_usec': usec, 'p99_usec': 2 * usec}
                    for name, usec in (('stores', 1), ('ipc', 10), ('tcp', 20))})
        self.assertEqual(of[('from publishing to delivery, p99', 'ZeroMQ over tcp')].ratio, 0.05)
        self.assertTrue(all(line.met is None for line in of.values()))
        self.assertLessEqual({line.group for line in of.values()}, GROUPS.keys())

    def test_nothing_without_zeromq(self):
        self.assertEqual(found({'publisher/deliver/stores/8/64': {'mops': 1},
                                'publisher/paced/stores/1': {'writer_ns': 1, 'engine_ns': 1},
                                'publisher/latency/stores': {'p50_usec': 1, 'p99_usec': 1}}), {})

    def test_curve(self):
        rounds = [self.delivered(3), self.delivered(5), self.delivered(4)]
        self.assertEqual(delivery(rounds, 64),
                         {'stores': [(8, 4)], 'ipc': [(8, 1)], 'tcp': [(8, 2)]})
        self.assertEqual(delivery(rounds, 1024), {})



class Graphs(unittest.TestCase):
    def test_fifty_times_the_rate(self):
        """Each number of workers beside as many of Dask's; what one has not is left out."""
        def one(ktasks):
            return {'ktasks': ktasks, 'whole_ktasks': ktasks / 2, 'usec': 1000 / ktasks}
        of = found({'dag/tasks/1': one(100), 'dag/dask/1': one(2),
                    'dag/tasks/2': one(99), 'dag/dask/2': one(2), 'dag/tasks/4': one(100)})
        self.assertTrue(of['one worker: empty tasks', 'Dask distributed'].met)
        self.assertFalse(of['2 workers: empty tasks', 'Dask distributed'].met)
        self.assertEqual(len(of), 6)
        self.assertLessEqual({line.group for line in of.values()}, GROUPS.keys())


if __name__ == '__main__':
    unittest.main(verbosity=2)
