# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Finds the packets that two captures have in common, and by how much their clocks differ.

The same packet has the same ICRC, flow, opcode and PSN in both. If the way takes as long in one direction as in
the other, the least time of each direction tells the difference of the clocks, as NTP reckons it.
"""

from dataclasses import dataclass

import numpy


@dataclass
class Match:
    one: numpy.ndarray  # rows of the first capture
    two: numpy.ndarray  # the same packets in the second
    offset_ns: int  # to be added to the second's times
    ways: int  # directions in which packets were found: 0, 1 or 2
    note: str


def _names(rows):
    """A number for each packet that its copies share."""
    name = rows['icrc'].astype(numpy.uint64) << numpy.uint64(32)
    name ^= rows['psn'].astype(numpy.uint64) << numpy.uint64(8)
    name ^= rows['opcode'].astype(numpy.uint64)
    return name * numpy.uint64(0x9E3779B97F4A7C15) ^ rows['flow'].astype(numpy.uint64)


def match(one, two, sources):
    """`sources[flow]` is the number of the address that sends it; times in the rows are those of each clock."""
    names_one, names_two = _names(one), _names(two)
    unique_one, at_one, count_one = numpy.unique(names_one, return_index=True, return_counts=True)
    unique_two, at_two, count_two = numpy.unique(names_two, return_index=True, return_counts=True)
    common, in_one, in_two = numpy.intersect1d(unique_one, unique_two, assume_unique=True, return_indices=True)
    if not len(common):
        return Match(numpy.zeros(0, int), numpy.zeros(0, int), 0, 0, 'has no packet in common with the first capture')
    once = (count_one[in_one] == 1) & (count_two[in_two] == 1)
    a, b = at_one[in_one[once]], at_two[in_two[once]]
    offset, ways, note = _offset(one, two, a, b, sources)
    pairs_one, pairs_two = [a], [b]
    if not once.all():
        more = _repeated(one, two, (names_one, names_two), common[~once], (a, b), offset, sources)
        pairs_one.append(more[0])
        pairs_two.append(more[1])
    return Match(numpy.concatenate(pairs_one), numpy.concatenate(pairs_two), offset, ways, note)


def _offset(one, two, a, b, sources):
    if not len(a):
        return 0, 0, 'has no packet in common with the first capture that was sent once: its clock is left as it is'
    later = two['time'][b] - one['time'][a]
    senders = sources[one['flow'][a]]
    of_sender = {int(sender): later[senders == sender] for sender in numpy.unique(senders)}
    if len(of_sender) < 2:
        least = int(later.min())
        if 0 <= least < 10_000_000:
            return 0, 1, (f'has packets of one direction in common, at least {least / 1000:.3f} us later: '
                          'its clock is left as it is')
        return -least, 1, ('has packets of one direction in common: clocks are set so that the fastest takes no '
                           'time, so one-way times are relative')
    ranked = sorted(of_sender.values(), key=lambda times: float(numpy.median(times)))
    forward, back = int(ranked[-1].min()), int(ranked[0].max())
    if back <= 0 <= forward:
        return 0, 2, (f'has both directions in common; its clock agrees with the first: one way takes at least '
                      f'{forward / 1000:.3f} us, the other at least {-back / 1000:.3f} us')
    offset = -(forward + back) // 2
    way = (forward - back) / 2000
    return offset, 2, (f'is shifted by {offset / 1000:.3f} us: then the fastest packets of both directions take '
                       f'{way:.3f} us (drift of the clocks is not mended)')


def _repeated(one, two, names, repeated, known, offset, sources):
    """Copies of what was sent more than once. Each is joined to that which was on the way about as long as the
    packets of the same sender around it, whose copies are `known`."""
    by_name = {}
    for row in numpy.flatnonzero(numpy.isin(names[0], repeated)).tolist():
        by_name.setdefault(int(names[0][row]), []).append(row)
    times_one, times_two = one['time'], two['time']
    rows = numpy.flatnonzero(numpy.isin(names[1], repeated))
    expected = times_two[rows] + offset
    for sender in numpy.unique(sources[two['flow'][rows]]).tolist():
        chosen = sources[two['flow'][rows]] == sender
        of_sender = sources[one['flow'][known[0]]] == sender
        if not of_sender.any():
            continue
        a, b = known[0][of_sender], known[1][of_sender]
        order = numpy.argsort(times_two[b], kind='stable')
        ways = (times_two[b] - times_one[a])[order]
        at = numpy.searchsorted(times_two[b][order], times_two[rows[chosen]])
        expected[chosen] = times_two[rows[chosen]] - ways[numpy.clip(at, 0, len(ways) - 1)]
    first, second = [], []
    for row, when in zip(rows.tolist(), expected.tolist()):
        candidates = by_name[int(names[1][row])]
        if candidates:
            best = min(candidates, key=lambda other: abs(when - int(times_one[other])))
            candidates.remove(best)
            first.append(best)
            second.append(row)
    return numpy.array(first, int), numpy.array(second, int)
