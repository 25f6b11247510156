# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The comparisons: each line sets one figure against another of the same run."""

import dataclasses
import itertools
import statistics

from benchmark.measurements import (CONTENDED, ECHO_FRAME, FEW_QPS, FRONT_LATENCIES, FRONT_RATES,
                                    FRONT_SIZES, LARGE_FRAME,
                                    LARGE_OPERATIONS, LARGE_SIZES, MANY_QPS, MANY_SUBSCRIBERS,
                                    MESSAGE_SIZES, PATH_MTU, SMALL_FRAME, SMALL_OPERATIONS,
                                    SUBSCRIBERS, TARGET_SIZE, TARGETS, UPLINK_FAMILIES, WAITING, WATCHED_QPS,
                                    WORKERS)
from lab.feeds import ZEROMQ_TRANSPORTS
from lab.links import LINKS

# Packets of one operation that are counted: the response of a READ or an atomic is a packet of
# its own, acknowledgements are coalesced and left out.
PACKETS = {'write': 1, 'send': 1, 'read': 2, 'cas': 2, 'faa': 2}


@dataclasses.dataclass(frozen=True)
class Line:
    group: str
    text: str
    value: float
    unit: str
    basis: str        # what it is measured against
    against: float    # that figure, in the same unit
    ratio: float = None
    at_least: float = None
    at_most: float = None

    def __post_init__(self):
        if self.ratio is None and self.against > 0:
            object.__setattr__(self, 'ratio', self.value / self.against)

    @property
    def met(self):
        """None where there is nothing to reach."""
        if self.at_least is not None:
            return self.ratio >= self.at_least
        return None if self.at_most is None else self.ratio <= self.at_most

    @property
    def target(self):
        if self.at_least is not None:
            return f'>= {self.at_least:g}'
        return '' if self.at_most is None else f'<= {self.at_most:g}'


def lines(rounds):
    """All lines whose figures are there (--only may have left some out), each the median of its
    figures and of its ratios in the rounds: both sides of a ratio are of one round, so that it
    bears a machine that is slower in another. A round maps measurement to {figure: value}."""
    makers = (_large, _small, _latency, _engine, _scale, _live, _targets, _flood, _locks,
              _active_messages, _publisher, _graphs, _front, _uplink, _others, _soft_roce)
    found = {}
    for figures in rounds:
        for line in itertools.chain.from_iterable(make(figures) for make in makers):
            # A peer of a short run may have printed 0.
            if line.ratio is not None:
                found.setdefault((line.group, line.text, line.basis), []).append(line)
    return [_median(samples) for samples in found.values()]


def _median(samples):
    return dataclasses.replace(samples[0], **{
        field: statistics.median(getattr(line, field) for line in samples)
        for field in ('value', 'against', 'ratio')},
        # Of Soft-RoCE's lines it depends on what the NIC has carried.
        at_least=statistics.mode(line.at_least for line in samples))


def _large(one_round):
    compute = one_round.get('compute')
    for link in LINKS:
        if f'raw/{link}/{LARGE_FRAME}' not in one_round or compute is None:
            continue
        raw = one_round[f'raw/{link}/{LARGE_FRAME}']['frames_per_s']
        raw_gbit = raw * PATH_MTU * 8e-9
        for operation, size in itertools.product(LARGE_OPERATIONS, LARGE_SIZES):
            figure = one_round.get(f'{operation}/{link}/{size}')
            if figure is None:
                continue
            bound = 1 / (1 / raw + (compute['icrc_ns'] + compute[f'copy_ns/{size}']) * 1e-9)
            ours = ('large', f'{operation.upper()} {size >> 10} KiB over {link}',
                    figure['gbit_per_s'], 'Gbit/s')
            yield Line(*ours, 'link, ICRC and copy', bound * PATH_MTU * 8e-9, at_least=0.80)
            yield Line(*ours, 'testpmd', raw_gbit, at_least=0.45)
            if raw_gbit > 150:
                yield Line(*ours, 'what eRPC reports', 75, at_least=1)


def _small(one_round):
    for link in LINKS:
        if f'raw/{link}/{SMALL_FRAME}' not in one_round:
            continue
        raw = one_round[f'raw/{link}/{SMALL_FRAME}']['frames_per_s'] * 1e-6
        for operation in SMALL_OPERATIONS:
            figure = one_round.get(f'{operation}/{link}/8')
            if figure is None:
                continue
            what = f'{operation.upper()} 8 bytes over {link}'
            yield Line('small', what, figure['mops'] * PACKETS[operation], 'Mpacket/s', 'testpmd',
                       raw, at_least=0.35)
            if raw * 0.35 >= 8 * PACKETS[operation]:
                yield Line('small', what, figure['mops'], 'Mop/s', '8 million a core', 8,
                           at_least=1)


def _latency(one_round):
    for link in LINKS:
        ours = one_round.get(f'latency/{link}')
        if ours is None:
            continue
        what = f'WRITE 8 bytes over {link}, half a round trip'
        for basis, name, most in ((f'bare frame of {ECHO_FRAME} bytes', f'echo/{link}', 1.5),
                                  ('UCX over tcp', 'ucx/tcp', 0.3),
                                  ('UCX over shared memory', 'ucx/shm', None),
                                  ('libfabric over tcp', 'libfabric/tcp', None)):
            if name in one_round:
                yield Line('latency', what, ours['usec'], 'us', basis, one_round[name]['usec'],
                           at_most=most)


def _engine(one_round):
    for name, mops in one_round.get('engine', {}).items():
        if name == 'responder/rdma_read':
            yield Line('engine', f'{name}, 8 bytes, no link', mops, 'Mop/s', '5 million a core',
                       5, at_least=1)


def _scale(one_round):
    many = 'qps/memif/' + str(MANY_QPS)
    few = 'qps/memif/' + str(FEW_QPS)
    if many in one_round and few in one_round:
        yield Line('scale', f'{MANY_QPS} queue pairs, WRITE 8 bytes over memif',
                   one_round[many]['mops'], 'Mop/s', f'{FEW_QPS} queue pairs', one_round[few]['mops'],
                   at_least=0.85)
    figures = one_round.get('scale', {})
    for name, value in figures.items():
        if name.endswith(f'/qps:{MANY_QPS}'):
            yield Line('scale', f'{name}, no link', value, 'Mop/s', f'{FEW_QPS} queue pairs',
                       figures[name.replace(f':{MANY_QPS}', f':{FEW_QPS}')])
        elif name.startswith('idle_bytes/'):
            yield Line('scale', f'idle queue pair, {name.partition("/")[2]}', value, 'bytes',
                       '1 KiB beyond its queues', 1024, at_most=1)
    yield from _engines(one_round)


def _live(one_round):
    """rh-perf while a live page looks at it, and what the page's server uses."""
    for count in WATCHED_QPS:
        alone, watched = (one_round.get(f'live/{count}/{page}', {}) for page in ('without', 'with'))
        if alone and watched:
            text = f'{count} queue pairs, WRITE 8 bytes over memif'
            yield Line('live', f'{text}, a live page looks', watched['mops'], 'Mop/s', 'nobody looks',
                       alone['mops'], at_least=0.99)
            yield Line('live', f'server of that page, both ends of {count} queue pairs', watched['processors'],
                       'processors', '5 % of one', 0.05, at_most=1)


def _targets(one_round):
    """One DC initiator beside RC with one queue pair, and with one a target."""
    mops = {name.partition('/')[2]: figure['mops'] for name, figure in one_round.items()
            if name.startswith('targets/') and 'mops' in figure}
    what = f'WRITE {TARGET_SIZE} bytes over DC'
    comparisons = [(f'{what}, one target', 'dc-one', 'RC, one queue pair', 'rc-one')]
    for count in TARGETS:
        text = f'{what}, {count} targets in turn'
        comparisons += [(text, f'dc/{count}', 'RC, one queue pair', 'rc-one'),
                        (text, f'dc/{count}', f'RC, {count} queue pairs', f'rc/{count}')]
    for text, ours, basis, theirs in comparisons:
        if ours in mops and theirs in mops:
            yield Line('targets', text, mops[ours], 'Mop/s', basis, mops[theirs])
    state = one_round.get('targets/state', {})
    of_rc = next((value for name, value in state.items() if name.startswith('idle_connection/')), 0)
    for text, name in (('initiator, for each target that it has served', 'target_served'),
                       ('target, for each initiator that is connected', 'session'),
                       ('target, for each initiator that was', 'tombstone')):
        if of_rc > 0:
            yield Line('targets', f'state of a DC {text}', state[f'dc_state/{name}'], 'bytes',
                       'RC, an idle queue pair', of_rc)


def _flood(one_round):
    """A session of dynamic connections beside forged connects."""
    alone = one_round.get('flood', {})
    for kind in ('wrong_key', 'no_target', 'right_key'):
        text = f'forged connects, {kind.replace("_", " ")}'
        if f'dc_refusal/{kind}' in alone:
            session, beside = (alone[f'dc_session/{kind}/forged:{forged}'] for forged in (0, 32))
            yield Line('flood', f'{text}: refusal, no link', alone[f'dc_refusal/{kind}'],
                       'Mpacket/s', 'WRITE of 4 KiB at the target', session)
            yield Line('flood', f'WRITE of 4 KiB, one for each of {text}, no link', beside, 'Mop/s',
                       'without them', session)
    aside = one_round.get('flood/aside')
    none = one_round.get('flood/none')
    for kind in ('wrong-key', 'no-target'):
        flood = one_round.get(f'flood/{kind}')
        if flood is None or aside is None or none is None:
            continue
        what = f'DC WRITE of 64 KiB beside {kind} flood'
        yield Line('flood', what, flood['gbit_per_s'], 'Gbit/s', 'the same flood aside',
                   aside['gbit_per_s'], at_least=0.7)
        yield Line('flood', what, flood['gbit_per_s'], 'Gbit/s', 'no flood', none['gbit_per_s'])
        yield Line('flood', f'{kind} connects that the target takes', flood['forged_mpps'],
                   'Mpacket/s', 'that the flooder sends', flood['sent_mpps'])


def _locks(one_round):
    """Scopes whose lock the target takes beside those that take it by compare and swap; each is an
    acquire, a FETCH_ADD and a release."""
    figures = {name.removeprefix('locks/'): figure for name, figure in one_round.items()
               if name.startswith('locks/')}
    by_cas = 'compare and swap'
    many = f'{CONTENDED} initiators, one lock'
    for text, ours, basis, theirs, figure, unit, target in (
            (many, f'target/{CONTENDED}', by_cas, f'cas/{CONTENDED}', 'mops', 'Mop/s',
             {'at_least': 5}),
            (f'{many}, over DC', f'dc/{CONTENDED}', 'RC', f'target/{CONTENDED}', 'mops', 'Mop/s',
             {}),
            ('one initiator', 'target/1', by_cas, 'cas/1', 'mops', 'Mop/s', {}),
            (f'{many}: a success', f'target/{CONTENDED}', by_cas, f'cas/{CONTENDED}', 'packets',
             'packets', {}),
            *((f'{many}: a scope, {part}', f'latency/target/{CONTENDED}', by_cas,
               f'latency/cas/{CONTENDED}', part, 'us', {}) for part in ('p50', 'p99')),
            ('one initiator: a scope', 'latency/target/1', by_cas, 'latency/cas/1', 'p50', 'us',
             {})):
        if ours in figures and theirs in figures:
            yield Line('locks', text, figures[ours][figure], unit, basis, figures[theirs][figure],
                       **target)
    for name, over in (('target', ''), ('dc', ', over DC')):
        if f'{name}/{CONTENDED}' in figures:
            yield Line('locks', f'{many}{over}: a success',
                       figures[f'{name}/{CONTENDED}']['packets'], 'packets',
                       'the most there may be', 6, at_most=1)
    if 'latency/target/1' in figures and 'latency/write' in figures:
        yield Line('locks', 'one initiator: a scope', figures['latency/target/1']['p50'], 'us',
                   'WRITE 8 bytes, there and back', 2 * figures['latency/write']['usec'])
    yield from _lock_engine(figures.get('engine', {}))


def _lock_engine(figures):
    if not figures:
        return
    atomic = figures['responder/atomic_cmp_and_swp/bytes:8/qps:1']
    for count, connections in ((1, 'one connection'), (CONTENDED, f'{CONTENDED} connections')):
        yield Line('locks', f'scopes of {connections} at the target, no link',
                   figures[f'lock_scope/target/qps:{count}'], 'Mop/s', 'three compare and swaps',
                   atomic / 3)
    alone = 'lock_beside_waiting/scopes:0'
    for count in WAITING:
        beside = f'lock_beside_waiting/scopes:{count}'
        what = f'WRITE 8 bytes beside {count} waiting, no link'
        yield Line('locks', what, figures[beside], 'Mop/s', 'none waits', figures[alone],
                   at_least=0.95)
        yield Line('locks', f'{what}: p99 of a turn', figures[f'{beside}/p99'], 'us', 'none waits',
                   figures[f'{alone}/p99'], at_most=1.05)


def _active_messages(one_round):
    """rh-ami beside UCX's active messages. Who only wants the figures of messages has no callbacks,
    as UCX tells of none for what it has copied."""
    for name, text in (('few-callbacks', 'active messages'),
                       ('callbacks', 'active messages, a callback each')):
        ours = one_round.get(f'ami/{name}')
        for other, basis in (('tcp', 'UCX over tcp'), ('shm', 'UCX over shared memory')):
            theirs = one_round.get(f'ami/ucx/{other}')
            if ours is None or theirs is None:
                continue
            tcp = other == 'tcp'
            yield Line('ami', f'{text}, 8 bytes, half a round trip', ours['usec'], 'us', basis,
                       theirs['usec'], at_most=0.2 if tcp else None)
            yield Line('ami', f'{text}, 8 bytes', ours['mops'], 'Mop/s', basis, theirs['mops'],
                       at_least=None if tcp else 1)
            yield Line('ami', f'{text}, 64 KiB', ours['gbit_per_s'], 'Gbit/s', basis,
                       theirs['gbit_per_s'])


def _publisher(one_round):
    """Message stores: the writer beside subscribers, and all of them beside ZeroMQ's."""
    figures = {name.removeprefix('publisher/'): figure for name, figure in one_round.items()
               if name.startswith('publisher/')}
    yield from _writer(figures)
    for count, size in itertools.product(SUBSCRIBERS, MESSAGE_SIZES):
        ours = figures.get(f'deliver/stores/{count}/{size}')
        for transport in ZEROMQ_TRANSPORTS:
            theirs = figures.get(f'deliver/{transport}/{count}/{size}')
            if ours and theirs:
                yield Line('publisher', f'{_subscribers(count)}, {size} bytes: delivered to all',
                           ours['mops'], 'Mmsg/s', f'ZeroMQ over {transport}', theirs['mops'],
                           at_least=5 if count == 8 else None)
    yield from _added_subscribers(figures)
    ours = figures.get('latency/stores')
    for transport, part in itertools.product(ZEROMQ_TRANSPORTS, ('p50', 'p99')):
        theirs = figures.get(f'latency/{transport}')
        if ours and theirs:
            yield Line('publisher', f'from publishing to delivery, {part}', ours[f'{part}_usec'],
                       'us', f'ZeroMQ over {transport}', theirs[f'{part}_usec'])


def _subscribers(count):
    return 'one subscriber' if count == 1 else f'{count} subscribers'


def _writer(figures):
    """PB-24: publishing costs the same whoever reads."""
    many = _subscribers(MANY_SUBSCRIBERS)
    for name, text in (('one', 'one subscriber that reads'), ('many', f'{many} that read'),
                       ('stopped', f'{many} that are stopped')):
        figure = figures.get(f'writer/{name}')
        if figure is None:
            continue
        yield Line('publisher', f'writer, a message beside {text}', figure['beside_ns'], 'ns',
                   'no subscriber', figure['alone_ns'], figure['ratio'], at_most=1.02)
        if name == 'many':
            yield Line('publisher', f'writer, for each of {many}',
                       figure['alone_ns'] * (figure['ratio'] - 1) / MANY_SUBSCRIBERS, 'ns',
                       'a message', figure['alone_ns'], at_most=0.001)
            yield Line('publisher', 'writer, a message without subscribers',
                       figure['alone_ns'] * figure['noise'], 'ns', 'a second later or before',
                       figure['alone_ns'])


def _added_subscribers(figures):
    """The publisher's processor time for a message, that each subscriber beyond the first adds."""
    fewest, most = SUBSCRIBERS[0], SUBSCRIBERS[-1]

    def added(name, *parts):
        few, many = (figures.get(f'paced/{name}/{count}') for count in (fewest, most))
        if few is None or many is None:
            return None
        return sum(many[part] - few[part] for part in parts) / (most - fewest)
    engine = added('stores', 'engine_ns')
    writer = added('stores', 'writer_ns')
    for transport in ZEROMQ_TRANSPORTS:
        for text, ours, parts in (('writer', writer, ['writer_ns']),
                                  ('writer and engine', engine and engine + writer,
                                   ['writer_ns', 'engine_ns'])):
            theirs = added(transport, *parts)
            if ours is not None and theirs is not None:
                yield Line('publisher', f'{text}, a message, for each added subscriber', ours,
                           'ns', f'ZeroMQ over {transport}', theirs)


def _graphs(one_round):
    """Graphs of empty tasks, by rh-dag's workers and by Dask's."""
    for count in WORKERS:
        ours, theirs = (one_round.get(f'dag/{name}/{count}') for name in ('tasks', 'dask'))
        if ours is None or theirs is None:
            continue
        workers = 'one worker' if count == 1 else f'{count} workers'
        for figure, text, unit, least in (
                ('ktasks', 'empty tasks', 'k/s', 50),
                ('whole_ktasks', 'empty tasks, with the loading of the graph', 'k/s', None),
                ('usec', "of a worker's time for each", 'us', None)):
            yield Line('dag', f'{workers}: {text}', ours[figure], unit, 'Dask distributed',
                       theirs[figure], at_least=least)


def _front(one_round):
    """Verbs programs under rh-run beside rh-perf on the same link."""
    figures = {name.removeprefix('front/'): figure for name, figure in one_round.items()
               if name.startswith('front/')}

    def compare(what, ours, theirs, figure, unit, basis='rh-perf', **target):
        if ours in figures and theirs in figures:
            yield Line('front', what, figures[ours][figure], unit, basis, figures[theirs][figure],
                       **target)
    for operation in FRONT_LATENCIES:
        name = f'latency/{operation}'
        target = {} if operation == 'write' else {'at_most': 1.3}
        yield from compare(f'ib_{operation}_lat, 8 bytes', f'{name}/perftest', f'{name}/rh-perf',
                           'usec', 'us', **target)
    for operation, size in itertools.product(FRONT_RATES, FRONT_SIZES):
        name = f'{operation}/{size}'
        small = size == FRONT_SIZES[0]
        yield from compare(f'ib_{operation}_bw, {size} bytes', f'{name}/perftest', f'{name}/rh-perf',
                           'mops' if small else 'gbit_per_s', 'Mop/s' if small else 'Gbit/s',
                           at_least=0.67 if small else 0.9)
    yield from compare('UCX, active message of 8 bytes over rh0', 'ucx', 'ucx-tcp', 'usec', 'us',
                       'UCX over tcp', at_most=0.35)
    for figure, what, most_ms in (('list_ms', 'ibv_devices', 10), ('open_ms', 'ibv_devinfo', 50)):
        if 'start' in figures:
            yield Line('front', f'{what}, from start to end', figures['start'][figure], 'ms',
                       f'{most_ms} ms', most_ms, at_most=1)


def _uplink(one_round):
    """Verbs programs over UDP sockets beside what others send through such sockets."""
    for family in UPLINK_FAMILIES:
        for what, ours, basis, theirs, figure, unit, target in (
                ('ib_write_bw, 65536 bytes', 'write', 'iperf3 -u', 'bare', 'gbit_per_s', 'Gbit/s',
                 {'at_least': 0.7}),
                ('ib_send_lat, 8 bytes', 'latency', 'qperf udp_lat', 'bare-latency', 'usec', 'us',
                 {'at_most': 2})):
            names = [f'uplink/{family}/{name}' for name in (ours, theirs)]
            if all(name in one_round for name in names):
                value, against = (one_round[name][figure] for name in names)
                yield Line('uplink', f'{what}, UDP over IPv{family}', value, unit, basis, against, **target)
    if 'uplink/takeover' in one_round:
        yield Line('uplink', 'longest round trip while both receivers are killed', one_round['uplink/takeover']['ms'],
                   'ms', '100 ms', 100, at_most=1)


def _engines(one_round):
    """Several engines on one port, by self-loop."""
    mops = {name.partition('/')[2]: figure['mops'] for name, figure in one_round.items()
            if name.startswith('self-loop/')}
    for what, ours, basis, theirs, least in (
            ('two engines on two cores, each with itself', '2/none', 'one engine', '1/none', 1.8),
            ('two engines, packets sorted by queue pair', '2/right', 'not sorted', '2/none', None),
            ('two engines, all packets on the wrong lcore first', '2/hand-over',
             'on the right one', '2/right', None)):
        if ours in mops and theirs in mops:
            yield Line('scale', what, mops[ours], 'Mop/s', basis, mops[theirs], at_least=least)


def _others(one_round):
    for link in LINKS:
        for operation, size, figure, unit in (('write', 8, 'mops', 'Mop/s'),
                                              ('write', 65536, 'gbit_per_s', 'Gbit/s')):
            ours = one_round.get(f'{operation}/{link}/{size}')
            for other in ('ucx/tcp', 'ucx/shm', 'libfabric/tcp'):
                theirs = one_round.get(other, {}).get(figure)
                if ours is None or theirs is None:
                    continue
                yield Line('others', f'{operation.upper()} {size} bytes over {link}',
                           ours[figure], unit, other, theirs)


def _soft_roce(one_round):
    theirs = one_round.get('guest/rxe')
    if theirs is None:
        return
    nic = _guest_nic(one_round)
    for place, bandwidth, rate in (('af_packet', 3, 5), ('memif', 10, 10), ('uplink', 1, None)):
        ours = one_round.get(f'guest/{place}', {})
        for figure, text, unit, scale, least in _guest_figures(ours, bandwidth, rate):
            # What the NIC itself cannot carry says nothing about us.
            if place == 'af_packet' and least is not None and figure in nic:
                least = least if nic[figure] >= least * theirs[figure] else None
            yield Line('soft-roce', f'{text} over {place} in guests', ours[figure] * scale, unit,
                       'Soft-RoCE', theirs[figure] * scale, at_least=least)
    for name, figures in (('Soft-RoCE', theirs), ('rh-perf', one_round.get('guest/af_packet', {}))):
        for figure, text, unit, scale, _ in _guest_figures(figures):
            if figure in nic:
                yield Line('soft-roce', f'{name}, {text} over NICs of guests',
                           figures[figure] * scale, unit, 'testpmd', nic[figure] * scale)


def _guest_figures(figures, bandwidth=None, rate=None):
    """Those that are there: name, text, unit, what to multiply with for that unit, target."""
    for row in (('write_gbit_per_s', 'WRITE 64 KiB', 'Gbit/s', 1, bandwidth),
                ('read_gbit_per_s', 'READ 64 KiB', 'Gbit/s', 1, bandwidth),
                ('mops', 'WRITE 8 bytes', 'kop/s', 1e3, rate),
                ('usec', 'half a round trip', 'us', 1, None)):
        if row[0] in figures:
            yield row


def _guest_nic(one_round):
    """The most that the guests' NICs can carry of each figure; a small WRITE is one frame."""
    found = {}
    if f'guest/raw/{LARGE_FRAME}' in one_round:
        frames = one_round[f'guest/raw/{LARGE_FRAME}']['frames_per_s']
        found['write_gbit_per_s'] = found['read_gbit_per_s'] = frames * PATH_MTU * 8e-9
    if f'guest/raw/{SMALL_FRAME}' in one_round:
        found['mops'] = one_round[f'guest/raw/{SMALL_FRAME}']['frames_per_s'] * 1e-6
    return found


def table(found):
    """The lines as text."""
    rows = ['{:<9} {:<44} {:>9} {:<9} {:<29} {:>9} {:>7} {:<7} {}'.format(
        'group', 'what', 'median', '', 'against', 'median', 'ratio', 'target', '').rstrip()]
    for line in found:
        verdict = {None: '', True: 'met', False: 'not met'}[line.met]
        rows.append(f'{line.group:<9} {line.text:<44} {line.value:>9.3f} {line.unit:<9} '
                    f'{line.basis:<29} {line.against:>9.3f} {line.ratio:>7.3f} {line.target:<7} '
                    f'{verdict}'.rstrip())
    return rows
