# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-publish is killed and started again, all the time: its subscribers come back by themselves,
and get every message once and in order. ROCKHOPPER_RESTARTS is how often."""

import collections
import json
import os
import signal
import struct

import support
from publish_support import PublishTest
from support import LIMIT_S, PATIENT, wait_until

RESTARTS = int(os.environ.get('ROCKHOPPER_RESTARTS', '4'))
# Of each incarnation, in each store.
MESSAGES = 1500
RATE = 1000


class Received:
    """What a subscriber has written so far, as JSON objects."""

    def __init__(self, process):
        self.process = process
        self.objects = collections.defaultdict(list)
        self.taken = 0

    def update(self):
        data = self.process.out.read_bytes()
        end = data.rfind(b'\n') + 1
        for line in data[self.taken:end].splitlines():
            item = json.loads(line)
            self.objects[item['store']].append(item)
        self.taken = max(self.taken, end)

    def count(self, store, incarnation):
        """Messages of that incarnation, which are the last ones."""
        self.update()
        prefix = f'{incarnation} '
        count = 0
        for item in reversed(self.objects[store]):
            if not item.get('text', '').startswith(prefix):
                break
            count += 1
        return count


def stored(path):
    """The messages of a store's file, (sequence, payload), by its layout. The ring has not gone
    around."""
    data = path.read_bytes()
    magic, ring, tail, tail_sequence, head = struct.unpack_from('<4s12xQQQQ', data, 0)
    if magic != b'RHPS' or head != 0 or tail > ring:
        raise ValueError(f'{path} is not as expected: {magic}, {head}, {tail}')
    position, messages = 0, []
    while position < tail:
        at = 64 + position
        begin, sequence, _, length = struct.unpack_from('<QQII', data, at)
        if begin != position:
            raise ValueError(f'{path} has no record at {position}')
        messages.append((sequence, data[at + 40:at + 40 + length]))
        position += (40 + length + 8 + 31) // 32 * 32
    if len(messages) != tail_sequence:
        raise ValueError(f'{path} has {len(messages)} records, not {tail_sequence}')
    return messages


class Restarts(PublishTest):
    """The publisher is at port 0 of the switch, subscribers at the others."""

    def start_publisher(self, incarnation, port, *arguments):
        lines = ''.join(f'{incarnation} {number}\n' for number in range(MESSAGES))
        source = self.write(f'in{incarnation}', lines.encode())
        inputs = [argument for store in ('file', 'plain')
                  for argument in ('--input', f'{store}=lines:{source}')]
        process = self.start('rh-publish', *self.station(0), '-p', port, '--json', '--stay',
                             '--rate', RATE, *arguments, *inputs)
        return process, wait_until(lambda: support.listening_port(process), LIMIT_S,
                                   'rh-publish listens')

    def kill_at_some_time(self, publisher, received, incarnation):
        """At once, or when a subscriber has so many messages of a store."""
        wanted = self.random.choice([0, 1, self.random.randrange(MESSAGES)])
        store = self.random.choice(['file', 'plain'])
        subscriber = self.random.choice(received)

        def is_time():
            self.assertFalse(subscriber.process.has_ended(), subscriber.process.messages())
            self.assertFalse(publisher.has_ended(), publisher.messages())
            return subscriber.count(store, incarnation) >= wanted
        wait_until(is_time, LIMIT_S, f'{wanted} messages of {store}, incarnation {incarnation}')
        publisher.child.kill()
        publisher.child.wait()

    def check_file_store(self, objects, messages):
        """All that was ever published, once and in order; its numbers go on."""
        self.assertEqual([(item['seq'], item['text'].encode()) for item in objects], messages)
        self.assertEqual([sequence for sequence, _ in messages], list(range(len(messages))))
        self.assertEqual(len({item['epoch'] for item in objects}), 1)
        before = (-1, MESSAGES)
        for _, text in messages:
            incarnation, number = map(int, text.split())
            if incarnation == before[0]:
                self.assertEqual(number, before[1] + 1)
            else:
                self.assertGreater(incarnation, before[0])
                self.assertEqual(number, 0)
            before = incarnation, number

    def check_plain_store(self, objects):
        """Each incarnation is an epoch of its own: from its beginning, whole as far as it was read,
        and none comes back."""
        before = None
        for item in objects:
            incarnation, number = map(int, item['text'].split())
            self.assertEqual(item['seq'], number)
            if before and item['epoch'] == before[0]:
                self.assertEqual((incarnation, number), (before[1], before[2] + 1))
            else:
                self.assertEqual(number, 0)
                self.assertGreater(incarnation, before[1] if before else -1)
            before = item['epoch'], incarnation, number
        epochs = [item['epoch'] for item in objects]
        changes = sum(a != b for a, b in zip(epochs, epochs[1:]))
        self.assertEqual(changes, len(set(epochs)) - 1)

    def check_restarts(self, transport):
        self.start_switch(3)
        path = self.lab.path(f'{transport}.store')
        arguments = ('--transport', transport, '--store', f'file=4MiB:file={path}', '--store',
                     'plain=4MiB', *PATIENT)
        publisher, port = self.start_publisher(0, 0, *arguments)
        received = [Received(self.subscriber(
            station, port, '--from', 'oldest', '--strict', '--format', 'json', *PATIENT,
            '--connect-timeout', LIMIT_S, *options))
            for station, options in ((1, ()), (2, ('--watch',)))]
        for subscriber in received:
            wait_until(lambda s=subscriber: s.count('file', 0) + s.count('plain', 0) > 0, LIMIT_S,
                       'the first message')
        for incarnation in range(RESTARTS):
            self.kill_at_some_time(publisher, received, incarnation)
            publisher, _ = self.start_publisher(incarnation + 1, port, *arguments)
        for subscriber in received:
            for store in ('file', 'plain'):
                wait_until(lambda s=subscriber, n=store: s.count(n, RESTARTS) == MESSAGES, LIMIT_S,
                           f'all of {store} has come')
        publisher.child.send_signal(signal.SIGTERM)
        report = self.report(publisher)
        messages = stored(path)
        self.assertEqual(report['stores']['file']['next'], len(messages))
        for subscriber in received:
            self.finish(subscriber.process)
            subscriber.update()
            self.check_file_store(subscriber.objects['file'], messages)
            self.check_plain_store(subscriber.objects['plain'])

    def test_killed_and_started_again(self):
        """PB-19, PB-27, PB-29: who polls and who watches comes back, misses nothing that is still
        there, and mixes nothing."""
        self.check_restarts('rc')

    def test_killed_and_started_again_with_dynamic_connections(self):
        """PB-19, PB-27, PB-29: likewise."""
        self.check_restarts('dc')


if __name__ == '__main__':
    support.main()
