# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Two hosts joined by a veth pair, each a network namespace: stock programs of verbs, which reach each
other through UDP sockets under `rh-run --uplink udp`, and what such sockets carry without any of it."""

import functools
import json
import re
import threading

from lab import peers
from lab.guests import last_figures
from lab.links import segment_folder
from lab.namespaces import two_hosts
from lab.pairs import free_port, has_port
from lab.processes import LabError, wait_until

MTU = 4200
ADDRESSES = {4: ('10.8.0.1', '10.8.0.2'), 6: ('fd08::1', 'fd08::2')}
# The GID of an interface's address: those of IPv4 come first.
GID_INDEX = {4: 0, 6: 1}
LIMIT_S = 20
# A pair starts in less than a second, and these take two.
KILLED_AFTER_S, TAKEOVER_ROUND_TRIPS = 1.5, 150_000


class Uplink:
    """The server is on one host and the client on the other one; the hosts are made when they are first
    asked for, and end with the lab. Unavailable where no user may make them."""

    def __init__(self, lab, programs):
        self.lab = lab
        self.rh_run = [programs / 'rh-run', '--uplink', 'udp', '--']

    @functools.cached_property
    def hosts(self):
        return two_hosts(self.lab, MTU, ADDRESSES)

    @functools.cached_property
    def segments(self):
        """A folder for each host."""
        folder = segment_folder(self.lab)
        folders = [folder / name for name in ('server', 'client')]
        for made in folders:
            made.mkdir(mode=0o700)
        return folders

    def _on_each(self, server, client):
        """The command lines that run the commands on their hosts."""
        return [[*host.enter('env', f'ROCKHOPPER_SEGMENT={segment}', f'XDG_RUNTIME_DIR={segment}'), *command]
                for host, segment, command in zip(self.hosts, self.segments, (server, client))]

    def _pair(self, runner, tool, server, client, port_option='-p'):
        """Runs the tool on both hosts, with these options."""
        peers.need(tool)
        port = free_port()
        start = [*runner, tool, port_option, port]
        return peers.pair(self.lab, tool, *self._on_each([*start, *server], [*start, *client]), port)

    def perftest(self, family, tool, options):
        """The last line of figures that the client prints."""
        options = ['-F', '-x', GID_INDEX[family], *options]
        _, client = self._pair(self.rh_run, tool, options, [*options, ADDRESSES[4][0]])
        return last_figures(client.name, client.output())

    def takeover(self):
        """Milliseconds of the longest round trip of a pair while, on both hosts, the process is killed
        that receives for all. The pair sends again after 4 to 17 ms what is lost then."""
        receivers = [self.lab.start('receiver', command) for command in self._on_each(
            *[[*self.rh_run, 'ibv_rc_pingpong', '-g', GID_INDEX[4], '-p', free_port()]] * 2)]
        wait_until(lambda: all(has_port(address, pid=process.child.pid)
                               for address, process in zip(ADDRESSES[4], receivers)), LIMIT_S, 'both receive')
        killer = threading.Timer(KILLED_AFTER_S, lambda: [process.child.kill() for process in receivers])
        killer.start()
        row = self.perftest(4, 'ib_send_lat', ['-s', 8, '-n', TAKEOVER_ROUND_TRIPS, '-u', 10])
        if killer.is_alive():
            raise LabError('the pair ended before the receivers were killed')
        return 2e-3 * row[3]

    def bare_rate(self, family, size, seconds):
        """Gigabits of datagrams of so many bytes that arrive in a second, by iperf3 without a limit."""
        _, client = self._pair((), 'iperf3', ['--server', '--one-off'],
                               ['--client', ADDRESSES[family][0], '--udp', '--bitrate', 0, '--length', size,
                                '--time', max(1, int(seconds)), '--json'])
        return json.loads(client.output())['end']['sum_received']['bits_per_second'] * 1e-9

    def bare_latency(self, family, size, seconds):
        """Microseconds of half a round trip of a datagram of so many bytes between two sockets, by qperf."""
        _, client = self._pair((), 'qperf', (),
                               [ADDRESSES[family][0], '-t', max(1, int(seconds)), '-m', size, '-uu', 'udp_lat'],
                               port_option='-lp')
        found = re.search(r'latency += +([\d,.]+) ns', client.output())
        if not found:
            raise LabError(f'qperf printed no latency: {client.output()[-200:]!r}')
        return float(found[1].replace(',', '')) * 1e-3
