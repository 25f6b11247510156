# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The page: tables that need no script, and the data and script of the pictures. Nothing of a capture gets into it but
through escape(), or as JSON in which no tag can begin."""

import json
import pathlib
from html import escape

import numpy

from judge.frame import address
from judge.opcodes import DC, DC_CONNECT, RD, UD, XRC, Opcodes
from judge.rules import RULES

from . import encoding, figures
from .analysis import CLASSES, NAK_NAMES

_HERE = pathlib.Path(__file__).resolve().parent
# The package libjs-d3 of Debian.
LIBRARY = pathlib.Path('/usr/share/javascript/d3/d3.min.js')
_CURVES = 8  # connections that have a curve of their own in the overview
_MAX_ROWS = 2000  # connections in the table
_DISTRIBUTIONS = 2000  # connections that have their distributions in the page: those with most packets
_MAX_SHOWN = 10_000  # findings; the checker stores no more
_KINDS = len(CLASSES)


class PageError(Exception):
    """The page cannot be made, and why, in one line."""


def library():
    try:
        return LIBRARY.read_text('utf-8')
    except OSError as error:
        raise PageError(f'{LIBRARY}: {error.strerror} (the package libjs-d3 has it)') from error


def make(report):
    script, styles, d3 = (_HERE / 'page.js').read_text('utf-8'), (_HERE / 'page.css').read_text('utf-8'), library()
    if '</script' in d3.lower():
        raise PageError(f'{LIBRARY}: cannot stand in a page')
    data = _data(report)
    columns = _columns(report)
    names = ', '.join(source.name for source in report.sources)
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # The page loads nothing, and whatever is in a capture shall not make it.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; script-src \'unsafe-inline\'; '
        'style-src \'unsafe-inline\'; img-src data:">',
        '<link rel="icon" href="data:,">',
        f'<title>{escape(names)}: RoCEv2 report</title>\n<style>{styles}</style></head>\n<body>',
        _head(report, names), '<main>', _overview(report), _findings(report), _connections(report), _view(),
        '</main>', _foot(),
        f'<script type="application/json" id="data">{_json(data)}</script>\n',
    ]
    for name, text in columns.items():
        parts.append(f'<script type="text/plain" class="column" data-name="{escape(name)}">{text}</script>\n')
    parts += [f'<script>{d3}</script>\n<script>{script}</script>\n', '</body></html>\n']
    return ''.join(parts)


def _json(value):
    text = json.dumps(value, separators=(',', ':'), allow_nan=False)
    # Neither "</script>" nor "<!--" may stand in it.
    return text.replace('<', '\\u003c').replace('>', '\\u003e').replace('&', '\\u0026')


# What needs no script ------------------------------------------------------------------------------------------------


def _head(report, names):
    start = figures.clock(report.start_ns)
    return (
        f'<header><h1>{escape(names)}</h1><p class="soft">A report of RoCEv2 traffic by rh-report. Begins '
        f'{escape(start)}, lasts {figures.duration(report.end_ns - report.start_ns)}.</p>'
        '<nav aria-label="parts of the page"><a href="#overview">Overview</a><a href="#findings">Findings</a>'
        '<a href="#connections">Connections</a><a href="#view">One connection</a></nav></header>\n')


def _tile(value, name):
    return f'<div class="tile"><b>{value}</b><span>{escape(name)}</span></div>'


def _overview(report):
    summary = figures.summary(report)
    total = summary['totals']
    tiles = [
        _tile(f'{summary["packets"]:,}', f'RoCEv2 packets of {summary["frames"]:,} frames'),
        _tile(f'{len(report.parts):,}', 'connections and groups of datagrams'),
        _tile(figures.rate(total['goodput_bits_per_second']), 'goodput, mean'),
        _tile(f'{total["retransmissions"]:,}', 'retransmissions'),
        _tile(f'{total["naks"]:,}', 'NAKs'), _tile(f'{total["rnr_naks"]:,}', 'RNR NAKs'),
        _tile(f'{total["timeouts"]:,}', 'timeouts'),
        _tile(f'{total["cnps"]:,} / {total["ecn_marks"]:,}', 'CNPs / ECN marks'),
        _tile(f'{total["findings"]:,}', 'findings of the rules'),
    ]
    parts = ['<section id="overview"><h2>Overview</h2><div class="tiles">', *tiles, '</div>']
    if report.notes:
        parts.append('<h3>What cannot be seen, and why</h3><ul class="notes">')
        parts += [f'<li>{escape(note)}</li>' for note in report.notes]
        parts.append('</ul>')
    parts.append('<div id="goodput" class="off"><h3>Goodput over time</h3><p class="soft">Payload that came for the first '
                 'time. Drag across a stretch to look at it below.</p><div class="plot" style="height:190px"></div>'
                 '<div class="legend"></div></div>')
    parts.append('<div class="columns"><div class="wide">')
    parts.append(_table('Files', ('file', 'frames', 'RoCEv2', 'clock'), [
        (escape(f'{number}: {source["name"]}'), f'{source["frames"]:,}', f'{source["packets"]:,}',
         'as it is' if not source['offset_ns'] else f'{source["offset_ns"] / 1000:+,.3f} us')
        for number, source in enumerate(summary['files'], 1)], (1, 2)))
    parts.append(_table('Endpoints', ('address', 'packets sent', 'bytes sent', 'transports'), [
        (escape(row['address']), f'{row["packets"]:,}', f'{row["bytes"]:,}', ', '.join(row['transports']))
        for row in summary['endpoints'][:200]], (1, 2)))
    if summary['naks_by_code']:
        parts.append(_table('NAKs', ('code', 'packets'), [
            (escape(name), f'{count:,}') for name, count in summary['naks_by_code'].items()], (1,)))
    parts.append('</div><div class="wide">')
    parts.append(_table('Opcodes', ('opcode', 'packets'), [
        (f'<code>{escape(name)}</code>', f'{count:,}') for name, count in summary['opcodes'].items()], (1,)))
    parts.append('</div></div>')
    flows = [(source, flow) for source in report.sources for flow in source.judgement.flows]
    if flows:
        parts.append('<details><summary>Traits: what the packets of each flow have in common, which tells the device'
                     f' ({len(flows):,} flows)</summary><div class="wide">')
        names = ('source', 'destination', 'service', 'qpn', 'packets', 'source_port', 'dscp', 'ttl', 'mig_req', 'ip_id',
                 'ack_req', 'credits', 'bth_reserved', 'udp_checksum')
        rows = []
        for _, flow in flows[:_MAX_ROWS]:
            rows.append([escape(f'0x{flow[name]:06x}' if name == 'qpn' else str(flow.get(name, ''))) for name in names])
        parts.append(_table('', [name.replace('_', ' ') for name in names], rows, (4,)))
        parts.append('</div></details>')
    return ''.join(parts) + '</section>\n'


def _table(title, names, rows, numeric=(), words=()):
    def cells(tag, row):
        return ''.join(
            f'<{tag}{" class=number" if index in numeric else " class=words" if index in words else ""}>{cell}</{tag}>'
            for index, cell in enumerate(row))
    heading = f'<h3>{escape(title)}</h3>' if title else ''
    return (f'{heading}<table><thead><tr>{cells("th", names)}</tr></thead><tbody>'
            + ''.join(f'<tr>{cells("td", row)}</tr>' for row in rows) + '</tbody></table>')


def _findings(report):
    parts = ['<section id="findings"><h2>Findings</h2>']
    counts = {}
    for source in report.sources:
        for rule, count in source.judgement.counts.items():
            counts[rule] = counts.get(rule, 0) + count
    if any(source.judgement.problem for source in report.sources):
        parts.append('<p class="bad">Not all was judged: see what cannot be seen, above.</p>')
    if not counts:
        parts.append('<p>No rule of the checker was broken.</p>')
    by_rule = {}
    for number, found in enumerate(report.findings):
        by_rule.setdefault(found.violation.rule, []).append((number, found))
    for rule, count in sorted(counts.items(), key=lambda item: -item[1]):
        listed = by_rule.get(rule, [])
        opened = ' open' if len(counts) <= 12 and len(listed) <= 30 else ''
        parts.append(
            f'<details id="rule-{escape(rule)}"{opened}><summary><b>{escape(rule)}</b>: {count:,} &middot; '
            f'{escape(RULES[rule].text)} <span class="soft">[{escape(RULES[rule].source)}]</span></summary>'
            '<div class="wide">')
        rows = []
        for number, found in listed[:_MAX_SHOWN]:
            violation = found.violation
            place = f'frame {violation.frame}'
            if found.connection >= 0:
                place = f'<a class="finding" href="#c{found.connection}p{found.at}" data-finding="{number}">{place}</a>'
            row = [place, figures.since(violation.time_ns + report.sources[found.file].offset_ns - report.start_ns),
                   f'{escape(violation.source)} &rarr; {escape(violation.destination)}',
                   f'<code>0x{violation.qpn:06x}</code>', escape(violation.message)]
            if len(report.sources) > 1:
                row.append(escape(report.sources[found.file].name))
            rows.append(row)
        names = ['packet', 'time', 'from, to', 'to QP', 'what'] + (['file'] if len(report.sources) > 1 else [])
        parts.append(_table('', names, rows, (1,), (4,)))
        if count > len(listed):
            parts.append(f'<p class="soft">{count - len(listed):,} more are counted and not listed.</p>')
        parts.append('</div></details>')
    traits = [(source, trait) for source in report.sources for trait in source.judgement.traits]
    if traits:
        parts.append(f'<details><summary>Unusual, but no rule is broken: {len(traits):,}</summary><div class="wide">')
        parts.append(_table('', ('from frame', 'trait', 'from, to', 'to QP', 'what'), [
            (str(trait.frame), escape(trait.trait), f'{escape(trait.source)} &rarr; {escape(trait.destination)}',
             f'<code>0x{trait.qpn:06x}</code>', escape(trait.message)) for _, trait in traits[:_MAX_ROWS]], words=(4,)))
        parts.append('</div></details>')
    return ''.join(parts) + '</section>\n'


def _connections(report):
    rows = []
    for number, part in enumerate(report.parts[:_MAX_ROWS]):
        row = figures.connection(report, part)
        a, b = part.connection.ends()
        trip = row['round_trip_ns']
        rows.append((
            f'<a class="connection" href="#c{number}">{escape(a)} &harr; {escape(b)}</a>', escape(row['kind']),
            f'{row["packets"]:,}', figures.rate(row['goodput_bits_per_second'][0]),
            figures.rate(row['goodput_bits_per_second'][1]), *(f'{row[name]:,}' for name in (
                'retransmissions', 'naks', 'rnr_naks', 'timeouts', 'duplicates', 'cnps', 'ecn_marks')),
            figures.duration(trip['p50']) if trip else '', figures.duration(trip['p99']) if trip else '',
            f'{row["findings"]:,}'))
    names = ('connection', 'transport', 'packets', 'goodput &rarr;', 'goodput &larr;', 'sent again', 'NAKs',
             'RNR NAKs', 'timeouts', 'duplicates', 'CNPs', 'ECN marks', 'round trip p50', 'p99', 'findings')
    more = len(report.parts) - len(rows)
    return (
        '<section id="connections"><h2>Connections</h2><p class="soft">The end that asks first stands on the left: '
        '&rarr; is what it sends.</p><div class="wide">' + _table('', names, rows, range(2, len(names))) + '</div>'
        + (f'<p>{more:,} more are not listed; --json has them.</p>' if more > 0 else '') + '</section>\n')


def _view():
    return (
        '<section id="view"><h2>One connection</h2>'
        '<noscript><p>Pictures need JavaScript. The tables above have all figures.</p></noscript>'
        '<div id="pictures" class="off"></div></section>\n')


def _foot():
    return ('<footer><p class="soft">Made by rh-report of Rockhopper. The page needs no network; it holds d3 '
            '(&copy; Michael Bostock, BSD-3-Clause).</p></footer><div id="hover" role="status" aria-live="off"></div>\n')


# The data of the pictures --------------------------------------------------------------------------------------------


def _headers(info):
    """Names of the extension headers of an opcode, in order."""
    names = []
    if info.service == RD:
        names += ['RDETH'] + (['DETH'] if info.is_request else [])
    elif info.service == UD:
        names.append('DETH')
    elif info.service == XRC and info.is_request:
        names.append('XRCETH')
    elif info.service == DC:
        names.append('DCSH')
    elif info.service == DC_CONNECT:
        names.append('DCCH')
    if info.kind == 'flush':
        names.append('FETH')
    if info.reth >= 0:
        names.append('RETH')
    if info.aeth >= 0:
        names.append('AETH')
    if info.kind == 'atomic':
        names.append('AtomicETH')
    if info.kind == 'atomic ack':
        names.append('AtomicAckETH')
    if info.lock >= 0:
        names.append('LKETH' if info.is_request else 'LKAETH')
    if info.name.endswith('_IMM'):
        names.append('ImmDt')
    if info.name.endswith('_INVALIDATE'):
        names.append('IETH')
    return names


def _data(report):
    table = Opcodes(report.dynamic, report.locks)
    used = {}
    connections = []
    offset = 0
    series = []
    for number, part in enumerate(report.parts):
        connection = part.connection
        opcodes = {}
        for opcode in numpy.unique(part.rows['opcode']).tolist():
            qpn = 0xD00000 if connection.kind == 'DC' else connection.qpn_b & 0x0FFFFF
            info = table.find(opcode, qpn)
            name = info.name if info else f'opcode 0x{opcode:02X}'
            opcodes[opcode] = used.setdefault((opcode, name), len(used))
        a, b = connection.ends()
        row = figures.connection(report, part)
        start = report.start_ns
        connections.append({
            'kind': connection.kind, 'a': a, 'b': b, 'ipA': address(connection.a), 'ipB': address(connection.b),
            'qpnA': connection.qpn_a, 'qpnB': connection.qpn_b, 'at': offset, 'n': part.figures.packets,
            'mtu': connection.path_mtu, 'answered': connection.answered, 'opcodes': opcodes,
            'bases': part.figures.bases, 'figures': row,
            'events': [[e['at'], e['time'] - start, e['direction'], e['cause'], e['psn'], e['waited']]
                       for e in part.figures.events],
            'eventCount': part.figures.event_count,
            'spans': [[s['kind'], s['text'], s['at'], s['last'], s['start'] - start, s['end'] - start,
                       bool(s.get('open'))] for s in part.figures.spans],
            'timed': bool(part.figures.round_trips),
            'trips': figures.histogram(part.figures.round_trips) if number < _DISTRIBUTIONS else None,
            'latencies': {kind: figures.histogram(values) for kind, values in part.figures.latencies.items()}
            if number < _DISTRIBUTIONS else {},
            'reasons': {at: reason for at, reason in part.reasons.items()},
            'texts': {at: text for at, text in part.texts.items()},
        })
        offset += part.figures.packets
        for way in (0, 1):
            values = report.bins['series'][number][way]
            if values.any():
                ends = (a, b) if way == 0 else (b, a)
                series.append((float(values.sum()), f'{ends[0]} → {ends[1]}', number, values))
    series.sort(key=lambda entry: -entry[0])
    width = report.bins['width_ns']
    total = sum((entry[3] for entry in series), numpy.zeros(1))
    curves = [['all together', -1, _rates(total, width)]] if len(series) != 1 else []
    curves += [[name, number, _rates(values, width)] for _, name, number, values in series[:_CURVES]]
    rules = {found.violation.rule for found in report.findings}
    return {
        'start': str(report.start_ns), 'span': report.end_ns - report.start_ns, 'n': offset, 'classes': CLASSES,
        'naks': NAK_NAMES, 'files': [source.name for source in report.sources],
        'opcodes': [{'name': name, 'headers': _headers(table.find(opcode, 0xD00000 if name.startswith('DC') else 0))
                     if table.find(opcode, 0xD00000 if name.startswith('DC') else 0) else []} for opcode, name in used],
        'connections': connections, 'binNs': width, 'curves': curves,
        'rules': {rule: [RULES[rule].source, RULES[rule].text] for rule in rules},
        'findings': [[found.violation.rule, found.connection, found.at, found.violation.message]
                     for found in report.findings],
    }


def _rates(values, width):
    return [round(float(value) * 8e9 / width) for value in values]


def _columns(report):
    def joined(get, kind=numpy.int64):
        return numpy.concatenate([numpy.asarray(get(part), kind) for part in report.parts])

    columns = {'time/7': joined(lambda part: part.rows['time'] - report.start_ns)}
    sizes = {'number': 5, 'psn': 4, 'length': 4, 'wire': 4, 'port': 3, 'pkey': 3, 'opcode': 2, 'flags': 2, 'tos': 2,
             'marks': 2, 'ack_request': 2, 'ttl': 2}
    for name, size in sizes.items():
        columns[f'{name}/{size}'] = joined(lambda part, name=name: part.rows[name])
    columns['kind/2'] = joined(lambda part: part.drawn.kinds)
    columns['place/6'] = joined(lambda part: part.drawn.places)
    columns['outstanding/6'] = joined(lambda part: part.drawn.outstanding)
    columns['trip/7'] = joined(lambda part: part.drawn.round_trips)
    columns['bits/2'] = joined(
        lambda part: numpy.array(part.directions) | numpy.array(part.drawn.streams) << 1
        | (part.rows['dropped'] != 0).astype(int) << 2 | part.lost.astype(int) << 3)
    if len(report.sources) > 1:
        columns['file/2'] = joined(lambda part: part.file)
        columns['other/5'] = joined(lambda part: part.other_number)
        columns['delay/7'] = joined(lambda part: part.other_delay)
    encoded = {name: encoding.column(values, int(name.rpartition('/')[2])) for name, values in columns.items()}
    encoded |= _extensions(report)
    return encoded


def _extensions(report):
    """Extension headers, a matrix for each opcode, in the order of the packets."""
    opcode = numpy.concatenate([part.rows['opcode'] for part in report.parts])
    start = numpy.concatenate([part.rows['start'] for part in report.parts]).astype(numpy.int64)
    size = numpy.concatenate([part.rows['size'] for part in report.parts])
    data = numpy.frombuffer(report.extension + bytes(64), numpy.uint8)
    found = {}
    for value in numpy.unique(opcode).tolist():
        chosen = opcode == value
        width = int(size[chosen].max())
        if width == 0:
            continue
        rows = data[start[chosen][:, None] + numpy.arange(width)]
        # Headers that were cut have zeros behind their end.
        rows[numpy.arange(width)[None, :] >= size[chosen][:, None]] = 0
        found[f'headers:{value}/{width}'] = encoding.matrix(rows)
    return found
