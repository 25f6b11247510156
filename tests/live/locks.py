# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the live tests of locks share: a target and initiators at the ports of an rh-switch, each of
two processes (lock-node): the application, and the engine, which has the port and the transport."""

import collections
import json
import os
import struct

import live
from live import LIMIT_S, PATIENT_OF_LINK, wait_until

LOCK_NODE = os.environ.get('ROCKHOPPER_LOCK_NODE', live.LIVE / 'lock-node')
# As in lock_node.h.
_RECORD = struct.Struct('<QQQ')
_SLOTS = 1000
_ENTRY = struct.Struct('<IIQQ')
_LOG = 8 + 4 * _SLOTS
_SUCCESS = 0

Entry = collections.namedtuple('Entry', 'record outcome found token')


class Word:
    """docs/wire.md, "Locks": a native lock word."""

    def __init__(self, value):
        self.generation, self.state = value >> 40, value >> 36 & 15
        self.owner = value >> 16 & 0xffff

    @property
    def holder(self):
        """The name of the initiator that holds it; None: nobody."""
        return self.owner >> 8 if self.state == 1 else None


Record = collections.namedtuple('Record', 'word first last data')


class Journal:
    """What became of an initiator's scopes, as far as its application has come to know."""

    def __init__(self, path):
        data = path.read_bytes()
        count = struct.unpack_from('<Q', data)[0]
        self.entries = [Entry(*fields)
                        for fields in _ENTRY.iter_unpack(data[_LOG:_LOG + count * _ENTRY.size])]
        slots = struct.unpack_from(f'<{_SLOTS}I', data, 8)
        self.on_its_way = collections.Counter(slot - 1 for slot in slots if slot)

    @property
    def successes(self):
        return [entry for entry in self.entries if entry.outcome == _SUCCESS]

    @staticmethod
    def length(path):
        """Of one that is being written."""
        if not path.exists() or path.stat().st_size < 8:
            return 0
        with path.open('rb') as file:
            return struct.unpack('<Q', file.read(8))[0]


class Node:
    """The two processes; `process` is the application."""

    def __init__(self, process, introduction, journal=None):
        self.process, self.introduction, self.journal = process, introduction, journal
        self.application, self.engine = process.child.pid, introduction['engine']


def state_of(pid):
    """As ps has it: T is stopped."""
    with open(f'/proc/{pid}/stat', encoding='ascii') as stat:
        return stat.read().rsplit(')', 1)[1].split()[0]


class LocksTest(live.LiveTest):
    def start_node(self, name, *arguments):
        process = self.lab.start(name, [LOCK_NODE, *arguments, *PATIENT_OF_LINK,
                                        '--seed', self.random.getrandbits(32)])
        wait_until(lambda: self.runs(process) and process.output().endswith('\n'), LIMIT_S,
                   f'{name} is ready')
        return process, json.loads(process.output().splitlines()[0])

    def start_target(self, *options):
        self.memory = self.lab.path(self.lab.unique('memory'))
        self.target = Node(*self.start_node('target', 'target', *self.station(0), '--memory',
                                            self.memory, *options))
        return self.target

    def start_initiator(self, port, *options):
        """Its name is the port's number."""
        journal = self.lab.path(self.lab.unique('journal'))
        return Node(*self.start_node(f'initiator{port}', 'initiator', *self.station(port),
                                     '--peer', self.target.process.out, '--journal', journal,
                                     '--name', port, *options), journal=journal)

    def records(self):
        """The target's memory."""
        data, stride = self.memory.read_bytes(), self.target.introduction['stride']
        for at in range(0, len(data), stride):
            word, first, last = _RECORD.unpack_from(data, at)
            yield Record(Word(word), first, last, data[at + 64:at + stride])

    def holders(self):
        return {record.word.holder for record in self.records()} - {None}
