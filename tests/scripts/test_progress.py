#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What scripts/demo and scripts/test show while they build, and what ^C leaves behind: a real ninja,
on a pipe and on a terminal."""

import contextlib
import io
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from testing import stages  # noqa: E402
from testing.processes import INTERRUPTED, run  # noqa: E402
from testing.progress import NINJA_STATUS, Progress, as_time  # noqa: E402

LIMIT_S = 60
# Builds, by the script's own functions, the folder that is its argument.
BUILDER = f"""\
import pathlib, sys
sys.path.insert(0, {str(ROOT / 'scripts')!r})
from testing import stages
from testing.processes import interruptible
stages.BUILD = pathlib.Path(sys.argv[1])
stages.ROOT = stages.BUILD.parent
stages.configure = lambda *_: True
sys.exit(interruptible(lambda: 0 if stages.compile_tree(stages.Build('tree', ('cc', 'c++'))) else 1))
"""


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def lines(self):
        """What can be read on it in the end."""
        screen, column = [''], 0
        for piece in re.findall(r'\r|\n|\x1b\[K|[^\r\n\x1b]+', self.getvalue()):
            if piece == '\n':
                screen.append('')
            if piece in '\r\n':
                column = 0
            elif piece == '\x1b[K':
                screen[-1] = screen[-1][:column]
            else:
                end = column + len(piece)
                screen[-1] = screen[-1][:column] + piece + screen[-1][end:]
                column = end
        return screen


class Times(unittest.TestCase):
    def test_as_time(self):
        for seconds, text in ((0, '0:00'), (59.9, '0:59'), (61, '1:01'), (3723, '1:02:03')):
            self.assertEqual(as_time(seconds), text)


class OnAPipe(unittest.TestCase):
    def setUp(self):
        self.out, self.clock = io.StringIO(), Clock()
        self.progress = Progress('building x', self.out, self.clock)

    def feed(self, *steps):
        for done, total in steps:
            self.clock.now += 1
            self.progress.read(f'[{done}/{total}] Compiling something')

    def lines(self):
        return self.out.getvalue().splitlines()

    def test_a_line_each_tenth(self):
        self.feed(*((done, 345) for done in range(1, 346)))
        self.assertEqual(len(self.lines()), 10)
        self.assertEqual(self.lines()[0], '  building x: 35 of 345, 0:35 so far, about 5:10 left')
        self.assertEqual(self.lines()[-1], '  building x: 345 of 345, 5:45 so far')
        self.assertNotIn('\r', self.out.getvalue())

    def test_several_tenths_at_once_are_one_line(self):
        self.feed((1, 3), (2, 3), (3, 3))
        self.assertEqual(len(self.lines()), 3)

    def test_other_lines_move_nothing(self):
        for line in ('ninja: no work to do.', 'warning: [1/2] is wrong', '[1/2', ''):
            self.progress.read(line)
        self.progress.tick()
        self.progress.close()
        self.assertEqual(self.lines(), [])

    def test_a_tree_that_is_configured_anew_begins_once_more(self):
        self.feed((1, 1), *((done, 20) for done in range(0, 21)))
        self.assertEqual(len(self.lines()), 11)

    def test_fewer_steps_than_announced(self):
        """Ninja leaves out what turns out to be up to date."""
        self.feed((1, 100), (2, 100), (3, 4), (4, 4))
        self.assertEqual(len(self.lines()), 2)


@mock.patch.dict(os.environ, {'TERM': 'xterm', 'COLUMNS': '60'})
class OnATerminal(unittest.TestCase):
    def setUp(self):
        self.out, self.clock = Terminal(), Clock()

    def test_one_line_that_moves_and_goes(self):
        progress = Progress('building x', self.out, self.clock)
        for done in range(1, 4):
            self.clock.now += 5
            progress.update(done, 4)
        self.assertEqual(self.out.lines(),
                         ['  building x: 3 of 4, 0:15 so far, about 0:05 left'])
        self.clock.now += 5
        progress.tick()
        self.assertIn('3 of 4, 0:20 so far', self.out.lines()[0])
        progress.close()
        self.assertEqual(self.out.lines(), [''])

    def test_never_wider_than_the_terminal(self):
        progress = Progress('building ' + 'x' * 100, self.out, self.clock)
        progress.update(1, 2)
        self.assertEqual(len(self.out.lines()[0]), 59)

    def test_a_terminal_that_cannot_is_a_pipe(self):
        with mock.patch.dict(os.environ, {'TERM': 'dumb'}):
            progress = Progress('building x', self.out, self.clock)
        progress.update(1, 1)
        progress.close()
        self.assertEqual(self.out.getvalue(), '  building x: 1 of 1, 0:00 so far\n')


class Ninja(unittest.TestCase):
    """Folders with a build.ninja of `steps`: {output: command}, one after the other."""

    def folder(self, steps):
        temporary = tempfile.TemporaryDirectory(prefix='rockhopper-')
        self.addCleanup(temporary.cleanup)
        build = pathlib.Path(temporary.name, 'build')
        (build / 'tree').mkdir(parents=True)
        text = 'rule do\n  command = $what\n'
        before = ''
        for output, what in steps.items():
            text += f'build {output}: do {before}\n  what = {what}\n'
            before = output
        (build / 'tree/build.ninja').write_text(text)
        return build

    def builder(self, build, **more):
        return subprocess.Popen([sys.executable, '-c', BUILDER, build], stdin=subprocess.DEVNULL,
                                env={**os.environ, 'TERM': 'xterm'}, **more)

    def test_its_output_is_understood(self):
        build = self.folder({f'out{n}': f'touch out{n}' for n in range(30)})
        out = io.StringIO()
        progress = Progress('building', out)
        status = run(['ninja', '-C', build / 'tree'], build / 'log', {'NINJA_STATUS': NINJA_STATUS},
                     on_line=progress.read)
        self.assertEqual((status, progress.done, progress.total), (0, 30, 30))
        self.assertEqual(len(out.getvalue().splitlines()), 10)

    def test_a_failed_build_shows_the_end_of_its_log(self):
        build = self.folder({'bad': 'echo the reason; false'})
        with self.builder(build, stdout=subprocess.PIPE, text=True) as process:
            said = process.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(process.returncode, 1)
        self.assertIn('  | FAILED: bad', said)
        self.assertIn('  | the reason', said)
        self.assertIn('the whole output: build/logs/tree-build.log', said)

    def test_its_failure_is_told_again_at_the_end(self):
        build = self.folder({'bad': 'echo the reason; false'})
        with mock.patch.multiple(stages, BUILD=build, ROOT=build.parent, say=lambda _: None,
                                 configure=lambda *_: True):
            tree = stages.Build('tree', ('cc', 'c++'))
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertFalse(stages.compile_tree(tree))
            ((name, text),) = stages.build_failure(tree, 'build of it').excerpts
        self.assertEqual(name, 'build of it')
        self.assertIn('the reason', text)

    def test_interrupted(self):
        """Ninja and what it started end, the line that moves goes, one line stays."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                build = self.folder({'quick': 'touch quick',
                                     'slow': 'echo >held; exec sleep 4747 >held'})
                self.assertEqual(self.shown_when_interrupted(build, number), ['interrupted', ''])

    def shown_when_interrupted(self, build, number):
        os.mkfifo(build / 'tree/held')
        ours, theirs = pty.openpty()
        with contextlib.ExitStack() as at_end, self.builder(build, stdout=theirs) as process:
            at_end.callback(os.close, ours)
            at_end.callback(os.close, theirs)
            # The slow step has begun when it opens the pipe; nobody has it open when all have ended.
            with (build / 'tree/held').open('rb') as held:
                process.send_signal(number)
                self.assertEqual(process.wait(LIMIT_S), INTERRUPTED)
                held.read()
            shown = Terminal()
            while select.select([ours], [], [], 0)[0]:
                shown.write(os.read(ours, 4096).decode().replace('\r\n', '\n'))
            return shown.lines()


if __name__ == '__main__':
    unittest.main(verbosity=2)
