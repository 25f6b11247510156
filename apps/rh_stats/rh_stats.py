#!/usr/bin/python3 -IS
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-stats: the counters of running Rockhopper programs, read from their DPDK telemetry sockets; and
what programs of libibverbs under rh-run have of the device, read from the segment that they share.

A client of DPDK's telemetry, as usertools/dpdk-telemetry.py is one: a socket of packets that says who it
is, and then answers each command with an object of one member. The segment's files are those of
stack/segment and apps/verbs/node/resource_record.h.
"""

import argparse
import collections
import datetime
import fcntl
import fnmatch
import ipaddress
import json
import os
import re
import signal
import socket
import stat
import struct
import sys
import time
import zlib

NAME = 'rh-stats'
VERSION = '@version@'
SOCKET_NAME = 'dpdk_telemetry.v2'
ANSWER_S = 2.0
GREETING_MAX = 1024
ANSWER_MAX = 1 << 20
PAGES_MAX = 1000

HELP = """\
Shows the counters of running Rockhopper programs, read from their DPDK
telemetry, or what programs under rh-run have of the device.

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
  rh-stats --resources qp           queue pairs of programs under rh-run
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


# Programs of libibverbs under rh-run.

SEGMENT_MAGIC = b'Regment5'
SLOTS_MAX, SLOT_BYTES, SLOTS_AT, TABLE_BYTES = 128, 128, 64, 409664
RECORD = struct.Struct('=I4B2I12I')
RECORDS_MAX = 1 << 16
RECORD_VERSION = 1
# How often a record that is just being written is read anew.
READINGS = 50
KINDS = ('none', 'process', 'address', 'ctx', 'pd', 'cq', 'qp', 'mr', 'srq')
# As enum ibv_qp_type and enum ibv_qp_state have them.
QP_TYPES = {2: 'RC', 3: 'UC', 4: 'UD', 8: 'RAW_PACKET', 9: 'XRC_INI', 10: 'XRC_TGT'}
QP_STATES = ('RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR')
HAS_UPLINK, RECEIVES = 1, 2
# Of struct flock, on machines of 64 bits; and what Python has no name for.
FLOCK = struct.Struct('=hhxxxxqqixxxx')
F_OFD_GETLK = 36


def is_own_directory(path):
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def runtime_directory():
    """Where this user's sockets are, as stack/segment/reader/runtime_path.h has it."""
    for base in (os.environ.get('XDG_RUNTIME_DIR'), f'/run/user/{os.getuid()}'):
        if base and is_own_directory(base):
            return f'{base}/rockhopper'
    return f'/tmp/rockhopper-{os.getuid()}'


def segment_path():
    """Where the processes of this user and network namespace meet, as stack/segment/reader has it."""
    if given := os.environ.get('ROCKHOPPER_SEGMENT'):
        return given
    name = f'segment-{os.stat("/proc/self/ns/net").st_ino}'
    if os.access('/dev/shm', os.W_OK | os.X_OK):
        return f'/dev/shm/rockhopper-{os.getuid()}/{name}'
    return f'{runtime_directory()}/{name}'


def printable(text):
    """What another process has written, for a terminal."""
    return ''.join(c if c.isprintable() else '?' for c in text.decode('utf-8', 'replace'))


class Segment:
    """The table that the processes share, and the files in which they say what they have. All of
    that may be anything: it is read with read(), which no other process can make fail, and checked."""

    def __init__(self):
        self.path = segment_path()
        try:
            self.table = os.open(f'{self.path}/table', os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise Failure(f'no program under rh-run has been here: {self.path}/table: '
                          f'{error.strerror}') from error
        if os.fstat(self.table).st_size != TABLE_BYTES or os.pread(self.table, 8, 0) != SEGMENT_MAGIC:
            raise Failure(f'{self.path}/table is not a table of this version')

    def is_held(self, slot):
        """Whether a process holds the slot's lock, which the kernel takes from it when it ends."""
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0)
        return FLOCK.unpack(fcntl.fcntl(self.table, F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK

    def generation(self, slot):
        return struct.unpack('=I', os.pread(self.table, 4, SLOTS_AT + slot * SLOT_BYTES))[0]

    def processes(self):
        """Those that are alive and say what they have, by slot."""
        found = []
        for name in entries(self.path):
            match = re.fullmatch(r'resources-(\d{1,3})-(\d{1,10})', name)
            slot, generation = (int(part) for part in match.groups()) if match else (SLOTS_MAX, 0)
            if slot >= SLOTS_MAX or not self.is_held(slot) or self.generation(slot) != generation:
                continue
            try:
                found.append((slot, Process(f'{self.path}/{name}')))
            except (Failure, OSError) as failure:
                note(failure)
        return [process for _, process in sorted(found, key=lambda one: one[0])]


def read_records(path):
    """(kind, type, state, context, id, values) of each record that is whole and of this version."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Failure(f'{path}: is no file')
        places = min(-(-os.fstat(descriptor).st_size // RECORD.size), RECORDS_MAX)
        data = os.pread(descriptor, places * RECORD.size, 0)
        for place in range(places):
            record = data[place * RECORD.size:(place + 1) * RECORD.size]
            for _ in range(READINGS):
                if len(record) < RECORD.size or not any(record):
                    break  # at the end, or never written
                checksum, kind, qp_type, state, version, context, number, *values = RECORD.unpack(record)
                if zlib.crc32(record[4:]) == checksum:
                    if version != RECORD_VERSION:
                        raise Failure(f'{path}: is of another version')
                    if 0 < kind < len(KINDS):
                        yield KINDS[kind], qp_type, state, context, number, values
                    break
                record = os.pread(descriptor, RECORD.size, place * RECORD.size)
            else:
                raise Failure(f'{path}: a record is damaged')
    finally:
        os.close(descriptor)


def text_of(values):
    """The text of a record, which stands in front of its last two values."""
    return printable(struct.pack('=10I', *values[:10]).split(b'\0')[0])


def wide(values, at):
    return values[at] | values[at + 1] << 32


class Process:
    """What one process has; `resources` is, by kind, a list of members as --json has them."""

    def __init__(self, path):
        records = list(read_records(path))
        if not records or records[0][0] != 'process':
            raise Failure(f'{path}: does not begin with its process')
        _, _, state, _, self.pid, values = records[0]
        self.comm, self.since_ns = text_of(values), wide(values, 10)
        self.has_uplink, self.receives = bool(state & HAS_UPLINK), bool(state & RECEIVES)
        devices = {context: text_of(values) for kind, _, _, context, _, values in records
                   if kind == 'ctx'}
        self.addresses, self.devices = [], sorted(set(devices.values()))
        self.resources = {kind: [] for kind in ('ctx', 'pd', 'cq', 'qp', 'mr', 'srq')}
        self.owner = {'pid': self.pid, 'comm': self.comm}
        for kind, qp_type, state, context, number, values in records:
            if kind == 'address':
                self.addresses.append(self.address(values, qp_type))
            elif kind in self.resources and context in devices:
                members = getattr(self, f'describe_{kind}')(qp_type, state, number, values)
                self.resources[kind].append({'ifname': devices[context], 'ctxn': context} | members)
        self.count_users()
        for listed in self.resources.values():
            listed[:] = [one | self.owner for one in listed]

    @staticmethod
    def address(values, length):
        address = ipaddress.IPv6Address(struct.pack('=4I', *values[:4]))
        mapped = address.ipv4_mapped
        return f'{mapped or address}/{length}'

    @staticmethod
    def describe_ctx(_type, _state, _number, _values):
        return {}

    @staticmethod
    def describe_pd(_type, _state, number, _values):
        return {'pdn': number}

    @staticmethod
    def describe_cq(_type, _state, number, values):
        return {'cqn': number, 'cqe': values[0]}

    @staticmethod
    def describe_qp(qp_type, state, _number, values):
        pd, own, peer, send_psn, receive_psn, send_cq, receive_cq, srq = values[:8]
        members = {'port': 1, 'lqpn': own, 'rqpn': peer,
                   'type': QP_TYPES.get(qp_type, str(qp_type)),
                   'state': QP_STATES[state] if state < len(QP_STATES) else str(state),
                   'sq-psn': send_psn, 'rq-psn': receive_psn}
        if members['type'] == 'UD':
            del members['rqpn']
        numbers = {'pdn': pd, 'send-cqn': send_cq, 'recv-cqn': receive_cq, 'srqn': srq}
        return members | {name: number for name, number in numbers.items() if number}

    @staticmethod
    def describe_mr(_type, _state, number, values):
        return {'mrn': number, 'rkey': f'{values[2]:#x}', 'lkey': f'{values[1]:#x}',
                'iova': f'{wide(values, 4):#x}', 'mrlen': wide(values, 6), 'pdn': values[0]}

    @staticmethod
    def describe_srq(_type, _state, number, values):
        return {'srqn': number, 'max-wr': values[1], 'pdn': values[0]}

    def count_users(self):
        """Of queues and domains: what is listed that uses them."""
        uses = collections.Counter(
            (one['ctxn'], name, one[member]) for kind in ('qp', 'mr', 'srq')
            for one in self.resources[kind]
            for member, name in (('pdn', 'pdn'), ('send-cqn', 'cqn'), ('recv-cqn', 'cqn'))
            if member in one)
        for kind, name in (('pd', 'pdn'), ('cq', 'cqn')):
            for one in self.resources[kind]:
                one['users'] = uses[one['ctxn'], name, one[name]]

    def summary(self):
        since = datetime.datetime.fromtimestamp(min(self.since_ns // 10**9, 2**32), datetime.timezone.utc)
        return (self.owner | {'since': since.strftime('%Y-%m-%dT%H:%M:%SZ'), 'devices': self.devices} |
                {kind: len(found) for kind, found in self.resources.items()} |
                ({'uplink': 'receives' if self.receives else 'sends'} if self.has_uplink else {}))


def devices_of(segment, processes):
    """Each device that some process has opened."""
    names = sorted({name for process in processes for name in process.devices})
    listed = []
    for name in names:
        users = [process for process in processes if name in process.devices]
        device = {'ifname': name, 'state': 'ACTIVE', 'segment': segment.path,
                  'processes': len(users),
                  'addresses': list(dict.fromkeys(a for user in users for a in user.addresses))}
        receivers = [user.pid for user in users if user.receives]
        listed.append(device | ({'uplink-receiver': receivers[0]} if receivers else {}))
    return listed


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


def watch_resources(options, stop):
    next_s, done = time.monotonic(), 0
    while True:
        if not options.json and sys.stdout.isatty():
            print('\033[H\033[2J', end='')
        show_resources(options)
        done += 1
        next_s += options.watch
        wait_until(next_s, stop if done != options.count else [True])
        if stop or done == options.count:
            return


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


def wait_until(time_s, stop):
    while not stop and time.monotonic() < time_s:
        time.sleep(max(0.0, min(time_s - time.monotonic(), 0.1)))


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
        wait_until(next_s, stop if done != options.count else [True])
        if stop or done == options.count:
            return


# Arguments.

RESOURCES = ('dev', 'process', 'ctx', 'pd', 'cq', 'qp', 'mr', 'srq', 'all')


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


def read_arguments(arguments):
    parser = Parser(prog=NAME, allow_abbrev=False)
    parser.add_argument('pattern', nargs='?')
    parser.add_argument('--version', action='version', version=f'{NAME} {VERSION}')
    for flag in ('--list', '--describe', '--all', '--json'):
        parser.add_argument(flag, action='store_true')
    parser.add_argument('--file-prefix')
    parser.add_argument('--pid', type=number(int, 1))
    parser.add_argument('--group', action='append', default=[])
    parser.add_argument('--resources', choices=RESOURCES)
    parser.add_argument('--watch', type=number(float, 0.05, 86400))
    parser.add_argument('--count', type=number(int, 0), default=0)
    if '--' in arguments:
        parser.error('takes no EAL arguments; leave out --')
    options = parser.parse_args(arguments)
    if options.pattern is not None and not options.describe:
        parser.error('pattern requires --describe')
    if options.describe and (options.list or options.watch):
        parser.error('--describe goes with neither --list nor --watch')
    if options.resources and (options.list or options.describe or options.all or options.group or
                              options.file_prefix):
        parser.error('--resources goes with --pid, --watch, --count and --json alone')
    if options.count and not options.watch:
        parser.error('--count needs --watch')
    options.pattern = options.pattern or '*'
    return options


def run(options, stop):
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
