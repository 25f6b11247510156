# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Initiators that go to another target with every message, and are killed at any moment, leave
nothing behind at the target (DC-15, DC-16, DC-30, DC-31).

ROCKHOPPER_DC_CYCLES is the number of connections that are opened (20,000; 1,000,000 with
ROCKHOPPER_SOAK=1), a tenth of it over a bad path."""

import time

import live

CYCLES = live.amount('ROCKHOPPER_DC_CYCLES', 20_000, 1_000_000)
KILLS = 8
TARGETS = 8
CONTEXTS = 24
LEASE_S = 0.5
# Each has 8 streams, so that there are more than contexts: some are refused, some evicted.
MORTALS = range(2, 6)
# What a heap and the statistics' own connection may do.
RSS_SLACK = 256 << 10


class KilledInitiators(live.DynamicConnectionsTest):
    def start_mortal(self, port):
        # All of them share words, which say nothing: of the dead nobody knows what they have done.
        return self.start_initiator(port, self.target, '--initiators', 2, '--streams', 4,
                                    '--place', TARGETS, *self.patience)

    def kill_some(self, mortals, opened_most, kills_least):
        """Until so many connections have been opened and so many initiators killed."""
        kills = 0
        while True:
            end = time.monotonic() + self.random.uniform(0.1, 0.8)
            while time.monotonic() < end:
                opened = self.counters(self.target)['sessions_opened']
                if opened >= opened_most and kills >= kills_least:
                    return kills
                time.sleep(0.02)
            port = self.random.choice(MORTALS)
            self.runs(mortals[port])
            mortals[port].child.kill()
            mortals[port].wait(live.LIMIT_S)
            mortals[port] = self.start_mortal(port)
            kills += 1

    def test_nothing_is_left(self):
        self.check(CYCLES)

    def test_nothing_is_left_over_a_bad_path(self):
        self.check(CYCLES // 10, '--faults', '0:profile=P2', '--seed', self.seed)

    def check(self, cycles, *faults):
        # With its repetitions it is longer than it takes until an address is asked for again (1 s), for
        # that may get lost too, and than a busy machine leaves a target without a processor.
        self.patience = ('--timeout', 16)
        self.start_switch(2 + len(MORTALS), *faults)
        self.target, _ = self.start_target(
            '--targets', TARGETS, '--words', 2 * TARGETS, '--contexts', CONTEXTS,
            '--lease-ms', int(LEASE_S * 1000))
        survivor = self.start_initiator(1, self.target, *self.patience)
        mortals = {port: self.start_mortal(port) for port in MORTALS}
        kills = self.kill_some(mortals, cycles // 4, KILLS // 2)
        before = live.resident_bytes(self.target)
        kills += self.kill_some(mortals, cycles, KILLS // 2)
        for mortal in mortals.values():
            self.runs(mortal)
            mortal.child.kill()
        report = self.end(survivor)
        begin = time.monotonic()
        live.wait_until(lambda: self.counters(self.target)['contexts_in_use'] == 0, live.LIMIT_S,
                        'all contexts are free')
        free_s = time.monotonic() - begin
        after = live.resident_bytes(self.target)
        counters = self.counters(self.target)
        end = self.end(self.target)
        print(f'{counters["sessions_opened"]} connections, {kills + len(mortals)} initiators '
              f'killed, {counters["sessions_expired"]} sessions expired, '
              f'{counters["sessions_evicted"]} evicted, '
              f'{counters["tx_cnak_no_context"]} refused; all contexts free after {free_s:.1f} s; '
              f'resident {before >> 10} KiB, at the end {after >> 10} KiB', flush=True)
        self.assertEqual(counters['contexts'], CONTEXTS)
        self.assertEqual(counters['sessions_opened'], counters['sessions_closed'])
        self.assertGreater(counters['sessions_expired'], 0)
        self.assertGreater(counters['sessions_evicted'], 0)
        self.assertLessEqual(after, before + RSS_SLACK)
        self.assertGreater(sum(report['succeeded']), 0)
        self.assert_words(end['words'][:TARGETS], report)


if __name__ == '__main__':
    live.support.main()
