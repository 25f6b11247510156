# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""scripts/reproduce: a quick run of each published result, with the trend that must come out of it;
one seed, the same bytes; what is refused."""

import json
import pathlib
import subprocess

import support

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / 'scripts/reproduce'
PROGRAM = support.PROGRAMS / 'rh-sim'


class Reproduce(support.ProgramTest):
    def reproduce(self, *arguments, status=0):
        done = subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                              timeout=support.LIMIT_S)
        self.assertEqual(done.returncode, status, done.stderr)
        if status == 1:
            self.assertEqual(len(done.stderr.splitlines()), 1)
        return done

    def quick(self, name, folder='out', seed=1):
        output = self.lab.path(folder)
        self.reproduce(name, '--quick', '--seed', seed, '--output', output, '--rh-sim', PROGRAM)
        self.assertIn('<svg', (output / f'{name}.svg').read_text())
        return json.loads((output / f'{name}.json').read_text())

    def test_dcqcn_is_fair_where_pfc_alone_is_not(self):
        figures = self.quick('dcqcn')
        self.assertLess(max(figures['fairness']['PFC alone']), 0.95)
        self.assertGreater(min(figures['fairness']['DCQCN']), 0.95)
        congested = figures['queues'][-2]
        self.assertEqual(congested['dropped'], 0)
        self.assertLess(congested['p90_kb'], figures['pfc_queue']['p90_kb'] / 4)

    def test_irn_completes_all_without_pfc(self):
        figures = self.quick('irn')
        for way, one in figures['ways'].items():
            self.assertEqual(one['gave_up'], 0, way)
            self.assertGreaterEqual(one['average_slowdown'], 1, way)
            self.assertEqual(one['pauses'] > 0, way == 'RoCE with PFC')

    def test_lumina_tells_gaps_from_timeouts(self):
        figures = self.quick('lumina')
        count = figures['packets']
        for way, lines in figures['ways'].items():
            none, first, middle, last = lines
            self.assertEqual([line['lost'] for line in lines], [0, 1, count // 2, count], way)
            self.assertEqual(none['sent'], count, way)
            self.assertEqual([line['trigger'] for line in (first, middle, last)],
                             ['gap', 'gap', 'timeout'], way)
            self.assertGreater(last['latency_us'], 1000 * middle['latency_us'], way)
        again = {way: lines[2]['sent'] for way, lines in figures['ways'].items()}
        self.assertEqual(again['WRITE, selective'], count + 1)
        self.assertGreater(again['WRITE, go-back-n'], count + count // 4)

    def test_one_seed_gives_the_same_bytes(self):
        for folder in ('first', 'second'):
            self.quick('lumina', folder, seed=3)
        for name in ('lumina.json', 'lumina.svg'):
            self.assertEqual(self.lab.path(f'first/{name}').read_bytes(),
                             self.lab.path(f'second/{name}').read_bytes(), name)

    def test_what_is_refused(self):
        for arguments, message in (((), 'NAME|name'), (('hpcc',), 'invalid choice'),
                                   (('irn', '--quick'), 'add --output'),
                                   (('irn', '--seed', '-1'), 'not negative'),
                                   (('irn', '--rh-sim', '/no/such/program'), 'there is no')):
            done = self.reproduce(*arguments, status=2)
            self.assertRegex(done.stderr.splitlines()[-1], message)
        broken = self.lab.path('broken')
        broken.write_text('#!/bin/sh\necho it broke >&2\nexit 1\n')
        broken.chmod(0o755)
        done = self.reproduce('irn', '--output', self.lab.path('none'), '--rh-sim', broken,
                              status=1)
        self.assertIn('it broke', done.stderr)
        self.assertFalse(list(self.lab.path('none').glob('*')), 'nothing is half done')


if __name__ == '__main__':
    support.main()
