# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-sim: repeatable runs, refused scenarios, captures and plots, a stop by signal."""

import copy
import json
import os
import pathlib
import signal
import xml.etree.ElementTree

import support
from support import LIMIT_S, pcapng_packets, wait_until

SCENARIOS = pathlib.Path(__file__).resolve().parents[2] / 'apps/rh_sim/scenarios'

INCAST = {
    'duration': '2ms',
    'hosts': [{'name': 'h', 'count': 4}, {'name': 'sink'}],
    'switches': [{'name': 's', 'queue': '100KiB'}],
    'links': [{'from': 'h', 'to': 's', 'rate': '10Gbit'},
              {'from': 's', 'to': 'sink', 'rate': '10Gbit', 'faults': 'loss=0.5%'}],
    'flows': [{'name': 'in', 'from': 'h', 'to': 'sink', 'size': '8KiB', 'window': 4,
               'timeout': 4}],
}


TREE = {
    'duration': '100ms', 'mbufs': 100_000,
    'fat_tree': {'k': 4, 'rate': '10Gbit', 'queue': '50kB'},
    'flows': [{'name': 'm', 'from': 'h', 'to': 'h', 'stop': '1ms', 'timeout': 6,
               'recovery': {'algorithm': 'selective'},
               'arrivals': {'load': 0.6, 'sizes': [{'fraction': 0, 'size': 64},
                                                   {'fraction': 0.8, 'size': '2kB'},
                                                   {'fraction': 1, 'size': '200kB'}]}}],
}


class Sim(support.ProgramTest):
    def scenario(self, document, name='scenario.json'):
        path = self.lab.path(name)
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def simulate(self, *arguments, status=0):
        process = self.run_program('rh-sim', *arguments)
        self.assert_status(process, status)
        return process

    def test_same_seed_same_bytes(self):
        path = self.scenario(INCAST)
        for form in ((), ('--json',)):
            outputs = [self.simulate(path, '--seed', seed, *form).output() for seed in (1, 1, 2)]
            self.assertEqual(outputs[0], outputs[1])
            self.assertNotEqual(outputs[0], outputs[2])

    def test_losses_are_made_good_and_counted(self):
        report = json.loads(self.simulate(self.scenario(INCAST), '--json').output())
        [group] = report['groups']
        self.assertEqual((group['flows'], group['failed']), (4, 0))
        self.assertGreater(group['completed'], 50)
        self.assertGreater(report['counters']['retransmitted_pkts'], 0)
        [fabric] = report['switches']
        self.assertEqual(fabric['dropped_no_route'], 0)
        port = next(p for p in report['switch_ports'] if p['name'] == 's > sink')
        self.assertLessEqual(port['longest_queue_bytes'], 100 * 1024)

    def test_recovery_is_chosen(self):
        counters = {}
        for algorithm in ('go-back-n', 'selective'):
            document = copy.deepcopy(INCAST)
            document['flows'][0]['recovery'] = {'algorithm': algorithm, 'adaptive_timeout': True}
            report = json.loads(self.simulate(self.scenario(document), '--json').output())
            self.assertEqual(report['groups'][0]['failed'], 0)
            counters[algorithm] = report['counters']
        self.assertNotIn('held_requests', counters['go-back-n'])
        self.assertGreater(counters['selective']['held_requests'], 0)
        self.assertGreater(counters['selective']['rcvd_selective_ack'], 0)

    def test_captures_and_plots(self):
        path = self.scenario(INCAST)
        captures = [self.lab.path(f'{run}.pcapng') for run in 'ab']
        for capture in captures:
            self.simulate(path, '--pcap', capture, '--plot', self.lab.path('plot/run'))
        for host in ('h0', 'sink'):
            first, second = (capture.with_suffix(f'.{host}.pcapng') for capture in captures)
            self.assertEqual(first.read_bytes(), second.read_bytes())
            self.assertGreater(pcapng_packets(first), 50)
        for chart in ('rates', 'queues'):
            svg = xml.etree.ElementTree.parse(self.lab.path(f'plot/run-{chart}.svg'))
            self.assertTrue(svg.getroot().tag.endswith('svg'))
            rows = self.lab.path(f'plot/run-{chart}.csv').read_text().splitlines()
            self.assertEqual(len(rows), 201)

    def test_64_flows_share_a_port_fairly_without_loss(self):
        longest = {}
        for control in ('dcqcn', 'swift', 'pfc'):
            document = json.loads((SCENARIOS / f'fairness-{control}.json').read_text())
            document.update(duration='100ms', measure_from='50ms')
            report = json.loads(self.simulate(self.scenario(document), '--json').output())
            [group], [fabric] = report['groups'], report['switches']
            with self.subTest(control=control):
                self.assertEqual((group['flows'], group['failed']), (64, 0))
                self.assertGreater(group['fairness'], 0.95)
                self.assertGreater(group['bit_per_s'], 80e9)
                self.assertEqual(fabric['dropped_queue_full'], 0)
                self.assertNotIn('retransmitted_pkts', report['counters'])
                self.assertEqual('np_cnp_sent' in report['counters'], control == 'dcqcn')
                self.assertEqual(fabric['pfc_sent'] > 0, control == 'pfc')
            longest[control] = max(p['longest_queue_bytes'] for p in report['switch_ports'])
        self.assertLess(longest['dcqcn'], longest['pfc'] / 4)
        self.assertLess(longest['swift'], longest['pfc'] / 4)

    def test_messages_alone_take_the_ideal_time(self):
        """What the report divides by is what the simulator does when nothing is in the way."""
        flows = [{'name': f'{operation} {size}', 'from': 'h0', 'to': 'h15', 'operation': operation,
                  'size': size, 'count': 1, 'path_mtu': 1024, 'start': f'{number}ms'}
                 for number, (operation, size) in enumerate(
                     ((operation, size) for operation in ('write', 'send', 'read')
                      for size in (8, 1000, 5000, 64 * 1024)), 1)]  # at 0 hosts say who they are
        document = {'duration': '100ms', 'fat_tree': TREE['fat_tree'], 'flows': flows}
        report = json.loads(self.simulate(self.scenario(document), '--json').output())
        for flow in report['flows']:
            self.assertAlmostEqual(flow['slowdown'], 1, delta=0.002, msg=flow['name'])

    def test_arrivals_complete_in_a_tree_that_drops(self):
        path = self.scenario(TREE)
        outputs = [self.simulate(path, '--json', '--seed', seed).output() for seed in (1, 1, 2)]
        self.assertEqual(outputs[0], outputs[1])
        first, _, other = map(json.loads, outputs)
        self.assertNotEqual(len(first['flows']), len(other['flows']))
        [group] = first['groups']
        self.assertEqual((group['completed'], group['failed']), (group['flows'], 0))
        self.assertGreater(group['flows'], 300)
        self.assertGreater(sum(one['dropped_queue_full'] for one in first['switches']), 0)
        self.assertGreater(group['slowdown']['average'], 1)
        self.assertGreater(group['slowdown']['p99'], group['slowdown']['p50'])
        self.assertLessEqual({flow['from'] for flow in first['flows']}, {f'h{i}' for i in range(16)})
        ports = [port for port in first['switch_ports'] if port['name'].startswith('core')]
        self.assertEqual(len(ports), 16)
        self.assertTrue(any(port['packets'] for port in ports))

    def test_pauses_in_a_tree_end(self):
        document = copy.deepcopy(TREE)
        document['fat_tree'].update(queue='4MB', pfc={'xoff': '30kB', 'xon': '20kB'})
        document['flows'][0]['timeout'] = 16
        report = json.loads(self.simulate(self.scenario(document), '--json').output())
        self.assertEqual(report['groups'][0]['completed'], report['groups'][0]['flows'])
        self.assertGreater(sum(one['pfc_sent'] for one in report['switches']), 0)
        self.assertEqual(sum(one['dropped_queue_full'] for one in report['switches']), 0)
        self.assertNotIn('retransmitted_pkts', report['counters'])

    def test_one_packet_of_a_given_number_is_lost(self):
        document = {'duration': '1s', 'hosts': [{'name': 'h', 'count': 2}],
                    'links': [{'from': 'h0', 'to': 'h1', 'rate': '10Gbit',
                               'faults': 'tx.drop_opcode=0x06-0x0b+9*1'}],
                    'flows': [{'name': 'f', 'from': 'h0', 'to': 'h1', 'size': 20 * 1024, 'count': 1,
                               'recovery': {'algorithm': 'selective'}}]}
        report = json.loads(self.simulate(self.scenario(document), '--json').output())
        self.assertEqual(report['flows'][0]['completed'], 1)
        self.assertEqual(report['counters']['retransmitted_pkts'], 1)

    def test_a_report_is_made_of_the_captures_of_all_hosts(self):
        path, page = self.scenario(INCAST), self.lab.path('page.html')
        folder = self.lab.path('programs')
        folder.mkdir()
        maker = folder / 'rh-report'
        # What is beside the program comes first, but nothing is there in a build.
        found = ('env', f'PATH={folder}:/usr/bin:/bin')
        missing = self.run_program('rh-sim', path, '--report', page,
                                   prefix=('env', 'PATH=/usr/bin:/bin'))
        self.assert_status(missing, 2)
        self.assertRegex(missing.messages(), r'--report needs the program rh-report, which is')
        self.assertEqual(len(missing.messages().splitlines()), 1)

        maker.write_text('#!/bin/sh\necho a word\n'
                         'for word; do case $word in *.pcapng) test -s $word || exit 3;; esac; '
                         'page=$word; done\necho "$@" > $page\n')
        maker.chmod(0o755)
        made = self.run_program('rh-sim', path, '--json', '--report', page, prefix=found)
        self.assert_status(made, 0)
        json.loads(made.output())
        self.assertIn('a word', made.messages())
        captures = page.read_text().split()[:-2]
        self.assertEqual([name.rsplit('.', 2)[1] for name in captures],
                         ['h0', 'h1', 'h2', 'h3', 'sink'])
        self.assertFalse(any(map(os.path.exists, captures)), 'they were of a moment')

        capture = self.lab.path('kept.pcapng')
        self.assert_status(self.run_program('rh-sim', path, '--report', page, '--pcap', capture,
                                            prefix=found), 0)
        self.assertGreater(pcapng_packets(self.lab.path('kept.h0.pcapng')), 50)

        maker.write_text('#!/bin/sh\nexit 1\n')
        failed = self.run_program('rh-sim', path, '--report', page, prefix=found)
        self.assert_status(failed, 1)
        self.assertRegex(failed.messages().splitlines()[-1], r'page\.html is not made')
        self.assert_status(self.run_program('rh-sim', path, '--report', '-', prefix=found), 2)

    def test_every_operation_and_transport(self):
        flows = [{'name': f'{transport} {operation}', 'from': 'h0', 'to': 'h1', 'count': 20,
                  'transport': transport, 'operation': operation}
                 for transport, operations in (('rc', ('write', 'write_imm', 'send', 'read', 'cas',
                                                       'faa')),
                                               ('uc', ('write', 'write_imm', 'send')),
                                               ('ud', ('send',)))
                 for operation in operations]
        for flow in flows:
            flow['size'] = 8 if flow['operation'] in ('cas', 'faa') else 1000
        for version in (4, 6):
            document = {'duration': '50ms', 'ip_version': version, 'flows': flows,
                        'hosts': [{'name': 'h', 'count': 2}],
                        'links': [{'from': 'h0', 'to': 'h1', 'rate': '10Gbit'}]}
            report = json.loads(self.simulate(self.scenario(document), '--json').output())
            for flow in report['flows']:
                two_sided = flow['name'].endswith(('send', 'imm'))
                self.assertEqual((flow['completed'], flow['failed'], flow['delivered']),
                                 (20, 0, 20 if two_sided else 0), flow['name'])

    def test_refused_scenarios(self):
        for text, message in (('{"duration": "1ms", "flows": [{"from": 3}]}',
                               r'flows\[0\]\.from: a text is expected'),
                              ('[]', 'the document: an object is expected'), ('{', 'no JSON')):
            process = self.simulate(self.scenario(text), status=2)
            self.assertRegex(process.messages(), message)
            self.assertEqual(len(process.messages().splitlines()), 1)
        self.simulate(self.lab.path('missing.json'), status=2)
        self.simulate(status=2)

    def test_unfinished_flows_fail_the_run(self):
        document = dict(INCAST, flows=[dict(INCAST['flows'][0], count=10 ** 6)])
        process = self.simulate(self.scenario(document), status=1)
        self.assertRegex(process.messages(), 'of 1000000 messages at the end')

    def test_a_signal_ends_it_with_a_report(self):
        document = dict(INCAST, duration='900s')
        capture = self.lab.path('run.pcapng')
        process = self.start('rh-sim', self.scenario(document), '--json', '--pcap', capture)
        grown = self.lab.path('run.sink.pcapng')
        wait_until(lambda: grown.exists() and grown.stat().st_size > 100_000, LIMIT_S, 'it runs')
        process.child.send_signal(signal.SIGINT)
        self.assert_status(process, 1)
        self.assertIn('groups', json.loads(process.output()))
        self.assertGreater(pcapng_packets(grown), 100)

    def test_the_examples_are_right(self):
        for path in sorted(SCENARIOS.glob('*.json')):
            document = json.loads(path.read_text())
            document['duration'] = '1ms'
            document.pop('measure_from', None)
            for flow in document['flows']:
                flow.pop('count', None)
            with self.subTest(scenario=path.name):
                self.simulate(self.scenario(document, path.name))
        # Those of published results are whole runs: they are read, and refused no member.
        for path in sorted((SCENARIOS / 'reproduce').glob('*.json')):
            document = json.loads(path.read_text())
            document.update(duration='50us', measure_from='0us', sample='1us')
            with self.subTest(scenario=path.name):
                process = self.run_program('rh-sim', self.scenario(document, path.name))
                self.assertNotRegex(process.messages(), path.name)


if __name__ == '__main__':
    support.main()
