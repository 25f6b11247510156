# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Judges dynamic connections (docs/dc.md): who was connected to whom while each packet was sent.

A connection is what one nonce of an initiator names, together with the session that the target
gives to it. What is learnt from packets of the other direction holds wherever the capture was
taken: its cause passed there before. What compares packets of one direction needs a view of all
that their sender sent and received.
"""

from collections import Counter

from . import dcformat
from .dcformat import (
    ACCEPT, CNAK, CONNECT, DISCONNECT, KEEPALIVE, NAMES, REASONS, Header, Message,
)  # fmt: skip
from .frame import Arrival, Frame
from .lockformat import is_waiting
from .locks import LockLine, Locks
from .opcodes import (
    ACKNOWLEDGE, ANSWERED, DC, DC_CONNECT, DC_MESSAGE, LAST, ONLY, REPEATABLE, WRITE_LAST,
    WRITE_ONLY,
)  # fmt: skip
from .options import Options
from .psn import unwrap
from .report import Report
from .requestlog import psn_count

SERVICES = (DC, DC_MESSAGE, DC_CONNECT)
_MTUS = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_ACK, _NAK = 0, 3  # kinds of AETH
_ROOM = 1 << 24  # below the first PSN, for late ones
_FINAL = (dcformat.NO_SUCH_DCT, dcformat.DRAINING, dcformat.INCOMPATIBLE)

StreamKey = tuple[bytes, int, int]  # initiator's address, its number, stream


class Connection:
    """What one nonce names."""

    def __init__(self, frame: Frame, message: Message, locks: LockLine | None):
        self.connect = message
        self.locks = locks
        self.frame = frame.number
        self.stream: StreamKey = (frame.src, message.dci, message.stream)
        self.target = (frame.dst, frame.dqpn)
        self.pmtu = _pmtu(message)
        self.session: int | None = None
        self.accepted: Arrival | None = None  # when the initiator learnt of the session
        self.first = self.next = self.acknowledged = message.psn + _ROOM
        self.highest = self.first  # behind the last PSN of any request seen
        self.due: list[int] = []  # last PSNs of requests that only their own responses answer
        self.requests: dict[int, tuple[int, str, int]] = {}  # PSN: end, place, operation
        self.over = ""  # how it ended, as the initiator knows
        self.stale = False  # ended by a CNAK "stale session"
        self.executed: int | None = None  # then: the PSN before which all was, if the CNAK said so

    @property
    def all_acknowledged(self) -> bool:
        return self.acknowledged >= self.next and not self.due

    def on_request(self, psn: int, end: int, frame: Frame) -> None:
        info = frame.info
        self.highest = max(self.highest, end)
        if end > self.next:
            self.next = end
            self.requests[psn] = (end, info.position, info.operation)
            if info.operation in ANSWERED:
                self.due.append(end - 1)

    def to_be_sent_again(self) -> int | None:
        """After "stale session": the PSN of a request that needs another connection to the same
        target; None: what was outstanding has completed (docs/dc.md, "Exactly once")."""
        for psn, (end, place, operation) in self.requests.items():
            if end <= self.acknowledged or place not in (LAST, ONLY):
                continue
            if self.executed is None:
                again = operation in (WRITE_LAST, WRITE_ONLY) or operation in REPEATABLE
            else:
                again = psn >= self.executed or operation in REPEATABLE
            if again:
                return psn
        return None

    def on_response(self, frame: Frame) -> None:
        """What a response that the initiator received acknowledges."""
        info = frame.info
        psn = unwrap(self.acknowledged, frame.psn)
        kind, code = 0, 0
        if info.aeth >= 0:
            syndrome, _ = frame.aeth()
            kind, code = syndrome >> 5, syndrome & 0x1F
        if info.operation == ACKNOWLEDGE:
            end = psn + (kind == _ACK)
            if kind == _NAK and code:
                self.over = "NAK"
        elif info.lock >= 0:
            # Of a READ that is not executed it is the only answer.
            end, _, _ = self.requests.get(psn, (psn + 1, "", 0))
            if end - 1 in self.due and not is_waiting(frame):
                self.due.remove(end - 1)
        elif info.position in (LAST, ONLY) and psn in self.due:
            self.due.remove(psn)
            end = psn + 1
        else:
            end = psn
        # What only its own response answers holds up what is acknowledged.
        if self.due:
            end = min(end, self.due[0])
        self.acknowledged = max(self.acknowledged, min(end, self.next))
        self.requests = {at: one for at, one in self.requests.items() if one[0] > end}


class DynamicConnections:
    """All of one capture."""

    def __init__(self, locks: Locks, options: Options, report: Report):
        self._locks, self._options, self._report = locks, options, report
        self._counts: Counter[str] = Counter()
        self._by_nonce: dict[tuple[bytes, int, int], Connection] = {}  # address, DCI, nonce
        self._sessions: dict[tuple[bytes, int], Connection] = {}  # target's address, id
        self._newest: dict[StreamKey, Connection] = {}
        # What requests and closing messages have named: addresses of initiator and target, and a
        # nonce with the initiator's number, or a session id.
        self._named: set[tuple] = set()

    def counters(self) -> dict[str, int]:
        names = ["connect_packets", "connect_data_packets", "connects", "accept_packets", "sessions", "disconnects"]
        names += ["keepalives", "target_changes", "requests", "responses"]
        names += [_reason(reason) for reason in range(1, len(REASONS))]
        who = {
            "initiators": len({(source, dci) for source, dci, _ in self._by_nonce}),
            "targets": len({connection.target for connection in self._by_nonce.values()}),
        }
        return who | {name: self._counts[name] for name in names}

    def on_packet(self, frame: Frame) -> None:
        if frame.info.service == DC:
            header, _ = dcformat.header(frame)
            if frame.info.is_request:
                self._on_request(frame, header)
            else:
                self._on_response(frame, header)
            return
        if frame.info.service == DC_CONNECT:
            message, _ = dcformat.connect_data(frame)
            self._counts["connect_data_packets"] += 1
            self._on_connect(frame, message)
            self._on_request(frame, Header(0, message.stream, message.dci, message.nonce, 0))
            return
        message, _ = dcformat.message(frame)
        if message.subtype == CONNECT:
            self._on_connect(frame, message)
        elif message.subtype == ACCEPT:
            self._on_accept(frame, message)
        elif message.subtype == CNAK:
            self._on_cnak(frame, message)
        else:
            self._on_closing(frame, message)

    def _on_connect(self, frame: Frame, message: Message) -> None:
        self._counts["connect_packets"] += 1
        self._named.add((frame.src, frame.dst, "nonce", message.dci, message.nonce))
        key = (frame.src, message.dci, message.nonce)
        known = self._by_nonce.get(key)
        if known is not None:
            self._check_repetition(frame, message, known)
            return
        self._counts["connects"] += 1
        connection = Connection(frame, message, self._locks.line(in_session=True))
        self._by_nonce[key] = connection
        before = self._newest.get(connection.stream)
        self._newest[connection.stream] = connection
        if before is None:
            return
        self._counts["target_changes"] += before.target != connection.target
        if not before.over:
            self._report.add(
                "dc-one-connect",
                frame,
                f"nonce 0x{message.nonce:08X} while the connection of nonce "
                f"0x{before.connect.nonce:08X} (frame {before.frame}) is not over",
            )
        elif before.stale and before.target != connection.target:
            again = before.to_be_sent_again()
            if again is not None:
                self._report.add(
                    "dc-sent-again",
                    frame,
                    f"another target, but PSN {again & 0xFFFFFF} of the connection of frame "
                    f"{before.frame} is to be sent again",
                )

    def _check_repetition(self, frame: Frame, message: Message, known: Connection) -> None:
        first = known.connect
        again = message._replace(flags=first.flags)
        if again != first or known.target != (frame.dst, frame.dqpn):
            self._report.add(
                "dc-connect-repeat", frame, f"not as the CONNECT of frame {known.frame}"
            )
        elif self._newest[known.stream] is not known:
            self._report.add(
                "dc-one-target", frame, f"the connection of frame {known.frame} again"
            )

    def _on_accept(self, frame: Frame, message: Message) -> None:
        self._counts["accept_packets"] += 1
        connection = self._by_nonce.get((frame.dst, frame.dqpn, message.nonce))
        if connection is None or connection.target[0] != frame.src:
            self._report.add(
                "dc-accept", frame, f"nobody connected with nonce 0x{message.nonce:08X}"
            )
            return
        known = self._sessions.get((frame.src, message.session))
        if known is None:
            self._counts["sessions"] += 1
            if connection.session is not None:
                self._report.add(
                    "dc-accept",
                    frame,
                    f"session {message.session:016x} for nonce 0x{message.nonce:08X}, which has "
                    f"{connection.session:016x}",
                )
            self._sessions[frame.src, message.session] = connection
            connection.session = message.session
        elif known is not connection:
            self._report.add(
                "dc-session-reused",
                frame,
                f"session {message.session:016x} was that of nonce 0x{known.connect.nonce:08X} of "
                f"DCI 0x{known.stream[1]:06X}",
            )
            return
        if not connection.first <= unwrap(connection.first, message.psn) <= connection.highest:
            self._report.add("dc-accept", frame, f"expected PSN {message.psn} was not sent")
        if not frame.dropped and connection.accepted is None:
            connection.pmtu = _pmtu(message)
            connection.accepted = frame.arrival

    def _on_cnak(self, frame: Frame, message: Message) -> None:
        self._counts[_reason(message.value)] += 1
        named = []
        if message.session:
            named.append((frame.dst, frame.src, "session", message.session))
        if message.nonce or not message.session:
            named.append((frame.dst, frame.src, "nonce", frame.dqpn, message.nonce))
        if not self._named.issuperset(named):
            self._report.add(
                "dc-cnak",
                frame,
                f"no packet had nonce 0x{message.nonce:08X} and session {message.session:016x}",
            )
            return
        if frame.dropped:
            return
        connection = self._by_nonce.get((frame.dst, frame.dqpn, message.nonce))
        of_session = self._sessions.get((frame.src, message.session))
        if of_session is not None:
            connection = of_session
        if connection is None or connection.over:
            return
        executed = message.flags & dcformat.EXECUTED
        # Of a nonce alone it says that the connect did not arrive: it is sent again, as it was.
        stale = message.value == dcformat.STALE_SESSION and (of_session is not None or executed)
        if stale or message.value in _FINAL:
            connection.over = "CNAK"
        if stale:
            connection.stale = True
            if executed:
                connection.executed = unwrap(connection.next, message.psn)

    def _on_closing(self, frame: Frame, message: Message) -> None:
        """DISCONNECT and KEEPALIVE."""
        closing = message.subtype == DISCONNECT
        self._counts["disconnects" if closing else "keepalives"] += 1
        answer = message.subtype == KEEPALIVE and bool(message.flags & dcformat.ANSWER)
        target = frame.src if answer else frame.dst
        connection = self._sessions.get((target, message.session))
        self._named.add((frame.src, frame.dst, "session", message.session))
        if connection is None or not _between(connection, frame, answer):
            self._report.add(
                "dc-session",
                frame,
                f"{NAMES[message.subtype]} of session {message.session:016x}, which is not theirs",
            )
            return
        if not closing:
            return
        if not connection.over and not connection.all_acknowledged:
            self._report.add(
                "dc-unacknowledged",
                frame,
                f"PSNs up to {connection.next - 1 & 0xFFFFFF} were sent, all before "
                f"{_acknowledged(connection) & 0xFFFFFF} are acknowledged",
            )
        if unwrap(connection.next, message.psn) != connection.next:
            self._report.add(
                "dc-psn",
                frame,
                f"next PSN {message.psn}, should be {connection.next & 0xFFFFFF}",
            )
        connection.over = "DISCONNECT"

    def _on_request(self, frame: Frame, header: Header) -> None:
        self._counts["requests"] += 1
        connection = self._connection_of(frame, header)
        if connection is None:
            return
        if connection.over == "DISCONNECT":
            self._report.add("dc-closed", frame, "its session was closed by a DISCONNECT")
        elif self._newest[connection.stream] is not connection:
            newest = self._newest[connection.stream]
            self._report.add(
                "dc-one-target",
                frame,
                f"of the connection of frame {connection.frame}, the newest of its stream is that "
                f"of frame {newest.frame}",
            )
        if not header.form and connection.accepted is not None:
            if self._options.acts_on(frame, connection.accepted):
                self._report.add("dc-form", frame, "a nonce, but the session is known")
        psn = unwrap(connection.next, frame.psn)
        if not connection.first <= psn <= connection.next:
            self._report.add(
                "dc-psn",
                frame,
                f"PSN {frame.psn}, expected {connection.next & 0xFFFFFF} or a repetition from "
                f"{connection.first & 0xFFFFFF} on",
            )
        end = psn + psn_count(frame, connection.pmtu)
        connection.on_request(psn, end, frame)
        if connection.locks is not None:
            connection.locks.on_request(frame, connection.pmtu)

    def _connection_of(self, frame: Frame, header: Header) -> Connection | None:
        """That of a request, if it is the sender's."""
        if header.form:
            connection = self._sessions.get((frame.dst, header.session))
            name = f"session {header.session:016x}"
            self._named.add((frame.src, frame.dst, "session", header.session))
            if connection is None or connection.accepted is None:
                self._report.add("dc-session", frame, f"no ACCEPT has given {name}")
                return None
        else:
            connection = self._by_nonce.get((frame.src, header.source, header.nonce))
            name = f"nonce 0x{header.nonce:08X}"
            self._named.add((frame.src, frame.dst, "nonce", header.source, header.nonce))
            if connection is None:
                self._report.add("dc-nonce", frame, f"no CONNECT has had {name}")
                return None
        stream = (frame.src, header.source, header.stream)
        if stream == connection.stream and connection.target == (frame.dst, frame.dqpn):
            return connection
        self._report.add(
            "dc-session" if header.form else "dc-nonce-owner",
            frame,
            f"{name} is that of DCI 0x{connection.stream[1]:06X}, stream {connection.stream[2]}, "
            f"to DCT 0x{connection.target[1]:06X} (frame {connection.frame})",
        )
        return None

    def _on_response(self, frame: Frame, header: Header) -> None:
        self._counts["responses"] += 1
        if not header.form:
            return
        connection = self._sessions.get((frame.src, header.session))
        if connection is None:
            self._report.add(
                "dc-response-early", frame, f"no ACCEPT has given session {header.session:016x}"
            )
            return
        stream = (frame.dst, frame.dqpn, header.stream)
        if stream != connection.stream or connection.target != (frame.src, header.source):
            self._report.add(
                "dc-response-session",
                frame,
                f"session {header.session:016x} is that of DCI 0x{connection.stream[1]:06X}, "
                f"stream {connection.stream[2]}, to DCT 0x{connection.target[1]:06X}",
            )
            return
        psn = unwrap(connection.highest, frame.psn)
        if not connection.first <= psn < connection.highest:
            self._report.add(
                "dc-response-psn",
                frame,
                f"PSN {frame.psn}, the session's requests have {connection.first & 0xFFFFFF} to "
                f"{connection.highest - 1 & 0xFFFFFF}",
            )
            return
        if connection.locks is not None:
            connection.locks.on_response(frame)
        if not frame.dropped:
            connection.on_response(frame)


def _between(connection: Connection, frame: Frame, answer: bool) -> bool:
    """Whether a closing message, or an answer to one, goes from one end to the other."""
    initiator, number, _ = connection.stream
    address, target = connection.target
    if answer:
        return (frame.src, frame.dst, frame.dqpn) == (address, initiator, number)
    return (frame.src, frame.dst, frame.dqpn) == (initiator, address, target)


def _acknowledged(connection: Connection) -> int:
    """The PSN before which all is acknowledged."""
    return min([connection.acknowledged, *connection.due])


def _pmtu(message: Message) -> int:
    """Of a CONNECT or ACCEPT."""
    return _MTUS.get(message.value, _MTUS[5])


def _reason(value: int) -> str:
    """Name of the counter of such CNAKs."""
    name = REASONS[value if value < len(REASONS) else 0]
    return f"cnak_{name.replace(' ', '_')}"
