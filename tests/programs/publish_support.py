# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the tests of rh-publish and rh-subscribe share."""

import json
import os
import random
import re

import support
from support import LIMIT_S, wait_until

SEED = int(os.environ.get('ROCKHOPPER_SEED', str(random.SystemRandom().randrange(1 << 32))), 0)


class PublishTest(support.SwitchTest):
    """The publisher is at port 0 of the switch, subscribers at the others."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        print(f'seed: repeat with ROCKHOPPER_SEED={SEED}', flush=True)

    def publisher(self, *arguments):
        """The publisher and its TCP port. It waits for the slowest subscriber: READs may have to be
        repeated."""
        process = self.start('rh-publish', *self.station(0), '-p', 0, '--json', '--linger', LIMIT_S,
                             *arguments)
        port = wait_until(lambda: support.listening_port(process), LIMIT_S, 'rh-publish listens')
        return process, port

    def subscriber(self, station, port, *arguments):
        return self.start('rh-subscribe', *self.station(station), '-p', port, *arguments,
                          'localhost')

    def finish(self, process):
        self.assert_status(process, 0)
        return process

    def report(self, process):
        return json.loads(self.finish(process).output())

    def write(self, name, data):
        path = self.lab.path(name)
        path.write_bytes(data)
        return path

    def random_bytes(self, length, without=b''):
        data = bytes(self.random.randrange(256) for _ in range(length))
        return data.replace(without, b'x') if without else data

    def lines(self, count, length_max=300):
        """Lines of any bytes, some empty, some longer than a packet."""
        lengths = [self.random.randrange(length_max) for _ in range(count)]
        for _ in range(min(count, 5)):
            lengths[self.random.randrange(count)] = self.random.randrange(5000, 15000)
        return b''.join(self.random_bytes(length, b'\n') + b'\n' for length in lengths)

    def output(self, process):
        return process.out.read_bytes()

    def wait_for(self, process, pattern, count=1):
        """Until that many lines of its messages have the pattern."""
        def found():
            lines = re.findall(pattern, process.messages(), re.MULTILINE)
            if len(lines) < count:
                self.assertFalse(process.has_ended(), process.messages())
            return len(lines) >= count
        wait_until(found, LIMIT_S, f'{process.name} says {pattern}')

    def end_all(self):
        for process in reversed(self.lab.processes):
            process.end()
