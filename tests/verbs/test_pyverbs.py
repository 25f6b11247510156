#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rdma-core's own tests of verbs, as Debian ships them with python3-pyverbs, unmodified, under rh-run
and as an ordinary user. pyverbs_skips.toml says which of them are not executed, and why."""

import fnmatch
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import unittest

from verbs_support import (
    AS_ORDINARY, ENGINE, FOLDER, RH_RUN, SANITIZER, SOAK, clean_environment, instrumented, own_folder)

HERE = pathlib.Path(__file__).resolve().parent
SUITE = pathlib.Path('/usr/share/doc/rdma-core/tests')
TABLE = tomllib.loads((HERE / 'pyverbs_skips.toml').read_text(encoding='utf-8'))
LIMIT_S = 900
# ThreadSanitizer looks at those that move packets in the most ways; each test takes it seconds.
SUBSET = SANITIZER is not None and 'tsan' in SANITIZER and not SOAK
ONLY = ('tests.test_cq_events.*', 'tests.test_cqex.*', 'tests.test_parent_domain.*',
        'tests.test_qpex.*', 'tests.test_shared_pd.*') if SUBSET else ('*',)


def entry_of(test):
    """The table's entry for a test; None: it has to pass."""
    return next((entry for entry in TABLE['entry']
                 if any(fnmatch.fnmatchcase(test, pattern) for pattern in entry['tests'])), None)


def complaint(test, outcome, text):
    """What is wrong with an outcome; None: nothing."""
    entry = entry_of(test)
    kind = entry['kind'] if entry else 'passes'
    if outcome == 'failed':
        return f'failed:\n{text}'
    if outcome == 'begins':
        return 'did not end'
    if outcome == 'passed':
        return f'passed, but is in the table: {entry["why"]}' if kind == 'skips' else None
    if outcome == 'skipped':
        if kind not in ('skips', 'may skip'):
            return f'skipped, which the table does not know: {text}'
        if not re.search(entry['says'], text):
            return f'skipped for another reason than the table has: {text}'
    return None


def count_of(version):
    """How many tests that version of the package has; a known one says exactly."""
    known = next((count for prefix, count in TABLE['count'].items() if version.startswith(prefix)),
                 None)
    return known, min(TABLE['count'].values())


class Table(unittest.TestCase):
    """The judge itself."""

    def test_outcomes(self):
        for test, outcome, text, good in (
                ('tests.test_qp.QPTest.test_create_rc_qp', 'passed', '', True),
                ('tests.test_qp.QPTest.test_create_rc_qp', 'begins', '', False),
                ('tests.test_qp.QPTest.test_create_rc_qp', 'failed', 'why', False),
                ('tests.test_qp.QPTest.test_create_rc_qp', 'skipped', 'not supported', False),
                ('tests.test_efadv.EfaCQTest.test_x', 'skipped', 'over non EFA device', True),
                ('tests.test_efadv.EfaCQTest.test_x', 'skipped', 'No IB devices found', False),
                ('tests.test_efadv.EfaCQTest.test_x', 'passed', '', False),
                ('tests.test_odp.OdpTestCase.test_odp_rc_huge_traffic', 'passed', '', True),
                ('tests.test_device.DMTest.test_multi_process_alloc_dm', 'left out', '', True)):
            with self.subTest(test=test, outcome=outcome):
                self.assertEqual(complaint(test, outcome, text) is None, good)


class Pyverbs(unittest.TestCase):
    def setUp(self):
        if not ENGINE.exists():
            self.skipTest('there is no engine library')
        if not (SUITE / 'run_tests.py').exists():
            self.skipTest('python3-pyverbs is not installed')
        if shutil.which('ip') is None:
            self.skipTest('iproute2 is not installed')
        # The build folder may be closed to others: what is needed of it is copied.
        self.prefix = AS_ORDINARY if os.geteuid() == 0 else ()
        if self.prefix and shutil.which('setpriv') is None:
            self.skipTest('setpriv of util-linux is not installed')
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)

    def unpack(self):
        """Debian compresses what is long in /usr/share/doc."""
        tests = self.folder / 'tests'
        tests.mkdir()
        for path in SUITE.iterdir():
            if path.suffix == '.gz':
                (tests / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
            elif path.is_file():
                shutil.copyfile(path, tests / path.name)

    def programs(self):
        """rh-run where the ordinary user finds it: the build folder may be in another's home."""
        programs = self.folder / 'bin'
        (programs / 'verbs').mkdir(parents=True)
        shutil.copy(RH_RUN, programs)
        for path in FOLDER.glob('*.so*'):
            if path.is_file():
                shutil.copy(path, programs / 'verbs')
        return programs / 'rh-run'

    def run_suite(self):
        """The exit status, {test: (outcome, text)} and all that was printed."""
        self.unpack()
        shutil.copy(HERE / 'pyverbs_runner.py', self.folder)
        work = own_folder(self.folder / 'work', self.prefix)
        # In shared memory: frames do not go to a disk.
        segment = own_folder(pathlib.Path('/dev/shm') / self.folder.name, self.prefix)
        self.addCleanup(shutil.rmtree, segment, ignore_errors=True)
        left_out = [pattern for entry in TABLE['entry'] if entry['kind'] == 'left out'
                    for pattern in entry['tests']]
        results, log = work / 'results', self.folder / 'log'
        environment = clean_environment(
            HOME=str(work), XDG_RUNTIME_DIR=str(work), ROCKHOPPER_SEGMENT=str(segment),
            PYTHONDONTWRITEBYTECODE='1', ASAN_OPTIONS='detect_leaks=0')  # Python frees little at its end
        command = [*self.prefix, self.programs(), '--',
                   *instrumented('/usr/bin/python3', self.folder / 'pyverbs_runner.py', self.folder,
                                 results, '--only', *ONLY, '--without', *left_out)]
        with open(log, 'wb') as output, subprocess.Popen(
                [str(part) for part in command], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True) as process:
            try:
                status = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                status = f'none after {LIMIT_S} s'
            finally:
                # Also what tests have started and left.
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        outcomes, began_s, slow = {}, 0, []
        for line in results.read_text(encoding='utf-8').splitlines() if results.exists() else ():
            outcome = json.loads(line)
            outcomes[outcome['test']] = (outcome['outcome'], outcome['text'])
            if outcome['outcome'] in ('begins', 'left out'):
                began_s = outcome['time_s']
            else:
                slow.append((round(outcome['time_s'] - began_s, 1), outcome['test']))
        for took_s, test in sorted(slow)[:-6:-1]:
            print(f'{took_s} s {test}', file=sys.stderr)
        return status, outcomes, log.read_text(encoding='utf-8', errors='replace')

    def test_suite(self):
        status, outcomes, log = self.run_suite()
        complaints = {test: complaint(test, *outcome) for test, outcome in outcomes.items()}
        wrong = [f'{test} {text}' for test, text in complaints.items() if text is not None]
        for text in wrong:
            print(text, file=sys.stderr)
        version = subprocess.run(['dpkg-query', '-W', '-f', '${Version}', 'python3-pyverbs'],
                                 capture_output=True, text=True, check=False, timeout=60).stdout
        known, least = count_of(version)
        counts = {name: sum(outcome == name for outcome, _ in outcomes.values())
                  for name in ('passed', 'skipped', 'left out', 'failed')}
        print(f'python3-pyverbs {version}: {counts}', file=sys.stderr)
        self.assertEqual(status, 0, log[-4000:])
        self.assertEqual(wrong, [], f'{len(wrong)} of {len(outcomes)}\n{log[-2000:]}')
        if known is not None:
            self.assertEqual(len(outcomes), known)
        self.assertGreaterEqual(len(outcomes), least)
        self.assertGreaterEqual(counts['passed'],
                                TABLE['least_passed_of_subset' if SUBSET else 'least_passed'])


if __name__ == '__main__':
    unittest.main(verbosity=2)
