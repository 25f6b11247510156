#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A warning fails scripts/test, whoever compiled the object first, and fails no user's build."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'scripts'))

from testing import stages  # noqa: E402
from testing.compiler_warnings import warned_outputs  # noqa: E402

PRINTED = """\
ninja: Entering directory `build/gcc'
[1/4] Compiling C++ object stack/a.p/clock.cc.o
[2/4] Compiling C++ object stack/a.p/eal.cc.o
../../stack/eal.cc: In function 'int f(int)':
../../stack/eal.cc:3:5: warning: control reaches end of non-void function [-Wreturn-type]
    3 |   }
ninja: warning: bad deps log signature or version; starting over
[3/4] Linking static target stack/a.a
[4/4] Linking target apps/rh-perf
/usr/bin/ld: warning: x.o: missing .note.GNU-stack section implies executable stack
"""

# Stands for the compiler: what the source holds is what it prints.
NINJA = """\
rule compile
  command = cat $in && cp $in $out
  description = Compiling C++ object $out
build sub/one.o: compile one.cc
build sub/two.o: compile two.cc
"""
WARNS = 'two.cc:1:1: warning: unused\n'


class WarnedOutputs(unittest.TestCase):
    def test_names_what_was_made_when_the_compiler_or_the_linker_warned(self):
        found = warned_outputs(PRINTED)
        self.assertEqual(['stack/a.p/eal.cc.o', 'apps/rh-perf'], list(found))
        self.assertEqual(1, len(found['stack/a.p/eal.cc.o']))

    def test_nothing_in_a_clean_log(self):
        self.assertEqual({}, warned_outputs('[1/1] Linking target a\nninja: no work to do.\n'))


class Compile(unittest.TestCase):
    """compile_tree is what scripts/demo calls, compile_cleanly what scripts/test does."""

    def setUp(self):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.build = stages.Build('fake', ('cc', 'c++'))
        self.enterContext(mock.patch.multiple(stages, ROOT=root, BUILD=root / 'build', _warned={},
                                              _begun=set(),
                                              configure=lambda build, env: True))
        self.build.folder.mkdir(parents=True)
        (self.build.folder / 'build.ninja').write_text(NINJA)
        self.write('one.cc', 'clean\n')
        self.write('two.cc', 'clean\n')

    def enterContext(self, context):  # Python 3.11 brought unittest's own
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def write(self, name, text):
        (self.build.folder / name).write_text(text)
        # The times of files are too coarse for ninja to see each of these changes.
        (self.build.folder / 'sub' / name).with_suffix('.o').unlink(missing_ok=True)

    def run_quietly(self, compile_it):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            done = compile_it(self.build)
        self.printed = out.getvalue()
        return done

    def made(self):
        return {name: (self.build.folder / 'sub' / name).stat().st_ino for name in ('one.o', 'two.o')}

    def assert_clean(self):
        """Of a new run, as all that follow."""
        stages._begun.clear()
        self.assertTrue(self.run_quietly(stages.compile_cleanly))
        self.assertEqual({}, stages.warnings())

    def assert_warns(self):
        """The tests can be run, and there is one failure that shows the warning."""
        stages._begun.clear()
        self.assertTrue(self.run_quietly(stages.compile_cleanly))
        self.assertIn(WARNS.strip(), self.printed)
        counts = stages.warnings()['fake']
        self.assertEqual((0, 1), (counts.passed, counts.failed))
        self.assertIn(WARNS.strip(), counts.excerpts[0][1])
        stages._warned.clear()

    def test_clean(self):
        self.assert_clean()

    def test_a_warning_fails_until_it_is_gone(self):
        self.write('two.cc', WARNS)
        for _ in range(2):  # the second time too, though ninja thinks the object is up to date
            self.assert_warns()
        self.write('two.cc', 'clean\n')
        self.assert_clean()

    def test_a_users_build_succeeds_and_the_projects_finds_the_warning_later(self):
        self.write('two.cc', WARNS)
        self.assertTrue(self.run_quietly(stages.compile_tree))
        self.assertTrue(self.run_quietly(stages.compile_tree))
        self.assert_warns()

    def test_a_run_that_compiles_twice_keeps_what_it_made_and_the_warning(self):
        self.write('two.cc', WARNS)
        self.assertTrue(self.run_quietly(stages.compile_cleanly))
        made = self.made()
        self.assertTrue(self.run_quietly(stages.compile_cleanly))
        self.assertEqual(made, self.made())
        self.assertEqual(['fake'], list(stages.warnings()))

    def test_neither_makes_again_what_the_other_made(self):
        self.assertTrue(self.run_quietly(stages.compile_tree))
        made = self.made()
        self.assert_clean()
        self.assertTrue(self.run_quietly(stages.compile_tree))
        self.assertEqual(made, self.made())


if __name__ == '__main__':
    unittest.main()
