#!/usr/bin/python3 -IS
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-stats: the counters of running Rockhopper programs, read from their DPDK telemetry sockets.

A client of DPDK's telemetry, as usertools/dpdk-telemetry.py is one: a socket of packets that says who it
is, and then answers each command with an object of one member.
"""

import argparse
import fnmatch
import json
import os
import signal
import socket
import stat
import sys
import time

NAME = 'rh-stats'
VERSION = '@version@'
SOCKET_NAME = 'dpdk_telemetry.v2'
ANSWER_S = 2.0
GREETING_MAX = 1024
ANSWER_MAX = 1 << 20
PAGES_MAX = 1000

HELP = """\
Shows the counters of running Rockhopper programs, read from their DPDK
telemetry.

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
  --describe
      say what the counters count, in place of their values
  --watch SECONDS
      repeat every so many seconds, with rates ([0.05 - 86400])
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
  rh-stats --pid 4711 --group port0 --watch 1
  rh-stats --json --watch 1 --count 10 > rates.jsonl

EXIT STATUS
  0  all that was asked for is done and verified
  1  some of it failed
  2  bad arguments
"""


class Failure(Exception):
    """What ends the program with status 1; its text is for people."""


class Gone(Failure):
    """The program at the other end of a socket has ended."""


def note(text):
    print(f'{NAME}: skipped {text}', file=sys.stderr)


# Sockets.

def runtime_parents():
    """The folders, each once, that may have one for each EAL file prefix of this user."""
    bases = ['/var/run', '/tmp']
    for name in ('RUNTIME_DIRECTORY', 'XDG_RUNTIME_DIR'):
        if value := os.environ.get(name):
            bases += [value, os.path.join(value, 'rockhopper')]
    bases += [f'/run/user/{os.getuid()}', f'/tmp/rockhopper-{os.getuid()}']
    # /var/run is a link to /run.
    parents = (os.path.realpath(os.path.join(base, 'dpdk')) for base in bases)
    return list(dict.fromkeys(parent for parent in parents if os.path.isdir(parent)))


def entries(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def find_sockets(parents):
    """Path and file prefix of each."""
    for parent in parents:
        for prefix in entries(parent):
            for name in entries(os.path.join(parent, prefix)):
                path = os.path.join(parent, prefix, name)
                try:
                    if name.startswith(SOCKET_NAME) and stat.S_ISSOCK(os.stat(path).st_mode):
                        yield path, prefix
                except OSError:
                    continue


class Program:
    """A connection to a program's telemetry; `groups` are its groups of counters, none for a DPDK
    program of somebody else."""

    def __init__(self, path, file_prefix):
        self.path, self.file_prefix = path, file_prefix
        self.before = None  # the counters that were shown last, and when
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(ANSWER_S)
        try:
            self.socket.connect(path)
            greeting = self.receive(GREETING_MAX)
            if not isinstance(greeting, dict):
                raise Failure('no DPDK telemetry answers there')
            self.pid = int(greeting.get('pid', 0))
            self.version = str(greeting.get('version', ''))
            longest = int(greeting.get('max_output_len', ANSWER_MAX))
            self.answer_max = min(max(longest, GREETING_MAX), ANSWER_MAX)
            groups = self.ask('/rockhopper/list')
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise Gone(f'{path}: left behind by a program that has ended') from error
        except (OSError, ValueError, TypeError) as error:
            raise Failure(f'{path}: {error}') from error
        except Failure as error:
            raise type(error)(f'{path}: {error}') from error
        self.groups = [group for group in groups or [] if isinstance(group, str)]
        self.name = self.process_name()

    def process_name(self):
        """As the kernel has it; empty when the process is in another PID namespace."""
        try:
            with open(f'/proc/{self.pid}/comm', encoding='utf-8', errors='replace') as file:
                return file.read().rstrip('\n')
        except OSError:
            return ''

    def receive(self, longest):
        try:
            data, _, flags, _ = self.socket.recvmsg(longest)
        except TimeoutError as error:
            raise Failure(f'no answer within {ANSWER_S:.0f} s') from error
        except ConnectionResetError as error:
            raise Gone('the program has ended') from error
        if not data:
            raise Gone('the program has ended')
        if flags & socket.MSG_TRUNC:
            raise Failure(f'an answer of more than {longest} bytes is too long')
        try:
            return json.loads(data)
        except ValueError as error:
            raise Failure('an answer is not JSON') from error

    def ask(self, command):
        """The answer to a command such as "/ethdev/list"; None for one that the program has not."""
        try:
            self.socket.send(command.encode())
        except OSError as error:
            raise Gone(f'the program has ended: {error.strerror}') from error
        answer, name = self.receive(self.answer_max), command.split(',')[0]
        if not isinstance(answer, dict) or name not in answer:
            raise Failure(f'the answer is not one to {name}')
        return answer[name]

    def read_group(self, what, group, kind):
        """The members of a group of that type, by name; the answer comes in pages."""
        found, first = {}, 0
        for _ in range(PAGES_MAX):
            page = self.ask(f'/rockhopper/{what},{group},{first}')
            if not isinstance(page, dict):
                return found  # the group has gone, or there is no such command
            after = page.pop('next', 0) if type(page.get('next')) is int else 0
            found.update((name, value) for name, value in page.items() if type(value) is kind)
            if after <= first:
                return found
            first = after
        raise Failure(f'group {group} does not end')

    def read(self, what, wanted, kind):
        """All groups that are wanted, or all that there are; those that have gone are left out."""
        chosen = [group for group in self.groups if not wanted or group in wanted]
        read = ((group, self.read_group(what, group, kind)) for group in sorted(chosen))
        return {group: members for group, members in read if members}

    def heading(self):
        return {'pid': self.pid, 'name': self.name, 'file_prefix': self.file_prefix}

    def print_heading(self):
        print(f'{self.name} (pid {self.pid}, file prefix {self.file_prefix})')


# What is done with programs.

def connect_programs(options):
    programs, dead = [], 0
    for path, prefix in find_sockets(runtime_parents()):
        if options.file_prefix and prefix != options.file_prefix:
            continue
        try:
            program = Program(path, prefix)
        except Gone:
            dead += 1
        except Failure as failure:
            note(failure)
        else:
            if options.pid in (None, program.pid):
                programs.append(program)
    if dead:
        note(f'{dead} sockets of programs that have ended')
    return programs


def print_json(programs):
    print(json.dumps({'programs': programs}, separators=(',', ':'), ensure_ascii=False))


def show_list(programs, as_json):
    if as_json:
        print_json([program.heading() | {'socket': program.path, 'dpdk': program.version,
                                         'groups': program.groups} for program in programs])
        return
    print(f'{"PID":>8}  {"PROGRAM":<16} {"FILE PREFIX":<24} GROUPS')
    for program in programs:
        groups = ' '.join(program.groups) or '(none: not a Rockhopper program)'
        print(f'{program.pid:>8}  {program.name:<16} {program.file_prefix:<24} {groups}')


def choose(programs, options):
    """Those that have counters; fails where nothing is left to show."""
    programs = [program for program in programs if program.groups]
    if not programs:
        filtered = options.pid is not None or options.file_prefix
        raise Failure('no Rockhopper program of this user runs' +
                      (' with that --pid or --file-prefix; see rh-stats --list' if filtered else ''))
    for group in options.group:
        if not any(group in program.groups for program in programs):
            raise Failure(f'no program has a group {group}; there are, in {programs[0].name}: '
                          f'{", ".join(programs[0].groups)}')
    return programs


def describe(programs, options):
    """Says what the counters of every program count, each in the words of the program itself."""
    told = []
    for program in programs:
        try:
            texts = program.read('texts', options.group, str)
            if not texts:
                raise Failure('does not say what its counters count')
        except Failure as failure:
            note(f'{program.name} (pid {program.pid}): {failure}')
            continue
        texts = {group: {name: text for name, text in members.items()
                         if fnmatch.fnmatchcase(name, options.pattern)}
                 for group, members in texts.items()}
        texts = {group: members for group, members in texts.items() if members}
        if not texts:
            continue
        told.append(program.heading() | {'texts': texts})
        if options.json:
            continue
        program.print_heading()
        print(f'  {"GROUP":<16} {"COUNTER":<32} WHAT IT COUNTS')
        for group, members in texts.items():
            for name, text in members.items():
                print(f'  {group:<16} {name:<32} {text}')
    if not told:
        raise Failure(f'no program tells of a counter whose name matches {options.pattern}')
    if options.json:
        print_json(told)


def show_counters(program, options):
    """Prints them, or returns the object that --json has of the program."""
    now, counters = time.monotonic(), program.read('counters', options.group, int)
    (then, old), program.before = program.before or (None, {}), (now, counters)

    def rate(group, name, value):
        before = old.get(group, {}).get(name)
        # Numbers of entries and the like may fall.
        return 0.0 if before is None or now <= then else (value - before) / (now - then)

    if options.json:
        shown = program.heading() | {'counters': counters}
        if then is not None:
            shown |= {'seconds': now - then,
                      'rates': {group: {name: rate(group, name, value)
                                        for name, value in members.items()}
                                for group, members in counters.items()}}
        return shown
    program.print_heading()
    print(f'  {"GROUP":<16} {"COUNTER":<32} {"VALUE":>20}' +
          ('' if then is None else f' {"PER SECOND":>16}'))
    for group, members in counters.items():
        for name, value in members.items():
            if value or options.all:
                print(f'  {group:<16} {name:<32} {value:>20}' +
                      ('' if then is None else f' {rate(group, name, value):>16.1f}'))
    return None


def show(programs, options):
    """Reads and shows every program once; those that have not ended."""
    if not options.json and options.watch and sys.stdout.isatty():
        print('\033[H\033[2J', end='')
    left, objects = [], []
    for program in programs:
        try:
            objects.append(show_counters(program, options))
            left.append(program)
        except Failure as failure:
            note(f'{program.name} (pid {program.pid}): {failure}')
    if options.json and left:
        print_json(objects)
    sys.stdout.flush()
    return left


def watch(programs, options, stop):
    next_s, done = time.monotonic(), 0
    while True:
        programs = show(programs, options)
        if not programs:
            if options.count == 0 and done > 0:
                return
            raise Failure(f'no program is left after {done} of {options.count} repetitions')
        done += 1
        next_s += options.watch
        while not stop and time.monotonic() < next_s and done != options.count:
            time.sleep(max(0.0, min(next_s - time.monotonic(), 0.1)))
        if stop or done == options.count:
            return


# Arguments.

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
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f'value {text} not in range {least} to {most}')
        return value
    return parse


def read_arguments(arguments):
    parser = Parser(prog=NAME, allow_abbrev=False)
    parser.add_argument('pattern', nargs='?')
    parser.add_argument('--version', action='version', version=f'{NAME} {VERSION}')
    for flag in ('--list', '--describe', '--all', '--json'):
        parser.add_argument(flag, action='store_true')
    parser.add_argument('--file-prefix')
    parser.add_argument('--pid', type=number(int, 1))
    parser.add_argument('--group', action='append', default=[])
    parser.add_argument('--watch', type=number(float, 0.05, 86400))
    parser.add_argument('--count', type=number(int, 0), default=0)
    if '--' in arguments:
        parser.error('takes no EAL arguments; leave out --')
    options = parser.parse_args(arguments)
    if options.pattern is not None and not options.describe:
        parser.error('pattern requires --describe')
    if options.describe and (options.list or options.watch):
        parser.error('--describe goes with neither --list nor --watch')
    if options.count and not options.watch:
        parser.error('--count needs --watch')
    options.pattern = options.pattern or '*'
    return options


def run(options, stop):
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


def main():
    options = read_arguments(sys.argv[1:])
    stop = []
    for number_of in (signal.SIGINT, signal.SIGTERM):
        # A second one ends it at once.
        signal.signal(number_of, lambda got, _: (stop.append(got),
                                                 signal.signal(got, signal.SIG_DFL)))
    try:
        run(options, stop)
        sys.stdout.flush()
    except Failure as failure:
        print(f'{NAME}: {failure}', file=sys.stderr)
        return 1
    except BrokenPipeError:
        print(f'{NAME}: standard output cannot be written', file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
