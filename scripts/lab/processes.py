# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Child processes that never outlive the script: started, waited for with a limit, ended."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time


# A failed test shows so many lines of each process.
LAST_LINES = 12


class LabError(Exception):
    """One line that says what went wrong; scripts print it and exit with status 1."""


class Unavailable(Exception):
    """One line that says what this machine lacks; the rest goes on without."""


def processors():
    """One processor for each side: the first and the last that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


class Process:
    """A program with its output in a file, tied to one processor if `cpu` is given."""

    def __init__(self, name, command, folder, cpu=None):
        self.name = name
        self.command = [str(part) for part in command]
        self.log = pathlib.Path(folder, f'{name}.log')
        self.out = pathlib.Path(folder, f'{name}.out')
        pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
        with self.log.open('wb') as log, self.out.open('wb') as out:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=log, preexec_fn=pin)

    def output(self):
        return self.out.read_text(errors='replace')

    def messages(self):
        return self.log.read_text(errors='replace')

    def has_ended(self):
        return self.child.poll() is not None

    def wait(self, limit_s):
        """The exit status; LabError when it has not ended within `limit_s` seconds."""
        try:
            return self.child.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise LabError(f'{self.name} did not end within {limit_s} s') from None

    def last_words(self):
        """The end of what it wrote to standard error, under its name and how it ended."""
        status = self.child.poll()
        fate = 'runs' if status is None else f'ended with status {status}'
        lines = self.messages().splitlines()[-LAST_LINES:]
        return '\n  '.join([f'{self.name} {fate}', *lines])

    def expect_success(self, limit_s):
        status = self.wait(limit_s)
        if status != 0:
            lines = (self.messages() + self.output()).strip().splitlines()
            raise LabError(f'{self.name} ended with status {status}: '
                           f'{lines[-1] if lines else "no output"}\n'
                           f'  command: {" ".join(self.command)}')

    def end(self):
        """Asks, then insists."""
        for ask in (signal.SIGINT, signal.SIGKILL):
            if self.child.poll() is not None:
                return
            self.child.send_signal(ask)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(10)


class Lab:
    """A temporary folder, the processes of one run, and what else was put into `at_end`; all are
    gone at the end."""

    def __init__(self, keep_files=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='rockhopper-'))
        self.keep_files = keep_files
        self.processes = []
        self.at_end = contextlib.ExitStack()
        self.serial = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.at_end:
            for process in reversed(self.processes):
                process.end()
        if not self.keep_files:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, command, cpu=None):
        self.serial += 1
        process = Process(f'{self.serial:02}-{name}', command, self.folder, cpu)
        self.processes.append(process)
        return process

    def last_words(self):
        """Those of all its processes, in the order in which they were started."""
        return '\n'.join(process.last_words() for process in self.processes)

    def path(self, name):
        return self.folder / name

    def unique(self, name):
        """A name that no other process on the machine has, for an EAL file prefix."""
        self.serial += 1
        return f'{name}-{os.getpid()}-{self.serial}'


def wait_until(condition, limit_s, what, interval_s=0.05):
    """The first true value of `condition()`; LabError after `limit_s` seconds without."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(interval_s)
    raise LabError(f'{what}: nothing after {limit_s} s')
