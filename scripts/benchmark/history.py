# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The micro benchmarks' times by commit, in bench/history.csv, so that a regression shows."""

import csv
import datetime
import pathlib

HISTORY = pathlib.Path(__file__).resolve().parents[2] / 'bench/history.csv'
FIELDS = ('date', 'commit', 'processor', 'benchmark', 'nanoseconds')
# A smaller change is the machine's.
NOTABLE = 0.10


def times(runs):
    """{benchmark: nanoseconds an item} of micro-bench's medians."""
    found = {}
    for name, run in runs.items():
        if 'bytes' in run:
            continue  # its result is a size
        rate = run.get('items_per_second')
        found[name.removesuffix('_median').removesuffix('/manual_time')] = (
            1e9 / rate if rate else run['real_time'])
    return found


def record(found, commit, processor):
    """Appends the times; returns lines about those that have changed since the last of this
    processor model."""
    before = _latest(processor)
    new = not HISTORY.exists()
    with HISTORY.open('a', newline='', encoding='utf-8') as file:
        writer = csv.writer(file, lineterminator='\n')
        if new:
            writer.writerow(FIELDS)
        today = datetime.date.today().isoformat()
        for name, value in found.items():
            writer.writerow((today, commit, processor, name, f'{value:.2f}'))
    changes = []
    for name, value in found.items():
        if name not in before:
            continue
        then, old = before[name]
        if abs(value / old - 1) > NOTABLE:
            changes.append(f'{name:<56} {old:>10.1f} ns at {then}, now {value:.1f} '
                           f'({value / old:.2f})')
    return changes


def _latest(processor):
    if not HISTORY.exists():
        return {}
    with HISTORY.open(newline='', encoding='utf-8') as file:
        return {row['benchmark']: (row['commit'], float(row['nanoseconds']))
                for row in csv.DictReader(file) if row['processor'] == processor}
