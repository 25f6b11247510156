# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the demo shows. Each proof runs something and returns what came out, or raises LabError."""

import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys

from demonstration.comparison import OPERATIONS
from lab.pairs import CLIENT_IP, SERVER_IP, Pair, free_port, listens, parse
from lab.processes import LabError, wait_until
from lab.stations import Stations
from lab.verbs import Verbs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/judge'))

from judge import frame  # noqa: E402 (needs the path above)
from judge.capture import Capture  # noqa: E402
from judge.opcodes import Opcodes  # noqa: E402

FAULTS = ['--faults', 'loss=1%']


class Demo:
    def __init__(self, lab, programs, captures):
        self.lab = lab
        self.programs = programs
        self.captures = captures

    def capture(self, name):
        return self.captures / f'{name}.pcapng'

    def pair(self, name, family=4):
        return Pair(self.lab, self.programs, name, family)

    def pingpong(self, family, size, iterations, name, faults=(), common=()):
        """Ping-pong with every message compared; the capture is the server's."""
        same = ['-c', '-s', size, '-n', iterations, *common]
        client, server = self.pair('rh-pingpong', family).run(
            [*same, *faults], server_options=[*same, '--pcap', self.capture(name)])
        checked = min(client['messages_checked'], server['messages_checked'])
        if checked < iterations:
            raise LabError(f'only {checked} of {iterations} messages were checked')
        return (f'{checked} messages of {size} bytes each way, '
                f'{client["us_per_iteration"]:.1f} us an exchange')

    def verbs_program(self, name):
        """A program of rdma-core, as Debian ships it, in two processes under rh-run. Its server looks at
        the last message; the checker judges the packets."""
        port, iterations = free_port(), 1000
        # A device of their own, beside the user's.
        start = Verbs(self.lab, self.programs).start
        program = ['ibv_rc_pingpong', '-g', 0, '-c', '-n', iterations, '-p', port]
        server = self.lab.start('ibv_rc_pingpong-server', [
            *start, self.programs / 'rh-run', '--pcap', self.capture(name), '--', *program])
        wait_until(lambda: listens(port) or server.has_ended(), 20, f'{server.name} does not listen')
        client = self.lab.start('ibv_rc_pingpong-client', [
            *start, self.programs / 'rh-run', '--', *program, 'localhost'])
        for process in (client, server):
            process.expect_success(60)
        if 'invalid data' in server.output():
            raise LabError(f'{server.name} got other bytes than were sent')
        took = re.search(rf'{iterations} iters in .* = (.*) usec/iter', client.output())
        if not took:
            raise LabError(f'{client.name} printed no result')
        return f'ibv_rc_pingpong, {iterations} messages of 4096 bytes each way, {took[1]} us an exchange'

    def operations(self, name, captured='client', faults=()):
        """All five operations with a validated pass. One end captures, the other has the faults,
        so that the capture shows all that the first end sent and received."""
        options = {'server': [], 'client': []}
        options[captured] = ['--pcap', self.capture(name)]
        options['client' if captured == 'server' else 'server'] = faults
        client, _ = self.pair('rh-perf').run(
            ['--op', 'all', '-s', '4096', '-n', '2000'],
            server_options=options['server'], client_options=options['client'])
        results = {result['op']: result for result in client['results']}
        missing = [op for op in OPERATIONS if not results.get(op, {}).get('validated')]
        if missing:
            raise LabError(f'not validated: {", ".join(missing)}')
        return ', '.join(f'{op} {results[op]["iterations"]}' for op in OPERATIONS) + ' operations'

    def large_messages(self, name):
        """Messages of many packets, validated."""
        client, _ = self.pair('rh-perf').run(
            ['--op', 'send,write,read', '-s', '1M', '-n', '64', '--pcap', self.capture(name)])
        if not all(result['validated'] for result in client['results']):
            raise LabError('data of a 1 MiB message was not validated')
        return ', '.join(f'{result["op"]} {result["gbit_per_s"]:.1f} Gbit/s'
                         for result in client['results'])

    def dynamic_connections(self, name):
        """All five operations over dynamic connections, each message to another target."""
        same = ['--transport', 'dc']
        client, _ = self.pair('rh-perf').run(
            [*same, '--op', 'all', '-q', 50, '-t', 1, '-r', 4, '-s', 64, '-n', 40],
            server_options=same, client_options=['--pcap', self.capture(name)])
        if not all(result['validated'] for result in client['results']):
            raise LabError('data of a dynamic connection was not validated')
        requests = sum(result['iterations'] for result in client['results'])
        return f'{requests} requests by one initiator to 50 targets in turn'

    def many_targets(self):
        """One initiator writes to 10,000 targets in eight processes: the test, on a small scale."""
        test = subprocess.run([sys.executable, ROOT / 'tests/live/test_many_targets.py'],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=os.environ | {'ROCKHOPPER_OPERATIONS': '1000',
                                                'ROCKHOPPER_PROGRAMS': self.programs})
        if test.returncode != 0:
            raise LabError(f'test_many_targets.py: {test.stderr.strip()[-400:]}')
        return re.search(r'10000 targets: .*', test.stderr).group()

    def accounts(self, name):
        """Transfers between accounts of the server's memory, under locks that its transport takes
        for connections of the client and for threads of its own."""
        connections = 8
        client, server = self.pair('rh-accounts').run(
            ['-n', 5000, '-q', connections, '--hot', 50, '--pcap', self.capture(name)],
            server_options=['--clients', connections, '--threads', 1], host=SERVER_IP[4])
        if server['transfers'] != client['transfers'] + server['local_transfers']:
            raise LabError('transfers have been lost or made')
        return (f'{client["transfers"]} transfers and {server["local_transfers"]} of the server, '
                f'{client["audits"]} audits: the balances add up to {server["sum"]}')

    def active_messages(self, name):
        """All kinds of instructions, everything compared, and each callback called once, after its
        data were there; the applications on threads of their own."""
        same = ['--transport', 'dc', '--threads', 2]
        client, server = self.pair('rh-ami').run(
            [*same, '--op', 'all', '-s', '8,64k', '-n', 2000, '--warmup', 0, '--level', 'handled',
             '--callbacks', 50, '--check', '-u', 16, '--pcap', self.capture(name)],
            server_options=same)
        results = client['results']
        instructions = sum(result['iterations'] for result in results)
        callbacks = sum(result['callbacks'] for result in results)
        if client['counters']['descriptors'] != instructions + callbacks:
            raise LabError('not one descriptor for each instruction and one for each callback')
        if not client['peer_memory_seen']:
            raise LabError('the data could not be looked for in callbacks')
        half = next(result['latency_us']['p50'] for result in results if result['op'] == 'am_lat')
        return (f'{instructions} instructions, {callbacks} callbacks, {server["handled"]} messages '
                f'handled; half a round trip {half:.1f} us')

    def publisher(self, name):
        """Lines into a store that two subscribers read whole and a third one, which may look only
        now and then, in parts: every line is there, or told as lost, once."""
        count, per_s, length, seed = 30_000, 20_000, 100, 1
        generator = random.Random(seed)
        lines = [b'%d %s' % (number, generator.randbytes(length // 2).hex().encode())
                 for number in range(count)]
        source = self.lab.path('published')
        source.write_bytes(b''.join(line + b'\n' for line in lines))
        folder = self.lab.path('stations')
        folder.mkdir()
        stations = Stations(self.lab, self.programs, 4, folder)
        port = free_port()
        publisher = self.lab.start('rh-publish', [
            self.programs / 'rh-publish', *stations.options(0), '-p', port, '--json',
            '--store', 'lines=1MiB', '--input', f'lines:{source}', '--wait', 3,
            '--rate', per_s])
        fast = ['--strict', '--poll-min', 1000]
        slow = ['--reads-per-second', 10]
        subscribers = [
            self.lab.start(f'rh-subscribe-{station}', [
                self.programs / 'rh-subscribe', *stations.options(station), '-p', port, '--from', 0,
                '--pcap', self.capture(f'{name}-{station}'), *options, '127.0.0.1'])
            for station, options in ((1, fast), (2, fast), (3, slow))]
        try:
            for process in (*subscribers, publisher):
                process.expect_success(120)
        finally:
            for process in (*subscribers, publisher, stations.switch):
                process.end()
        lost = 0
        for subscriber in subscribers:
            lost += tiles(subscriber, lines)
        published = parse(publisher)['stores']['lines']['messages']
        if published != count:
            raise LabError(f'{published} of {count} lines were published')
        if lost == 0:
            raise LabError('the slow subscriber has lost nothing')
        return (f'{count} lines, each compared at two subscribers; a slow one has '
                f'{count - lost} and names the {lost} that it lost')

    def graph(self, name):
        """A graph of digests by three workers, each of which steals from the others, one of them
        killed on the way: the digest of it all is that of a run by one thread."""
        nodes = 5_000
        spec = f'nodes={nodes},seed=1,edges=3,work=100us'
        program = self.programs / 'rh-dag'
        folder = self.lab.path('graph')
        folder.mkdir()
        stations = Stations(self.lab, self.programs, 6, folder)
        port = free_port()
        place = ['--server', f'localhost:{port}']
        server = self.lab.start('rh-dag-serve', [
            program, 'serve', *stations.options(0), '-p', port, '--json', '--memory', '256MiB',
            '--records', 4 * nodes, '--lease', '500ms', '--pcap', self.capture(name)])
        workers = [self.lab.start(f'rh-dag-work-{station}', [
            program, 'work', *stations.options(station), *place, '--json', '--inline', '--name',
            f'worker-{station}', '--runs', 1]) for station in (2, 3, 4)]
        loader = self.lab.start('rh-dag-load', [
            program, 'load', *stations.options(1), *place, '--json', '--wait', '--random', spec])
        try:
            wait_until(lambda: loader.has_ended() or self.completed(
                [*stations.options(5), *place]) > 0, 60, 'no node was run')
            workers[0].child.kill()
            for process in (loader, *workers[1:]):
                process.expect_success(120)
        finally:
            for process in (loader, *workers, server, stations.switch):
                process.end()
        digest = parse(loader)['digest']
        alone = self.lab.start('rh-dag-run-local', [program, 'run-local', '--random', spec, '--json'])
        alone.expect_success(120)
        if digest != parse(alone)['digest']:
            raise LabError('the digest is another one than that of a run by one thread')
        stolen = sum(parse(worker)['stolen'] for worker in workers[1:])
        return f'{nodes} nodes, {stolen} stolen, one worker killed: the digest of a run by one thread'

    def completed(self, options):
        """Nodes of all runs of a home, as its board shows them."""
        status = self.lab.start('rh-dag-status', [self.programs / 'rh-dag', 'status', *options,
                                                  '--json'])
        status.expect_success(20)
        return sum(run['completed'] for run in parse(status)['runs'])

    def judged_locks(self, name):
        # The server's queue pairs are answered in turns, not in the order of their grants.
        order = ['--ignore', 'lock-owner-order', '--ignore', 'lock-token-order']
        report = json.loads(self.checker('check_capture.py', ['--json', '--locks', *order], name))
        counted = report['files'][0]['locks']
        if counted['pipelined'] == 0:
            raise LabError(f'{name}: no scope left before its first answer')
        return (f'{counted["granted"]} locks granted, {counted["pipelined"]} scopes sent before '
                'any answer, 0 violations')

    def judged_connections(self, name):
        report = json.loads(self.checker('check_capture.py', ['--json', '--dynamic-connections'],
                                         name))
        counted = report['files'][0]['dynamic_connections']
        if counted['target_changes'] == 0:
            raise LabError(f'{name}: the initiator stayed with one target')
        return (f'{counted["target_changes"]} changes of target, each by one of '
                f'{counted["connects"]} connects, 0 violations')

    def judged_subscriber(self, name, station):
        """The checker, and what the subscriber asked for: READs, and a few SENDs for the access. A
        READ that is asked for again brings other bytes, where messages are written meanwhile, so
        that only its own end can be judged."""
        address = f'10.42.0.{station + 1}'
        report = json.loads(self.checker('check_capture.py', ['--json', '--endpoint', address],
                                         name))
        opcodes = Opcodes(dynamic_connections=False, locks=False)
        packets = (frame.parse(record, opcodes) for record in Capture(self.capture(name)))
        asked = collections.Counter(packet.info.kind for packet in packets
                                    if packet is not None and packet.info.is_request)
        if set(asked) != {'send', 'read'} or asked['send'] > 20:
            raise LabError(f'{name}: requests were {dict(asked)}')
        return (f'{report["files"][0]["judged_packets"]} packets judged, 0 violations; '
                f'{asked["read"]} READs, {asked["send"]} messages for the access')

    def judged(self, name, endpoint=None, patience_us=1000):
        """The independent checker over a capture: ICRC, sequences, acknowledgements, content.

        With loss only what `endpoint`, where the capture was taken, sent can be judged strictly.
        """
        lossy = ['--lossy', 'far', '--endpoint', endpoint] if endpoint else []
        report = json.loads(self.checker(
            'check_capture.py', ['--json', '--race-us', str(patience_us), *lossy], name))
        file = report['files'][0]
        again = sum(flow['retransmissions'] for flow in file['connections'])
        if endpoint and again == 0:
            raise LabError(f'{name}: 1 % loss, yet nothing was sent again')
        return (f'{file["judged_packets"]} packets judged, 0 violations'
                + (f'; {again} packets sent again' if endpoint else ''))

    def dissected(self, name):
        return self.checker('tshark_check.py', [], name).strip().splitlines()[-1].partition(': ')[2]

    def checker(self, script, options, name):
        result = subprocess.run(
            [sys.executable, ROOT / 'tests/judge' / script, *options, self.capture(name)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            lines = (result.stdout + result.stderr).strip().splitlines()
            raise LabError(f'{script} on {self.capture(name)}: {lines[0] if lines else "failed"}')
        return result.stdout


def tiles(subscriber, lines):
    """How many lines rh-subscribe has told as lost; LabError unless these and those that it has
    written, in order and as they were, are all there are."""
    written = subscriber.out.read_bytes().split(b'\n')[:-1]
    intervals = [(int(first), int(last)) for first, last in
                 re.findall(r'^lines: lost (\d+)-(\d+)$', subscriber.messages(), re.MULTILINE)]
    gone = {number for first, last in intervals for number in range(first, last + 1)}
    if len(gone) != sum(last - first + 1 for first, last in intervals):
        raise LabError(f'{subscriber.name} has told a loss twice')
    if written != [line for number, line in enumerate(lines) if number not in gone]:
        raise LabError(f'{subscriber.name}: lines and losses are not what was published')
    return len(gone)


def proofs(demo):
    """(what, function) in the order of the table."""
    server, client = SERVER_IP[4], CLIENT_IP[4]
    return [
        ('ping-pong, IPv4', lambda: demo.pingpong(4, 4096, 1000, 'pingpong-ipv4')),
        ('ping-pong, IPv6', lambda: demo.pingpong(6, 4096, 1000, 'pingpong-ipv6')),
        ('ping-pong, 1 MiB', lambda: demo.pingpong(4, 1 << 20, 20, 'pingpong-large')),
        ('a program of libibverbs', lambda: demo.verbs_program('verbs-program')),
        ('five operations', lambda: demo.operations('operations')),
        ('messages of 1 MiB', lambda: demo.large_messages('large')),
        ('dynamic connections', lambda: demo.dynamic_connections('dynamic')),
        ('10,000 targets', demo.many_targets),
        ('accounts under locks', lambda: demo.accounts('accounts')),
        ('active messages', lambda: demo.active_messages('active-messages')),
        ('publisher, 3 subscribers', lambda: demo.publisher('publisher')),
        ('graph, 3 workers', lambda: demo.graph('graph')),
        ('ping-pong, dynamic', lambda: demo.pingpong(
            4, 4096, 250, 'pingpong-dynamic', FAULTS, ['--transport', 'dc', '-q', 8])),
        ('ping-pong, 1 % loss', lambda: demo.pingpong(4, 4096, 1000, 'pingpong-loss', FAULTS)),
        ('operations, 1 % loss', lambda: demo.operations('loss-client', 'client', FAULTS)),
        ('again, other end', lambda: demo.operations('loss-server', 'server', FAULTS)),
        ('checker, no loss', lambda: demo.judged('operations')),
        ('checker, IPv6', lambda: demo.judged('pingpong-ipv6')),
        # Such a program may wait for a processor before it answers.
        ('checker, libibverbs', lambda: demo.judged('verbs-program', patience_us=1_000_000)),
        ('checker, requester in loss', lambda: demo.judged('loss-client', client)),
        ('checker, responder in loss', lambda: demo.judged('loss-server', server)),
        ('checker, connections', lambda: demo.judged_connections('dynamic')),
        ('checker, locks', lambda: demo.judged_locks('accounts')),
        ('checker, fast subscriber', lambda: demo.judged_subscriber('publisher-1', 1)),
        ('checker, slow subscriber', lambda: demo.judged_subscriber('publisher-3', 3)),
        ('tshark, no loss', lambda: demo.dissected('operations')),
        ('tshark, 1 % loss', lambda: demo.dissected('loss-client')),
    ]
