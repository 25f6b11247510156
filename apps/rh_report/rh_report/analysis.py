# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Says of each packet of a connection what it is to its two ends, and reckons the figures.

A request is new when its PSN lies behind all before, else it is a retransmission, or a duplicate where the
capture has seen it acknowledged. A round trip is from a request that was sent once to the first response with
its PSN. These are counted from the packets alone, as they passed the place of the capture.
"""

import struct
from collections import Counter, deque
from dataclasses import dataclass, field

from judge.dcformat import CONNECT, NAMES as DC_NAMES, REASONS
from judge.lockformat import STATUSES
from judge.opcodes import (
    ACKNOWLEDGE, CARRIED, CARRIED_AT, CNP_CLASS, DC_CONNECT, DC_MESSAGE, FIRST, LAST, ONLY, READ_REQUEST,
    READ_RESPONSES, UC, UD,
)
from judge.psn import distance

CLASSES = (
    'request', 'read response', 'ack', 'answer', 'NAK', 'RNR NAK', 'retransmission', 'duplicate request',
    'duplicate response', 'duplicate ack', 'CNP', 'datagram', 'connection manager', 'session', 'other',
)
(REQUEST, READ_RESPONSE, ACK, ANSWER, NAK, RNR_NAK, RETRANSMISSION, DUPLICATE_REQUEST, DUPLICATE_RESPONSE,
 DUPLICATE_ACK, CNP, DATAGRAM, CM, SESSION, OTHER) = range(len(CLASSES))
NAK_NAMES = ('PSN sequence error', 'invalid request', 'remote access error', 'remote operational error',
             'invalid RD request')
_WAITED = 'timeout'
_GAP = 'gap in READ responses'
DROPPED, LOST = 1, 2


class Stream:
    """Requests of one end, and their responses."""

    __slots__ = ('next', 'una', 'base', 'shift', 'sent', 'queue', 'messages', 'cursor', 'resending', 'cause',
                 'outstanding', 'started', 'seen')

    def __init__(self):
        self.base = None  # the PSN that is 0 in the picture
        self.shift = 0
        self.begin(None)

    def begin(self, psn):
        self.next = self.una = psn
        self.sent, self.queue, self.messages = {}, deque(), deque()
        self.cursor, self.resending, self.cause, self.outstanding = None, False, '', 0
        self.started = None
        self.seen = psn

    def place(self, psn):
        """Where a PSN that is no longer bounded stands in the picture."""
        if self.base is None:
            self.base = psn
        return psn - self.base + self.shift


@dataclass
class Figures:
    """What the overview says of a connection; lists have a value for each direction."""

    packets: int = 0
    first_ns: int = 0
    last_ns: int = 0
    counts: Counter = field(default_factory=Counter)
    goodput_bytes: list = field(default_factory=lambda: [0, 0])
    naks: Counter = field(default_factory=Counter)
    opcodes: Counter = field(default_factory=Counter)
    round_trips: list = field(default_factory=list)
    latencies: dict = field(default_factory=dict)  # kind of message: list of ns
    events: list = field(default_factory=list)
    event_count: int = 0
    timeouts: int = 0
    spans: list = field(default_factory=list)
    bases: list = field(default_factory=lambda: [0, 0])


@dataclass
class Drawn:
    """Columns that the analysis adds, one value a packet of the connection."""

    kinds: list
    places: list
    outstanding: list
    round_trips: list
    good: list  # bytes that count as goodput
    streams: list


class Analysis:
    def __init__(self, connection, rows, directions, extension, info_of, packets, gone, most):
        """`rows` are this connection's, in the order of time; `info_of(flow, opcode)` is the opcode's entry; `gone`
        says which packets their receiver dropped or did not get;
        `most` is how many events, and how many spans, are kept."""
        self._gone, self._most = gone, most
        self._connection, self._rows, self._directions = connection, rows, directions
        self._extension, self._info_of, self._packets = extension, info_of, packets
        self.figures = Figures()
        self._streams = Stream(), Stream()
        self._scopes = {}
        self._session = None
        self._nonces = set()

    def run(self, order):
        """`order` has the number of each row among all, to find what is kept beside the rows."""
        rows, figures = self._rows, self.figures
        count = len(rows)
        figures.packets = count
        if count:
            figures.first_ns, figures.last_ns = int(rows['time'][0]), int(rows['time'][-1])
        kinds, places, outstanding = [OTHER] * count, [0] * count, [0] * count
        trips, good, streams_of = [0] * count, [0] * count, [0] * count
        columns = [rows[name].tolist() for name in ('time', 'psn', 'flow', 'opcode', 'length', 'start', 'size')]
        infos = {}
        streams, info_of, opcodes = self._streams, self._info_of, figures.opcodes
        paired = self._connection.answered
        index = 0
        for time, psn, flow, opcode, length, start, size, direction in zip(*columns, self._directions):
            key = flow << 8 | opcode
            info = infos.get(key)
            if info is None:
                info = infos[key] = info_of(flow, opcode) or False
            # Of a WRITE the PSN alone is told by the BTH; others are nothing without their headers.
            if not info or (size < info.fields_end and info.kind != 'write'):
                streams_of[index] = direction
                opcodes[info.name if info else f'0x{opcode:02X}'] += 1
                places[index] = streams[direction].next - streams[direction].base \
                    if streams[direction].base is not None else 0
                index += 1
                continue
            opcodes[info.name] += 1
            service = info.service
            if service == CNP_CLASS:
                # It is about what the other end sends: it goes back to the sender of marked packets.
                stream = streams[1 - direction]
                kinds[index], streams_of[index] = CNP, 1 - direction
                places[index] = stream.place(stream.next) if stream.next is not None else 0
            elif service == UD:
                kinds[index] = self._datagram(order[index], direction, index, time)
                streams_of[index] = direction
                stream = streams[direction]
                now = psn if stream.next is None else stream.next + distance(stream.next & 0xFFFFFF, psn)
                stream.next = now
                places[index] = stream.place(now)
                good[index] = length if kinds[index] == DATAGRAM else 0
            elif service == DC_MESSAGE:
                kinds[index] = SESSION
                self._message(order[index], direction, index, time)
                stream = streams[0]
                places[index] = stream.place(stream.next) if stream.next is not None else stream.shift
            elif info.is_request:
                if service == DC_CONNECT:
                    self._message(order[index], direction, index, time)
                    carried = CARRIED.get(self._extension[start + CARRIED_AT], info)
                    info = carried if carried.kind != 'dc connect' else info
                stream = streams[direction]
                kinds[index], good[index] = self._request(
                    stream, info, psn, length, start, time, index, direction, paired and service != UC)
                places[index], outstanding[index] = stream.place(stream.seen), stream.outstanding
                streams_of[index] = direction
            else:
                stream = streams[1 - direction]
                if self._gone[index] and stream.una is not None:
                    kinds[index] = self._lost_response(stream, info, psn, start, self._gone[index] == DROPPED)
                else:
                    kinds[index], good[index], trips[index] = self._response(
                        stream, info, psn, length, start, time, index, direction)
                places[index], outstanding[index] = stream.place(stream.seen), stream.outstanding
                streams_of[index] = 1 - direction
            index += 1
        self._sum_up(kinds, good)
        return Drawn(kinds, places, outstanding, trips, good, streams_of)

    def _sum_up(self, kinds, good):
        figures = self.figures
        for kind, number in Counter(kinds).items():
            figures.counts[CLASSES[kind]] = number
        for direction, amount in zip(self._directions, good):
            figures.goodput_bytes[direction] += amount
        figures.bases = [(stream.base or 0) & 0xFFFFFF for stream in self._streams]
        last = figures.last_ns
        for span in figures.spans:
            if span['end'] is None:
                span['end'], span['open'] = last, True

    # Requests ------------------------------------------------------------------------------------

    def _request(self, stream, info, psn, length, start, time, index, direction, paired):
        if stream.next is None:
            stream.begin(psn)
            stream.cursor = psn
        now = stream.next + distance(stream.next & 0xFFFFFF, psn)
        stream.seen = now
        taken, wanted = 1, length
        is_read = info.operation == READ_REQUEST
        if is_read:
            wanted, = struct.unpack_from('>I', self._extension, start + info.reth + 12)
            taken = max(1, -(-wanted // (self._connection.path_mtu or 1024)))
        end = now + taken
        position = info.position
        if position in (FIRST, ONLY):
            stream.started = time
        if info.lock >= 0:
            self._lock_request(start + info.lock, time, index, direction)
        if now >= stream.next:
            if now > stream.next:
                self.figures.counts['PSNs that were not captured'] += now - stream.next
            stream.next = end
            if paired:
                stream.sent[now] = time
                stream.queue.append([end, wanted, is_read or info.operation in _OWN, now])
                stream.outstanding += wanted
                if position in (LAST, ONLY):
                    begun = stream.started if stream.started is not None else time
                    stream.messages.append((end, begun, info.kind))
            stream.cursor, stream.resending = end, False
            return REQUEST, 0 if is_read else length
        self.figures.counts['retransmissions'] += 1
        is_duplicate = end <= stream.una
        if not stream.resending or now != stream.cursor:
            before = stream.sent.get(now)
            waited = abs(before) if before is not None else None
            cause = stream.cause or ('acknowledged before' if is_duplicate else _WAITED)
            self._event(index, time, direction, cause, psn, None if waited is None else time - waited)
            stream.cause = ''
        # A negative time marks what was sent more than once: its round trip is not known.
        if now in stream.sent:
            stream.sent[now] = -time
        stream.cursor, stream.resending = end, True
        return DUPLICATE_REQUEST if is_duplicate else RETRANSMISSION, 0

    def _event(self, index, time, direction, cause, psn, waited):
        figures = self.figures
        figures.event_count += 1
        if cause == _WAITED:
            figures.timeouts += 1
        if len(figures.events) < self._most:
            figures.events.append(
                {'at': index, 'time': time, 'direction': direction, 'cause': cause, 'psn': psn, 'waited': waited})

    # Responses -----------------------------------------------------------------------------------

    def _lost_response(self, stream, info, psn, start, dropped):
        """It acknowledges nothing; one that came and was dropped may show its requester a gap."""
        stream.seen = stream.una + distance(stream.una & 0xFFFFFF, psn)
        if dropped and info.operation in READ_RESPONSES and stream.seen > stream.una:
            stream.cause = _GAP
        if info.operation == ACKNOWLEDGE:
            kind = self._extension[start + info.aeth] >> 5
            return ACK if kind == 0 else RNR_NAK if kind == 1 else NAK
        return READ_RESPONSE if info.operation in READ_RESPONSES else ANSWER

    def _response(self, stream, info, psn, length, start, time, index, direction):
        if stream.una is None:
            stream.begin(psn)
        now = stream.una + distance(stream.una & 0xFFFFFF, psn)
        stream.seen = now
        operation = info.operation
        kind, code = 0, 0
        if operation == ACKNOWLEDGE:
            syndrome = self._extension[start + info.aeth]
            kind, code = syndrome >> 5, syndrome & 0x1F
        trip = 0
        # What was refused will be sent again.
        sent = stream.sent.pop(now, None) if kind == 0 else None
        if sent is not None and sent > 0:
            trip = time - sent
            self.figures.round_trips.append(trip)
        if operation == ACKNOWLEDGE:
            if kind == 0:
                is_new = now >= stream.una
                self._acknowledge(stream, now + 1, time, False)
                return (ACK if is_new else DUPLICATE_ACK), 0, trip
            self._acknowledge(stream, now, time, False)
            stream.cause = 'RNR NAK' if kind == 1 else 'NAK'
            name = 'RNR NAK' if kind == 1 else NAK_NAMES[code] if code < len(NAK_NAMES) else f'code {code}'
            self.figures.naks[name] += 1
            self._event(index, time, direction, f'{name} received' if kind == 1 else f'NAK: {name}', psn, None)
            return (RNR_NAK if kind == 1 else NAK), 0, 0
        is_new = now >= stream.una
        if info.lock >= 0:
            self._lock_response(start + info.lock, time, index)
            if self._extension[start + info.lock] == 2:  # it waits at the target: no answer yet
                return ANSWER, 0, 0
            self._acknowledge(stream, now + 1, time, True)
            return (ANSWER if is_new else DUPLICATE_RESPONSE), 0, trip
        if operation in READ_RESPONSES:
            if now > stream.una and stream.queue and stream.queue[0][3] <= stream.una and stream.queue[0][2]:
                stream.cause = _GAP
            elif is_new:
                if stream.queue and stream.queue[0][2]:
                    answered = min(length, stream.queue[0][1])
                    stream.queue[0][1] -= answered
                    stream.outstanding -= answered
                self._acknowledge(stream, now + 1, time, True)
            return (READ_RESPONSE if is_new else DUPLICATE_RESPONSE), length if is_new else 0, trip
        self._acknowledge(stream, now + 1, time, True)
        return (ANSWER if is_new else DUPLICATE_RESPONSE), 0, trip

    def _acknowledge(self, stream, end, time, is_answer):
        """All before `end` is acknowledged; what has an answer of its own, only by that."""
        queue, messages, sent = stream.queue, stream.messages, stream.sent
        while queue and queue[0][0] <= end:
            if queue[0][2] and not is_answer:
                break
            _, amount, _, psn = queue.popleft()
            stream.outstanding -= amount
            sent.pop(psn, None)
        limit = queue[0][3] if queue else end
        while messages and messages[0][0] <= min(end, max(limit, stream.una)) or (
                messages and not queue and messages[0][0] <= end):
            _, begun, kind = messages.popleft()
            self.figures.latencies.setdefault(kind, []).append(time - begun)
        if end > stream.una:
            stream.una = end
            if stream.next is None or stream.next < end:
                stream.next = end
            stream.cause = ''

    # What else is in the packets -------------------------------------------------------------------

    def _datagram(self, number, direction, index, time):
        if number in self._packets.messages:
            message = self._packets.messages[number]
            if message is not None:
                self._handshake(message, direction, index, time)
            return CM
        return DATAGRAM

    def _handshake(self, message, direction, index, time):
        """A connection of the connection manager, from its REQ to the DREP."""
        key = message.conversation if message.name.startswith('SIDR') else min(message.local, message.remote) \
            if message.remote else message.local
        span = self._scopes.get(('cm', message.local)) or self._scopes.get(('cm', message.remote)) \
            or self._scopes.get(('cm', key))
        if span is None:
            span = self._span('cm', f'{message.name}', index, time)
            if span is None:
                return
        else:
            span['text'] += f' {message.name}'
        span['end'], span['last'] = time, index
        for part in (message.local, message.remote, key):
            if part:
                self._scopes['cm', part] = span

    def _span(self, kind, text, index, time):
        if len(self.figures.spans) >= self._most:
            return None
        span = {'kind': kind, 'text': text, 'at': index, 'last': index, 'start': time, 'end': None}
        self.figures.spans.append(span)
        return span

    def _message(self, number, direction, index, time):
        message = self._packets.dynamic.get(number)
        if message is None:
            return
        name = DC_NAMES[message.subtype]
        self.figures.counts[f'session: {name}'] += 1
        if message.subtype == CONNECT and message.nonce not in self._nonces:
            self._nonces.add(message.nonce)
            stream = self._streams[0]
            if stream.base is not None:
                stream.shift = stream.place(stream.next) + 8
            stream.base = message.psn
            stream.begin(message.psn)
            stream.cursor = message.psn
            if self._session is not None and self._session['end'] is None:
                self._session['end'], self._session['last'] = time, index
            self._session = self._span('session', f'nonce 0x{message.nonce:08x}: CONNECT', index, time)
            return
        if self._session is None:
            self._session = self._span('session', 'begun before the capture:', index, time)
        if self._session is None:
            return
        more = f' {name}'
        if name == 'CNAK':
            more += f' ({REASONS[message.value if message.value < len(REASONS) else 0]})'
        if name == 'ACCEPT':
            more += f' session {message.session:016x}'
        if len(self._session['text']) < 300:
            self._session['text'] += more
        if name in ('DISCONNECT', 'CNAK'):
            self._session['end'], self._session['last'] = time, index

    def _lock_request(self, at, time, index, direction):
        subtype, _, scope = struct.unpack_from('>BBH', self._extension, at)
        key = direction, scope
        if subtype in (1, 2, 6, 7):
            known = self._scopes.get(key)
            if known is None or known['end'] is not None:
                span = self._span('lock', f'scope {scope}: acquire', index, time)
                if span is not None:
                    self._scopes[key] = span
        elif key in self._scopes and self._scopes[key]['end'] is None and ' release' not in self._scopes[key]['text']:
            self._scopes[key]['text'] += ', release' if subtype in (3, 8) else ', cancel'

    def _lock_response(self, at, time, index):
        status, _, scope = struct.unpack_from('>BBH', self._extension, at)
        name = STATUSES[status] if status < len(STATUSES) else '?'
        for direction in (0, 1):
            span = self._scopes.get((direction, scope))
            if span is None or span['end'] is not None:
                continue
            if len(span['text']) < 120 and not span['text'].endswith(name):
                span['text'] += f', {name}'
            if name == 'granted':
                span['granted'] = time
            span['last'] = index
            if name in ('failed', 'released', 'flushed', 'canceled'):
                span['end'] = time


_OWN = frozenset((0x13, 0x14, 0x1C, 0x1D, 0x19))
