# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A small HTTP server for few pages that are only read.

It is made of asyncio's protocols and not of http.server, which has a thread for each connection and no limit of
time, nor of a framework: it serves a handful of paths, and each limit is a line here and a counter. All of what
comes from outside is bounded: see limits.py.
"""

import asyncio
import collections
import contextlib
import ipaddress
import re
import socket
import time

from . import limits

REQUEST_LINE = re.compile(rb'([!#$%&\'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e]+) HTTP/(\d)\.(\d)')
HEADER = re.compile(rb'([!#$%&\'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*')
REASONS = {200: 'OK', 400: 'Bad Request', 403: 'Forbidden', 404: 'Not Found', 405: 'Method Not Allowed',
           408: 'Request Timeout', 413: 'Content Too Large', 414: 'URI Too Long', 421: 'Misdirected Request',
           431: 'Request Header Fields Too Large', 500: 'Internal Server Error', 503: 'Service Unavailable',
           505: 'HTTP Version Not Supported'}
COMMON = ('X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n'
          'Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n'
          'Cache-Control: no-store\r\n')


class Refusal(Exception):
    """A request that is not answered: the status, the counter, and a line for people."""

    def __init__(self, status, counter, text):
        super().__init__(text)
        self.status, self.counter = status, counter


class Request:
    def __init__(self, method, path, query, version, headers):
        self.method, self.path, self.query, self.version, self.headers = method, path, query, version, headers


class Answer:
    def __init__(self, content_type, body, headers=(), status=200):
        self.content_type, self.body, self.headers, self.status = content_type, body, headers, status


class Stream:
    """The answer to a request for server-sent events: the connection gets all updates from then on. `first` is
    sent at once."""

    def __init__(self, first=b''):
        self.first = first


def parse(head):
    """The request of the bytes up to its empty line, or a Refusal."""
    lines = head.split(b'\r\n')
    if len(lines[0]) > limits.REQUEST_LINE_MAX:
        raise Refusal(414, 'refused_line_too_long', 'the request line is too long')
    match = REQUEST_LINE.fullmatch(lines[0])
    if match is None:
        raise Refusal(400, 'refused_malformed', 'this is no HTTP request')
    method, target, major, minor = match.groups()
    if (major, minor) not in ((b'1', b'1'), (b'1', b'0')):
        raise Refusal(505, 'refused_version', 'HTTP/1.1 is served, and 1.0')
    if len(lines) - 1 > limits.HEADER_LINES_MAX:
        raise Refusal(431, 'refused_headers_too_long', 'too many headers')
    headers = {}
    for line in lines[1:]:
        match = HEADER.fullmatch(line)
        if match is None:
            raise Refusal(400, 'refused_malformed', 'a header is none')
        name = match[1].decode('ascii').lower()
        if name in headers and name in ('host', 'content-length', 'transfer-encoding'):
            raise Refusal(400, 'refused_malformed', f'there are two headers {name}')
        headers[name] = match[2].decode('latin-1')
    if method not in (b'GET', b'HEAD'):
        raise Refusal(405, 'refused_method', 'this server is only read: GET and HEAD')
    if 'transfer-encoding' in headers or headers.get('content-length', '0') != '0':
        raise Refusal(413, 'refused_body', 'a request has no body here')
    path, _, query = target.decode('ascii').partition('?')
    return Request(method.decode('ascii'), path, query, minor, headers)


def host_of(header):
    """The name or address of a Host header, without the port; None for what is none."""
    match = re.fullmatch(r'(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::\d{1,5})?', header)
    return (match[1] or match[2]).rstrip('.').lower() if match else None


def is_address(host):
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Connection(asyncio.Protocol):
    """One client. It is idle, or sends a request, or gets an answer, or is a stream of updates."""

    def __init__(self, server):
        self.server = server
        self.transport = None
        self.received = bytearray()
        self.requests = 0
        self.is_stream = self.is_busy = self.is_closing = self.has_ended = False
        self.since_s = 0.0
        self._timer = None
        self._paused = False

    # What asyncio calls.

    def connection_made(self, transport):
        self.transport = transport
        transport.set_write_buffer_limits(high=limits.STREAM_BUFFER_MAX)
        transport.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.STREAM_BUFFER_MAX)
        self.since_s = time.monotonic()
        self._arm(limits.REQUEST_S, 'slow_request')
        if not self.server.admit(self):
            self.refuse(Refusal(503, 'refused_connection', 'too many connections'))

    def connection_lost(self, _error):
        self._disarm()
        self.server.leave(self)

    def pause_writing(self):
        self._paused = True

    def resume_writing(self):
        self._paused = False
        if not (self.is_closing or self.is_busy or self.is_stream):
            self._go_on()

    def eof_received(self):
        # One that has sent all that it wants gets its answer still.
        self.has_ended = True
        if self.received and not self.is_busy and not self.is_closing:
            self.server.count('left_early')
        return self.is_busy and not self.is_closing

    def data_received(self, data):
        if self.is_closing:
            return
        if self.is_stream:
            # A live page says nothing.
            self.refuse_stream_data()
            return
        waits = self.is_busy or self._paused
        if not self.received and self.requests and not waits:
            self._arm(limits.REQUEST_S, 'slow_request')
        self.received += data
        if len(self.received) > limits.HEADERS_MAX + limits.REQUEST_LINE_MAX and waits:
            self.refuse(Refusal(431, 'refused_headers_too_long', 'too much at once'))
            return
        self._next()

    # Requests.

    def _next(self):
        """Answers the request that is whole, if there is one."""
        while not (self.is_closing or self.is_busy or self.is_stream or self._paused):
            # Empty lines in front of a request are passed over, as a robust server does; what they count towards
            # is the time limit.
            while self.received.startswith(b'\r\n'):
                del self.received[:2]
            end = self.received.find(b'\r\n\r\n')
            if end < 0 or end > limits.HEADERS_MAX + limits.REQUEST_LINE_MAX:
                self._check_growth()
                if self.has_ended and not self.is_closing:
                    self.server.count('left_early')
                    self._finish()
                return
            head = bytes(self.received[:end])
            del self.received[:end + 4]
            self.requests += 1
            self.since_s = time.monotonic()
            try:
                request = parse(head)
                self.server.check(request)
            except Refusal as refusal:
                self.refuse(refusal)
                return
            self.is_busy = True
            self._disarm()
            task = self.server.loop.create_task(self._answer(request))
            self.server.tasks.add(task)
            task.add_done_callback(self.server.tasks.discard)

    def _check_growth(self):
        line_end = self.received.find(b'\r\n')
        if (len(self.received) if line_end < 0 else line_end) > limits.REQUEST_LINE_MAX:
            self.refuse(Refusal(414, 'refused_line_too_long', 'the request line is too long'))
        elif len(self.received) > limits.HEADERS_MAX:
            self.refuse(Refusal(431, 'refused_headers_too_long', 'the headers are too long'))

    async def _answer(self, request):
        try:
            answer = await self.server.handle(request)
        except Refusal as refusal:
            if refusal.status == 404 and self._keeps(request):
                # What is not there ends no connection.
                self.server.count(refusal.counter)
                answer = Answer('text/plain; charset=utf-8', f'{refusal}\n'.encode(), status=404)
            else:
                self.refuse(refusal)
                return
        except Exception:  # noqa: BLE001 (one request must not end the server)
            self.refuse(Refusal(500, 'refused_failure', 'the server failed'))
            return
        if self.is_closing or self.transport.is_closing():
            return
        if isinstance(answer, Stream):
            self._begin_stream(request, answer)
            return
        if answer.status == 200:
            self.server.count('requests')
        keeps = self._keeps(request)
        self._send(answer.status, answer.content_type, answer.body, answer.headers, keeps, request.method == 'HEAD')
        self.is_busy = False
        if not keeps:
            self._finish()
            return
        self._go_on()

    def _go_on(self):
        """To the next request, once the client has taken the answers before."""
        if self._paused:
            self._arm(limits.SEND_S, 'slow_receiver')
        elif self.received:
            self._arm(limits.REQUEST_S, 'slow_request')
            self._next()
        else:
            self._arm(limits.IDLE_S, 'idle')

    def _keeps(self, request):
        asked = request.headers.get('connection', '').lower()
        return (request.version == b'1' and 'close' not in asked and
                self.requests < limits.REQUESTS_PER_CONNECTION and not (self.has_ended and not self.received))

    def _send(self, status, content_type, body, headers, keeps, only_head=False):
        head = [f'HTTP/1.1 {status} {REASONS[status]}', f'Content-Type: {content_type}',
                f'Content-Length: {len(body)}', f'Connection: {"keep-alive" if keeps else "close"}',
                *(f'{name}: {value}' for name, value in headers)]
        self.transport.write(('\r\n'.join(head) + '\r\n' + COMMON + '\r\n').encode('latin-1') +
                             (b'' if only_head else body))

    # Streams.

    def _begin_stream(self, request, answer):
        if request.method == 'HEAD':
            self.refuse(Refusal(405, 'refused_method', 'events are for GET'))
            return
        if self.has_ended:
            self._finish()
            return
        if not self.server.admit_stream(self):
            self.refuse(Refusal(503, 'refused_stream', 'too many live pages look already'))
            return
        self.is_busy, self.is_stream = False, True
        self.server.count('requests')
        self.transport.write(('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n'
                              'X-Accel-Buffering: no\r\nConnection: close\r\n' + COMMON + '\r\n').encode() +
                             answer.first)

    def update(self, event):
        """Sends an update unless the client is behind; one that stays behind is ended."""
        if self._paused:
            self.server.count('missed_updates')
            if self._timer is None:
                self._arm(limits.SEND_S, 'slow_receiver')
            return
        self._disarm()
        self.server.count('updates')
        self.transport.write(event)

    def refuse_stream_data(self):
        self.server.count('refused_malformed')
        self.is_closing = True
        self.transport.abort()

    # Ends.

    def refuse(self, refusal):
        self.server.count(refusal.counter)
        if self.transport.is_closing():
            return
        allow = (('Allow', 'GET, HEAD'),) if refusal.status == 405 else ()
        self._send(refusal.status, 'text/plain; charset=utf-8', f'{refusal}\n'.encode(), allow, keeps=False)
        self._finish()

    def push_out(self):
        self.server.count('pushed_out')
        self.is_closing = True
        self.transport.abort()

    def _finish(self):
        """Ends the connection when the client has what was sent, or has not taken it in time."""
        self.is_closing = True
        self.received.clear()
        self._arm(limits.SEND_S, 'slow_receiver')
        self.transport.close()

    def _arm(self, seconds, counter):
        self._disarm()
        self._timer = self.server.loop.call_later(seconds, self._time_out, counter)

    def _disarm(self):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, counter):
        self._timer = None
        self.server.count(counter)
        self.is_closing = True
        self.transport.abort()


class Server:
    """Listens, and knows its connections. `handlers` are {path: coroutine of the request}."""

    def __init__(self, handlers, names=()):
        self.handlers = handlers
        # By what names a browser may call this server, besides any address: a name is what an attacker's own DNS
        # could lead here.
        self.names = {'localhost', *(name.lower() for name in names)}
        self.counters = collections.Counter(dict.fromkeys(limits.COUNTERS, 0))
        self.connections = {}  # in the order in which they came
        self.streams = {}
        self.tasks = set()
        self.loop = None
        self._listener = None

    async def listen(self, host, port):
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(self._on_exception)
        family = socket.AF_INET6 if ':' in host else socket.AF_INET
        self._listener = await self.loop.create_server(lambda: Connection(self), host, port, family=family, backlog=128)
        return self._listener.sockets[0].getsockname()[1]

    async def close(self):
        self._listener.close()
        for connection in list(self.connections):
            connection.transport.abort()
        for task in list(self.tasks):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def _on_exception(self, _loop, _context):
        # Of one connection, or of accept().
        self.count('not_accepted')

    def count(self, counter):
        self.counters[counter] += 1

    def told(self):
        """All counters, as (kind, text, value) by name."""
        told = {name: ('counter', text, self.counters[name]) for name, text in limits.COUNTERS.items()}
        return told | {'open_connections': ('gauge', 'connections that are open', len(self.connections)),
                       'live_pages': ('gauge', 'live pages that look', len(self.streams))}

    def admit(self, connection):
        """Whether there is room; the one that has asked for nothing for the longest time makes some."""
        self.count('connections')
        if len(self.connections) >= limits.CONNECTIONS_MAX:
            unused = [one for one in self.connections if not (one.is_stream or one.is_busy)]
            if not unused:
                return False
            oldest = min(unused, key=lambda one: one.since_s)
            del self.connections[oldest]
            oldest.push_out()
        self.connections[connection] = None
        return True

    def leave(self, connection):
        self.connections.pop(connection, None)
        self.streams.pop(connection, None)

    def admit_stream(self, connection):
        if len(self.streams) >= limits.STREAMS_MAX:
            return False
        self.streams[connection] = None
        return True

    def update(self, event):
        for connection in list(self.streams):
            connection.update(event)

    def check(self, request):
        """Refuses what another site may have made a browser ask."""
        header = request.headers.get('host')
        host = host_of(header) if header is not None else None
        if header is None and request.version == b'1':
            raise Refusal(400, 'refused_malformed', 'there is no Host header')
        if header is not None and (host is None or not (is_address(host) or host in self.names)):
            raise Refusal(421, 'refused_host', 'this server does not have the name of the Host header; '
                          'use its address, or rh-stats --web NAME:PORT')
        site = request.headers.get('sec-fetch-site', 'none')
        follows_link = request.path == '/' and request.headers.get('sec-fetch-mode') == 'navigate'
        if site not in ('none', 'same-origin') and not follows_link:
            raise Refusal(403, 'refused_cross_site', 'pages of other sites get nothing here')

    async def handle(self, request):
        handler = self.handlers.get(request.path)
        if handler is None:
            raise Refusal(404, 'refused_path', f'there are {", ".join(self.handlers)}')
        return await handler(request)
