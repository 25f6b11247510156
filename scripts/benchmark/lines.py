# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The comparisons: each line sets one figure against another of the same run."""

import dataclasses

from benchmark.measurements import (ECHO_FRAME, LARGE_FRAME, LARGE_OPERATIONS, LARGE_SIZES,
                                    PATH_MTU, SMALL_FRAME, SMALL_OPERATIONS)
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
    basis: str        # what it is measured against, with that figure
    ratio: float
    at_least: float = None
    at_most: float = None

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


def lines(median):
    """All lines whose figures are there (--only may have left some out). `median` maps measurement
    to {figure: median}."""
    for make in (_large, _small, _latency, _engine, _scale, _others, _soft_roce):
        yield from make(median)


def _large(median):
    for link in LINKS:
        if f'raw/{link}/{LARGE_FRAME}' not in median or 'compute' not in median:
            continue
        raw = median[f'raw/{link}/{LARGE_FRAME}']['frames_per_s']
        raw_gbit = raw * PATH_MTU * 8e-9
        compute = median['compute']
        bound = 1 / (1 / raw + (compute['icrc_ns'] + compute['copy_ns']) * 1e-9)
        bound_gbit = bound * PATH_MTU * 8e-9
        for operation in LARGE_OPERATIONS:
            for size in LARGE_SIZES:
                figure = median.get(f'{operation}/{link}/{size}')
                if figure is None:
                    continue
                gbit = figure['gbit_per_s']
                what = f'{operation.upper()} {size >> 10} KiB over {link}'
                yield Line('large', what, gbit, 'Gbit/s',
                           f'bound of link, ICRC and copy {bound_gbit:.1f}', gbit / bound_gbit,
                           at_least=0.80)
                yield Line('large', what, gbit, 'Gbit/s', f'testpmd {raw_gbit:.1f}',
                           gbit / raw_gbit, at_least=0.45)
                if raw_gbit > 150:
                    yield Line('large', what, gbit, 'Gbit/s', 'eRPC reports 75', gbit / 75,
                               at_least=1)


def _small(median):
    for link in LINKS:
        if f'raw/{link}/{SMALL_FRAME}' not in median:
            continue
        raw = median[f'raw/{link}/{SMALL_FRAME}']['frames_per_s'] * 1e-6
        for operation in SMALL_OPERATIONS:
            figure = median.get(f'{operation}/{link}/8')
            if figure is None:
                continue
            what = f'{operation.upper()} 8 bytes over {link}'
            packets = figure['mops'] * PACKETS[operation]
            yield Line('small', what, packets, 'Mpacket/s', f'testpmd {raw:.1f}', packets / raw,
                       at_least=0.35)
            if raw >= 8 / 0.35:
                yield Line('small', what, figure['mops'], 'Mop/s', '8 Mop/s a core',
                           figure['mops'] / 8, at_least=1)


def _latency(median):
    for link in LINKS:
        ours = median.get(f'latency/{link}')
        if ours is None:
            continue
        what = f'WRITE 8 bytes over {link}, half a round trip'
        for basis, name, most in ((f'bare frame of {ECHO_FRAME} bytes', f'echo/{link}', 1.5),
                                  ('UCX over tcp', 'ucx/tcp', 0.3),
                                  ('UCX over shared memory', 'ucx/shm', None),
                                  ('libfabric over tcp', 'libfabric/tcp', None)):
            if name in median:
                floor = median[name]['usec']
                yield Line('latency', what, ours['usec'], 'us', f'{basis} {floor:.2f}',
                           ours['usec'] / floor, at_most=most)


def _engine(median):
    for name, mops in median.get('engine', {}).items():
        if name == 'responder/rdma_read':
            yield Line('engine', f'{name}, 8 bytes, no link', mops, 'Mop/s', '5 Mop/s a core',
                       mops / 5, at_least=1)


def _scale(median):
    figures = median.get('scale', {})
    for name, value in figures.items():
        if name.endswith('/qps:20000'):
            few = figures[name.replace(':20000', ':16')]
            yield Line('scale', f'{name}, no link', value, 'Mop/s', f'16 queue pairs {few:.2f}',
                       value / few, at_least=0.85)
        elif name.startswith('idle_bytes/'):
            yield Line('scale', f'idle queue pair, {name.partition("/")[2]}', value, 'bytes',
                       '1 KiB beyond its queues', value / 1024, at_most=1)
    if 'self-loop/1' in median and 'self-loop/2' in median:
        one, two = (median[f'self-loop/{n}']['mops'] for n in (1, 2))
        yield Line('scale', 'two engines on two cores, each with itself', two, 'Mop/s',
                   f'one engine {one:.2f}', two / one, at_least=1.8)


def _others(median):
    for link in LINKS:
        for operation, size, figure, unit in (('write', 8, 'mops', 'Mop/s'),
                                              ('write', 65536, 'gbit_per_s', 'Gbit/s')):
            ours = median.get(f'{operation}/{link}/{size}')
            for other in ('ucx/tcp', 'ucx/shm', 'libfabric/tcp'):
                theirs = median.get(other, {}).get(figure)
                if ours is None or theirs is None:
                    continue
                yield Line('others', f'{operation.upper()} {size} bytes over {link}',
                           ours[figure], unit, f'{other} {theirs:.2f}', ours[figure] / theirs)


def _soft_roce(median):
    theirs = median.get('guest/rxe')
    if theirs is None:
        return
    nic = _guest_nic(median)
    for place, bandwidth, rate in (('af_packet', 3, 5), ('memif', 10, 10)):
        ours = median.get(f'guest/{place}', {})
        for figure, text, unit, scale, least in _guest_figures(ours, bandwidth, rate):
            basis = f'Soft-RoCE {theirs[figure] * scale:.2f}'
            # Where the NIC itself carries less than the target it says nothing about us.
            if place == 'af_packet' and least is not None and figure in nic:
                basis += f', NIC {nic[figure] * scale:.2f}'
                least = least if nic[figure] >= least * theirs[figure] else None
            yield Line('soft-roce', f'{text} over {place} in guests', ours[figure] * scale, unit,
                       basis, ours[figure] / theirs[figure], at_least=least)
    for name, figures in (('Soft-RoCE', theirs), ('rh-perf', median.get('guest/af_packet', {}))):
        for figure, text, unit, scale, _ in _guest_figures(figures):
            if figure in nic:
                yield Line('soft-roce', f'{name}, {text} over NICs of guests',
                           figures[figure] * scale, unit, f'testpmd {nic[figure] * scale:.2f}',
                           figures[figure] / nic[figure])


def _guest_figures(figures, bandwidth=None, rate=None):
    """Those that are there: name, text, unit, what to multiply with for that unit, target."""
    for row in (('write_gbit_per_s', 'WRITE 64 KiB', 'Gbit/s', 1, bandwidth),
                ('read_gbit_per_s', 'READ 64 KiB', 'Gbit/s', 1, bandwidth),
                ('mops', 'WRITE 8 bytes', 'kop/s', 1e3, rate),
                ('usec', 'half a round trip', 'us', 1, None)):
        if row[0] in figures:
            yield row


def _guest_nic(median):
    """The most that the guests' NICs can carry of each figure; a small WRITE is one frame."""
    found = {}
    if f'guest/raw/{LARGE_FRAME}' in median:
        frames = median[f'guest/raw/{LARGE_FRAME}']['frames_per_s']
        found['write_gbit_per_s'] = found['read_gbit_per_s'] = frames * PATH_MTU * 8e-9
    if f'guest/raw/{SMALL_FRAME}' in median:
        found['mops'] = median[f'guest/raw/{SMALL_FRAME}']['frames_per_s'] * 1e-6
    return found


def table(found):
    """The lines as text."""
    rows = ['{:<9} {:<44} {:>9} {:<10} {:<38} {:>7} {:<8} {}'.format(
        'group', 'what', 'median', '', 'against', 'ratio', 'target', '')]
    for line in found:
        verdict = {None: '', True: 'met', False: 'not met'}[line.met]
        rows.append(f'{line.group:<9} {line.text:<44} {line.value:>9.3f} {line.unit:<10} '
                    f'{line.basis:<38} {line.ratio:>7.3f} {line.target:<8} {verdict}'.rstrip())
    return rows
