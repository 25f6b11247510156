# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""IRN (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018): selective repeat and a
window of one bandwidth-delay product without PFC, beside go-back-N with and without PFC."""

from reproduction import charts, pages
from reproduction.simulator import scenario

SCENARIOS = ('irn',)

# By way: the recovery, whether the window is bounded by the scenario's cap, whether there is PFC.
WAYS = {
    'RoCE with PFC': ('go-back-n', False, True),
    'RoCE without PFC': ('go-back-n', False, False),
    'IRN without PFC': ('selective', True, False),
    'IRN with PFC': ('selective', True, True),
    'IRN, but go-back-N': ('go-back-n', True, False),
    'IRN, but no window': ('selective', False, False),
}
COLOURS = ['middle', 'bad', 'good', 'other', 'bad', 'middle']
SWEPT = ('IRN without PFC', 'IRN, but go-back-N')

# Without the cap nothing but memory bounds go-back-N; selective repeat holds 256 at most.
UNBOUNDED_PACKETS = 4096
# Thresholds for each input, below the queue of the scenario by a link's round trip. The output
# queues then have to take what all inputs send.
PFC = {'xoff': '220kB', 'xon': '210kB'}
PFC_QUEUE = '4MB'
# Pauses may last longer than the timeout of a network that drops: with PFC it is not to expire.
PFC_TIMEOUT = 16


def document_of(way, load=None, **flow):
    recovery, bounded, pfc = WAYS[way]
    document = scenario('irn')
    document['flows'][0].update(flow)
    if recovery == 'go-back-n':
        document['flows'][0]['recovery'] = {'algorithm': 'go-back-n'}
    if not bounded:
        document['max_unacked_packets'] = UNBOUNDED_PACKETS
    if pfc:
        document['fat_tree'].update(pfc=PFC, queue=PFC_QUEUE)
        document['flows'][0]['timeout'] = PFC_TIMEOUT
    if load is not None:
        document['flows'][0]['arrivals']['load'] = load
    return document


def measure(simulator, quick):
    loads = (0.3,) if quick else (0.3, 0.5)
    smaller = {'stop': '200us'} if quick else {}
    ways = ('RoCE with PFC', *SWEPT) if quick else WAYS
    simulator.expect(len(ways) + len(loads) * len(SWEPT))
    found = {way: _one(simulator, way, document_of(way, **smaller), way) for way in ways}
    full = scenario('irn')['flows'][0]['arrivals']['load']
    sweep = {way: [{'load': load, **_one(simulator, way, document_of(way, load, **smaller),
                                         f'{way}, load {load:.0%}')} for load in loads]
                  + [{'load': full, **found[way]}] for way in SWEPT}
    return {'ways': found, 'sweep': sweep}


def _one(simulator, way, document, what):
    # Without a window the network collapses, and queue pairs give up after their retries.
    run = simulator.run(document, what, failures=True)
    group = run.group('messages')
    return {'messages': group['flows'], 'gave_up': group['flows'] - group['completed'],
            'average_slowdown': round(group['slowdown']['average'], 3),
            'p99_slowdown': round(group['slowdown']['p99'], 2),
            'average_us': round(group['latency_us']['average'], 1),
            'p99_us': round(group['latency_us']['p99'], 1),
            'dropped': run.dropped(), 'sent': run.counter('sent_pkts'),
            'sent_again': run.counter('retransmitted_pkts'),
            'timeouts': run.counter('local_ack_timeout_err'), 'pauses': run.pauses()}


def gain(figures):
    """By how much IRN without PFC shortens the average completion of RoCE with PFC."""
    ways = figures['ways']
    return 1 - ways['IRN without PFC']['average_us'] / ways['RoCE with PFC']['average_us']


def results(figures):
    rows = [['way', 'slowdown, average', 'p99', 'completion, average', 'p99', 'dropped',
             'sent again', 'timeouts', 'pauses', 'gave up']]
    for way, one in figures['ways'].items():
        rows.append([way, f'{one["average_slowdown"]:.2f}', f'{one["p99_slowdown"]:.1f}',
                     f'{one["average_us"]:.0f} us', f'{one["p99_us"] / 1e3:.2f} ms', one['dropped'],
                     one['sent_again'], one['timeouts'], one['pauses'],
                     f'{one["gave_up"] / one["messages"]:.1%}'])
    sweep = [['load', *(f'{way}: slowdown' for way in SWEPT), 'p99', 'p99']]
    for lines in zip(*(figures['sweep'][way] for way in SWEPT)):
        sweep.append([f'{lines[0]["load"]:.0%}',
                      *(f'{line["average_slowdown"]:.2f}' for line in lines),
                      *(f'{line["p99_slowdown"]:.1f}' for line in lines)])
    messages = figures['ways']['IRN without PFC']['messages']
    return '\n\n'.join([f'{messages} messages at the load of the scenario:', pages.table(rows),
                        f'IRN without PFC completes messages {gain(figures):.0%} sooner on average '
                        'than RoCE with PFC. Over the load:', pages.table(sweep)])


def draw(plots, figures):
    figure, axes = plots.subplots(1, 3, figsize=(12, 3.6), layout='constrained')
    colours = charts.COLOURS
    charts.trend_bars(axes[0], ['RoCE\nwith PFC', 'IRN\nno PFC', 'IRN\nwith PFC',
                                'IRN, but\ngo-back-N'], [2, 1, 1.05, 1.7],
                      [colours[name] for name in ('middle', 'good', 'other', 'bad')])
    axes[0].set_ylabel('average slowdown')
    ways = figures['ways']
    heights = [one['average_slowdown'] for one in ways.values()]
    axes[1].bar(range(len(ways)), heights,
                color=[colours[COLOURS[list(WAYS).index(way)]] for way in ways])
    for place, height in enumerate(heights):
        axes[1].text(place, height, f'{height:.1f}', ha='center', va='bottom')
    axes[1].set_xticks(range(len(ways)), [way.replace(' with', '\nwith').replace(', but ', ',\n')
                                          for way in ways], rotation=30)
    axes[1].set_title('ours: average slowdown')
    for way, colour in zip(SWEPT, ('good', 'bad')):
        lines = figures['sweep'][way]
        loads = [100 * line['load'] for line in lines]
        axes[2].plot(loads, [line['average_slowdown'] for line in lines], marker='o',
                     color=colours[colour], label=f'{way}, average')
        axes[2].plot(loads, [line['p99_slowdown'] for line in lines], marker='o', linestyle=':',
                     color=colours[colour], label=f'{way}, p99')
    axes[2].set_yscale('log')
    axes[2].set_xlabel('load, percent of the hosts\' links')
    axes[2].set_title('ours: slowdown over load')
    axes[2].legend(frameon=False)
    return figure
