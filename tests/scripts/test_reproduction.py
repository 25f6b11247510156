#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""docs/reproduce/: the pages say the settings of the scenario files and the results of the figures
beside them; what scripts/reproduce varies is in the files that it varies."""

import json
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from reproduction import dcqcn, irn, lumina, pages  # noqa: E402
from reproduction.simulator import SCENARIOS, scenario  # noqa: E402

PAGES = ROOT / 'docs/reproduce'
EXPERIMENTS = {'dcqcn': dcqcn, 'irn': irn, 'lumina': lumina}


class Pages(unittest.TestCase):
    def test_settings_are_those_of_the_scenario_files(self):
        for name, experiment in EXPERIMENTS.items():
            with self.subTest(page=name):
                text = (PAGES / f'{name}.md').read_text()
                self.assertEqual(pages.block(text, 'settings'),
                                 pages.settings(experiment.SCENARIOS),
                                 f'scripts/reproduce {name} --redraw mends the page')

    def test_results_are_those_of_the_figures(self):
        for name, experiment in EXPERIMENTS.items():
            with self.subTest(page=name):
                text = (PAGES / f'{name}.md').read_text()
                figures = json.loads((PAGES / f'{name}.json').read_text())
                self.assertEqual((figures['seed'], figures['quick']), (1, False))
                self.assertEqual(pages.block(text, 'results'), experiment.results(figures))

    def test_pictures_are_there_and_small(self):
        for name in EXPERIMENTS:
            picture = PAGES / f'{name}.svg'
            self.assertTrue(xml.etree.ElementTree.parse(picture).getroot().tag.endswith('svg'))
            self.assertLess(picture.stat().st_size, 250_000)
            self.assertIn(f']({name}.svg)', (PAGES / f'{name}.md').read_text())

    def test_every_scenario_is_somebodys(self):
        named = {name for experiment in EXPERIMENTS.values() for name in experiment.SCENARIOS}
        self.assertEqual({path.stem for path in SCENARIOS.glob('*.json')}, named)

    def test_what_is_said_of_papers_is_marked(self):
        for name in EXPERIMENTS:
            text = (PAGES / f'{name}.md').read_text()
            reported = text[text.index('reports\n'):text.index('## Setting')]
            for item in re.split(r'\n- ', reported)[1:]:
                self.assertRegex(item, r'\*(At hand|Recalled)\*', name)


class Blocks(unittest.TestCase):
    PAGE = 'a\n<!-- x: made by scripts/reproduce -->\nold\n<!-- end of x -->\nb\n'

    def test_a_block_is_replaced_and_nothing_else(self):
        page = pages.with_block(self.PAGE, 'x', 'new\nlines')
        self.assertEqual(pages.block(page, 'x'), 'new\nlines')
        self.assertEqual(page.replace('new\nlines', 'old'), self.PAGE)
        self.assertEqual(pages.with_block(self.PAGE.replace('old\n', ''), 'x', 'old'), self.PAGE)

    def test_a_page_without_a_place_is_an_error(self):
        self.assertIsNone(pages.block(self.PAGE, 'y'))
        with self.assertRaises(ValueError):
            pages.with_block(self.PAGE, 'y', '')

    def test_each_member_is_a_setting(self):
        self.assertEqual(list(pages._leaves({'a': {'b': [1, {'c': 2}]}, 'd': 'x'})),
                         ['a.b[0] 1', 'a.b[1].c 2', 'd x'])


class Variations(unittest.TestCase):
    def test_dcqcn(self):
        lot = scenario('dcqcn-parking-lot')
        alone = dcqcn.without_dcqcn(lot)
        self.assertFalse(any('ecn' in one for one in alone['switches']))
        self.assertFalse(any('congestion' in one for one in alone['flows']))
        self.assertTrue(all('pfc' in one for one in alone['switches']))
        self.assertTrue(all('ecn' in one for one in lot['switches']), 'the file is as it was')
        self.assertEqual(dcqcn.incast(7)['hosts'][0]['count'], 7)
        self.assertEqual(dcqcn.jain([5, 5, 5, 5]), 1)
        self.assertEqual(dcqcn.jain([5, 0, 0, 0]), 0.25)

    def test_irn(self):
        roce = irn.document_of('RoCE with PFC')
        ours = irn.document_of('IRN without PFC', 0.3)
        self.assertEqual(ours['flows'][0]['arrivals']['load'], 0.3)
        self.assertEqual(roce['flows'][0]['recovery'], {'algorithm': 'go-back-n'})
        self.assertIn('pfc', roce['fat_tree'])
        self.assertNotIn('pfc', ours['fat_tree'])
        self.assertEqual(ours['flows'][0]['recovery'], scenario('irn')['flows'][0]['recovery'])
        self.assertEqual(irn.gain({'ways': {'IRN without PFC': {'average_us': 3},
                                            'RoCE with PFC': {'average_us': 4}}}), 0.25)

    def test_lumina(self):
        write = lumina.document_of('write', 'go-back-n', 10)
        self.assertEqual(write['links'][1]['faults'], 'tx.drop_opcode=0x06-0x0b+9*1')
        read = lumina.document_of('read', 'selective', 1)
        self.assertEqual(read['links'][0]['faults'], 'rx.drop_opcode=0x0d-0x10+0*1')
        self.assertEqual(read['flows'][0]['recovery']['algorithm'], 'selective')
        self.assertNotIn('faults', json.dumps(lumina.document_of('read', 'go-back-n', 0)))
        self.assertEqual(lumina.count_of_packets(), 100)
        self.assertEqual(lumina.ahead(2, 0xffffff), 3)
        self.assertEqual(lumina.ahead(0xffffff, 2), -3)


if __name__ == '__main__':
    unittest.main(verbosity=2)
