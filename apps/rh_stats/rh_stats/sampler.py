# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""One look at all programs, which all who want to know share: the live page, /metrics and --top.

However many of them look, each program is asked once an interval, and nobody is asked while nobody looks. What a
look costs is bounded too: of many queue pairs so many pages are read at a time as fit a share of the interval, in
turns, and the segment is read anew only if it has changed and the last reading is paid for.
"""

import os
import time

from . import queue_pairs
from .failures import Failure, Gone
from .segment import Segment
from .telemetry import Program, find_sockets, runtime_parents

# No program is asked more: each is a connection, and a line of the page.
PROGRAMS_MAX = 256
# A program that does not answer is left alone for so long, doubled with each failure up to the longest time.
SHUNNED_S, SHUNNED_MAX_S = 2.0, 60.0
# The answers of a program are waited for so long, which is short: all others wait with it.
ANSWER_S = 1.0
# What is read only because there is time for it takes this share of one processor.
SHARE = 0.005


class Watched:
    """A program that is asked again and again: its counters of now and those of before."""

    def __init__(self, program, now_s):
        self.program = program
        self.key = f'{program.pid}-{program.file_prefix}'
        self.since_s = now_s
        self.at_s, self.before_s = None, None
        self.groups, self.before, self.texts = {}, {}, {}
        self.queue_pairs = queue_pairs.Follower(program)

    def ask(self, now_s, budget_s):
        """Reads all groups. Most programs have few enough counters for one answer with all of them."""
        groups = {}
        answer = self.program.ask('/rockhopper/counters')
        answer = answer if isinstance(answer, dict) else {}
        omitted = answer.pop('omitted', 0)
        for name, members in answer.items():
            if isinstance(members, dict):
                groups[name] = {counter: value for counter, value in members.items() if type(value) is int}
        if omitted or not groups:
            self.program.list_groups()
            for name in self.program.groups:
                if name not in groups and (found := self.program.read_group('counters', name, int)):
                    groups[name] = found
        for name in groups.keys() - self.texts.keys():
            self.texts[name] = self.program.read_group('texts', name, str)
        for name in self.texts.keys() - groups.keys():
            del self.texts[name]
        self.before_s, self.before = self.at_s, self.groups
        self.at_s, self.groups = now_s, groups
        self.queue_pairs.ask(groups, now_s, budget_s)

    def rate(self, group, counter):
        """Per second, between the last two looks; None where there were not two."""
        before = self.before.get(group, {}).get(counter)
        value = self.groups.get(group, {}).get(counter)
        if before is None or value is None or self.before_s is None or self.at_s <= self.before_s:
            return None
        return (value - before) / (self.at_s - self.before_s)

    def text(self, group, counter):
        return self.texts.get(group, {}).get(counter, '')


class Verbs:
    """What the programs under rh-run have, read from the segment when it has changed."""

    def __init__(self):
        self.processes, self.path = [], None
        self.problem = None
        self._seen, self._next_s = None, 0.0

    def look(self, now_s):
        if now_s < self._next_s:
            return
        began_s = time.process_time()
        try:
            segment = Segment()
        except Failure as failure:
            self.processes, self.path, self._seen, self.problem = [], None, None, str(failure)
            return
        try:
            self.path = segment.path
            seen = segment.fingerprint()
            if seen != self._seen:
                problems = []
                self.processes, self._seen = segment.processes(problems.append), seen
                self.problem = str(problems[0]) if problems else None
        finally:
            os.close(segment.table)
        self._next_s = now_s + (time.process_time() - began_s) / SHARE


class Sampler:
    """Asks the programs that `wanted(pid, file_prefix)` is true of. Belongs to one thread at a time."""

    def __init__(self, interval_s, pid=None, file_prefix=None, with_verbs=True):
        self.interval_s, self.pid, self.file_prefix = interval_s, pid, file_prefix
        self.programs = {}
        self.verbs = Verbs() if with_verbs else None
        self.at_s, self.wall_s = None, None
        self.looks = self.came = self.went = self.failed = self.left_out = self.requests = 0
        self.spent_s = 0.0
        self.failures = {}
        self._sockets, self._next_find_s = {}, 0.0
        self._shunned = {}  # by path and inode: until when, and for how long the next time

    def is_older(self, seconds):
        return self.at_s is None or time.monotonic() - self.at_s >= seconds

    def look(self):
        """Asks all programs once."""
        now_s, began_s = time.monotonic(), time.process_time()
        self._find(now_s)
        self.failures = {}
        for path, watched in list(self.programs.items()):
            try:
                budget_s = SHARE * self.interval_s / len(self.programs)
                watched.ask(time.monotonic(), budget_s)
            except Failure as failure:
                self._drop(path, failure)
        if self.verbs is not None:
            self.verbs.look(now_s)
        self.at_s, self.wall_s = now_s, time.time()
        self.looks += 1
        self.spent_s += time.process_time() - began_s

    def close(self):
        for watched in self.programs.values():
            watched.program.close()
        self.programs = {}

    def _drop(self, key, failure):
        watched = self.programs.pop(key)
        self.requests += watched.program.requests
        watched.program.close()
        if isinstance(failure, Gone):
            self.went += 1
        else:
            self._shun(key, f'{watched.program.name} (pid {watched.program.pid}): {failure}')

    def _shun(self, key, failure):
        self.failed += 1
        _, last_s = self._shunned.get(key, (0.0, SHUNNED_S / 2))
        shun_s = min(2 * last_s, SHUNNED_MAX_S)
        self._shunned[key] = (time.monotonic() + shun_s, shun_s)
        self.failures[key] = str(failure)

    def _find_sockets(self, now_s):
        """By path and inode, the file prefix. Programs that were killed leave folders behind, thousands in time:
        they are looked through again when the last time is paid for."""
        if now_s < self._next_find_s:
            return self._sockets
        began_s = time.process_time()
        found = {}
        for path, prefix in find_sockets(runtime_parents()):
            if self.file_prefix in (None, prefix):
                try:
                    found[path, os.stat(path).st_ino] = prefix
                except OSError:
                    continue
        self._sockets = found
        self._next_find_s = now_s + (time.process_time() - began_s) / SHARE
        return found

    def _find(self, now_s):
        found = self._find_sockets(now_s)
        self._shunned = {key: until for key, until in self._shunned.items() if key in found}
        self.left_out = 0
        for key, prefix in found.items():
            if key in self.programs or self._shunned.get(key, (0.0, 0.0))[0] > now_s:
                continue
            if len(self.programs) >= PROGRAMS_MAX:
                self.left_out += 1
                continue
            self._connect(key, prefix, now_s)

    def _connect(self, key, prefix, now_s):
        try:
            program = Program(key[0], prefix, ANSWER_S)
        except Gone:
            # What has been left behind is not tried again: a new program makes a new socket.
            self._shunned[key] = (float('inf'), SHUNNED_MAX_S)
            return
        except Failure as failure:
            self._shun(key, failure)
            return
        if not program.groups or self.pid not in (None, program.pid):
            # A program of somebody else, or one that is just beginning.
            program.close()
            self._shunned[key] = (now_s + SHUNNED_S, SHUNNED_S)
            return
        self._shunned.pop(key, None)
        self.programs[key] = Watched(program, now_s)
        self.came += 1
