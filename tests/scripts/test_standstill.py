#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What stands still is seen, and only a test that failed meanwhile is run again."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from testing import standstill  # noqa: E402
from testing.standstill import ATTEMPTS, RepeatedTest, Standstill  # noqa: E402

LIMIT_S = 60
SPIN = 'import os; os.sched_setaffinity(0, {%d}); print(flush=True)\nwhile True: pass'
GIVE_WAY = 'import os; print(flush=True); os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n'


class Still:
    """In place of what watches: it says what the test wants."""
    longest_s = 1.0

    def __init__(self, pids):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Running(Still):
    longest_s = standstill.STANDSTILL_S / 2


class Attempts(unittest.TestCase):
    def result_of(self, watch, *fates):
        """Runs a test that meets one fate each time, under such a watch: its result, how often it
        was set up, and what was printed."""
        set_up = []

        class Sample(RepeatedTest):
            def setUp(self):
                set_up.append(fates[len(set_up)])

            def test_it(self):
                for part in range(2):
                    with self.subTest(part=part):
                        self.assertEqual((part, set_up[-1]), (part, 'passes'))

        result, out = unittest.TestResult(), io.StringIO()
        with mock.patch.object(standstill, 'Standstill', watch), contextlib.redirect_stdout(out):
            Sample('test_it').run(result)
        self.assertEqual(result.testsRun, 1)
        return result, len(set_up), out.getvalue()

    def test_what_failed_on_a_machine_that_ran_has_failed(self):
        result, times, said = self.result_of(Running, 'fails', 'passes')
        self.assertEqual((len(result.failures), times, said), (2, 1, ''))

    def test_what_failed_while_it_stood_still_is_repeated(self):
        result, times, said = self.result_of(Still, 'fails', 'passes')
        self.assertTrue(result.wasSuccessful())
        self.assertEqual(times, 2)
        self.assertRegex(said, r'^again .*Sample\.test_it: .* 1000 ms\n$')

    def test_but_not_for_ever(self):
        result, times, _ = self.result_of(Still, *['fails'] * (ATTEMPTS + 1))
        self.assertEqual((len(result.failures), times), (2, ATTEMPTS))

    def test_what_passed_has_passed(self):
        result, times, said = self.result_of(Still, 'passes')
        self.assertEqual((result.wasSuccessful(), times, said), (True, 1, ''))

    def test_skips_are_told(self):
        class Sample(RepeatedTest):
            def test_it(self):
                self.skipTest('no such machine')

        result = unittest.TestResult()
        Sample('test_it').run(result)
        self.assertEqual([reason for _, reason in result.skipped], ['no such machine'])


class Watching(unittest.TestCase):
    def watch_until(self, seen, pids=tuple):
        """Watches until `seen(watch)`."""
        with Standstill(pids) as watch:
            end = time.monotonic() + LIMIT_S
            while not seen(watch) and time.monotonic() < end:
                time.sleep(0.02)
        self.assertTrue(seen(watch), watch.longest_s)

    def test_a_process_that_may_not_run(self):
        """Of two that want the same processor the one with the lowest priority waits."""
        cpu = max(os.sched_getaffinity(0))
        spinning = [subprocess.Popen([sys.executable, '-c', before + SPIN % cpu],
                                     stdout=subprocess.PIPE)
                    for before in (GIVE_WAY, '')]
        try:
            for child in spinning:
                child.stdout.readline()
            with mock.patch.object(Standstill, '_sleep', lambda *_: None):
                self.watch_until(lambda watch: watch.longest_s > 0, lambda: [spinning[0].pid])
        finally:
            for child in spinning:
                child.kill()
                child.wait()
                child.stdout.close()

    def test_a_processor_that_comes_late(self):
        class Late(threading.Event):
            def wait(self, timeout=None):
                if timeout is not None:
                    time.sleep(timeout + 0.2)
                return super().wait(timeout)

        with mock.patch.object(standstill.threading, 'Event', Late):
            self.watch_until(lambda watch: watch.longest_s >= 0.2)

    def test_a_process_that_has_ended(self):
        child = subprocess.Popen(['true'])
        child.wait()
        self.assertEqual(standstill.waiting_s(child.pid), 0)


if __name__ == '__main__':
    unittest.main()
