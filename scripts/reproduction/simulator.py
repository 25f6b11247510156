# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs scenarios of rh-sim and reads what it reports."""

import copy
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / 'apps/rh_sim/scenarios/reproduce'
LIMIT_S = 1800


class SimulationError(Exception):
    """A run that says nothing: rh-sim's own line tells why."""


def scenario(name):
    """The scenario file of that name as a document of its own, free to be varied."""
    return json.loads((SCENARIOS / f'{name}.json').read_text())


def varied(document, **members):
    """A copy of a document with other members at its top."""
    changed = copy.deepcopy(document)
    changed.update(members)
    return changed


class Run:
    """A finished run: rh-sim's report, and its curves and captures while the folder exists."""

    def __init__(self, folder, report):
        self._folder = folder
        self.report = report

    def group(self, name):
        return next(group for group in self.report['groups'] if group['name'] == name)

    def flow(self, name):
        return next(flow for flow in self.report['flows'] if flow['name'] == name)

    def port(self, name):
        return next(port for port in self.report['switch_ports'] if port['name'] == name)

    def counter(self, name):
        return self.report['counters'].get(name, 0)

    def dropped(self):
        return sum(one['dropped_queue_full'] for one in self.report['switches'])

    def pauses(self):
        """Pause frames that switches have sent: begun, prolonged or ended."""
        return sum(one['pfc_sent'] for one in self.report['switches'])

    def curve(self, kind, name):
        """[(seconds, value)] of a flow ('rates', Gbit/s) or a switch port ('queues', bytes)."""
        with open(self._folder / f'run-{kind}.csv', newline='') as file:
            rows = csv.reader(file)
            column = next(rows).index(name)
            return [(float(row[0]), float(row[column])) for row in rows]

    def capture(self, host):
        return self._folder / f'run.{host}.pcapng'


class Simulator:
    """Runs one scenario after the other, and says on a terminal which."""

    def __init__(self, program, seed, name):
        self.program = program
        self.seed = seed
        self._name = name
        self._done = 0
        self._total = 0

    def expect(self, runs):
        """That many runs are to come."""
        self._total += runs

    def run(self, document, what, *, seed=None, curves=False, captures=False, failures=False,
            use=lambda run: run):
        """Runs the document and returns what `use` makes of the run, while its files exist. With
        `failures` a run whose messages failed is one to look at, too."""
        self._say(what)
        with tempfile.TemporaryDirectory(prefix='reproduce-') as path:
            folder = pathlib.Path(path)
            (folder / 'scenario.json').write_text(json.dumps(document))
            command = [str(self.program), str(folder / 'scenario.json'), '--json',
                       '--seed', str(self.seed if seed is None else seed)]
            if curves:
                command += ['--plot', str(folder / 'run')]
            if captures:
                command += ['--pcap', str(folder / 'run.pcapng')]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
            failed = failures and done.returncode == 1 and done.stdout
            if done.returncode != 0 and not failed:
                lines = done.stderr.strip().splitlines() or ['it ended without a word']
                raise SimulationError(f'{self._name}: {what}: {lines[-1]}')
            self._done += 1
            return use(Run(folder, json.loads(done.stdout)))

    def finish(self):
        if sys.stderr.isatty():
            print('\r\033[K', end='', file=sys.stderr, flush=True)

    def _say(self, what):
        if sys.stderr.isatty():
            print(f'\r\033[K[{self._done + 1}/{self._total}] {self._name}: {what}', end='',
                  file=sys.stderr, flush=True)
