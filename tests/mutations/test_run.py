#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Mutations reach the programs, however these are compiled: each source alone, or several together,
where functions are inlined across files."""

import functools
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import run
import table
from table import Mutation, Patch, Problem

# A product and programs that fail without its protections. Of each two sources one unit is made.
FILES = {
    'meson.build': """\
project('gates', 'cpp', default_options: ['optimization=2', 'unity_size=2'])
key = static_library('key', 'stack/key.cc', override_options: 'unity=off')
gate = static_library('gate', 'stack/key.cc', 'stack/gate.cc', 'stack/last.cc')
executable('gate-test', 'tests/gate_test.cc', 'tests/more_test.cc', link_with: gate)
executable('own-test', 'tests/gate_test.cc', 'tests/more_test.cc', 'stack/key.cc', 'stack/gate.cc',
  'stack/last.cc')
executable('key-test', 'tests/key_test.cc', link_with: [key, gate])
executable('alone-test', 'tests/alone_test.cc')
""",
    'stack/key.h': """\
#pragma once
constexpr int kKey = 5;
bool fits(int key);
""",
    'stack/key.cc': """\
#include "stack/key.h"
namespace {
int used = 0;
}
bool fits(int key) {
  ++used;
  return key == kKey;
}
""",
    'stack/gate.h': """\
#pragma once
bool opens(int key);
int last();
""",
    'stack/gate.cc': """\
#include "stack/gate.h"
#include "stack/key.h"
bool opens(int key) { return fits(key); }
""",
    'stack/last.cc': """\
#include "stack/gate.h"
#include "stack/key.h"
int last() { return kKey; }
""",
    'tests/gate_test.cc': """\
#include <cstdio>
#include "stack/gate.h"
// TEST(Gate, Opens) {}
int main() {
  std::puts("[ RUN      ]");
  return !opens(4) && opens(5) && last() == 5 ? 0 : 1;
}
""",
    'tests/alone_test.cc': 'int main() {}\n',
    'tests/more_test.cc': '// TEST(Gate, More) {}\n',
    'tests/key_test.cc': """\
#include <cstdio>
#include "stack/gate.h"
#include "stack/key.h"
int main() {
  std::puts("[ RUN      ]");
  return !fits(4) && fits(5) && last() == 5 ? 0 : 1;
}
""",
}
ANY_KEY = Patch('stack/key.cc', ('return key == kKey;',), ('return true;',))
NO_GATE = Patch('stack/gate.cc', ('bool opens(int key) { return fits(key); }',),
                ('bool opens(int) { return true; }',))
OTHER_KEY = Patch('stack/key.h', ('constexpr int kKey = 5;',), ('constexpr int kKey = 6;',))
HARMLESS = Patch('stack/gate.cc', ('bool opens(int key) { return fits(key); }',),
                 ('bool opens(int key) { return fits(key) && fits(key); }',))


class RunTest(unittest.TestCase):
    """The folder is built once for all."""

    unity = 'off'

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix='rockhopper-')
        cls.addClassCleanup(folder.cleanup)
        root = pathlib.Path(folder.name).resolve()
        for file, text in FILES.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding='utf-8')
        for place in (mock.patch.object(run, 'ROOT', root),
                      mock.patch.object(run, 'check_patches',
                                        functools.partial(table.check_patches, root=root))):
            place.start()
            cls.addClassCleanup(place.stop)
        for command in (['meson', 'setup', f'-Dunity={cls.unity}', root / 'build', root],
                        ['ninja', '-C', root / 'build']):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        cls.tree = run.Tree(root / 'build')

    def notices(self, program, *patches):
        """Whether the program does, once it is made with these patches."""
        mutation = Mutation('one', '', patches, ())
        with self.tree.folder_of(mutation) as folder:
            mutant = run.Mutant(self.tree, mutation, folder)
            return not run.passes(self.tree, mutant.link, {'program': program, 'filter': '*'})

    def test_source(self):
        self.assertTrue(self.notices('gate-test', NO_GATE))
        self.assertFalse(self.notices('gate-test', HARMLESS))

    def test_callers_in_other_sources(self):
        self.assertTrue(self.notices('gate-test', ANY_KEY))

    def test_header(self):
        self.assertTrue(self.notices('gate-test', OTHER_KEY))

    def test_several_files(self):
        self.assertTrue(self.notices('gate-test', HARMLESS, OTHER_KEY))

    def test_sources_of_the_program_itself(self):
        for patch in (ANY_KEY, NO_GATE, OTHER_KEY):
            self.assertTrue(self.notices('own-test', patch), patch)

    def test_source_in_two_libraries(self):
        for patch in (ANY_KEY, OTHER_KEY):
            self.assertTrue(self.notices('key-test', patch), patch)

    def test_program_without_the_file(self):
        with self.assertRaisesRegex(Problem, 'has nothing that is made from'):
            self.notices('alone-test', ANY_KEY)

    def test_texts(self):
        self.assertEqual(sorted(self.tree.texts('gate-test')),
                         sorted(FILES[f'tests/{name}_test.cc'] for name in ('gate', 'more')))
        self.assertEqual(self.tree.texts('no-test'), [])


class Combined(RunTest):
    unity = 'on'

    def test_a_source_by_itself_comes_first(self):
        mutation = Mutation('one', '', (NO_GATE,), ())
        with self.tree.folder_of(mutation) as folder:
            mutant = run.Mutant(self.tree, mutation, folder)
            program, whole = mutant.link('gate-test', False)
            self.assertFalse(whole)
            self.assertTrue(run.notices(self.tree, {'filter': '*'}, program))
            self.assertEqual(list(mutant.objects), [('libgate.a.p/meson-generated_gate-unity0.cpp.o',
                                                     'stack/gate.cc')])

    def test_units_are_combined(self):
        parts = {tuple(part.name for part in self.tree.parts(target))
                 for target in self.tree.sources if target.startswith('libgate.a.p/')}
        self.assertEqual(parts, {('key.cc', 'gate.cc'), ('last.cc',)})


if __name__ == '__main__':
    unittest.main()
