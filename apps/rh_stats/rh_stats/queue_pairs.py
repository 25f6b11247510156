# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The queue pairs of one program: how many in which state, and which of them send and receive most.

A program answers with the number in each state at once, and with the queue pairs themselves in pages. The pages are
read in turns, as many in one look as there is time for, so that ten thousand queue pairs cost no more than a few
hundred: their rates are then those of the time since their page was read last.
"""

import bisect
import time

# PSNs count the packets of a queue pair, on a circle of 24 bits.
PSNS = 1 << 24
# The busiest ones are told of, so many in one program.
TOP = 32
# Bounds of the histogram of rates, in packets per second.
RATES = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
# What a program may claim to have.
QUEUE_PAIRS_MAX = 1 << 20


class QueuePair:
    __slots__ = ('group', 'number', 'type', 'state', 'psns', 'at_s', 'sent', 'received', 'sent_rate',
                 'received_rate', 'round')

    def __init__(self, group, number):
        self.group, self.number = group, number
        self.type = self.state = ''
        self.psns = None
        self.at_s = 0.0
        self.sent = self.received = 0  # packets since it was first seen
        self.sent_rate = self.received_rate = 0.0
        self.round = 0

    def update(self, kind, state, psns, now_s):
        if self.psns is not None and kind == self.type and now_s > self.at_s:
            sent = (psns[0] - self.psns[0]) % PSNS
            received = (psns[1] - self.psns[1]) % PSNS
            # A PSN that was set anew, or went backwards, is no packet.
            sent, received = (n if n < PSNS // 2 else 0 for n in (sent, received))
            if state != self.state:
                sent = received = 0
            seconds = now_s - self.at_s
            self.sent_rate, self.received_rate = sent / seconds, received / seconds
            self.sent += sent
            self.received += received
        self.type, self.state, self.psns, self.at_s = kind, state, psns, now_s

    @property
    def rate(self):
        return self.sent_rate + self.received_rate


class Ranking:
    """Queue pairs by what they send and receive, kept in order: most of thousands are as they were a look ago."""

    def __init__(self, queue_pairs=()):
        self._order = sorted(self._place(qp, qp.rate) for qp in queue_pairs)
        self._buckets = [0] * (len(RATES) + 1)
        for rate, _, _ in self._order:
            self._buckets[self._bucket(-rate)] += 1

    @staticmethod
    def _place(qp, rate):
        return -rate, qp.group, qp.number

    @staticmethod
    def _bucket(rate):
        return bisect.bisect_left(RATES, rate)

    def put(self, qp):
        bisect.insort(self._order, self._place(qp, qp.rate))
        self._buckets[self._bucket(qp.rate)] += 1

    def move(self, qp, before):
        """To be called when its rate has changed, with the one it had."""
        del self._order[bisect.bisect_left(self._order, self._place(qp, before))]
        self._buckets[self._bucket(before)] -= 1
        self.put(qp)

    def first(self, count):
        """Groups and numbers of the busiest ones, and of idle ones the lowest numbers."""
        return [(group, number) for _, group, number in self._order[:count]]

    def by_rate(self):
        """How many send and receive so many packets a second: at most the bound of each bucket, in order; the last
        one has no bound."""
        return list(self._buckets)


class Follower:
    """Follows the queue pairs of one program."""

    def __init__(self, program):
        self.program = program
        self.states = {}  # by group, type and state: how many
        self.found = {}  # by group and number
        self.ranking = Ranking()
        self.groups = []
        self.is_known = None  # whether the program tells of queue pairs at all
        self._place = (0, 0)  # the group and the page to read next
        self._round = 0
        self._labelled = []

    def total(self):
        return sum(self.states.values())

    def top(self, count=TOP):
        return [self.found[key] for key in self.ranking.first(count)]

    def labelled(self, count=TOP):
        """Those with metrics of their own: who once has one keeps it, and the busiest ones get the places that are
        free, so that few time series begin and end."""
        self._labelled = [key for key in self._labelled if key in self.found][:count]
        taken = set(self._labelled)
        if len(taken) < count and len(taken) < len(self.found):
            free = [key for key in self.ranking.first(count) if key not in taken]
            self._labelled += free[:count - len(taken)]
        return [self.found[key] for key in self._labelled]

    def ask(self, groups, now_s, budget_s):
        if self.is_known is False:
            return
        states, self.groups = {}, []
        for group in sorted(group for group in groups if 'sent_pkts' in groups[group]):
            answer = self.program.ask(f'/rockhopper/queue_pair_states,{group}')
            if not isinstance(answer, dict):
                continue
            self.groups.append(group)
            for name, count in answer.items():
                kind, _, state = name.rpartition('_')
                if kind and type(count) is int:
                    states[group, kind, state] = count
        if not self.groups:
            # An older program, or one without a transport.
            self.is_known = False if groups else None
            return
        self.is_known, self.states = True, states
        self._read_pages(budget_s)

    def _read_pages(self, budget_s):
        began_s = time.process_time()
        pages = 0
        while True:
            at, first = self._place
            if at >= len(self.groups):
                self._end_round()
                at, first = self._place
                if pages:
                    return
            group = self.groups[at]
            answer = self.program.ask(f'/rockhopper/queue_pairs,{group},{first}')
            pages += 1
            after = self._take(group, answer, time.monotonic())
            self._place = (at, after) if after > first else (at + 1, 0)
            if time.process_time() - began_s >= budget_s:
                return

    def _end_round(self):
        """All pages have been read: what was in none of them has gone."""
        gone = [key for key, qp in self.found.items() if qp.round != self._round]
        for key in gone:
            del self.found[key]
        if gone:
            self.ranking = Ranking(self.found.values())
        self._round += 1
        self._place = (0, 0)

    def _take(self, group, answer, now_s):
        if not isinstance(answer, dict):
            return 0
        after = answer.get('next', 0)
        listed = answer.get('queue_pairs')
        for line in listed if isinstance(listed, list) else ():
            words = line.split() if isinstance(line, str) else ()
            if len(words) != 5 or not (words[0].isdigit() and words[3].isdigit() and words[4].isdigit()):
                continue
            key = group, int(words[0])
            qp = self.found.get(key)
            if qp is None:
                if len(self.found) >= QUEUE_PAIRS_MAX:
                    continue
                qp = self.found[key] = QueuePair(group, key[1])
                self.ranking.put(qp)
            before = qp.rate
            qp.update(words[1], words[2], (int(words[3]), int(words[4])), now_s)
            if qp.rate != before:
                self.ranking.move(qp, before)
            qp.round = self._round
        return after if type(after) is int else 0
