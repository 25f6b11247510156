# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The endpoints of simulate.py with scopes among their messages: locks that are granted, that fail
and that wait, on the same bad network. `bug` names one protection that an endpoint leaves out."""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "wireshark"))

import encoder as e  # noqa: E402
import packets as p  # noqa: E402
import simulate  # noqa: E402
from simulate import Node, World  # noqa: E402

_MS = 1_000_000
_EXCLUSIVE, _RELEASE = 1, 3
_GRANTED, _WAITING, _FAILED, _RELEASED, _FLUSHED = range(1, 6)
_TRIES = 1
_RESEND = 4
_TIMEOUT_CODE, _SIGN_NS = 9, _MS  # 2.1 ms, the requester's own is longer
_PACKETS = (4, 5, 6, 8)  # of a scope, the acquire not counted
BUGS = {  # and the rule that must find it
    "other-answer": "lock-replay",
    "other-bytes-in-scope": "lock-read-replay",
    "executed": "lock-failed-scope",
    "token-again": "lock-token",
    "impatient": "lock-waiting",
    "other-scope": "lock-answer",
    "grant-late": "lock-order",
}
ANSWERED = (p.READ, p.FETCH_ADD, e.LOCK_REQUEST)


class Requester(simulate.Requester):
    scopes = 0

    def _add_message(self) -> None:
        random = self.node.world.random
        if random.random() < 0.5:
            super()._add_message()
            return
        self.scopes += 1
        packets = random.choice(_PACKETS)
        flags = random.choice((0, 0, _RESEND))
        pmtu = self.node.world.pmtu
        kinds = [random.choice(("write", "read", "atomic")) for _ in range(packets - 1)]
        lengths = [random.randrange(1, 4 * pmtu) if kind == "read" else 1 for kind in kinds]
        psns = sum(-(-length // pmtu) for length in lengths) + min(packets, 1)
        self._add_lock(_EXCLUSIVE, scope_psns=psns, flags=flags)
        for kind, length in zip(kinds, lengths):
            if kind == "write":
                self._add(p.WRITE_ONLY, p.reth(20), random.randbytes(20), ack_request=False)
            elif kind == "read":
                count = -(-length // pmtu)
                self._add(p.READ, p.reth(length), b"", length, count)
            else:
                self._add(p.FETCH_ADD, p.atomic_eth(0x7000, 1), b"")
        self._add_lock(_RELEASE)

    def _add_lock(self, subtype: int, **values) -> None:
        fields = {"subtype": subtype, "scope": self.scopes, "va": 0x8000, "tries": 5,
                  "timeout": _TIMEOUT_CODE}  # fmt: skip
        named = {f"lock.{name}": value for name, value in (fields | values).items()}
        self._add(e.LOCK_REQUEST, e.encode(e.LKETH, named), b"")

    def on_response(self, packet: p.Packet) -> None:
        if packet.opcode != e.LOCK_RESPONSE:
            super().on_response(packet)
            return
        if self.sent == 0:
            return
        newest = self.pieces[self.sent - 1]
        psn = newest.psn + ((packet.psn - newest.psn + 0x800000) & 0xFFFFFF) - 0x800000
        before = self.acked
        self._acknowledge(psn - 1, p.ACK)
        piece = self.pieces[self.acked] if self.acked < self.sent else None
        if piece is not None and piece.psn == psn and piece.operation in ANSWERED:
            if packet.headers[0] != _WAITING:
                self.acked += 1
            elif self.node.bug("impatient"):
                self.cursor = self.acked
            else:
                self._start_timer()
        self.cursor = max(self.cursor, self.acked)
        if self.acked > before:
            self._start_timer()
        self.wake(max(0, self.quiet_until - self.node.world.now))

    def _acknowledge(self, psn: int, operation: int) -> None:
        """Not beyond a lock request."""
        for piece in self.pieces[self.acked : self.sent]:
            if piece.operation == e.LOCK_REQUEST and piece.psn <= psn:
                psn, operation = piece.psn - 1, p.ACK
                break
        super()._acknowledge(psn, operation)


class Responder(simulate.Responder):
    def __init__(self, node: Node):
        super().__init__(node)
        self.token = 7
        self.answers: dict[int, dict] = {}  # by PSN
        self.scope: int | None = None  # open
        self.failed: int | None = None  # scope that is not executed
        self.in_scope: set[int] = set()  # PSNs of READs
        self.waiting: int | None = None  # PSN of the acquire that waits
        self.parked: list[tuple[p.Packet, int]] = []  # behind it

    def _execute(self, packet: p.Packet, psn: int) -> None:
        if self.waiting is not None:
            self.nak_sent = False
            self.parked.append((packet, psn))
            self.expected = psn + self._count(packet)
        elif packet.opcode == e.LOCK_REQUEST:
            self._lock(packet, psn)
        elif self.failed is not None and not self.node.bug("executed"):
            self._flush(packet, psn)
        else:
            if packet.opcode == p.READ and self.scope is not None:
                self.in_scope.add(psn)
            super()._execute(packet, psn)

    def _count(self, packet: p.Packet) -> int:
        if packet.opcode != p.READ:
            return 1
        length = struct.unpack(">I", packet.headers[12:])[0]
        return max(1, -(-length // self.node.world.pmtu))

    def _lock(self, packet: p.Packet, psn: int) -> None:
        random = self.node.world.random
        subtype, flags, scope = struct.unpack(">BBH", packet.headers[:4])
        self.nak_sent = False
        if subtype == _RELEASE:
            self._answer(psn, _FLUSHED if self.failed == scope else _RELEASED, scope)
            self.scope = self.failed = None
        elif flags & _RESEND and random.random() < 0.4:
            self.node.mark_drop("receiver not ready")
            self._acknowledge(psn, p.RNR_NAK | simulate._RNR_CODE)
            self.nak_sent = True
            return
        elif not flags & _RESEND and random.random() < 0.4:
            self.waiting = psn
            self._sign(psn, scope)
            until = self.node.world.now + random.randrange(6 * _MS)
            self.node.world.at(until, self._decide, psn, scope)
        else:
            self._outcome(psn, scope)
        self.expected = psn + 1

    def _sign(self, psn: int, scope: int) -> None:
        if self.waiting == psn:
            self._say({"status": _WAITING, "scope": scope, "looked": 1}, psn)
            self.node.world.at(self.node.world.now + _SIGN_NS, self._sign, psn, scope)

    def _decide(self, psn: int, scope: int) -> None:
        parked, self.parked, self.waiting = self.parked, [], None
        expected, nak_sent = self.expected, self.nak_sent
        self.node.inbound = None  # what is refused here came before
        self._outcome(psn, scope)
        for packet, at in parked:
            if self.waiting is None:
                self.expected = at
            self._execute(packet, at)
            if self.waiting is None and self.expected == at:
                return  # refused with RNR, and so all behind it
        self.expected, self.nak_sent = max(expected, self.expected), nak_sent

    def _outcome(self, psn: int, scope: int) -> None:
        if self.node.world.random.random() < 0.7:
            self.token += not self.node.bug("token-again")
            self.scope = scope
            self._answer(psn, _GRANTED, scope)
        else:
            self.failed = scope
            self._answer(psn, _FAILED, scope)

    def _flush(self, packet: p.Packet, psn: int) -> None:
        if packet.opcode == p.WRITE_ONLY:
            super()._execute(packet, psn)
            return
        self.nak_sent = False
        self.expected = psn + self._count(packet)
        self._answer(psn, _FLUSHED, self.failed)

    def _answer(self, psn: int, status: int, scope: int) -> None:
        self.msn += 1
        fields = {"status": status, "scope": scope, "previous": self.token}
        if status in (_GRANTED, _RELEASED):
            fields["token"] = self.token
        elif status == _FAILED:
            fields |= {"cause": _TRIES, "looked": 5}
        self.answers[psn] = fields
        if status == _GRANTED and self.node.bug("grant-late"):
            return
        if self.node.bug("other-scope"):
            fields = fields | {"scope": scope + 1}
        self._say(fields, psn)

    def _say(self, fields: dict, psn: int) -> None:
        named = {f"lock.{name}": value for name, value in (fields | {"msn": self.msn}).items()}
        header = e.encode(e.lkaeth_layout(fields["status"]), named)
        self.node.send(e.LOCK_RESPONSE, psn, header)

    def _acknowledge(self, psn: int, syndrome: int = p.NO_CREDITS) -> None:
        """Nothing from what waits on."""
        if self.waiting is not None and syndrome == p.NO_CREDITS:
            psn = min(psn, self.waiting - 1)
        super()._acknowledge(psn, syndrome)

    def _repeat(self, packet: p.Packet, psn: int) -> None:
        if self.waiting is not None and psn >= self.waiting:
            self.node.mark_drop("duplicate")
        elif psn in self.answers:
            fields = self.answers[psn]
            if self.node.bug("other-answer"):
                fields = fields | {"previous": 0}
            self._say(fields, psn)
        else:
            super()._repeat(packet, psn)

    def _read(self, psn: int, length: int, other: bool = False) -> None:
        repeated = psn in self.in_scope and self.node.bug("other-bytes-in-scope")
        super()._read(psn, length, other or repeated)


def dialogue(seed: int, loss: float, tap: str, bug: str = "") -> list[p.Packet]:
    """As simulate.dialogue."""
    return simulate.dialogue(seed, loss, tap, bug, requester=Requester, responder=Responder)
