# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What one look has found, in figures that people ask for: of each program its traffic, losses and queue pairs."""

from . import kinds
from .queue_pairs import RATES, TOP

# Processes under rh-run that are listed one by one.
PROCESSES_MAX = 64


def summed(watched, found):
    """The sum of the rates of (group, counter) pairs; None where none of them has a rate yet."""
    rates = [rate for rate in (watched.rate(*one) for one in found) if rate is not None]
    return sum(rates) if rates else None


def traffic(watched, groups):
    """Packets and bytes per second in both directions, of these groups together."""
    figures = {}
    for direction, names in (('rx', kinds.RECEIVED), ('tx', kinds.SENT)):
        found = [(group, kinds.traffic_names(watched.groups[group], names)) for group in groups]
        found = [(group, pair) for group, pair in found if pair]
        for at, unit in enumerate(('packets', 'bytes')):
            figures[f'{direction}_{unit}'] = summed(watched, [(group, pair[at]) for group, pair in found])
    return figures


def counters_that(watched, is_one):
    return [(group, counter) for group, counters in watched.groups.items() for counter in counters
            if is_one(group, counter)]


def summary(watched):
    """The line of a program."""
    drops = counters_that(watched, lambda group, counter: kinds.is_drop(group, counter, watched.text(group, counter)))
    of_engines = [group for group in watched.groups if 'retransmitted_pkts' in watched.groups[group]]
    return traffic(watched, kinds.traffic_groups(watched.groups)) | {
        'queue_pairs': watched.queue_pairs.total() if watched.queue_pairs.is_known else None,
        'drops': summed(watched, drops),
        'retransmitted': summed(watched, [(group, 'retransmitted_pkts') for group in of_engines]),
        'marked': summed(watched, [(group, 'np_ecn_marked_roce_packets') for group in of_engines]),
        'cnps': summed(watched, [(group, 'rp_cnp_handled') for group in of_engines])}


def queue_pairs(watched):
    """How many in which state, and the busiest ones."""
    follower = watched.queue_pairs
    return {'states': [[group, kind, state, count] for (group, kind, state), count in sorted(follower.states.items())],
            'seen': len(follower.found), 'rates': [list(RATES), follower.ranking.by_rate()],
            'top': [[qp.group, qp.number, qp.type, qp.state, qp.sent_rate, qp.received_rate, qp.sent, qp.received]
                    for qp in follower.top(TOP)]}


def moving(watched):
    """Counters that are not 0, each with its rate; what is left out is 0."""
    return {group: {counter: [value, watched.rate(group, counter)] for counter, value in counters.items() if value}
            for group, counters in watched.groups.items()}


def described(watched):
    """What does not change while a program runs: each counter, what it counts, and what kind it is of."""
    def kind(group, counter, text):
        return ''.join(letter for letter, is_one in (
            ('d', kinds.is_drop(group, counter, text)), ('c', kinds.is_congestion(counter)),
            ('l', kinds.is_loss(counter)), ('g', kinds.is_gauge(group, counter))) if is_one)
    return {group: {counter: [text := watched.text(group, counter), kind(group, counter, text)]
                    for counter in counters}
            for group, counters in watched.groups.items()}


def of_program(watched):
    program = watched.program
    return {'key': watched.key, 'pid': program.pid, 'name': program.name, 'file_prefix': program.file_prefix,
            'seconds': watched.at_s - watched.before_s if watched.before_s is not None else None,
            'summary': summary(watched),
            'ports': {group: traffic(watched, [group]) for group in kinds.traffic_groups(watched.groups)},
            'queue_pairs': queue_pairs(watched), 'counters': moving(watched)}


def of_verbs(verbs):
    """What programs under rh-run have; None where there is no segment."""
    if verbs is None or verbs.path is None:
        return None
    states = {}
    for process in verbs.processes:
        for qp in process.resources['qp']:
            key = qp['ifname'], qp['type'], qp['state']
            states[key] = states.get(key, 0) + 1
    return {'segment': verbs.path, 'problem': verbs.problem,
            'processes': [process.summary() for process in verbs.processes[:PROCESSES_MAX]],
            'left_out': max(0, len(verbs.processes) - PROCESSES_MAX),
            'states': [[*key, count] for key, count in sorted(states.items())]}
