# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Pairs of stock verbs programs, a server and a client, each in a process of its own under rh-run."""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'programs'))

import support  # noqa: E402 (needs the path above)
from lab.namespaces import Host  # noqa: E402
from lab.pairs import free_port, listens  # noqa: E402
from support import LIMIT_S, wait_until  # noqa: E402
from verbs_support import (  # noqa: E402
    ENGINE, RH_RUN, SANITIZER_OPTIONS, as_ordinary_user, clean_environment, instrumented, own_folder)


# What the program prints is in its output at once, and not only at its end.
LINE_BY_LINE = ('stdbuf', '-oL')


class PairTest(support.ProgramTest):
    """Each test has a segment and a runtime directory of its own, and runs as an ordinary user."""

    def setUp(self):
        super().setUp()
        if not ENGINE.exists():
            self.skipTest('there is no engine library')
        own_folder(self.lab.folder, as_ordinary_user())

    def need(self, program):
        if shutil.which(program) is None:
            self.skipTest(f'{program} is not installed')

    def under_rh_run(self, *command, options=(), host=None):
        """The command line that runs it there; with `host`, a lab.namespaces.Host or what is like
        one, in that one and with a segment of that one's."""
        return self.at_segment(host, RH_RUN, *options, '--', *instrumented(*command))

    def at_segment(self, host, *command):
        """The command line that runs it there, as it is."""
        settings = {name: value for name, value in clean_environment().items()
                    if name in ('PATH', 'LANG', *SANITIZER_OPTIONS)}
        home = self.segment(host) if host else self.lab.folder  # of the user who runs it
        settings |= {'HOME': home, 'XDG_RUNTIME_DIR': home, 'ROCKHOPPER_SEGMENT': self.segment(host)}
        line = ['env', '-i', *(f'{name}={value}' for name, value in settings.items()), *command]
        return [*(host.enter() if host else as_ordinary_user()), *line]

    def segment(self, host=None):
        """In shared memory: frames do not go to a disk."""
        return pathlib.Path('/dev/shm') / f'{self.lab.folder.name}{f"-{host.pid}" if host else ""}'

    def make_segment(self, host=None):
        """Its folder, if it is not there yet."""
        folder = self.segment(host)
        if not folder.exists():
            own_folder(folder, () if isinstance(host, Host) else as_ordinary_user())
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)

    def start_verbs(self, name, *command, options=(), host=None):
        self.make_segment(host)
        return self.lab.start(name, self.under_rh_run(*command, options=options, host=host))

    def start_listening(self, port, program, *command, **more):
        """Starts one that listens by TCP, which it does then."""
        server = self.start_verbs(f'{program}-server', program, *command, **more)
        wait_until(lambda: server.has_ended() or listens(port, server.child.pid), LIMIT_S, f'{server.name} listens')
        return server

    def start_pair(self, program, *options, server=(), client=(), port_option='-p', runs=((), ()),
                   hosts=(None, None), to='localhost', by=()):
        """A server and a client that connects to it by TCP; `runs` are options of rh-run for each,
        `to` is what the client calls the server's host, `by` is a command that runs the program."""
        port = free_port()
        common = (*by, program, port_option, port, *options)
        server_process = self.start_listening(port, *common, *server, options=runs[0], host=hosts[0])
        client_process = self.start_verbs(f'{program}-client', *common, *client, to, options=runs[1],
                                          host=hosts[1])
        return server_process, client_process

    def run_pair(self, program, *options, limit_s=LIMIT_S, **more):
        """Runs both to success; what they printed, the server first."""
        return self.finish(self.start_pair(program, *options, **more), limit_s)

    def has_failed(self, process):
        """Whether it has ended, and not well."""
        return process.child.poll() not in (None, 0)

    def finish(self, processes, limit_s=LIMIT_S):
        """Waits for the success of all; what they printed. One that fails ends the wait: the others may
        wait for it for ever."""
        wait_until(lambda: all(process.has_ended() for process in processes)
                   or any(map(self.has_failed, processes)), limit_s,
                   f'{" and ".join(process.name for process in processes)} end')
        self.assertEqual([], [
            f'{process.name} ended with status {process.child.returncode}: {" ".join(process.command)}\n'
            f'{process.output()[-2000:]}\n{process.messages()}' for process in processes if self.has_failed(process)])
        outputs = [process.output() for process in processes]
        for output in outputs:
            self.assertNotIn('invalid data', output)  # ping-pongs with -c end with status 0 nonetheless
        return outputs

    def ping_pong(self, program, *options, size, iterations, **more):
        """Runs a pair of these programs of rdma-core to success."""
        for output in self.run_pair(program, '-s', size, '-n', iterations, *options, **more):
            self.assertRegex(output, rf'{iterations} iters in \d+\.\d+ seconds|\nsuccess\n')
