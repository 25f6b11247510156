# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-dag's records over memif: made, read, updated and deleted by programs; with the server's
application stopped; at several servers. ROCKHOPPER_DAG_READS is how many reads a stopped server
has to stand."""

import collections
import os
import signal

import support
from dag_support import DagTest
from support import LIMIT_S, wait_until

READS = int(os.environ.get('ROCKHOPPER_DAG_READS', '20000'))
KEYS = 50

BAD_ARGUMENTS = [
    ('serve', ['--memory', 'much'], '--memory'),
    ('serve', ['--memory', '1KiB'], '--memory'),
    ('serve', ['--lease', '1us'], '--lease'),
    ('serve', ['--hash-bits', '65'], '--hash-bits'),
    ('serve', ['-m', '4096', '--link-mtu', '1500'], '--link-mtu'),
    ('get', [], 'key'),
    ('get', ['a', '--server', 'localhost:0'], 'localhost:0'),
    ('get', ['a', '--server', '[::1'], r'\[::1'),
    ('get', ['a', '--server', 'x', '--server', 'x'], 'twice'),
    ('get', ['a', '--home', '1'], '--home'),
    ('get', ['a', '--place', 'x=0'], 'table'),
    ('get', ['a', '--placement', 'table', '--place', 'x=1'], 'server 1'),
    ('get', ['a', '--placement', 'table', '--place', 'x'], 'PREFIX=N'),
    ('get', ['a', '--output'], 'RUN/NODE'),
    ('get', ['a/b', '--output', '--repeat', '2'], '--repeat'),
    ('get', ['k' * 257], '256'),
    ('put', ['a'], 'VALUE'),
    ('put', ['a', 'b', '--file', 'c'], '--file'),
    ('put', ['a', '--file', '/nonexistent'], '/nonexistent'),
    ('put', ['a', 'b', '--capacity', '0'], '--capacity'),
    ('update', ['a', 'b', '--capacity', '9'], '--capacity'),
    ('get', ['a', '--timeout', '0s'], '--timeout'),
]


class Store(DagTest):
    def test_bad_arguments(self):
        for command, arguments, word in BAD_ARGUMENTS:
            with self.subTest(command=command, arguments=arguments):
                self.assertRegex(self.assert_refused('rh-dag', command, *arguments), word)

    def test_records_by_key(self):
        """DG-4, DG-9, DG-15, DG-19, DG-20: what was written is read, by other programs too."""
        self.start_switch(2)
        server, where = self.serve()
        data = bytes(self.random.randrange(256) for _ in range(self.random.randrange(2000, 50000)))
        path = self.lab.path('data')
        path.write_bytes(data)
        self.run_client('put', 1, where, 'small', 'one two')
        self.run_client('put', 1, where, 'large', '--file', path)
        self.assertEqual(self.run_client('get', 1, where, 'small').output(), 'one two')
        self.assertEqual(self.run_client('get', 1, where, 'large').out.read_bytes(), data)
        self.run_client('put', 1, where, 'small', '--file', path)
        self.assertEqual(self.run_client('get', 1, where, 'small').out.read_bytes(), data)
        self.run_client('update', 1, where, 'small', 'less')
        shown, = self.asked('get', 1, where, 'small')
        self.assertEqual((shown['text'], shown['bytes']), ('less', 4))
        self.assert_failed(self.run_client('create', 1, where, 'small', 'x', status=1), 'already')
        self.run_client('delete', 1, where, 'small', 'large')
        self.assert_failed(self.run_client('get', 1, where, 'small', status=1), "get 'small': ")
        self.assert_failed(self.run_client('update', 1, where, 'small', 'x', status=1), 'no record')
        report = self.report(server)
        self.assertEqual((report['records'], report['counters']['creates'],
                          report['counters']['erases'], report['clients']['fenced']), (0, 2, 2, 0))

    def test_collisions_are_no_errors(self):
        """DG-5 to DG-8, DG-31: a map of 8 bits has many keys of one hash, and a client's own one of
        a few entries forgets most; each key leads to its record all the same."""
        self.start_switch(2)
        server, where = self.serve('--hash-bits', 8)
        talk = self.converse(1, where, '--entries', 16)
        texts = {}
        for number in range(600):
            texts[f'{self.random_text(6)}{number}'] = self.random_text(self.random.randrange(1, 99))
        for key, text in texts.items():
            self.assertEqual(talk.ask(f'put {key} {text}')['status'], 'ok')
        for key in self.random.sample(sorted(texts), 200):
            self.assertEqual(talk.ask(f'get {key}')['text'], texts[key])
        self.assertEqual(talk.ask('get nobody')['status'], 'not_found')
        talk.end()
        self.assert_failed(talk.process, '1 of 801 lines')
        self.assertEqual(self.report(server)['records'], 600)

    def phases(self, capture):
        """The requests of a capture between two SENDs, by kind; the phase with the most of them."""
        phases = [collections.Counter()]
        for packet in support.roce_packets(capture):
            if not packet.info.is_request:
                continue
            if packet.info.kind == 'send':
                phases.append(collections.Counter())
            else:
                phases[-1][packet.info.kind] += 1
        return max(phases, key=lambda phase: phase.total())

    def test_stopped_application(self):
        """DG-9, DG-18, DG-19, DG-20, DG-39: while the server's application stands still, known
        records are read by READs alone and updated by READ, WRITE and atomics. Create and delete
        time out, and have not happened afterwards either."""
        self.start_switch(2)
        # Leases so long that none is renewed meanwhile, as renewals are WRITEs.
        server, where = self.serve('--lease', '3600s')
        capture = self.lab.path('client.pcapng')
        talk = self.converse(1, where, '--pcap', capture, '--timeout', '300ms')
        keys = [f'key{number}' for number in range(KEYS)]
        texts = {key: self.random_text(self.random.randrange(1, 400)) for key in keys}
        for key, text in texts.items():
            self.assertEqual(talk.ask(f'put {key} {text}')['status'], 'ok')
        self.assertEqual(talk.ask(f'read {KEYS} {" ".join(keys)}')['reads'], KEYS)

        self.stop_application(server)
        series = talk.ask(f'read {READS} {" ".join(keys)}')
        self.assertEqual((series['reads'], series['failed'], series['mixed']), (READS, {}, 0))
        key = self.random.choice(keys)
        self.assertEqual(talk.ask(f'get {key}')['text'], texts[key])
        texts[key] = self.random_text(len(texts[key]))
        self.assertEqual(talk.ask(f'update {key} {texts[key]}')['status'], 'ok')
        self.assertEqual(talk.ask(f'add {key} 3 7')['value'], 0)
        now = talk.ask(f'get {key}')
        self.assertEqual((now['control'][3], now['text']), (7, texts[key]))
        self.assertEqual(talk.ask('create fresh text')['status'], 'timed_out')
        gone = self.random.choice(keys)
        self.assertEqual(talk.ask(f'delete {gone}')['status'], 'timed_out')
        still = talk.ask(f'get {gone}')
        self.assertEqual(still['status'], 'ok')

        self.continue_application(server)
        self.assertEqual(talk.ask('get fresh')['status'], 'not_found')
        self.assertEqual(talk.ask(f'get {gone}')['text'], still['text'])
        self.assertEqual(talk.ask('create fresh text')['status'], 'ok')
        self.assertEqual(talk.ask(f'delete {gone}')['status'], 'ok')
        talk.end()
        talk.process.wait(LIMIT_S)
        counters = self.report(server)['counters']
        self.assertEqual((counters['creates'], counters['erases'], counters['rx_canceled']),
                         (KEYS + 1, 1, 2))
        self.assertEqual(counters['lookups'], 0)
        # All of it before the create: the update is a WRITE and three CAS.
        phase = self.phases(capture)
        self.assertEqual((phase['write'], phase['atomic']), (1, 4))
        self.assertGreaterEqual(phase['read'], READS)
        self.assertEqual(phase.total(), phase['read'] + 5)
        self.checked(capture, '--dynamic-connections')

    def test_readers_beside_a_writer(self):
        """DG-32: one writes all the time, two read: no read brings data of two versions."""
        self.start_switch(4)
        server, where = self.serve()
        writer = self.converse(1, where)
        first = writer.ask(f'put shared {self.random_text(3000)}')['version']
        readers = [self.client('get', station, where, 'shared', '--repeat', READS, '--json')
                   for station in (2, 3)]
        updates = 0
        while updates < 200 or not all(reader.has_ended() for reader in readers):
            text = self.random_text(self.random.randrange(1, 3000))
            self.assertEqual(writer.ask(f'update shared {text}')['status'], 'ok')
            updates += 1
        for reader in readers:
            self.assert_status(reader, 0)
        self.assertEqual(writer.ask('get shared')['version'], first + updates)
        writer.end()
        self.assert_status(writer.process, 0)
        self.report(server)

    def test_placement(self):
        """DG-14: keys are at the servers that the placement says, and found there by all."""
        servers = 3
        self.start_switch(servers + 1)
        started = [self.serve(station=station) for station in range(servers)]
        places = [where for _, where in started]
        counts = [0] * servers

        def put(keys, *arguments):
            talk = self.converse(servers, places, *arguments)
            for key in keys:
                self.assertEqual(talk.ask(f'put {key} {key}')['status'], 'ok')
            talk.end()
            self.assert_status(talk.process, 0)
            for key in self.random.sample(keys, 3):
                self.assertEqual(
                    self.run_client('get', servers, places, key, *arguments).output(), key)

        def added():
            """Records at each server, by asking them one by one with a key that is not there."""
            now = []
            for where in places:
                found = 0
                talk = self.converse(servers, where)
                for key in everything:
                    found += talk.ask(f'get {key}')['status'] == 'ok'
                talk.end()
                talk.process.wait(LIMIT_S)
                now.append(found)
            difference = [new - old for new, old in zip(now, counts)]
            counts[:] = now
            return difference

        everything = []
        table = ['--placement', 'table'] + [
            word for number in range(servers) for word in ('--place', f's{number}.={number}')]
        keys = [f's{number % servers}.{self.random_text(5)}{number}' for number in range(12)]
        everything += keys
        put(keys, *table)
        self.assertEqual(added(), [4, 4, 4])
        keys = [f'{self.random_text(4)}{{same}}{number}' for number in range(12)]
        everything += keys
        put(keys, '--placement', 'affinity')
        self.assertEqual(sorted(added()), [0, 0, 12])
        keys = [f'{self.random_text(9)}{number}' for number in range(60)]
        everything += keys
        put(keys, '--placement', 'hash')
        spread = added()
        self.assertEqual(sum(spread), 60)
        self.assertGreater(min(spread), 0)
        for server, _ in started:
            self.report(server)

    def test_a_client_that_stood_still_comes_back(self):
        """DG-30, DG-36: it is fenced when its lease has ended, and what it asks next is done by a
        new connection."""
        self.start_switch(2)
        server, where = self.serve('--lease', '300ms')
        talk = self.converse(1, where)
        self.assertEqual(talk.ask('put a before')['status'], 'ok')
        talk.process.child.send_signal(signal.SIGSTOP)
        wait_until(lambda: 'was fenced' in server.messages(), LIMIT_S, 'the server fences')
        talk.process.child.send_signal(signal.SIGCONT)

        def works():
            return talk.ask('put a after')['status'] == 'ok'
        wait_until(works, LIMIT_S, 'the client is back')
        self.assertEqual(talk.ask('get a')['text'], 'after')
        talk.end()
        talk.process.wait(LIMIT_S)
        report = self.report(server)
        self.assertEqual((report['clients']['fenced'], report['clients']['admitted']), (1, 2))

    def test_who_is_not_admitted(self):
        self.start_switch(3)
        server, where = self.serve('--max-clients', 1)
        talk = self.converse(1, where)
        self.assertEqual(talk.ask('put a b')['status'], 'ok')
        self.assert_failed(self.run_client('get', 2, where, 'a', status=1), '1 clients already')
        talk.end()
        self.assert_status(talk.process, 0)
        self.assert_failed(self.run_client('get', 2, where, 'a', '-m', 1024, status=1),
                           'path MTU is .*--mtu 1024')
        report = self.report(server)
        self.assertEqual(report['clients']['refused'], 1)
        self.assert_failed(
            self.run_client('get', 2, where, 'a', '--connect-timeout', 1, status=1), where)


if __name__ == '__main__':
    support.main()
