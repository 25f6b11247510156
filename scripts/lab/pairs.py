# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Pairs of Rockhopper programs on this machine, a server and a client joined by a link."""

import json
import pathlib
import socket

from lab.links import Memif
from lab.processes import LabError, processors, wait_until

SERVER_IP = {4: '10.42.0.1', 6: 'fd42::1'}
CLIENT_IP = {4: '10.42.0.2', 6: 'fd42::2'}
PREFIX_LENGTH = {4: 24, 6: 64}


def free_port():
    """A TCP port of the loopback that nobody uses now; the next taker is our server."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def listens(port, pid='self'):
    """Whether a TCP socket of that process's network namespace listens on the port; asks nothing of
    its owner."""
    for table in ('tcp', 'tcp6'):
        with open(f'/proc/{pid}/net/{table}', encoding='ascii') as lines:
            if any(fields[1].endswith(f':{port:04X}') and fields[3] == '0A'
                   for fields in map(str.split, lines)):
                return True
    return False


def waiting_bytes(address, port=4791, pid='self'):
    """How much a UDP socket of that process's network namespace has not yet received, with what the
    kernel needs for it; None if none has the port of that IPv4 address."""
    number = bytes(map(int, address.split('.')))[::-1].hex().upper()
    for line in pathlib.Path(f'/proc/{pid}/net/udp').read_text(encoding='ascii').splitlines():
        fields = line.split()
        if fields[1] == f'{number}:{port:04X}':
            return int(fields[4].partition(':')[2], 16)
    return None


def has_port(address, port=4791, pid='self'):
    """Whether a UDP socket of that process's network namespace has the port of that IPv4 address."""
    return waiting_bytes(address, port, pid) is not None


class Pair:
    """How a server and a client of the same program are started, and what they printed."""

    def __init__(self, lab, programs, name, family=4, link=Memif):
        self.lab = lab
        self.link = link
        self.program = programs / name
        self.name = name
        self.family = family
        if not self.program.exists():
            raise LabError(f'{self.program} is not built')

    def run(self, options, server_options=(), client_options=(), limit_s=120, host='127.0.0.1'):
        """Runs both to success and returns the client's and the server's JSON. `host` is where the
        client finds the server: by TCP, or by the connection manager at its RDMA address."""
        port = free_port()
        link = self.link(self.lab)
        common = ['-p', port, '--json']
        length = PREFIX_LENGTH[self.family]
        server_cpu, client_cpu = processors()
        server = self.lab.start(f'{self.name}-server', [
            self.program, *common, *link.program_options('server'),
            '--ip', f'{SERVER_IP[self.family]}/{length}', *server_options], server_cpu)
        wait_until(lambda: link.socket.exists() or server.has_ended(), 20,
                   f'{server.name} did not open its socket')
        if server.has_ended():
            server.expect_success(0)
        client = self.lab.start(f'{self.name}-client', [
            self.program, *common, *link.program_options('client'),
            '--ip', f'{CLIENT_IP[self.family]}/{length}', *options, *client_options,
            host], client_cpu)
        try:
            client.expect_success(limit_s)
            server.expect_success(30)
        finally:
            client.end()
            server.end()
        return parse(client), parse(server)


def parse(process):
    try:
        return json.loads(process.output())
    except json.JSONDecodeError:
        raise LabError(f'{process.name} printed no JSON object: '
                       f'{process.output()[:200]!r}') from None
