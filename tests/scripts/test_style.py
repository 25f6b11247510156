#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The rules of style that scripts/lint has beside clang-format."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'scripts'))

from style import braces, patches, rules, spelling  # noqa: E402 (needs the path above)


def words(text):
    return ' '.join(text.split())


class Braces(unittest.TestCase):
    def assert_mended(self, text, wanted):
        """And left alone afterwards."""
        found = braces.edits(text).applied()
        self.assertEqual(words(found), words(wanted))

    def assert_kept(self, *texts):
        for text in texts:
            with self.subTest(text):
                self.assertEqual(braces.edits(text).applied(), text)

    def test_kept(self):
        self.assert_kept(
            'if (x) return y;\n',
            '  if (f(a, b)) ++c;\n',
            'if constexpr (x) return;\n',
            'for (;;) {\n  a();\n}\n',
            'if (x) {\n  a();\n  b();\n}\n',
            'if (x) {\n  a();\n} else if (y) {\n  b();\n} else {\n  c();\n}\n',
            'do {\n  a();\n} while (b);\n',
            'while (x) {\n}\n',
            'while (f());\n',
            '#define X(a) \\\n  for (;;) a;\n',
            '// if (x) { return; }\n"if (x) { return; }";\nR"(for (;;) a;)";\n')

    def test_taken_out(self):
        self.assert_mended('if (x) {\n  return y;\n}\na();\n', 'if (x) return y;\na();\n')
        self.assert_mended('for (a : b) {\n  if (x) {\n    continue;\n  }\n}\n',
                           'for (a : b) {\n  if (x) continue;\n}\n')
        self.assert_mended('f([&] {\n  if (x) {\n    y = "}";\n  }\n});\n',
                           'f([&] {\n  if (x) y = "}";\n});\n')

    def test_not_taken_out(self):
        long_name = 'a' * 90
        self.assert_kept(
            f'if (x) {{\n  return {long_name};\n}}\n',
            'if (x) {\n  EXPECT_EQ(a, b) << "why";\n}\n',
            'if (x) {\n  return y;  // why\n}\n',
            'if (x) {  // why\n  return y;\n}\n',
            'if (x) [[unlikely]] {\n  return y;\n}\n',
            'if (x) {\n  const std::lock_guard lock(mutex);\n}\n',
            'if (x) {\n  Guard guard(mutex);\n}\n',
            'if (x) {\n  for (a : b) {\n    c();\n  }\n}\n',
            'if (x) {\n  f([] { a(); });\n}\n',
            'if (x) {\n  ROCKHOPPER_TRY(a, b(c, d));\n}\n',
            'if (x) {\n  #if Y\n  return y;\n  #endif\n}\n')
        self.assert_mended('if (x) {\n  ROCKHOPPER_TRY(b(c, d));\n}\n', 'if (x) ROCKHOPPER_TRY(b(c, d));\n')

    def test_put_in(self):
        self.assert_mended('if (x) ASSERT_TRUE(f());\n', 'if (x) {\n  ASSERT_TRUE(f());\n}\n')
        self.assert_mended('for (a : b) c();\n', 'for (a : b) {\nc();\n}\n')
        self.assert_mended('while (x) y();  // why\nz();\n', 'while (x) {\ny();  // why\n}\nz();\n')
        self.assert_mended('if (x) a(); else b();\n', 'if (x) {\na();\n} else {\nb();\n}\n')
        self.assert_mended('if (x) a(); else if (y) b();\n',
                           'if (x) {\na();\n} else if (y) {\nb();\n}\n')
        self.assert_mended('do a(); while (x);\n', 'do {\na();\n} while (x);\n')
        self.assert_mended('if (x)\n  for (a : b) c();\n', 'if (x) {\nfor (a : b) {\nc();\n}\n}\n')
        self.assert_mended('if (x) [[likely]]\n  return;\n', 'if (x) [[likely]] {\nreturn;\n}\n')
        long_name = 'a' * 90
        self.assert_mended(f'if (x)\n  return {long_name};\n', f'if (x) {{\nreturn {long_name};\n}}\n')

    def test_lines(self):
        self.assertEqual(braces.edits('a;\nfor (;;) b();\n').lines, [2])


class Spelling(unittest.TestCase):
    def test_constants(self):
        self.assertEqual(spelling.constants('kTimeout_ns = kOf_a_b + timeout_ns + kGood + mark_ns;'),
                         'kTimeoutNs = kOfAB + timeout_ns + kGood + mark_ns;')

    def test_casts(self):
        for wrong, right in (('static_cast<void>(f(x));', '(void)f(x);'),
                             ('static_cast<void>(a.b->c(d)(e));', '(void)(a.b->c(d)(e));'),
                             ('static_cast<void>(a.b(c).d);', '(void)a.b(c).d;'),
                             ('static_cast<void>(a = b);', '(void)(a = b);'),
                             ('static_cast<void>(x);', '(void)x;'),
                             ('// static_cast<void>(x)', '// static_cast<void>(x)')):
            with self.subTest(wrong):
                self.assertEqual(spelling.casts(wrong), right)

    def test_zeroed(self):
        self.assertEqual(spelling.zeroed(
            'struct stat a {};\nstruct stat b{};\nstruct C {};\nstruct D final {};\n'),
            'struct stat a = {};\nstruct stat b = {};\nstruct C {};\nstruct D final {};\n')

    def test_violations(self):
        self.assertEqual(list(rules.violations(
            'a;\nint kA_ns;\nstatic_cast<void>(b);\nstruct d e {};\n')),
            [(2, 'kA_ns'), (3, 'static_cast<void>'), (4, 'struct d e = {};')])


class Patches(unittest.TestCase):
    OLD = 'f() {\n  if (x) {\n    return 1;\n  }\n  kA_ns;\n  b();\n  b();\n}\n'

    @staticmethod
    def mend(_, text):
        return rules.mended(text)

    def carried(self, find, put):
        entry = {'file': 'a.cc', 'find': find, 'put': put}
        table = '[\n  {\n    "patches": [\n      ' + json.dumps(entry) + '\n    ]\n  }\n]\n'
        [mutation] = json.loads(patches.carried(table, {'a.cc': self.OLD}, self.mend))
        [patch] = mutation['patches']
        mended = self.mend('', self.OLD)
        # What the patch makes of the mended text is what mending makes of the patched one.
        self.assertEqual(patches.applied(patch, mended).split(),
                         self.mend('', patches.applied(entry, self.OLD)).split())
        return patch

    def test_lines_that_change(self):
        patch = self.carried('if (x) {', 'if (true) {')
        self.assertEqual((patch['find'], patch['put']), ('if (x) return 1;', 'if (true) return 1;'))
        self.assertEqual(self.carried('kA_ns;', '')['find'], 'kANs;')
        self.assertEqual(self.carried(['if (x) {', 'return 1;', '}'], '')['put'], '')

    def test_lines_that_stay(self):
        self.assertEqual(self.carried(['b();', 'b();'], 'c();'),
                         {'file': 'a.cc', 'find': ['b();', 'b();'], 'put': 'c();'})

    def test_difference_is_in_one_place(self):
        self.assertEqual(patches.difference('a\nb\na\n', 'a\nb\nc\n'), (['a', ''], ['c', '']))
        self.assertEqual(patches.difference('a\nb\n', 'a\nx\nb\n'), (['b'], ['x', 'b']))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
