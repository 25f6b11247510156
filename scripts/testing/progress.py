# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Shows how far a build is: one line that moves on a terminal, elsewhere a line for each tenth."""

import os
import re
import shutil
import sys
import threading
import time

from testing import processes

# What ninja is told to begin its lines with, and how they are read again.
NINJA_STATUS = '[%f/%t] '
NINJA_LINE = re.compile(r'^\[(\d+)/(\d+)\] ')
# The first steps say little about the others: before so long a time no end is foretold.
FORETOLD_AFTER_S = 3.0

_lock = threading.RLock()
_moving = []  # the progress whose line is on the terminal


def say(text):
    """Prints whole lines: one that moves steps aside. Once programs were ended nothing is said of how
    they ended."""
    with _lock:
        if processes.all_ended():
            return
        for progress in _moving:
            progress.clear()
        print(text, flush=True)


def as_time(seconds):
    """65.2 -> '1:05', 3723 -> '1:02:03'"""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{seconds:02}' if hours else f'{minutes}:{seconds:02}'


def moves(out):
    """Whether `out` is a terminal on which a line can be written over."""
    return out.isatty() and os.environ.get('TERM', 'dumb') != 'dumb'


class Progress:
    """Steps done, of how many, the time so far and the time left. `name` says of what."""

    def __init__(self, name, out=None, clock=time.monotonic):
        self.name = name
        self.out = out or sys.stdout
        self.clock = clock
        self.start = clock()
        self.done = self.total = 0
        self.tenths = 0
        self.moves = moves(self.out)

    def read(self, line):
        """Takes a line of ninja's output."""
        found = NINJA_LINE.match(line)
        if found:
            self.update(int(found[1]), int(found[2]))

    def update(self, done, total):
        if done < self.done:
            # The build was configured anew and has begun once more.
            self.start, self.tenths = self.clock(), 0
        self.done, self.total = done, total
        if self.moves:
            self.tick()
        elif total and done * 10 // total > self.tenths:
            self.tenths = done * 10 // total
            with _lock:
                print(f'  {self}', file=self.out, flush=True)

    def tick(self):
        """Moves the line on a terminal: time goes on while one step takes long."""
        with _lock:
            if not self.moves or not self.total or processes.all_ended():
                return
            if self not in _moving:
                _moving.append(self)
            # A line that is wider than the terminal would leave its beginning behind.
            columns = shutil.get_terminal_size().columns
            print(f'\r{f"  {self}"[:columns - 1]}\x1b[K', end='', file=self.out, flush=True)

    def clear(self):
        """Takes the line away for now, so that other output begins at the left."""
        print('\r\x1b[K', end='', file=self.out, flush=True)

    def close(self):
        """Takes the moving line away for good."""
        with _lock:
            if self in _moving:
                _moving.remove(self)
                self.clear()

    def __str__(self):
        so_far = self.clock() - self.start
        text = f'{self.name}: {self.done} of {self.total}, {as_time(so_far)} so far'
        if 0 < self.done < self.total and so_far >= FORETOLD_AFTER_S:
            text += f', about {as_time(so_far / self.done * (self.total - self.done))} left'
        return text
