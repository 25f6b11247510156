# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Counts individual test cases in what `meson test` recorded.

One meson test is a GoogleTest program or a Python unittest run with many cases, or a program whose
exit status is the one result (77 means skipped).
"""

import dataclasses
import json
import re

GTEST_PASSED = re.compile(r'^\[  PASSED  \] (\d+) tests?\.', re.MULTILINE)
GTEST_FAILED = re.compile(r'^\[  FAILED  \] (\d+) tests?, listed below', re.MULTILINE)
GTEST_SKIPPED = re.compile(r'^\[  SKIPPED \] (\d+) tests?, listed below', re.MULTILINE)
GTEST_OK_CASE = re.compile(r'^\[       OK \] ', re.MULTILINE)
GTEST_FAILED_CASE = re.compile(r'^\[  FAILED  \] ([\w./]+)(?:,| \(|$)', re.MULTILINE)
GTEST_SKIPPED_CASE = re.compile(
    r'^\[ RUN      \] (\S+)\n(?:(?!\[ RUN).*\n)*?.*: Skipped\n(.*)\n', re.MULTILINE)
UNITTEST_RAN = re.compile(r'^Ran (\d+) tests? in ', re.MULTILINE)
UNITTEST_END = re.compile(r'^(?:OK|FAILED)(?: \((.*)\))?$', re.MULTILINE)
UNITTEST_FAILED_CASE = re.compile(r'^(?:FAIL|ERROR): (.*)$', re.MULTILINE)
UNITTEST_SKIPPED_CASE = re.compile(r"^(\S+) .*\.\.\. skipped ['\"](.*)['\"]$", re.MULTILINE)
PLAIN_END = re.compile(r'^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$', re.MULTILINE)
PLAIN_FAILED_CASE = re.compile(r'^failed (\S+)$', re.MULTILINE)
# See testing/standstill.py and tests/conformance/run.py.
REPEATED = re.compile(r'^again (.+)$', re.MULTILINE)
# Where the output of a test that failed becomes worth reading.
FAILED_HERE = re.compile(r'^(?:failed |FAIL: |(?:mutation \S+ +)?FAILED: |ERROR: |.*: Failure$|'
                         r'.*ERROR: \w+Sanitizer|Traceback \(most recent)', re.MULTILINE)
EXCERPT_LINES = 80
EXCERPT_END_LINES = 40
EXCERPT_COLUMNS = 400  # a compiler's command is one line of thousands

SKIP_STATUS = 77


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)
    skips: list = dataclasses.field(default_factory=list)  # of (case, reason)
    excerpts: list = dataclasses.field(default_factory=list)  # of (test, what it printed)
    times: list = dataclasses.field(default_factory=list)  # of (seconds, test)
    repeats: list = dataclasses.field(default_factory=list)  # what was run again, and why

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.skips += other.skips
        self.excerpts += other.excerpts
        self.times += other.times
        self.repeats += other.repeats

    @property
    def total(self):
        return self.passed + self.failed + self.skipped

    def __str__(self):
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


def failure(name, output=''):
    """One failure; of what the failed program printed, the lines that tell why."""
    excerpts = [(name, excerpt(output))] if output.strip() else []
    return Counts(failed=1, failures=[name], excerpts=excerpts)


def count_gtest(output):
    passed = GTEST_PASSED.search(output)
    if passed is None and '[==========] Running' not in output:
        return None
    counts = Counts()
    if passed is None:  # it died on the way
        counts.passed = len(GTEST_OK_CASE.findall(output))
    else:
        counts.passed = int(passed.group(1))
        counts.failed = sum(map(int, GTEST_FAILED.findall(output)))
        counts.skipped = sum(map(int, GTEST_SKIPPED.findall(output)))
    counts.failures = sorted(set(GTEST_FAILED_CASE.findall(output)))
    counts.skips = GTEST_SKIPPED_CASE.findall(output)
    return counts


def count_unittest(output):
    ran = UNITTEST_RAN.findall(output)
    if not ran:
        return None
    counts = Counts(passed=sum(map(int, ran)))
    for end in UNITTEST_END.findall(output):
        for key, number in re.findall(r'(\w[\w ]*)=(\d+)', end):
            if key in ('failures', 'errors', 'unexpected successes'):
                counts.failed += int(number)
            elif key == 'skipped':
                counts.skipped += int(number)
    counts.passed = max(0, counts.passed - counts.failed - counts.skipped)
    counts.failures = UNITTEST_FAILED_CASE.findall(output)
    counts.skips = UNITTEST_SKIPPED_CASE.findall(output)
    return counts


def count_plain(output):
    ends = PLAIN_END.findall(output)
    if not ends:
        return None
    passed, failed, skipped = ends[-1]
    return Counts(int(passed), int(failed), int(skipped or 0), PLAIN_FAILED_CASE.findall(output))


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else 'no reason given'


def excerpt(output):
    """The lines that tell why a test failed: from its first complaint on, and its last ones."""
    complaint = FAILED_HERE.search(output)
    lines = output[complaint.start() if complaint else 0:].rstrip().splitlines()
    if not complaint:
        lines = lines[-EXCERPT_LINES:]
    if len(lines) > EXCERPT_LINES:
        begin = EXCERPT_LINES - EXCERPT_END_LINES - 1
        lines = [*lines[:begin], '...', *lines[-EXCERPT_END_LINES:]]
    return '\n'.join(line[:EXCERPT_COLUMNS] for line in lines)


def count_test(test):
    """The counts of one record of meson's testlog.json."""
    name = test['name']
    output = (test.get('stdout') or '') + '\n' + (test.get('stderr') or '')
    result = test['result']
    counts = count_gtest(output) or count_unittest(output) or count_plain(output)
    if result == 'SKIP' and (counts is None or counts.total == 0):
        return Counts(skipped=1, skips=[(name, last_line(output))])
    if counts is None:
        counts = Counts(passed=1) if result in ('OK', 'EXPECTEDFAIL') else Counts()
    if result not in ('OK', 'EXPECTEDFAIL', 'SKIP') and counts.failed == 0:
        counts.failed = 1  # a crash, a timeout, a sanitizer's report at the end
        counts.failures.append(f'{name} ({result.lower()})')
    if counts.failed:
        counts.excerpts.append((name, excerpt(output)))
    counts.repeats = [f'{short_name(test)}: {what}' for what in REPEATED.findall(output)]
    return counts


def count_log(path):
    """Counts of each suite in meson's testlog.json: {suite: Counts}."""
    suites = {}
    if not path.exists():
        return suites
    for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
        test = json.loads(line)
        counts = count_test(test)
        counts.times.append((test.get('duration') or 0, short_name(test)))
        suites.setdefault(suite_of(test), Counts()).add(counts)
    return suites


def short_name(test):
    """`rockhopper:unit / unit-roce`: what comes last."""
    return test['name'].rpartition(' / ')[2]


def suite_of(test):
    """`rockhopper:unit` or `rockhopper:unit / name`: the part between."""
    suites = test.get('suite') or []
    if isinstance(suites, str):
        suites = [suites]
    label = suites[0] if suites else test['name'].partition(' / ')[0]
    # A test of several suites counts for the first one.
    return (label.partition(':')[2] or label).partition('+')[0]
