# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-perf --transport dc between two processes over memif; what it sends is judged by the checker."""

import support
from judge import dcformat, frame
from support import PATIENT

OPERATIONS = ['send', 'write', 'read', 'cas', 'faa']
CLIENT = support.ADDRESSES[4][1].partition('/')[0]
CONTROL, CONNECT_DATA = 0xD8, 0xDE
DATA = 0  # no subtype of a message


def dialogue(path):
    """The packets of dynamic connections in a capture: (of the client, the message's subtype)."""
    for packet in support.roce_packets(path):
        subtype = dcformat.message(packet)[0].subtype if packet.opcode == CONTROL else DATA
        if packet.opcode == CONNECT_DATA:
            subtype = CONNECT_DATA
        yield frame.address(packet.src) == CLIENT, subtype


class DynamicConnections(support.ProgramTest):
    def run_perf(self, *client, common=(), server=(), **more):
        """The client's report, validated, with the same as the server's."""
        patience = () if '--faults' in common else PATIENT
        of_server, report = self.run_pair('rh-perf', '--transport', 'dc', *patience, *common,
                                          server=server, client=client, **more)
        self.assertEqual(of_server['results'], report['results'])
        self.assertEqual(report['transport'], 'DC')
        for result in report['results']:
            self.assertTrue(result['validated'], result)
        return report

    def test_all_operations(self):
        """DC-9, DC-12, DC-21."""
        for mode in ('bw', 'lat'):
            report = self.run_perf('--op', 'all', '--mode', mode, '-s', 5000, '-n', 300)
            self.assertEqual([result['op'] for result in report['results']], OPERATIONS)

    def test_a_target_for_each_message(self):
        """DC-1 to DC-7, DC-10, DC-16, DC-24: with one request outstanding for each of 40 targets
        every message goes to another one, by a connect, an accept with a session id of its own,
        data that carries it, and a disconnect when all is acknowledged."""
        path = self.lab.path('turns.pcapng')
        report = self.run_perf('--op', 'all', '-q', 40, '-t', 1, '-r', 4, '-s', 64, '-n', 20,
                               '--pcap', path)
        requests = sum(result['iterations'] for result in report['results'])
        counted = self.judged(path)
        self.assertGreaterEqual(counted['connects'], requests)
        self.assertEqual(counted['sessions'], counted['connects'])
        self.assertGreaterEqual(counted['disconnects'], counted['sessions'] - 1)
        self.assertGreaterEqual(counted['target_changes'], requests - 1)

    def test_one_target_keeps_its_connection(self):
        """DC-23: no connect for each request, whatever the lease may have ended."""
        path = self.lab.path('kept.pcapng')
        report = self.run_perf('--op', 'write', '-s', 64, '-n', 5000, '--pcap', path)
        self.assertLess(self.judged(path)['connects'], report['results'][0]['iterations'] / 100)

    def handshake(self, kind, connect=dcformat.CONNECT):
        """What the client's capture says from each connect to its accept."""
        path = self.lab.path(f'{kind}.pcapng')
        self.run_perf('--op', 'write', '-q', 10, '-t', 1, '-r', 1, '-s', 64, '-n', 20,
                      '--handshake', kind, '--pcap', path)
        self.judged(path)
        opened, found = None, []
        for from_client, what in dialogue(path):
            if from_client and what == connect:
                opened = []
            elif not from_client and what == dcformat.ACCEPT and opened is not None:
                found.append(opened)
                opened = None
            elif opened is not None:
                opened.append((from_client, what))
        self.assertGreaterEqual(len(found), 200)
        return found

    def test_half_handshake(self):
        """DC-8, DC-11, and that data is under way half a round trip before the accept comes, behind
        its connect."""
        for between in self.handshake('half'):
            self.assertIn((True, DATA), between)

    def test_connect_with_data(self):
        """DC-8: the request is in the connect; a packet less for each connection, and nothing else is
        sent before the accept."""
        for kind in ('data', 'auto'):
            for between in self.handshake(kind, CONNECT_DATA):
                self.assertNotIn((True, DATA), between)
                self.assertNotIn((True, dcformat.CONNECT), between)

    def test_full_handshake(self):
        """DC-11: data waits for the accept."""
        for between in self.handshake('full'):
            self.assertNotIn((True, DATA), between)

    def test_partition(self):
        self.run_perf('--op', 'all', '-q', 3, '-s', 3000, '-n', 50,
                      common=('--pkeys', '0xffff,0x8123', '--pkey-index', 1))

    def test_streams_in_both_directions(self):
        """DC-17, DC-25: several connections at a time, and sessions of both ends."""
        report = self.run_perf('--op', 'all', '-q', 12, '-t', 2, '-b', '-s', 3000, '-n', 50,
                               common=('--streams', 4))
        for result in report['results']:
            self.assertEqual(result['iterations'], 2 * 12 * 50)

    def test_congestion_control(self):
        # To Swift, a peer that waits for a processor is a full queue.
        for control in (('dcqcn',), ('swift', '--swift-target-delay', 1000000)):
            self.run_perf('--op', 'all', '-q', 4, '-s', 5000, '-n', 50, '--congestion', *control)

    def test_ipv6_and_path_mtu(self):
        report = self.run_perf('--op', 'read', '-m', 1024, '-n', 20, family=6)
        self.assertEqual(report['path_mtu'], 1024)
        report = self.run_perf('-n', 20, '-s', 4096, server=('--link-mtu', 1500))
        self.assertEqual(report['path_mtu'], 1024)

    def test_loss_duplication_reordering_corruption(self):
        """DC-18, DC-26 to DC-29."""
        report = self.run_perf(
            '--op', 'send,write,read', '-q', 8, '-t', 4, '-r', 8, '-s', 10000, '-n', 20,
            common=('--faults', 'loss=1%,dup=1%,reorder=1%:1ms,corrupt=0.5%'))
        self.assertEqual(len(report['results']), 3)

    def test_counters(self):
        """DC-37."""
        server, client = self.start_pair('rh-perf', '--transport', 'dc', '--stats', 1,
                                         client=('--op', 'write', '-s', 64, '-n', 100))
        for process, counters in ((client, ('tx_connect', 'rx_accept')),
                                  (server, ('sessions_opened', 'tx_accept'))):
            self.assert_status(process, 0)
            for counter in counters:
                self.assertRegex(process.messages(), rf'dc +{counter} +[1-9]')

    def test_both_ends_must_have_the_same_transport(self):
        server, client = self.start_pair('rh-perf', client=('--transport', 'dc'))
        self.assert_failed(server, 'the client has --transport dc, the server rc')
        self.assert_failed(client, 'the client has --transport dc, the server rc')

    def test_too_many_requests_for_a_stream(self):
        server, client = self.start_pair('rh-perf', '--transport', 'dc',
                                         client=('-q', 1000, '-t', 100, '-r', 1))
        self.assert_failed(client, 'smaller --window, or more --streams')
        self.assert_failed(server, '--streams|closed the connection')


if __name__ == '__main__':
    support.main()
