# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What is measured: each a name and a function that runs it once and returns {figure: value}.

A round runs all of them one after the other, so that a busy moment of the machine does not fall on
one of two that are compared."""

import json

from lab import peers
from lab.feeds import ZEROMQ_TRANSPORTS, Feeds
from lab.graphs import Graphs
from lab.guests import Guests
from lab.links import LINKS
from lab.live_page import LivePage
from lab.pairs import Pair
from lab.processes import LabError, processors, wait_until
from lab.siege import Siege
from lab.testpmd import SAMPLES, raw_rate
from lab.uplink import Uplink
from lab.verbs import Verbs

PATH_MTU = 4096
# Ethernet, IPv4, UDP, BTH, ICRC: the frame around a packet's extension headers and payload.
ENVELOPE = 14 + 20 + 8 + 12 + 4
LARGE_FRAME = ENVELOPE + PATH_MTU
SMALL_FRAME = 64
LARGE_SIZES = (65536, 1 << 20)
LARGE_OPERATIONS = ('write', 'read')
SMALL_OPERATIONS = ('write', 'read', 'send', 'cas', 'faa')
OUTSTANDING = 64
ECHO_FRAME = 82  # of an 8-byte WRITE
FEW_QPS, MANY_QPS = 16, 20000
TARGETS = (10, 100, 1000, 10000)  # of one DC initiator
TARGET_SIZE = 64
# Queue pairs that a live page looks at, and how many times longer than others that is measured: the
# page has an update a second.
WATCHED_QPS, WATCHED_TIMES = (16, 10000), 5
# Thousands of queue pairs have more on their way than is done within the usual ACK timeout.
PATIENT = ('-u', 18)
# Forged connects beside a session: none, at a station that is not there, at the session's target.
FLOODS = ('none', 'aside', 'wrong-key', 'no-target')
# Queue pairs that contend for one lock and the counter behind it, and who takes the lock.
INITIATORS = (1, 2, 4, 8, 16, 32, 64, 128)
LOCK_MODES = ('target', 'cas')
CONTENDED = 64
WAITING = (1, 1000)  # scopes, beside other connections
# Active messages: percent of them that have a callback, and how many are on their way.
AMI_CALLBACKS = {'few-callbacks': 0, 'callbacks': 100}
AMI_WINDOW, AMI_LARGE_WINDOW, AMI_SLOTS = 2048, 16, 4096
# What ucx_perftest does in about a second, so that a busy machine disturbs both alike: round trips,
# messages of 8 bytes, of 64 KiB.
UCX_MESSAGES = {'tcp': (50_000, 200_000, 5_000), 'shm': (1_000_000, 8_000_000, 400_000)}
# Subscribers of one store, bytes of a message; those of which a feed has a writer of its own, and how
# often it is compared with one that has none; messages a second of feeds that are not at full speed.
SUBSCRIBERS = (1, 8, 64)
MESSAGE_SIZES = (64, 1024)
# Messages a second of all subscribers together.
PACES = {64: (8e6, 14e6, 18e6, 22e6, 26e6, 28e6, 30e6, 36e6, 42e6),
         1024: (1e6, 2e6, 3e6, 4e6, 5e6, 7e6, 9e6)}
MANY_SUBSCRIBERS = 64
WRITER_PAIRS = 5
SHORTEST_S = 0.5  # of a measurement whose figures are worth a look
PACED_PER_S, PACED_BURST = 100_000, 16
LATENCY_PER_S = 10_000
# Workers of graphs of empty tasks.
WORKERS = (1, 2, 4)
# Programs of verbs under rh-run beside rh-perf: operations whose latency, and whose rate, is compared.
FRONT_LATENCIES = ('send', 'read', 'write')
FRONT_RATES = ('send', 'write')
FRONT_SIZES = (8, 65536)
# What takes about a second.
FRONT_OPERATIONS = {8: 300_000, 65536: 40_000}
# Over UDP sockets: the UDP payload of a packet in the middle of a WRITE and of an 8-byte SEND.
UPLINK_FAMILIES = (4, 6)
LARGE_DATAGRAM = 12 + PATH_MTU + 4
SMALL_DATAGRAM = 12 + 8 + 4
UPLINK_WRITES, UPLINK_ROUND_TRIPS = 8_000, 10_000
# In guests: a queue of 256 frames must not overflow, for it is Soft-RoCE that would suffer most.
GUEST_SIZE = 65536
GUEST_LARGE_WINDOW = 16
GUEST_SMALL_WINDOW = 128


class Measurements:
    """All measurements of one build folder, `seconds` long each where that can be chosen."""

    def __init__(self, lab, build, seconds):
        self.lab = lab
        self.programs = build / 'apps'
        self.benches = build / 'bench'
        self.seconds = seconds
        self.guests = Guests(lab, self.programs)
        self.feeds = Feeds(lab, self.benches, seconds)
        self.graphs = Graphs(lab, self.programs, seconds)
        self.verbs = Verbs(lab, self.programs)
        self.uplink = Uplink(lab, self.programs)
        self.live_page = LivePage(lab, self.programs)

    def all(self):
        """(name, function), in the order of a round."""
        for link in LINKS.values():
            yield from self._of_link(link)
        for count in (FEW_QPS, MANY_QPS):
            yield f'qps/memif/{count}', lambda count=count: self._queue_pairs(count)
        for count in WATCHED_QPS:
            for page in ('without', 'with'):
                yield (f'live/{count}/{page}',
                       lambda count=count, page=page: self._watched(count, page == 'with'))
        yield 'targets/rc-one', lambda: self._targets('rc', 1, OUTSTANDING)
        yield 'targets/dc-one', lambda: self._targets('dc', 1, OUTSTANDING)
        for count in TARGETS:
            for transport in ('rc', 'dc'):
                yield (f'targets/{transport}/{count}',
                       lambda transport=transport, count=count: self._targets(transport, count, 1))
        yield 'targets/state', self._state_for_targets
        yield 'flood', self._flood
        for where in FLOODS:
            yield f'flood/{where}', lambda where=where: self._beside_flood(where)
        yield from self._locks()
        yield from self._active_messages()
        yield from self._publisher()
        yield from self._graphs()
        yield from self._front()
        yield from self._uplink()
        yield 'compute', self._compute
        yield 'engine', self._engine
        yield 'scale', self._scale
        for engines, steering in ((1, 'none'), (2, 'none'), (2, 'right'), (2, 'hand-over')):
            yield (f'self-loop/{engines}/{steering}',
                   lambda n=engines, how=steering: self._self_loop(n, how))
        for transport in peers.UCX_TRANSPORTS:
            yield f'ucx/{transport}', lambda t=transport: self._ucx(t)
        yield 'libfabric/tcp', self._libfabric
        for frame in (SMALL_FRAME, LARGE_FRAME):
            yield (f'guest/raw/{frame}',
                   lambda frame=frame: {'frames_per_s': self.guests.raw_rate(
                       frame, self._times(SAMPLES))})
        yield 'guest/rxe', lambda: self._perftest_in_guests(self.guests.soft_roce)
        yield 'guest/uplink', lambda: self._perftest_in_guests(self.guests.uplink)
        yield 'guest/af_packet', lambda: self._in_guests(self.guests.perf_over_nic)
        yield 'guest/memif', lambda: self._in_guests(self.guests.perf_over_memif)

    def _times(self, count):
        """How often to do what is done `count` times for the sake of its figures. Short measurements
        show only that they work."""
        return count if self.seconds >= SHORTEST_S else 1

    def _of_link(self, link):
        for frame in (SMALL_FRAME, LARGE_FRAME):
            yield (f'raw/{link.NAME}/{frame}',
                   lambda frame=frame: {'frames_per_s': raw_rate(
                       self.lab, frame, link, samples=self._times(SAMPLES))})
        for operation in LARGE_OPERATIONS:
            for size in LARGE_SIZES:
                yield (f'{operation}/{link.NAME}/{size}',
                       lambda op=operation, size=size: self._bandwidth(link, op, size))
        for operation in SMALL_OPERATIONS:
            yield (f'{operation}/{link.NAME}/8',
                   lambda op=operation: self._bandwidth(link, op, 8))
        yield f'latency/{link.NAME}', lambda: self._latency(link)
        yield f'echo/{link.NAME}', lambda: self._echo(link)

    def _perf(self, link, options, server_options=()):
        client, _ = Pair(self.lab, self.programs, 'rh-perf', link=link).run(
            [*options, '-m', PATH_MTU], server_options)
        return client['results'][0]

    def _bandwidth(self, link, operation, size):
        result = self._perf(link, ['--op', operation, '-s', size, '-D', self.seconds,
                                   '-t', OUTSTANDING, '-o', OUTSTANDING])
        return {'mops': result['mops'], 'gbit_per_s': result['gbit_per_s']}

    def _queue_pairs(self, count):
        result = self._perf(LINKS['memif'], ['--op', 'write', '-s', 8, '-D', self.seconds,
                                             '-t', OUTSTANDING, '-r', 1, '-q', count, *PATIENT])
        return {'mops': result['mops']}

    def _watched(self, count, watched):
        """The same with one live page of both programs, and without."""
        def run():
            return self._perf(LINKS['memif'], [
                '--op', 'write', '-s', 8, '-D', WATCHED_TIMES * self.seconds, '-t', OUTSTANDING, '-r', 1,
                '-q', count, *PATIENT])['mops']
        if not watched:
            return {'mops': run()}
        with self.live_page.watching() as used:
            return {'mops': run(), 'processors': used()}

    def _targets(self, transport, count, window):
        """WRITEs to `count` targets; with a window of 1 to another one each time."""
        same = ['--transport', transport]
        result = self._perf(LINKS['memif'], [
            *same, '--op', 'write', '-s', TARGET_SIZE, '-D', self.seconds, '-q', count,
            '-t', window, '-r', 1, '--warmup', 1], same)
        return {'mops': result['mops']}

    def _locks(self):
        for count in INITIATORS:
            for mode in LOCK_MODES:
                yield (f'locks/{mode}/{count}',
                       lambda mode=mode, count=count: self._contention(mode, count))
        yield f'locks/dc/{CONTENDED}', lambda: self._contention('target', CONTENDED, 'dc')
        for count in (1, CONTENDED):
            for mode in LOCK_MODES:
                yield (f'locks/latency/{mode}/{count}',
                       lambda mode=mode, count=count: self._time_of_scopes(mode, count))
        yield 'locks/latency/write', lambda: self._latency(LINKS['memif'])
        yield 'locks/engine', self._lock_engine

    def _active_messages(self):
        for name, percent in AMI_CALLBACKS.items():
            yield f'ami/{name}', lambda percent=percent: self._ami(percent)
        for transport in peers.UCX_TRANSPORTS:
            yield f'ami/ucx/{transport}', lambda t=transport: self._ucx_active_messages(t)

    def _publisher(self):
        """Message stores, and ZeroMQ with as many subscribers of the same messages. ZeroMQ waits for
        the slowest of them, as it delivers less when it may drop; a store waits for nobody, so that
        several paces are tried."""
        for name, count, stopped in (('one', 1, False), ('many', MANY_SUBSCRIBERS, False),
                                     ('stopped', MANY_SUBSCRIBERS, True)):
            yield (f'publisher/writer/{name}', lambda count=count, stopped=stopped:
                   self.feeds.writer(count, stopped, self._times(WRITER_PAIRS)))
        systems = [('stores', self.feeds.stores)] + [
            (transport, lambda *args, t=transport: self.feeds.zeromq(t, *args))
            for transport in ZEROMQ_TRANSPORTS]
        paced = ['--rate', PACED_PER_S, '--burst', PACED_BURST]
        single = ['--rate', LATENCY_PER_S, '--burst', 1]
        for count in SUBSCRIBERS:
            for size in MESSAGE_SIZES:
                of_size = ['--bytes', size]
                yield (f'publisher/deliver/stores/{count}/{size}',
                       lambda count=count, size=size, of_size=of_size:
                       self.feeds.fastest_stores(
                           count, PACES[size][:self._times(len(PACES[size]))], of_size))
                for transport in ZEROMQ_TRANSPORTS:
                    yield (f'publisher/deliver/{transport}/{count}/{size}',
                           lambda t=transport, count=count, of_size=of_size:
                           self.feeds.zeromq(t, count, of_size))
            for name, run in systems:
                yield (f'publisher/paced/{name}/{count}',
                       lambda run=run, count=count: run(count, paced))
        for name, run in systems:
            polls = ['--poll-max', 0] if name == 'stores' else []
            yield (f'publisher/latency/{name}',
                   lambda run=run, polls=polls: run(1, single, ['--latency', *polls]))
        yield 'publisher/engine', self._publisher_alone

    def _graphs(self):
        for workers in WORKERS:
            yield f'dag/tasks/{workers}', lambda workers=workers: self.graphs.tasks(workers)
            yield f'dag/dask/{workers}', lambda workers=workers: self.graphs.dask(workers)

    def _front(self):
        """Verbs programs under rh-run, and rh-perf with the same link."""
        for operation in FRONT_LATENCIES:
            yield (f'front/latency/{operation}/perftest',
                   lambda operation=operation: self._perftest_latency(operation))
            yield (f'front/latency/{operation}/rh-perf',
                   lambda operation=operation: self._segment_latency(operation))
        for operation in FRONT_RATES:
            for size in FRONT_SIZES:
                yield (f'front/{operation}/{size}/perftest',
                       lambda operation=operation, size=size: self._perftest_rate(operation, size))
                yield (f'front/{operation}/{size}/rh-perf',
                       lambda operation=operation, size=size: self._segment_rate(operation, size))
        yield 'front/ucx', lambda: self._ucx_message_latency(
            self.verbs.ucx('ucp_am_lat', 8, int(20_000 * self.seconds)))
        yield 'front/ucx-tcp', lambda: self._ucx_message_latency(
            peers.ucx(self.lab, 'tcp', 'ucp_am_lat', 8, int(20_000 * self.seconds)))
        yield 'front/start', lambda: {'list_ms': self.verbs.start_ms('ibv_devices'),
                                      'open_ms': self.verbs.start_ms('ibv_devinfo')}

    def _uplink(self):
        """Verbs programs on two hosts, over UDP sockets, and such sockets alone."""
        yield 'uplink/takeover', lambda: {
            'ms': max(self.uplink.takeover() for _ in range(self._times(SAMPLES)))}
        for family in UPLINK_FAMILIES:
            yield f'uplink/{family}/write', lambda family=family: self._uplink_rate(family)
            yield (f'uplink/{family}/bare', lambda family=family:
                   {'gbit_per_s': self.uplink.bare_rate(family, LARGE_DATAGRAM, self.seconds)
                    * PATH_MTU / LARGE_DATAGRAM})
            yield f'uplink/{family}/latency', lambda family=family: self._uplink_latency(family)
            yield (f'uplink/{family}/bare-latency', lambda family=family:
                   {'usec': self.uplink.bare_latency(family, SMALL_DATAGRAM, self.seconds)})

    def _uplink_rate(self, family):
        row = self.uplink.perftest(family, 'ib_write_bw', [
            '-m', PATH_MTU, '-s', 65536, '-t', OUTSTANDING, '-Q', OUTSTANDING // 2, '--report_gbits',
            '-n', max(int(UPLINK_WRITES * self.seconds), OUTSTANDING)])
        return {'gbit_per_s': row[3]}

    def _uplink_latency(self, family):
        return {'usec': self.uplink.perftest(family, 'ib_send_lat', [
            '-m', PATH_MTU, '-s', 8, '-n', int(UPLINK_ROUND_TRIPS * self.seconds)])[4]}

    def _perftest_latency(self, operation):
        # bytes, iterations, the shortest, the longest, the median
        return {'usec': self.verbs.perftest(f'ib_{operation}_lat', [
            '-m', PATH_MTU, '-s', 8, '-n', int(20_000 * self.seconds)])[4]}

    def _segment_latency(self, operation):
        result = self.verbs.rh_perf(['--op', operation, '--mode', 'lat', '-s', 8, '-m', PATH_MTU,
                                     '-n', int(20_000 * self.seconds)])
        return {'usec': result['latency_us']['p50']}

    def _perftest_rate(self, operation, size):
        row = self.verbs.perftest(f'ib_{operation}_bw', [
            '-m', PATH_MTU, '-s', size, '-t', OUTSTANDING, '-Q', OUTSTANDING // 2,
            '--report_gbits', '-n', max(int(FRONT_OPERATIONS[size] * self.seconds), OUTSTANDING)])
        return {'gbit_per_s': row[3], 'mops': row[4]}

    def _segment_rate(self, operation, size):
        result = self.verbs.rh_perf(['--op', operation, '-s', size, '-D', self.seconds,
                                     '-m', PATH_MTU, '-t', OUTSTANDING])
        return {'mops': result['mops'], 'gbit_per_s': result['gbit_per_s']}

    @staticmethod
    def _ucx_message_latency(figures):
        return {'usec': figures['median_usec']}

    def _publisher_alone(self):
        """Nanoseconds of the writer for a message, and of a reader once its bytes are there."""
        runs = self._micro('^(publish|read_store)/')
        return {name: 1e9 / run['items_per_second'] for name, run in runs.items()}

    def _ami(self, callbacks):
        """Active messages, `callbacks` percent of them with a callback. Neither end yields, as UCX
        does not."""
        same = ['--idle', 'poll']
        common = [*same, '--callbacks', callbacks, '-m', PATH_MTU, '-D', self.seconds]

        def run(operation, size, window):
            client, _ = Pair(self.lab, self.programs, 'rh-ami').run(
                [*common, '--op', operation, '-s', size, '-t', window, '--slots', AMI_SLOTS], same)
            return client['results'][0]
        return {'usec': run('am_lat', 8, 1)['latency_us']['p50'],
                'mops': run('am_bw', 8, AMI_WINDOW)['mops'],
                'gbit_per_s': run('am_bw', 65536, AMI_LARGE_WINDOW)['gbit_per_s']}

    def _ucx_active_messages(self, transport):
        round_trips, small, large = (int(count * self.seconds) + 1
                                     for count in UCX_MESSAGES[transport])
        latency = peers.ucx(self.lab, transport, 'ucp_am_lat', 8, round_trips)
        rate = peers.ucx(self.lab, transport, 'ucp_am_bw', 8, small)
        large = peers.ucx(self.lab, transport, 'ucp_am_bw', 65536, large)
        return {'usec': latency['median_usec'], 'mops': rate['mops'],
                'gbit_per_s': large['gbit_per_s']}

    def _scopes(self, lock_mode, count, *options, same=()):
        """Compare and swap takes many turns of both ends. On a busy machine each takes milliseconds
        if they yield, so they do not; nor is there the pass of thousands that are checked."""
        same = [*same, '--idle', 'poll']
        return self._perf(LINKS['memif'], [
            *same, '--op', 'lock', '--lock-mode', lock_mode, '-q', count, '-D', self.seconds,
            '--warmup', 10, '--no-validate', *options], same)

    def _contention(self, lock_mode, count, transport='rc'):
        """Of DC each target has a stream of its own, or they would not contend."""
        streams = ['--streams', count] if transport == 'dc' else []
        result = self._scopes(lock_mode, count, *streams, same=['--transport', transport])
        return {'mops': result['mops'], 'packets': result['packets_per_operation']}

    def _time_of_scopes(self, lock_mode, count):
        result = self._scopes(lock_mode, count, '--mode', 'lat')
        return {'p50': result['latency_us']['p50'], 'p99': result['latency_us']['p99']}

    def _lock_engine(self):
        """Millions a second, and microseconds."""
        runs = self._micro('^(lock_|responder/atomic_cmp_and_swp/bytes:8/qps:1/)')
        found = {name: run['items_per_second'] * 1e-6 for name, run in runs.items()}
        return found | {f'{name}/p99': run['turn_p99_ns'] * 1e-3 for name, run in runs.items()
                        if 'turn_p99_ns' in run}

    def _latency(self, link):
        result = self._perf(link, ['--op', 'write', '--mode', 'lat', '-s', 8, '-I', 64,
                                   '-n', int(50_000 * self.seconds)])
        return {'usec': result['latency_us']['p50']}

    def _flood(self):
        """Millions of packets a second: forged ones that the target alone refuses, and the
        session's with and without as many forged ones."""
        runs = self._micro('^dc_(refusal|session)/')
        return {name: run['items_per_second'] * 1e-6 for name, run in runs.items()}

    def _beside_flood(self, where):
        with Siege(self.lab, self.programs) as siege:
            return siege.run(where, self.seconds)

    def _echo(self, link):
        wire = link(self.lab)
        echo_cpu, ping_cpu = processors()
        program = self.benches / 'frame-echo'
        echo = self.lab.start('frame-echo', [program, 'echo', wire.testpmd_vdev('server')],
                              echo_cpu)
        wait_until(lambda: wire.socket.exists() or echo.has_ended(), 20,
                   'frame-echo did not open its socket')
        ping = self.lab.start('frame-ping', [
            program, 'ping', wire.testpmd_vdev('client'), ECHO_FRAME,
            int(50_000 * self.seconds)], ping_cpu)
        try:
            ping.expect_success(60)
        finally:
            ping.end()
            echo.end()
        return {'usec': json.loads(ping.output())['p50']}

    def medians(self):
        """All micro benchmarks, each the median of five repetitions."""
        return self._micro('.', '--benchmark_repetitions=5',
                           '--benchmark_report_aggregates_only=true', only='_median')

    def _micro(self, pattern, *options, only=''):
        bench = self.lab.start('micro-bench', [
            self.benches / 'micro-bench', f'--benchmark_filter={pattern}',
            f'--benchmark_min_time={self.seconds / 4}', '--benchmark_format=json', *options],
            processors()[0])
        bench.expect_success(900)
        found = json.loads(bench.output())['benchmarks']
        if not found:
            raise LabError(f'micro-bench has no {pattern}')
        return {run['name'].removesuffix('/manual_time'): run for run in found
                if run['name'].endswith(only)}

    def _compute(self):
        sizes = '|'.join(map(str, LARGE_SIZES))
        runs = self._micro(f'^(icrc/bytes:{PATH_MTU}|copy_of_message/bytes:({sizes}))$')
        copies = {f'copy_ns/{size}': runs[f'copy_of_message/bytes:{size}']['real_time']
                  for size in LARGE_SIZES}
        return {'icrc_ns': runs[f'icrc/bytes:{PATH_MTU}']['real_time']} | copies

    def _engine(self):
        runs = self._micro('^(requester|responder)/.*/bytes:8/qps:1/manual_time$')
        return {name.replace('/bytes:8/qps:1', ''): run['items_per_second'] * 1e-6
                for name, run in runs.items()}

    def _scale(self):
        runs = self._micro(f'^(requester|responder)/rdma_(write|read)/bytes:8/qps:({FEW_QPS}|{MANY_QPS})/')
        found = {name.replace('/bytes:8', ''): run['items_per_second'] * 1e-6
                 for name, run in runs.items()}
        idle = self._micro('^idle_connection/')
        return found | {f'idle_bytes/{name.split("/")[2]}': run['bytes']
                        for name, run in idle.items()}

    def _state_for_targets(self):
        """Bytes; those of RC as of a connection with 16 READs outstanding, beyond its queues."""
        runs = self._micro('^(dc_state/|idle_connection/.*/rd_atomic:16/)')
        return {name.removesuffix('/iterations:1'): run['bytes'] for name, run in runs.items()}

    def _self_loop(self, engines, steering):
        loop = self.lab.start('self-loop', [self.benches / 'self-loop', engines, self.seconds,
                                            steering])
        loop.expect_success(60 + self.seconds)
        return {'mops': sum(json.loads(loop.output())['mops'])}

    def _ucx(self, transport):
        count = int(20_000 * self.seconds)
        latency = peers.ucx(self.lab, transport, 'ucp_put_lat', 8, count)
        rate = peers.ucx(self.lab, transport, 'ucp_put_bw', 8, count)
        large = peers.ucx(self.lab, transport, 'ucp_put_bw', 65536, count // 10 + 1)
        return {'usec': latency['usec'], 'mops': rate['mops'],
                'gbit_per_s': large['gbit_per_s']}

    def _libfabric(self):
        count = int(5_000 * self.seconds)
        return {'usec': peers.libfabric(self.lab, 8, count)['usec'],
                'gbit_per_s': peers.libfabric(self.lab, 65536, count)['gbit_per_s']}

    def _perftest_in_guests(self, run):
        """`run` takes a program and its options."""
        found = {}
        for operation in LARGE_OPERATIONS:
            result = run(f'ib_{operation}_bw', [
                '-m', PATH_MTU, '-s', GUEST_SIZE, '-t', GUEST_LARGE_WINDOW,
                '-n', int(500 * self.seconds) + 20])
            found[f'{operation}_gbit_per_s'] = result[3]
        rate = run('ib_write_bw', [
            '-m', PATH_MTU, '-s', 8, '-t', GUEST_SMALL_WINDOW, '-Q', 32,
            '-n', int(8_000 * self.seconds) + 200])
        latency = run('ib_write_lat', [
            '-m', PATH_MTU, '-s', 8, '-n', int(500 * self.seconds) + 20])
        return found | {'mops': rate[4], 'usec': latency[4]}

    def _in_guests(self, perf):
        """The same workload with rh-perf; `perf` takes its options."""
        common = ['-m', PATH_MTU, '--no-validate']
        large = perf([*common, '--op', ','.join(LARGE_OPERATIONS), '-s', GUEST_SIZE,
                      '-t', GUEST_LARGE_WINDOW, '-D', self.seconds])
        small = perf([*common, '--op', 'write', '-s', 8, '-t', GUEST_SMALL_WINDOW,
                      '-D', self.seconds])
        latency = perf([*common, '--op', 'write', '--mode', 'lat', '-s', 8,
                        '-n', int(500 * self.seconds) + 20])
        return {f'{result["op"]}_gbit_per_s': result['gbit_per_s'] for result in large} | {
            'mops': small[0]['mops'], 'usec': latency[0]['latency_us']['p50']}
