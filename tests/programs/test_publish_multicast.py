# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-publish --multicast and rh-subscribe at a switch: copies reach all subscribers, and what a bad
network loses of them is fetched by READs alone."""

import ipaddress
import re
import struct

import support
from publish_support import PublishTest
from support import LOSSY, PATIENT

GROUP = '239.42.7.9'
BAD_NETWORK = ('--faults', 'loss=5%,reorder=5%:1ms')
SEND = range(0x00, 0x06)  # of RC, first to only with immediate
READ_REQUEST = 0x0C
ACKNOWLEDGE = 0x11
UD_SEND_IMM = 0x65
CONTROL_BYTES = 64


class Multicast(PublishTest):
    def publisher(self, *arguments):
        return super().publisher('--multicast', GROUP, *arguments)

    def subscriber(self, station, port, *arguments):
        """It writes JSON lines into a folder of its own."""
        folder = self.lab.path(f'out{station}')
        folder.mkdir()
        process = super().subscriber(station, port, '--output', folder, '--json', '--strict',
                                     *arguments)
        return process, folder

    def lines(self, count):
        return b''.join(b'%d %s\n' % (i, b'x' * self.random.randrange(600)) for i in range(count))

    def check_subscriber(self, process, folder, data):
        """All lines, in order; what its readers have counted."""
        report = self.report(process)['stores']['news']
        self.assertEqual((folder / 'news.txt').read_bytes(), data)
        self.assertEqual(report['lost'], 0)
        return report['copies']

    def test_losses_are_repaired_by_reads_alone(self):
        """PB-13 to PB-17: three subscribers on a network that loses every twentieth packet. All get
        all; the publisher receives nothing from them but READ requests once they are set up; and
        the datagrams are byte for byte what the log has."""
        self.start_switch(4)
        data = self.lines(4000)
        capture = self.lab.path('publisher.pcapng')
        log = self.lab.path('news.store')
        publisher, port = self.publisher(
            '--store', f'news=8MiB:file={log}', '--input', f'lines:{self.write("in", data)}',
            '--wait', 3, '--rate', 2000, '--pcap', capture, '-m', 1024, *LOSSY)
        subscribers = [self.subscriber(station, port, '--from', 'oldest', *LOSSY, *BAD_NETWORK)
                       for station in (1, 2, 3)]
        for subscriber in subscribers:
            copies = self.check_subscriber(*subscriber, data)
            self.assertGreater(copies['taken'], 0)
            self.assertGreater(copies['repaired'], 0)
            self.assertGreater(copies['gaps'], 0)
        report = self.report(publisher)
        self.assertEqual(report['counters']['copies_sent'], 4000)
        self.check_capture(capture, log, 4000)

    def check_capture(self, capture, log, messages):
        packets = list(support.roce_packets(capture))
        ours = next(packet.src for packet in packets if packet.opcode == UD_SEND_IMM)
        copies = [packet for packet in packets if packet.opcode == UD_SEND_IMM]
        self.assertEqual(len(copies), messages)
        self.assertEqual({packet.dst for packet in copies}, {ipaddress.ip_address(GROUP).packed})
        self.check_copies(copies, log)
        seen = set()
        reads = 0
        begun = False
        for packet in packets:
            begun = begun or packet.opcode == UD_SEND_IMM
            if packet.src == ours:
                continue
            reads += packet.opcode == READ_REQUEST
            name = (packet.src, packet.dqpn, packet.psn)
            # A request of the set-up may be sent again, as its acknowledgement was lost.
            if begun and packet.opcode not in (READ_REQUEST, ACKNOWLEDGE):
                self.assertIn(packet.opcode, SEND)
                self.assertIn(name, seen, f'packet {packet.number} is a new request')
            seen.add(name)
        self.assertGreater(reads, 0)

    def check_copies(self, copies, log):
        """What follows from PB-14: each copy says where it is in the log, one behind the other."""
        store = log.read_bytes()
        ring = len(store) - CONTROL_BYTES
        end = 0
        for number, packet in enumerate(copies):
            payload = packet.payload_bytes()
            position, sequence = struct.unpack_from('<QQ', payload)
            self.assertEqual(sequence, number)
            self.assertEqual(position, end)
            at = CONTROL_BYTES + position % ring
            self.assertEqual(payload, store[at:at + len(payload)])
            end += len(payload)

    def test_one_of_them_wants_no_copies(self):
        """PB-13: who wants none, and who has a dynamic connection, get the same."""
        for transport in ('rc', 'dc'):
            with self.subTest(transport=transport):
                self.start_switch(3)
                data = self.lines(500)
                publisher, port = self.publisher(
                    '--store', 'news=1MiB', '--input', f'lines:{self.write("in", data)}',
                    '--wait', 2, '--rate', 500, '--transport', transport, *PATIENT)
                one = self.subscriber(1, port, '--from', 'oldest', *PATIENT)
                other = self.subscriber(2, port, '--from', 'oldest', '--no-multicast', *PATIENT)
                self.assertGreater(self.check_subscriber(*one, data)['received'], 0)
                self.assertEqual(self.check_subscriber(*other, data)['received'], 0)
                self.report(publisher)
                self.end_all()
                for _, folder in (one, other):
                    (folder / 'news.txt').unlink()
                    folder.rmdir()

    def test_bad_groups(self):
        """One line says why."""
        for group in ('10.0.0.1', '239.1.2', 'all', '::1'):
            with self.subTest(group=group):
                self.assertIn(group, self.assert_refused('rh-publish', '--multicast', group))
        self.start_switch(2)
        process = self.run_program('rh-publish', *self.station(0), '-p', 0, '--multicast',
                                   'ff15::1', '--input', 'lines:/dev/null')
        self.assert_failed(process, re.escape('ff15::1'))


if __name__ == '__main__':
    support.main()
