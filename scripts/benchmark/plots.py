# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The lines of each group as a bar chart of their ratios, with the targets; locks over the number
of their initiators, message stores over the number of their subscribers. SVG."""

import itertools
import statistics

from benchmark.measurements import INITIATORS, LOCK_MODES, MESSAGE_SIZES, SUBSCRIBERS
from lab.feeds import ZEROMQ_TRANSPORTS

GROUPS = {
    'large': 'Large transfers: share of what they are measured against',
    'small': 'Small operations: share of what they are measured against',
    'latency': 'Latency: multiple of what it is measured against (less is better)',
    'engine': 'Engine without a link',
    'scale': 'Many queue pairs, several cores',
    'live': 'A live page that looks',
    'targets': 'Dynamic connections beside reliable ones',
    'flood': 'A session of dynamic connections beside forged connects',
    'locks': 'Locks executed at the target',
    'ami': 'Active messages beside those of UCX',
    'publisher': 'Message stores: the writer beside subscribers, and beside ZeroMQ',
    'dag': 'Graphs of empty tasks beside Dask distributed',
    'front': 'Programs of verbs under rh-run beside rh-perf',
    'uplink': 'Programs of verbs over UDP sockets beside iperf3 and qperf',
    'others': 'Beside UCX and libfabric on this machine',
    'soft-roce': 'Beside Soft-RoCE under the same emulation',
}


def draw(found, rounds, folder):
    """Writes one SVG a group, and those of figures by number; returns their paths, or an empty list
    without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use('svg')
    matplotlib.rcParams['svg.hashsalt'] = 'rockhopper'  # the same figures, the same file
    matplotlib.rcParams['svg.fonttype'] = 'none'        # text, not outlines
    from matplotlib import pyplot

    groups = itertools.groupby(found, key=lambda line: line.group)
    charts = {group: _bars(pyplot, group, list(members)) for group, members in groups}
    charts['locks-contention'] = _contention(pyplot, rounds)
    charts['publisher-delivery'] = _delivery(pyplot, rounds)
    paths = []
    for name, figure in charts.items():
        if figure is None:
            continue
        path = folder / f'{name}.svg'
        figure.savefig(path, metadata={'Date': None})
        pyplot.close(figure)
        paths.append(path)
    return paths


def _bars(pyplot, group, members):
    height = 1.2 + 0.32 * len(members)
    figure, axes = pyplot.subplots(figsize=(10, height), layout='constrained')
    labels = [f'{line.text} / {line.basis}' for line in members]
    axes.barh(range(len(members)), [line.ratio for line in members], color='#4878a8')
    for row, line in enumerate(members):
        target = line.at_least if line.at_least is not None else line.at_most
        if target is not None:
            axes.plot([target, target], [row - 0.45, row + 0.45], color='#c03028', linewidth=2)
    axes.set_yticks(range(len(members)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel('median ratio; red: target')
    axes.set_title(GROUPS[group], fontsize=10)
    return figure


def contention(rounds):
    """{mode: [(initiators, median of Mop/s, median of packets for each success)]} of the scopes
    that contend for one lock, where they were measured."""
    found = {}
    for mode in LOCK_MODES:
        for count in INITIATORS:
            figures = [one[name] for one in rounds if (name := f'locks/{mode}/{count}') in one]
            if figures:
                found.setdefault(mode, []).append(
                    (count, *(statistics.median(figure[key] for figure in figures)
                              for key in ('mops', 'packets'))))
    return found


def _contention(pyplot, rounds):
    by_mode = contention(rounds)
    if not by_mode:
        return None
    figure, (goodput, packets) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout='constrained')
    labels = {'target': 'executed at the target', 'cas': 'compare and swap'}
    for mode, points in by_mode.items():
        counts, mops, each = zip(*points)
        goodput.plot(counts, mops, marker='o', markersize=4, label=labels[mode])
        packets.plot(counts, each, marker='o', markersize=4, label=labels[mode])
    packets.axhline(6, color='#c03028', linewidth=1, label='at most 6')
    for axes, title in ((goodput, 'million scopes a second'), (packets, 'packets for each scope')):
        axes.set_xscale('log', base=2)
        axes.set_xticks(INITIATORS, INITIATORS)
        axes.set_ylim(bottom=0)
        axes.set_xlabel('initiators')
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return figure


def delivery(rounds, size):
    """{system: [(subscribers, median of millions of messages a second delivered to all)]} of
    messages of `size` bytes, where they were measured."""
    found = {}
    for system in ('stores', *ZEROMQ_TRANSPORTS):
        for count in SUBSCRIBERS:
            name = f'publisher/deliver/{system}/{count}/{size}'
            mops = [one[name]['mops'] for one in rounds if name in one]
            if mops:
                found.setdefault(system, []).append((count, statistics.median(mops)))
    return found


def _delivery(pyplot, rounds):
    by_size = {size: delivery(rounds, size) for size in MESSAGE_SIZES}
    if not any(by_size.values()):
        return None
    figure, all_axes = pyplot.subplots(1, len(by_size), figsize=(10, 3.6), layout='constrained')
    for axes, (size, by_system) in zip(all_axes, by_size.items()):
        for system, points in by_system.items():
            label = 'message stores' if system == 'stores' else f'ZeroMQ over {system}'
            axes.plot(*zip(*points), marker='o', markersize=4, label=label)
        axes.set_xscale('log', base=2)
        axes.set_xticks(SUBSCRIBERS, SUBSCRIBERS)
        axes.set_ylim(bottom=0)
        axes.set_xlabel('subscribers')
        axes.set_title(f'million messages of {size} bytes a second, all together', fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return figure
