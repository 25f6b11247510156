# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Stock programs of verbs under rh-run, each end with a processor, on a segment of the lab's own."""

import subprocess
import time

from lab import peers
from lab.guests import last_figures
from lab.links import segment_folder
from lab.pairs import free_port, parse

ADDRESSES = '192.0.2.1/24'
STARTS = 5


class Verbs:
    """Programs of `programs`, and those that Debian has, on one segment."""

    def __init__(self, lab, programs):
        self.lab = lab
        self.programs = programs
        self.folder = segment_folder(lab)
        self.start = ['env', f'ROCKHOPPER_SEGMENT={self.folder}', f'XDG_RUNTIME_DIR={lab.folder}']
        self.rh_run = [*self.start, programs / 'rh-run', '--addresses', ADDRESSES, '--']

    def rh_perf(self, options):
        """The result of rh-perf, both ends of which are members of the segment."""
        port = free_port()
        start = [*self.start, self.programs / 'rh-perf', '--device', 'segment', '--json', '-p', port,
                 *options]
        _, client = peers.pair(self.lab, 'rh-perf', start, [*start, 'localhost'], port)
        return parse(client)['results'][0]

    def perftest(self, tool, options):
        """The last line of figures that the client prints."""
        peers.need(tool)
        port = free_port()
        start = [*self.rh_run, tool, '-F', '-p', port, *options]
        _, client = peers.pair(self.lab, tool, start, [*start, 'localhost'], port)
        return last_figures(client.name, client.output())

    def ucx(self, test, size, iterations):
        runner = [*self.rh_run, 'env', 'UCX_TLS=rc_v,self', 'UCX_NET_DEVICES=rh0:1']
        return peers.ucx_by(self.lab, 'rh0', runner, test, size, iterations)

    def start_ms(self, tool):
        """How long a program takes from its start to its end in an environment that rh-run has made,
        as in a shell under rh-run: the shortest of some times."""
        peers.need(tool)
        made = self.lab.start('rh-run', [*self.rh_run, 'env', '--null'])
        made.expect_success(20)
        settings = dict(text.split('=', 1) for text in made.output().split('\0') if '=' in text)

        def once():
            begin = time.monotonic()
            # Not by the lab: with a limit, Python looks now and then whether a process has ended.
            subprocess.run([tool], env=settings, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, check=True)
            return (time.monotonic() - begin) * 1e3
        return min(once() for _ in range(STARTS))
