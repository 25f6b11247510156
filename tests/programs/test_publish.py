# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-publish and rh-subscribe over memif: what is published is what is received, by whom may read
it, and what is lost is told exactly."""

import base64
import collections
import contextlib
import json
import re
import signal
import socket
import struct
import subprocess

import support
from publish_support import PublishTest
from support import LIMIT_S, LOSSY, wait_until

FAULTS = ('--faults', 'loss=1%,dup=1%,reorder=1%:1ms,corrupt=0.2%')
SECRETS = {'ann': 'the secret of ann, 1', 'ben': 'the secret of ben, 2', 'cas': 'the secret of cas'}

BAD_PUBLISH = [
    (['--store', 'news'], 'NAME=SIZE'),
    (['--store', '../x=64KiB'], '../x'),
    (['--store', 'news=63KiB'], 'power of two'),
    (['--store', 'news=1KiB'], 'power of two'),
    (['--store', 'news=many'], 'many'),
    (['--store', 'news=64KiB:keys=7'], 'keys'),
    (['--store', 'news=64KiB:conflated:keys=0'], 'keys=0'),
    (['--store', 'news=64KiB:durable'], 'durable'),
    (['--store', 'news=64KiB:conflated:file=x'], 'conflated'),
    (['--store', 'a=64KiB', '--store', 'a=64KiB'], 'a=64KiB'),
    (['--store', 'a=64KiB:file=x', '--store', 'b=64KiB:file=x'], 'has that file'),
    (['--store', 'a=64KiB', '--store', 'b=64KiB'], 'which store'),
    (['--input', 'c=lines'], 'no store c'),
    (['--input', 'words'], 'words'),
    (['--input', 'pcap'], 'pcap'),
    (['--input', 'lines', '--input', 'records'], 'standard input'),
    (['--input', 'lines', '--follow'], '--follow'),
    (['--key', 'bytes:0'], '--key'),
    (['--rate', '0'], '--rate'),
    (['-n', '0'], '--count'),
    (['--transport', 'ud'], '--transport'),
    (['--heartbeat', '0'], '--heartbeat'),
    (['-m', '1000'], '1000'),
    (['-m', '4096', '--link-mtu', '1500'], '--link-mtu'),
    (['nonsense'], 'nonsense'),
]
BAD_SUBSCRIBE = [
    ([], 'host'),
    (['--from', 'yesterday', 'localhost'], 'yesterday'),
    (['--from', '@1e', 'localhost'], '@1e'),
    (['--from', '2026-13-01T00:00:00', 'localhost'], '2026-13-01'),
    (['--store', 'a/b', 'localhost'], 'a/b'),
    (['--store', 'a', '--store', 'a', 'localhost'], 'twice'),
    (['--name', 'ann', 'localhost'], '--secret-file'),
    (['--secret-file', 'x', 'localhost'], '--name'),
    (['--name', 'ann', '--secret-file', '/nonexistent', 'localhost'], '/nonexistent'),
    (['--json', 'localhost'], '--output'),
    (['--output', '/nonexistent', 'localhost'], '/nonexistent'),
    (['--format', 'xml', 'localhost'], 'xml'),
    (['--poll-min', '5', '--poll-max', '1', 'localhost'], '--poll-min'),
    (['-n', '0', 'localhost'], '--count'),
    (['a', 'b'], 'b'),
]


class Publish(PublishTest):
    def test_three_subscribers_at_once(self):
        """PB-2, PB-3, PB-4, PB-7, PB-8, PB-10, PB-12: lines in are lines out, for each."""
        self.start_switch(4)
        data = self.lines(2000)
        publisher, port = self.publisher('--store', 'news=4MiB', '--input',
                                         f'lines:{self.write("in", data)}', '--wait', 3)
        subscribers = [self.subscriber(station, port, '--from', 'oldest', '--strict')
                       for station in (1, 2, 3)]
        for subscriber in subscribers:
            self.assertEqual(self.output(self.finish(subscriber)), data)
        report = self.report(publisher)
        self.assertEqual(report['stores']['news']['messages'], 2000)
        self.assertEqual(report['subscribers']['admitted'], 3)

    def test_near_and_far(self):
        """PB-18: one beside the publisher, one behind a path that loses, delays and reorders: the
        same bytes for both, by READs of each."""
        self.start_switch(3, '--faults', '2:loss=1%,dup=1%,reorder=2%:1ms,delay=2ms')
        data = self.lines(1000)
        publisher, port = self.publisher('--store', 'news=4MiB', '--input',
                                         f'lines:{self.write("in", data)}', '--wait', 2, *LOSSY,
                                         '--rate', 2000)
        captures = [self.lab.path(f'{station}.pcapng') for station in (1, 2)]
        subscribers = [self.subscriber(station, port, '--from', 'oldest', '--strict', *LOSSY,
                                       '--pcap', capture)
                       for station, capture in enumerate(captures, 1)]
        for subscriber in subscribers:
            self.assertEqual(self.output(self.finish(subscriber)), data)
        self.report(publisher)
        for capture in captures:
            reads = sum(packet.info.kind == 'read' and packet.info.is_request
                        for packet in support.roce_packets(capture))
            self.assertGreater(reads, 0)

    def test_records_over_dynamic_connections_and_a_bad_network(self):
        """PB-20, PB-28: bytes of any kind, on a network that loses, repeats and damages packets."""
        for transport in ('rc', 'dc'):
            with self.subTest(transport=transport):
                self.start_switch(2)
                data = b''
                for _ in range(500):
                    payload = self.random_bytes(self.random.randrange(2000))
                    data += struct.pack('<I', len(payload)) + payload
                publisher, port = self.publisher(
                    '--store', 'raw=2MiB', '--input', f'records:{self.write("in", data)}',
                    '--wait', 1, '--transport', transport, *LOSSY)
                subscriber = self.subscriber(1, port, '--from', 'oldest', '--format', 'records',
                                             '--strict', *LOSSY, *FAULTS)
                self.assertEqual(self.output(self.finish(subscriber)), data)
                self.assertEqual(self.report(publisher)['transport'], transport)
                self.end_all()

    def test_several_stores_into_files(self):
        """PB-2, PB-30: the directory, a file for each store, JSON that is lossless."""
        self.start_switch(2)
        contents = {'a': self.lines(50), 'b': self.lines(70)}
        arguments = []
        for store, data in contents.items():
            arguments += ['--store', f'{store}=1MiB', '--input',
                          f'{store}=lines:{self.write(store, data)}']
        publisher, port = self.publisher(*arguments, '--stay')
        listed = self.finish(self.subscriber(1, port, '--list', '--json'))
        stores = json.loads(listed.output())['stores']
        self.assertEqual(set(stores), {'a', 'b'})
        self.assertEqual(stores['a']['message_max'], (1 << 20) // 4)
        folder = self.lab.path('out')
        folder.mkdir()
        # As a process of the same station takes its place, each time.
        subscriber = self.subscriber(1, port, '--from', 'oldest', '--format', 'json', '-n', 120,
                                     '--output', folder, '--json')
        report = self.report(subscriber)
        for store, data in contents.items():
            text = (folder / f'{store}.jsonl').read_text(encoding='utf-8')
            objects = [json.loads(line) for line in text.split('\n')[:-1]]
            payloads = [base64.b64decode(item['base64']) if 'base64' in item
                        else item['text'].encode() for item in objects]
            self.assertEqual(b''.join(payload + b'\n' for payload in payloads), data)
            self.assertEqual([item['seq'] for item in objects], list(range(len(objects))))
            self.assertEqual(report['stores'][store]['lost'], 0)
        publisher.child.send_signal(signal.SIGTERM)
        self.report(publisher)

    def test_gaps_are_told_exactly(self):
        """PB-5, PB-20, PB-21: a subscriber that is much too slow gets some lines, and is told of
        all the others."""
        self.start_switch(2)
        count = 20000
        data = b''.join(b'%d %s\n' % (i, b'x' * 100) for i in range(count))
        publisher, port = self.publisher('--store', 'news=64KiB', '--wait', 1, '--rate', 20000,
                                         '--input', f'lines:{self.write("in", data)}')
        subscriber = self.subscriber(1, port, '--from', '0', '--reads-per-second', 20)
        self.finish(subscriber)
        self.report(publisher)
        received = [int(line.split()[0]) for line in self.output(subscriber).splitlines()]
        lost = [(int(first), int(last)) for first, last in
                re.findall(r'^news: lost (\d+)-(\d+)$', subscriber.messages(), re.MULTILINE)]
        self.assertGreater(len(lost), 0)
        covered = sorted([(i, i) for i in received] + lost)
        self.assertEqual(covered[0][0], 0)
        for (_, end), (begin, _) in zip(covered, covered[1:]):
            self.assertEqual(begin, end + 1)
        self.assertEqual(covered[-1][1], count - 1)

    def test_late_joiners(self):
        """PB-32: tail, oldest, a sequence number, a time."""
        self.start_switch(2)
        source = self.write('in', b''.join(b'%d\n' % i for i in range(10)))
        publisher, port = self.publisher('--store', 'news=64KiB', '--input', f'lines:{source}',
                                         '--follow')
        for start, first in (('oldest', 0), ('7', 7), ('1h', None), ('3600s', 0), ('@0', 0)):
            with self.subTest(start=start):
                if first is None:
                    self.assert_status(self.subscriber(1, port, '--from', start), 2)
                    continue
                subscriber = self.subscriber(1, port, '--from', start, '-n', 10 - first)
                self.assertEqual(self.output(self.finish(subscriber)),
                                 b''.join(b'%d\n' % i for i in range(first, 10)))
        subscriber = self.subscriber(1, port, '--from', 'tail', '-n', 1)
        self.wait_for(publisher, 'granted news', 5)
        # What it sees as the tail is not known from outside: one line after another, until it has one.
        def has_ended():
            with source.open('ab') as file:
                file.write(b'new\n')
            return subscriber.has_ended()
        wait_until(has_ended, LIMIT_S, 'a new line is received')
        self.assertEqual(self.output(self.finish(subscriber)), b'new\n')
        publisher.child.send_signal(signal.SIGINT)
        self.report(publisher)

    def policy(self, grants, **more):
        """Writes a policy file as an editor does."""
        subscribers = [{'name': name, 'secret': SECRETS[name], 'stores': stores}
                       for name, stores in grants.items()]
        path = self.lab.path('policy.json')
        fresh = self.lab.path('policy.new')
        fresh.write_text(json.dumps({'subscribers': subscribers, **more}))
        fresh.chmod(0o600)
        fresh.rename(path)
        return path

    def identity(self, name, secret=None):
        path = self.lab.path(f'{self.lab.unique(name)}.key')
        path.write_text((secret or SECRETS[name]) + '\n')
        return '--name', name, '--secret-file', path

    def test_revocation_at_run_time(self):
        """PB-9, PB-10, PB-25, PB-26: one of three loses its access while all read, and the others
        notice nothing."""
        self.start_switch(4)
        source = self.write('in', b'')
        policy = self.policy({'ann': ['news'], 'ben': ['news'], 'cas': ['*']})
        publisher, port = self.publisher('--store', 'news=1MiB', '--policy', policy, '--wait', 3,
                                         '--input', f'lines:{source}', '--follow')
        subscribers = {name: self.subscriber(station, port, '--from', 'oldest', '--strict',
                                             *self.identity(name))
                       for station, name in enumerate(SECRETS, 1)}
        before = self.lines(200)
        with source.open('ab') as file:
            file.write(before)
        for subscriber in subscribers.values():
            wait_until(lambda s=subscriber: self.output(s) == before, LIMIT_S, 'all has come')
        self.policy({'ann': ['news'], 'ben': [], 'cas': ['*']})
        publisher.child.send_signal(signal.SIGHUP)
        self.wait_for(publisher, '1 grants taken back')
        after = self.lines(200)
        with source.open('ab') as file:
            file.write(after)
        self.assert_failed(subscribers['ben'], 'rh-subscribe: news: .*(taken|authorised)')
        for name in ('ann', 'cas'):
            wait_until(lambda s=subscribers[name]: self.output(s) == before + after, LIMIT_S,
                       'all has come')
        self.assertEqual(self.output(subscribers['ben']), before)
        # Without a signal, too: the file is looked at. Another secret is another subscriber.
        with contextlib.ExitStack() as stack:
            stack.callback(SECRETS.update, cas=SECRETS['cas'])
            SECRETS['cas'] = 'another secret of cas'
            self.policy({'ann': ['news'], 'cas': ['*']})
            self.assert_failed(subscribers['cas'], 'the peer reports: .*not right any more')
        publisher.child.send_signal(signal.SIGTERM)
        self.assertEqual(self.output(self.finish(subscribers['ann'])), before + after)
        self.report(publisher)

    def test_who_may_read_what(self):
        """PB-9, PB-26, PB-30: names that must be proved, stores that are refused, the directory."""
        self.start_switch(2)
        policy = self.policy({'ann': ['a']}, everyone=['b'])
        inputs = self.write('in', b'1\n')
        publisher, port = self.publisher(
            '--store', 'a=64KiB', '--store', 'b=64KiB', '--policy', policy, '--stay',
            '--input', f'a=lines:{inputs}', '--input', f'b=lines:{inputs}')
        one = ('--from', 'oldest', '-n', 1)
        self.finish(self.subscriber(1, port, '--store', 'a', *one, *self.identity('ann')))
        self.finish(self.subscriber(1, port, '--store', 'b', *one))
        listed = self.finish(self.subscriber(1, port, '--list'))
        self.assertRegex(listed.output(), r'(?m)^a +log +65536 +16384$')
        for arguments, why in (
                ([*self.identity('ann', 'a secret that is wrong')], 'name or secret'),
                ([*self.identity('ben')], 'name or secret'),
                (['--store', 'a'], 'a: .*authori'),
                (['--store', 'c', *self.identity('ann')], 'c: ')):
            with self.subTest(arguments=arguments):
                self.assert_failed(self.subscriber(1, port, *one, *arguments), why)
        self.policy({'ann': ['a']}, everyone=['b'], directory='own')
        publisher.child.send_signal(signal.SIGHUP)
        self.wait_for(publisher, 'read again')
        listed = self.finish(self.subscriber(1, port, '--list', '--json'))
        self.assertEqual(set(json.loads(listed.output())['stores']), {'b'})
        # A mistake changes nothing.
        self.policy({}, everyone=['nowhere'])
        publisher.child.send_signal(signal.SIGHUP)
        self.wait_for(publisher, r'policy\.json: everyone\[0\]: .*the policy stays as it was')
        self.finish(self.subscriber(1, port, '--store', 'a', *one, *self.identity('ann')))
        publisher.child.send_signal(signal.SIGTERM)
        self.report(publisher)

    def test_a_publisher_that_comes_back(self):
        """PB-27: killed and started again, with a store in a file: every line once, in order."""
        self.start_switch(2)
        store = f'news=256KiB:file={self.lab.path("news.store")}'
        count, got = 0, b''
        publisher, port = self.publisher('--store', store, '--input', 'lines:/dev/null',
                                                   '--stay')
        subscriber = self.subscriber(1, port, '--from', 'oldest', '--strict',
                                     '--connect-timeout', LIMIT_S)
        for _ in range(3):
            self.wait_for(publisher, 'granted news')
            publisher.child.kill()
            publisher.child.wait()
            data = b''.join(b'%d\n' % i for i in range(count, count + 100))
            count += 100
            got += data
            publisher = self.start('rh-publish', *self.station(0), '-p', port, '--json', '--stay',
                                   '--store', store, '--input', f'lines:{self.write("in", data)}')
            wait_until(lambda: self.output(subscriber) == got, LIMIT_S, 'all has come')
        publisher.child.send_signal(signal.SIGTERM)
        self.finish(subscriber)
        self.assertEqual(self.output(subscriber), got)
        self.assertEqual(self.report(publisher)['stores']['news']['next'], count)

    def test_a_new_epoch(self):
        """PB-27: without a file it begins anew, and subscribers say so."""
        self.start_switch(2)
        source = self.write('in', b'1\n2\n')
        publisher, port = self.publisher('--input', f'lines:{source}', '--stay')
        subscriber = self.subscriber(1, port, '--from', 'oldest', '--connect-timeout', LIMIT_S)
        wait_until(lambda: self.output(subscriber) == b'1\n2\n', LIMIT_S, 'both lines')
        publisher.child.kill()
        publisher.child.wait()
        publisher = self.start('rh-publish', *self.station(0), '-p', port, '--stay', '--input',
                               f'lines:{source}')
        self.wait_for(subscriber, 'default: the publisher has begun anew')
        wait_until(lambda: self.output(subscriber) == b'1\n2\n1\n2\n', LIMIT_S, 'the new lines')
        publisher.child.send_signal(signal.SIGTERM)
        self.finish(subscriber)

    def test_strangers(self):
        """PB-26: whatever comes by TCP, the publisher goes on."""
        self.start_switch(2)
        source = self.write('in', b'1\n')
        publisher, port = self.publisher('--stay', '--input', f'lines:{source}')
        nonce = '0' * 64
        hello = {'name': '', 'nonce': nonce, 'path_mtu': 1024,
                 'side': {'gid': '10.42.0.2', 'qpn': 5, 'psn': 5, 'access_key': 0}}
        deep = b'{"hello":{"x":' + b'[' * 500_000 + b']' * 500_000 + b'}}\n'
        for sent in (b'', b'\n', b'GET / HTTP/1.1\r\n\r\n', b'{}\n', b'[]\n', b'{"hello":1}\n',
                     b'{"end":{}}\n', self.random_bytes(5000) + b'\n', deep,
                     *(json.dumps({'hello': {**hello, name: value}}).encode() + b'\n'
                       for name in hello for value in (None, -1, 1 << 70, 'x', [], {}))):
            with socket.create_connection(('localhost', port), LIMIT_S) as stranger:
                stranger.settimeout(LIMIT_S)
                self.assertIn(b'challenge', stranger.recv(1000))
                # It may have had enough before all has been sent.
                with contextlib.suppress(ConnectionError):
                    stranger.sendall(sent)
                    stranger.shutdown(socket.SHUT_WR)
                    while stranger.recv(1000):
                        pass
        subscriber = self.subscriber(1, port, '--from', 'oldest', '-n', 1)
        self.assertEqual(self.output(self.finish(subscriber)), b'1\n')
        publisher.child.send_signal(signal.SIGTERM)
        self.report(publisher)

    def test_an_rdma_address_that_leads_nowhere(self):
        """TCP has its own way: that it works says nothing about the other one. What the addresses
        tell is known before a packet is sent."""
        self.start_switch(2)
        _, port = self.publisher('--stay', '--input', 'lines:/dev/null')
        elsewhere = self.station(1)
        elsewhere[elsewhere.index('--ip') + 1] = '10.77.0.2/24'
        for station, said in ((elsewhere, 'no way to 10.77.0.2'),
                              ([*self.station(1), '--vlan', 7], 'answers by TCP, but not by RDMA')):
            with self.subTest(said=said):
                subscriber = self.start('rh-subscribe', *station, '-p', port, '-u', 8, '--store',
                                        'default', 'localhost')
                self.assert_failed(subscriber, said)

    def test_bad_input(self):
        """PB-31: a line says what is wrong with it; what came before has been published."""
        self.start_switch(2)
        for name, data, options, why in (
                ('long', b'fits\n' + b'x' * 16385 + b'\n', 'lines', 'line 2 has .*16384'),
                ('torn', struct.pack('<I', 4) + b'fits' + b'\x05', 'records', 'inside record 2'),
                ('huge', struct.pack('<I', 4) + b'fits' + b'\xff' * 4, 'records', 'record 2 has'),
                ('none', b'no capture', 'pcap', 'is no capture')):
            with self.subTest(name=name):
                publisher = self.start('rh-publish', *self.station(0), '-p', 0, '--linger', 0,
                                       '--store', 'a=64KiB', '--input',
                                       f'{options}:{self.write(name, data)}')
                self.assert_failed(publisher, why)

    def test_datagrams_and_captures(self):
        """A store that is fed by UDP, and one by the packets of a capture."""
        self.start_switch(2)
        packets = [self.random_bytes(self.random.randrange(60, 1500)) for _ in range(100)]
        capture = struct.pack('<IHHIIII', 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1) + b''.join(
            struct.pack('<IIII', 1_700_000_000, 1000 * number, len(packet), len(packet)) + packet
            for number, packet in enumerate(packets))
        publisher, port = self.publisher(
            '--store', 'a=1MiB', '--store', 'b=1MiB', '--input', 'a=udp:127.0.0.1:0',
            '--input', f'b=pcap:{self.write("in.pcap", capture)}')
        udp = int(re.search(r'listening on UDP port (\d+)', publisher.messages()).group(1))
        datagrams = [self.random_bytes(self.random.randrange(1500)) for _ in range(100)]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for datagram in datagrams:
                sender.sendto(datagram, ('127.0.0.1', udp))
        for store, messages in (('a', datagrams), ('b', packets)):
            subscriber = self.subscriber(1, port, '--store', store, '--from', 'oldest', '-n', 100,
                                         '--format', 'records')
            self.assertEqual(self.output(self.finish(subscriber)),
                             b''.join(struct.pack('<I', len(m)) + m for m in messages))
        publisher.child.send_signal(signal.SIGTERM)
        self.report(publisher)

    def test_standard_input_over_a_link_of_two(self):
        """PB-18: without a switch; lines as somebody writes them."""
        link = self.lab.path('memif.sock')
        command = [support.PROGRAMS / 'rh-publish', '--memif-socket', link, '-p', 0]
        with open(self.lab.path('messages'), 'w+b') as messages:
            publisher = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE,
                                         stdout=subprocess.DEVNULL, stderr=messages)
            self.lab.at_end.callback(publisher.wait)
            self.lab.at_end.callback(publisher.kill)
            port = wait_until(lambda: re.search(r'TCP port (\d+)',
                                                self.lab.path('messages').read_text()),
                              LIMIT_S, 'rh-publish listens').group(1)
            subscriber = self.start('rh-subscribe', '--memif-socket', link, '-p', port, '--from',
                                    'oldest', 'localhost')
            for part, expected in ((b'one\ntw', b'one\n'), (b'o\nthree', b'one\ntwo\n')):
                publisher.stdin.write(part)
                publisher.stdin.flush()
                wait_until(lambda e=expected: self.output(subscriber) == e, LIMIT_S, 'a line')
            publisher.stdin.close()
            self.assertEqual(self.output(self.finish(subscriber)), b'one\ntwo\nthree\n')
            self.assertEqual(publisher.wait(LIMIT_S), 0)

    def test_output_that_cannot_be_written(self):
        self.start_switch(2)
        publisher, port = self.publisher('--input', f'lines:{self.write("in", self.lines(10))}',
                                         '--stay')
        command = [support.PROGRAMS / 'rh-subscribe', *self.station(1), '-p', port, '--from',
                   'oldest', 'localhost']
        with open('/dev/full', 'wb') as full:
            done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1],
                         'rh-subscribe: standard output cannot be written: No space left')
        publisher.child.send_signal(signal.SIGTERM)
        self.report(publisher)

    def test_conflated_store(self):
        """The latest line of each key."""
        self.start_switch(2)
        source = self.write('in', b''.join(b'key%d %d\n' % (i % 7, i) for i in range(100)))
        publisher, port = self.publisher('--store', 'prices=64KiB:conflated:keys=10', '--input',
                                         f'lines:{source}', '--stay')
        subscriber = self.subscriber(1, port, '--from', 'oldest', '-n', 7)
        lines = self.output(self.finish(subscriber)).splitlines()
        self.assertEqual(sorted(lines), sorted(b'key%d %d' % (i % 7, i) for i in range(93, 100)))
        publisher.child.send_signal(signal.SIGTERM)
        self.assertEqual(self.report(publisher)['stores']['prices']['keys'], 7)

    def test_capture_shows_reads_only(self):
        """PB-7, PB-8: no message is asked for or pushed: a few SENDs for the access, whatever the
        number of messages, and READs."""
        messages = 3000
        self.start_switch(2)
        captures = [self.lab.path(f'{station}.pcapng') for station in range(2)]
        publisher, port = self.publisher('--input', f'lines:{self.write("in", self.lines(messages))}',
                                         '--wait', 1, '--pcap', captures[0])
        subscriber = self.subscriber(1, port, '--from', 'oldest', '--pcap', captures[1])
        self.assertEqual(self.output(self.finish(subscriber)).count(b'\n'), messages)
        self.report(publisher)
        # Each by its own capture: on a busy machine packets of both cross on their way.
        for station, capture in enumerate(captures):
            self.checked(capture, '--endpoint', f'10.42.0.{station + 1}', '--queued', 32,
                         '--memory-changes')
        requests = collections.Counter(packet.info.kind
                                       for packet in support.roce_packets(captures[1])
                                       if packet.info.is_request)
        self.assertEqual(set(requests), {'send', 'read'})
        self.assertLess(requests['send'], messages / 100)

    def test_reads_are_limited(self):
        """PB-28: a subscriber that may read so many times a second does, however idle the publisher."""
        limit = 200
        self.start_switch(2)
        capture = self.lab.path('subscriber.pcapng')
        publisher, port = self.publisher('--input', 'lines:/dev/null', '--stay')
        # Without the limit 10,000 a second. None is repeated.
        self.subscriber(1, port, '--reads-per-second', limit, '--poll-max', 100, '-u', 18, '--pcap',
                        capture)

        def reads():
            """When READs left, in ns."""
            return [packet.time_ns for packet in support.packets_so_far(capture)
                    if packet.info.kind == 'read' and packet.info.is_request]

        wait_until(lambda: len(reads()) > 2 * limit, LIMIT_S, 'READs of two seconds')
        publisher.child.send_signal(signal.SIGTERM)
        self.report(publisher)
        times = reads()
        # How long one was held up on its way may differ by some.
        self.assertLess((len(times) - 1) * 1e9 / (times[-1] - times[0]), 1.1 * limit)


class Arguments(support.ProgramTest):
    def check_refusals(self, program, cases):
        for arguments, named in cases:
            with self.subTest(arguments=arguments):
                process = self.run_program(program, *arguments)
                self.assert_status(process, 2)
                self.assertEqual(process.output(), '')
                line, = process.messages().splitlines()
                self.assertTrue(line.startswith(f'{program}: '), line)
                self.assertIn(named, line)

    def test_refused_in_one_line(self):
        self.check_refusals('rh-publish', BAD_PUBLISH)
        self.check_refusals('rh-subscribe', BAD_SUBSCRIBE)

    def test_help(self):
        for program in ('rh-publish', 'rh-subscribe'):
            process = self.run_program(program, '--help')
            self.assert_status(process, 0)
            for part in ('USAGE', 'EXAMPLES', 'EXIT STATUS', '--store', '--pcap', '--json'):
                self.assertIn(part, process.output())
            self.assertLessEqual(max(map(len, process.output().splitlines())), 80)


if __name__ == '__main__':
    support.main()
