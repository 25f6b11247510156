# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Repeats results of published papers in virtual time, by rh-sim: figures (NAME.json), a picture
(NAME.svg) with the published trend beside ours, and the tables of the page NAME.md in the same
folder. docs/reproduce/README.md says what is repeated and where it differs.

    scripts/reproduce dcqcn
    scripts/reproduce irn --seed 2 --output /somewhere
    scripts/reproduce lumina --quick --output /somewhere
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from reproduction import charts, dcqcn, irn, lumina, pages
from reproduction.simulator import ROOT, SimulationError, Simulator

EXPERIMENTS = {'dcqcn': dcqcn, 'irn': irn, 'lumina': lumina}
PAGES = ROOT / 'docs/reproduce'
BUILDS = ('release', 'gcc', 'clang')


def options():
    parser = argparse.ArgumentParser(prog='scripts/reproduce', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('name', choices=EXPERIMENTS, help='whose result: dcqcn, irn or lumina')
    parser.add_argument('--seed', type=seed, default=1, metavar='N',
                        help='of all runs; one seed gives the same bytes (1)')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='the folder for the files (docs/reproduce)')
    parser.add_argument('--quick', action='store_true',
                        help='a smoke run of seconds, whose figures say little; with --output')
    parser.add_argument('--redraw', action='store_true',
                        help='make picture and tables again of the NAME.json that is there')
    parser.add_argument('--rh-sim', type=pathlib.Path, metavar='PROGRAM',
                        help='the simulator (that of build/release, build/gcc or build/clang)')
    return parser


def seed(text):
    value = int(text)
    if not 0 <= value < 1 << 63:
        raise argparse.ArgumentTypeError('a whole number that is not negative is expected')
    return value


def simulator_program(given):
    """The program to run; None if there is none."""
    places = [given] if given else [ROOT / 'build' / build / 'apps/rh-sim' for build in BUILDS]
    return next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)


def main():
    parser = options()
    arguments = parser.parse_args()
    if arguments.quick and arguments.output is None:
        parser.error('a quick run does not replace the figures of docs/reproduce: add --output DIR')
    program = simulator_program(arguments.rh_sim)
    if program is None and not arguments.redraw:
        parser.error(f'there is no {arguments.rh_sim or "rh-sim"}: build it with '
                     'meson setup build/gcc && ninja -C build/gcc apps/rh-sim')
    try:
        plots = charts.pyplot()
    except ImportError:
        parser.error('matplotlib is missing: scripts/setup installs it')
    output = arguments.output or PAGES
    simulator = Simulator(program, arguments.seed, arguments.name)
    try:
        write(arguments, simulator, plots, output)
    except (SimulationError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        simulator.finish()
        print(f'scripts/reproduce: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        simulator.finish()
        print('scripts/reproduce: interrupted', file=sys.stderr)
        return 1
    return 0


def write(arguments, simulator, plots, output):
    output.mkdir(parents=True, exist_ok=True)
    experiment = EXPERIMENTS[arguments.name]
    if arguments.redraw:
        figures = json.loads((output / f'{arguments.name}.json').read_text())
    else:
        figures = {'seed': arguments.seed, 'quick': arguments.quick,
                   **experiment.measure(simulator, arguments.quick)}
    simulator.finish()
    # All files are written after all runs: one that fails leaves the old ones.
    text = json.dumps(figures, separators=(',', ':')) + '\n'
    (output / f'{arguments.name}.json').write_text(text)
    charts.save(plots, experiment.draw(plots, figures), output / f'{arguments.name}.svg')
    pages.update(output / f'{arguments.name}.md', experiment, figures)
    print(experiment.results(figures))


if __name__ == '__main__':
    sys.exit(main())
