#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The device while programs run on it: its counters in /sys, and what rh-stats --resources lists.

What counters are to show follows from captures of the same runs, which the judge's reader reads. As
programs tell what they have counted at most some milliseconds later, it is waited for."""

import collections
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import types
import unittest
import zlib

from pairs import PairTest, free_port
import support
import test_harm
from support import LIMIT_S, Capture, CaptureError, wait_until
from verbs_support import PATHS, SANITIZER, SOAK, as_ordinary_user, clean_environment

PORT = '/sys/class/infiniband/rh0/ports/1'
ROUNDS = 200 if SOAK else 6
# Of frames: Ethernet, then IPv4 or IPv6, then UDP.
ETHERNET, ETHERTYPE_IPV4, UDP = 14, b'\x08\x00', 8
# Of a BTH.
WRITES = {'first': 0x06, 'only': 0x0A, 'only with immediate': 0x0B}
READ_REQUEST, ACKNOWLEDGE = 0x0C, 0x11
NAK_SEQUENCE = 0x60
# What a program would see of a kernel's rxe, of an mlx5, and of each port.
SOME_OF_LINUX = ('counters/port_xmit_data', 'counters/port_rcv_data', 'counters/port_xmit_packets',
                 'counters/port_rcv_packets', 'counters/unicast_xmit_packets', 'counters/symbol_error',
                 'counters/VL15_dropped', 'counters/link_downed', 'hw_counters/duplicate_request',
                 'hw_counters/sent_pkts', 'hw_counters/out_of_sequence', 'hw_counters/lifespan',
                 'hw_counters/rx_write_requests', 'hw_counters/np_cnp_sent')

# The library that shows counters, or another one in its place.
SHOWS = os.environ.get('ROCKHOPPER_RH_PATHS', PATHS)

# Reads all counters over and over; a line for each that has fallen.
SAMPLER = '''
import glob, sys
paths = glob.glob(sys.argv[1] + '/*counters/*')
before = dict.fromkeys(paths, 0)
print('ready', flush=True)
while True:
    for path in paths:
        with open(path) as file:
            value = int(file.read())
        if value < before[path]:
            print('fallen', path, before[path], value, flush=True)
        before[path] = value
'''

# How a program may read a counter, each of which is to give what it is now.
READINGS = f'''
import os, sys, time
port, name = {PORT!r}, 'port_xmit_packets'
path = f'{{port}}/counters/{{name}}'
kept = os.open(path, os.O_RDONLY)
other = os.open(path, os.O_RDONLY)
file = open(path)
def values():
    yield os.pread(kept, 100, 0)
    os.lseek(other, 0, os.SEEK_SET)
    yield os.read(other, 100)
    file.seek(0)
    yield file.read().encode()
    folder = os.open(f'{{port}}/counters', os.O_RDONLY | os.O_DIRECTORY)
    relative = os.open(name, os.O_RDONLY, dir_fd=folder)
    yield os.read(relative, 100)
    os.close(relative)
    os.close(folder)
    os.chdir(f'{{port}}/counters')
    for again in (name, f'./{{name}}', os.path.realpath(name)):
        with open(again) as file_again:
            yield file_again.read().encode()
    os.chdir('/')
print(*[int(value) for value in values()], flush=True)
try:
    os.write(kept, b'7')
except OSError as error:
    print('not written', flush=True)
assert os.get_inheritable(kept) is False
assert name in os.listdir(f'{{port}}/counters')
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print(*[int(value) for value in values()], flush=True)
'''


class LiveTest(PairTest):
    def start_reader(self, *command):
        """Starts a program that reads counters."""
        if SHOWS != PATHS:
            command = ('sh', '-c', 'LD_PRELOAD="$0" exec "$@"', SHOWS, *command)
        return self.start_verbs('reader', *command)

    def counters(self):
        """{counter: value} of the device, read by a program under rh-run."""
        process = self.start_reader('grep', '-r', '', f'{PORT}/counters', f'{PORT}/hw_counters')
        self.assertEqual(process.wait(LIMIT_S), 0, process.messages())
        lines = (line.rpartition(':') for line in process.output().splitlines())
        return {path.removeprefix(f'{PORT}/'): int(value) for path, _, value in lines}

    def risen(self, before, wanted):
        """By how much, once those of `wanted` have risen so far, or will not in time."""
        def now():
            counters = self.counters()
            return {name: value - before[name] for name, value in counters.items()}
        wait_until(lambda: all(now()[name] >= value for name, value in wanted.items()), 20, f'{wanted} of {now()}')
        return now()

    def captured(self):
        """Of all captures: the frames of RoCE that went each way."""
        frames = {'in': [], 'out': []}
        for capture in sorted(self.lab.folder.glob('*.pcapng')):
            for record in Capture(capture):
                self.assertEqual(record.wire_length, len(record.data))
                if self.bth_at(record.data):
                    frames[record.direction].append(record.data)
            capture.unlink()
        return frames

    @staticmethod
    def bth_at(frame):
        """Where the BTH of a RoCEv2 packet is; 0 of another frame."""
        ip = ETHERNET + (20 if frame[12:14] == ETHERTYPE_IPV4 else 40)
        protocol = frame[ETHERNET + 9] if frame[12:14] == ETHERTYPE_IPV4 else frame[ETHERNET + 6]
        is_roce = protocol == 17 and struct.unpack_from('>H', frame, ip + 2)[0] == 4791
        return ip + UDP if is_roce else 0

    def opcodes(self, frames):
        return collections.Counter(frame[self.bth_at(frame)] for frame in frames)

    def resources(self, kind, *arguments, status=0):
        """What rh-stats prints of the test's segment."""
        program = support.PROGRAMS / 'rh-stats'
        line = [*as_ordinary_user(), 'env', '-i', f'ROCKHOPPER_SEGMENT={self.segment()}', program,
                '--resources', kind, *arguments]
        process = self.lab.start('rh-stats', line)
        self.assertEqual(process.wait(LIMIT_S), status, process.messages())
        return process

    def listed(self, kind, *arguments):
        process = self.resources(kind, '--json', *arguments)
        return json.loads(process.output())[kind]


class Counters(LiveTest):
    def setUp(self):
        super().setUp()
        self.pcap = ('--pcap', self.lab.path('%p.pcapng'))

    def assert_as_captured(self, program, *options, requests=()):
        self.need(program)
        before = self.counters()
        self.run_pair(program, *options, runs=(self.pcap, self.pcap))
        frames = self.captured()
        wanted = {}
        for way, name in (('out', 'xmit'), ('in', 'rcv')):
            groups = sum(frame[0] & 1 for frame in frames[way])
            wanted |= {f'counters/port_{name}_packets': len(frames[way]),
                       f'counters/unicast_{name}_packets': len(frames[way]) - groups,
                       f'counters/multicast_{name}_packets': groups}
        self.assertGreater(len(frames['out']), 0)
        risen = self.risen(before, wanted)
        self.assertEqual({name: risen[name] for name in wanted}, wanted)
        for way, name in (('out', 'xmit'), ('in', 'rcv')):
            words = sum(len(frame) for frame in frames[way]) / 4
            # Both sums were rounded.
            self.assertLess(abs(risen[f'counters/port_{name}_data'] - words), 1)
        opcodes = self.opcodes(frames['in'])
        for counter, kinds in requests:
            expected = sum(opcodes[kind] for kind in kinds)
            self.assertGreater(expected, 0)
            self.assertEqual(risen[f'hw_counters/{counter}'], expected)
        self.assertEqual(risen['hw_counters/sent_pkts'], len(frames['out']))
        # Packets to groups come to all processes, also to those that have not joined them.
        least = wanted['counters/unicast_rcv_packets']
        self.assertIn(risen['hw_counters/rcvd_pkts'], range(least, len(frames['in']) + 1))
        for idle in ('counters/port_rcv_errors', 'counters/symbol_error', 'hw_counters/rx_icrc_encapsulated'):
            self.assertEqual(risen[idle], 0, idle)

    def test_names_and_units_are_those_of_linux(self):
        counters = self.counters()
        self.assertEqual(set(SOME_OF_LINUX) - set(counters), set())
        self.assertEqual({name for name, value in counters.items() if value}, {'hw_counters/lifespan'})

    def test_two_processes_sum_up_to_what_was_captured(self):
        self.assert_as_captured('ibv_rc_pingpong', '-g', 0, '-s', 9000, '-n', 100)
        self.assert_as_captured('ibv_ud_pingpong', '-g', 0, '-s', 1000, '-n', 100)
        self.assert_as_captured('ib_write_bw', '-F', '-n', 200, '-s', 5000,
                                requests=[('rx_write_requests', WRITES.values())])
        self.assert_as_captured('ib_read_lat', '-F', '-n', 200, '-s', 5000,
                                requests=[('rx_read_requests', [READ_REQUEST])])
        multicast = ('--addresses', '192.0.2.1/24,2001:db8::1/64')
        self.pcap += multicast
        self.assert_as_captured('ib_send_lat', '-F', '-c', 'UD', '--mcg', '-x', 1, '-n', 100)

    def test_each_way_of_progress(self):
        for mode in ('thread', 'inline'):
            with self.subTest(mode=mode):
                self.pcap = ('--pcap', self.lab.path('%p.pcapng'), '--progress', mode)
                self.assert_as_captured('ibv_rc_pingpong', '-g', 0, '-s', 100, '-n', 100)
        self.pcap = ('--pcap', self.lab.path('%p.pcapng'))
        self.assert_as_captured('ibv_rc_pingpong', '-g', 0, '-s', 100, '-n', 100, '-e')

    def test_losses(self):
        """The client's requests are lost on the way, so that the server's NAKs are in its capture."""
        self.need('ib_write_bw')
        before = self.counters()
        faults = ('--faults', 'tx.loss=5%')
        self.run_pair('ib_write_bw', '-F', '-n', 2000, '-s', 3000, '-u', 17,
                      runs=(self.pcap, (*self.pcap, *faults)))
        frames = self.captured()
        naks = 0
        for frame in frames['in']:
            at = self.bth_at(frame)
            naks += frame[at] == ACKNOWLEDGE and frame[at + 12] == NAK_SEQUENCE
        self.assertGreater(naks, 10)
        risen = self.risen(before, {'hw_counters/packet_seq_err': naks})
        self.assertEqual(risen['hw_counters/packet_seq_err'], naks)
        self.assertEqual(risen['hw_counters/rcvd_seq_err'], naks)
        self.assertGreaterEqual(risen['hw_counters/out_of_sequence'], naks)
        self.assertGreaterEqual(risen['hw_counters/completer_retry_err'], naks)
        # What was lost has been sent and has not left.
        self.assertEqual(risen['counters/port_xmit_packets'], len(frames['out']))
        self.assertGreater(risen['hw_counters/sent_pkts'], len(frames['out']))

    def test_perftest_reports_them(self):
        self.need('ib_write_bw')
        before = self.counters()
        names = ('counters/port_xmit_packets', 'counters/port_xmit_data', 'hw_counters/rx_write_requests')
        _, output = self.run_pair('ib_write_bw', '-F', '-D', 2, '-s', 4096, client=('-W', ','.join(names)))
        told = {name: int(value) for name, value in re.findall(r'(\w*counters/\w+)=(\d+)', output)}
        self.assertEqual(set(told), set(names))
        messages = int(re.search(r'^ 4096 +(\d+) ', output, re.MULTILINE).group(1))
        after = self.risen(before, {'hw_counters/rx_write_requests': messages})
        for name in names:
            self.assertGreater(told[name], 0, output)
            self.assertLessEqual(told[name], after[name])
        self.assertGreaterEqual(told['hw_counters/rx_write_requests'], messages // 2)
        # In words, at least those of the payload.
        self.assertGreater(told['counters/port_xmit_data'], told['hw_counters/rx_write_requests'] * 4096 // 4)

    def test_ways_to_read_a_counter(self):
        go_on = self.lab.path('go-on')
        reader = self.start_reader('/usr/bin/python3', '-c', READINGS, go_on)
        wait_until(lambda: 'not written' in reader.output() or reader.has_ended(), LIMIT_S, 'the reader has begun')
        before = self.counters()
        self.ping_pong('ibv_rc_pingpong', '-g', 0, size=100, iterations=100)
        expected = before['counters/port_xmit_packets'] + self.risen(
            before, {'counters/port_xmit_packets': 200})['counters/port_xmit_packets']
        go_on.touch()
        self.assertEqual(reader.wait(LIMIT_S), 0, reader.messages())
        first, refused, second = reader.output().splitlines()
        self.assertEqual((set(first.split()), refused), ({'0'}, 'not written'))
        self.assertEqual(set(second.split()), {str(expected)})

    def test_no_sum_falls_when_processes_are_killed(self):
        self.need('ib_write_bw')
        sampler = self.start_reader('/usr/bin/python3', '-c', SAMPLER, PORT)
        wait_until(lambda: 'ready' in sampler.output() or sampler.has_ended(), LIMIT_S, 'the sampler has begun')
        before = 0
        for _ in range(ROUNDS):
            pair = self.start_pair('ib_write_bw', '-F', '-D', 60, '-s', 100)
            wait_until(lambda: self.counters()['hw_counters/rx_write_requests'] > before or
                       any(process.has_ended() for process in pair), LIMIT_S, 'the pair writes')
            for process in pair:
                process.child.send_signal(signal.SIGKILL)
                process.wait(LIMIT_S)
            after = self.counters()['hw_counters/rx_write_requests']
            self.assertGreater(after, before)
            before = after
        self.assertFalse(sampler.has_ended(), sampler.messages())
        self.assertEqual(sampler.output(), 'ready\n')

    def test_what_is_no_table_counts_nothing(self):
        self.ping_pong('ibv_rc_pingpong', '-g', 0, size=100, iterations=10)
        table = self.segment() / 'table'
        whole = table.read_bytes()
        self.assertGreater(self.counters()['counters/port_xmit_packets'], 0)
        for name, contents in (('short', whole[:4000]), ('empty', b''), ('other magic', b'garbage!' + whole[8:])):
            with self.subTest(table=name):
                table.write_bytes(contents)
                self.assertEqual(set(self.counters().values()), {0, 10})
        table.unlink()
        self.assertEqual(set(self.counters().values()), {0, 10})
        # Numbers of a neighbour without manners are numbers nonetheless.
        table.write_bytes(whole[:-2**16] + os.urandom(2**16))
        self.counters()


class Resources(LiveTest):
    def running_pair(self, *options, **more):
        """Two that write for long, once their queue pairs are connected."""
        self.need('ib_write_bw')
        pair = self.start_pair('ib_write_bw', '-F', '-D', 60, '-s', 100, *options, **more)
        wait_until(lambda: self.is_running(pair), LIMIT_S, 'the pair writes')
        return pair

    def is_running(self, pair):
        self.assertFalse(any(process.has_ended() for process in pair), pair[1].messages())
        if not (self.segment() / 'table').exists():
            return False
        return sum(qp['state'] == 'RTS' and qp['sq-psn'] != qp['rq-psn'] for qp in self.listed('qp')) >= 8

    def test_queue_pairs_of_two_processes(self):
        """Numbers and keys are those that their packets carry."""
        pcap = ('--pcap', self.lab.path('server.pcapng'))
        pair = self.running_pair('-q', 8, runs=(pcap, ('--faults', 'tx.rate=5Mbit')))
        server, client = (process.child.pid for process in pair)
        listed = self.listed('qp')
        self.assertEqual(collections.Counter(qp['pid'] for qp in listed), {server: 8, client: 8})
        self.assertEqual({(qp['ifname'], qp['port'], qp['type'], qp['comm']) for qp in listed},
                         {('rh0', 1, 'RC', 'ib_write_bw')})
        by_number = {qp['lqpn']: qp for qp in listed}
        self.assertEqual(len(by_number), 16)
        for qp in listed:
            self.assertEqual(by_number[qp['rqpn']]['rqpn'], qp['lqpn'])
            self.assertNotEqual(by_number[qp['rqpn']]['pid'], qp['pid'])
        self.assertEqual({qp['state'] for qp in listed if qp['pid'] == client}, {'RTS'})
        regions = [region for region in self.listed('mr') if region['pid'] == server]
        wait_until(lambda: len(self.written(pcap[1])) == 8, LIMIT_S, 'packets of all queue pairs')
        written = self.written(pcap[1])
        self.assertEqual(set(written), {qp['lqpn'] for qp in listed if qp['pid'] == server})
        for address, key in written.values():
            self.assertTrue(any(key == int(region['rkey'], 16) and
                                0 <= address - int(region['iova'], 16) < region['mrlen'] for region in regions))
        # They go on while it is looked at.
        moving = {qp['lqpn']: qp['sq-psn'] for qp in listed if qp['pid'] == client}
        wait_until(lambda: all(qp['sq-psn'] != moving[qp['lqpn']]
                               for qp in self.listed('qp', '--pid', client)), LIMIT_S, 'PSNs move')
        self.assertEqual({qp['pid'] for qp in self.listed('qp', '--pid', server)}, {server})

    def written(self, capture):
        """{queue pair: address and key} of the WRITEs that have come, as the capture has it so far."""
        try:
            frames = [record.data for record in Capture(capture) if record.direction == 'in']
        except (CaptureError, FileNotFoundError):
            return {}
        found = {}
        for frame in frames:
            at = self.bth_at(frame)
            if at and frame[at] in WRITES.values():
                number = int.from_bytes(frame[at + 5:at + 8], 'big')
                found[number] = struct.unpack_from('>QI', frame, at + 12)
        return found

    def test_the_other_objects(self):
        pair = self.running_pair('-q', 8)
        pids = {process.child.pid for process in pair}
        for kind in ('ctx', 'pd', 'cq', 'mr'):
            self.assertEqual({one['pid'] for one in self.listed(kind)}, pids, kind)
        self.assertTrue(all(region['mrlen'] >= 100 for region in self.listed('mr')))
        # Of each queue pair twice: perftest has one queue for both directions.
        self.assertEqual({queue['users'] for queue in self.listed('cq')}, {16})
        self.assertEqual({domain['users'] for domain in self.listed('pd')}, {9})
        [device] = self.listed('dev')
        self.assertEqual((device['ifname'], device['state'], device['processes'], device['segment']),
                         ('rh0', 'ACTIVE', 2, str(self.segment())))
        processes = {one['pid']: one for one in self.listed('process')}
        self.assertEqual({(one['comm'], one['qp'], one['mr'], one['srq']) for one in processes.values()},
                         {('ib_write_bw', 8, 1, 0)})
        lines = self.resources('all').output().splitlines()
        self.assertEqual(sum(line.startswith('link rh0/1 ') for line in lines), 16)
        self.assertRegex(lines[0], r'^dev rh0 state ACTIVE segment \S+ processes 2 addresses \S+$')

    def test_watching(self):
        self.running_pair('-q', 8)
        process = self.resources('qp', '--json', '--watch', '0.05', '--count', 3)
        self.assertEqual([len(json.loads(line)['qp']) for line in process.output().splitlines()], [16] * 3)

    def test_of_a_killed_process_nothing_is_shown(self):
        server, client = self.running_pair('-q', 8)
        server.child.send_signal(signal.SIGSTOP)  # it would see that the client ends, and end too
        client.child.send_signal(signal.SIGKILL)
        client.wait(LIMIT_S)
        self.assertEqual({qp['pid'] for qp in self.listed('qp')}, {server.child.pid})
        self.assertEqual([one['pid'] for one in self.listed('process')], [server.child.pid])
        server.child.send_signal(signal.SIGKILL)
        server.wait(LIMIT_S)
        self.assertEqual(self.listed('process'), [])
        self.assertEqual(self.listed('dev'), [])
        process = self.resources('qp', '--pid', client.child.pid, status=1)
        self.assertRegex(process.messages(), rf'^rh-stats: no process {client.child.pid} has opened a device of .*\n$')

    def test_a_damaged_list(self):
        pair = self.running_pair('-q', 8)
        [first, second] = sorted(self.segment().glob('resources-*-*'))
        whole = first.read_bytes()
        for name, contents in (
                ('random', os.urandom(4096)), ('empty', b''), ('a torn record', whole[:70] + b'\xff' + whole[71:]),
                ('without its process', whole[64:]), ('another version', self.of_version(whole, 9)),
                ('long', whole + bytes(2**24))):
            with self.subTest(contents=name):
                first.write_bytes(contents)
                process = self.resources('process', '--json')
                pids = [one['pid'] for one in json.loads(process.output())['process']]
                lines = process.messages().splitlines()
                if name == 'long':
                    self.assertEqual((len(pids), lines), (2, []))
                else:
                    self.assertEqual(len(pids), 1)
                    self.assertEqual(len(lines), 1, lines)
                    self.assertRegex(lines[0], rf'^rh-stats: skipped {first}: ')
        first.unlink()
        first.symlink_to('/dev/zero')
        self.assertEqual(len(self.listed('process')), 1)
        self.assertFalse(any(process.has_ended() for process in pair))
        (self.segment() / 'table').write_bytes(b'garbage')
        process = self.resources('qp', status=1)
        self.assertRegex(process.messages(), r'^rh-stats: .*/table is not a table of this version\n$')
        for process in pair:
            process.child.send_signal(signal.SIGKILL)

    @staticmethod
    def of_version(whole, version):
        record = bytearray(whole[4:64])
        record[3] = version
        return struct.pack('=I', zlib.crc32(record)) + bytes(record) + whole[64:]

    def test_where_nobody_has_been(self):
        process = self.resources('qp', status=1)
        self.assertRegex(process.messages(), r'^rh-stats: no program under rh-run has been here: .*\n$')
        process = self.resources('nothing', status=2)
        self.assertEqual(len(process.messages().splitlines()), 1)

    def test_who_receives_for_all(self):
        address, _ = support.loopback_addresses()
        options = ('--uplink', 'udp', '--addresses', f'{address}/8')
        processes = []
        for _ in range(2):
            port = free_port()
            processes.append(self.start_listening(port, 'ibv_rc_pingpong', '-g', 0, '-p', port, options=options))
        pids = [process.child.pid for process in processes]
        wait_until(lambda: self.uplink_receiver() == pids[0], LIMIT_S, 'the first one receives')
        self.assertEqual({one['pid']: one['uplink'] for one in self.listed('process')},
                         {pids[0]: 'receives', pids[1]: 'sends'})
        [device] = self.listed('dev')
        self.assertEqual(device['addresses'], [f'{address}/8'])

    def uplink_receiver(self):
        return next((device.get('uplink-receiver') for device in self.listed('dev')), None)


class Failed(LiveTest):
    def test_a_queue_pair_that_fails_by_itself(self):
        """Its peer is killed, and it finds out: nobody has modified it."""
        if SANITIZER:
            self.skipTest('harm_peer is built without a sanitizer')
        segment = self.segment()
        segment.mkdir(mode=0o700)
        self.addCleanup(shutil.rmtree, segment, ignore_errors=True)
        place = types.SimpleNamespace(runtime=self.lab.folder, segment=segment)
        ends = [test_harm.Peer(place, 1, 10**6, test_harm.IMPATIENT, 'events') for _ in range(2)]
        for peer in ends:
            self.addCleanup(peer.clean_up)
        numbers = [peer.numbers() for peer in ends]
        for peer, others in zip(ends, reversed(numbers)):
            peer.say(' '.join(others))
        for peer in ends:
            self.assertEqual(peer.line(1), 'ready')
            peer.say('')
        environment = clean_environment(ROCKHOPPER_SEGMENT=str(segment))
        ends[0].child.send_signal(signal.SIGKILL)
        self.assertRegex(ends[1].line(2), '^error ')

        def state():
            done = subprocess.run([support.PROGRAMS / 'rh-stats', '--resources', 'qp', '--json'],
                                            env=environment, capture_output=True, check=True)
            return [qp['state'] for qp in json.loads(done.stdout)['qp']]
        wait_until(lambda: state() == ['ERR'], LIMIT_S, 'the failure is listed')


if __name__ == '__main__':
    unittest.main(verbosity=2)
