# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the tests of rh-dag on a network share: servers and clients at the ports of a switch."""

import json
import os
import random
import signal

import support
from support import IDLE, LIMIT_S, PATIENT, PATIENT_OF_LINK, wait_until

SEED = int(os.environ.get('ROCKHOPPER_SEED', str(random.SystemRandom().randrange(1 << 32))), 0)


def unless_given(arguments, *usual):
    """Those options of `usual`, with their values, that the arguments do not have."""
    pairs = zip(usual[::2], usual[1::2])
    return [word for pair in pairs if pair[0] not in arguments for word in pair]


class Conversation:
    """An rh-dag batch that is told one line after another, and answers each with an object."""

    def __init__(self, test, pipe, process):
        self.test = test
        self.process = process
        # The process has it open for reading by then, so that neither side waits for the other.
        self.pipe = pipe
        self.answers = 0

    def ask(self, line):
        self.pipe.write(line + '\n')
        self.pipe.flush()
        return self.answer()

    def answer(self):
        def lines():
            self.test.assertFalse(self.process.has_ended(), self.process.messages())
            found = self.process.output().splitlines(keepends=True)
            whole = [line for line in found if line.endswith('\n')]
            return whole if len(whole) > self.answers else None
        found = wait_until(lines, LIMIT_S, f'{self.process.name} answers', 0.01)
        self.answers += 1
        return json.loads(found[self.answers - 1])

    def end(self):
        self.pipe.close()


class DagTest(support.SwitchTest):
    """Servers are at the first ports of the switch, clients at the others."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        print(f'seed: repeat with ROCKHOPPER_SEED={SEED}', flush=True)

    def serve(self, *arguments, station=0):
        """A server and where it listens. Unless a test wants otherwise, it and its clients are so
        patient that a busy machine is not taken for a lost peer."""
        usual = unless_given(arguments, '--memory', '64MiB', '--lease', '20s', *PATIENT,
                             *PATIENT_OF_LINK, *IDLE)
        process = self.start('rh-dag', 'serve', *self.station(station), '-p', 0, '--json',
                             *usual, *arguments)
        port = wait_until(lambda: support.listening_port(process), LIMIT_S, 'rh-dag listens')
        return process, f'localhost:{port}'

    def client(self, command, station, servers, *arguments):
        servers = [servers] if isinstance(servers, str) else servers
        named = [word for server in servers for word in ('--server', server)]
        usual = unless_given(arguments, '--timeout', '30s', *PATIENT, *PATIENT_OF_LINK, *IDLE)
        return self.start('rh-dag', command, *self.station(station), *named, *usual, *arguments)

    def run_client(self, command, station, servers, *arguments, status=0):
        process = self.client(command, station, servers, *arguments)
        self.assert_status(process, status)
        return process

    def asked(self, command, station, servers, *arguments, status=0):
        """The objects that a command prints."""
        process = self.run_client(command, station, servers, '--json', *arguments, status=status)
        return [json.loads(line) for line in process.output().splitlines()]

    def converse(self, station, servers, *arguments):
        path = self.lab.path(self.lab.unique('lines'))
        os.mkfifo(path)
        # Both ways, so that opening waits for nobody.
        pipe = os.fdopen(os.open(path, os.O_RDWR), 'w')
        self.addCleanup(pipe.close)
        process = self.client('batch', station, servers, '--json', *arguments, path)
        return Conversation(self, pipe, process)

    def report(self, server):
        """What a server says at its end."""
        server.child.terminate()
        self.assert_status(server, 0)
        return json.loads(server.output())

    def stop_application(self, server):
        self.signal(server, 'stopped')

    def continue_application(self, server):
        self.signal(server, 'goes on')

    def signal(self, server, word):
        said = server.messages().count(word)
        server.child.send_signal(signal.SIGUSR1)
        wait_until(lambda: server.messages().count(word) > said, LIMIT_S, f'the server {word}')

    def random_text(self, length):
        return ''.join(self.random.choice('abcdefghijklmnopqrstuvwxyz0123456789')
                       for _ in range(length))
