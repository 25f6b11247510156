# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""How long a machine stood still, and tests that are repeated if it did.

A program whose peer is kept from running sees what a program sees whose peer is dead. So a test of
real programs that failed while a processor, or one of its processes, was kept from running has said
nothing, and is run again. A test that fails on a machine that runs has failed.
"""

import contextlib
import os
import threading
import time
import unittest

# The shortest default of what our programs wait for, the ACK of a packet, is 67 ms.
STANDSTILL_S = 0.1
ATTEMPTS = 3
NAP_S = 0.02
LOOK_S = 0.1


class Standstill:
    """A block during which it watches: each processor by a thread that only it may run and that
    sleeps, and the main threads of processes, whose numbers `pids()` tells, by what the kernel
    counts of their waiting. `longest_s` is the longest time for which one of them was kept waiting.
    """

    def __init__(self, pids=tuple):
        self.longest_s = 0.0
        self._pids = pids
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._sleep, args=(cpu,), daemon=True)
                         for cpu in os.sched_getaffinity(0)]
        self._threads.append(threading.Thread(target=self._look, daemon=True))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _note(self, seconds):
        self.longest_s = max(self.longest_s, seconds)

    def _sleep(self, cpu):
        with contextlib.suppress(OSError):  # the processor may have been taken away
            os.sched_setaffinity(0, {cpu})  # of this thread
        ended = False
        while not ended:
            start = time.monotonic()
            ended = self._end.wait(NAP_S)
            self._note(time.monotonic() - start - NAP_S)

    def _look(self):
        waited = {}
        last, ended = time.monotonic(), False
        while not ended:
            ended = self._end.wait(LOOK_S)
            now = time.monotonic()
            for pid in self._pids():
                total = waiting_s(pid)
                # What is more than the time since the last look is of one wait that began before it.
                self._note(total - waited.get(pid, total) - (now - last))
                waited[pid] = total
            last = now


def waiting_s(pid):
    """How long the main thread of a process was ready to run and did not; 0 once it has ended."""
    try:
        with open(f'/proc/{pid}/schedstat', encoding='ascii') as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def settled(attempt, failed, name, pids=tuple):
    """The result of `attempt()`. One of which `failed(result)` is true is made anew if the machine
    stood still meanwhile, a few times, and that is said."""
    for left in reversed(range(ATTEMPTS)):
        with Standstill(pids) as standstill:
            result = attempt()
        if not failed(result) or standstill.longest_s < STANDSTILL_S or left == 0:
            break
        print(f'again {name}: it failed while the machine stood still, for up to '
              f'{standstill.longest_s * 1e3:.0f} ms', flush=True)
    return result


class Outcome(unittest.TestResult):
    """Keeps what one attempt of a test reported, to be told to another result or to be forgotten."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def tell(self, result):
        for name, arguments in self.calls:
            getattr(result, name)(*arguments)


def _recorded(name):
    def record(self, *arguments):
        getattr(unittest.TestResult, name)(self, *arguments)
        self.calls.append((name, arguments))
    return record


for _name in ('addDuration', 'addError', 'addExpectedFailure', 'addFailure', 'addSkip', 'addSubTest',
              'addSuccess', 'addUnexpectedSuccess'):
    if hasattr(unittest.TestResult, _name):  # addDuration is of Python 3.12
        setattr(Outcome, _name, _recorded(_name))


class RepeatedTest(unittest.TestCase):
    """A test of programs in real time. One that failed while the machine stood still is run again,
    from its setUp() on, and says so."""

    def watched_pids(self):
        """The processes whose main threads must not be kept from running."""
        return ()

    def run(self, result=None):
        if result is None:
            result = self.defaultTestResult()
        result.startTest(self)
        try:
            settled(self._attempt, lambda outcome: not outcome.wasSuccessful(), self.id(),
                    self.watched_pids).tell(result)
        finally:
            result.stopTest(self)
        return result

    def _attempt(self):
        outcome = Outcome()
        super().run(outcome)
        return outcome
