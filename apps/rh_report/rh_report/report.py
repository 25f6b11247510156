# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Puts a report together: captures are read and judged, joined, and reckoned connection by connection."""

import os
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy

from judge.capture import CaptureError
from judge.frame import address

from . import alignment, connections, management, packets
from .analysis import LOST, Analysis, Figures
from .judging import Judge, Judgement

BINS = 300
_LISTED = 2000  # events and spans of a connection, and as much for all of many connections:
_LISTED_OF_ALL = 100_000
_LEAST_LISTED = 20
_MARK_CE = 3


@dataclass
class Source:
    """One capture."""

    path: str
    name: str
    packets: packets.Packets
    judgement: Judgement = None
    offset_ns: int = 0
    note: str = ''
    matched: int = 0
    packet_count: int = 0


@dataclass
class Found:
    """A finding of the checker, and where the packet stands in the picture."""

    file: int
    violation: object
    connection: int = -1
    at: int = -1  # of the packets of the connection


@dataclass
class Part:
    """A connection with its packets, in the order of time."""

    connection: connections.Connection
    figures: Figures
    rows: numpy.ndarray
    file: numpy.ndarray
    directions: list
    drawn: object
    other_number: numpy.ndarray  # of the same packet in the other capture; 0: it is not there
    other_delay: numpy.ndarray  # ns later there
    lost: numpy.ndarray  # sent in one capture and not in the other, which was running
    reasons: dict  # packet: why it was dropped
    texts: dict  # packet: what a message says


@dataclass
class Report:
    sources: list
    parts: list
    findings: list
    start_ns: int
    end_ns: int
    bins: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    extension: bytes = b''
    dynamic: bool = False
    locks: bool = False
    problems: list = field(default_factory=list)
    numbers: dict = None
    found_in: dict = None


class FileError(Exception):
    """A capture that cannot be reported, and why, in one line."""


def make(paths, options, say=lambda text: None):
    judges, sources = [], []
    dynamic, locks = options.dynamic_connections, options.locks
    try:
        for path in paths:
            with _named(path):
                found = packets.extensions_used(path, options.ports)
            dynamic, locks = dynamic or found[0], locks or found[1]
        options = replace(options, dynamic_connections=dynamic, locks=locks, traits=True)
        for path in paths:
            judges.append(Judge(path, options))
        for path in paths:
            say(f'reading {path}')
            with _named(path):
                sources.append(Source(path, os.path.basename(path), packets.read(path, options)))
        answers, mtus = {}, {}
        for source, judge in zip(sources, judges):
            with _named(source.path):
                found = judge.pairs()
                if not len(source.packets.rows):
                    # The checker says what is there instead; else it is that of which nothing can be read.
                    raise CaptureError('no RoCEv2 packet in it whose BTH can be read')
            answers |= found[0]
            mtus |= {key: max(mtu, mtus.get(key, 0)) for key, mtu in found[1].items()}
        say('joining')
        report = _joined(sources, answers, mtus, options)
        say('judging')
        for index, (source, judge) in enumerate(zip(sources, judges)):
            source.judgement = judge.verdict()
            if source.judgement.problem:
                report.problems.append(f'{source.name}: not judged: {source.judgement.problem}')
        _place_findings(report)
        _notes(report, options)
        return report
    finally:
        for judge in judges:
            judge.close()


class _named:
    """Errors inside carry the name of the file."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if isinstance(error, (CaptureError, OSError)):
            raise FileError(f'{self._path}: {getattr(error, "strerror", None) or error}') from error
        return False


def _joined(sources, answers, mtus, options):
    numbers, flows = {}, []
    columns, files, extensions, size = [], [], [], 0
    beside = packets.Packets('')
    reasons = {}
    total = 0
    for index, source in enumerate(sources):
        own = source.packets
        translate = []
        for flow in own.flows:
            if flow not in numbers:
                numbers[flow] = len(flows)
                flows.append(flow)
            translate.append(numbers[flow])
        rows = own.rows.copy()
        rows['flow'] = numpy.array(translate, numpy.uint32)[rows['flow']]
        rows['start'] += size
        size += len(own.extension)
        extensions.append(own.extension)
        columns.append(rows)
        files.append(numpy.full(len(rows), index, numpy.uint8))
        for row, message in own.messages.items():
            beside.messages[total + row] = management.decode(message)
        for row, message in own.dynamic.items():
            beside.dynamic[total + row] = message
        for row, reason in own.reasons.items():
            reasons[total + row] = reason
        total += len(rows)
        source.packet_count = len(rows)
        own.rows, own.extension = None, b''
    rows, file = numpy.concatenate(columns), numpy.concatenate(files)
    first_of = [0]
    for part in columns:
        first_of.append(first_of[-1] + len(part))
    del columns
    other_number, other_delay, keep, lost = _aligned(sources, rows, first_of, flows, reasons)
    found, of_flow = connections.join(flows, answers, mtus)
    extension = b''.join(extensions)
    report = Report(sources, [], [], int(rows['time'].min()), int(rows['time'].max()), extension=extension,
                    dynamic=options.dynamic_connections, locks=options.locks)
    ids = {id(connection): number for number, connection in enumerate(found)}
    of_flow_id = numpy.array([ids[id(connection)] for connection in of_flow])
    of_flow_direction = numpy.array([connection.flows[index] for index, connection in enumerate(of_flow)])
    owner = of_flow_id[rows['flow']]
    order = numpy.lexsort((numpy.arange(len(rows)), rows['time'], owner))
    order = order[keep[order]]
    bounds = numpy.searchsorted(owner[order], numpy.arange(len(found) + 1))
    opcodes = options.opcodes

    def info_of(flow, opcode):
        return opcodes.find(opcode, flows[flow][3])

    most = max(_LEAST_LISTED, min(_LISTED, _LISTED_OF_ALL // len(found)))
    for number, connection in enumerate(found):
        here = order[bounds[number]:bounds[number + 1]]
        if not len(here):
            continue
        part_rows = rows[here]
        directions = of_flow_direction[part_rows['flow']].tolist()
        places = here.tolist()
        analysis = Analysis(connection, part_rows, directions, extension, info_of, beside,
                            numpy.where(lost[here], LOST, part_rows['dropped'] != 0).tolist(), most)
        drawn = analysis.run(places)
        marked = (part_rows['tos'] & 3) == _MARK_CE
        figures = analysis.figures
        figures.counts['ECN marks'] = int(marked.sum())
        figures.counts['drops'] = int((part_rows['dropped'] != 0).sum())
        figures.counts['lost between the captures'] = int(lost[here].sum())
        texts = {}
        for at, row in enumerate(places):
            if row in beside.messages and beside.messages[row] is not None:
                texts[at] = f'{beside.messages[row].name} {beside.messages[row].text}'
            elif row in beside.dynamic:
                texts[at] = _session_text(beside.dynamic[row])
        report.parts.append(Part(
            connection, figures, part_rows, file[here], directions, drawn, other_number[here], other_delay[here],
            lost[here], {at: reasons[row] for at, row in enumerate(places) if row in reasons} if reasons else {}, texts))
    report.parts.sort(key=lambda part: -part.figures.packets)
    _series(report)
    return report


def _session_text(message):
    from judge.dcformat import NAMES, REASONS
    words = [NAMES[message.subtype]]
    if message.nonce:
        words.append(f'nonce 0x{message.nonce:08x}')
    if message.session:
        words.append(f'session {message.session:016x}')
    if message.dci:
        words.append(f'DCI 0x{message.dci:06x} stream {message.stream}')
    if NAMES[message.subtype] == 'CNAK':
        words.append(REASONS[message.value if message.value < len(REASONS) else 0])
    words.append(f'PSN 0x{message.psn:06x}')
    return ', '.join(words)


def _aligned(sources, rows, first_of, flows, reasons):
    """Sets the clocks of all to the first one's, and joins the two copies of a packet: that of the sender's end
    stays, with the number and time of the other."""
    count = len(rows)
    other_number, other_delay = numpy.zeros(count, numpy.uint32), numpy.zeros(count, numpy.int64)
    keep, lost = numpy.ones(count, bool), numpy.zeros(count, bool)
    hosts = {}
    senders = numpy.array([hosts.setdefault(flow[0], len(hosts)) for flow in flows])
    for index in range(1, len(sources)):
        one, two = slice(0, first_of[index]), slice(first_of[index], first_of[index + 1])
        here = numpy.flatnonzero(keep[one])
        found = alignment.match(rows[here], rows[two], senders)
        source = sources[index]
        source.offset_ns, source.note, source.matched = found.offset_ns, found.note, len(found.one)
        rows['time'][two] += found.offset_ns
        if not len(found.one):
            continue
        first, second = here[found.one], found.two + first_of[index]
        later = rows['time'][second] - rows['time'][first]
        forward = later >= 0
        kept, gone = numpy.where(forward, first, second), numpy.where(forward, second, first)
        # A third copy leaves the first two as they are.
        fresh = other_number[kept] == 0
        other_number[kept[fresh]] = rows['number'][gone[fresh]]
        other_delay[kept[fresh]] = numpy.abs(later[fresh])
        keep[gone] = False
        # Who drops a packet is its receiver, whose copy goes.
        rows['dropped'][kept] |= rows['dropped'][gone]
        for here_row, there in zip(kept[rows['dropped'][gone] != 0].tolist(), gone[rows['dropped'][gone] != 0].tolist()):
            if there in reasons:
                reasons.setdefault(here_row, reasons[there])
        if len(sources) == 2:
            _note_losses(rows, here, numpy.arange(two.start, two.stop), first, second, forward, senders, lost)
    return other_number, other_delay, keep, lost


def _note_losses(rows, one, two, first, second, forward, senders, lost):
    """What the sender's end has and the other has not, while both captures were running."""
    begin = max(rows['time'][one].min(), rows['time'][two].min())
    end = min(rows['time'][one].max(), rows['time'][two].max())
    matched = numpy.zeros(len(rows), bool)
    matched[first] = matched[second] = True
    for near, sent in ((one, forward), (two, ~forward)):
        if not sent.any():
            continue
        at_this_end = numpy.unique(senders[rows['flow'][first[sent]]])
        alone = near[~matched[near]]
        times = rows['time'][alone]
        own = numpy.isin(senders[rows['flow'][alone]], at_this_end) & (times >= begin) & (times <= end)
        lost[alone[own]] = True


def _series(report):
    """Goodput over time, of each connection and direction."""
    span = max(1, report.end_ns - report.start_ns)
    width = span / BINS
    report.bins = {'width_ns': width, 'series': []}
    for part in report.parts:
        good = numpy.array(part.drawn.good, numpy.float64)
        directions = numpy.array(part.directions)
        bins = numpy.minimum(((part.rows['time'] - report.start_ns) / width).astype(int), BINS - 1)
        report.bins['series'].append([
            numpy.bincount(bins[directions == way], good[directions == way], BINS) for way in (0, 1)])


def _place_findings(report):
    where = {}
    wanted = {(index, violation.frame)
              for index, source in enumerate(report.sources) for violation in source.judgement.violations}
    frames = numpy.array(sorted({frame for _, frame in wanted}), numpy.uint32)
    for number, part in enumerate(report.parts):
        numbers, files, others = part.rows['number'], part.file, part.other_number
        for at in numpy.flatnonzero(numpy.isin(numbers, frames)).tolist():
            where[int(files[at]), int(numbers[at])] = number, at
        if len(report.sources) > 1:
            for at in numpy.flatnonzero(numpy.isin(others, frames) & (others > 0)).tolist():
                # With two captures the other one is the one that it is not.
                for index in range(len(report.sources)):
                    if index != files[at]:
                        where.setdefault((index, int(others[at])), (number, at))
    for index, source in enumerate(report.sources):
        for violation in source.judgement.violations:
            report.findings.append(Found(index, violation, *where.get((index, violation.frame), (-1, -1))))


def _notes(report, options):
    """What cannot be seen in these captures, and why."""
    for source in report.sources:
        own, name = source.packets, source.name
        if own.truncated:
            report.notes.append(f'{name}: its end is missing: the last record is incomplete and was left out.')
        if own.cut:
            report.notes.append(
                f'{name}: {own.cut} packets were cut when they were captured (snap length, or a mirror port): ICRC and '
                'content of these are not checked, and copies in another capture are told by PSN alone.')
        if own.unreadable:
            report.notes.append(
                f'{name}: of {own.unreadable} packets not even the BTH is there; they are in no figure and no picture.')
        if source.note:
            report.notes.append(f'{name} {source.note}; {source.matched} packets are in both.')
        report.notes += [f'{name}: {note}.' for note in source.judgement.notes
                         if 'incomplete' not in note and 'snap length' not in note]
    report.notes += [problem + '. All else is here.' for problem in report.problems]
    one_way = [part for part in report.parts if part.connection.kind in ('RC', 'XRC') and not part.connection.answered]
    if one_way:
        of = _direction(one_way)
        report.notes.append(
            f'{len(one_way)} connections are seen in one direction only ({of}): outstanding bytes, round trips and latencies '
            'of messages are not known there, and retransmissions cannot be told from duplicates of what was '
            'acknowledged.')
    twice = _mirrored(report)
    if twice:
        report.notes.append(
            f'{twice:.0%} of the packets are in the capture twice within a moment, unchanged: a mirror of more than one '
            'port. The second copies count as retransmissions and duplicates; "editcap -d" takes them out.')
    if not report.dynamic:
        unknown = sum(part.figures.counts['other'] for part in report.parts)
        if unknown:
            report.notes.append(f'{unknown} packets have opcodes that are not defined; they are shown as they are.')


def _direction(parts):
    asked = sum(part.figures.counts['request'] > 0 for part in parts)
    return f'requests of {asked}, responses of {len(parts) - asked}'


def _mirrored(report):
    """The part of the packets that come twice in a row, or 0 where that is no habit."""
    doubled = total = 0
    for part in report.parts:
        rows = part.rows
        if len(rows) < 2:
            continue
        same = ((rows['icrc'][1:] == rows['icrc'][:-1]) & (rows['psn'][1:] == rows['psn'][:-1])
                & (rows['flow'][1:] == rows['flow'][:-1]) & (rows['opcode'][1:] == rows['opcode'][:-1])
                & (rows['icrc'][1:] != 0) & (numpy.diff(rows['time']) < 1_000_000))
        doubled += int(same.sum())
        total += len(rows)
    share = 2 * doubled / max(1, total)
    return share if share > 0.8 else 0


def connected(part):
    return part.connection.kind in ('RC', 'XRC', 'DC')


def totals(report):
    counts, opcodes, naks = Counter(), Counter(), Counter()
    for part in report.parts:
        counts.update(part.figures.counts)
        opcodes.update(part.figures.opcodes)
        naks.update(part.figures.naks)
    return counts, opcodes, naks


def hosts(report):
    """Packets and bytes that each address sent."""
    found = {}
    for part in report.parts:
        wire = part.rows['wire'].astype(numpy.int64)
        directions = numpy.array(part.directions)
        for way, host in enumerate((part.connection.a, part.connection.b)):
            entry = found.setdefault(address(host), [0, 0, set()])
            entry[0] += int((directions == way).sum())
            entry[1] += int(wire[directions == way].sum())
            entry[2].add(part.connection.kind)
    return found

