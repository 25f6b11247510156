#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Processes of one device harm no others: they are killed, stopped, leave without a word, write into
what they share, or find no memory. 4 rounds with 8 processes each (ROCKHOPPER_HARM_ROUNDS; 1,000 with
ROCKHOPPER_SOAK=1), 20,000 frames and writes of a hostile neighbour (10^6 with ROCKHOPPER_SOAK=1)."""

import fcntl
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from verbs_support import ENGINE, PROGRAMS, RH_RUN, ROOT, SOAK, clean_environment

sys.path.insert(0, str(ROOT / 'scripts'))

from testing.segment_table import (  # noqa: E402 (needs the path above)
    OWNERS_AT, SLOT_BYTES, SLOTS, SLOTS_AT, TABLE_BYTES, TALLIES_AT)

ROUNDS = int(os.environ.get('ROCKHOPPER_HARM_ROUNDS', 1000 if SOAK else 4))
HOSTILE = 10**6 if SOAK else 20_000
SEED = int(os.environ.get('ROCKHOPPER_SEED', random.SystemRandom().getrandbits(32)))
HARM_PEER = os.environ.get('ROCKHOPPER_HARM_PEER', 'build/tests/verbs/harm-peer')
HOSTILE_NEIGHBOUR = os.environ.get('ROCKHOPPER_HOSTILE_NEIGHBOUR', 'build/tests/verbs/hostile-neighbour')
LIMIT_S = 120
PAIRS = 3  # queue pairs of a process
# Local ACK timeouts. With all retries 0.5 s, after which a dead peer is noticed, and half a minute,
# which outlasts any wait for a processor.
IMPATIENT, PATIENT = 14, 20


class Peer:
    """A process of harm_peer. Its lines are read by a thread, so that nobody waits for ever."""

    def __init__(self, test, *arguments, prefix=(), **settings):
        environment = clean_environment(XDG_RUNTIME_DIR=str(test.runtime),
                                        ROCKHOPPER_SEGMENT=str(test.segment),
                                        ROCKHOPPER_ADDRESSES='192.0.2.1/24', **settings)
        self.child = subprocess.Popen(
            [str(part) for part in (*prefix, RH_RUN, '--', HARM_PEER, *arguments)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.errors = ''
        self.changed = threading.Condition()
        self.ended = 0
        self.readers = [threading.Thread(target=reader) for reader in (self.read, self.read_errors)]
        for reader in self.readers:
            reader.start()

    def read(self):
        with self.child.stdout:
            for line in self.child.stdout:
                with self.changed:
                    self.lines.append(line.strip())
                    self.changed.notify_all()
        self.at_end()

    def read_errors(self):
        with self.child.stderr:
            self.errors = self.child.stderr.read()
        self.at_end()

    def at_end(self):
        with self.changed:
            self.ended += 1
            self.changed.notify_all()

    def line(self, number):
        """Waits for the line; None if it has ended without."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.lines) > number or self.ended == 2, LIMIT_S):
                raise AssertionError(f'{self.child.args} hangs behind {self.lines}')
            return self.lines[number] if len(self.lines) > number else None

    def say(self, text):
        try:
            self.child.stdin.write(text + '\n')
            self.child.stdin.flush()
        except BrokenPipeError:
            pass

    def numbers(self):
        line = self.line(0)
        assert line is not None, f'{self.child.args} has ended: {self.errors}'
        return line.split()

    def end(self):
        """Lets it end; its exit status."""
        self.say('')
        self.close_input()
        return self.status()

    def close_input(self):
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass

    def status(self):
        """Its exit status. Nothing of it is left open: a thousand rounds have ten thousand peers."""
        status = self.child.wait(LIMIT_S)
        self.close_input()
        for reader in self.readers:
            reader.join(LIMIT_S)
        return status

    def clean_up(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.close_input()
        for reader in self.readers:
            reader.join()


class Harm(unittest.TestCase):
    def setUp(self):
        if not ENGINE.exists():
            self.skipTest('there is no engine library')
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runtime = pathlib.Path(folder.name)
        self.segment = pathlib.Path(tempfile.mkdtemp(prefix='rockhopper-harm-', dir='/dev/shm'))
        self.addCleanup(shutil.rmtree, self.segment, ignore_errors=True)
        self.random = random.Random(SEED)

    def start(self, *arguments, **more):
        peer = Peer(self, *arguments, **more)
        self.addCleanup(peer.clean_up)
        return peer

    def look(self):
        """Somebody comes, which cleans up after the dead, and leaves."""
        peer = self.start(0, 0, IMPATIENT, 'poll')
        self.begin([peer])
        self.assertEqual((peer.end(), peer.errors), (0, ''))

    def assert_as_before(self):
        self.look()
        self.assertEqual(sorted(os.listdir(self.segment)), ['table'])
        table = (self.segment / 'table').read_bytes()
        self.assertEqual(len(table), TABLE_BYTES)
        for slot in range(SLOTS):
            generation, _, sleep, process = struct.unpack_from('=4I', table, SLOTS_AT + slot * SLOT_BYTES)
            self.assertEqual((generation % 2, sleep, process), (0, 0, 0), f'slot {slot} is in use')
        self.assertEqual(table[OWNERS_AT:TALLIES_AT], bytes(TALLIES_AT - OWNERS_AT), 'somebody has numbers or services')
        used = os.stat(self.segment / 'table').st_blocks * 512
        self.assertLess(used, TABLE_BYTES + 2 * 4096)

    def introduce(self, ends):
        """Connects each queue pair of the one with that of the other; all are ready then."""
        numbers = [peer.numbers() for peer in ends]
        for peer, others in zip(ends, reversed(numbers)):
            peer.say(' '.join(others))
        for peer in ends:
            self.assertEqual(peer.line(1), 'ready', peer.errors)

    def begin(self, peers):
        for peer in peers:
            peer.say('')

    def start_pair(self, messages, timeout, fate=None, **settings):
        """Two peers that are ready; the first one's fate is that."""
        ends = [self.start(PAIRS, messages, timeout, self.random.choice(('poll', 'events')),
                           *(('exit',) if fate == 'exit' and i == 0 else ()), **settings)
                for i in range(2)]
        self.introduce(ends)
        return ends

    def assert_ended(self, peer, verdicts):
        """It tells how its run ended, and then ends well itself."""
        verdict = peer.line(2)
        self.assertRegex(verdict or 'nothing', verdicts, peer.errors)
        status = peer.end()
        self.assertEqual((status, peer.errors), (0, ''))

    def test_processes_that_die_stand_still_or_leave(self):
        for number in range(ROUNDS):
            with self.subTest(round=number, seed=SEED):
                self.one_round()

    def one_round(self):
        fates = ['none', *self.random.choices(('kill', 'stop', 'exit'), k=3)]
        pairs = [(fate, self.start_pair(300, PATIENT if fate == 'none' else IMPATIENT, fate))
                 for fate in fates]
        self.begin([peer for _, pair in pairs for peer in pair])
        victims = [(fate, pair[0]) for fate, pair in pairs if fate in ('kill', 'stop')]
        self.random.shuffle(victims)
        for fate, victim in victims:
            time.sleep(self.random.uniform(0, 0.05))  # anywhere in its run
            victim.child.send_signal(signal.SIGKILL if fate == 'kill' else signal.SIGSTOP)
        time.sleep(self.random.uniform(0, 10 if SOAK and self.random.random() < 0.05 else 1))
        for fate, victim in victims:
            if fate == 'stop':
                victim.child.send_signal(signal.SIGCONT)
        failure = r'^error transport retry counter exceeded$'
        for fate, (first, second) in pairs:
            if fate == 'none':
                self.assertEqual([first.line(2), second.line(2)], ['done', 'done'])
                self.assert_ended(first, '^done$')
                self.assert_ended(second, '^done$')
            elif fate == 'stop':
                # Either has it noticed or not.
                self.assertIsNotNone(first.line(2))
                self.assert_ended(second, rf'^done$|{failure}')
                self.assert_ended(first, rf'^done$|{failure}')
            else:
                self.assert_ended(second, rf'^done$|{failure}')
                self.assertEqual(first.status(), -signal.SIGKILL if fate == 'kill' else 0)
        self.assert_as_before()

    def run_neighbour(self, what):
        done = subprocess.run([HOSTILE_NEIGHBOUR, self.segment, what, str(HOSTILE), str(SEED)],
                              timeout=10 * LIMIT_S, check=False, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ''), f'seed {SEED}')
        return done.stdout

    def test_frames_of_a_hostile_neighbour(self):
        """Their ICRC is wrong, so they change nothing."""
        pairs = [self.start_pair(300, PATIENT) for _ in range(2)]
        peers = [peer for pair in pairs for peer in pair]
        self.begin(peers)
        self.assertRegex(self.run_neighbour('frames'), r'^\d{3,} frames')
        for peer in peers:
            self.assertEqual(peer.line(2), 'done', f'seed {SEED}')
        self.assert_ended(peers[0], '^done$')
        for peer in peers[1:]:
            self.assert_ended(peer, '^done$')
        self.assert_as_before()

    def damage(self, **settings):
        """Peers that a neighbour has harmed while they talked."""
        pairs = [self.start_pair(3000, IMPATIENT, **settings) for _ in range(2)]
        peers = [peer for pair in pairs for peer in pair]
        self.begin(peers)
        self.run_neighbour('damage')
        self.assert_watchers_survive()
        return peers

    def test_damage_in_shared_memory(self):
        """Nobody crashes or hangs, and no message is wrong, whatever becomes of the runs; who comes
        later says in one line what is wrong, or works."""
        peers = self.damage(ROCKHOPPER_ICRC='always')
        for peer in peers:
            self.assertRegex(peer.line(2) or 'nothing', r'^done$|^error ', f'seed {SEED}: {peer.errors}')
        for peer in peers:
            self.assertEqual(peer.end(), 0, f'seed {SEED}: {peer.errors}')
        with open(self.segment / 'table', 'r+b') as table:
            table.write(b'garbage!')
            table.flush()
            # A program of another version has the place of a slot.
            fcntl.fcntl(table, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 3, 1, 0))
            late = self.start(1, 1, IMPATIENT, 'poll')
            self.assertEqual(late.status(), 3)
            self.assertRegex(late.errors, r'^rockhopper: cannot open rh0: .*/table is not a table of this '
                             r'version: end the programs that use it\n')
        environment = clean_environment(XDG_RUNTIME_DIR=str(self.runtime), ROCKHOPPER_SEGMENT=str(self.segment))
        subprocess.run([RH_RUN, 'ibv_devinfo'], env=environment, check=True, timeout=LIMIT_S,
                       stdout=subprocess.DEVNULL)

    def test_damage_without_icrc(self):
        """Nobody notices damage of what is under way, and nobody crashes."""
        for peer in self.damage():
            if peer.child.poll() is None:
                peer.child.terminate()
                self.assertEqual(peer.status(), -signal.SIGTERM, f'seed {SEED}: {peer.errors}')
            else:
                self.assertRegex(peer.errors, r'^message \d+ is wrong\n$', f'seed {SEED}')

    def assert_watchers_survive(self):
        """Who looks at the device gets numbers and a list, whatever they are, and lines."""
        environment = clean_environment(XDG_RUNTIME_DIR=str(self.runtime), ROCKHOPPER_SEGMENT=str(self.segment))
        for command in ((PROGRAMS / 'rh-stats', '--resources', 'all'),
                        (RH_RUN, 'cat', '/sys/class/infiniband/rh0/ports/1/counters/port_xmit_packets')):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                                  timeout=LIMIT_S)
            self.assertIn(done.returncode, (0, 1), f'seed {SEED}: {done.stderr}')
            for line in done.stderr.splitlines():
                self.assertRegex(line, '^rh-stats: ', f'seed {SEED}')
        self.assertRegex(done.stdout, r'^\d+\n$')

    def in_small_memory(self, size):
        """A command's beginning by which it has that much shared memory; with others of the test."""
        for unshare in (('unshare', '--mount'), ('unshare', '--user', '--map-root-user', '--mount')):
            prefix = (*unshare, 'sh', '-c',
                      f'mount -t tmpfs -o size={size},mode=700 none "$0" && exec "$@"', self.segment)
            if subprocess.run([*prefix, 'true'], capture_output=True, check=False).returncode == 0:
                return prefix
        self.skipTest('no file system can be mounted, not even in a namespace')

    def test_no_memory_for_the_table(self):
        peer = self.start(1, 1, IMPATIENT, 'poll', prefix=self.in_small_memory('16k'))
        self.assertEqual(peer.status(), 3)
        self.assertRegex(peer.errors, r'^rockhopper: cannot open rh0: no memory for .*/table: No space left '
                         r'on device; see df -h /dev/shm, or set ROCKHOPPER_SEGMENT\n')

    def start_in_small_memory(self, size, count, *arguments):
        """Processes that share it: the shell that mounts it starts them all. Their streams would be
        one, so a process holds the namespace and the others enter it."""
        holder = subprocess.Popen([*self.in_small_memory(size), 'sh', '-c', 'echo; read _'],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.communicate, '\n')
        self.assertEqual(holder.stdout.readline(), '\n')
        enter = ['nsenter', '--target', str(holder.pid), '--mount']
        if subprocess.run([*enter, 'true'], capture_output=True, check=False).returncode != 0:
            enter[-1:] = ['--user', '--preserve-credentials', '--mount']
        return [self.start(*arguments, prefix=enter) for _ in range(count)]

    def test_no_memory_for_a_lane(self):
        beside_the_table = 14  # pages: too few for two lanes
        memory = f'{(-(-TABLE_BYTES // 4096) + beside_the_table) * 4}k'
        first, second = self.start_in_small_memory(memory, 2, 1, 3, IMPATIENT, 'poll')
        self.introduce((first, second))
        self.begin((first, second))
        for peer in (first, second):
            self.assertEqual(peer.line(2), 'error transport retry counter exceeded')
        for peer in (first, second):
            self.assertEqual(peer.end(), 0)
            self.assertRegex(peer.errors, r'(?m)^.*segment: no memory for .*/lanes-\d-\d: No space left on '
                             r'device; see df -h /dev/shm, or set ROCKHOPPER_SEGMENT$')
            self.assertEqual(len(peer.errors.splitlines()), 1, peer.errors)

    def test_sixteen_processes_in_64_megabytes(self):
        count = 16
        peers = self.start_in_small_memory('64m', count, count - 1, 20, PATIENT, 'events')
        numbers = [peer.numbers() for peer in peers]
        for i, peer in enumerate(peers):
            # Of each other one the queue pair that is for this one.
            peer.say(' '.join(numbers[j][i - (i > j)] for j in range(count) if j != i))
        for peer in peers:
            self.assertEqual(peer.line(1), 'ready', peer.errors)
        self.begin(peers)
        for peer in peers:
            self.assertEqual(peer.line(2), 'done')
        for peer in peers:
            self.assertEqual((peer.end(), peer.errors), (0, ''))


if __name__ == '__main__':
    unittest.main(verbosity=2)
