# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Graphs of empty tasks, run by rh-dag's workers and by those of Dask distributed."""

import pathlib
import re
import subprocess

from lab.links import Memif
from lab.pairs import CLIENT_IP, PREFIX_LENGTH, SERVER_IP, free_port, parse
from lab.processes import LabError, Unavailable, processors, wait_until

PYTHON = '/usr/bin/python3'  # Debian's, which has Debian's Dask
DASK_CLIENT = pathlib.Path(__file__).with_name('dask_client.py')
LIMIT_S = 60
EDGES = 2  # to predecessors by chance, of each node
# One that warms up, and one that counts.
RUNS = 2
WINDOW = 256
NODE_BYTES = 5 << 10


class Graphs:
    """`programs` has rh-dag. Each graph is made for about `seconds`."""

    def __init__(self, lab, programs, seconds):
        self.lab = lab
        self.program = programs / 'rh-dag'
        self.seconds = seconds
        self.limit_s = LIMIT_S + 20 * seconds

    def tasks(self, workers):
        """One home, so many workers, each a process."""
        if not self.program.exists():
            raise LabError(f'{self.program} is not built')
        return self._pair() if workers == 1 else self._several(workers)

    def _pair(self):
        """A home with a processor, a worker with the other one, joined by memif. The graph is
        loaded by the same link before: memif joins two."""
        nodes = int(200_000 * self.seconds)
        home_cpu, worker_cpu = processors()
        link = Memif(self.lab)
        started = []
        try:
            home = self._start(started, 'serve', _station(link, 'server'), home_cpu,
                               *_memory(nodes))
            server = self._server(home)
            load = self._start(started, 'load', _station(link, 'client'), worker_cpu, *server,
                               *_graph(nodes, 0))
            load.expect_success(self.limit_s)
            worker = self._start(started, 'work', _station(link, 'client'), worker_cpu, *server,
                                 *_worker(0), '--runs', 1)
            worker.expect_success(self.limit_s)
        finally:
            for process in reversed(started):
                process.end()
        run_s = parse(worker)['seconds']
        return _figures(1, nodes, run_s, run_s + parse(load)['load_seconds'])

    def _several(self, workers):
        """A memif link of the home for each of them. Home and loader share a processor, all workers
        the other one."""
        nodes = int(100_000 * self.seconds)
        home_cpu, worker_cpu = processors()
        link = Memif(self.lab)
        started = []
        try:
            home = self._start(started, 'serve', _station(link, 'server'), home_cpu,
                               '--memif-links', workers + 1, *_memory(nodes, RUNS))
            server = self._server(home)
            running = [self._start(started, 'work', _station(link, 'client', 1 + number),
                                   worker_cpu, *server, *_worker(number), '--runs', RUNS)
                       for number in range(workers)]
            for run in range(RUNS):
                # Without --drop: a worker that waits for a processor would miss the run.
                load = self._start(started, 'load', _station(link, 'client'), home_cpu, *server,
                                   *_graph(nodes, run), '--wait')
                load.expect_success(self.limit_s)
                shown = parse(load)
            for worker in running:
                worker.expect_success(30)
        finally:
            for process in reversed(started):
                process.end()
        return _figures(workers, nodes, shown['run_seconds'],
                        shown['run_seconds'] + shown['load_seconds'])

    def _start(self, started, command, station, cpu, *options):
        process = self.lab.start(f'rh-dag-{command}', [self.program, command, *station, *options],
                                 cpu)
        started.append(process)
        return process

    def _server(self, home):
        port = wait_until(lambda: _port(home), 20, 'rh-dag does not listen')
        return ['--server', f'localhost:{port}', '--json']

    def dask(self, workers):
        """A scheduler with a processor, so many workers of one thread each with the other one."""
        if not has_dask():
            raise Unavailable('Dask distributed (python3-distributed) is not installed')
        nodes = int(2_000 * self.seconds)
        scheduler_cpu, worker_cpu = processors()
        place = f'tcp://127.0.0.1:{free_port()}'
        common = ['--no-dashboard', '--local-directory', self.lab.path(self.lab.unique('dask'))]
        started = [self._dask('scheduler', scheduler_cpu, '--host', place, *common[:1])]
        try:
            started += [self._dask('worker', worker_cpu, place, '--nthreads', 1, '--no-nanny',
                                   '--memory-limit', 0, *common) for _ in range(workers)]
            client = self.lab.start('dask-client', [
                PYTHON, DASK_CLIENT, place, '--workers', workers, '--nodes', nodes,
                '--edges', EDGES, '--runs', RUNS], scheduler_cpu)
            started.append(client)
            client.expect_success(self.limit_s)
            seconds = parse(client)['seconds']
        finally:
            for process in reversed(started):
                process.end()
        return _figures(workers, nodes, seconds, seconds)

    def _dask(self, part, cpu, *options):
        return self.lab.start(f'dask-{part}', [
            PYTHON, '-m', f'distributed.cli.dask_{part}', *options], cpu)


def has_dask():
    return subprocess.run([PYTHON, '-c', 'import distributed'], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def _figures(workers, nodes, run_s, whole_s):
    """Thousands of tasks a second, while they are run and with the handing over of the graph; the
    microseconds of a worker that each takes."""
    return {'ktasks': nodes / run_s * 1e-3, 'whole_ktasks': nodes / whole_s * 1e-3,
            'usec': workers * run_s / nodes * 1e6}


def _station(link, end, number=0):
    """The server, or a client by the link of that number."""
    if end == 'server':
        return [*link.program_options(end), '--ip', f'{SERVER_IP[4]}/{PREFIX_LENGTH[4]}']
    return [*link.program_options(end), '--memif-id', number,
            '--ip', f'{CLIENT_IP[4].rsplit(".", 1)[0]}.{2 + number}/{PREFIX_LENGTH[4]}']


def _memory(nodes, graphs=1):
    """For so many graphs of so many nodes. No more, as all of it is touched at the start."""
    mebibytes = max(64, graphs * nodes * NODE_BYTES >> 20)
    return ['-p', 0, '--memory', f'{mebibytes}MiB', '--records', 4 * nodes, '--lease', '5s']


def _graph(nodes, number):
    return ['--random', f'nodes={nodes},edges={EDGES},seed={number}', '--name', f'run{number}']


def _worker(number):
    return ['--inline', '--window', WINDOW, '--name', f'w{number}']


def _port(home):
    if home.has_ended():
        home.expect_success(0)
    found = re.search(r'listening on TCP port (\d+)', home.messages())
    return found and int(found.group(1))
