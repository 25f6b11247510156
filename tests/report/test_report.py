# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-report's figures against a count over tshark's fields; findings against the checker; bad input."""

import gzip
import json
import os
import random
import re
import subprocess
import unittest

import rig

import dc_scenarios  # noqa: F401 (it adds its dialogues to scenarios)
import lock_scenarios  # noqa: F401 (as above)
import packets as p
import scenarios
from judge import cli as judge_cli
from judge.checker import check
from judge.options import Options
from rh_report import figures, page, report

SEED = int(os.environ.get('REPORT_SEED', random.randrange(1 << 32)))


@rig.needs_tshark
class AgainstTshark(rig.ReportTest):
    def compare(self, path):
        """All connections of RC in a capture; returns what was counted."""
        found = self.figures(path)
        packets = rig.tshark(path)
        self.assertEqual(found['packets'], len(packets))
        compared = []
        for row in found['connections']:
            if row['kind'] != 'RC' or not row['both_directions']:
                continue
            a, b = ((end['address'], end['qpn']) for end in (row['a'], row['b']))
            counted = rig.Counted(packets, a, b, row['path_mtu'])
            with self.subTest(path.name, connection=row['number']):
                self.assertEqual(row['retransmissions'], counted.retransmissions)
                self.assertEqual((row['naks'], row['rnr_naks']), (counted.naks, counted.rnr_naks))
                self.assertEqual(row['goodput_bytes'], counted.goodput)
                self.assertEqual((row['cnps'], row['ecn_marks']), (counted.cnps, counted.marks))
                trips = sorted(counted.round_trips)
                shown = row['round_trip_ns'] or {'count': 0}
                self.assertEqual(shown['count'], len(trips))
                if trips:
                    self.assertEqual((shown['min'], shown['max']), (trips[0], trips[-1]))
                    self.assertEqual(shown['p50'], trips[(len(trips) + 1) // 2 - 1])
            compared.append(counted)
        return compared

    def test_soft_roce(self):
        compared = [one for path in sorted(rig.CAPTURES.glob('*rc*.pcap')) for one in self.compare(path)]
        self.assertGreater(len(compared), 10)
        self.assertTrue(any(one.rnr_naks for one in compared))
        self.assertTrue(any(one.goodput[1] for one in compared), 'no READ')

    def test_losses(self):
        for path in self.simulate(rig.LOSSY, 'lossy'):
            compared = self.compare(path)
            self.assertEqual(len(compared), 3)
            self.assertTrue(all(one.retransmissions for one in compared[:2]))
            self.assertTrue(any(one.naks for one in compared))

    def test_congestion(self):
        document = {
            'seed': 2, 'duration': '3ms', 'hosts': [{'name': 'h', 'count': 2}, {'name': 'sink'}],
            'switches': [{'name': 's', 'queue': '1MiB', 'ecn': '5KiB,50KiB,10%'}],
            'links': [{'from': 'h', 'to': 's', 'rate': '10Gbit'}, {'from': 'sink', 'to': 's', 'rate': '10Gbit'}],
            'flows': [{'name': 'f', 'from': 'h', 'to': 'sink', 'operation': 'write', 'size': '16KiB', 'window': 8,
                       'congestion': {'algorithm': 'dcqcn'}}]}
        self.simulate(document, 'congested')
        compared = self.compare(self.folder / 'congested.sink.pcapng')
        self.assertTrue(all(one.cnps and one.marks for one in compared))


class AgainstTheChecker(rig.ReportTest):
    """Each rule's breaches: what the checker finds is in the report, at its packet."""

    def test_each_kind_of_finding(self):
        seen, rules = set(), set()
        for breach in scenarios.BREACHES:
            if breach.rule in seen:
                continue
            seen.add(breach.rule)
            with self.subTest(breach.rule):
                path = self.write('breach.pcapng', p.pcapng(breach.build()))
                arguments = judge_cli._parser('judge', None).parse_args(
                    [str(path), '--settle-ms', '0', '--strict', *breach.options])
                options = judge_cli.judging_options(arguments)
                expected = check(str(path), options).report
                made = report.make([str(path)], options)
                self.assertEqual([found.violation for found in made.findings], expected.violations)
                text = page.make(made)
                for number, found in enumerate(made.findings):
                    part = made.parts[found.connection]
                    self.assertEqual(part.rows['number'][found.at], found.violation.frame)
                    self.assertIn(f'href="#c{found.connection}p{found.at}" data-finding="{number}"', text)
                    rules.add(found.violation.rule)
                json.dumps(figures.for_machines(made))
        self.assertLessEqual(seen, rules)

    def test_good_dialogues(self):
        for name, (build, arguments) in scenarios.CLEAN.items():
            with self.subTest(name):
                path = self.write('good.pcapng', p.pcapng(build()))
                parsed = judge_cli._parser('judge', None).parse_args([str(path), *arguments])
                made = report.make([str(path)], judge_cli.judging_options(parsed))
                self.assertEqual(made.findings, [])
                page.make(made)

    def test_extensions_are_recognized(self):
        for name, kind in (('DC: two_targets', 'session'), ('locks: one_round_trip', 'lock')):
            path = self.write('extension.pcapng', p.pcapng(scenarios.CLEAN[name][0]()))
            made = report.make([str(path)], Options())
            spans = [span for part in made.parts for span in part.figures.spans]
            self.assertIn(kind, {span['kind'] for span in spans}, name)

    def test_handshakes(self):
        made = report.make([str(rig.CAPTURES / 'cm-rping-ipv4.pcap')], Options())
        texts = [span['text'] for part in made.parts for span in part.figures.spans]
        self.assertEqual(texts, ['REQ REP RTU DREQ DREP'])


class Captures(rig.ReportTest):
    def conversation(self):
        c = p.Conversation()
        for at in range(40):
            c.write(at * 3, 700)
            c.ack(at * 3 + 2, at + 1)
        return c.packets

    def test_gzip(self):
        packets = self.conversation()
        plain = self.figures(self.write('plain.pcap', p.pcap(packets)))
        packed = self.figures(self.write('packed.pcap.gz', gzip.compress(p.pcap(packets))))
        self.assertEqual(plain['connections'], packed['connections'])

    def test_truncated(self):
        data = p.pcap(self.conversation())
        found = self.figures(self.write('cut.pcap', data[:len(data) // 2]))
        self.assertTrue(found['files'][0]['truncated'])
        self.assertIn('its end is missing', found['notes'][0])

    def test_snap_length(self):
        found = self.figures(self.write('snap.pcap', p.pcap(self.conversation(), snaplen=96)))
        self.assertTrue(any('were cut' in note for note in found['notes']), found['notes'])
        self.assertEqual(found['packets'], 160)
        # Not even the headers: it cannot be judged, and is drawn all the same.
        done = self.run_report(self.write('short.pcap', p.pcap(self.conversation(), snaplen=58)), '--json', status=1)
        self.assertIn('not judged', done.stderr)
        self.assertEqual(json.loads(done.stdout)['packets'], 160)

    def test_one_direction(self):
        packets = [packet for packet in self.conversation() if packet.src == '192.0.2.1']
        found = self.figures(self.write('requests.pcap', p.pcap(packets)))
        self.assertTrue(any('one direction only' in note for note in found['notes']), found['notes'])
        self.assertIsNone(found['connections'][0]['round_trip_ns'])

    def test_mirrored_twice(self):
        packets = [packet for packet in self.conversation() for _ in range(2)]
        found = self.figures(self.write('twice.pcap', p.pcap(packets)))
        self.assertTrue(any('mirror of more than one port' in note for note in found['notes']), found['notes'])

    def test_two_ends_whose_clocks_differ(self):
        """Each packet takes 5 us, and the second clock is an hour behind."""
        one = self.conversation()
        packets = [(packet, packet.time_ns) for packet in one]
        behind = 3600 * 10**9
        lost = {7, 50}
        near, far = [], []
        for index, (packet, time) in enumerate(packets):
            is_request = packet.src == '192.0.2.1'
            arrives = time + 5000
            here, there = (time, arrives) if is_request else (arrives, time)
            data = packet.to_bytes()
            if not (index in lost and not is_request):
                near.append((here, data))
            if not (index in lost and is_request):
                far.append((there - behind, data))
        a, b = self.folder / 'near.pcap', self.folder / 'far.pcap'
        p.save(a, sorted(near))
        p.save(b, sorted(far))
        found = self.figures(a, b)
        self.assertEqual(found['files'][1]['offset_ns'], behind)
        self.assertEqual(found['packets'], len(packets))
        self.assertEqual(found['totals']['lost_between_captures'], len(lost))

    def test_unrelated_captures(self):
        other = [scenarios.as_ipv6(packet) for packet in self.conversation()]
        found = self.figures(self.write('one.pcap', p.pcap(self.conversation())), self.write('two.pcap', p.pcap(other)))
        self.assertTrue(any('no packet in common' in note for note in found['notes']))
        self.assertEqual(len(found['connections']), 2)


class BadInput(rig.ReportTest):
    def refused(self, data, status=2):
        path = self.write('bad.pcap', data)
        done = self.run_report(path, '-o', 'bad.html', status=status)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        self.assertFalse((self.folder / 'bad.html').exists())
        return done.stderr

    def test_no_capture(self):
        self.refused(b'')
        self.refused(b'nonsense')
        self.refused(gzip.compress(b'nonsense'))
        self.assertIn('no RoCEv2 packet', self.refused(p.frames([b'\xff' * 60])))
        done = self.run_report('missing.pcap', status=2)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.run_report(status=2)

    def test_places(self):
        good = rig.CAPTURES / 'ipv4-rc-mixed-mtu1024.pcap'
        for place in ('.', 'no/such/folder/x.html'):
            done = self.run_report(good, '-o', place, status=1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        copy = self.write('copy.pcap', good.read_bytes())
        self.run_report(copy, '-o', copy, status=1)
        self.assertEqual(copy.read_bytes(), good.read_bytes())

    def test_random_bytes(self):
        """Frames that begin as RoCEv2 and go on at random: a report, or one line."""
        print(f'REPORT_SEED={SEED}')
        chance = random.Random(SEED)
        good = scenarios.basic() + scenarios.CLEAN['DC: two_targets'][0]() + scenarios.CLEAN['locks: one_round_trip'][0]()
        for _ in range(40):
            frames = []
            for packet in good:
                data = bytearray(packet.to_bytes())
                for _ in range(chance.randrange(6)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                frames.append(bytes(data[:chance.randrange(34, len(data) + 1)] if chance.random() < .3 else data))
            path = self.write('random.pcap', p.frames(frames))
            try:
                made = report.make([str(path)], Options())
            except report.FileError as error:
                self.assertEqual(len(str(error).splitlines()), 1)
                continue
            json.dumps(figures.for_machines(made))
            page.make(made)

    def test_tags_stay_words(self):
        """Comments of a capture, and its name, get into the page: as text alone."""
        evil = '</script><script>alert(1)</script><img src=x onerror=alert(2)><!--'
        packets = scenarios.basic()
        for packet in packets:
            packet.comment = 'drop: plain'
        own = page.make(report.make([str(self.write('plain.pcapng', p.pcapng(packets)))], Options()))
        for packet in packets:
            packet.comment = f'drop: {evil}'
        folder = self.folder / '<b onclick=x>'
        folder.mkdir()
        path = folder / 'a<i>&.pcapng'
        path.write_bytes(p.pcapng(packets))
        self.run_report(path, '-o', 'evil.html')
        text = (self.folder / 'evil.html').read_text()
        self.assertEqual(text.count('<script'), own.count('<script'))
        self.assertEqual(text.count('</script'), own.count('</script'))
        for tag in ('<img', '<i>', '<b onclick'):
            self.assertNotIn(tag, text)

    def test_nothing_is_loaded(self):
        text = page.make(report.make([str(rig.CAPTURES / 'ipv4-rc-mixed-mtu1024.pcap')], Options()))
        text = text.replace(page.library(), '')
        self.assertEqual(re.findall(r'''(?:src|href)=["']?(?!#|data:)[^"'>\s]+''', text), [])
        self.assertNotIn('url(', text)
        self.assertNotIn('@import', text)


class CommandLine(rig.ReportTest):
    def test_help_and_list(self):
        text = self.run_report('--help').stdout
        for word in ('CAPTURE...', '--output', '--json', '--lossy', 'EXIT STATUS'):
            self.assertIn(word, text)

    def test_a_page_is_whole_or_not_there(self):
        good = rig.CAPTURES / 'ipv4-rc-mixed-mtu1024.pcap'
        done = self.run_report(good)
        self.assertRegex(done.stdout, r'^report\.html: 14 packets, 1 connections, 0 findings\n$')
        before = (self.folder / 'report.html').read_text()
        self.run_report(self.write('bad.pcap', b'x'), status=2)
        self.assertEqual((self.folder / 'report.html').read_text(), before)
        self.assertEqual(sorted(path.name for path in self.folder.glob('*report*')), ['report.html'])

    def test_a_stream(self):
        """A capture that cannot be read twice from the start is refused or read whole, never half."""
        reader, writer = os.pipe()
        os.write(writer, p.pcap(scenarios.basic()))
        os.close(writer)
        done = subprocess.run(['/usr/bin/python3', '-B', '-m', 'rh_report', '/dev/stdin', '--json'], stdin=reader, text=True,
                              capture_output=True, timeout=rig.LIMIT_S, cwd=self.folder,
                              env={**os.environ, 'PYTHONPATH': ':'.join(rig.PACKAGES)})
        os.close(reader)
        self.assertIn(done.returncode, (0, 2), done.stderr)
        if done.returncode == 0:
            self.assertEqual(json.loads(done.stdout)['packets'], len(scenarios.basic()))
        else:
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_the_dialect_of_time(self):
        """Captures in microseconds and in nanoseconds, of both byte orders, begin at the same time."""
        packets = scenarios.basic()
        starts = {self.figures(self.write('order.pcap', p.pcap(packets, order=order, nano=nano)))['start_ns']
                  for order in '<>' for nano in (False, True)}
        self.assertEqual(starts, {packets[0].time_ns})


if __name__ == '__main__':
    unittest.main()
