#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A subscriber of rh-publish that is made of libibverbs and docs/publisher.md alone, over Soft-RoCE in
the guest, beside rh-subscribe. What the publisher sends is judged by the independent checker and by
tshark."""

import contextlib
import hashlib
import json
import os
import random
import re
import signal
import struct
import unittest

import lab
from testing.standstill import RepeatedTest

SEED = int(os.environ.get('ROCKHOPPER_SEED', str(random.SystemRandom().randrange(1 << 32))), 0)
OTHER_ADDRESSES = ('10.42.0.3', 'fd42::3')
SECRETS = {'ann': 'the secret of ann, 1', 'ben': 'the secret of ben, 2'}
RINGS = {'news': 1 << 20, 'b': 1 << 16}
NOT_AUTHORISED, LAYOUT = 2, 3  # of docs/publisher.md

_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module('tests/interop/verbs_subscriber')


def as_records(messages):
    """As rh-publish takes records, and as rh-subscribe writes them."""
    return b''.join(struct.pack('<I', len(message)) + message for message in messages)


def digest(messages):
    return hashlib.sha256(as_records(messages)).hexdigest()


class VerbsSubscriber(RepeatedTest):
    maxDiff = None

    def setUp(self):
        self.random = random.Random(SEED)
        print(f'seed: repeat with ROCKHOPPER_SEED={SEED}', flush=True)
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.stack.enter_context(_lab.switch(2))

    def messages(self, count, longest):
        return [self.random.randbytes(self.random.randrange(longest)) for _ in range(count)]

    def write(self, name, data):
        path = os.path.join(_lab.folder, name)
        with open(path, 'wb') as file:
            file.write(data)
        return path

    def policy(self, grants):
        """A file that takes another one's place at once."""
        subscribers = [{'name': name, 'secret': SECRETS[name], 'stores': stores}
                       for name, stores in grants.items()]
        fresh = self.write('policy.new', json.dumps({'subscribers': subscribers}).encode())
        os.chmod(fresh, 0o600)
        path = os.path.join(_lab.folder, 'policy.json')
        os.rename(fresh, path)
        return path

    def publisher(self, *arguments):
        """The publisher of two stores and its TCP port."""
        stores = [word for name, size in RINGS.items() for word in ('--store', f'{name}={size}')]
        process = self.stack.enter_context(
            _lab.station(1, 'apps/rh-publish', '-p', 0, '-m', 1024, '--linger', lab.DEADLINE_S,
                         *stores, *arguments))
        found = process.wait_for(
            lambda: re.search(r'listening on TCP port (\d+)\n', process.err.read_text()))
        return process, int(found[1])

    def in_guest(self, port, *options, family=4):
        return _lab.run_in_guest(
            f'verbs_subscriber -d rxe0 --address {lab.GUEST_ADDRESSES[family]} -p {port} '
            f'{" ".join(options)} 10.0.2.2')

    def identity(self, name):
        return '--name', name, '--secret', f"'{SECRETS[name]}'"

    def succeed(self, subscriber, publisher):
        self.assertEqual(subscriber.finish(), 0, subscriber.said() + publisher.said())
        return lab.summary(subscriber.output())

    def fail_with(self, subscriber, why):
        self.assertEqual(subscriber.finish(), 1, subscriber.said())
        self.assertRegex(lab.summary(subscriber.output())['error'], why)

    def end(self, publisher):
        publisher.child.send_signal(signal.SIGTERM)
        self.assertEqual(publisher.wait(), 0, publisher.said())

    def test_the_same_digest(self):
        """PB-12, PB-3, PB-10: the same messages for verbs and for rh-subscribe, at the same time."""
        for family in lab.GUEST_ADDRESSES:
            with self.subTest(ip=family):
                # All of them fit, so that a slow machine loses none.
                messages = self.messages(300, 3000) + [b'', b'x', bytes(RINGS['news'] // 4)]
                source = self.write('in', as_records(messages))
                publisher, port = self.publisher('--input', f'news=records:{source}', '--wait', 2,
                                                 '--rate', 2000)
                verbs = self.in_guest(port, '--store', 'news', family=family)
                with _lab.station(2, 'apps/rh-subscribe', '-p', port, '--store', 'news',
                                  '--from', 0, '--format', 'records', '--strict', 'localhost',
                                  addresses=OTHER_ADDRESSES) as ours:
                    self.assertEqual(ours.wait(), 0, ours.said() + publisher.said())
                    expected = hashlib.sha256(ours.out.read_bytes()).hexdigest()
                summary = self.succeed(verbs, publisher)
                self.assertEqual((summary['digest'], summary['lost']), (expected, []))
                self.assertEqual(expected, digest(messages))
                self.assertEqual(publisher.wait(), 0, publisher.said())
                self.assertEqual(_lab.judge('--memory-changes'), '')

    def test_what_is_lost_is_known_exactly(self):
        """PB-5, PB-12, PB-20, PB-21: a ring that overtakes its reader, so that READs are torn."""
        messages = self.messages(20000, 200)
        source = self.write('in', as_records(messages))
        publisher, port = self.publisher('--input', f'b=records:{source}', '--wait', 1,
                                         '--rate', 20000)
        verbs = self.in_guest(port, '--store', 'b', '--pause', '50')
        summary = self.succeed(verbs, publisher)
        self.assertEqual(publisher.wait(), 0, publisher.said())
        lost = {number for first, last in summary['lost'] for number in range(first, last + 1)}
        self.assertGreater(len(lost), 0)
        self.assertEqual(summary['messages'] + len(lost), len(messages))
        self.assertEqual(summary['digest'],
                         digest([m for number, m in enumerate(messages) if number not in lost]))
        self.assertEqual(_lab.judge('--memory-changes'), '')

    def test_who_may_read(self):
        """PB-9, PB-12, PB-30: names that are proved, stores and layouts that are refused."""
        message = self.messages(1, 100)
        source = self.write('in', as_records(message))
        policy = self.policy({'ann': ['news'], 'ben': ['*']})
        publisher, port = self.publisher('--input', f'news=records:{source}', '--policy', policy,
                                         '--stay')
        for options, why in (
                (('--store', 'b', *self.identity('ann')), f'refused: {NOT_AUTHORISED}'),
                (('--store', 'news', '--layout-version', '2', *self.identity('ann')),
                 f'refused: {LAYOUT}'),
                (('--store', 'news', '--name', 'ann', '--secret', SECRETS['ben'].split()[0]),
                 'name or secret'),
                (('--store', 'news'), f'refused: {NOT_AUTHORISED}')):
            with self.subTest(options=options):
                self.fail_with(self.in_guest(port, *options), why)
        verbs = self.in_guest(port, '--store', 'news', '--count', '1', *self.identity('ben'))
        self.assertEqual(self.succeed(verbs, publisher)['digest'], digest(message))
        self.end(publisher)
        self.assertEqual(_lab.judge('--memory-changes'), '')

    def test_revocation(self):
        """PB-12, PB-25: of two verbs programs one loses its access, and the other goes on."""
        messages = self.messages(200, 1000)
        source = self.write('in', as_records(messages[:100]))
        policy = self.policy({'ann': ['news'], 'ben': ['news']})
        publisher, port = self.publisher('--input', f'news=records:{source}', '--follow',
                                         '--policy', policy, '--wait', 2)
        ann, ben = (self.in_guest(port, '--store', 'news', '--count', str(len(messages)),
                                  *self.identity(name)) for name in SECRETS)
        for name in SECRETS:
            publisher.wait_for(lambda n=name: f'{n}: granted news' in publisher.err.read_text())
        self.policy({'ann': [], 'ben': ['news']})
        publisher.child.send_signal(signal.SIGHUP)
        self.fail_with(ann, 'taken back|rem_access_err')
        with open(source, 'ab') as file:
            file.write(as_records(messages[100:]))
        summary = self.succeed(ben, publisher)
        self.assertEqual((summary['digest'], summary['lost']), (digest(messages), []))
        self.end(publisher)
        self.assertEqual(_lab.judge('--memory-changes'), '')


if __name__ == '__main__':
    unittest.main(verbosity=2)
