# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-stats --web: the live page, its updates, and /metrics."""

import asyncio
import base64
import hashlib
import ipaddress
import json
import os
import pathlib
import signal
import socket
import sys
import time

from . import metrics, snapshot
from .failures import NAME, Failure
from .sampler import Sampler
from .server import Answer, Server, Stream

FOLDER = pathlib.Path(__file__).resolve().parent
DEFAULT_HOST, DEFAULT_PORT = '127.0.0.1', 9478
# The server gives way to what it watches.
NICENESS = 10


def read_place(text):
    """(host, port) of ADDR, PORT, ADDR:PORT or [ADDR6]:PORT; ValueError for what is neither."""
    host, port = text, ''
    if text.startswith('['):
        host, bracket, port = text[1:].partition(']')
        if not bracket or port and not port.startswith(':'):
            raise ValueError(text)
        port = port[1:]
    elif text.count(':') == 1:
        host, _, port = text.partition(':')
        if not port:
            raise ValueError(text)
    elif text.isdigit():
        host, port = '', text
    if port and not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError(text)
    if ':' in host:
        ipaddress.IPv6Address(host)
    return host or DEFAULT_HOST, int(port) if port else DEFAULT_PORT


def accepts(header, wanted):
    """The weight that an Accept header gives a type, or its ranges do."""
    weights = {}
    for part in header.split(','):
        name, *parameters = (word.strip().lower() for word in part.split(';'))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith('q='):
                try:
                    weight = min(max(float(parameter[2:]), 0.0), 1.0)
                except ValueError:
                    weight = 0.0
        weights[name] = max(weight, weights.get(name, 0.0))
    return weights.get(wanted, weights.get(wanted.partition('/')[0] + '/*', weights.get('*/*', 0.0)))


def wants_openmetrics(header):
    wanted = accepts(header, 'application/openmetrics-text')
    # Who takes anything gets what everybody reads.
    return 'application/openmetrics-text' in header.lower() and wanted > 0 and wanted >= accepts(header, 'text/plain')


def read_page():
    """The page, whole, and the policy that lets nothing but its own style and script run."""
    style, script = ((FOLDER / name).read_text(encoding='utf-8') for name in ('page.css', 'page.js'))
    page = (FOLDER / 'page.html').read_text(encoding='utf-8')
    page = page.replace('/* page.css */', style).replace('/* page.js */', script)

    def source(text):
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
    policy = (f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; connect-src 'self'; "
              "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
              "require-trusted-types-for 'script'")
    return page.encode(), policy


def event(name, data):
    return f'event: {name}\ndata: {json.dumps(data, separators=(",", ":"), ensure_ascii=False)}\n\n'.encode()


class Web:
    """What the server answers. All of it is made of the sampler's last look, which is taken anew when it is older
    than an interval and somebody wants to know."""

    def __init__(self, sampler, version, names):
        self.sampler, self.version = sampler, version
        self.page, self.policy = read_page()
        self.server = Server({'/': self.show_page, '/events': self.show_events, '/metrics': self.show_metrics,
                              '/text': self.show_text}, names)
        self._looking = asyncio.Lock()
        self._described = None  # what was told of, last
        self._made = {}  # what was made of the last look

    async def look(self, oldest_s):
        async with self._looking:
            if self.sampler.is_older(oldest_s):
                # Programs may take their time, and the server has other clients.
                await asyncio.to_thread(self.sampler.look)
                self._made = {}

    def made(self, name, make):
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    async def show_page(self, _request):
        return Answer('text/html; charset=utf-8', self.page, (('Content-Security-Policy', self.policy),))

    async def show_metrics(self, request):
        await self.look(self.sampler.interval_s)
        openmetrics = wants_openmetrics(request.headers.get('accept', ''))
        families = self.made('metrics', lambda: metrics.collect(self.sampler, self.server.told(), self.version))
        body = self.made(('metrics', openmetrics), lambda: families.text(openmetrics).encode())
        return Answer(metrics.OPENMETRICS if openmetrics else metrics.PROMETHEUS, body, (('Vary', 'Accept'),))

    async def show_text(self, _request):
        await self.look(self.sampler.interval_s)
        return Answer('text/plain; charset=utf-8', self.made('text', self._text), ())

    def _text(self):
        lines = []
        for watched in self.sampler.programs.values():
            program = watched.program
            lines.append(f'{program.name} (pid {program.pid}, file prefix {program.file_prefix})')
            for group, counters in watched.groups.items():
                lines += [f'  {group:<16} {name:<32} {value:>20}  {watched.text(group, name)}'
                          for name, value in counters.items() if value]
        return ('\n'.join(lines) or 'no program runs').encode() + b'\n'

    async def show_events(self, _request):
        await self.look(self.sampler.interval_s)
        return Stream(b'retry: 2000\n\n' + self._describe() + self._sample())

    def _describe(self):
        return self.made('describe', lambda: event('describe', {
            'host': socket.gethostname(), 'version': self.version, 'interval': self.sampler.interval_s,
            'programs': {one.key: snapshot.described(one) for one in self.sampler.programs.values()},
            'server': {name: [kind, text] for name, (kind, text, _) in self.server.told().items()}}))

    def _sample(self):
        sampler = self.sampler
        return self.made('sample', lambda: event('sample', {
            'at': sampler.wall_s,
            'programs': [snapshot.of_program(one) for one in sampler.programs.values()],
            'verbs': snapshot.of_verbs(sampler.verbs),
            'failures': sorted(sampler.failures.values()), 'left_out': sampler.left_out,
            'server': {name: value for name, (_, _, value) in self.server.told().items() if value}}))

    def _shape(self):
        """What `describe` tells of, and no more: it is told anew when that has changed."""
        return [(one.key, [(group, len(counters)) for group, counters in one.groups.items()])
                for one in self.sampler.programs.values()]

    async def tick(self):
        """Tells all live pages; nobody is asked while there is none."""
        if not self.server.streams:
            return
        # Who asks for /metrics meanwhile gets this look.
        await self.look(self.sampler.interval_s / 2)
        shape = self._shape()
        if shape != self._described:
            self._described = shape
            self.server.update(self._describe())
        self.server.update(self._sample())

    async def run(self, host, port, stop, on_ready):
        try:
            port = await self.server.listen(host, port)
        except OSError as error:
            raise Failure(f'cannot listen on {host}, port {port}: {error.strerror or error}') from error
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def end(number):
            stop.append(number)
            ended.set()
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, number)
        on_ready(port)
        next_s = time.monotonic()
        while not ended.is_set():
            await self.tick()
            # A look that took longer than an interval puts off the next one.
            next_s = max(next_s + self.sampler.interval_s, time.monotonic())
            try:
                await asyncio.wait_for(ended.wait(), max(0.0, next_s - time.monotonic()) + 0.001)
            except (asyncio.TimeoutError, TimeoutError):
                continue
        await self.server.close()
        self.sampler.close()


def resolve(host):
    """The address to listen on, and the names by which it may be called."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return host, []
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Failure(f'--web {host}: {error.strerror or error}') from error
    return found[0][4][0], [host]


def serve(options, stop, version):
    given, port = options.web
    host, names = resolve(given)
    is_local = ipaddress.ip_address(host).is_loopback
    if not is_local:
        names = [*names, socket.gethostname(), socket.gethostname().partition('.')[0]]
    try:
        os.nice(NICENESS)
    except OSError:
        pass
    sampler = Sampler(options.watch or 1.0, options.pid, options.file_prefix)

    def on_ready(port):
        shown = f'[{host}]' if ':' in host else host
        if not is_local:
            print(f'{NAME}: WARNING: whoever reaches {shown} port {port} can read all of this; there is no password '
                  'and no encryption', file=sys.stderr)
        print(f'{NAME}: listening on TCP port {port}: http://{shown}:{port}/', file=sys.stderr, flush=True)
    asyncio.run(Web(sampler, version, names).run(host, port, stop, on_ready))
