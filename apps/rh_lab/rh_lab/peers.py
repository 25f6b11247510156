# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The other end: a second Rockhopper on this machine, or a machine with stock programs."""

import ipaddress
import pathlib
import shlex
import socket
import subprocess
import time

from .judging import KNOWN, KNOWN_PROGRAMS

LIMIT_S = 120
READY_S = 30
DEFAULT_LINK_MTU = 1500  # of our programs
RPING_PORT = 7174  # its default


class LabError(Exception):
    """Nothing more can be tried; the text says why."""


class Process:
    """A program of this machine, whose output goes to files."""

    def __init__(self, command, folder, name):
        self.command = [str(part) for part in command]
        self.out, self.err = folder / f'{name}.out', folder / f'{name}.err'
        with open(self.out, 'wb') as out, open(self.err, 'wb') as err:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def wait(self, limit_s=LIMIT_S):
        """Its status; None if it has not ended in time and was ended."""
        try:
            return self.child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.stop()
            return None

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def words(self):
        return self.err.read_text(errors='replace') + self.out.read_text(errors='replace')

    def last_line(self):
        lines = [line for line in self.words().splitlines() if line.strip() and not line.startswith(('{', '  '))]
        return lines[-1] if lines else ''


def await_ready(process):
    """Returns when a server of ours has said that it listens, or has ended."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.child.poll() is None and 'listening on ' not in process.words():
        time.sleep(0.05)


def local_arguments(step):
    """Those of a program of ours, either end."""
    if step.program == 'rh-pingpong':
        arguments = ['-c', '-s', step.size, '-n', step.count, '-g', 0 if step.family == 4 else 1]
    elif step.program == 'rh-perf':
        arguments = ['--op', step.operation, '--mode', step.mode, '-n', step.count, '-s', step.size]
    else:
        arguments = ['-V', '-C', step.count]
    return [*arguments, *(['-m', step.mtu] if step.mtu else [])]


class Rockhopper:
    """A second Rockhopper, which may look and behave like another device, over memif."""

    def __init__(self, programs, folder, personality):
        self.programs, self.folder = programs, folder
        self.personality = personality
        self.kind = personality.split(',')[0] if personality else 'rockhopper'
        self.name = f'Rockhopper as {personality}' if personality else 'Rockhopper'

    def addresses(self, step):
        """Ours and the peer's, as the capture has them."""
        ends = (['10.42.0.2', 'fd42::2'], ['10.42.0.1', 'fd42::1'])
        return ends if step.we_ask else ends[::-1]

    def serves(self, _step):
        return True

    def known(self, _step):
        return KNOWN.get(self.kind, {})

    def counters(self):
        """None but what --stats tells: there is no device of the kernel's."""
        return {}

    def run(self, step, ours):
        """Runs the step; returns (our process, its status, the peer's status, the peer's last line)."""
        path = self.folder / 'memif.sock'
        port = free_port()
        link = ['--memif-socket', path]
        end = ['-p', port, *link, '--idle', 'sleep']
        common = local_arguments(step)
        look = ['--personality', self.personality] if self.personality else []
        here = [*ours, '--stats', '3600', *step.more, *(['--faults', step.faults] if step.faults else [])]
        sides = ([step.program, *end, *common, *look], [step.program, *end, *common, *here])
        server_side, client_side = sides if step.we_ask else sides[::-1]
        if step.program == 'rh-cm':
            # It serves one after another until it is told to stop; only the client counts.
            server_side = [part for part in server_side if part not in ('-C', step.count)]
        target = '10.42.0.1' if step.program == 'rh-cm' else 'localhost'
        server = Process([self.programs / server_side[0], *server_side[1:]], self.folder, f'{step.name}.server')
        try:
            await_ready(server)
            client = Process([self.programs / client_side[0], *client_side[1:], target], self.folder,
                             f'{step.name}.client')
            client_status = client.wait()
            if step.program == 'rh-cm':
                server.stop()
                server_status = 0
            else:
                server_status = server.wait(20)
        finally:
            server.stop()
        if step.we_ask:
            return client, client_status, server_status, server.last_line()
        return server, server_status, client_status, client.last_line()


class Stock:
    """A machine with libibverbs, perftest and rping; `by` runs a command line there."""

    def __init__(self, programs, folder, options, port_options):
        self.programs, self.folder, self.port_options = programs, folder, port_options
        self.by = shlex.split(options.by) if options.by else ['ssh', options.peer]
        self.host, self.here, self.port = options.peer, options.here, options.port
        self.peer_port = options.peer_port or options.port
        self.device = options.device or self.tell('ibv_devices | tail -n +3 | head -n 1').split()[0]
        self.ips = options.peer_ip
        self.own_ips = [part.split('/')[0] for option, part in zip(port_options, port_options[1:]) if option == '--ip']
        self.link_mtu = next((int(value) for option, value in zip(port_options, port_options[1:])
                              if option == '--link-mtu' and value.isdigit()), DEFAULT_LINK_MTU)
        if not self.ips or not self.own_ips:
            raise LabError('--peer-ip says the RoCE address of the peer, and --ip behind "--" that of this end')
        self.gids = self.read_gids()
        self.kind = 'rxe' if self.device.startswith('rxe') else self.device.split('_')[0]
        self.name = f'{self.device} of {self.host}'

    def tell(self, command, limit_s=60):
        try:
            done = subprocess.run([*self.by, command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=limit_s, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f'{" ".join(self.by)}: {error}') from None
        if done.returncode != 0:
            raise LabError(f'{" ".join(self.by)}: {command}: {done.stderr.strip() or done.returncode}')
        return done.stdout

    def read_gids(self):
        """{family: index of the GID of RoCE v2 of the peer's address}."""
        folder = f'/sys/class/infiniband/{self.device}/ports/1'
        table = self.tell(f'cd {folder}; for i in gid_attrs/types/*; do n=${{i##*/}}; '
                          'echo "$n $(cat gids/$n) $(cat $i 2>/dev/null)"; done 2>/dev/null || true')
        wanted = {}
        for text in self.ips:
            address = ipaddress.ip_address(text)
            mapped = address if address.version == 6 else ipaddress.ip_address(f'::ffff:{text}')
            wanted[mapped] = address.version
        found = {}
        for row in table.splitlines():
            index, _, rest = row.partition(' ')
            gid, _, kind = rest.partition(' ')
            try:
                family = wanted.get(ipaddress.ip_address(gid))
            except ValueError:
                continue
            if family and 'v2' in kind:
                found.setdefault(family, int(index))
        if not found:
            raise LabError(f'{self.device} has no GID of RoCE v2 for {", ".join(self.ips)}')
        return found

    def counters(self):
        folder = f'/sys/class/infiniband/{self.device}/ports/1'
        rows = self.tell(f'grep -H . {folder}/hw_counters/* {folder}/counters/* 2>/dev/null || true')
        return {path.rpartition('/')[2]: int(value) for path, _, value in
                (row.partition(':') for row in rows.splitlines()) if value.isdigit()}

    def addresses(self, _step):
        return self.own_ips, self.ips

    def serves(self, step):
        return step.family in self.gids and step.mtu <= self.link_mtu

    def known(self, step):
        return {**KNOWN.get(self.kind, {}), **KNOWN_PROGRAMS.get(step.program, {})}

    def command(self, step):
        gid = self.gids[step.family]
        if step.program == 'rh-pingpong':
            command = f'ibv_rc_pingpong -d {self.device} -g {gid} -c -s {step.size} -n {step.count} -p {self.port}'
        elif step.program == 'rh-cm':
            address = next(ip for ip in self.ips if ipaddress.ip_address(ip).version == step.family)
            own = next(ip for ip in self.own_ips if ipaddress.ip_address(ip).version == step.family)
            return f'rping -V -C {step.count} ' + (f'-s -a {address}' if step.we_ask else f'-c -a {own}')
        else:
            name = 'atomic' if step.operation in ('faa', 'cas') else step.operation
            what = '-A FETCH_AND_ADD' if step.operation == 'faa' else f'-s {step.size}'
            command = (f'ib_{name}_{step.mode} -d {self.device} -x {gid} -F -n {step.count} {what} '
                       f'-p {self.port}')
        command += f' -m {step.mtu}' if step.mtu else ''
        return command if step.we_ask else f'{command} {self.here}'

    def await_listener(self, step, server):
        """Returns when the peer's server listens, or has ended. It does not say so: the peer's tables do."""
        if step.program == 'rh-cm':
            # Where there is no rdma(8) nothing can be asked.
            look = f'command -v rdma >/dev/null || exec sleep 3; {{ rdma resource show cm_id | grep -q "LISTEN.*:{RPING_PORT} "; }}'
        else:
            look = f'grep -q ":{self.port:04X} .* 0A " /proc/net/tcp /proc/net/tcp6'
        asked = Process([*self.by, f'for i in $(seq {READY_S * 10}); do {look} && exit 0; sleep 0.1; done; exit 1'],
                        self.folder, f'{step.name}.listens')
        while asked.child.poll() is None and server.child.poll() is None:
            time.sleep(0.05)
        asked.stop()

    def run(self, step, ours):
        peer_ip = next(ip for ip in self.ips if ipaddress.ip_address(ip).version == step.family)
        arguments = [*self.port_options, *local_arguments(step), *ours, '--stats', '3600', *step.more,
                     *(['--faults', step.faults] if step.faults else [])]
        if step.program == 'rh-perf':
            arguments += ['--peer', 'perftest', '-x', 0 if step.family == 4 else 1]
        if step.program != 'rh-cm':
            arguments += ['-p', self.peer_port if step.we_ask else self.port]
        host = peer_ip if step.program == 'rh-cm' else self.host
        name = f'{step.name}.ours'
        if step.we_ask:
            theirs = Process([*self.by, self.command(step)], self.folder, f'{step.name}.theirs')
            self.await_listener(step, theirs)
            mine = Process([self.programs / step.program, *arguments, host], self.folder, name)
            status = mine.wait()
            their_status = theirs.wait(20)
        else:
            mine = Process([self.programs / step.program, *arguments], self.folder, name)
            await_ready(mine)
            theirs = Process([*self.by, self.command(step)], self.folder, f'{step.name}.theirs')
            their_status = theirs.wait()
            status = mine.wait(20)
        return mine, status, their_status, theirs.last_line()


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]
