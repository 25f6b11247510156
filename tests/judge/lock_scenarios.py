# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Dialogues with locks, over RC and over dynamic connections: good ones, and for each rule some
that break it (LK-1 to LK-6, LK-15, LK-20 to LK-23, LK-30). They join those of scenarios.py; the
layouts are the encoder's of the dissector's tests."""

import dataclasses

import dc_scenarios
import packets as p
import scenarios
from dc_scenarios import e
from packets import Conversation, Packet
from scenarios import psn

OPTIONS = ("--locks", "--race-us", "0", "--memory-changes")
DC_OPTIONS = (*OPTIONS, "--dynamic-connections")
EXCLUSIVE, SHARED, RELEASE, CANCEL, SEVERAL, FOREIGN, FOREIGN_RELEASE = 1, 2, 3, 5, 6, 7, 8
STORE_FORWARD, FIFO, RESEND, ADD = 1, 2, 4, 8
GRANTED, WAITING, FAILED, RELEASED, FLUSHED, CANCELED = range(1, 7)
TRIES, WAIT, BY_CANCEL, TOO_BIG, NOT_OWNER, EXPIRED, TOO_LATE = range(1, 8)
WORD_A, WORD_B = 0x7F0000005000, 0x7F0000005008
_MS = 1_000_000
_TIMEOUT = 10  # code of 4.194 ms
_RNR_CODE = 20  # 10.24 ms


class _Locks:
    """What the dialogues of both services have in common; scope and word are attributes."""

    scope, word = 7, WORD_A

    def _encoded(self, layout: tuple, **values) -> bytes:
        return e.encode(layout, {f"lock.{name}": value for name, value in values.items()})

    def lock(self, subtype: int, at: int, psns: int = 0, payload: bytes = b"", **values) -> None:
        fields = {"subtype": subtype, "scope": self.scope, "va": self.word, "r_key": 0x1234,
                  "tries": 5, "timeout": _TIMEOUT, "scope_psns": psns}  # fmt: skip
        header = self._encoded(e.LKETH, **fields | values)
        self.request(e.LOCK_REQUEST, at, payload, self.front() + header, ack_request=True)

    def say(self, status: int, at: int, msn: int, value: int = 0, **values) -> None:
        """The answer to a lock request."""
        name = e.LOCK_VALUES[status].removeprefix("lock.")
        fields = {"status": status, "scope": self.scope, "msn": msn, name: value}
        header = self._encoded(e.lkaeth_layout(status), **fields | values)
        self.respond(e.LOCK_RESPONSE, at, self.front(is_answer=True) + header)

    def whole(self, at: int, psns: int = 5, **values) -> None:
        """A scope of a WRITE, a READ with three responses, and the release."""
        self.lock(EXCLUSIVE, psn(at), psns, **values)
        self.put(psn(at + 1))
        self.get(psn(at + 2))
        self.lock(RELEASE, psn(at + 5))

    def whole_answer(self, at: int, msn: int, token: int = 41) -> None:
        self.say(GRANTED, psn(at), msn + 1, token)
        self.ack(psn(at + 1), msn + 2)
        self.got(psn(at + 2), msn + 3)
        self.say(RELEASED, psn(at + 5), msn + 4, token)


class OverRc(_Locks, Conversation):
    def __init__(self, node: int = 1, **fields) -> None:
        super().__init__(requester=f"192.0.2.{node}", requester_qpn=0x10 + node,
                         responder="192.0.2.100", responder_qpn=0x20 + node, **fields)  # fmt: skip

    def front(self, is_answer: bool = False) -> bytes:
        return b""

    def put(self, at: int) -> None:
        self.write(at, 100)

    def get(self, at: int) -> None:
        self.read(at, 600)

    def got(self, at: int, msn: int) -> None:
        self.read_responses(at, 600, msn)


class OverDc(_Locks, dc_scenarios.Dialogue):
    def __init__(self) -> None:
        super().__init__()
        self.connect(psn(0), flags=1)
        self.accept(psn(0))

    def front(self, is_answer: bool = False) -> bytes:
        return self.header(1, self.responder_qpn if is_answer else dc_scenarios.DCI)

    def put(self, at: int) -> None:
        self.ask(at, operation=p.WRITE_ONLY, headers=p.reth(100), payload=p.pattern(100, at))

    def get(self, at: int) -> None:
        self.read(at, 600)

    def got(self, at: int, msn: int) -> None:
        for index, operation in enumerate((p.READ_FIRST, p.READ_MIDDLE, p.READ_LAST)):
            headers = b"" if operation == p.READ_MIDDLE else p.aeth(31, msn)
            size = 88 if operation == p.READ_LAST else 256
            self.reply(operation, at + index & 0xFFFFFF, headers, p.pattern(size, at + index))


# Good dialogues. The comments count packets from 0; over a dynamic connection there are two before.


def one_round_trip(c) -> list[Packet]:
    c.whole(0)  # 0-3
    c.whole_answer(0, 0)  # 4-9
    return c.packets


def fails(c) -> list[Packet]:
    """It waits, at last in vain; the connection can be used afterwards."""
    c.whole(0)  # 0-3
    for _ in range(2):
        c.wait(2 * _MS)
        c.say(WAITING, psn(0), 0, 1)  # 4, 5
    c.say(FAILED, psn(0), 1, 5, cause=TRIES)  # 6
    c.ack(psn(1), 2)  # 7
    c.say(FLUSHED, psn(2), 3)  # 8
    c.say(FLUSHED, psn(5), 4)  # 9
    c.put(psn(6))  # 10
    c.ack(psn(6), 5)  # 11
    return c.packets


def lost_answers(c) -> list[Packet]:
    """All is sent again and answered as before."""
    c.whole(0)  # 0-3
    c.whole_answer(0, 0)  # 4-9
    for packet in c.packets[-6:]:
        packet.comment = "drop: test"
    c.wait(50 * _MS)
    c.whole(0)  # 10-13
    c.say(GRANTED, psn(0), 4, 41)  # 14
    c.ack(psn(1), 4)  # 15
    c.got(psn(2), 4)  # 16-18
    c.say(RELEASED, psn(5), 4, 41)  # 19
    return c.packets


def plain(c) -> list[Packet]:
    """A lock held by itself; one that is canceled while it waits; a cancel that is too late."""
    c.lock(SHARED, psn(0))  # 0
    c.say(GRANTED, psn(0), 1, 3)  # 1
    c.put(psn(1))  # 2
    c.ack(psn(1), 2)  # 3
    c.lock(CANCEL, psn(2))  # 4
    c.say(FAILED, psn(2), 3, cause=TOO_LATE)  # 5
    c.lock(RELEASE, psn(3))  # 6
    c.say(RELEASED, psn(3), 4, 3)  # 7
    c.scope = 8
    c.lock(EXCLUSIVE, psn(4))  # 8
    c.say(WAITING, psn(4), 4, 1)  # 9
    c.lock(CANCEL, psn(5))  # 10
    c.say(FAILED, psn(4), 5, cause=BY_CANCEL)  # 11
    c.say(CANCELED, psn(5), 6)  # 12
    c.lock(RELEASE, psn(6))  # 13
    c.say(FAILED, psn(6), 7, cause=NOT_OWNER)  # 14
    return c.packets


def resent(c) -> list[Packet]:
    """The target does not wait: RNR NAK, and all of the scope again."""
    c.whole(0, flags=RESEND | FIFO)  # 0-3
    c.ack(psn(0), 0, p.RNR_NAK | _RNR_CODE)  # 4
    c.wait(10_500_000)
    c.whole(0, flags=RESEND | FIFO)  # 5-8
    c.whole_answer(0, 0)  # 9-14
    return c.packets


def sent_again_after_the_timeout(c) -> list[Packet]:
    """The target has stopped to say that the request waits: the acquire itself may be lost."""
    c.lock(EXCLUSIVE, psn(0))  # 0
    c.say(WAITING, psn(0), 0, 1)  # 1
    c.wait(5 * _MS)
    c.lock(EXCLUSIVE, psn(0))  # 2
    c.say(WAITING, psn(0), 0, 1)  # 3
    c.wait(1 * _MS)
    c.say(GRANTED, psn(0), 1, 9)  # 4
    return c.packets


def of_all_kinds(c) -> list[Packet]:
    """Several words, one whose layout the target does not know, an atomic in a scope that fails."""
    word = c._encoded(e.LOCK_WORD, r_key=0x1234, va=WORD_B, shared=1)
    c.lock(SEVERAL, psn(0), 2, word, flags=STORE_FORWARD)  # 0
    c.put(psn(1))  # 1
    c.lock(RELEASE, psn(2))  # 2
    c.say(GRANTED, psn(0), 1, 4)  # 3
    c.ack(psn(1), 2)  # 4
    c.say(RELEASED, psn(2), 3, 4)  # 5
    operation = c._encoded(e.LOCK_OPERATION, compare=1, compare_mask=3, swap_add=2, mask=3)
    for token in (0, 0):
        c.lock(FOREIGN, psn(3), 0, operation, flags=ADD)  # 6, 7
        c.say(GRANTED, psn(3), 4, token, previous=1)  # 8, 9
        c.packets[-1].comment = "drop: test"
    c.packets[-1].comment = ""
    c.lock(FOREIGN_RELEASE, psn(4), 0, operation)  # 10
    c.say(RELEASED, psn(4), 5)  # 11
    c.scope = 9
    c.lock(EXCLUSIVE, psn(5), 2)  # 12
    header = p.atomic_eth(0x7F0000002000, 1)
    front = c.front()
    c.request(p.FETCH_ADD, psn(6), headers=front + header, ack_request=True)  # 13
    c.lock(RELEASE, psn(7))  # 14
    c.say(FAILED, psn(5), 6, 1, cause=WAIT)  # 15
    c.say(FLUSHED, psn(6), 7)  # 16
    c.say(FLUSHED, psn(7), 8)  # 17
    return c.packets


def together(*conversations: Conversation) -> list[Packet]:
    return sorted((one for c in conversations for one in c.packets), key=lambda one: one.time_ns)


class Contenders:
    """Two initiators and one target, in turns."""

    def __init__(self) -> None:
        self.one, self.other = OverRc(1), OverRc(3)

    def turn(self) -> OverRc:
        """The other one goes on, as `one`."""
        self.other.now_ns = max(self.one.now_ns, self.other.now_ns)
        self.one, self.other = self.other, self.one
        return self.one

    def packets(self) -> list[Packet]:
        return together(self.one, self.other)


def in_turns() -> list[Packet]:
    both = Contenders()
    both.one.whole(0)  # 0-3
    both.turn().whole(0)  # 4-7
    both.turn().whole_answer(0, 0, 41)  # 8-13
    both.turn().whole_answer(0, 0, 42)  # 14-19
    return both.packets()


def readers() -> list[Packet]:
    both = Contenders()
    both.one.lock(SHARED, psn(0))  # 0
    both.turn().lock(SHARED, psn(0))  # 1
    both.turn().say(GRANTED, psn(0), 1, 5)  # 2
    both.turn().say(GRANTED, psn(0), 1, 6)  # 3
    for msn in (2, 2):
        both.turn().lock(RELEASE, psn(1))  # 4, 6
        both.one.say(RELEASED, psn(1), msn, 5)  # 5, 7
    return both.packets()


def expired() -> list[Packet]:
    """The owner comes back when its lease has ended and somebody else has the lock."""
    both = Contenders()
    both.one.lock(EXCLUSIVE, psn(0))  # 0
    both.one.say(GRANTED, psn(0), 1, 5)  # 1
    both.turn().lock(EXCLUSIVE, psn(0))  # 2
    both.one.say(GRANTED, psn(0), 1, 6)  # 3
    both.turn().lock(RELEASE, psn(1))  # 4
    both.one.say(FAILED, psn(1), 2, cause=EXPIRED)  # 5
    return both.packets()


def two_words() -> list[Packet]:
    """What happens to one word is nothing to the other."""
    both = Contenders()
    both.other.word = WORD_B
    both.one.lock(EXCLUSIVE, psn(0))  # 0
    both.one.say(GRANTED, psn(0), 1, 5)  # 1
    both.turn().lock(EXCLUSIVE, psn(0))  # 2
    both.one.say(GRANTED, psn(0), 1, 5)  # 3
    both.turn().lock(RELEASE, psn(1))  # 4
    both.one.say(RELEASED, psn(1), 2, 5)  # 5
    return both.packets()


ON_BOTH = (
    one_round_trip, fails, lost_answers, plain, resent, sent_again_after_the_timeout, of_all_kinds,
)  # fmt: skip
BETWEEN_TWO = (in_turns, readers, expired, two_words)
GOOD: dict[str, tuple] = {}
for build in ON_BOTH:
    GOOD[f"locks: {build.__name__}"] = (lambda some=build: some(OverRc()), OPTIONS)
    GOOD[f"DC locks: {build.__name__}"] = (lambda some=build: some(OverDc()), DC_OPTIONS)
for build in BETWEEN_TWO:
    GOOD[f"locks: {build.__name__}"] = (build, OPTIONS)
scenarios.CLEAN.update(GOOD)


def change_header(packet: Packet, **values) -> Packet:
    """With other values of its LKETH or LKAETH."""
    layout = e.LKETH if packet.opcode == e.LOCK_REQUEST else e.lkaeth_layout(1)
    size = e.size_of(layout)
    front, data = packet.headers[:-size], packet.headers[-size:]
    number, shift = int.from_bytes(data, "big"), size * 8
    for name, bits in layout:
        shift -= bits
        value = values.get(name.removeprefix("lock."))
        if value is not None:
            number = number & ~(((1 << bits) - 1) << shift) | value << shift
    return dataclasses.replace(packet, headers=front + number.to_bytes(size, "big"))


def breach(rule: str, *also: str, options=OPTIONS):
    return scenarios.breach(rule, *options, also=also)


def change(rule: str, build, index: int, also=(), **values) -> None:
    """Over RC with one header changed."""

    def damaged() -> list[Packet]:
        packets = build() if build in BETWEEN_TWO else build(OverRc())
        packets[index] = change_header(packets[index], **values)
        return packets

    what = f"{build.__name__}[{index}] {values}"
    scenarios.BREACHES.append(
        scenarios.Breach(rule, what, damaged, OPTIONS, frozenset(also))
    )


def changed(build, index: int, **fields) -> list[Packet]:
    packets = build() if build in BETWEEN_TWO else build(OverRc())
    packets[index] = dataclasses.replace(packets[index], **fields)
    return packets


def again(packet: Packet, behind: Packet, **fields) -> Packet:
    return dataclasses.replace(packet, time_ns=behind.time_ns + 1000, comment="", **fields)


# Format. What cannot be read is as if it were not there.


@breach("lock-format")
def unknown_subtype():
    c = OverRc()
    c.lock(4, psn(0))
    return c.packets


def of_size(subtype: int, size: int) -> None:
    def build() -> list[Packet]:
        c = OverRc()
        c.lock(subtype, psn(0), payload=bytes(size))
        return c.packets

    what = f"subtype {subtype} with {size} bytes"
    scenarios.BREACHES.append(scenarios.Breach("lock-format", what, build, OPTIONS))


for subtype, size in (
    (EXCLUSIVE, 16), (RELEASE, 4), (CANCEL, 32), (SEVERAL, 0), (SEVERAL, 24), (SEVERAL, 128),
    (FOREIGN, 0), (FOREIGN, 28), (FOREIGN_RELEASE, 36),
):  # fmt: skip
    of_size(subtype, size)

change("lock-format", plain, 6, reserved=1)
change("lock-format", plain, 6, flags=0x10)
change("lock-format", plain, 6, flags=ADD)
change("lock-format", plain, 6, timeout=32)
change("lock-format", plain, 3 + 4, reserved=1)
change("lock-format", plain, 7, cause=TRIES, also=("lock-answer",))
change("lock-format", plain, 14, cause=0)
change("lock-format", plain, 14, cause=8, also=("lock-answer",))
change("lock-format", plain, 14, status=0, also=("ack-owed",))
change("lock-format", plain, 14, status=7, also=("ack-owed",))


@breach("lock-format")
def neither_shared_nor_exclusive():
    c = OverRc()
    c.lock(SEVERAL, psn(0), payload=c._encoded(e.LOCK_WORD, va=WORD_B, shared=2))
    c.say(GRANTED, psn(0), 1, 4)
    return c.packets


@breach("lock-format", options=DC_OPTIONS)
def reserved_bits_over_a_dynamic_connection():
    packets = plain(OverDc())
    packets[2 + 6] = change_header(packets[2 + 6], reserved=1)
    return packets


@breach("header-length", "dc-unacknowledged", options=DC_OPTIONS)
def no_session_header_to_a_dynamic_connection():
    c = OverDc()
    c.lock(EXCLUSIVE, psn(0))
    c.say(GRANTED, psn(0), 1, 4)
    c.packets[3].headers = c.packets[3].headers[12:]
    c.disconnect(psn(1))
    return c.packets


@breach("opcode-defined", options=("--race-us", "0"))
def locks_without_the_option():
    c = OverRc()
    c.lock(EXCLUSIVE, psn(0))
    return c.packets


@breach("opcode-defined")
def locks_of_a_dynamic_connection_without_its_option():
    c = OverDc()
    c.lock(EXCLUSIVE, psn(0))
    return c.packets[2:]


# What the requester does.


def scope_of(kinds: str, psns: int, release: int = 7) -> list[Packet]:
    """Request packets of a scope: A acquire, W WRITE, R release, C cancel; all are answered."""
    c = OverRc()
    for at, kind in enumerate(kinds):
        if kind == "W":
            c.put(psn(at))
        else:
            subtype, scope = {"A": (EXCLUSIVE, 7), "R": (RELEASE, release), "C": (CANCEL, 7)}[kind]
            c.lock(subtype, psn(at), psns if at == 0 else 0, scope=scope)
    for at, kind in enumerate(kinds):
        if kind == "W":
            c.ack(psn(at), at + 1)
        else:
            status, scope = {"A": (GRANTED, 7), "R": (RELEASED, release), "C": (FAILED, 7)}[kind]
            cause = TOO_LATE if kind == "C" else 0
            c.say(status, psn(at), at + 1, at, scope=scope, cause=cause)
    return c.packets


scenarios.CLEAN["locks: as many PSNs as announced"] = (lambda: scope_of("AWWR", 3), OPTIONS)
for what, arguments in {
    "release too early": ("AWRW", 3), "release too late": ("AWWR", 2), "no release": ("AWWW", 3),
    "release of another scope": ("AWR", 2, 8), "cancel inside": ("ACWR", 3),
    "cancel for a release": ("AWC", 2), "acquire for a release": ("AWA", 2),
}.items():  # fmt: skip
    scenarios.BREACHES.append(
        scenarios.Breach("lock-scope", what, lambda some=arguments: scope_of(*some), OPTIONS)
    )


def held_back(c) -> list[Packet]:
    """The release waits for the grant."""
    c.lock(EXCLUSIVE, psn(0), 2)
    c.put(psn(1))
    c.say(GRANTED, psn(0), 1, 41)
    c.lock(RELEASE, psn(2))
    c.ack(psn(1), 2)
    c.say(RELEASED, psn(2), 3, 41)
    return c.packets


@breach("lock-pipelined")
def release_behind_the_grant():
    return held_back(OverRc())


@breach("lock-pipelined", options=DC_OPTIONS)
def release_behind_the_grant_over_a_dynamic_connection():
    return held_back(OverDc())


@breach("lock-pipelined")
def release_behind_an_acknowledgement_of_its_write():
    packets = held_back(OverRc())
    packets[2], packets[4] = packets[4], packets[2]
    times = sorted(packet.time_ns for packet in packets)
    for packet, time_ns in zip(packets, times):
        packet.time_ns = time_ns
    packets[2:2] = [dataclasses.replace(packets[4])]
    packets[2].time_ns -= 25_000
    del packets[5]
    return packets


# An answer that did not get there holds nothing back, nor does one that came when the release was
# ready.
scenarios.CLEAN["locks: release behind a grant that was dropped"] = (
    lambda: changed(held_back, 2, comment="drop: test")[:4], (*OPTIONS, "--settle-ms", "9")
)
scenarios.CLEAN["locks: release as it was ready"] = (
    lambda: held_back(OverRc()), ("--locks", "--memory-changes", "--race-us", "1000")
)


def impatient(c, wait_ns: int, **values) -> list[Packet]:
    c.lock(EXCLUSIVE, psn(0), **values)
    c.wait(1 * _MS)
    c.say(WAITING, psn(0), 0, 1)
    c.wait(wait_ns)
    c.lock(EXCLUSIVE, psn(0), **values)
    c.say(GRANTED, psn(0), 1, 41)
    return c.packets


@breach("lock-waiting")
def sent_again_while_it_waits():
    return impatient(OverRc(), 4 * _MS)


@breach("lock-waiting", options=DC_OPTIONS)
def sent_again_while_it_waits_over_a_dynamic_connection():
    return impatient(OverDc(), 4 * _MS)


@breach("lock-waiting")
def sent_again_without_a_timeout():
    return impatient(OverRc(), 5000 * _MS, timeout=0)


def early_resend(c) -> list[Packet]:
    c.lock(EXCLUSIVE, psn(0), flags=RESEND)
    c.ack(psn(0), 0, p.RNR_NAK | _RNR_CODE)
    c.wait(9 * _MS)
    c.lock(EXCLUSIVE, psn(0), flags=RESEND)
    c.say(GRANTED, psn(0), 1, 41)
    return c.packets


@breach("lock-resend", options=DC_OPTIONS)
def before_the_rnr_timer_over_a_dynamic_connection():
    return early_resend(OverDc())


@breach("rnr-wait")
def acquire_before_the_rnr_timer():
    return early_resend(OverRc())


@breach("retransmit-content")
def another_scope_in_a_retransmission():
    packets = lost_answers(OverRc())
    packets[10] = change_header(packets[10], owner=9)
    return packets


@breach("retransmit-acknowledged")
def sent_again_though_it_was_answered():
    packets = lost_answers(OverRc())
    for packet in packets:
        packet.comment = ""
    return packets


# What the target answers.
change("lock-answer", plain, 1, scope=8)
change("lock-answer", plain, 1, status=RELEASED)
change("lock-answer", plain, 1, status=FLUSHED)
change("lock-answer", plain, 1, status=CANCELED)
change("lock-answer", plain, 7, status=GRANTED)
change("lock-answer", plain, 7, status=WAITING, msn=3)
change("lock-answer", plain, 5, cause=EXPIRED)
change("lock-answer", plain, 11, cause=NOT_OWNER)
change("lock-answer", plain, 12, status=RELEASED)
change("lock-answer", fails, 8, scope=9)
change("lock-answer", fails, 8, status=RELEASED)


@breach("lock-answer")
def waits_though_it_shall_not():
    packets = resent(OverRc())
    packets[9:9] = [change_header(packets[9], status=WAITING, msn=0)]
    packets[9].time_ns -= 1000
    return packets


@breach("lock-answer")
def in_the_middle_of_a_read():
    return changed(fails, 8, psn=psn(3))


@breach("lock-answer")
def flushed_write():
    packets = fails(OverRc())
    packets[7] = dataclasses.replace(packets[8], psn=psn(1), time_ns=packets[7].time_ns)
    return packets


@breach("lock-order")
def read_before_the_grant():
    packets = one_round_trip(OverRc())
    return [*packets[:4], *packets[5:], again(packets[4], packets[9])]


@breach("lock-order", options=DC_OPTIONS)
def released_before_the_read():
    packets = one_round_trip(OverDc())
    return [*packets[:8], again(packets[11], packets[7]), *packets[8:11]]


@breach("lock-order")
def acknowledged_only():
    packets = one_round_trip(OverRc())
    packets[4] = dataclasses.replace(packets[4], opcode=p.ACK, headers=p.aeth(31, 1))
    return packets


@breach("lock-order", "ack-owed")
def waiting_passes_a_lock_request_over():
    c = OverRc()
    c.lock(EXCLUSIVE, psn(0))
    c.lock(CANCEL, psn(1), scope=6)
    c.lock(EXCLUSIVE, psn(2), scope=8)
    c.say(GRANTED, psn(0), 1, 41)
    c.say(WAITING, psn(2), 2, 1, scope=8)
    return c.packets


@breach("lock-order")
def a_request_behind_one_that_waits():
    c = OverRc()
    c.lock(EXCLUSIVE, psn(0))
    c.put(psn(1))
    c.say(WAITING, psn(0), 0, 1)
    c.ack(psn(1), 2)
    return c.packets


change("lock-replay", lost_answers, 14, token=42)
change("lock-replay", lost_answers, 14, previous=1)
change("lock-replay", lost_answers, 19, token=42)
change("lock-replay", lost_answers, 14, status=FAILED, cause=TRIES)
change("lock-order", lost_answers, 14, status=WAITING, msn=0)
change("lock-replay", lost_answers, 19, status=FAILED, cause=NOT_OWNER)


@breach("lock-replay", options=DC_OPTIONS)
def another_token_over_a_dynamic_connection():
    packets = lost_answers(OverDc())
    packets[2 + 14] = change_header(packets[2 + 14], token=42)
    return packets


@breach("lock-read-replay")
def a_read_executed_again():
    return changed(lost_answers, 17, payload=bytes(256))


@breach("lock-read-replay", options=DC_OPTIONS)
def a_read_executed_again_over_a_dynamic_connection():
    packets = lost_answers(OverDc())
    packets[2 + 18] = dataclasses.replace(packets[2 + 18], payload=bytes(88))
    return packets


def executed_all_the_same(c) -> list[Packet]:
    c.whole(0)
    c.say(FAILED, psn(0), 1, 5, cause=TRIES)
    c.ack(psn(1), 2)
    c.got(psn(2), 3)
    c.say(FLUSHED, psn(5), 4)
    return c.packets


@breach("lock-failed-scope")
def read_of_a_failed_scope():
    return executed_all_the_same(OverRc())


@breach("lock-failed-scope", options=DC_OPTIONS)
def read_of_a_failed_scope_over_a_dynamic_connection():
    return executed_all_the_same(OverDc())


@breach("lock-failed-scope")
def released_though_it_failed():
    packets = fails(OverRc())
    packets[9] = change_header(packets[9], status=RELEASED)
    return packets


@breach("lock-failed-scope")
def atomic_of_a_failed_scope():
    packets = of_all_kinds(OverRc())
    packets[16] = dataclasses.replace(
        packets[16], opcode=p.ATOMIC_ACK, headers=p.aeth(31, 7) + bytes(8)
    )
    return packets


@breach("lock-failed-scope", "lock-order")
def failed_at_last():
    """Its answers come in the wrong order: it was executed before."""
    packets = executed_all_the_same(OverRc())
    failed = packets.pop(4)
    return [*packets, again(failed, packets[-1])]


@breach("lock-failed-scope")
def flushed_though_it_was_granted():
    c = OverRc()
    c.whole(0)
    c.say(GRANTED, psn(0), 1, 41)
    c.ack(psn(1), 2)
    c.say(FLUSHED, psn(2), 3)
    c.say(RELEASED, psn(5), 4, 41)
    return c.packets


@breach("lock-failed-scope", "lock-order")
def flushed_though_it_was_released():
    packets = flushed_though_it_was_granted()
    packets[6], packets[7] = again(packets[7], packets[5]), again(packets[6], packets[7])
    return packets


# Whom the target lets in.


def tokens(first: int, second: int, turns: str) -> list[Packet]:
    """A, R: acquire and release of one, G, E: their answers; lower case: those of the other."""
    both = Contenders()
    for letter in turns:
        c = both.one if letter.isupper() else both.other
        c.now_ns = max(both.one.now_ns, both.other.now_ns)
        token = first if letter.isupper() else second
        if letter in "Aa":
            c.lock(EXCLUSIVE, psn(0))
        elif letter in "Gg":
            c.say(GRANTED, psn(0), 1, token)
        elif letter in "Rr":
            c.lock(RELEASE, psn(1))
        else:
            c.say(RELEASED, psn(1), 2, token)
    return both.packets()


def breach_of(rule: str, first: int, second: int, turns: str, *also: str) -> None:
    what = f"{turns} with tokens {first} and {second}"
    scenarios.BREACHES.append(
        scenarios.Breach(
            rule, what, lambda: tokens(first, second, turns), OPTIONS, frozenset(also)
        )
    )


def clean(first: int, second: int, turns: str) -> None:
    name = f"locks: {turns} with tokens {first} and {second}"
    scenarios.CLEAN[name] = (lambda: tokens(first, second, turns), OPTIONS)


clean(5, 6, "AaGREgre")
clean(5, 6, "AaRrGEge")
clean(5, 6, "AaGgre")  # the lease of the first one ends
breach_of("lock-token", 5, 5, "AGREagre")
breach_of("lock-token", 5, 5, "AaGREgre")
breach_of("lock-token", 6, 5, "AGREagre")
breach_of("lock-token-order", 6, 5, "AaGREgre")
breach_of("lock-owner", 5, 6, "AGagREre")
breach_of("lock-owner", 5, 6, "AaGgREre")
breach_of("lock-owner-order", 5, 6, "AaGRgEre")


@breach("lock-owner")
def readers_and_a_writer():
    packets = readers()
    packets[0] = change_header(packets[0], subtype=EXCLUSIVE)
    return packets


@breach("lock-owner")
def a_writer_among_readers():
    packets = readers()
    packets[1] = change_header(packets[1], subtype=EXCLUSIVE)
    return packets


@breach("lock-owner")
def one_of_several_words():
    both = Contenders()
    word = both.one._encoded(e.LOCK_WORD, r_key=0x1234, va=WORD_B)
    both.one.lock(SEVERAL, psn(0), payload=word)
    both.one.say(GRANTED, psn(0), 1, 5)
    both.turn().lock(EXCLUSIVE, psn(0), va=WORD_B)
    both.one.say(GRANTED, psn(0), 1, 6)
    both.turn().lock(RELEASE, psn(1))
    both.one.say(RELEASED, psn(1), 2, 5)
    return both.packets()


@breach("lock-owner", options=DC_OPTIONS)
def over_two_services():
    """The one over RC, the other over a dynamic connection."""
    dc, rc = OverDc(), OverRc()
    rc.responder = dc.responder
    rc.now_ns = dc.now_ns
    rc.lock(EXCLUSIVE, psn(0))
    rc.say(GRANTED, psn(0), 1, 5)
    dc.now_ns = rc.now_ns
    dc.lock(EXCLUSIVE, psn(0))
    dc.say(GRANTED, psn(0), 1, 6)
    rc.now_ns = dc.now_ns
    rc.lock(RELEASE, psn(1))
    rc.say(RELEASED, psn(1), 2, 5)
    return together(dc, rc)


# What the rules for all requests say of lock requests.


def acknowledged_by_an_ack_alone() -> list[Packet]:
    c = OverRc()
    c.lock(EXCLUSIVE, psn(0))
    c.ack(psn(0), 1)
    return c.packets


def lost_before_it_waits(c, nak_first: bool) -> list[Packet]:
    """Something is asked for again, and so the acquire is sent again."""
    c.put(psn(0))
    c.packets[-1].comment = "drop: test"
    c.lock(EXCLUSIVE, psn(1))
    nak = [lambda: c.ack(psn(0), 0, p.NAK_SEQUENCE), lambda: c.put(psn(0)),
           lambda: c.lock(EXCLUSIVE, psn(1))]  # fmt: skip
    for step in nak:
        step()
    c.say(WAITING, psn(1), 1, 1)
    if not nak_first:
        c.put(psn(2))
        c.packets[-1].comment = "drop: test"
        c.put(psn(3))
        c.ack(psn(2), 1, p.NAK_SEQUENCE)
    c.lock(EXCLUSIVE, psn(1))
    if not nak_first:
        c.put(psn(2))
        c.put(psn(3))
    c.say(GRANTED, psn(1), 2, 41)
    if not nak_first:
        c.ack(psn(3), 4)
    return c.packets


def sent_again_after_what_was_ready() -> list[Packet]:
    """Something is asked for again while it waits; one packet more leaves before that."""
    c = OverRc()
    c.lock(EXCLUSIVE, psn(0))
    c.say(WAITING, psn(0), 0, 1)
    c.put(psn(1))
    c.packets[-1].comment = "drop: test"
    c.wait(2 * _MS)
    c.put(psn(2))
    c.ack(psn(1), 0, p.NAK_SEQUENCE)
    c.put(psn(3))
    c.lock(EXCLUSIVE, psn(0))
    for at in (1, 2, 3):
        c.put(psn(at))
    c.say(GRANTED, psn(0), 1, 41)
    c.ack(psn(3), 4)
    return c.packets


def sent_again_with_a_read() -> list[Packet]:
    """The requester goes back to a READ in front of what waits."""
    c = OverRc()
    for _ in range(2):
        c.get(psn(0))
        c.lock(EXCLUSIVE, psn(3))
        c.got(psn(0), 1)
        for packet in c.packets[2:5]:
            packet.comment = "drop: test"
        c.say(WAITING, psn(3), 1, 1)
        c.wait(1 * _MS)
    c.say(GRANTED, psn(3), 2, 41)
    return c.packets


def sent_again_for_an_old_nak() -> list[Packet]:
    """It says that it waits when the requester has to go back already. What is behind it has no
    answer yet, but NAKs when something gets lost."""
    c = OverRc()
    steps = [lambda: c.lock(EXCLUSIVE, psn(0))]
    for at, send in ((1, c.get), (4, c.put), (5, c.put), (6, c.get), (9, c.put), (10, c.put)):
        steps.append(lambda at=at, send=send: send(psn(at)))
    for lost, at in ((2, 4), (5, 9)):
        for index, step in enumerate(steps[: lost + 2]):
            step()
            if index == lost:
                c.packets[-1].comment = "drop: test"
        c.ack(psn(at), 0, p.NAK_SEQUENCE)
        c.say(WAITING, psn(0), 0, 1)
    for step in steps:
        step()
    c.say(GRANTED, psn(0), 1, 41)
    c.got(psn(1), 2)
    c.ack(psn(5), 4)
    c.got(psn(6), 5)
    c.ack(psn(10), 7)
    return c.packets


def late_grant() -> list[Packet]:
    """All answers to a scope got lost. It had released the lock before another was granted."""
    both = Contenders()
    both.one.lock(EXCLUSIVE, psn(0))
    both.one.lock(RELEASE, psn(1))
    both.turn().lock(EXCLUSIVE, psn(0))
    both.one.say(GRANTED, psn(0), 1, 6)
    both.turn().lock(EXCLUSIVE, psn(0))
    both.one.lock(RELEASE, psn(1))
    both.one.say(GRANTED, psn(0), 2, 5)
    both.one.say(RELEASED, psn(1), 2, 5)
    both.turn().lock(RELEASE, psn(1))
    both.one.say(RELEASED, psn(1), 2, 6)
    return both.packets()


def initiator_dies(c) -> list[Packet]:
    """Before it has sent the release."""
    c.lock(EXCLUSIVE, psn(0), 4)
    c.get(psn(1))
    c.say(FAILED, psn(0), 1, 5, cause=TRIES)
    c.say(FLUSHED, psn(1), 2)
    return c.packets


def waits_at_the_end(late_ns: int) -> list[Packet]:
    c = OverRc()
    c.lock(EXCLUSIVE, psn(0), timeout=0)
    c.wait(20 * _MS)
    c.say(WAITING, psn(0), 0, 1)
    c.wait(late_ns)
    c.scope, c.word = 8, WORD_B
    other = OverRc(3, now_ns=c.now_ns)
    other.put(psn(100))
    other.ack(psn(100), 1)
    return together(c, other)


def fails_and_disconnects(answer: bool = True) -> list[Packet]:
    c = OverDc()
    fails(c)
    if not answer:
        c.lock(EXCLUSIVE, psn(7))
        c.say(WAITING, psn(7), 5, 1)
    c.disconnect(psn(7 + (not answer)))
    return c.packets


def reads_behind_a_lock() -> list[Packet]:
    c = OverRc()
    c.lock(EXCLUSIVE, psn(0))
    c.say(GRANTED, psn(0), 1, 41)
    for at in (1, 4):
        c.get(psn(at))
    for at in (1, 4):
        c.got(psn(at), 2 + at // 4)
    return c.packets


_TEN_MS = (*OPTIONS, "--settle-ms", "10")
for name, build, options in (
    ("a NAK after it waits", lambda: lost_before_it_waits(OverRc(), nak_first=False), OPTIONS),
    ("what was ready", sent_again_after_what_was_ready, ("--locks", "--race-us", "1000")),
    ("sent again with a READ", sent_again_with_a_read, OPTIONS),
    ("sent again for an old NAK", sent_again_for_an_old_nak, OPTIONS),
    ("late grant", late_grant, (*OPTIONS, "--lossy", "both")),
    ("initiator dies", lambda: initiator_dies(OverRc()), (*OPTIONS, "--pmtu", "256")),
    ("DC, initiator dies", lambda: initiator_dies(OverDc()), DC_OPTIONS),
    ("waits at the end", lambda: waits_at_the_end(1 * _MS), _TEN_MS),
    ("DC, fails and disconnects", fails_and_disconnects, DC_OPTIONS),
    ("no responder resource", lambda: one_round_trip(OverRc()), (*OPTIONS, "--max-rd-atomic", "1")),
    ("two READs", reads_behind_a_lock, (*OPTIONS, "--max-rd-atomic", "2")),
):
    scenarios.CLEAN[f"locks: {name}"] = (build, options)
for rule, build, options in (
    ("lock-order", acknowledged_by_an_ack_alone, OPTIONS),
    ("lock-waiting", lambda: lost_before_it_waits(OverRc(), nak_first=True), OPTIONS),
    ("ack-owed", lambda: waits_at_the_end(12 * _MS), _TEN_MS),
    ("dc-unacknowledged", lambda: fails_and_disconnects(answer=False), DC_OPTIONS),
    ("max-rd-atomic", reads_behind_a_lock, (*OPTIONS, "--max-rd-atomic", "1")),
):
    scenarios.BREACHES.append(scenarios.Breach(rule, f"locks: {build.__name__}", build, options))


# A session is lost with an acquire under way. As of an atomic it is not known whether it was
# executed, or it was: it completes, and is not sent again.
_ACQUIRE = (e.LOCK_REQUEST, e.encode(e.LKETH, {"lock.subtype": EXCLUSIVE, "lock.scope": 7}))
for executed in (None, psn(1)):
    scenarios.CLEAN[f"DC locks: executed {executed}"] = (
        lambda some=executed: dc_scenarios.lost(some, *_ACQUIRE), DC_OPTIONS
    )
scenarios.BREACHES.append(
    scenarios.Breach(
        "dc-sent-again", "acquire not executed",
        lambda: dc_scenarios.lost(psn(0), *_ACQUIRE), DC_OPTIONS,
    )
)  # fmt: skip
