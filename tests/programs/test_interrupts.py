# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""^C at random moments of a program's life: it ends, and leaves nothing behind, no process, socket,
file or shared memory. ROCKHOPPER_INTERRUPTS is how many moments (200)."""

import os
import pathlib
import random
import re
import signal
import time

import support
from support import LIMIT_S, ROOT, wait_until

SEED = int(os.environ.get('ROCKHOPPER_SEED', str(random.SystemRandom().randrange(1 << 32))), 0)
MOMENTS = int(os.environ.get('ROCKHOPPER_INTERRUPTS', '200'))
AT_ONCE = 5
# From before main() to the middle of the work.
LATEST_S = 1.5
LETTERS = ROOT / 'tests/data/workflows/letters.json'


class Interrupts(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        print(f'seed: repeat with ROCKHOPPER_SEED={SEED}', flush=True)
        self.runtime = self.lab.path('runtime')
        self.runtime.mkdir(0o700)
        self.segment = pathlib.Path('/dev/shm') / f'rockhopper-test-{os.getpid()}'
        self.addCleanup(lambda: self.segment.exists() and self.remove_segment())
        self.prefix = ('env', f'XDG_RUNTIME_DIR={self.runtime}', f'RUNTIME_DIRECTORY={self.runtime}',
                       f'ROCKHOPPER_SEGMENT={self.segment}')

    def remove_segment(self):
        for path in self.segment.iterdir():
            path.unlink()
        self.segment.rmdir()

    def commands(self):
        """The two ends of something that would go on for long."""
        socket = self.lab.path(self.lab.unique('s'))
        link = ('--memif-socket', socket)
        port = self.random.randrange(20_000, 30_000)
        which = self.random.choice(('rh-pingpong', 'rh-perf', 'rh-ami', 'rh-cm', 'rh-publish',
                                    'rh-dag', 'rh-switch', 'run-local', 'rh-run'))
        if which in ('rh-pingpong', 'rh-perf', 'rh-ami'):
            count = ('-n', 10**9)
            return [(which, *link, '-p', port, *count),
                    (which, *link, '-p', port, *count, 'localhost')]
        if which == 'rh-cm':
            return [(which, *link, '-P'), (which, *link, '-C', 0, '10.42.0.1')]
        if which == 'rh-publish':
            store = self.lab.path(self.lab.unique('store'))
            return [(which, *link, '-p', port, '--store', f'a=64KiB:file={store}', '--input',
                     'lines:/dev/zero'), ('rh-subscribe', *link, '-p', port, 'localhost')]
        if which == 'rh-dag':
            return [(which, 'serve', *link, '-p', port, '--memory', '8MiB', '--records', 1000),
                    (which, 'status', *link, '--server', f'localhost:{port}', '--watch', 0.1)]
        if which == 'rh-switch':
            return [(which, '--memif', 2, '--socket-dir', self.lab.folder),
                    ('rh-sim', sorted((ROOT / 'apps/rh_sim/scenarios').glob('fair*'))[0])]
        if which == 'run-local':
            return [('rh-dag', 'run-local', LETTERS, '--scale', 100)]
        return [('rh-run', 'ibv_rc_pingpong', '-g', 0, '-p', port, '-n', 10**9),
                ('rh-run', 'ibv_rc_pingpong', '-g', 0, '-p', port, '-n', 10**9, '127.0.0.1')]

    def test_nothing_is_left(self):
        for _ in range(0, MOMENTS, AT_ONCE):
            before = set(self.lab.folder.iterdir())
            groups = [[self.start(*command, prefix=self.prefix) for command in self.commands()]
                      for _ in range(AT_ONCE)]
            begin = time.monotonic()
            moments = [(self.random.random() * LATEST_S, process)
                       for processes in groups for process in processes]
            for moment, process in sorted(moments, key=lambda one: one[0]):
                time.sleep(max(0, begin + moment - time.monotonic()))
                if not process.has_ended():
                    process.child.send_signal(signal.SIGINT)
            for processes in groups:
                for process in processes:
                    wait_until(process.has_ended, LIMIT_S, f'{process.name} ends')
                    self.assertIn(process.child.returncode, (0, 1, -signal.SIGINT),
                                  process.messages())
            self.assert_nothing_left(before)

    def assert_nothing_left(self, before):
        left = [path for path in self.lab.folder.iterdir()
                if path not in before and (path.is_socket() or path.is_dir())]
        self.assertEqual(left, [])
        # A tree that rh-run shows is named after its contents, and is the next one's, too.
        folder = self.runtime / 'rockhopper'
        self.assertEqual([path for path in folder.glob('*')
                          if not re.fullmatch('tree-[0-9a-f]{16}', path.name)], [])
        named = [path for path in self.runtime.rglob('rockhopper-*')]
        self.assertEqual(named, [], 'folders of processes that are gone')
        # A program of somebody else's dies of the signal without a word: the next one that comes
        # cleans up. The table stays for all.
        self.assert_status(self.run_program('rh-run', 'ibv_devinfo', prefix=self.prefix), 0)
        self.assertEqual({path.name for path in self.segment.iterdir()}, {'table'})


if __name__ == '__main__':
    support.main()
