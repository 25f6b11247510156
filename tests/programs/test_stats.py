#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-stats --describe: every counter of a running program with what it counts."""

import json
import re

import support
from support import ROOT, SwitchTest

ROW = re.compile(r'^\| `(\w+)` \| (.+) \|$', re.MULTILINE)


def of_the_page(heading):
    """{counter: text} of a section of docs/counters.md."""
    page = (ROOT / 'docs/counters.md').read_text(encoding='utf-8')
    return dict(ROW.findall(page.split(f'\n### {heading}\n')[1].split('\n### ')[0]))


class Describe(SwitchTest):
    def ask(self, process, *arguments):
        """What rh-stats says of that process alone."""
        done = self.run_program('rh-stats', '--pid', process.child.pid, '--json', *arguments)
        self.assert_status(done, 0)
        [program] = json.loads(done.output())['programs']
        return program

    def assert_described(self, process, groups):
        """Each counter has a text: that of the page, for the groups that {group: heading} names."""
        counters = self.ask(process)['counters']
        texts = self.ask(process, '--describe')['texts']
        self.assertEqual({group: list(names) for group, names in texts.items()},
                         {group: list(names) for group, names in counters.items()})
        for group, heading in groups.items():
            page = of_the_page(heading)
            found = {name: text for name, text in texts[group].items()
                     if not name.startswith('device_')}
            self.assertTrue(found)
            self.assertEqual(found, {name: page[name] for name in found}, group)
        return texts

    def test_switch(self):
        switch = self.start_switch(2, '--faults', '0:loss=1%')
        texts = self.assert_described(
            switch, {'mac_table': 'mac_table', 'port0': 'port0', 'port1': 'port0',
                     'port0_faults': 'faults'})
        self.assertEqual(texts['port0']['device_imissed'],
                         'at the device: ' + of_the_page('port')['imissed'])

    def test_endpoint(self):
        server, _ = self.start_server('rh-perf', '--memif-socket', self.lab.path('memif.sock'),
                                      '--ip', '10.42.0.1/24', '--faults', 'loss=1%')
        texts = self.assert_described(server, {name: name for name in
                                               ('port', 'faults', 'host', 'engine')})
        # No one answer of telemetry has room for so many counters with their texts.
        self.assertGreater(len(texts['engine']), 70)

    def test_pattern(self):
        switch = self.start_switch(2)
        pid = ('--pid', switch.child.pid)
        found = self.ask(switch, '--describe', 'rx_dropped_*')['texts']
        self.assertEqual(set(found), {'port0', 'port1'})
        self.assertTrue(all(name.startswith('rx_dropped_') for name in found['port0']))
        found = self.ask(switch, '--describe', '--group', 'mac_table', 'aged')['texts']
        self.assertEqual(found, {'mac_table': {'aged': of_the_page('mac_table')['aged']}})

        table = self.run_program('rh-stats', *pid, '--describe', 'tx_enqueued')
        self.assert_status(table, 0)
        self.assertRegex(table.output(), r'port1 +tx_enqueued +packets put into the output queue\n')

        self.assert_failed(self.run_program('rh-stats', *pid, '--describe', 'nothing*'),
                           r'matches nothing\*')

    def test_bad_arguments(self):
        for arguments in (('rx_*',), ('--describe', '--watch', 1), ('--describe', '--list')):
            with self.subTest(arguments=arguments):
                self.assert_refused('rh-stats', *arguments)


if __name__ == '__main__':
    support.main()
