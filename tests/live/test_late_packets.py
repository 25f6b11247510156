# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Packets that come again, up to 5 seconds late, while 32 initiators send FETCH_ADDs to another
target each time: none is executed twice (DC-26, DC-27, DC-28).

ROCKHOPPER_LATE_SECONDS is how long each test sends (8; 120 with ROCKHOPPER_SOAK=1)."""

import json
import time

import live

SECONDS = live.amount('ROCKHOPPER_LATE_SECONDS', 8, 120)
TARGETS = 8
TIMEOUT = 17  # 0.5 s: nothing is lost, and nobody has a processor of his own
PROCESSES = 2
INITIATORS = 16  # of each process, 32 in all


class LatePackets(live.DynamicConnectionsTest):
    def send(self, late, late_s, *target_options):
        """What the initiators report, each with its words in the target's memory, and the counters
        of the target."""
        switch = self.start_switch(1 + PROCESSES, '--faults', f'0:late={late},seed={self.seed}')
        # A target remembers for twice as long as a packet may live (docs/dc.md).
        target, _ = self.start_target('--targets', TARGETS, '--words', PROCESSES * TARGETS,
                                      '--tombstone-ms', int(late_s * 2000), *target_options)
        initiators = [self.start_initiator(
            1 + number, target, '--initiators', INITIATORS, '--place', number * TARGETS,
            '--timeout', TIMEOUT, '--seconds', SECONDS) for number in range(PROCESSES)]
        reports = [self.report(initiator) for initiator in initiators]
        time.sleep(late_s)  # until the last late copy has come
        end = self.end(target)
        switch.child.terminate()
        self.assert_status(switch, 0)
        faults = json.loads(switch.output())['ports'][0]['faults']
        counters = end['dc']
        print(f'{sum(sum(report["succeeded"]) for report in reports)} FETCH_ADDs, '
              f'{sum(sum(report["unknown"]) for report in reports)} of unknown outcome, '
              f'{counters["sessions_opened"]} sessions, {counters["sessions_evicted"]} evicted; '
              f'late copies: {faults["tx_late"]} to the target, of them '
              f'{counters["ghost_connects"]} connects and {counters["stale_requests"]} requests '
              f'refused; {faults["rx_late"]} from it', flush=True)
        self.assertGreater(faults['tx_late'], 0)
        return [(report, end['words'][number * TARGETS:(number + 1) * TARGETS])
                for number, report in enumerate(reports)], counters

    def check_exact(self, late, late_s):
        """Nobody is evicted and nothing is lost: each outcome is known, but for those of initiators
        that had no processor for so long that they had to connect again."""
        results, counters = self.send(late, late_s, '--lease-ms', 60_000)
        self.assertEqual((counters['sessions_evicted'], counters['sessions_expired']), (0, 0))
        for report, words in results:
            self.assert_words(words, report)
            self.assertLessEqual(sum(report['unknown']), report['restarts'], report)
        self.assert_refused(counters)

    def test_up_to_5_seconds_late(self):
        self.check_exact('2%:5s', 5)

    def test_many_late_packets(self):
        self.check_exact('20%:400ms', 0.5)

    def test_while_sessions_are_evicted(self):
        results, counters = self.send('5%:1s', 1, '--contexts', 16, '--lease-ms', 50,
                                      '--idle-us', 0)
        self.assertGreater(counters['sessions_evicted'], 0)
        for report, words in results:
            self.assert_words(words, report)
        self.assert_refused(counters)

    def assert_refused(self, counters):
        """There was something to refuse."""
        self.assertGreater(counters['ghost_connects'], 0)
        self.assertGreater(counters['stale_requests'], 0)


if __name__ == '__main__':
    live.support.main()
