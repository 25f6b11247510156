#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""How scripts/test runs its stages: what beside what, with which priority, and that nothing that did
not run is forgotten."""

import contextlib
import contextvars
import dataclasses
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from testing import processes, run, stages  # noqa: E402
from testing.processes import INTERRUPTED  # noqa: E402
from testing.results import Counts, failure  # noqa: E402
from testing.stages import Stage  # noqa: E402

LIMIT_S = 60
AUTOGROUP = pathlib.Path('/proc/self/autogroup')
NICE = max(os.nice(0), stages.NICE)  # in the background
# Two lanes, each with a program that opens the pipe LANE in the folder that is the argument.
TWO_LANES = f"""\
import pathlib, sys
sys.path.insert(0, {str(ROOT / 'scripts')!r})
from testing import run, stages
from testing.processes import interruptible
folder = pathlib.Path(sys.argv[1])
def part(lane):
    def wait():
        stages.run(['sh', '-c', f'exec sleep 4848 >{{folder}}/{{lane}}'], folder / f'{{lane}}.log')
        print('went on', flush=True)
        stages.run(['true'], folder / 'next.log')
        print('started more', flush=True)
    return wait
run.build_gcc = run.build_gcc_programs = lambda: {{}}
stage = stages.Stage('', part('clock'), part('rest'), True)
sys.exit(interruptible(lambda: run.Run({{'main': stage}}).all()))
"""


INTERRUPTED_ITSELF = """\
import pathlib, signal, sys, threading, time
sys.path.insert(0, {scripts!r})
from testing.processes import interruptible
def main():{main}
sys.exit(interruptible(main))
"""


def heed_interrupts():
    """In a new process: whoever runs this test may ignore ^C, which processes inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def printed(*command):
    """By a program that a stage starts."""
    with tempfile.TemporaryDirectory(prefix='rockhopper-') as folder:
        log = pathlib.Path(folder, 'log')
        assert stages.run(command, log) == 0
        return log.read_text()


def niceness():
    """Of a program that a stage starts."""
    return int(printed('nice'))


class Lanes(unittest.TestCase):
    def run_stages(self, chosen, gcc=lambda: {}, programs=lambda: {}):
        """The rows, with what was said left out. `gcc` and `programs` are in place of the builds."""
        made = run.Run(chosen)
        with mock.patch.multiple(run, build_gcc=gcc, build_gcc_programs=programs), \
             contextlib.redirect_stdout(io.StringIO()):
            made.all()
        return {(name, suite): (counts.passed, counts.failed) for name, suite, counts in made.rows()}

    def test_what_looks_at_the_clock_runs_beside_the_rest(self):
        meeting = threading.Barrier(2, timeout=LIMIT_S)
        found = {}

        def part(name):
            def here():
                meeting.wait()
                found[name] = niceness()
                return {name: Counts(passed=1)}
            return here

        rows = self.run_stages({'main': Stage('', part('clock'), None, True),
                                'asan': Stage('', None, part('rest'))})
        self.assertEqual(rows, {('main', 'clock'): (1, 0), ('asan', 'rest'): (1, 0)})
        own = os.nice(0)
        self.assertEqual(found, {'clock': own, 'rest': NICE})

    @unittest.skipUnless(AUTOGROUP.exists(), 'this kernel shares nothing out among sessions')
    def test_sessions_of_the_background_are_nice_too(self):
        """A test that meson starts has a session of its own, and so has a build."""
        for command in (['cat', AUTOGROUP],
                        ['setsid', '--wait', *processes.in_background(['cat', AUTOGROUP], NICE)]):
            found = contextvars.copy_context().run(stages.in_background, lambda: printed(*command))
            self.assertRegex(found, rf'nice {NICE}$')
            self.assertNotEqual(found, AUTOGROUP.read_text())

    def test_both_parts_of_a_stage_count(self):
        def part():
            return {'unit': Counts(passed=2, times=[(1, 'unit-wire')])}
        made = {'main': Stage('', part, part, True)}
        self.assertEqual(self.run_stages(made), {('main', 'unit'): (4, 0)})

    def test_a_warning_of_the_compiler_is_a_failure_beside_the_tests(self):
        made = {'main': Stage('', None, lambda: {'unit': Counts(passed=1)}, True)}
        with mock.patch.object(run, 'warnings', lambda: {'gcc': failure('it warned')}):
            self.assertEqual(self.run_stages(made), {('main', 'unit'): (1, 0),
                                                     ('compile', 'gcc'): (0, 1)})

    def test_the_rest_alone_has_the_whole_machine(self):
        found = []
        self.run_stages({'asan': Stage('', None, lambda: found.append(niceness()) or {}, True)})
        self.assertEqual(found, [os.nice(0)])

    def test_stages_that_need_no_build_come_first(self):
        order = []

        def part(name):
            return lambda: order.append(name) or {}

        self.run_stages({'format': Stage('', None, part('format')),
                         'main': Stage('', part('main'), None, True)})
        self.assertEqual(order, ['format', 'main'])

    def test_without_the_build_all_that_need_it_fail(self):
        def passes():
            return {'fuzz': Counts(passed=1)}
        rows = self.run_stages(
            {'main': Stage('', passes, passes, True), 'fuzz': Stage('', None, passes),
             'mutations': Stage('', None, passes, True)},
            gcc=lambda: {'build': failure('build')})
        self.assertEqual(rows, {('main', 'build'): (0, 1), ('fuzz', 'fuzz'): (1, 0),
                                ('mutations', 'build'): (0, 1)})

    def early_stages(self):
        """One that begins early and one that does not, with the order in which parts are run."""
        order = []

        def part(name):
            return lambda: order.append(name) or {name: Counts(passed=1)}

        return order, {'main': Stage('', part('clock'), part('rest'), True, begins_early=True),
                       'asan': Stage('', None, part('asan')),
                       'bench': Stage('', part('bench'), None, True)}

    def test_what_begins_early_runs_while_the_tree_is_built(self):
        order, chosen = self.early_stages()
        begun = threading.Event()
        found = []

        def clock():
            order.append('clock')
            begun.set()
            return {}

        def gcc():
            self.assertTrue(begun.wait(LIMIT_S))
            found.append(niceness())
            order.append('gcc')
            return {}

        chosen['main'] = dataclasses.replace(chosen['main'], real_time=clock)
        self.run_stages(chosen, gcc, lambda: order.append('programs') or {})
        self.assertEqual(order[:3], ['programs', 'clock', 'gcc'])
        self.assertEqual(sorted(order[3:]), ['asan', 'bench', 'rest'])
        self.assertEqual(found, [NICE])

    def test_without_the_rest_of_the_tree_all_that_need_it_fail(self):
        _, chosen = self.early_stages()
        rows = self.run_stages(chosen, lambda: {'build': failure('build')})
        self.assertEqual(rows, {('main', 'clock'): (1, 0), ('main', 'build'): (0, 1),
                                ('asan', 'asan'): (1, 0), ('bench', 'build'): (0, 1)})

    def test_without_the_programs_nothing_that_needs_the_tree_runs(self):
        _, chosen = self.early_stages()
        rows = self.run_stages(chosen, self.fail, lambda: {'build': failure('build')})
        self.assertEqual(rows, {('main', 'build'): (0, 1), ('asan', 'asan'): (1, 0),
                                ('bench', 'build'): (0, 1)})

    def test_a_build_that_breaks_ends_the_run(self):
        _, chosen = self.early_stages()

        def breaks():
            raise OSError('no space')

        with mock.patch.object(processes, 'end_all'), self.assertRaises(OSError):
            self.run_stages(chosen, breaks)

    def test_a_lane_that_breaks_ends_the_other(self):
        released = threading.Event()

        def breaks():
            raise OSError('no space')

        def waits():
            released.wait(LIMIT_S)
            return {}

        with mock.patch.object(processes, 'end_all', released.set), self.assertRaises(OSError):
            self.run_stages({'main': Stage('', breaks, waits, True)})
        self.assertTrue(released.is_set())


class Interrupted(unittest.TestCase):
    def test_both_lanes_end_and_nothing_starts(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name), tempfile.TemporaryDirectory(prefix='rockhopper-') as folder:
                pipes = [pathlib.Path(folder, lane) for lane in ('clock', 'rest')]
                for pipe in pipes:
                    os.mkfifo(pipe)
                with subprocess.Popen([sys.executable, '-c', TWO_LANES, folder], text=True,
                                      stdout=subprocess.PIPE, preexec_fn=heed_interrupts) as process:
                    # They are open while programs have them, and at their end when nobody has.
                    with pipes[0].open('rb') as first, pipes[1].open('rb') as second:
                        process.send_signal(number)
                        said = process.communicate(timeout=LIMIT_S)[0]
                        first.read()
                        second.read()
                self.assertEqual(process.returncode, INTERRUPTED, said)
                self.assertNotIn('started more', said)
                self.assertEqual(said.splitlines()[-1], 'interrupted')

    def run_interrupted(self, main):
        """The exit status and the output of interruptible(), called with the function that the
        lines `main` define."""
        done = subprocess.run([sys.executable, '-c', INTERRUPTED_ITSELF.format(
            scripts=str(ROOT / 'scripts'), main=main)], text=True, capture_output=True,
            timeout=LIMIT_S, preexec_fn=heed_interrupts)
        return done.returncode, done.stdout, done.stderr

    def test_a_signal_that_another_thread_got_ends_the_wait_of_the_main_thread(self):
        """So does, but at its own time, one that comes just before that wait begins."""
        self.assertEqual(self.run_interrupted("""
    def interrupt():
        asleep = 0
        while asleep < 20:  # in a row: it may wait for the interpreter, too
            state = pathlib.Path('/proc/self/stat').read_text().rpartition(')')[2].split()[0]
            asleep = asleep + 1 if state == 'S' else 0
            time.sleep(0.005)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Thread(target=interrupt, daemon=True).start()
    threading.Semaphore(0).acquire()"""), (INTERRUPTED, 'interrupted\n', ''))

    def test_an_error_that_became_of_it_is_no_error(self):
        self.assertEqual(self.run_interrupted("""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        raise RuntimeError('release unlocked lock')"""), (INTERRUPTED, 'interrupted\n', ''))

    def test_only_the_first_one_counts(self):
        self.assertEqual(self.run_interrupted("""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        print('cleaned up', flush=True)"""), (INTERRUPTED, 'cleaned up\ninterrupted\n', ''))

    def test_an_error_without_a_signal_remains_one(self):
        status, said, error = self.run_interrupted("""
    raise RuntimeError('of its own')""")
        self.assertEqual((status, said), (1, ''))
        self.assertIn('RuntimeError: of its own', error)

    def test_what_was_ignored_stays_ignored(self):
        done = subprocess.run(['nohup', sys.executable, '-c', INTERRUPTED_ITSELF.format(
            scripts=str(ROOT / 'scripts'), main="""
    signal.raise_signal(signal.SIGHUP)
    return 7""")], text=True, capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout), (7, ''))


class Folders(unittest.TestCase):
    def test_one_that_ninja_cannot_read_is_made_anew(self):
        """As after ^C while meson renewed build.ninja, which ninja then removes."""
        build = stages.Build('tried', ('gcc', 'g++'))
        with tempfile.TemporaryDirectory(prefix='rockhopper-') as folder, \
             mock.patch.multiple(stages, ROOT=pathlib.Path(folder),
                                 BUILD=pathlib.Path(folder), say=lambda _: None):
            configured = []

            def setup(command, *_, **__):
                configured.append(command[:2])
                build.folder.mkdir()
                (build.folder / 'build.ninja').touch()
                return 0

            with mock.patch.object(stages, 'run', setup):
                for interrupted in (False, False, True):
                    if interrupted:
                        (build.folder / 'build.ninja').unlink()
                    self.assertTrue(stages.configure(build, {}))
        self.assertEqual(configured, 2 * [['meson', 'setup']])


class Suites(unittest.TestCase):
    def commands(self, *parts):
        """What `meson test` is asked for; nothing is run, so every suite is missed."""
        found = []

        def note(command, *_, **__):
            found.append([str(word) for word in command])
            return 0

        # A folder of its own: the records of the run that this test is part of are not removed.
        with tempfile.TemporaryDirectory(prefix='rockhopper-') as folder, \
             mock.patch.multiple(stages, run=note, compile_cleanly=lambda *_, **__: True,
                                 introspect=lambda *_: [], BUILD=pathlib.Path(folder)):
            self.missed = [part() for part in parts]
        return found

    def test_each_test_is_in_one_part(self):
        def suites(command):
            return [(word, command[place + 1]) for place, word in enumerate(command)
                    if word.endswith('suite')]

        commands = self.commands(stages.main_real_time, stages.main_others)
        self.assertEqual([suites(command) for command in commands],
                         [[('--suite', 'interop')],
                          [('--suite', stages.REAL_TIME), ('--no-suite', 'interop')],
                          [('--no-suite', stages.REAL_TIME)]])
        # None overwrites another's records.
        self.assertEqual(len({command[command.index('--logbase') + 1] for command in commands}), 3)

    def test_a_suite_that_ran_nothing_is_a_failure(self):
        self.commands(stages.main_real_time, stages.main_others, stages.quick)
        for missed in self.missed:
            self.assertTrue(missed)
            self.assertTrue(all(counts.failed == 1 for counts in missed.values()), missed)
        self.assertLessEqual({'unit', 'wire', 'sim', 'conformance', 'layers'}, self.missed[2].keys())

    def test_more_patience_in_the_background(self):
        (alone,) = self.commands(stages.main_others)
        (beside,) = self.commands(lambda: stages.contextvars.copy_context().run(
            stages.in_background, stages.main_others))
        factors = [float(command[command.index('-t') + 1]) for command in (alone, beside)]
        self.assertEqual(factors[1] - factors[0], stages.BACKGROUND_PATIENCE)
        self.assertNotIn('--wrapper', alone)
        self.assertIn(str(processes.BACKGROUND), beside[beside.index('--wrapper') + 1])


class CommandLine(unittest.TestCase):
    def test_refused(self):
        for arguments, what in ((['--quick', 'asan'], '--quick has stages of its own'),
                                (['nosuch'], 'unknown stage nosuch')):
            with self.subTest(arguments):
                done = subprocess.run([ROOT / 'scripts/test', '--no-setup', *arguments], text=True,
                                      capture_output=True, timeout=LIMIT_S)
                self.assertEqual(done.returncode, 2)
                self.assertIn(what, done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
