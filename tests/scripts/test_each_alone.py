#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A source that compiles behind others and not by itself is found, and so is one that warns."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SOURCES = {
    'right.cc': '#include <cstdint>\nstd::uint8_t right() { return 1; }\n',
    'leans.cc': 'std::uint8_t leans() { return 2; }\n',
    'warns.cc': 'int warns(int unused) { return 3; }\n',
}


class EachAlone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='rockhopper-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def check(self, *names, arguments=()):
        for name in names:
            (self.folder / name).write_text(SOURCES[name], encoding='utf-8')
        (self.folder / 'lib-unity0.cpp').write_text(
            ''.join(f'#include<{self.folder / name}>\n' for name in names), encoding='utf-8')
        (self.folder / 'compile_commands.json').write_text(json.dumps([{
            'directory': str(self.folder), 'file': 'lib-unity0.cpp', 'output': 'lib-unity0.o',
            'command': 'c++ -Wall -Wextra -MD -MQ lib-unity0.o -MF lib-unity0.o.d -o lib-unity0.o '
                       '-c lib-unity0.cpp'}]), encoding='utf-8')
        done = subprocess.run([sys.executable, ROOT / 'tests/each_alone.py', '--build', self.folder,
                               *arguments], text=True, capture_output=True, timeout=60)
        made = {path.name for path in self.folder.iterdir()}
        self.assertEqual(made, {*SOURCES, 'lib-unity0.cpp', 'compile_commands.json'} & made)
        return done.returncode, done.stdout

    def test_right(self):
        self.assertEqual(self.check('right.cc'), (0, '1 passed, 0 failed\n'))

    def test_found(self):
        status, said = self.check('right.cc', 'leans.cc', 'warns.cc')
        self.assertEqual(status, 1)
        self.assertRegex(said, r'(?m)^failed \S*/leans\.cc$')
        self.assertRegex(said, r'(?m)^failed \S*/warns\.cc$')
        self.assertEqual(said.splitlines()[-1], '1 passed, 2 failed')

    def test_shares(self):
        every = [self.check('right.cc', 'leans.cc', arguments=['--share', f'{part}/2'])
                 for part in range(2)]
        self.assertEqual([said.splitlines()[-1] for _, said in every],
                         ['1 passed, 0 failed', '0 passed, 1 failed'])

    def test_nothing_to_check_is_a_failure(self):
        self.assertEqual(self.check('right.cc', arguments=['none']), (1, '0 passed, 0 failed\n'))


if __name__ == '__main__':
    unittest.main()
