# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the tests of rh-stats --web share: the server, its updates, and programs that it sees."""

import contextlib
import http.client
import json
import os
import re
import socket

from support import LIMIT_S, PATIENT, ProgramTest, wait_until


class WebTest(ProgramTest):
    """A test with rh-stats --web. Programs of other tests may run on the machine: what is asserted is of ours."""

    def start_web(self, *arguments, place=0, interval_s=0.2):
        web = self.start('rh-stats', '--web', place, '--watch', interval_s, *arguments)
        web.port = int(wait_until(lambda: self.listening(web), LIMIT_S, 'rh-stats listens'))
        return web

    def listening(self, web):
        self.assertIsNone(web.child.poll(), web.messages())
        found = re.search(r'listening on TCP port (\d+)', web.messages())
        return found and found[1]

    @staticmethod
    def get(web, path, headers=(), method='GET', host='127.0.0.1'):
        """(status, headers, body) of one request."""
        with contextlib.closing(http.client.HTTPConnection(host, web.port, timeout=LIMIT_S)) as connection:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def metrics(self, web, **labels):
        """The samples of /metrics with these labels: {name: [(labels, value)]}."""
        status, _, body = self.get(web, '/metrics')
        self.assertEqual(status, 200)
        found = {}
        for name, told, value in samples(body.decode()):
            if labels.items() <= told.items():
                found.setdefault(name, []).append((told, value))
        return found

    def refusals(self, web):
        """What the server counts of itself: {name: value}."""
        return {name.removeprefix('rockhopper_stats_http_').removesuffix('_total'): value
                for name, told in self.metrics(web).items() if name.startswith('rockhopper_stats_http_')
                for _, value in told}

    @contextlib.contextmanager
    def updates(self, web):
        """The server-sent events, one after the other: (name, data)."""
        with socket.create_connection(('127.0.0.1', web.port), LIMIT_S) as stream:
            stream.sendall(b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
            with stream.makefile('rb') as file:
                self.assertEqual(file.readline(), b'HTTP/1.1 200 OK\r\n')
                while file.readline() != b'\r\n':
                    pass
                yield events(file)

    def sample_of(self, told, pid, is_wanted):
        """The first update about the program `pid` that is as wanted."""
        for name, data in told:
            if name == 'sample':
                for program in data['programs']:
                    if program['pid'] == pid and is_wanted(program):
                        return program
        raise AssertionError('the updates ended')

    def start_perf(self, *common, loss='0%', seconds=3600):
        """A pair that is at work until its test ends. The link's delay keeps it slow: a browser may need the
        processors, and a pair that gets little of them must not give up."""
        return self.start_pair('rh-perf', *common, *PATIENT, server=('--faults', f'delay=10ms,loss={loss}'),
                               client=('-D', seconds, '-t', 2))


def events(file):
    name, data = None, []
    for line in file:
        line = line.decode().rstrip('\n')
        if line.startswith('event: '):
            name = line.removeprefix('event: ')
        elif line.startswith('data: '):
            data.append(line.removeprefix('data: '))
        elif not line and name:
            yield name, json.loads('\n'.join(data))
            name, data = None, []


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def samples(text):
    """(name, labels, value) of each line of the text format, which is read strictly."""
    for line in text.splitlines():
        if line.startswith('#'):
            continue
        match = SAMPLE.fullmatch(line)
        if match is None:
            raise AssertionError(f'no sample: {line}')
        labels, at = {}, 0
        while at < len(match[2] or ''):
            label = LABEL.match(match[2], at)
            if label is None or label[1] in labels:
                raise AssertionError(f'no label: {line}')
            labels[label[1]] = re.sub(r'\\(.)', lambda found: {'n': '\n'}.get(found[1], found[1]), label[2])
            at = label.end()
        yield match[1], labels, float(match[3])


def processor_time_s(pid):
    """User and system time that a process has had."""
    with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
        fields = file.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
