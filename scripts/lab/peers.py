# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What others reach between two processes of this machine: UCX and libfabric."""

import functools
import re
import shutil
import subprocess

from lab.pairs import free_port, listens
from lab.processes import LabError, processors, wait_until

UCX_TRANSPORTS = {
    'tcp': ('UCX_TLS=tcp', 'UCX_NET_DEVICES=lo'),
    'shm': ('UCX_TLS=sm,self',),
}


def ucx(lab, transport, test, size, iterations):
    """ucx_perftest's figures over the loopback's TCP or over shared memory, as of ucx_by()."""
    return ucx_by(lab, transport, ['env', *UCX_TRANSPORTS[transport]], test, size, iterations)


def ucx_by(lab, transport, runner, test, size, iterations):
    """ucx_perftest's figures when the command `runner` runs it: usec (half a round trip in tests of
    latency), the median of it, gbit_per_s and mops. Its server waits for one client."""
    need('ucx_perftest')
    port = free_port()
    start = [*runner, 'env', 'UCX_WARN_UNUSED_ENV_VARS=n', 'ucx_perftest', *without_mpi(),
             '-p', port]
    server, client = pair(
        lab, f'ucx-{transport}', start,
        [*start, '127.0.0.1', '-t', test, '-s', size, '-n', iterations, '-f', '-v'], port)
    rows = [line.split(',') for line in client.output().splitlines()
            if re.fullmatch(r' *\d+(,[\d.]+){7}', line)]
    server.end()
    if not rows:
        raise LabError(f'{client.name} printed no result: {client.output()[-200:]!r}')
    _, median, _, latency, _, mbyte_per_s, _, per_s = map(float, rows[-1])
    return {'usec': latency, 'median_usec': median, 'gbit_per_s': mbyte_per_s * 8 * 2**20 / 1e9, 'mops': per_s / 1e6}


@functools.cache
def without_mpi():
    """Options that keep an ucx_perftest that was built with MPI from asking for mpirun. One that was
    not refuses them."""
    usage = subprocess.run(['ucx_perftest', '-h'], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False).stdout
    return ('-P', 0) if re.search(r'^ +-P ', usage, re.MULTILINE) else ()


def libfabric(lab, size, iterations):
    """fi_pingpong over the loopback's TCP: usec, half a round trip, and gbit_per_s."""
    need('fi_pingpong')
    port = free_port()
    start = ['fi_pingpong', '-p', 'tcp', '-e', 'msg', '-d', 'lo', '-S', size, '-I', iterations]
    _, client = pair(lab, 'fi_pingpong', [*start, '-B', port],
                      [*start, '-P', port, '127.0.0.1'], port)
    rows = re.findall(r'^\S+ +\S+ +=\S+ +\S+ +[\d.]+s +([\d.]+) +([\d.]+) +[\d.]+$',
                      client.output(), re.MULTILINE)
    if not rows:
        raise LabError(f'{client.name} printed no result: {client.output()[-200:]!r}')
    mbyte_per_s, usec = map(float, rows[-1])
    return {'usec': usec, 'gbit_per_s': mbyte_per_s * 8e-3}


def need(program):
    if shutil.which(program) is None:
        raise LabError(f'{program} is not installed: run scripts/setup')


def pair(lab, name, server_command, client_command, port):
    """Runs both to success, the server being one that listens by TCP and may go on."""
    server_cpu, client_cpu = processors()
    server = lab.start(f'{name}-server', server_command, server_cpu)
    wait_until(lambda: listens(port, server.child.pid), 20, f'{server.name} does not listen')
    client = lab.start(f'{name}-client', client_command, client_cpu)
    try:
        client.expect_success(120)
    finally:
        client.end()
        server.end()
    return server, client
