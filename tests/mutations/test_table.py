#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The table of mutations is refused when it has gone stale: each rule on an entry that breaks it."""

import pathlib
import tempfile
import unittest

from table import Mutation, Patch, Problem, check_filter, check_test, parse, problems_of

CODE = """\
bool Gate::admit(int key) {
  if (key != key_) {
    return false;
  }
  count();
  return true;
}

bool Gate::leave(int key) {
  if (key == 0) return false;
  count();
  return true;
}
"""
TESTS = """\
TEST(Gate, RefusesOtherKeys) {}
TEST_F(GateTest, Counts) {}
TEST_P(EachGate, Opens) {}
INSTANTIATE_TEST_SUITE_P(All, EachGate, Values(1, 2));
"""


def entry(**changes):
    """A right one but for the changes; None takes a field out."""
    right = {'mutation': 'gate_key', 'without': 'the check of the key',
             'patches': [{'file': 'stack/gate.cc', 'find': 'if (key != key_) {',
                          'put': 'if (false) {'}],
             'tests': [{'program': 'tests/gate', 'filter': 'Gate.RefusesOtherKeys'}]}
    return {key: value for key, value in {**right, **changes}.items() if value is not None}


def patch(**changes):
    return [{**entry()['patches'][0], **changes}]


def gate(**changes):
    return [{**entry()['tests'][0], **changes}]


class TableTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for file, text in {'stack/gate.cc': CODE, 'tests/gate_test.cc': TESTS,
                           'tests/conformance/scripts/gate/key.pkt': '',
                           'tests/test_gate.py': 'class Gates(TestCase):\n    def test_key(self):\n'
                           }.items():
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            (self.root / file).write_text(text)

    def sources_of(self, program):
        return [TESTS] if program == 'tests/gate' else []

    def problems(self, *entries):
        mutations, problems = parse(entries)
        problems += problems_of(mutations, self.sources_of, self.root)
        return [f'{name}: {problem}' for name, problem in problems]

    def assert_refused(self, part, *entries):
        problems = self.problems(*entries)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(part, problems[0])


class Patches(TableTest):
    def mutate(self, *patches):
        return Mutation('gate', '', patches, ()).apply('stack/gate.cc', CODE)

    def test_right(self):
        self.assertEqual(self.problems(entry()), [])

    def test_lines_are_replaced(self):
        block = ('if (key != key_) {', 'return false;', '}')
        text = self.mutate(Patch('stack/gate.cc', block, ()),
                           Patch('stack/gate.cc', ('if (key == 0) return false;',), ('a', 'b')))
        self.assertEqual(text, CODE.replace('  if (key != key_) {\n    return false;\n  }\n', '')
                         .replace('  if (key == 0) return false;', 'a\nb'))

    def test_patches_of_other_files_are_left_out(self):
        self.assertEqual(self.mutate(Patch('stack/b.cc', ('count();',), ())), CODE)

    def test_no_match(self):
        self.assert_refused('matches 0 times in stack/gate.cc',
                            entry(patches=patch(find='if (key != key) {')))
        self.assert_refused('matches 0 times', entry(patches=patch(find=['count();', 'a();'])))

    def test_part_of_a_line_is_no_match(self):
        self.assert_refused('matches 0 times', entry(patches=patch(find='key != key_')))

    def test_several_matches(self):
        self.assert_refused('matches 2 times in stack/gate.cc',
                            entry(patches=patch(find='count();')))

    def test_each_patch_has_to_match(self):
        self.assert_refused('matches 2 times',
                            entry(patches=patch() + patch(find='return true;')))

    def test_overlap(self):
        self.assert_refused('overlap', entry(patches=patch() + patch(
            find=['if (key != key_) {', 'return false;'], put='')))

    def test_the_same_again(self):
        self.assert_refused('puts what it finds', entry(patches=patch(put='  if (key != key_) {')))

    def test_nothing_to_find(self):
        self.assert_refused('finds nothing', entry(patches=patch(find='')))
        self.assert_refused('finds nothing', entry(patches=patch(find=[''])))

    def test_no_lines(self):
        self.assert_refused('neither a line nor a list', entry(patches=patch(put=None)))

    def test_other_files(self):
        self.assert_refused('is no file of', entry(patches=patch(file='stack/door.cc')))
        self.assert_refused('is no file of', entry(patches=patch(file='tests/gate_test.cc')))


class Entries(TableTest):
    def test_missing_fields(self):
        for field in ('without', 'patches', 'tests'):
            self.assert_refused(f'has no `{field}`', entry(**{field: None}))

    def test_mutation_without_test(self):
        self.assert_refused('has no tests', entry(tests=[]))

    def test_test_without_patch(self):
        self.assert_refused('has no patches', entry(patches=[]))

    def test_unknown_fields(self):
        self.assert_refused('has a field `note`', entry(note=''))
        self.assert_refused('has a field `filers`', entry(tests=gate(filers='')))
        self.assert_refused('has a field `fiend`', entry(patches=patch(fiend='')))

    def test_name_twice(self):
        self.assert_refused('is in the table twice', entry(), entry())

    def test_patches_twice(self):
        self.assert_refused('has the patches of gate_key', entry(), entry(mutation='another'))

    def test_test_twice(self):
        self.assert_refused('twice', entry(tests=gate() + gate()))

    def test_all_of(self):
        other = entry(mutation='zero', patches=patch(find='if (key == 0) return false;', put=''))
        both = entry(mutation='both', patches=None, all_of=['gate_key', 'zero'])
        self.assertEqual(self.problems(entry(), other, both), [])
        mutations, _ = parse([both, other, entry()])
        self.assertEqual([len(mutation.patches) for mutation in mutations], [2, 1, 1])
        self.assert_refused('zero is no mutation with patches', entry(), both)


class Tests(TableTest):
    def test_unknown_program(self):
        self.assert_refused('tests/door is no program', entry(tests=gate(program='tests/door')))
        self.assert_refused('tests/door is no program',
                            entry(tests=gate(run_by='tests/door', variable='GATE')))

    def test_filters(self):
        for text in ('Gate.RefusesOtherKeys', 'Gate.*', '*Other*', 'GateTest.Counts:Gate.*',
                     'All/EachGate.Opens/*', 'All/EachGate.Opens/1', '*Opens/0', 'All/*',
                     'Gate*-GateTest.*'):
            check_filter(text, [TESTS])
        for text in ('Gate.RefusesOtherKey', 'Gates.*', 'Gate.*:Door.*', 'Some/EachGate.Opens/*',
                     'All/Gate.Counts', 'Gate.Opens'):
            with self.assertRaises(Problem, msg=text):
                check_filter(text, [TESTS])

    def test_filter_of_who_runs_it(self):
        test = {'program': 'a', 'run_by': 'b', 'filter': 'GateTest.*', 'variable': 'GATE'}
        check_test(test, {'a': ['int main() {}'], 'b': [TESTS]}.get, self.root)
        with self.assertRaises(Problem):
            check_test(test, {'a': [TESTS], 'b': ['int main() {}']}.get, self.root)

    def test_scripts(self):
        def scripts(names):
            return entry(tests=[{'program': 'tests/gate', 'scripts': names}])
        self.assertEqual(self.problems(scripts('gate/key gate/k gate')), [])
        self.assert_refused('begins with gate/door', scripts('gate/key gate/door'))

    def test_python(self):
        def python(name, file='tests/test_gate.py'):
            return entry(tests=gate(python=file, filter=name, variable='GATE'))
        self.assertEqual(self.problems(python('Gates.test_key')), [])
        for wrong in (python('Gate.test_key'), python('Gates.test_ke'),
                      python('Gates.test_key', 'tests/test_door.py')):
            self.assert_refused('has no ', wrong)


if __name__ == '__main__':
    unittest.main()
