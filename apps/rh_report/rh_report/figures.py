# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The figures of a report, for the tables of the page and for machines."""

import datetime
import math

import numpy

from judge.frame import address

from .analysis import CLASSES
from .report import hosts, totals

_QUANTILES = (('p50', 50), ('p90', 90), ('p99', 99), ('p99.9', 99.9))
_BINS = 40
_WIDE = 20  # most to least, above which a distribution is drawn by powers of ten
_DUPLICATES = ('duplicate request', 'duplicate response', 'duplicate ack')


def quantiles(values):
    """Nearest-rank quantiles in ns; None for no value."""
    if not values:
        return None
    array = numpy.sort(numpy.asarray(values, numpy.int64))
    count = len(array)
    found = {'count': count, 'min': int(array[0])}
    for name, percent in _QUANTILES:
        found[name] = int(array[min(count - 1, max(0, math.ceil(percent / 100 * count) - 1))])
    return found | {'max': int(array[-1]), 'mean': round(float(array.mean()))}


def histogram(values):
    """[[lower bound in ns, upper bound, count]], whether these bounds are by equal factors, and the quantiles; None
    for no value."""
    if not values:
        return None
    array = numpy.maximum(numpy.asarray(values, numpy.float64), 1)
    low, high = array.min(), array.max()
    is_wide = high > low * _WIDE
    if high - low < _BINS:
        low, high = max(1, low - _BINS // 2), high + _BINS // 2
    edges = numpy.geomspace(low, high, _BINS + 1) if is_wide else numpy.linspace(low, high, _BINS + 1)
    # Rounding must lose neither end.
    edges[0], edges[-1] = low, high
    counts, _ = numpy.histogram(array, edges)
    return {'bins': [[round(edges[at]), round(edges[at + 1]), int(count)] for at, count in enumerate(counts)],
            'isWide': bool(is_wide), 'quantiles': quantiles(values)}


def connection(report, part):
    """What is known of one connection, in the words of --json."""
    figures, of = part.figures, part.connection
    counts = figures.counts
    span = max(1, figures.last_ns - figures.first_ns)
    a, b = address(of.a), address(of.b)
    number = _numbers(report)[id(part)]
    return {
        'number': number, 'kind': of.kind, 'a': {'address': a, 'qpn': of.qpn_a or None},
        'b': {'address': b, 'qpn': of.qpn_b or None}, 'both_directions': of.answered,
        'path_mtu': of.path_mtu or None, 'packets': figures.packets, 'first_ns': figures.first_ns,
        'last_ns': figures.last_ns, 'goodput_bytes': list(figures.goodput_bytes),
        'goodput_bits_per_second': [round(amount * 8e9 / span) for amount in figures.goodput_bytes],
        'retransmissions': counts['retransmissions'], 'naks': sum(figures.naks.values()) - figures.naks['RNR NAK'],
        'rnr_naks': figures.naks['RNR NAK'], 'naks_by_code': dict(figures.naks), 'timeouts': figures.timeouts,
        'duplicates': sum(counts[name] for name in _DUPLICATES), 'cnps': counts['CNP'],
        'ecn_marks': counts['ECN marks'], 'drops': counts['drops'],
        'lost_between_captures': counts['lost between the captures'],
        'psns_not_captured': counts['PSNs that were not captured'],
        'packets_by_class': {name: counts[name] for name in CLASSES if counts[name]},
        'session_messages': {name[9:]: value for name, value in counts.items() if name.startswith('session: ')},
        'opcodes': dict(figures.opcodes), 'round_trip_ns': quantiles(figures.round_trips),
        'message_latency_ns': {kind: quantiles(values) for kind, values in figures.latencies.items()},
        'spans': len(figures.spans), 'findings': _finding_counts(report).get(number, 0),
    }


def _numbers(report):
    if report.numbers is None:
        report.numbers = {id(part): number for number, part in enumerate(report.parts)}
    return report.numbers


def _finding_counts(report):
    if report.found_in is None:
        report.found_in = {}
        for found in report.findings:
            report.found_in[found.connection] = report.found_in.get(found.connection, 0) + 1
    return report.found_in


def summary(report):
    counts, opcodes, naks = totals(report)
    span = max(1, report.end_ns - report.start_ns)
    goodput = sum(sum(part.figures.goodput_bytes) for part in report.parts)
    return {
        'start_ns': report.start_ns, 'end_ns': report.end_ns,
        'frames': sum(source.packets.frames for source in report.sources),
        'packets': sum(part.figures.packets for part in report.parts),
        'files': [{
            'name': source.name, 'frames': source.packets.frames, 'truncated': source.packets.truncated,
            'packets': source.packet_count, 'cut': source.packets.cut, 'unreadable': source.packets.unreadable,
            'offset_ns': source.offset_ns, 'in_common_with_first': source.matched,
            'findings': dict(source.judgement.counts), 'not_judged': source.judgement.problem or None,
        } for source in report.sources],
        'endpoints': [{'address': host, 'packets': packets, 'bytes': size, 'transports': sorted(kinds)}
                      for host, (packets, size, kinds) in sorted(hosts(report).items(), key=lambda item: -item[1][0])],
        'opcodes': dict(opcodes.most_common()),
        'naks_by_code': dict(naks.most_common()),
        'totals': {
            'goodput_bytes': goodput, 'goodput_bits_per_second': round(goodput * 8e9 / span),
            'retransmissions': counts['retransmissions'], 'naks': sum(naks.values()) - naks['RNR NAK'],
            'rnr_naks': naks['RNR NAK'], 'timeouts': sum(part.figures.timeouts for part in report.parts),
            'duplicates': sum(counts[name] for name in _DUPLICATES), 'cnps': counts['CNP'],
            'ecn_marks': counts['ECN marks'], 'drops': counts['drops'],
            'lost_between_captures': counts['lost between the captures'],
            'findings': sum(sum(source.judgement.counts.values()) for source in report.sources),
        },
    }


def for_machines(report):
    """The object of --json."""
    findings = []
    for found in report.findings:
        violation = found.violation
        findings.append({
            'file': report.sources[found.file].name, 'frame': violation.frame, 'time_ns': violation.time_ns,
            'rule': violation.rule, 'source': violation.source, 'destination': violation.destination,
            'qpn': violation.qpn, 'message': violation.message,
            'connection': found.connection if found.connection >= 0 else None})
    return summary(report) | {
        'connections': [connection(report, part) for part in report.parts], 'findings': findings,
        'notes': report.notes}


# Words ---------------------------------------------------------------------------------------------------------------


def clock(time_ns):
    """A point in time, as captures have it: UTC, unless the clock of the device began with 0."""
    if time_ns < 86_400_000_000_000 * 365 or time_ns > 1 << 62:
        return f'at {time_ns / 1e9:.9f} s'
    moment = datetime.datetime.fromtimestamp(time_ns // 10**9, datetime.timezone.utc)
    return f'{moment:%Y-%m-%d %H:%M:%S}.{time_ns % 10**9:09d} UTC'


def duration(ns):
    for unit, size in (('s', 1e9), ('ms', 1e6), ('us', 1e3)):
        if abs(ns) >= size:
            return f'{ns / size:.4g} {unit}'
    return f'{ns} ns'


def since(ns):
    return f'{ns / 1e9:.9f} s'


def rate(bits_per_second):
    for unit, size in (('Gbit/s', 1e9), ('Mbit/s', 1e6), ('kbit/s', 1e3)):
        if bits_per_second >= size:
            return f'{bits_per_second / size:.4g} {unit}'
    return f'{bits_per_second} bit/s' if bits_per_second else '0'
