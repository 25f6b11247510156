# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The command line."""

import argparse
import os
import signal
import sys

from .failures import NAME, Failure
from .segment import RESOURCES
from .telemetry import connect_programs
from .text import choose, describe, show, show_list, show_resources
from .watch import watch, watch_resources

HELP = """\
Shows the counters of running Rockhopper programs, read from their DPDK
telemetry, or what programs under rh-run have of the device: once, again and
again, in the terminal, as a live page, and as metrics for Prometheus.

USAGE
  rh-stats [options] [pattern]

Positionals
  pattern
      with --describe: only counters whose name matches this pattern of the
      shell (default *)

Options
  -h, --help
      Print this help message and exit
  --version
      Display program version information and exit
  --list
      list the DPDK programs that run, and their groups
  --file-prefix NAME
      only the program with this EAL file prefix
  --pid N
      only the program with this process id (above 0)
  --group NAME
      only this group of counters; may be repeated
  --resources KIND
      what the programs under rh-run have of the device
      ({dev,process,ctx,pd,cq,qp,mr,srq,all})
  --describe
      say what the counters count, in place of their values
  --watch SECONDS
      repeat every so many seconds, with rates; with --top and --web: ask the
      programs so often, by default every second ([0.05 - 86400])
  --top
      a view of all programs that is kept up to date: the busiest first, with
      what they drop and why; ends with q
  --web [ADDR:PORT]
      serve a live page of all programs at / and metrics at /metrics, read
      only, until it is ended. Default: 127.0.0.1:9478
  --count N
      end after so many repetitions. Default: no end
  --all
      counters that are 0, too
  --json
      print a JSON object instead, with --watch one a line

EXAMPLES
  rh-stats --list                   what runs
  rh-stats                          counters of all programs that are not 0
  rh-stats --describe 'drop_*'      what these counters count
  rh-stats --resources qp           queue pairs of programs under rh-run
  rh-stats --pid 4711 --group port0 --watch 1
  rh-stats --json --watch 1 --count 10 > rates.jsonl
  rh-stats --top --watch 2          all programs, every two seconds
  rh-stats --web                    http://127.0.0.1:9478/ and /metrics

EXIT STATUS
  0  all that was asked for is done and verified
  1  some of it failed
  2  bad arguments
"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f'{NAME}: {message} (see {NAME} --help)', file=sys.stderr)
        sys.exit(2)

    def format_help(self):
        return HELP


def number(kind, least, most=float('inf')):
    def parse(text):
        try:
            value = kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f'{text} is no number') from error
        if most == float('inf') and value < least:
            raise argparse.ArgumentTypeError(f'{text} is not above {least - 1}')
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f'value {text} not in range {least} to {most}')
        return value
    return parse


def place(text):
    from .web import read_place
    try:
        return read_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'{text} is not ADDR:PORT, ADDR or PORT; IPv6 is [ADDR]:PORT') from error


def read_arguments(arguments, version):
    parser = Parser(prog=NAME, allow_abbrev=False)
    parser.add_argument('pattern', nargs='?')
    parser.add_argument('--version', action='version', version=f'{NAME} {version}')
    for flag in ('--list', '--describe', '--all', '--json'):
        parser.add_argument(flag, action='store_true')
    parser.add_argument('--file-prefix')
    parser.add_argument('--pid', type=number(int, 1))
    parser.add_argument('--group', action='append', default=[])
    parser.add_argument('--resources', choices=RESOURCES)
    parser.add_argument('--watch', type=number(float, 0.05, 86400))
    parser.add_argument('--count', type=number(int, 0), default=0)
    parser.add_argument('--top', action='store_true')
    parser.add_argument('--web', type=place, nargs='?', const='')
    if '--' in arguments:
        parser.error('takes no EAL arguments; leave out --')
    options = parser.parse_args(arguments)
    if options.web == '':
        options.web = place('')
    if options.pattern is not None and not options.describe:
        parser.error('pattern requires --describe')
    if options.describe and (options.list or options.watch):
        parser.error('--describe goes with neither --list nor --watch')
    if options.resources and (options.list or options.describe or options.all or options.group or
                              options.file_prefix):
        parser.error('--resources goes with --pid, --watch, --count and --json alone')
    for name in ('top', 'web'):
        if getattr(options, name) and (options.list or options.describe or options.all or options.group or
                                       options.resources or options.json or (options.top and options.web)):
            parser.error(f'--{name} goes with --pid, --file-prefix and --watch alone')
    if options.web and options.count:
        parser.error('--web serves until it is ended: there is no --count')
    if options.count and not (options.watch or options.top):
        parser.error('--count needs --watch')
    options.pattern = options.pattern or '*'
    return options


def run(options, stop, version):
    # What most uses do without is not loaded.
    if options.web:
        from .web import serve
        return serve(options, stop, version)
    if options.top:
        from .top import show_top
        return show_top(options, stop)
    if options.resources:
        return watch_resources(options, stop) if options.watch else show_resources(options)
    programs = connect_programs(options)
    if options.list:
        return show_list(programs, options.json)
    programs = choose(programs, options)
    if options.describe:
        return describe(programs, options)
    if options.watch:
        return watch(programs, options, stop)
    if not show(programs, options):
        raise Failure('no program is left')
    return None


def main(version):
    options = read_arguments(sys.argv[1:], version)
    stop = []
    for number_of in (signal.SIGINT, signal.SIGTERM):
        # A second one ends it at once.
        signal.signal(number_of, lambda got, _: (stop.append(got),
                                                 signal.signal(got, signal.SIG_DFL)))
    try:
        run(options, stop, version)
        sys.stdout.flush()
    except Failure as failure:
        print(f'{NAME}: {failure}', file=sys.stderr)
        return 1
    except BrokenPipeError:
        print(f'{NAME}: standard output cannot be written', file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
