# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What is shown of programs and of the segment, as tables, lines and JSON."""

import fnmatch
import json
import os
import sys
import time

from .failures import Failure, note
from .segment import RESOURCES, Segment, devices_of


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


def print_resource(kind, one):
    """A line as iproute2's rdma has it."""
    members = dict(one)
    name = members.pop('ifname', None)
    port = members.pop('port', None)
    words = [] if name is None else ['link' if port else 'dev', f'{name}/{port}' if port else name]
    for member, value in members.items():
        shown = f'[{value}]' if member == 'comm' else value
        words += [member, ','.join(value) if isinstance(value, list) else str(shown)]
    print(*(words if kind != 'process' else ['process', *words]))


def show_resources(options):
    segment = Segment()
    try:
        processes = segment.processes()
    finally:
        os.close(segment.table)
    chosen = [process for process in processes if options.pid in (None, process.pid)]
    if options.pid is not None and not chosen:
        raise Failure(f'no process {options.pid} has opened a device of the segment {segment.path}')
    wanted = RESOURCES[:-1] if options.resources == 'all' else (options.resources,)
    found = {}
    for kind in wanted:
        if kind == 'dev':
            found[kind] = devices_of(segment, chosen)
        elif kind == 'process':
            found[kind] = [process.summary() for process in chosen]
        else:
            found[kind] = [one for process in chosen for one in process.resources[kind]]
    if options.json:
        print(json.dumps({'segment': segment.path} | found, separators=(',', ':'), ensure_ascii=False))
    else:
        for kind, listed in found.items():
            for one in listed:
                print_resource(kind, one)
    sys.stdout.flush()
