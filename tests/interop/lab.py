# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The stage of the interoperability tests: a Soft-RoCE guest, and Rockhopper programs on the host
that are linked to its NIC by vhost-user. Nothing has a fixed port or path."""

import functools
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from rxe_guest import errors, links, netem  # noqa: E402
from rxe_guest.background import Background  # noqa: E402
from rxe_guest.guest import Guest  # noqa: E402

Impairment = netem.Impairment

BUILD = pathlib.Path(os.environ.get('ROCKHOPPER_BUILD', ROOT / 'build/gcc'))
SOAK = os.environ.get('ROCKHOPPER_SOAK', '0') not in ('', '0')
SEED = int(os.environ.get('ROCKHOPPER_SEED', str(random.SystemRandom().randrange(1 << 32))), 0)
CHECKER = ROOT / 'tests/judge/check_capture.py'
TSHARK = ROOT / 'tests/judge/tshark_check.py'

OUR_ADDRESSES = ('10.42.0.1', 'fd42::1')
GUEST_ADDRESSES = {4: '10.42.0.2', 6: 'fd42::2'}
BURST = 32  # packets that an endpoint has ready while its NIC has no room for them
DEADLINE_S = 7200 if SOAK else 300

_random = random.Random(SEED)


def some_of(cases, parts):
    """One of `parts` of them, at random; all with ROCKHOPPER_SOAK=1. Guests are slow."""
    cases = list(cases)
    if SOAK:
        return cases
    chosen = _random.sample(range(len(cases)), max(1, len(cases) // parts))
    print(f'{len(chosen)} of {len(cases)} cases: repeat with ROCKHOPPER_SEED={SEED}', flush=True)
    return [cases[i] for i in sorted(chosen)]


class Process:
    """A program of the host that is ended with its block; `output` is complete after wait()."""

    def __init__(self, command, folder, name):
        self.command = [str(word) for word in command]
        self.out = pathlib.Path(folder, name + '.out')
        self.err = pathlib.Path(folder, name + '.err')
        with self.out.open('w') as out, self.err.open('w') as err:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=err)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def wait(self):
        return self.child.wait(DEADLINE_S)

    def said(self):
        return (f'{" ".join(self.command)}\n{self.out.read_text(errors="replace")[-2000:]}\n'
                f'{self.err.read_text(errors="replace")[-4000:]}')

    def wait_for(self, found):
        """Polls `found()` while the program runs; returns its first true value."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.child.poll() is None:
            if value := found():
                return value
            time.sleep(0.02)
        raise AssertionError(f'did not get ready: {self.said()}')


class GuestCommand(Background):
    """A command that runs in the guest beside the test."""

    def __init__(self, guest, command):
        super().__init__(guest, command, DEADLINE_S)

    def finish(self):
        self.join(DEADLINE_S + 30)
        assert self.result is not None, f'{self.error or "still running"}: {self.command}'
        return self.result.status

    def last_words(self):
        """What it has said once it has ended, as it does by itself soon after its peer."""
        self.join(10)
        return self.said()

    def said(self):
        error = self.result.stderr.decode(errors='replace') if self.result else ''
        return f'{self.command}\n{self.output()[-2000:]}\n{error[-2000:]}'


def listening_port(text):
    """The port of the line {"listening":PORT}, once it is there."""
    for line in text.splitlines():
        if line.startswith('{"listening"'):
            return json.loads(line)['listening']
    return None


def summary(text):
    """The last line, which is JSON."""
    lines = [line for line in text.splitlines() if line.startswith('{')]
    return json.loads(lines[-1]) if lines else {}


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def host_listens(port):
    """Whether a socket of this host listens on a TCP port, without connecting to it."""
    return any(_in_listen_state(path, port) for path in ('/proc/net/tcp', '/proc/net/tcp6'))


def _in_listen_state(path, port):
    rows = pathlib.Path(path).read_text().splitlines()[1:]
    return any(row.split()[1].endswith(f':{port:04X}') and row.split()[3] == '0A' for row in rows)


# A program that waits leaves the processors to the guest, whose two are emulated.
IDLE = ('--idle', 'sleep')

# An emulated guest on a busy machine leaves a packet without an answer for longer than the programs'
# ACK timeouts allow by default. Of each program: the option, and a code for a second or, where packets
# are lost on purpose and each loss may cost as much, for 0.27 s.
ACK_TIMEOUTS = {
    'apps/rh-cm': ('--ack-timeout', 16),
    'apps/rh-perf': ('-u', 18),
    'apps/rh-pingpong': ('--ack-timeout', 18),
    'apps/rh-publish': ('-u', 18),
    'apps/rh-subscribe': ('-u', 18),
}


def patience(program, arguments):
    """An ACK timeout that suits the guest, unless the arguments have one."""
    option = ACK_TIMEOUTS.get(program, ())
    return () if option and option[0] in arguments else option


class Lab:
    """A guest whose rxe0 leads to the host; host programs come and go. `more_links`: see
    rxe-guest."""

    def __init__(self, mtu=4300, more_links=()):
        self.folder = tempfile.mkdtemp(prefix='rockhopper-interop-')
        self.mtu = mtu
        self.socket = os.path.join(self.folder, 'vhost.sock')
        link = links.Link.parse(f'vhost-user-server={self.socket},mtu={mtu},'
                                f'ip={GUEST_ADDRESSES[4]}/24,ip={GUEST_ADDRESSES[6]}/64')
        self._runs = 0
        try:
            # QEMU boots once somebody has connected; later programs may come and go.
            with self.host('tests/interop/rh_rc_peer'):
                self.guest = Guest.start(
                    f'interop-{os.getpid()}',
                    [link, *(links.Link.parse(more) for more in more_links)], owner=os.getpid())
            os.unlink(self.capture)
            self.guest.push(BUILD / 'tests/interop/rc_peer', with_libraries=True)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def close(self):
        self.guest.stop()
        if not any(name.endswith('.pcapng') for name in os.listdir(self.folder)):
            shutil.rmtree(self.folder, ignore_errors=True)

    @functools.cached_property
    def kernel(self):
        """The guest's, such as (6, 12)."""
        return tuple(map(int, self.guest.check('uname -r').split('-')[0].split('.')[:2]))

    def need_kernel(self, version, what):
        """Skips a test that the guest's kernel is too old for: `what` it does."""
        if self.kernel < version:
            raise unittest.SkipTest(f'Soft-RoCE of Linux {self.kernel[0]}.{self.kernel[1]} {what}')

    def host(self, program, *arguments):
        """Starts a program on the host's end of the link, its packets captured."""
        self._runs += 1
        self.capture = os.path.join(self.folder, f'{self._runs}.pcapng')
        name = os.path.basename(program)
        return Process([BUILD / program, '--device', f'eth_vhost0,iface={self.socket},client=1',
                        '--ip', OUR_ADDRESSES[0] + '/24', '--ip', OUR_ADDRESSES[1] + '/64',
                        '--link-mtu', self.mtu, '--pcap', self.capture, *IDLE,
                        *patience(program, arguments), *arguments],
                       self.folder, f'{self._runs}-{name}')

    def switch(self, memif_ports):
        """Starts an rh-switch in a program's place: port 0 leads to the guest, those behind it to
        memif programs of the host, see station(). For more than one of them at a time."""
        self._runs += 1
        switch = Process([BUILD / 'apps/rh-switch', '--port',
                          f'eth_vhost0,iface={self.socket},client=1', '--memif', memif_ports,
                          '--socket-dir', self.folder, '--link-mtu', self.mtu, '--rate', '10Gbit',
                          '--queue-bytes', '4MiB', *IDLE],
                         self.folder, f'{self._runs}-rh-switch')
        switch.wait_for(lambda: 'rh-switch: ready' in switch.err.read_text())
        return switch

    def station(self, port, program, *arguments, addresses=OUR_ADDRESSES):
        """Starts a program at a memif port of the switch. The packets of the one that has our
        addresses are captured."""
        self._runs += 1
        captured = []
        if addresses == OUR_ADDRESSES:
            self.capture = os.path.join(self.folder, f'{self._runs}.pcapng')
            captured = ['--pcap', self.capture]
        return Process([BUILD / program, '--memif-role', 'client', '--memif-socket',
                        os.path.join(self.folder, f'switch{port}.sock'), '--ip',
                        addresses[0] + '/24', '--ip', addresses[1] + '/64', *captured, *IDLE,
                        *patience(program, arguments), *arguments],
                       self.folder, f'{self._runs}-{os.path.basename(program)}')

    def need_older_kernel(self, version, what):
        """Skips a test that Soft-RoCE does not come through from this kernel on: `what` it does."""
        if self.kernel >= version:
            raise unittest.SkipTest(f'Soft-RoCE of Linux {self.kernel[0]}.{self.kernel[1]} {what}')

    def run_in_guest(self, command):
        return GuestCommand(self.guest, command)

    def guest_server(self, command):
        """Starts a peer program in the guest; returns the command and the port it listens on."""
        server = self.run_in_guest(command)
        while not (port := listening_port(server.output())):
            assert server.is_alive(), server.said()
            server.join(0.05)
        return server, port

    def wait_for_active_port(self):
        """Waits until the guest has seen that a program of the host is at the other end: what the
        guest sends before is lost, and datagrams are not sent again."""
        self.guest.check('for i in $(seq 600); do grep -q ACTIVE '
                         '/sys/class/infiniband/rxe0/ports/1/state && exit 0; sleep 0.05; '
                         'done; exit 1', what='an active port')

    def wait_for_guest_listener(self, port):
        """Returns when a program in the guest listens on a TCP port."""
        self.guest.check(f'for i in $(seq 600); do grep -q ":{port:04X} .* 0A " /proc/net/tcp '
                         '/proc/net/tcp6 && exit 0; sleep 0.05; done; exit 1',
                         what=f'a listener on port {port}')

    def wait_for_guest_service(self, port):
        """Returns when a program in the guest listens on a port of librdmacm."""
        self.guest.check('for i in $(seq 600); do rdma resource show cm_id | '
                         f'grep -q "LISTEN.*:{port} " && exit 0; sleep 0.05; done; exit 1',
                         what=f'a listener on RDMA port {port}')

    def judge(self, *options):
        """Violations that the independent checker and tshark find in what we sent; "" if none, and
        then the capture goes. Those of failed tests stay in `folder`."""
        endpoints = [word for address in OUR_ADDRESSES for word in ('--endpoint', address)]
        found = self._check([CHECKER, '--strict', *endpoints, '--queued', BURST, *options, self.capture])
        for piece in self._pieces():
            found += self._check([TSHARK, piece])
        if not found:
            os.unlink(self.capture)
        return found

    def _pieces(self):
        """The capture, in pieces that tshark's memory of a dialogue can hold."""
        if os.path.getsize(self.capture) < 400 << 20:
            yield self.capture
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            subprocess.run(['editcap', '-c', '250000', self.capture, f'{folder}/piece.pcapng'],
                           check=True, capture_output=True)
            for name in sorted(os.listdir(folder)):
                yield os.path.join(folder, name)
                os.unlink(os.path.join(folder, name))

    @classmethod
    def for_module(cls, *programs, **options):
        """For setUpModule(): a lab with further `programs` of ours in the guest, which is closed
        behind the module's tests. They are skipped where no guest can run."""
        try:
            made = cls(**options)
            unittest.addModuleCleanup(made.close)
            for program in programs:
                made.guest.push(BUILD / program, with_libraries=True)
        except errors.Skip as reason:
            raise unittest.SkipTest(str(reason)) from reason
        return made

    @staticmethod
    def _check(command):
        result = subprocess.run([sys.executable, *map(str, command)], text=True,
                                capture_output=True, check=False, timeout=DEADLINE_S)
        return '' if result.returncode == 0 else result.stdout[-3000:] + result.stderr[-1000:]
