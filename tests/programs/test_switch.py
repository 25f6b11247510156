# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-switch between three programs, with loss and with programs that die; rh-stats on it."""

import json
import os
import re
import signal
from pathlib import Path

import support
from support import LIMIT_S, pcapng_packets, wait_until

ITERATIONS = 200


class Switch(support.SwitchTest):
    def ping(self, server_port, client_port, *common):
        server, tcp = self.start_server('rh-pingpong', *self.station(server_port), '-c', *common)
        client = self.start('rh-pingpong', '-p', tcp, *self.station(client_port), '-c', *common,
                            'localhost')
        return server, client

    def check_ping(self, *arguments):
        for process in self.ping(*arguments, '-n', ITERATIONS):
            self.assert_status(process, 0)

    def stop(self, switch, signal_number=signal.SIGTERM):
        switch.child.send_signal(signal_number)
        self.assert_status(switch, 0)
        report = json.loads(switch.output())
        for port in report['ports']:
            counters = port['counters']
            dropped = sum(value for name, value in counters.items()
                          if name.startswith('rx_dropped_'))
            self.assertEqual(counters['rx_packets'],
                             counters['rx_forwarded'] + counters['rx_flooded'] + dropped)
        return report

    def test_three_programs_with_loss(self):
        capture = self.lab.path('run.pcapng')
        switch = self.start_switch(3, '--faults', '1:loss=2%,dup=1%,reorder=2%:1ms', '--seed', 5,
                                   '--pcap', capture)
        for ends in ((0, 1), (2, 1), (0, 2)):
            self.check_ping(*ends)
        report = self.stop(switch, signal.SIGINT)
        faults = report['ports'][1]['faults']
        self.assertGreater(faults['rx_lost'] + faults['tx_lost'], 0)
        for number, port in enumerate(report['ports']):
            self.assertGreater(port['counters']['rx_forwarded'], ITERATIONS)
            self.assertEqual(pcapng_packets(self.lab.path(f'run.{number}.pcapng')),
                             port['pcap']['packets'])
        self.assertEqual(report['mac_table']['full'], 0)

    def test_survives_programs_that_are_killed(self):
        switch = self.start_switch(2)
        for _ in range(3):
            server, client = self.ping(0, 1, '-n', 10 ** 8, '-s', 65536)
            wait_until(lambda: 'remote address' in client.output() + client.messages() or
                       client.child.poll() is not None, LIMIT_S, 'the client has begun')
            for process in (client, server):
                process.child.kill()
                process.wait(LIMIT_S)
        self.check_ping(0, 1)
        self.stop(switch)

    def test_marks_are_answered_and_obeyed(self):
        switch = self.start_switch(2, '--rate', '1Gbit', '--queue-bytes', '1MiB',
                                   '--ecn', '0:16KiB,16KiB,1')
        common = ('--op', 'write', '-n', 3000, '-s', 16384, '-m', 1024, '--stats', 1, '-u', 18,
                  '--timeout', 60)
        server, tcp = self.start_server('rh-perf', *self.station(0), *common)
        client = self.start('rh-perf', '-p', tcp, *self.station(1), *common, '--congestion',
                            'dcqcn', 'localhost')
        for process in (server, client):
            self.assert_status(process, 0)
        self.assertRegex(server.messages(), r'np_cnp_sent +[1-9]')
        self.assertRegex(client.messages(), r'rp_cnp_handled +[1-9]')
        report = self.stop(switch)
        self.assertGreater(report['ports'][0]['counters']['tx_ecn_marked'], 0)
        self.assertEqual(report['ports'][1]['counters']['tx_ecn_marked'], 0)

    def test_stats(self):
        switch = self.start_switch(2)
        pid = ('--pid', switch.child.pid)
        listing = self.run_program('rh-stats', '--list', '--json', *pid)
        self.assert_status(listing, 0)
        [program] = json.loads(listing.output())['programs']
        self.assertEqual((program['pid'], program['name']), (switch.child.pid, 'rh-switch'))
        self.assertEqual(program['groups'], ['mac_table', 'port0', 'port1'])

        watch = self.run_program('rh-stats', *pid, '--group', 'mac_table', '--json', '--watch',
                                 0.1, '--count', 3)
        self.assert_status(watch, 0)
        objects = [json.loads(line)['programs'][0] for line in watch.output().splitlines()]
        self.assertEqual(len(objects), 3)
        self.assertEqual(objects[0]['counters']['mac_table']['capacity'], 4096)
        self.assertNotIn('rates', objects[0])
        self.assertEqual(objects[2]['rates']['mac_table']['added'], 0)

        self.assert_failed(self.run_program('rh-stats', *pid, '--group', 'nothing'), 'port0, port1')
        self.stop(switch)
        self.assert_failed(self.run_program('rh-stats', *pid), 'no Rockhopper program')

    def test_devices_that_cannot_be(self):
        """The cause, in place of a driver's words, here as in programs of endpoints."""
        for device, cause in (('net_af_packet7,iface=nonesuch0', 'no network interface nonesuch0'),
                              ('mlx5_0', 'mlx5_0 is no device of DPDK')):
            with self.subTest(device=device):
                switch = self.run_program('rh-switch', '--port', device, '--port', 'net_null0')
                self.assert_failed(switch, cause)
                self.assertEqual(len(switch.messages().splitlines()), 1, switch.messages())
        self.lab.path('switch0.sock').write_text('')
        switch = self.run_program('rh-switch', '--memif', 2, '--socket-dir', self.lab.folder)
        self.assert_failed(switch, 'something else of that name')

    def test_drivers(self):
        """A program loads those of its own devices: all are most of what its start costs."""
        for devices, drivers in (((), {'memif'}),
                                 (('net_null0',), {'memif', 'null'}),
                                 (('net_failsafe0,dev(net_null1)',), None),
                                 (('eth_null0',), None)):  # an alias, which names no library
            with self.subTest(devices=devices):
                switch = self.start_switch(
                    2, *(word for device in devices for word in ('--port', device)))
                loaded = set(re.findall(r'librte_net_(\w+)\.so',
                                        Path(f'/proc/{switch.child.pid}/maps').read_text()))
                if drivers is None:
                    self.assertLess({'memif', 'null', 'ring', 'failsafe', 'tap'}, loaded)
                else:
                    self.assertEqual(loaded, drivers)
                self.stop(switch)

    def test_bad_arguments(self):
        for program, *arguments in (('rh-switch',), ('rh-switch', '--memif', 1),
                                    ('rh-switch', '--memif', 2, '--faults', '2:loss=1%'),
                                    ('rh-switch', '--memif', 2, '--socket-dir', os.devnull),
                                    ('rh-stats', '--count', 2), ('rh-stats', '--', '--list')):
            with self.subTest(program=program, arguments=arguments):
                self.assert_refused(program, *arguments)


if __name__ == '__main__':
    support.main()
