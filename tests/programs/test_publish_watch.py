# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-subscribe --watch over memif: the publisher tells when there is something, and until then
nothing is read."""

import signal
import struct

import support
from publish_support import PublishTest
from support import LIMIT_S, PATIENT, wait_until

# Behind the magic number and the version.
WATCH, CHANGED = 8, 9
MODES = {'poll': (), 'watch': ('--watch',)}


def watches(packets):
    """Of each packet what it has to do with watching: ('watch' or 'changed', tail), ('read', None),
    or nothing."""
    for packet in packets:
        if packet.info.kind == 'read' and packet.info.is_request:
            yield 'read', None
            continue
        at = packet.data.find(b'PS\x01') if packet.info.kind == 'send' else -1
        if at >= 0 and packet.data[at + 3] in (WATCH, CHANGED):
            # The store, then its epoch and position.
            tail = struct.unpack_from('>HQQ', packet.data, at + 4)
            yield 'watch' if packet.data[at + 3] == WATCH else 'changed', tail


class Watch(PublishTest):
    """The publisher is at port 0 of the switch, subscribers at the others."""

    def check_watching(self, capture):
        """From a watch until another tail is told there is no READ. Returns how many of each."""
        known = None
        counts = {'watch': 0, 'read': 0, 'news': 0, 'sign of life': 0}
        for kind, tail in watches(support.roce_packets(capture)):
            if kind == 'read':
                self.assertIsNone(known, 'a READ while the publisher watches')
                counts['read'] += 1
            elif kind == 'watch':
                known = tail
                counts['watch'] += 1
            else:
                counts['sign of life' if tail == known else 'news'] += 1
                # It asks again before it does anything else.
                known = tail if tail == known else None
        return counts

    def test_nothing_is_read_while_nothing_comes(self):
        """PB-29, PB-8: a message at a time, and READs only when there is one."""
        for transport in ('rc', 'dc'):
            with self.subTest(transport=transport):
                self.start_switch(2)
                data = b'one\ntwo\nthree\nfour\n'
                capture = self.lab.path(f'{transport}.pcapng')
                # So slow that there are heart-beats between two messages, and so patient that a
                # busy machine is not taken for a dead publisher.
                publisher, port = self.publisher(
                    '--transport', transport, '--rate', 1, '--heartbeat', 400, '--wait', 1,
                    '--input', f'lines:{self.write("in", data)}', '-u', 18)
                subscriber = self.subscriber(1, port, '--from', 'oldest', '--strict', '--watch',
                                             '-n', 4, '-u', 18, '--pcap', capture)
                self.assertEqual(self.output(self.finish(subscriber)), data)
                self.report(publisher)
                counts = self.check_watching(capture)
                self.assertGreaterEqual(counts['news'], 3)
                self.assertGreaterEqual(counts['sign of life'], 1)
                self.assertLessEqual(counts['read'], 5 * counts['news'] + 5)
                self.end_all()

    def test_both_get_the_same(self):
        """PB-19, PB-29: who polls and who watches, at full speed and on a bad network, conflated
        stores and others, until the publisher's end."""
        for transport in ('rc', 'dc'):
            with self.subTest(transport=transport):
                self.start_switch(3)
                data = self.lines(1000)
                prices = b''.join(b'key%d %d\n' % (i % 7, i) for i in range(100))
                publisher, port = self.publisher(
                    '--transport', transport, '--store', 'news=4MiB', '--wait', 2, *PATIENT,
                    '--store', 'prices=64KiB:conflated:keys=10', '--rate', 1500,
                    '--input', f'news=lines:{self.write("in", data)}',
                    '--input', f'prices=lines:{self.write("prices", prices)}')
                folders, subscribers = [], []
                for station, options in enumerate(MODES.values(), 1):
                    folder = self.lab.path(f'{transport}{station}')
                    folder.mkdir()
                    folders.append(folder)
                    subscribers.append(self.subscriber(
                        station, port, '--from', 'oldest', '--strict', '--output', folder, *PATIENT,
                        *options, '--faults', 'loss=1%,dup=1%,reorder=1%:1ms'))
                for subscriber in subscribers:
                    self.finish(subscriber)
                for folder in folders:
                    self.assertEqual((folder / 'news.txt').read_bytes(), data)
                    # Of each key the last; before it any of the earlier ones, in order.
                    lines = (folder / 'prices.txt').read_bytes().splitlines()
                    last = dict(line.split() for line in lines)
                    self.assertEqual(last, {b'key%d' % (i % 7): b'%d' % i for i in range(93, 100)})
                self.report(publisher)
                self.end_all()

    def check_stopped_publisher(self, transport):
        self.start_switch(3)
        source = self.write('in', b'1\n')
        publisher, port = self.publisher('--input', f'lines:{source}', '--follow', '-u', 20,
                                         '--transport', transport)
        # READs go on waiting for an answer for longer than the publisher stands still.
        subscribers = [self.subscriber(station, port, '--from', 'oldest', '-u', 20, *options)
                       for station, options in enumerate(MODES.values(), 1)]
        for subscriber in subscribers:
            wait_until(lambda s=subscriber: self.output(s) == b'1\n', LIMIT_S, 'all has come')
        publisher.child.send_signal(signal.SIGSTOP)
        for subscriber in subscribers:
            self.wait_for(subscriber, 'default: the publisher gives no sign of life')
        publisher.child.send_signal(signal.SIGCONT)
        for subscriber in subscribers:
            self.wait_for(subscriber, 'default: the publisher is there again')
        with source.open('ab') as file:
            file.write(b'2\n')
        for subscriber in subscribers:
            wait_until(lambda s=subscriber: self.output(s) == b'1\n2\n', LIMIT_S, 'all has come')
        publisher.child.send_signal(signal.SIGTERM)
        for subscriber in subscribers:
            self.finish(subscriber)
        self.report(publisher)

    def test_a_stopped_publisher_is_noticed(self):
        """PB-19: no heart-beat, and one again, for who polls and for who watches."""
        self.check_stopped_publisher('rc')

    def test_a_stopped_publisher_is_noticed_with_dynamic_connections(self):
        """PB-19: likewise."""
        self.check_stopped_publisher('dc')

    def test_access_that_is_taken_back(self):
        """PB-25: who waits is told."""
        self.start_switch(2)
        policy = self.write('policy.json', b'{"everyone": ["news"]}')
        policy.chmod(0o600)
        publisher, port = self.publisher('--store', 'news=64KiB', '--policy', policy, '--stay',
                                         '--input', f'lines:{self.write("in", b"1")}')
        subscriber = self.subscriber(1, port, '--from', 'oldest', '--store', 'news', '--watch')
        wait_until(lambda: self.output(subscriber) == b'1\n', LIMIT_S, 'the message')
        policy.write_bytes(b'{"everyone": []}')
        publisher.child.send_signal(signal.SIGHUP)
        self.assert_failed(subscriber, 'news: the publisher has taken the access back')
        publisher.child.send_signal(signal.SIGTERM)
        self.report(publisher)


if __name__ == '__main__':
    support.main()
