# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Initiators that are killed while they lock (LK-29, LK-30): scopes that are stored first never leave
a lock held, nor anything half done; locks of scopes that cut through are free again when their lease
is over; and the fencing tokens of each word increase whoever dies.

An initiator is a connection, RC or dynamic, with a scope on its way; a process has 32 of them, and
they die together, by SIGKILL for its application and its engine. ROCKHOPPER_LOCK_KILLS is how many
initiators die in all four tests together (128; 10,000 with ROCKHOPPER_SOAK=1)."""

import collections
import contextlib
import os
import signal
import time

import live
import locks
from locks import LIMIT_S, Journal, wait_until

KILLS = live.amount('ROCKHOPPER_LOCK_KILLS', 128, 10_000)
TESTS = 4
SLOTS = 32
SURVIVORS = 8  # connections of the process that lives
RECORDS = 8
SURVIVOR, MORTALS = 1, (2, 3)
LEASE_S = 0.1
# Of what mortals send, so that they die with scopes of which something is missing at the target.
LOSS = '1%'
TIMEOUT = 18  # 1.1 s: a busy machine
# From a process's last packet until the target has taken all of them: a busy machine.
SETTLE_S = 10


class KilledLockHolders(locks.LocksTest):
    def start_slots(self, port, slots, *options):
        return self.start_initiator(port, '--transport', self.transport, '--bytes', self.size,
                                    '--slots', slots, '--timeout', TIMEOUT, *options)

    def start_mortal(self, port):
        return self.start_slots(port, SLOTS, *self.options)

    def check(self, transport, size, *options):
        self.transport, self.size, self.options = transport, size, options
        faults = [word for port in MORTALS for word in ('--faults', f'{port}:rx.loss={LOSS}')]
        self.start_switch(2 + len(MORTALS), *faults, '--seed', self.seed)
        target = self.start_target('--transport', transport, '--bytes', size, '--records', RECORDS,
                                   '--lease-us', int(LEASE_S * 1e6))
        survivor = self.start_slots(SURVIVOR, SURVIVORS, '--pause-us', 1000, *options)
        journals = [survivor.journal]
        mortals = {port: self.start_mortal(port) for port in MORTALS}
        killed, held, longest_s = 0, 0, 0.0
        while killed < KILLS / TESTS:
            port = self.random.choice(MORTALS)
            self.work(mortals[port])
            self.kill(mortals[port])
            journals.append(mortals[port].journal)
            killed += sum(Journal(mortals[port].journal).on_its_way.values())
            # Only a dead one of that name can be meant. Its scopes that wait get the lock one after
            # the other, each for a lease.
            begin = time.monotonic()
            held += port in self.holders()
            wait_until(lambda name=port: name not in self.holders(), SLOTS * LEASE_S + SETTLE_S,
                       'the dead hold no lock', interval_s=0.01)
            longest_s = max(longest_s, time.monotonic() - begin)
            mortals[port] = self.start_mortal(port)
        for node in (survivor, *mortals.values()):
            self.work(node)
        reports = [self.end(node.process) for node in (survivor, *mortals.values())]
        for report in reports:
            self.assertGreater(report['succeeded'], 0)
        journals += [node.journal for node in mortals.values()]
        self.assertEqual(self.holders(), set())
        statistics = self.end(target.process)['locks']
        print(f'{killed} initiators killed, after {held} process ends of {len(journals) - 3} a lock '
              f'was held, {longest_s:.2f} s at most; {statistics["grants"]} grants, '
              f'{statistics["lease_expiries"]} leases over, {statistics["aborts"]} aborts', flush=True)
        self.assert_journals([Journal(path) for path in journals])
        return statistics

    def work(self, node):
        """Until some of its scopes are complete, and a while longer."""
        begun = Journal.length(node.journal)
        wait_until(lambda: self.runs(node.process) and
                   Journal.length(node.journal) >= begun + SLOTS, LIMIT_S, 'scopes complete',
                   interval_s=0.005)
        time.sleep(self.random.uniform(0, 0.05))

    def kill(self, node):
        self.runs(node.process)
        for pid in self.random.sample((node.engine, node.application), 2):
            with contextlib.suppress(ProcessLookupError):  # an engine dies with its application
                os.kill(pid, signal.SIGKILL)
        node.process.wait(LIMIT_S)

    def assert_journals(self, journals):
        """What the counters say is what the applications know, the dead ones' included, and at
        most what was on its way. Each success has found another value, and their order is that of
        the tokens."""
        found = collections.defaultdict(list)
        unknown = collections.Counter()
        for journal in journals:
            unknown.update(journal.on_its_way)
            unknown.update(entry.record for entry in journal.entries)
            unknown.subtract(entry.record for entry in journal.successes)
            for entry in journal.successes:
                found[entry.record].append((entry.found, entry.token))
        for index, record in enumerate(self.records()):
            seen = sorted(found[index])
            self.assertGreaterEqual(record.first, len(seen))
            self.assertLessEqual(record.first, len(seen) + unknown[index])
            self.assertLessEqual(record.last, record.first)
            self.assertGreaterEqual(record.last, len(seen))
            for (value, token), (later, greater) in zip(seen, seen[1:]):
                self.assertLess(value, later)
                self.assertLess(token, greater)

    def check_stored(self, transport):
        statistics = self.check(transport, 2 << 10)
        self.assertEqual(statistics['lease_expiries'], 0)
        for record in self.records():
            self.assertEqual(record.first, record.last)
            self.assertEqual(len(set(record.data)), 1)  # of one scope

    def check_cut_through(self, transport):
        statistics = self.check(transport, 32 << 10, '--cut-through')
        self.assertGreater(statistics['lease_expiries'], 0)

    def test_stored_scopes(self):
        self.check_stored('rc')

    def test_stored_scopes_over_dynamic_connections(self):
        self.check_stored('dc')

    def test_scopes_that_cut_through(self):
        self.check_cut_through('rc')

    def test_scopes_that_cut_through_over_dynamic_connections(self):
        self.check_cut_through('dc')


if __name__ == '__main__':
    live.support.main()
