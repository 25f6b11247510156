# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What is shown, shown again."""

import sys
import time

from .failures import Failure
from .text import show, show_resources


def wait_until(time_s, stop):
    while not stop and time.monotonic() < time_s:
        time.sleep(max(0.0, min(time_s - time.monotonic(), 0.1)))


def watch(programs, options, stop):
    next_s, done = time.monotonic(), 0
    while True:
        programs = show(programs, options)
        if not programs:
            if options.count == 0 and done > 0:
                return
            raise Failure(f'no program is left after {done} of {options.count} repetitions')
        done += 1
        next_s += options.watch
        wait_until(next_s, stop if done != options.count else [True])
        if stop or done == options.count:
            return


def watch_resources(options, stop):
    next_s, done = time.monotonic(), 0
    while True:
        if not options.json and sys.stdout.isatty():
            print('\033[H\033[2J', end='')
        show_resources(options)
        done += 1
        next_s += options.watch
        wait_until(next_s, stop if done != options.count else [True])
        if stop or done == options.count:
            return
