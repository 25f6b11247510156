# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The running programs, read from their DPDK telemetry sockets.

A client of DPDK's telemetry, as usertools/dpdk-telemetry.py is one: a socket of packets that says who it
is, and then answers each command with an object of one member.
"""

import json
import os
import socket
import stat

from .failures import Failure, Gone, note

SOCKET_NAME = 'dpdk_telemetry.v2'
ANSWER_S = 2.0
GREETING_MAX = 1024
ANSWER_MAX = 1 << 20
PAGES_MAX = 1000


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

    def __init__(self, path, file_prefix, answer_s=ANSWER_S):
        self.path, self.file_prefix, self.answer_s = path, file_prefix, answer_s
        self.requests = 0
        self.before = None  # the counters that were shown last, and when
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(answer_s)
        try:
            self.greet()
        except BaseException:
            self.close()
            raise
        self.name = self.process_name()

    def greet(self):
        try:
            self.socket.connect(self.path)
            greeting = self.receive(GREETING_MAX)
            if not isinstance(greeting, dict):
                raise Failure('no DPDK telemetry answers there')
            self.pid = int(greeting.get('pid', 0))
            self.version = str(greeting.get('version', ''))
            longest = int(greeting.get('max_output_len', ANSWER_MAX))
            self.answer_max = min(max(longest, GREETING_MAX), ANSWER_MAX)
            self.list_groups()
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise Gone(f'{self.path}: left behind by a program that has ended') from error
        except (OSError, ValueError, TypeError) as error:
            raise Failure(f'{self.path}: {error}') from error
        except Failure as error:
            raise type(error)(f'{self.path}: {error}') from error

    def list_groups(self):
        groups = self.ask('/rockhopper/list')
        self.groups = [group for group in groups or [] if isinstance(group, str)]

    def close(self):
        self.socket.close()

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
            raise Failure(f'no answer within {self.answer_s:.0f} s') from error
        except ConnectionResetError as error:
            raise Gone('the program has ended') from error
        if not data:
            raise Gone('the program has ended')
        if flags & socket.MSG_TRUNC:
            raise Failure(f'an answer of more than {longest} bytes is too long')
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Failure('an answer is not JSON') from error

    def ask(self, command):
        """The answer to a command such as "/ethdev/list"; None for one that the program has not."""
        self.requests += 1
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
