# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Forged connects beside an established session (DC-20, DC-31, DC-32): they cost no memory and no
session, wrong keys draw no answer, and CNAKs keep to their rate. What a flood costs in time is
measured by scripts/bench.

ROCKHOPPER_HOSTILE_PACKETS is the number of forged packets of each kind (100,000; 10,000,000 with
ROCKHOPPER_SOAK=1)."""

import json

import live

PACKETS = live.amount('ROCKHOPPER_HOSTILE_PACKETS', 100_000, 10_000_000)
WARM_UP = 20_000  # through all mbufs of the target
RATE = 100_000 if PACKETS <= 1_000_000 else 500_000
CONTEXTS = 64
CNAKS_PER_SECOND = 1000
CNAK_BURST = 64
SIZE = 4096  # of the session's WRITEs
WINDOW = 16
MEMORY_OF_SESSION = SIZE * WINDOW
TIMEOUT = 17  # 0.5 s: nobody has a processor of his own
# For stores of limited size that the warm-up has not filled; a leak of 11 bytes a packet is found.
RSS_SLACK = 1 << 20


class ConnectFlood(live.DynamicConnectionsTest):
    def setUp(self):
        super().setUp()
        self.switch = self.start_switch(3)
        self.target, self.introduction = self.start_target(
            '--targets', 1, '--contexts', CONTEXTS, '--cnaks-per-second', CNAKS_PER_SECOND,
            '--lease-ms', 10_000)
        self.initiator = self.start_initiator(1, self.target, '--op', 'write', '--size', SIZE,
                                              '--window', WINDOW, '--timeout', TIMEOUT)
        live.wait_until(lambda: self.runs(self.initiator) and self.contexts_in_use() == 1,
                        live.LIMIT_S, 'the session is open')

    def contexts_in_use(self):
        return self.counters(self.target)['contexts_in_use']

    def flood(self, kind, packets, sources):
        """Beside the session: how many were sent, what was answered, and how the target's counters
        have changed."""
        [target] = self.introduction['targets']
        before = self.counters(self.target)
        report = self.report(self.start_blast(
            2, self.introduction, '--kind', kind, '--packets', packets, '--rate', RATE,
            '--sources', sources, '--number', target['number'],
            '--access-key', target['access_key']))
        after = self.counters(self.target)
        self.runs(self.initiator)
        return report, {name: after[name] - before[name] for name in after}

    def flat_flood(self, kind, sources):
        """The same with memory that has to stay as it is."""
        self.flood(kind, WARM_UP, sources)
        before = live.resident_bytes(self.target)
        report, changes = self.flood(kind, PACKETS, sources)
        after = live.resident_bytes(self.target)
        print(f'{kind}: {report["sent"]} packets in {report["seconds"]:.1f} s, '
              f'{report["answers"]} answers; resident {before >> 10} KiB, then {after >> 10} KiB',
              flush=True)
        self.assertLessEqual(after, before + RSS_SLACK)
        return report, changes

    def check_newcomer(self):
        """Where the flood came from there is an honest station now, and it is served."""
        newcomer = self.start_initiator(2, self.target, '--op', 'write', '--messages', 100,
                                        '--place', MEMORY_OF_SESSION)
        self.assertGreater(self.report(newcomer)['succeeded'][0], 0)

    def check_count(self, report, counted, more=0):
        """Each forged packet has been counted, but for those that the switch had no room for."""
        self.switch.child.terminate()
        self.assert_status(self.switch, 0)
        port = json.loads(self.switch.output())['ports'][0]['counters']
        lost = sum(value for name, value in port.items() if name.startswith('tx_drop'))
        self.assertLessEqual(counted, report['sent'] + more)
        self.assertGreaterEqual(counted + lost, report['sent'], port)

    def end_session(self):
        """It has never been disturbed, and its data is right, which the initiator reads back."""
        report = self.end(self.initiator)
        self.assertEqual((report['lost_sessions'], report['restarts'], report['unknown']),
                         (0, 0, [0]))
        self.assertGreater(report['succeeded'][0], 0)

    def test_wrong_keys(self):
        report, changes = self.flat_flood('wrong-key', 4096)
        self.assertEqual(report['answers'], 0)
        self.assertEqual((changes['sessions_opened'], changes['rx_connect']), (0, 0))
        self.check_newcomer()
        self.end_session()
        self.check_count(report, changes['access_key_violations'])

    def check_no_target(self, sources, limited):
        report, changes = self.flat_flood('no-target', sources)
        sent = changes['tx_cnak_no_such_dct']
        self.assertLessEqual(report['answers'], sent)
        self.assertEqual(changes['sessions_opened'], 0)
        if limited:
            self.assertGreater(report['answers'], 0)
            self.assertLessEqual(sent, CNAKS_PER_SECOND * (report['seconds'] + 1) + CNAK_BURST)
        self.check_newcomer()
        self.end_session()
        self.check_count(report, sent + changes['cnaks_suppressed'])

    def test_no_such_target_from_one_source(self):
        self.check_no_target(1, True)

    def test_no_such_target_from_many_sources(self):
        self.check_no_target(16384, False)

    def test_right_key(self):
        """Who has the key can have every context but those that are in use."""
        report, changes = self.flat_flood('right-key', 4096)
        self.assertGreater(changes['sessions_opened'], 0)
        self.assertLessEqual(self.contexts_in_use(), CONTEXTS)
        ended = self.end(self.initiator)
        self.assertEqual(ended['unknown'], [0])
        self.assertGreater(ended['succeeded'][0], 0)
        self.check_count(report, changes['rx_connect'], ended['connects'])


if __name__ == '__main__':
    live.support.main()
