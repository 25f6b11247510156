#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The counting behind `N passed, N failed, N skipped`: nothing that failed may go uncounted."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'scripts'))

from testing.results import (EXCERPT_COLUMNS, EXCERPT_LINES, Counts, count_log,  # noqa: E402
                             count_test, excerpt, failure, suite_of)
from testing.run import report  # noqa: E402

GTEST = """\
[==========] Running 3 tests from 1 test suite.
[ RUN      ] Psn.Wraps
[       OK ] Psn.Wraps (0 ms)
[ RUN      ] Psn.NeedsRoot
psn_test.cc:12: Skipped
not root
[  SKIPPED ] Psn.NeedsRoot (0 ms)
[ RUN      ] Psn.Orders
psn_test.cc:20: Failure
[  FAILED  ] Psn.Orders (1 ms)
[==========] 3 tests from 1 test suite ran. (1 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Psn.NeedsRoot
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Psn.Orders

 1 FAILED TEST
"""

GTEST_DIED = """\
[==========] Running 3 tests from 1 test suite.
[ RUN      ] Psn.Wraps
[       OK ] Psn.Wraps (0 ms)
[ RUN      ] Psn.Orders
"""

UNITTEST = """\
test_a (t.T.test_a) ... ok
test_b (t.T.test_b) ... skipped 'no tshark'
test_c (t.T.test_c) ... FAIL

======================================================================
FAIL: test_c (t.T.test_c)
----------------------------------------------------------------------
Ran 3 tests in 0.001s

FAILED (failures=1, skipped=1)
"""


def record(result, stdout='', stderr=''):
    return {'name': 'rockhopper:unit / psn', 'result': result, 'stdout': stdout, 'stderr': stderr}


def numbers(counts):
    return counts.passed, counts.failed, counts.skipped


class Counting(unittest.TestCase):
    def test_gtest(self):
        counts = count_test(record('FAIL', GTEST))
        self.assertEqual(numbers(counts), (1, 1, 1))
        self.assertEqual(counts.failures, ['Psn.Orders'])
        self.assertEqual(counts.skips, [('Psn.NeedsRoot', 'not root')])

    def test_gtest_that_died_is_a_failure(self):
        self.assertEqual(numbers(count_test(record('FAIL', GTEST_DIED))), (1, 1, 0))
        self.assertEqual(numbers(count_test(record('TIMEOUT', GTEST_DIED))), (1, 1, 0))

    def test_leak_report_after_all_passed_is_a_failure(self):
        passed = '[==========] Running 2 tests\n[  PASSED  ] 2 tests.\n'
        self.assertEqual(numbers(count_test(record('OK', passed))), (2, 0, 0))
        self.assertEqual(numbers(count_test(record('FAIL', passed))), (2, 1, 0))

    def test_unittest(self):
        counts = count_test(record('FAIL', stderr=UNITTEST))
        self.assertEqual(numbers(counts), (1, 1, 1))
        self.assertEqual(counts.skips, [('test_b', 'no tshark')])

    def test_exit_status_alone(self):
        self.assertEqual(numbers(count_test(record('OK'))), (1, 0, 0))
        self.assertEqual(numbers(count_test(record('FAIL'))), (0, 1, 0))
        self.assertEqual(numbers(count_test(record('ERROR'))), (0, 1, 0))

    def test_skipped_program_gives_its_reason(self):
        counts = count_test(record('SKIP', stderr='interop: no QEMU here\n'))
        self.assertEqual(numbers(counts), (0, 0, 1))
        self.assertEqual(counts.skips, [('rockhopper:unit / psn', 'interop: no QEMU here')])

    def test_plain_line(self):
        self.assertEqual(numbers(count_test(record('OK', '7 passed, 0 failed\n'))), (7, 0, 0))
        self.assertEqual(numbers(count_test(record('FAIL', '7 passed, 2 failed, 1 skipped\n'))),
                         (7, 2, 1))

    def test_plain_failures_have_names(self):
        output = 'failed uc/late\nuc/late.pkt:4: no packet came\npassed uc/next\n1 passed, 1 failed\n'
        counts = count_test(record('FAIL', output))
        self.assertEqual(counts.failures, ['uc/late'])
        ((name, text),) = counts.excerpts
        self.assertEqual(name, 'rockhopper:unit / psn')
        self.assertTrue(text.startswith('failed uc/late\nuc/late.pkt:4: no packet came'))

    def test_excerpt_begins_at_the_first_complaint(self):
        ((_, text),) = count_test(record('FAIL', 'much\n' * 100 + GTEST)).excerpts
        self.assertTrue(text.startswith('psn_test.cc:20: Failure'))

    def test_excerpt_without_a_complaint_is_the_end(self):
        ((_, text),) = count_test(record('TIMEOUT', 'early\n' * 100 + 'last\n')).excerpts
        self.assertTrue(text.endswith('\nlast'))
        self.assertEqual(len(text.splitlines()), EXCERPT_LINES)
        self.assertEqual(count_test(record('OK', '2 passed, 0 failed')).excerpts, [])

    def test_closing_line(self):
        total = Counts()
        total.add(Counts(passed=2, skipped=1))
        total.add(Counts(failed=1))
        self.assertEqual(str(total), '2 passed, 1 failed, 1 skipped')

    def test_what_was_run_again(self):
        counts = count_test(record('OK', 'again a.T.test_b: it failed\n', UNITTEST))
        self.assertEqual(counts.repeats, ['psn: a.T.test_b: it failed'])
        total = Counts()
        total.add(counts)
        self.assertEqual(total.repeats, counts.repeats)

    def test_times(self):
        with tempfile.TemporaryDirectory(prefix='rockhopper-') as folder:
            log = pathlib.Path(folder, 'testlog.json')
            log.write_text('\n'.join(
                json.dumps({**record('OK'), 'name': f'rockhopper:unit / t{n}', 'duration': n})
                for n in range(2)))
            self.assertEqual(count_log(log)['unit'].times, [(0, 't0'), (1, 't1')])

    def test_suite(self):
        self.assertEqual(suite_of(record('OK')), 'unit')


class WhatFailedTestsPrinted(unittest.TestCase):
    """Whatever failed, its own words are there, and not more of them than can be read."""

    def test_a_build(self):
        """Ninja's other jobs go on after the failure; a compiler's command is very long."""
        text = excerpt('[1/9] Compiling\n' * 100 + '[2/9] Compiling\nFAILED: a.cc.o \n' +
                       'c++ ' + 'x' * 5000 + "\na.cc:7: error: no ';'\n" +
                       '[3/9] Compiling\n' * EXCERPT_LINES +
                       'ninja: build stopped: subcommand failed.\n')
        lines = text.splitlines()
        self.assertEqual(lines[0], 'FAILED: a.cc.o ')
        self.assertEqual(len(lines[1]), EXCERPT_COLUMNS)
        self.assertEqual(lines[2], "a.cc:7: error: no ';'")
        self.assertEqual(lines[-1], 'ninja: build stopped: subcommand failed.')
        self.assertEqual(len(lines), EXCERPT_LINES)

    def test_a_crash_behind_a_failure(self):
        """Both the first complaint and the last words."""
        text = excerpt(GTEST_DIED + 'psn_test.cc:20: Failure\n' + 'much\n' * 100 + 'PANIC\n')
        self.assertTrue(text.startswith('psn_test.cc:20: Failure\n'))
        self.assertTrue(text.endswith('\nmuch\nPANIC'))

    def test_kinds(self):
        for kind, output, first in (
                ('mutation', 'mutation a    noticed by A\nmutation b    FAILED: B passes without b\n'
                 '1 passed, 1 failed', 'mutation b    FAILED: B passes without b'),
                ('python', 'test_a ... ok\ntest_c ... FAIL\n\n=====\nFAIL: test_c\n', 'FAIL: test_c'),
                ('script', 'begin\nTraceback (most recent call last):\nOSError: no',
                 'Traceback (most recent call last):'),
                ('sanitizer', 'x\n==7==ERROR: AddressSanitizer: heap-use-after-free\n',
                 '==7==ERROR: AddressSanitizer: heap-use-after-free'),
                ('timeout', '[ RUN      ] Psn.Orders\n', '[ RUN      ] Psn.Orders')):
            with self.subTest(kind):
                self.assertEqual(excerpt(output).splitlines()[0], first)

    def test_of_a_program_that_is_no_meson_test(self):
        self.assertEqual(failure('install', 'all\nthat\n').excerpts, [('install', 'all\nthat')])
        self.assertEqual(failure('install').excerpts, [])

    def test_report(self):
        total = failure('unit: Psn', 'the reason')
        total.repeats = ['psn: test_b: it failed']
        total.times = [(seconds, f'main: t{seconds}') for seconds in range(7)]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            report(total, [('main', 'unit', total)])
        said = out.getvalue().splitlines()
        self.assertIn('FAILED: unit: Psn', said)
        self.assertIn('run again: psn: test_b: it failed', said)
        self.assertEqual(said[said.index('-- unit: Psn printed:') + 1], 'the reason')
        self.assertEqual(said[-1], 'took longest: main: t6 6 s, main: t5 5 s, main: t4 4 s, '
                                   'main: t3 3 s, main: t2 2 s')


if __name__ == '__main__':
    unittest.main(verbosity=2)
