# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Whoever comes to a memif socket and leaves again at a random moment, whatever he says meanwhile:
the program at the socket lives, keeps no descriptor and no memory of him, and serves the next one.
So does a program that is the client of such a server; and others' transfers go on.

ROCKHOPPER_KNOCKS is the number of connections to each server (300; 10,000 with ROCKHOPPER_SOAK=1),
ROCKHOPPER_KNOCKS_AT_CLIENTS of those that each client makes to a server that leaves it alone (30;
10,000), of which there are some twenty in a second."""

import json
import os
import random
import signal
import socket
import time

import live
import memif_peers
from live import LIMIT_S, wait_until
from support import ADDRESSES, listening_port

KNOCKS = live.amount('ROCKHOPPER_KNOCKS', 300, 10_000)
KNOCKS_AT_CLIENTS = live.amount('ROCKHOPPER_KNOCKS_AT_CLIENTS', 30, 10_000)
WARM_UP = 100
# Programs that join the link and are killed or interrupted, one for so many knocks.
KNOCKS_PER_PROGRAM = 150
# Within this time they start, join, and wait for a TCP server that does not exist.
LIFE_OF_PROGRAM_S = 0.5
RSS_SLACK = 1 << 20
ADDRESS = ADDRESSES[4][0].split('/')[0]


def descriptors(process):
    return len(os.listdir(f'/proc/{process.child.pid}/fd'))


class MemifStorm(live.LiveTest):
    def setUp(self):
        super().setUp()
        # A port that is taken, and where nobody listens.
        nobody = socket.socket()
        self.addCleanup(nobody.close)
        nobody.bind(('localhost', 0))
        self.dead_port = nobody.getsockname()[1]

    def link(self, role='server'):
        """Options of a program at the link, as the one that is there first or the other."""
        return ('--memif-socket', self.lab.path('memif.sock'), '--memif-role', role,
                '--ip', ADDRESSES[4][0])

    def other_link(self, role='client'):
        return (*self.link(role)[:-1], ADDRESSES[4][1])

    def start_waiting(self, program, *arguments, role='server', says='listening on'):
        process = self.start(program, *arguments, *self.link(role))
        wait_until(lambda: self.runs(process) and says in process.messages(), LIMIT_S,
                   f'{program} listens')
        return process

    def kill_programs(self, count, role):
        """They are at the link when they end, or not there yet."""
        for i in range(count):
            process = self.start('rh-pingpong', '-p', self.dead_port, *self.other_link(role),
                                 'localhost')
            time.sleep(self.random.uniform(0, LIFE_OF_PROGRAM_S))
            process.child.send_signal(signal.SIGKILL if i % 2 else signal.SIGINT)
            process.wait(LIMIT_S)

    def misspell(self):
        """Who does not know the host does not come to the link."""
        process = self.run_program('rh-pingpong', '-c', '-p', self.dead_port, *self.other_link(),
                                   'nosuchhost.invalid')
        self.assert_failed(process, 'host nosuchhost.invalid is not known')

    def settle(self, process, before, warm=True):
        """Nothing is left over, once the last connections have been closed. What the first ones have
        made it allocate stays its own."""
        self.runs(process)
        wait_until(lambda: self.runs(process) and descriptors(process) <= before['descriptors'],
                   LIMIT_S, f'{process.name} has no more than {before["descriptors"]} descriptors')
        resident = live.resident_bytes(process)
        print(f'{process.name}: {before["descriptors"]} descriptors, then {descriptors(process)}; '
              f'resident {before["resident"] >> 10} KiB, then {resident >> 10} KiB', flush=True)
        if warm:
            self.assertLessEqual(resident, before['resident'] + RSS_SLACK)

    def measure(self, process):
        return {'descriptors': descriptors(process), 'resident': live.resident_bytes(process)}

    def storm(self, process, path=None):
        path = path or self.lab.path('memif.sock')
        before = self.measure(process)
        with memif_peers.ClientStorm(path, WARM_UP, self.random) as storm:
            storm.run()
        self.settle(process, before, warm=False)
        before = self.measure(process)
        with memif_peers.ClientStorm(path, KNOCKS, self.random) as storm:
            storm.run()
        self.kill_programs(max(2, KNOCKS // KNOCKS_PER_PROGRAM), 'client')
        self.misspell()
        self.settle(process, before)

    def storm_at_client(self, program, *arguments):
        """The program, after servers have left it alone. It wants one to be there when it starts."""
        path = self.lab.path('memif.sock')
        with memif_peers.ServerStorm(path, max(5, KNOCKS_AT_CLIENTS // 3), self.random) as storm:
            process = self.start_waiting(program, *arguments, role='client')
            before = self.measure(process)
            storm.run()
        self.settle(process, before, warm=False)
        before = self.measure(process)
        with memif_peers.ServerStorm(path, KNOCKS_AT_CLIENTS, self.random) as storm:
            storm.run()
        self.kill_programs(max(2, KNOCKS_AT_CLIENTS // KNOCKS_PER_PROGRAM), 'server')
        self.settle(process, before)
        return process

    def serve(self, process, program, *arguments, role='client'):
        """A good peer is served; the process ends with it."""
        peer = self.run_program(program, '-p', listening_port(process), *arguments,
                                *self.other_link(role), 'localhost')
        self.assert_status(peer, 0)
        self.assert_status(process, 0)

    def stop(self, process, *statuses):
        process.child.terminate()
        self.assertIn(process.wait(LIMIT_S), statuses or (0,), process.messages())

    def test_pingpong(self):
        server = self.start_waiting('rh-pingpong', '-c', '-p', 0)
        self.storm(server)
        self.serve(server, 'rh-pingpong', '-c')

    def test_perf(self):
        server = self.start_waiting('rh-perf', '-p', 0)
        self.storm(server)
        self.serve(server, 'rh-perf', '-n', 1000)

    def test_publish(self):
        server = self.start_waiting('rh-publish', '-p', 0, '--stay', '--input', 'lines:/dev/null')
        self.storm(server)
        subscriber = self.run_program('rh-subscribe', '-p', listening_port(server), '--list',
                                      *self.other_link(), 'localhost')
        self.assert_status(subscriber, 0)
        self.stop(server)

    def test_cm(self):
        server = self.start_waiting('rh-cm', '-P', '-V')
        self.storm(server)
        for _ in range(5):
            # The client joins when somebody else has just left.
            self.kill_programs(1, 'client')
            client = self.run_program('rh-cm', '-V', '-C', 10, *self.other_link(), ADDRESS)
            self.assert_status(client, 0)
        self.stop(server)

    def test_dag(self):
        server = self.start_waiting('rh-dag', 'serve', '-p', 0, '--memory', '64MiB')
        self.storm(server)
        where = f'localhost:{listening_port(server)}'
        put = self.run_program('rh-dag', 'put', '--server', where, *self.other_link(), 'key', 'text')
        self.assert_status(put, 0)
        self.stop(server)

    def test_switch(self):
        """At free ports and at those of a pair whose transfers go on."""
        switch = self.start_switch(3)
        before = self.measure(switch)
        server = self.start('rh-perf', '-p', 0, '--json', *self.station(0))
        port = wait_until(lambda: listening_port(server), LIMIT_S, 'rh-perf listens')
        client = self.start('rh-perf', '-p', port, '--json', '-D', 3 + KNOCKS / 150,
                            *self.station(1), 'localhost')
        storms = [memif_peers.ClientStorm(self.socket(port), KNOCKS // 3, random.Random(self.seed))
                  for port in range(3)]
        with memif_peers.InBackground(*storms):
            pass
        for process in (client, server):
            self.assert_status(process, 0)
        self.assertGreater(json.loads(client.output())['results'][0]['iterations'], 0)
        self.settle(switch, before, warm=False)
        self.storm(switch, self.socket(2))
        server = self.start('rh-pingpong', '-c', '-p', 0, *self.station(0))
        port = wait_until(lambda: listening_port(server), LIMIT_S, 'rh-pingpong listens')
        client = self.run_program('rh-pingpong', '-c', '-p', port, *self.station(2), 'localhost')
        self.assert_status(client, 0)
        self.stop(switch)

    def test_pair(self):
        """At the socket of two whose transfers go on: the link is theirs."""
        server, client = self.start_pair('rh-perf', '--json', client=('-D', 5 + KNOCKS / 150))
        [path] = [server.command[i + 1] for i, word in enumerate(server.command)
                  if word == '--memif-socket']
        wait_until(lambda: os.path.exists(path), LIMIT_S, 'the socket is there')
        # The good client is there first.
        wait_until(lambda: self.runs(server) and self.counter(server, 'opackets') > 1000, LIMIT_S,
                   'packets flow')
        # Asked for while they run: the two may have ended by the end of the storm.
        with memif_peers.InBackground(memif_peers.ClientStorm(path, KNOCKS, self.random)):
            wait_until(lambda: self.counter(server, 'memif_already_joined') > 0, LIMIT_S,
                       'a knock is refused')
        for process in (client, server):
            self.assert_status(process, 0)

    def counter(self, process, name):
        """Of the process's port."""
        stats = self.run_program('rh-stats', '--pid', process.child.pid, '--json')
        if stats.child.returncode != 0:
            return 0
        [program] = json.loads(stats.output())['programs']
        return max((group[name] for group in program['counters'].values() if name in group),
                   default=0)

    def test_pingpong_as_client(self):
        server = self.storm_at_client('rh-pingpong', '-c', '-p', 0)
        self.serve(server, 'rh-pingpong', '-c', role='server')

    def test_publish_as_client(self):
        server = self.storm_at_client('rh-publish', '-p', 0, '--stay', '--input',
                                      'lines:/dev/null')
        subscriber = self.run_program('rh-subscribe', '-p', listening_port(server), '--list',
                                      *self.other_link('server'), 'localhost')
        self.assert_status(subscriber, 0)
        self.stop(server)


if __name__ == '__main__':
    live.support.main()
