# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the tests of the programs share: where the programs are, and pairs of them over memif.

A test runs real processes in a temporary folder of its own; sockets are there, and TCP ports are
chosen by the system.
"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'scripts'), str(ROOT / 'tests/judge')]

from judge import frame  # noqa: E402 (needs the path above)
from judge.capture import Capture, CaptureError  # noqa: E402
from judge.opcodes import Opcodes  # noqa: E402
from lab.namespaces import two_hosts  # noqa: E402
from lab.processes import Lab, LabError, Unavailable, wait_until  # noqa: E402, F401
from testing.standstill import RepeatedTest  # noqa: E402

# The build folder's programs, as meson tells.
PROGRAMS = pathlib.Path(os.environ.get('ROCKHOPPER_PROGRAMS', ROOT / 'build' / 'apps'))
# A machine that is busy with other things must not fail a test.
LIMIT_S = 240
# --qp-timeout: four seconds, all retries together, as a process may be without a core for long.
PATIENT = ('-u', 17)
# Where packets are lost each waits for so long: a second, all retries together.
LOSSY = ('-u', 15)
# The link, too, may take its time to come up, where many programs start at once.
PATIENT_OF_LINK = ('--connect-timeout', LIMIT_S)
# Tests run beside others: programs that wait leave the processors to them.
IDLE = ('--idle', 'sleep')
POLLING = ('rh-accounts', 'rh-ami', 'rh-cm', 'rh-perf', 'rh-pingpong', 'rh-publish', 'rh-subscribe',
           'rh-switch')
ADDRESSES = {4: ('10.42.0.1/24', '10.42.0.2/24'), 6: ('fd42::1/64', 'fd42::2/64')}


class ProgramTest(RepeatedTest):
    """A test with a laboratory: processes and files that are gone at its end."""

    lab = None

    def watched_pids(self):
        return [process.child.pid for process in self.lab.processes] if self.lab else []

    def setUp(self):
        self.lab = Lab()
        self.lab.__enter__()
        self.addCleanup(self.lab.__exit__, None, None, None)

    def run(self, result=None):
        test = getattr(self, self._testMethodName)
        setattr(self, self._testMethodName, lambda: self.speak_if_it_fails(test))
        return super().run(result)

    def speak_if_it_fails(self, test):
        """What the processes said goes into the report: their files are gone with the test."""
        try:
            test()
        except Exception as error:
            error.add_note(self.lab.last_words())
            raise

    def two_hosts(self, mtu, addresses):
        """Two network namespaces that are joined; `addresses` are {family: those of both}."""
        try:
            return two_hosts(self.lab, mtu, addresses)
        except Unavailable as reason:
            return self.skipTest(str(reason))

    def start(self, program, *arguments, prefix=(), eal=()):
        """`prefix` is a command that starts the program; `eal` are arguments before the dashes."""
        dashes = ['--'] if eal else []
        idle = IDLE if program in POLLING and IDLE[0] not in arguments else ()
        # A mutated one takes its place.
        path = os.environ.get(f'ROCKHOPPER_MUTATED_{program.removeprefix("rh-").upper()}',
                              PROGRAMS / program)
        return self.lab.start(program, [*prefix, path, *eal, *dashes, *idle, *arguments])

    def run_program(self, program, *arguments, **more):
        process = self.start(program, *arguments, **more)
        process.wait(LIMIT_S)
        return process

    def start_server(self, program, *arguments, **more):
        """A server that listens on a port of the system's choice: the process and the port."""
        server = self.start(program, '-p', 0, *arguments, **more)
        port = wait_until(lambda: listening_port(server), LIMIT_S, f'{program} listens')
        return server, port

    def start_pair(self, program, *common, server=(), client=(), family=4):
        """Server and client joined by memif."""
        socket = self.lab.path(self.lab.unique('memif') + '.sock')
        ends = ADDRESSES[family]
        server_process, port = self.start_server(
            program, '--memif-socket', socket, '--ip', ends[0], *common, *server)
        client_process = self.start(program, '-p', port, '--memif-socket', socket, '--ip', ends[1],
                                    *common, *client, 'localhost')
        return server_process, client_process

    def run_pair(self, program, *common, **options):
        """Runs a pair to success and returns both JSON objects, the server's first."""
        server, client = self.start_pair(program, '--json', *common, **options)
        for process in (client, server):
            self.assert_status(process, 0)
        return json.loads(server.output()), json.loads(client.output())

    def ping_pongs(self):
        """Runs a pair for each transport and size; gives what both ends report of each."""
        for transport in ('rc', 'uc', 'ud', 'srq', 'dc'):
            for size in (1, 4096, 100_000):
                if transport == 'ud' and size > 4096:
                    continue
                with self.subTest(transport=transport, size=size):
                    more = ('-m', 4096) if transport == 'ud' else ()
                    yield self.run_pair('rh-pingpong', '-c', '-s', size, '-n', 200,
                                        '--transport', transport, *more)

    def assert_versions(self, program, reports):
        """The reports name the program's version, and not that of a format or a peer."""
        version = self.run_program(program, '--version').output().split()[-1]
        self.assertEqual({report['version'] for report in reports}, {version})

    def assert_status(self, process, status, limit_s=LIMIT_S):
        self.assertEqual(process.wait(limit_s), status,
                         f'{process.name}: {" ".join(process.command)}\n{process.messages()}')

    def assert_failed(self, process, pattern, limit_s=LIMIT_S):
        """Exit status 1, and a last line on standard error that says why."""
        self.assert_status(process, 1, limit_s)
        last = process.messages().strip().splitlines()[-1]
        self.assertRegex(last, pattern)

    def assert_refused(self, *command):
        """Exit status 2, and one line on standard error, which is returned."""
        process = self.run_program(*command)
        self.assert_status(process, 2)
        self.assertEqual(len(process.messages().splitlines()), 1, process.messages())
        return process.messages()

    def checked(self, path, *options):
        """What the checker says of a capture; no violation."""
        done = subprocess.run(
            [sys.executable, ROOT / 'tests/judge/check_capture.py', '--json', '--strict',
             *map(str, options), path],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr)
        return json.loads(done.stdout)['files'][0]

    def judged(self, path, *options):
        """What the checker has counted of dynamic connections; no violation."""
        return self.checked(path, '--dynamic-connections', *options)['dynamic_connections']

    def judged_locks(self, path, *options):
        """The same of locks. A target answers its queue pairs in turns, not in the order in which
        it decides."""
        in_turns = ('--ignore', 'lock-token-order', '--ignore', 'lock-owner-order')
        return self.checked(path, '--locks', *in_turns, *options)['locks']


def loopback_addresses():
    """Two that no test beside this one has: the UDP port is always the same."""
    network = f'127.{random.randrange(1, 255)}.{random.randrange(256)}'
    host = random.randrange(1, 254)
    return f'{network}.{host}', f'{network}.{host + 1}'


def roce_packets(path):
    """The RoCEv2 packets of a capture, those of dynamic connections too."""
    opcodes = Opcodes(dynamic_connections=True, locks=False)
    packets = (frame.parse(record, opcodes) for record in Capture(path))
    return (packet for packet in packets if packet is not None)


def packets_so_far(path):
    """The RoCEv2 packets of a capture that is still written: none before the file has a header."""
    try:
        return roce_packets(path)
    except (CaptureError, FileNotFoundError):
        return iter(())


class SwitchTest(ProgramTest):
    """A test of programs at the ports of an rh-switch."""

    def start_switch(self, ports, *arguments):
        switch = self.start('rh-switch', '--memif', ports, '--socket-dir', self.lab.folder,
                            '--json', *arguments)
        wait_until(lambda: self.is_ready(switch), LIMIT_S, 'rh-switch is ready')
        return switch

    def is_ready(self, switch):
        self.assertIsNone(switch.child.poll(), switch.messages())
        return 'rh-switch: ready' in switch.messages()

    def socket(self, port):
        return self.lab.path(f'switch{port}.sock')

    def station(self, port, prefix_length=24):
        """Options of a program at a port of the switch."""
        return ['--memif-role', 'client', '--memif-socket', self.socket(port),
                '--ip', f'10.42.0.{port + 1}/{prefix_length}', *IDLE]


def listening_port(process):
    found = re.search(r'listening on TCP port (\d+)', process.messages())
    if not found and process.child.poll() is not None:
        raise AssertionError(f'{process.name} has ended: {process.messages()}')
    return found and int(found.group(1))


def pcapng_packets(path):
    """The number of packets of a pcapng file; ValueError unless it is whole blocks to its end."""
    data = pathlib.Path(path).read_bytes()
    packets = offset = 0
    while offset < len(data):
        if len(data) - offset < 12:
            raise ValueError(f'{len(data) - offset} bytes are left at the end')
        kind, length = struct.unpack_from('<II', data, offset)
        if length < 12 or length % 4 or offset + length > len(data):
            raise ValueError(f'block of {length} bytes at {offset}')
        if struct.unpack_from('<I', data, offset + length - 4)[0] != length:
            raise ValueError(f'the block at {offset} ends otherwise than it begins')
        if offset == 0 and kind != 0x0A0D0D0A:
            raise ValueError('no section header')
        packets += kind == 6
        offset += length
    return packets


def main():
    unittest.main(verbosity=2)
