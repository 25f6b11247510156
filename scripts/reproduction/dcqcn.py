# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015): fair
shares where PFC alone gives none, short queues, and what other parameters do to both."""

import copy
import statistics

from reproduction import charts, pages
from reproduction.simulator import scenario

SCENARIOS = ('dcqcn-parking-lot', 'dcqcn-incast')
SENDERS = ('near', 'far.0', 'far.1', 'far.2')

# What the incast is varied by: parameters as those of QCN and DCTCP.
STEEP = '5kB,200kB,10%'
SLOW = {'rpg_time_reset': '1500us', 'rpg_byte_reset': '150kB', 'dce_tcp_g': 0.0625}


def without_dcqcn(document):
    """PFC alone."""
    changed = copy.deepcopy(document)
    for switch in changed['switches']:
        switch.pop('ecn')
    for flow in changed['flows']:
        flow.pop('congestion')
    return changed


def incast(senders, **parameters):
    document = scenario('dcqcn-incast')
    document['hosts'][0]['count'] = senders
    document['flows'][0]['congestion'].update(parameters)
    return document


def convergence(parameters, ecn=None):
    """Two senders, the second of which begins a fifth of the time after the first."""
    document = incast(2, **parameters)
    document.update(sample='2ms', duration='400ms', measure_from='200ms')
    document['flows'][0]['stagger'] = '40ms'
    if ecn:
        document['switches'][0]['ecn'] = ecn
    return document


def measure(simulator, quick):
    lots, counts = (2, (2, 8)) if quick else (10, (2, 4, 8, 16, 20))
    ways = {'PFC alone': without_dcqcn, 'DCQCN': lambda document: document}
    simulator.expect(2 * lots + len(counts) + 4)
    shorter = {'duration': '20ms', 'measure_from': '10ms'} if quick else {}

    lot = scenario('dcqcn-parking-lot')
    lot.update(shorter)
    shares = {way: {name: [] for name in SENDERS} for way in ways}
    fairness, pauses, longest = {}, {}, {}
    for way, change in ways.items():
        for number in range(lots):
            run = simulator.run(change(lot), f'parking lot, {way}, {number + 1} of {lots}',
                                seed=simulator.seed + number)
            for name in SENDERS:
                shares[way][name].append(round(run.flow(name)['bit_per_s'] / 1e9, 3))
            pauses.setdefault(way, []).append(run.pauses())
            longest.setdefault(way, []).append(
                run.port('tor4 > receiver')['queue_bytes']['p90'] / 1e3)
        fairness[way] = [jain([shares[way][name][i] for name in SENDERS]) for i in range(lots)]

    queues = []
    for name, count, ecn in (*((str(count), count, None) for count in counts),
                             (f'{counts[-1]}, Pmax 10 %', counts[-1], STEEP)):
        document = {**incast(count), **shorter}
        if ecn:
            document['switches'][0]['ecn'] = ecn
        run = simulator.run(document, f'{name} senders')
        port, group = run.port('s > receiver'), run.group('in')
        queues.append({'name': name, 'senders': count,
                       'gbit_per_s': round(group['bit_per_s'] / 1e9, 2),
                       'fairness': round(group['fairness'], 4),
                       **{f'{part}_kb': round(port['queue_bytes'][part] / 1e3, 1)
                          for part in ('p50', 'p90', 'p99')},
                       'ecn_marked': port['ecn_marked'], 'pauses': run.pauses(),
                       'dropped': run.dropped()})
    without = simulator.run({**without_dcqcn(incast(counts[-1])), **shorter},
                            f'{counts[-1]} senders, PFC alone')
    port, group = without.port('s > receiver'), without.group('in')
    pfc_queue = {'senders': counts[-1], 'gbit_per_s': round(group['bit_per_s'] / 1e9, 2),
                 'p90_kb': round(port['queue_bytes']['p90'] / 1e3, 1), 'pauses': without.pauses()}

    rates = {}
    for way, document in (("the paper's", convergence({})),
                          ('as of QCN', convergence(SLOW, ecn='40kB,40kB,100%'))):
        if quick:
            document.update(duration='20ms', measure_from='10ms', sample='100us')
            document['flows'][0]['stagger'] = '4ms'
        rates[way] = simulator.run(
            document, f'two senders, parameters {way}', curves=True,
            use=lambda run: {'fairness': round(run.group('in')['fairness'], 4),
                             'curves': [[round(rate, 3) for _, rate in run.curve('rates', name)]
                                        for name in ('in.0', 'in.1')],
                             'ms': [round(1e3 * at, 3)
                                    for at, _ in run.curve('rates', 'in.0')]})
    return {'shares': shares, 'fairness': fairness, 'pauses': pauses, 'port_p90_kb': longest,
            'queues': queues, 'pfc_queue': pfc_queue, 'rates': rates}


def jain(rates):
    return round(sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates)), 4)


def _spread(values):
    return f'{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})'


def results(figures):
    lines = [['', *SENDERS, "Jain's index", 'pauses a run', 'queue at the receiver, p90']]
    for way, shares in figures['shares'].items():
        lines.append([way, *(_spread(values) for values in shares.values()),
                      f'{statistics.median(figures["fairness"][way]):.3f}',
                      f'{statistics.median(figures["pauses"][way]):.0f}',
                      f'{statistics.median(figures["port_p90_kb"][way]):.0f} kB'])
    incasts = [['senders', 'goodput', "Jain's index", 'queue p50', 'p90', 'p99', 'pauses',
                'dropped']]
    for line in figures['queues']:
        incasts.append([line['name'], f'{line["gbit_per_s"]:.1f} Gbit/s',
                        f'{line["fairness"]:.4f}', *(f'{line[name]:.0f} kB' for name in
                                                     ('p50_kb', 'p90_kb', 'p99_kb')),
                        line['pauses'], line['dropped']])
    without = figures['pfc_queue']
    incasts.append([f'{without["senders"]}, PFC alone', f'{without["gbit_per_s"]:.1f} Gbit/s',
                    '', '', f'{without["p90_kb"]:.0f} kB', '', without['pauses'], 0])
    converged = [['parameters', "Jain's index of two senders, second half"]]
    converged += [[way, f'{found["fairness"]:.4f}'] for way, found in figures['rates'].items()]
    return '\n\n'.join([
        'Gbit/s of each sender into one port of 40 Gbit/s, median (least-most) of the runs:',
        pages.table(lines), 'Queue of the congested port, sampled each 20 us in the second half:',
        pages.table(incasts), 'Two senders, one after the other:', pages.table(converged)])


def draw(plots, figures):
    figure, axes = plots.subplots(2, 3, figsize=(11, 6), layout='constrained')
    colours = charts.COLOURS
    trend, ours, lengths = axes[0]
    charts.trend_bars(trend, ['near\nPFC', 'far\nPFC', 'near\nDCQCN', 'far\nDCQCN'],
                      [2, 1, 1.25, 1.25], [colours['bad']] * 2 + [colours['good']] * 2)
    for place, (way, colour) in enumerate((('PFC alone', 'bad'), ('DCQCN', 'good'))):
        for row, name in enumerate(SENDERS):
            values = figures['shares'][way][name]
            middle = statistics.median(values)
            ours.bar(row + 0.4 * place, middle, 0.36, color=colours[colour],
                     label=way if row == 0 else None)
            ours.plot([row + 0.4 * place] * 2, [min(values), max(values)], color='black',
                      linewidth=1)
    ours.axhline(sum(statistics.median(figures['shares']['DCQCN'][name]) for name in SENDERS) / 4,
                 color='black', linestyle=':', linewidth=0.8)
    ours.set_xticks([row + 0.2 for row in range(4)], SENDERS)
    ours.set_title('ours: Gbit/s of four senders (line: least to most)')
    ours.legend(frameon=False)
    plain, steep = figures['queues'][:-1], figures['queues'][-1]
    senders = [line['senders'] for line in plain]
    for name, colour in (('p50_kb', 'other'), ('p90_kb', 'middle'), ('p99_kb', 'bad')):
        lengths.plot(senders, [line[name] for line in plain], marker='o', color=colours[colour],
                     label=name[:3])
    lengths.plot(steep['senders'], steep['p90_kb'], marker='x', linestyle='', color='black',
                 label='p90, Pmax 10 %')
    lengths.axhspan(5, 200, color='#eeeeee', label='Kmin to Kmax')
    lengths.set_ylim(bottom=0)
    lengths.set_xlabel('senders')
    lengths.set_title('ours: queue of the port, kB')
    lengths.legend(frameon=False)
    charts.trend_lines(axes[1][0], [('first', [0, 2, 2.2, 10], [2, 2, 1, 1], colours['other']),
                                    ('second', [2, 2.2, 10], [0, 1, 1], colours['good'])], 'time')
    for one, way in zip(axes[1][1:], figures['rates']):
        found = figures['rates'][way]
        for name, curve, colour in zip(('first', 'second'), found['curves'], ('other', 'good')):
            one.plot(found['ms'], curve, color=colours[colour], linewidth=0.8, label=name)
        one.set_ylim(0, 40)
        one.set_xlabel('ms')
        one.set_title(f'ours: Gbit/s of two, parameters {way}')
        one.legend(frameon=False)
    return figure
