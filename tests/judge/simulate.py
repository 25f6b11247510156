# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Two small RC endpoints on a bad network: random dialogues that keep all rules, or break one.

They exist to try the checker on what no person would write down: losses, duplicates and reordering
in every combination. `bug` names one protection that an endpoint leaves out.
"""

import dataclasses
import heapq
import struct
from random import Random
from typing import Callable

import packets as p

_US, _MS = 1000, 1_000_000
_TIMEOUT_NS = 4 * _MS
_WINDOW = 24  # request packets under way
_MAX_RD_ATOMIC = 4
_RNR_CODE, _RNR_NS = 14, 1_280_000
_BASE = 1 << 24  # PSNs are unwrapped here
BUGS = {  # and the rule that must find it
    "ack-unseen": "ack-psn",
    "nak-again": "nak-repeated",
    "rnr-impatient": "rnr-wait",
    "msn-stuck": "msn-count",
    "other-bytes": "retransmit-content",
    "leave-hole": "retransmit-hole",
    "atomic-again": "atomic-replay",
    "read-again-other": "read-response-content",
    "read-short": "read-response-size",
    "read-rest-wrong": "read-retry-range",
    "ignore-nak": "nak-not-followed",
    "nak-high": "nak-sequence-psn",
    "ack-lower": "ack-backwards",
    "read-skip": "read-response-sequence",
    "go-back-too-far": "retransmit-acknowledged",
}


@dataclasses.dataclass
class Piece:
    """One request packet of the requester's list."""

    psn: int
    count: int
    operation: int
    headers: bytes
    payload: bytes
    length: int  # bytes that a READ asks for
    ack_request: bool
    progress: int = 0  # READ responses received


class World:
    """Time, the network, and the capture taken at one of the endpoints."""

    def __init__(self, seed: int, loss: float, tap: str, bug: str = ""):
        self.random = Random(seed)
        self.loss, self.tap, self.bug = loss, tap, bug
        self.pmtu = self.random.choice((256, 512))
        self.tells_drops = self.random.random() < 0.5
        self.now = 1_700_000_000_000_000_000
        self.capture: list[p.Packet] = []
        self._events: list[tuple[int, int, Callable, tuple]] = []
        self._count = 0

    def at(self, time_ns: int, action: Callable, *arguments) -> None:
        self._count += 1
        heapq.heappush(self._events, (time_ns, self._count, action, arguments))

    def run(self, until: int) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)

    def record(self, packet: p.Packet, node: str, direction: str, comment: str = "") -> None:
        if node == self.tap:
            self.capture.append(
                dataclasses.replace(
                    packet, time_ns=self.now, direction=direction, comment=comment
                )
            )

    def transmit(self, packet: p.Packet, source: "Node", target: "Node") -> None:
        self.record(packet, source.name, "out")
        random, loss = self.random, self.loss
        for _ in range(2 if random.random() < loss else 1):
            if random.random() < loss:
                continue
            delay = 20 * _US + random.randrange(5 * _US)
            if random.random() < loss:
                delay += random.randrange(300 * _US)
            else:
                # In order, unless chosen to be late.
                delay = max(delay, target.last_arrival + 100 - self.now)
                target.last_arrival = self.now + delay
            self.at(self.now + delay, target.on_packet, packet)


class Node:
    """A queue pair: requester and responder."""

    def __init__(self, world: World, name: str, ip: str, qpn: int, ends: tuple, psn: int,
                 messages: int):  # fmt: skip
        self.world, self.name, self.ip, self.qpn = world, name, ip, qpn
        self.last_arrival = 0
        self.inbound: p.Packet | None = None
        self.peer: Node
        self.requester = ends[0](self, psn, messages)
        self.responder = ends[1](self)

    def send(self, operation: int, psn: int, headers=b"", payload=b"", ack_request=False) -> None:
        packet = p.Packet(
            self.ip, self.peer.ip, operation, self.peer.qpn, psn, headers, payload,
            ack_request=ack_request,
        )  # fmt: skip
        self.world.transmit(packet, self, self.peer)

    def on_packet(self, packet: p.Packet) -> None:
        world = self.world
        if world.random.random() < world.loss / 2:
            world.record(packet, self.name, "in", "drop: chance")
            return
        world.record(packet, self.name, "in")
        self.inbound = world.capture[-1] if self.name == world.tap else None
        if p.READ_FIRST <= packet.opcode <= p.ATOMIC_ACK or packet.opcode == p.LOCK_RESPONSE:
            self.requester.on_response(packet)
        else:
            self.responder.on_request(packet)

    def mark_drop(self, reason: str) -> None:
        """The packet at hand is not used; some endpoints tell so in their captures."""
        if self.inbound and self.world.tells_drops:
            self.inbound.comment = f"drop: {reason}"

    def bug(self, name: str) -> bool:
        """Whether to make this mistake now: only the endpoint with the capture makes any."""
        world = self.world
        return world.bug == name and world.tap == self.name and world.random.random() < 0.5


class Requester:
    def __init__(self, node: Node, psn: int, messages: int):
        self.node = node
        self.pieces: list[Piece] = []
        self.next = psn + _BASE
        for _ in range(messages):
            self._add_message()
        self.acked = 0  # index of the first piece that is not acknowledged
        self.cursor = 0  # index of the next piece to send
        self.sent = 0  # index behind the last piece ever sent
        self.timer = 0  # number of the current timeout
        self.quiet_until = 0
        self.pumping = False

    def _add_message(self) -> None:
        random, pmtu = self.node.world.random, self.node.world.pmtu
        kind = random.choice(("send", "send", "write", "read", "atomic"))
        length = random.choice((0, 1, 17, pmtu, pmtu + 1, 3 * pmtu, random.randrange(5 * pmtu)))
        if kind == "read":
            self._add(p.READ, p.reth(length), b"", length, max(1, -(-length // pmtu)))
        elif kind == "atomic":
            self._add(p.FETCH_ADD, p.atomic_eth(0x7000, 1), b"")
        else:
            count = max(1, -(-length // pmtu))
            first = p.SEND_FIRST if kind == "send" else p.WRITE_FIRST
            for index in range(count):
                last = index == count - 1
                operation = first + (2 if last else 1 if index else 0)
                if count == 1:
                    operation = first + 4
                headers = p.reth(length) if kind == "write" and index == 0 else b""
                size = length - index * pmtu if last else pmtu
                asks = last if random.random() < 0.8 else False
                self._add(operation, headers, random.randbytes(size), ack_request=asks)

    def _add(self, operation, headers, payload, length=0, count=1, ack_request=True) -> None:
        piece = Piece(self.next, count, operation, headers, payload, length, ack_request)
        self.pieces.append(piece)
        self.next += count

    def pump(self) -> None:
        """Sends the next piece, if the window allows, and comes back for more."""
        self.pumping = False
        node, world = self.node, self.node.world
        if world.now < self.quiet_until:
            self.wake(self.quiet_until - world.now)
            return
        if self.cursor >= len(self.pieces):
            return
        piece = self.pieces[self.cursor]
        answered = (p.READ, p.FETCH_ADD)
        under_way = self.pieces[self.acked : self.cursor]
        due = sum(other.operation in answered for other in under_way)
        if self.cursor - self.acked >= _WINDOW:
            return
        if piece.operation in answered and due >= _MAX_RD_ATOMIC:
            return
        last_to_send = self.cursor == len(self.pieces) - 1
        self._transmit(piece, last_to_send)
        self.cursor += 1
        if self.cursor < self.sent and node.bug("leave-hole"):
            self.cursor += 1
        self.sent = max(self.sent, self.cursor)
        self.wake(world.random.choice((1, 1, 1, 50)) * _US)

    def _transmit(self, piece: Piece, ask: bool) -> None:
        node, pmtu = self.node, self.node.world.pmtu
        headers, payload, psn = piece.headers, piece.payload, piece.psn
        if piece.progress:
            done = piece.progress * pmtu
            psn += piece.progress
            if node.bug("read-rest-wrong"):
                done -= 1
            headers = p.reth(piece.length - done, 0x7F0000001000 + done)
        if self.cursor < self.sent and payload and node.bug("other-bytes"):
            payload = bytes([payload[0] ^ 1]) + payload[1:]
        # A retransmission asks for an acknowledgement more often.
        ask = ask or piece.ack_request or self.cursor < self.sent
        node.send(piece.operation, psn, headers, payload, ask)
        self._start_timer()

    def wake(self, delay: int) -> None:
        if not self.pumping:
            self.pumping = True
            self.node.world.at(self.node.world.now + delay, self.pump)

    def _start_timer(self) -> None:
        self.timer += 1
        self.node.world.at(self.node.world.now + _TIMEOUT_NS, self._on_timeout, self.timer)

    def _on_timeout(self, number: int) -> None:
        if number == self.timer and self.acked < len(self.pieces):
            self.cursor = self.acked
            if self.acked > 2 and self.node.bug("go-back-too-far"):
                self.cursor -= 2
                for piece in self.pieces[self.cursor : self.acked]:
                    piece.progress = 0
            self.wake(0)
            self._start_timer()

    def on_response(self, packet: p.Packet) -> None:
        if self.sent == 0:
            return
        newest = self.pieces[self.sent - 1]
        psn = newest.psn + ((packet.psn - newest.psn + 0x800000) & 0xFFFFFF) - 0x800000
        kind = packet.headers[0] >> 5 if packet.opcode == p.ACK else 0
        before = self.acked
        if psn < newest.psn + newest.count:
            self._acknowledge(psn if kind == 0 else psn - 1, packet.opcode)
        self.cursor = max(self.cursor, self.acked)
        current = self.pieces[self.acked] if self.acked < len(self.pieces) else None
        if kind and current and current.psn <= psn < newest.psn + newest.count:
            if kind == 1:
                wait = _RNR_NS // 2 if self.node.bug("rnr-impatient") else _RNR_NS
                self.quiet_until = self.node.world.now + wait
            if not (kind == 3 and self.node.bug("ignore-nak")):
                self.cursor = self.acked
        if self.acked > before:
            self._start_timer()
        self.wake(max(0, self.quiet_until - self.node.world.now))

    def _acknowledge(self, psn: int, operation: int) -> None:
        while self.acked < self.sent:
            piece = self.pieces[self.acked]
            if piece.psn > psn:
                return
            if piece.operation == p.READ:
                if operation not in (p.READ_FIRST, p.READ_MIDDLE, p.READ_LAST, p.READ_ONLY):
                    return
                if psn != piece.psn + piece.progress:
                    return
                piece.progress += 1
                if piece.progress < piece.count:
                    return
            elif piece.operation == p.FETCH_ADD and (operation != p.ATOMIC_ACK or psn != piece.psn):
                return
            self.acked += 1

    @property
    def done(self) -> bool:
        return self.acked == len(self.pieces)


class Responder:
    def __init__(self, node: Node):
        self.node = node
        self.expected: int | None = None
        self.msn = 0
        self.nak_sent = False
        self.busy_until = 0
        self.atomics: dict[int, int] = {}
        self.value = 0

    def on_request(self, packet: p.Packet) -> None:
        if self.expected is None:
            self.expected = self.node.peer.requester.pieces[0].psn
        psn = self.expected + ((packet.psn - self.expected + 0x800000) & 0xFFFFFF) - 0x800000
        if psn == self.expected:
            self._execute(packet, psn)
        elif psn < self.expected:
            self._repeat(packet, psn)
        else:
            self.node.mark_drop("out of sequence")
            if not self.nak_sent or self.node.bug("nak-again"):
                high = 1 if self.node.bug("nak-high") else 0
                self.nak_sent = True
                self._acknowledge(self.expected + high, p.NAK_SEQUENCE)

    def _execute(self, packet: p.Packet, psn: int) -> None:
        node, random = self.node, self.node.world.random
        takes_receive = packet.opcode in (p.SEND_FIRST, p.SEND_ONLY)
        if takes_receive and random.random() < 0.05:
            self.node.mark_drop("receiver not ready")
            self._acknowledge(psn, p.RNR_NAK | _RNR_CODE)
            self.nak_sent = True
            return
        self.nak_sent = False
        ends = packet.opcode not in (p.SEND_FIRST, p.SEND_MIDDLE, p.WRITE_FIRST, p.WRITE_MIDDLE)
        if ends and not node.bug("msn-stuck"):
            self.msn += 1
        if packet.opcode == p.READ:
            length = struct.unpack(">I", packet.headers[12:])[0]
            self.expected += max(1, -(-length // node.world.pmtu))
            self._read(psn, length)
        elif packet.opcode == p.FETCH_ADD:
            self.expected += 1
            self.atomics[psn] = self.value
            self.value += 1
            self._atomic(psn)
        else:
            self.expected += 1
            if node.bug("ack-unseen"):
                self._acknowledge(psn + 1)
            elif packet.ack_request or random.random() < 0.2:
                self._acknowledge(psn - (3 if node.bug("ack-lower") else 0))

    def _repeat(self, packet: p.Packet, psn: int) -> None:
        if packet.opcode == p.READ:
            length = struct.unpack(">I", packet.headers[12:])[0]
            self._read(psn, length, self.node.bug("read-again-other"))
        elif packet.opcode == p.FETCH_ADD:
            if self.node.bug("atomic-again"):
                self.atomics[psn] = self.value
                self.value += 1
            self._atomic(psn)
        else:
            self.node.mark_drop("duplicate")
            if packet.ack_request:
                self._acknowledge(self.expected - 1)

    def _acknowledge(self, psn: int, syndrome: int = p.NO_CREDITS) -> None:
        self.node.send(p.ACK, psn, p.aeth(syndrome, self.msn))

    def _atomic(self, psn: int) -> None:
        headers = p.aeth(p.NO_CREDITS, self.msn) + struct.pack(">Q", self.atomics[psn])
        self.node.send(p.ATOMIC_ACK, psn, headers)

    def _read(self, psn: int, length: int, other: bool = False) -> None:
        """All responses at once. Their bytes depend on where they end, as a resumed READ's do."""
        node, pmtu = self.node, self.node.world.pmtu
        count = max(1, -(-length // pmtu))
        for index in range(count):
            last = index == count - 1
            operation = p.READ_LAST if last else p.READ_FIRST if index == 0 else p.READ_MIDDLE
            operation = p.READ_ONLY if count == 1 else operation
            size = length - index * pmtu if last else pmtu
            if last and size and node.bug("read-short"):
                size -= 1
            if node.bug("read-skip"):
                continue
            headers = b"" if operation == p.READ_MIDDLE else p.aeth(p.NO_CREDITS, self.msn)
            node.send(operation, psn + index, headers, p.pattern(size, psn + index + other))


def dialogue(
    seed: int, loss: float, tap: str, bug: str = "", qpns: tuple[int, int] = (0x11, 0x22),
    requester: type[Requester] = Requester, responder: type[Responder] = Responder,
) -> list[p.Packet]:
    """The capture taken at endpoint `tap` ("a" or "b") of one random dialogue, both ways."""
    world = World(seed, loss, tap, bug)
    random = world.random
    first = [random.choice((0, 0xFFFFF0, random.randrange(1 << 24))) for _ in range(2)]
    ends = (requester, responder)
    a = Node(world, "a", "192.0.2.1", qpns[0], ends, first[0], random.randrange(1, 30))
    b = Node(world, "b", "192.0.2.2", qpns[1], ends, first[1], random.randrange(1, 30))
    a.peer, b.peer = b, a
    a.requester.wake(0)
    b.requester.wake(0)
    start = world.now
    while not (a.requester.done and b.requester.done) and world.now < start + 2000 * _MS:
        before = world.now
        world.run(world.now + 10 * _MS)
        if world.now == before:
            break
    if not bug and not (a.requester.done and b.requester.done):
        raise AssertionError(f"seed {seed}: the dialogue itself did not come to its end")
    return world.capture
