# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Every program under what batch systems, containers and odd terminals impose: it does its work, or
ends with one line that names the limit."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import support
from support import LIMIT_S, ROOT, wait_until

SCENARIO = ROOT / 'apps/rh_sim/scenarios/two-hosts.json'
LETTERS = ROOT / 'tests/data/workflows/letters.json'
ALL = ('pingpong', 'perf', 'ami', 'cm', 'publish', 'dag', 'switch', 'sim', 'local', 'run', 'stats')
# In a mount namespace, in which the lab's folder has another name too.
MOUNT = ('unshare', '--mount', 'sh', '-ec')


def mounted(script):
    return (*MOUNT, script + '; exec "$@"', 'sh')


def why_not_mounted():
    """Neither every user nor root in every container may; '' if this one may."""
    tried = subprocess.run(mounted('mount -t tmpfs tmpfs /tmp') + ('true',), stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False)
    return f'nothing can be mounted here: {tried.stderr.strip()}' if tried.returncode else ''


NOT_MOUNTED = why_not_mounted()


class Environments(support.ProgramTest):
    prefix = ()
    said = None

    def under(self, program, *arguments):
        return self.start(program, *arguments, prefix=self.prefix)

    def settle(self, *processes):
        """All have succeeded; or one has failed with a line that names the limit, and the others are
        ended."""
        for process in processes:
            wait_until(process.has_ended, LIMIT_S, f'{process.name} ends')
            if process.child.returncode == 0:
                continue
            self.assertIsNotNone(self.said, process.messages())
            self.assertIn(process.child.returncode, (1, 2), process.messages())
            lines = [line for line in process.messages().splitlines() if self.said in line]
            self.assertTrue(lines, process.messages())
            for other in processes:
                if not other.has_ended():
                    other.child.send_signal(signal.SIGTERM)
                    other.wait(LIMIT_S)
            return

    def listening(self, process, text='listening on'):
        """Whether it does; False if it has ended before that."""
        wait_until(lambda: text in process.messages() or process.has_ended(), LIMIT_S, 'it listens')
        return not process.has_ended()

    def measured(self, program, *options):
        socket = self.lab.path(self.lab.unique('s'))
        server = self.under(program, '-p', 0, '--memif-socket', socket, '-n', 10)
        if not self.listening(server):
            return self.settle(server)
        client = self.under(program, '-p', support.listening_port(server), '--memif-socket', socket,
                            '-n', 10, *options, 'localhost')
        return self.settle(client, server)

    def try_pingpong(self):
        self.measured('rh-pingpong')

    def try_perf(self):
        self.measured('rh-perf', '--op', 'write', '-s', 64)

    def try_ami(self):
        self.measured('rh-ami')

    def try_cm(self):
        socket = self.lab.path(self.lab.unique('s'))
        server = self.under('rh-cm', '--memif-socket', socket, '-C', 3)
        if not self.listening(server):
            return self.settle(server)
        client = self.under('rh-cm', '--memif-socket', socket, '-C', 3, '10.42.0.1')
        return self.settle(client, server)

    def try_publish(self):
        socket = self.lab.path(self.lab.unique('s'))
        lines = self.lab.path('lines')
        lines.write_text('one\ntwo\n')
        publisher = self.under('rh-publish', '-p', 0, '--memif-socket', socket, '--wait', 1,
                               '--store', 'a=64KiB', '--input', f'lines:{lines}')
        if not self.listening(publisher):
            return self.settle(publisher)
        subscriber = self.under('rh-subscribe', '-p', support.listening_port(publisher),
                                '--memif-socket', socket, '--from', 'oldest', '-n', 2, 'localhost')
        return self.settle(subscriber, publisher)

    def try_dag(self):
        socket = self.lab.path(self.lab.unique('s'))
        server = self.under('rh-dag', 'serve', '-p', 0, '--memif-socket', socket, '--memory', '8MiB',
                            '--records', 1000)
        if not self.listening(server):
            return self.settle(server)
        client = self.under('rh-dag', 'put', '--server', f'localhost:{support.listening_port(server)}',
                            '--memif-socket', socket, 'key', 'value')
        wait_until(client.has_ended, LIMIT_S, 'it puts')
        server.child.send_signal(signal.SIGTERM)
        return self.settle(client, server)

    def try_switch(self):
        switch = self.under('rh-switch', '--memif', 2, '--socket-dir', self.lab.folder)
        if not self.listening(switch, 'ready'):
            return self.settle(switch)
        switch.child.send_signal(signal.SIGTERM)
        return self.settle(switch)

    def try_sim(self):
        self.settle(self.under('rh-sim', SCENARIO))

    def try_local(self):
        self.settle(self.under('rh-dag', 'run-local', LETTERS, '--commands'))

    def try_run(self):
        self.settle(self.under('rh-run', 'true'))

    def try_stats(self):
        process = self.under('rh-stats', '--list')
        wait_until(process.has_ended, LIMIT_S, 'it ends')
        self.assertNotIn('Traceback', process.messages())

    def each(self, prefix, said=None, programs=ALL):
        self.prefix, self.said = prefix, said
        for name in programs:
            with self.subTest(program=name):
                getattr(self, f'try_{name}')()

    def test_address_space(self):
        """ulimit -v"""
        self.each(('prlimit', '--as=300000000'), 'ulimit -v')

    def test_data(self):
        """ulimit -d"""
        self.each(('prlimit', '--data=60000000'), 'ulimit -d')

    def test_few_files(self):
        """ulimit -n"""
        self.each(('prlimit', '--nofile=12'), 'Too many open files')

    def test_one_processor(self):
        """A cpuset"""
        cpu = min(os.sched_getaffinity(0))
        self.each(('taskset', '--cpu-list', str(cpu)))

    def test_bare_environment(self):
        self.each(('env', '-i'))

    def test_terminals_and_languages(self):
        self.each(('env', 'COLUMNS=20', 'TERM=dumb', 'LANG=tr_TR.UTF-8', 'LC_ALL=tr_TR.UTF-8'))

    def test_no_runtime_directory(self):
        """su, cron and containers leave a variable that names nothing."""
        self.each(('env', 'XDG_RUNTIME_DIR=/no/such/folder'))
        process = self.start('rh-pingpong', '--connect-timeout', 1, 'localhost',
                             prefix=('env', 'XDG_RUNTIME_DIR=/no/such/folder'))
        process.wait(LIMIT_S)
        self.assertRegex(process.messages(), 'XDG_RUNTIME_DIR=/no/such/folder is not there; .* is used')

    @unittest.skipIf(NOT_MOUNTED, NOT_MOUNTED)
    def test_the_runtime_directory_of_somebody_else(self):
        """sudo -E: nothing of root's is left in the user's directory."""
        theirs = self.lab.path('theirs')
        theirs.mkdir(0o700)
        os.chown(theirs, 65534, 65534)
        process = self.start('rh-pingpong', '--connect-timeout', 1, 'localhost',
                             prefix=('env', f'XDG_RUNTIME_DIR={theirs}'))
        process.wait(LIMIT_S)
        self.assertIn('is no directory of this user', process.messages())
        self.assertEqual(list(theirs.iterdir()), [])

    @unittest.skipIf(NOT_MOUNTED, NOT_MOUNTED)
    def test_small_shared_memory(self):
        """A container's /dev/shm"""
        self.each(mounted('mount -t tmpfs -o size=64m tmpfs /dev/shm'))

    @unittest.skipIf(NOT_MOUNTED, NOT_MOUNTED)
    def test_read_only_places(self):
        """A read-only home and root file system, with a runtime directory"""
        lab = self.lab.folder
        self.each(mounted(f'mount --bind {lab} {lab}; mount -o remount,bind,ro /; '
                          f'export HOME=/root XDG_RUNTIME_DIR={lab}'))

    @unittest.skipIf(NOT_MOUNTED, NOT_MOUNTED)
    def test_no_place_for_sockets(self):
        """Nothing can be written anywhere: the line says which folder is missing."""
        script = ('mount -t tmpfs -o ro tmpfs /tmp; mount -t tmpfs -o ro tmpfs /run; '
                  'unset XDG_RUNTIME_DIR')
        process = self.start('rh-pingpong', '--connect-timeout', 1, 'localhost',
                             prefix=mounted(script))
        self.assert_failed(process, r'/tmp/rockhopper-0: Read-only file system; \$XDG_RUNTIME_DIR')

    def test_help_in_any_width(self):
        for program in sorted(support.PROGRAMS.glob('rh-*')):
            if not os.access(program, os.X_OK) or program.is_dir():
                continue
            for columns in ('20', '80', '0', 'x', '-5'):
                with self.subTest(program=program.name, columns=columns):
                    process = self.start(program.name, '--help',
                                         prefix=('env', f'COLUMNS={columns}', 'TERM=dumb'))
                    self.assert_status(process, 0)
                    if columns == '80':
                        widths = [len(line) for line in process.output().splitlines()]
                        self.assertLessEqual(max(widths), 80, program.name)


if __name__ == '__main__':
    support.main()
