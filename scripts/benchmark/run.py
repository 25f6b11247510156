# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Measures, compares, and leaves bench.json, table.txt and plots."""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from benchmark import history  # noqa: E402
from benchmark.lines import lines, table  # noqa: E402
from benchmark.measurements import Measurements  # noqa: E402
from benchmark.plots import draw  # noqa: E402
from lab.cores import Cores  # noqa: E402
from lab.processes import Lab, LabError, Unavailable, processors  # noqa: E402
from testing.processes import interruptible  # noqa: E402
from testing.standstill import settled  # noqa: E402
from testing.stages import BUILD, GCC, compile_tree, say  # noqa: E402

RELEASE = BUILD / 'release'
BENCHES = ('micro-bench', 'frame-echo', 'self-loop', 'core-distance')
DESCRIPTION = """\
Measures Rockhopper beside testpmd, UCX, libfabric, ZeroMQ and Soft-RoCE on this machine: rounds of
short measurements, one after the other, and the medians of the rounds. Figures count only as ratios
within one run; docs/performance.md explains them. Two processes poll at a time: leave the machine
alone meanwhile.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(prog='scripts/bench', description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=5, help='of all measurements (5)')
    parser.add_argument('--seconds', type=float, default=1, help='of each measurement (1)')
    parser.add_argument('--quick', action='store_true',
                        help='one short round, to see that all of it works')
    parser.add_argument('--only', metavar='REGEX', help='only measurements with such a name')
    parser.add_argument('--list', action='store_true', help='name the measurements and exit')
    parser.add_argument('--record', action='store_true',
                        help='run all micro benchmarks instead, and add their times to '
                        'bench/history.csv')
    parser.add_argument('--folder', type=pathlib.Path, default=BUILD / 'bench',
                        help='for the results (build/bench)')
    parser.add_argument('--build', type=pathlib.Path,
                        help='a meson build folder; default: build/release, by scripts/build-release')
    parser.add_argument('--no-setup', action='store_true', help='do not call scripts/setup')
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.1
    if arguments.rounds < 1 or not 0.01 <= arguments.seconds <= 3600:
        parser.error('--rounds needs at least 1, --seconds 0.01 to 3600')
    return arguments


def figures(run):
    """What `run()` measured, and None, or None, and why it failed."""
    try:
        return run(), None
    except LabError as error:
        return None, error


def measure(measurements, count, take):
    """A list of rounds, each {measurement: {figure: value}}, and what failed; says which one runs.
    `take(name, run)` returns what figures(run) does. A failure costs one figure of one round."""
    rounds = []
    missing = {}
    failures = []
    try:
        for number in range(1, count + 1):
            rounds.append({})
            for name, run in measurements:
                if name in missing:
                    continue
                if sys.stderr.isatty():
                    print(f'\r\033[Kround {number} of {count}: {name}', end='', file=sys.stderr,
                          flush=True)
                try:
                    measured, error = take(name, run)
                except Unavailable as reason:
                    missing[name] = str(reason)
                    continue
                if error:
                    failures.append(f'{name}, round {number}: {error}')
                else:
                    rounds[-1][name] = measured
    except KeyboardInterrupt:
        failures.append(f'interrupted in round {len(rounds)}')
    if sys.stderr.isatty():
        print('\r\033[K', end='', file=sys.stderr)
    for reason in sorted(set(missing.values())):
        without = ', '.join(name for name in missing if missing[name] == reason)
        print(f'bench: without {without}: {reason}', file=sys.stderr)
    return rounds, failures


def taken_near(cores):
    """How measure() takes what counts."""
    return lambda _, run: figures(lambda: cores.while_near(run))


def taken_quickly(lab):
    """How measure() takes what shall only work: anew where the machine stood still. What watches for
    that costs a little, which figures that count are spared."""
    def pids():
        return [process.child.pid for process in lab.processes if process.child.returncode is None]
    return lambda name, run: settled(lambda: figures(run), lambda taken: taken[1], name, pids)


def commit():
    found = subprocess.run(['git', 'describe', '--always', '--dirty'], cwd=ROOT, text=True,
                           capture_output=True, check=False)
    return found.stdout.strip() or 'unknown'


def cpu_model():
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.machine()


def write_results(arguments, rounds, cores, found):
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'bench.json').write_text(json.dumps({
        'commit': commit(), 'processor': cpu_model(), 'processors': list(processors()),
        'kernel': platform.release(), 'load_average': os.getloadavg()[0],
        'core_round_trips_ns': cores.seen_ns, 'repeated': cores.repeated,
        'seconds': arguments.seconds, 'rounds': rounds,
        'lines': [{**vars(line), 'met': line.met} for line in found]}, indent=1) + '\n')
    (folder / 'table.txt').write_text('\n'.join(table(found)) + '\n')
    return [folder / 'bench.json', folder / 'table.txt', *draw(found, rounds, folder)]


def record(measurements):
    try:
        changes = history.record(history.times(measurements.medians()), commit(), cpu_model())
    except LabError as error:
        print(f'bench: {error}', file=sys.stderr)
        return 1
    say('\n'.join(changes) if changes else 'nothing has changed by a tenth')
    say(f'written: {history.HISTORY}')
    return 0


def make_build(quick):
    """The folder of an optimised build; of the tests' own for a quick run. None when it failed."""
    say('building ...')
    if not quick:
        made = subprocess.run([ROOT / 'scripts/build-release'], check=False).returncode == 0
        return RELEASE if made else None
    targets = ('apps/rh-ami', 'apps/rh-dag', 'apps/rh-perf', 'apps/rh-run', 'apps/rh-switch',
               'apps/verbs/librockhopper-verbs.so', 'apps/verbs/libibverbs.so.1',
               'apps/verbs/librh-paths.so',
               'tests/live/dc-node', 'tests/live/packet-blast',
               *(f'bench/{name}' for name in BENCHES), 'feeds')
    return GCC.folder if compile_tree(GCC, targets) else None


def main():
    arguments = parse_arguments()
    build = arguments.build
    if build is None and not arguments.list:
        build = make_build(arguments.quick)
        if build is None:
            return 1
    build = (build or RELEASE).resolve()
    with Lab() as lab:
        if arguments.record:
            return record(Measurements(lab, build, arguments.seconds))
        chosen = [(name, run) for name, run in Measurements(lab, build, arguments.seconds).all()
                  if arguments.only is None or re.search(arguments.only, name)]
        if arguments.list:
            print('\n'.join(name for name, _ in chosen))
            return 0
        try:
            cores = Cores(lab, build / 'bench/core-distance', patient=not arguments.quick)
            take = taken_quickly(lab) if arguments.quick else taken_near(cores)
            rounds, failures = measure(chosen, arguments.rounds, take)
        except LabError as error:
            print(f'bench: {error}', file=sys.stderr)
            return 1
    found = lines(rounds)
    say('\n'.join(table(found)))
    paths = write_results(arguments, rounds, cores, found)
    say('written: ' + ', '.join(str(path) for path in paths))
    for failure in failures:
        print(f'FAILED: {failure}', file=sys.stderr)
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(interruptible(main))
