# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The counters as metrics: in the text format of Prometheus, and in OpenMetrics 1.0.

A counter `sent_pkts` of the group `engine` is the metric rockhopper_engine_sent_pkts_total, and what it counts is the
metric's HELP. Names of metrics have no numbers of ports or shards: the label `group` has them.
"""

import re

from . import kinds
from .queue_pairs import RATES, TOP

PROMETHEUS = 'text/plain; version=0.0.4; charset=utf-8'
OPENMETRICS = 'application/openmetrics-text; version=1.0.0; charset=utf-8'
# So many samples of one answer; what is left out is counted.
SAMPLES_MAX = 100_000
# Of a group or counter, as other programs may name them.
NAME = re.compile(r'[^a-zA-Z0-9_]')


def label_value(text):
    """A value of a label. Control characters other than the line feed may stand in it as they are."""
    return str(text).replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')


def help_text(text, openmetrics):
    text = text.replace('\\', '\\\\').replace('\n', '\\n')
    return text.replace('"', '\\"') if openmetrics else text


def labels_of(pairs):
    return '{' + ','.join(f'{name}="{label_value(value)}"' for name, value in pairs) + '}' if pairs else ''


def figure(value):
    return repr(value) if isinstance(value, float) else str(value)


class Metrics:
    """Metrics by name, each with its kind, its text and its samples."""

    def __init__(self):
        self.families = {}
        self.samples = self.left_out = 0

    def family(self, name, kind, text):
        """`name` is without _total. Who names a metric first says of which kind it is."""
        return self.families.setdefault(name, (kind, text, {}))

    def add(self, name, kind, text, labels, value, suffix=''):
        if self.samples >= SAMPLES_MAX:
            self.left_out += 1
            return
        samples = self.family(name, kind, text)[2]
        # Two with the same labels would make the whole answer invalid.
        key = suffix, labels_of(labels)
        if key not in samples:
            samples[key] = value
            self.samples += 1

    def text(self, openmetrics):
        lines = []
        for name, (kind, text, samples) in sorted(self.families.items()):
            counted = '_total' if kind == 'counter' else ''
            told = name if openmetrics else name + counted
            lines.append(f'# HELP {told} {help_text(text, openmetrics)}')
            lines.append(f'# TYPE {told} {kind}')
            if openmetrics and name.endswith('_seconds') or openmetrics and name.endswith('_bytes'):
                lines.append(f'# UNIT {told} {name.rpartition("_")[2]}')
            lines += [f'{name}{suffix or counted}{labels} {figure(value)}'
                      for (suffix, labels), value in samples.items()]
        if openmetrics:
            lines.append('# EOF')
        return '\n'.join(lines) + '\n'


def metric_name(group, counter):
    family = NAME.sub('_', kinds.family_of(group)) or 'group'
    name = NAME.sub('_', counter)
    if name.endswith('_total'):
        name = name.removesuffix('_total')
    if name.endswith('_ns'):
        name = name.removesuffix('_ns') + '_nanoseconds'
    return f'rockhopper_{family}_{name}'


def heading(watched):
    program = watched.program
    return (('program', program.name), ('pid', program.pid), ('file_prefix', program.file_prefix))


def add_counters(metrics, watched):
    for group, counters in watched.groups.items():
        labels = (*heading(watched), ('group', group))
        for counter, value in counters.items():
            text = watched.text(group, counter) or f'{counter} of the group {kinds.family_of(group)}'
            kind = 'gauge' if kinds.is_gauge(group, counter) else 'counter'
            metrics.add(metric_name(group, counter), kind, text, labels, value)
            if kinds.is_drop(group, counter, text):
                metrics.add('rockhopper_drops', 'counter', 'what was dropped or lost, by all counters of that kind: a '
                            'packet may be in several', (*labels, ('reason', counter.removeprefix('drop_'))), value)


def add_queue_pairs(metrics, watched):
    follower = watched.queue_pairs
    for (group, kind, state), count in sorted(follower.states.items()):
        metrics.add('rockhopper_queue_pairs', 'gauge', 'queue pairs, by service and state',
                    (*heading(watched), ('group', group), ('type', kind), ('state', state)), count)
    if not follower.is_known:
        return
    for bound, count in zip((*RATES, 'inf'), follower.ranking.by_rate(), strict=True):
        metrics.add('rockhopper_queue_pairs_by_rate', 'gauge', 'queue pairs that send and receive so many packets a '
                    'second: at most the bound, and more than the one before it',
                    (*heading(watched), ('at_most', bound)), count)
    top = follower.labelled(TOP)
    for qp in top:
        labels = (*heading(watched), ('group', qp.group), ('qp', f'{qp.number:#08x}'), ('type', qp.type))
        metrics.add('rockhopper_queue_pair_sent_packets', 'counter',
                    'request packets of a queue pair, by its PSNs, since it was first seen', labels, qp.sent)
        metrics.add('rockhopper_queue_pair_received_packets', 'counter',
                    'request packets that a queue pair has accepted, by its PSNs, since it was first seen', labels,
                    qp.received)
    metrics.add('rockhopper_queue_pairs_left_out', 'gauge',
                'queue pairs that have no metric of their own, as others send and receive more', heading(watched),
                max(0, follower.total() - len(top)))


def add_verbs(metrics, verbs):
    if verbs is None or verbs.path is None:
        return
    states, kinds_of = {}, {}
    for process in verbs.processes:
        for kind, listed in process.resources.items():
            for one in listed:
                if kind == 'qp':
                    key = one['ifname'], one['type'], one['state']
                    states[key] = states.get(key, 0) + 1
                key = one['ifname'], kind
                kinds_of[key] = kinds_of.get(key, 0) + 1
    for (device, kind, state), count in sorted(states.items()):
        metrics.add('rockhopper_verbs_queue_pairs', 'gauge', 'queue pairs of programs under rh-run, by type and state',
                    (('device', device), ('type', kind), ('state', state)), count)
    for (device, kind), count in sorted(kinds_of.items()):
        metrics.add('rockhopper_verbs_resources', 'gauge', 'what programs under rh-run have of the device, by kind',
                    (('device', device), ('kind', kind)), count)
    metrics.add('rockhopper_verbs_processes', 'gauge', 'processes under rh-run that have opened a device', (),
                len(verbs.processes))


def add_own(metrics, sampler, server, version):
    metrics.add('rockhopper_stats_build_info', 'gauge', 'the version of rh-stats', (('version', version),), 1)
    for name, kind, text, value in (
            ('programs', 'gauge', 'programs that are asked', len(sampler.programs)),
            ('programs_left_out', 'gauge', 'programs that are not asked, as too many run', sampler.left_out),
            ('programs_came', 'counter', 'programs that have been found', sampler.came),
            ('programs_went', 'counter', 'programs that have ended while they were asked', sampler.went),
            ('failures', 'counter', 'programs given up for a while: no answer in time, or one that makes no sense',
             sampler.failed),
            ('looks', 'counter', 'times that all programs were asked', sampler.looks),
            ('look_cpu_seconds', 'counter', 'processor time of these looks', round(sampler.spent_s, 6))):
        metrics.add(f'rockhopper_stats_{name}', kind, text, (), value)
    for name, (kind, text, value) in server.items():
        metrics.add(f'rockhopper_stats_http_{name}', kind, text, (), value)


def collect(sampler, server, version):
    """All that the last look has found. `server` has what the server counts, as {name: (kind, text, value)}."""
    metrics = Metrics()
    add_own(metrics, sampler, server, version)
    for watched in sampler.programs.values():
        add_queue_pairs(metrics, watched)
    add_verbs(metrics, sampler.verbs)
    for watched in sampler.programs.values():
        add_counters(metrics, watched)
    left_out = metrics.left_out
    metrics.samples = 0
    metrics.add('rockhopper_stats_samples_left_out', 'gauge', 'samples that this answer has no room for', (), left_out)
    return metrics
