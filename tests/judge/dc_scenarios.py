# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Dialogues of dynamic connections: good ones, and for each rule some that break it. They join
those of scenarios.py; the layouts are the encoder's of the dissector's tests."""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "wireshark"))

import encoder as e  # noqa: E402
import packets as p  # noqa: E402
import scenarios  # noqa: E402
from packets import Conversation, Packet  # noqa: E402
from scenarios import psn  # noqa: E402

DCI, DCT_A, DCT_B = 0xD00011, 0xD00022, 0xD00033
SESSION_A, SESSION_B, SESSION_C = 0x0100000700000001, 0x0100000800000001, 0x0100000700000002
NO_CONTEXT, NO_SUCH_DCT, DRAINING, STALE = 1, 2, 3, 4
OPTIONS = ("--dynamic-connections", "--race-us", "0")
_FLUSH, _ATOMIC_WRITE, _SEND_ONLY_INVALIDATE = 0x1C, 0x1D, 0x17


class Dialogue(Conversation):
    """One initiator and targets of one host; the current target and session are attributes."""

    def __init__(self) -> None:
        super().__init__(requester_qpn=DCI, responder_qpn=DCT_A, service=0xC0)
        self.nonce, self.session, self.stream = 0x5000, SESSION_A, 0

    def message(self, subtype: int, from_target: bool = False, **values) -> Packet:
        layout = e.message_layout(subtype)
        known = {name.replace(".", "_")[3:]: name for name, _ in layout if name != e.RESERVED}
        fields = {"dc.magic": e.MAGIC, "dc.version": e.VERSION, "dc.subtype": subtype}
        fields |= {known[name]: value for name, value in values.items()}
        ends = (self.requester, self.responder)
        src, dst = ends[::-1] if from_target else ends
        qpn = self.requester_qpn if from_target else self.responder_qpn
        return self.add(Packet(src, dst, e.CONTROL, qpn, 0, payload=e.encode(layout, fields)))

    def connect(self, first: int, **values) -> None:
        fields = {"mtu": 1, "dci": DCI, "first_psn": first, "nonce": self.nonce, "lease": 1000,
                  "access_key": 77, "incarnation": 88, "stream": self.stream}  # fmt: skip
        self.message(e.CONNECT, **fields | {"responder_resources": 4} | values)

    def connect_data(self, at: int, operation: int = p.SEND_ONLY, headers=b"", size: int = 100,
                     **values) -> None:  # fmt: skip
        """With a request of one packet."""
        fields = {"magic": e.MAGIC, "version": e.VERSION, "subtype": e.CONNECT, "mtu": 1,
                  "flags": 2, "dci": DCI, "first_psn": at, "nonce": self.nonce, "lease": 1000,
                  "access_key": 77, "incarnation": 88, "stream": self.stream,
                  "responder_resources": 4, "operation": 0xC0 | operation}  # fmt: skip
        named = {f"dc.{name}": value for name, value in (fields | values).items()}
        header = e.encode(e.connect_with_data_layout(), named)
        self.add(
            Packet(
                self.requester, self.responder, e.CONNECT_DATA, self.responder_qpn, at,
                header + headers, p.pattern(size, at), ack_request=True,
            )
        )  # fmt: skip

    def accept(self, expected: int, **values) -> None:
        fields = {"mtu": 1, "nonce": self.nonce, "session": self.session,
                  "expected_psn": expected}  # fmt: skip
        self.message(e.ACCEPT, True, **fields | values)

    def cnak(self, reason: int, **values) -> None:
        self.message(e.CNAK, True, reason=reason, **values)

    def disconnect(self, next_psn: int, session: int | None = None) -> None:
        named = self.session if session is None else session
        self.message(e.DISCONNECT, session=named, next_psn=next_psn)

    def keepalive(self, next_psn: int, answer: bool = False) -> None:
        self.message(
            e.KEEPALIVE, answer, session=self.session, next_psn=next_psn, flags=int(answer)
        )

    def header(self, form: int, source: int, **values) -> bytes:
        named = {"dc.session": self.session} if form else {"dc.nonce": self.nonce}
        fields = {"dc.form": form, "dc.stream": self.stream, "dc.source": source}
        return e.encode(e.DCSH[form], fields | named | values)

    def ask(self, at: int, form: int = 1, operation: int = p.SEND_ONLY, headers=b"",
            payload: bytes | None = None, **values) -> None:  # fmt: skip
        """A request of one packet; SEND unless told otherwise."""
        if payload is None:
            payload = p.pattern(100, at) if operation == p.SEND_ONLY else b""
        header = self.header(form, DCI, **values)
        self.request(operation, at, payload, header + headers, ack_request=True)

    def read(self, at: int, length: int, va: int = 0x7F0000001000) -> None:
        self.ask(at, operation=p.READ, headers=p.reth(length, va))

    def reply(self, operation: int, at: int, headers=b"", payload=b"", **values) -> None:
        header = self.header(1, self.responder_qpn, **values)
        self.respond(operation, at, header + headers, payload)

    def ack(self, at: int, msn: int, syndrome: int = p.NO_CREDITS, **values) -> None:
        self.reply(p.ACK, at, p.aeth(syndrome, msn), **values)

    def to(self, target: int, session: int, nonce: int | None = None) -> None:
        """From here on for this target."""
        self.responder_qpn, self.session = target, session
        self.nonce = self.nonce + 1 if nonce is None else nonce


def two_targets() -> list[Packet]:
    """Half handshake, a READ and an atomic, then another target with the full one."""
    c = Dialogue()
    c.connect(psn(0), flags=2)  # 0
    c.ask(psn(0), form=0)  # 1
    c.accept(psn(0))  # 2
    c.ack(psn(0), 1)  # 3
    c.read(psn(1), 600)  # 4
    for index, operation in enumerate((p.READ_FIRST, p.READ_MIDDLE, p.READ_LAST)):  # 5-7
        headers = b"" if operation == p.READ_MIDDLE else p.aeth(31, 2)
        c.reply(operation, psn(1 + index), headers, p.pattern(256 if index < 2 else 88, index))
    c.ask(psn(4), operation=p.FETCH_ADD, headers=p.atomic_eth(0x7F0000002000, 1))  # 8
    c.reply(p.ATOMIC_ACK, psn(4), p.aeth(31, 3) + bytes(8))  # 9
    c.disconnect(psn(5))  # 10
    c.to(DCT_B, SESSION_B)
    c.connect(psn(5), flags=1)  # 11
    c.accept(psn(5))  # 12
    c.ask(psn(5))  # 13
    c.ask(psn(6))  # 14
    c.ack(psn(6), 2)  # 15
    c.keepalive(psn(7))  # 16
    c.keepalive(psn(7), answer=True)  # 17
    c.disconnect(psn(7))  # 18
    return c.packets


def repeated() -> list[Packet]:
    """The connect and its data are lost, no context is free, then the answer is late: all of it
    with one nonce."""
    c = Dialogue()
    for _ in range(2):  # 0-3
        c.connect(psn(0), flags=2)
        c.ask(psn(0), form=0)
    c.cnak(NO_CONTEXT, nonce=c.nonce, backoff=50)  # 4
    c.wait(1_000_000)
    c.connect(psn(0), flags=2)  # 5
    c.ask(psn(0), form=0)  # 6
    c.accept(psn(0))  # 7
    c.accept(psn(0))  # 8
    c.ask(psn(0))  # 9
    c.ask(psn(1))  # 10
    c.ack(psn(1), 2)  # 11
    c.disconnect(psn(2))  # 12
    return c.packets


def lost_session() -> list[Packet]:
    """The target no longer knows the session: the same target again, with a new nonce; it ends with
    an error."""
    c = Dialogue()
    c.connect(psn(0), flags=1)  # 0
    c.accept(psn(0))  # 1
    c.ask(psn(0))  # 2
    c.ack(psn(0), 1)  # 3
    c.ask(psn(1))  # 4
    c.cnak(STALE, session=c.session, expected_psn=psn(1), flags=1)  # 5
    c.to(DCT_A, SESSION_C)
    c.connect(psn(1), flags=1)  # 6
    c.accept(psn(1))  # 7
    c.ask(psn(1))  # 8
    c.ack(psn(1), 0, p.NAK_ACCESS)  # 9
    c.to(DCT_B, SESSION_B)
    c.connect(psn(2))  # 10
    c.cnak(NO_SUCH_DCT, nonce=c.nonce)  # 11
    c.to(DCT_A, SESSION_A + 5)
    c.connect(psn(2))  # 12
    return c.packets


def overtaken() -> list[Packet]:
    """The connect is lost, its data draws a CNAK; two streams at a time."""
    c = Dialogue()
    c.connect(psn(0), flags=2)  # 0
    c.ask(psn(0), form=0)  # 1
    c.cnak(STALE, nonce=c.nonce)  # 2
    c.connect(psn(0), flags=1)  # 3
    c.stream = 1
    c.to(DCT_B, SESSION_B)
    c.connect(0x777, flags=2)  # 4
    c.accept(0x777)  # 5
    c.ask(0x777, operation=_FLUSH, headers=bytes(4) + p.reth(100))  # 6
    c.reply(p.READ_ONLY, 0x777, p.aeth(31, 1))  # 7
    c.ask(0x778, operation=_ATOMIC_WRITE, headers=p.reth(8), payload=bytes(8))  # 8
    c.reply(p.READ_ONLY, 0x778, p.aeth(31, 2))  # 9
    c.disconnect(0x779)  # 10
    c.stream = 0
    c.to(DCT_A, SESSION_A, c.nonce - 1)
    c.accept(psn(0))  # 11
    c.ask(psn(0))  # 12
    c.ack(psn(0), 0, p.NAK_SEQUENCE)  # 13
    c.ask(psn(0))  # 14
    c.ack(psn(0), 1)  # 15
    return c.packets


def with_data() -> list[Packet]:
    """Connects that carry the first request: one with another request behind it, one that is lost,
    refused, sent again, and whose answer is late."""
    c = Dialogue()
    c.connect_data(psn(0))  # 0
    c.ask(psn(1), form=0)  # 1
    c.accept(psn(0))  # 2
    c.ack(psn(1), 2)  # 3
    c.disconnect(psn(2))  # 4
    c.to(DCT_B, SESSION_B)
    for _ in range(2):  # 5, 6
        c.connect_data(psn(2), p.WRITE_ONLY, p.reth(220), 220)
    c.cnak(NO_CONTEXT, nonce=c.nonce, backoff=50)  # 7
    c.connect_data(psn(2), p.WRITE_ONLY, p.reth(220), 220)  # 8
    c.connect(psn(2), flags=1)  # 9
    c.accept(psn(3))  # 10
    c.accept(psn(3))  # 11
    c.ack(psn(2), 1)  # 12
    c.disconnect(psn(3))  # 13
    c.to(DCT_A, SESSION_C)
    c.connect_data(psn(3), _SEND_ONLY_INVALIDATE, bytes(4), 0)  # 14
    return c.packets


GOOD = (two_targets, repeated, lost_session, overtaken, with_data)
scenarios.CLEAN.update({f"DC: {build.__name__}": (build, OPTIONS) for build in GOOD})


def change(rule: str, build, index: int, also=(), **fields) -> None:
    scenarios.change(rule, build, index, *OPTIONS, also=also, **fields)


def change_message(rule: str, build, index: int, also=(), **values) -> None:
    """With other values of a packet's message or session header."""

    def damaged() -> list[Packet]:
        packets = build()
        packet = packets[index]
        if packet.opcode == e.CONTROL:
            layout, part = e.message_layout(packet.payload[5]), "payload"
        elif packet.opcode == e.CONNECT_DATA:
            layout, part = e.connect_with_data_layout(), "headers"
        else:
            layout, part = e.DCSH[packet.headers[0] >> 7], "headers"
        data = getattr(packet, part)
        size, number = e.size_of(layout), int.from_bytes(data[: e.size_of(layout)], "big")
        shift = size * 8
        for name, bits in layout:
            shift -= bits
            value = values.get(name.replace(".", "_")[3:] if name != e.RESERVED else name)
            if value is not None:
                mask = (1 << bits) - 1
                number = number & ~(mask << shift) | value << shift
        replaced = number.to_bytes(size, "big") + data[size:]
        packets[index] = dataclasses.replace(packet, **{part: replaced})
        return packets

    what = f"{build.__name__}[{index}] {' '.join(sorted(values))}"
    scenarios.BREACHES.append(
        scenarios.Breach(rule, what, damaged, OPTIONS, frozenset(also))
    )


def breach(rule: str, *also: str):
    return scenarios.breach(rule, *OPTIONS, also=also)


change("dc-format", two_targets, 13, headers=Dialogue().header(1, 0x22),
       also=("dc-session", "dc-psn"))
change("dc-format", two_targets, 3, headers=Dialogue().header(0, DCT_A) + p.aeth(31, 1))
change_message("dc-format", two_targets, 1, reserved=1)
change_message("dc-format", two_targets, 0, version=2, also=(
    "dc-nonce", "dc-accept", "dc-response-early", "dc-session"))
change_message("dc-format", two_targets, 18, subtype=9)
change_message("dc-format", two_targets, 18, reserved=1)
change_message("dc-format", two_targets, 18, value=1)
change_message("dc-format", two_targets, 18, flags=1)
change_message("dc-format", two_targets, 0, mtu=6)
change_message("dc-format", repeated, 4, reason=7)
change_message("dc-format", two_targets, 0, flags=4)
change("dc-format", two_targets, 18, psn=1)
change("dc-format", two_targets, 18, ack_request=True)
change("dc-format", two_targets, 18, payload=bytes(4))
change("dc-format", two_targets, 18, payload=two_targets()[18].payload + bytes(4))
change("header-length", two_targets, 15, headers=bytes(12), also=("dc-unacknowledged",))
change("icrc", two_targets, 18, icrc=1)

change_message("dc-format", with_data, 14, flags=3)
change_message("dc-format", with_data, 14, subtype=e.ACCEPT)
change_message("dc-format", with_data, 14, operation=0xC0 | p.READ)
change_message("dc-format", with_data, 14, operation=p.SEND_ONLY)
change_message("dc-format", with_data, 14, version=2)
change_message("dc-format", with_data, 14, mtu=6)
change_message("dc-format", with_data, 14, reserved=1)
change_message("dc-format", with_data, 14, first_psn=psn(4), also=("dc-psn",))
change("dc-format", with_data, 14, payload=bytes(221))
change("header-length", with_data, 14, headers=with_data()[14].headers[:44])

change_message("dc-connect-repeat", with_data, 8, access_key=78)
change("dc-connect-repeat", with_data, 8, dqpn=DCT_A, also=("dc-nonce-owner",))
change_message("dc-connect-repeat", repeated, 2, first_psn=psn(1))
change_message("dc-connect-repeat", repeated, 2, access_key=78)
change_message("dc-connect-repeat", repeated, 2, stream=1)
change("dc-connect-repeat", repeated, 2, dqpn=DCT_B)


@breach("dc-one-connect")
def next_target_without_a_disconnect():
    packets = two_targets()
    del packets[10]
    return packets


@breach("dc-one-connect")
def next_target_without_a_disconnect_and_with_data():
    packets = with_data()
    del packets[13]
    return packets


@breach("dc-one-connect")
def two_nonces_for_one_connection():
    c = Dialogue()
    c.connect(psn(0))
    c.to(DCT_A, SESSION_A)
    c.connect(psn(0))
    return c.packets


@breach("dc-one-connect")
def a_new_nonce_without_a_context():
    c = Dialogue()
    c.connect(psn(0))
    c.cnak(NO_CONTEXT, nonce=c.nonce)
    c.to(DCT_A, SESSION_A)
    c.connect(psn(0))
    return c.packets


@breach("dc-one-connect")
def a_cnak_of_another_session_ends_nothing():
    c = Dialogue()
    c.connect(psn(0))
    c.accept(psn(0))
    c.cnak(STALE, nonce=c.nonce)  # the connect has arrived since
    c.to(DCT_B, SESSION_B)
    c.connect(psn(0))
    return c.packets


def lost(executed: int | None, operation: int = p.SEND_ONLY, headers=b"") -> list[Packet]:
    """The session is lost with a request under way, and another target is next."""
    c = Dialogue()
    c.connect(psn(0), flags=1)
    c.accept(psn(0))
    c.ask(psn(0), operation=operation, headers=headers)
    if executed is None:
        c.cnak(STALE, session=c.session)
    else:
        c.cnak(STALE, session=c.session, expected_psn=executed, flags=1)
    c.to(DCT_B, SESSION_B)
    c.connect(psn(1), flags=1)
    return c.packets


_READ = (p.READ, p.reth(100))
_ADD = (p.FETCH_ADD, p.atomic_eth(0x7F0000002000, 1))
_WRITE = (p.WRITE_ONLY, p.reth(0))
# Those that complete: executed, or with an unknown outcome.
for name, arguments in {
    "SEND executed": (psn(1),), "SEND unknown": (None,), "WRITE executed": (psn(1), *_WRITE),
    "FetchAdd executed": (psn(1), *_ADD), "FetchAdd unknown": (None, *_ADD),
}.items():  # fmt: skip
    scenarios.CLEAN[f"DC: {name}"] = (lambda some=arguments: lost(*some), OPTIONS)
for name, arguments in {
    "SEND not executed": (psn(0),), "WRITE unknown": (None, *_WRITE),
    "READ executed": (psn(1), *_READ), "READ unknown": (None, *_READ),
    "FetchAdd not executed": (psn(0), *_ADD),
}.items():  # fmt: skip
    scenarios.BREACHES.append(
        scenarios.Breach("dc-sent-again", name, lambda some=arguments: lost(*some), OPTIONS)
    )


@breach("dc-one-connect")
def another_nonce_when_the_connect_was_lost():
    c = Dialogue()
    c.connect(psn(0), flags=2)
    c.ask(psn(0), form=0)
    c.cnak(STALE, nonce=c.nonce)
    c.to(DCT_A, SESSION_A)
    c.connect(psn(0), flags=1)
    return c.packets


@breach("dc-one-connect")
def another_target_when_the_connect_had_been_lost_once():
    c = Dialogue()
    c.connect(psn(0), flags=2)
    c.cnak(STALE, nonce=c.nonce)
    c.connect(psn(0), flags=1)
    c.accept(psn(0))
    c.to(DCT_B, SESSION_B)
    c.connect(psn(0), flags=1)
    return c.packets


@breach("dc-one-target")
def data_for_the_target_before():
    packets = lost_session()
    packets[8:8] = [dataclasses.replace(packets[4], time_ns=packets[7].time_ns + 1)]
    return packets


@breach("dc-one-target")
def the_connect_before_again():
    packets = lost_session()
    packets[8:8] = [dataclasses.replace(packets[0], time_ns=packets[7].time_ns + 1)]
    return packets


@breach("dc-unacknowledged")
def closed_before_what_came_with_the_connect_was_acknowledged():
    packets = with_data()
    del packets[12]
    return packets


@breach("dc-unacknowledged")
def closed_too_early():
    packets = two_targets()
    del packets[15]
    return packets


@breach("dc-unacknowledged")
def closed_before_an_atomic_was_answered():
    packets = two_targets()
    packets[9].comment = "drop: test"
    return packets


@breach("dc-unacknowledged")
def an_acknowledgement_is_no_answer_to_a_read():
    packets = two_targets()
    packets[7] = dataclasses.replace(
        packets[3], psn=psn(3), time_ns=packets[7].time_ns
    )
    return packets


@breach("dc-closed")
def data_behind_the_disconnect():
    packets = two_targets()
    packets[11:11] = [dataclasses.replace(packets[8], time_ns=packets[10].time_ns + 1)]
    return packets


change_message("dc-session", two_targets, 13, session=SESSION_C, also=("dc-psn",))
change_message("dc-session", two_targets, 13, session=SESSION_A, also=("dc-psn",))
change_message("dc-session", two_targets, 13, stream=1, also=("dc-psn",))
change_message("dc-session", two_targets, 13, source=DCI + 1, also=("dc-psn",))
change_message("dc-session", two_targets, 18, session=SESSION_A)
change_message("dc-session", two_targets, 16, session=SESSION_C)
change("dc-session", two_targets, 13, dqpn=DCT_A, also=("dc-psn",))


@breach("dc-session")
def a_session_whose_accept_did_not_arrive():
    packets = two_targets()[:14]
    packets[12].comment = "drop: test"
    return packets


@breach("dc-nonce")
def data_before_its_connect():
    packets = two_targets()[:2]
    return [packets[1], dataclasses.replace(packets[0], time_ns=packets[1].time_ns + 1)]


change_message("dc-nonce-owner", two_targets, 1, stream=1, also=("dc-response-psn", "dc-psn"))
change("dc-nonce-owner", repeated, 3, dqpn=DCT_B)


@breach("dc-form")
def a_connect_with_data_though_the_session_is_known():
    packets = with_data()[:11]
    return [*packets, dataclasses.replace(packets[8], time_ns=packets[10].time_ns + 1)]


@breach("dc-closed", "dc-form")
def a_connect_with_data_behind_its_disconnect():
    packets = with_data()[:14]
    return [*packets, dataclasses.replace(packets[8], time_ns=packets[13].time_ns + 1)]


@breach("dc-one-target", "dc-closed", "dc-form")
def a_connect_with_data_for_the_target_before():
    packets = with_data()
    return [*packets, dataclasses.replace(packets[8], time_ns=packets[14].time_ns + 1)]


@breach("dc-form")
def a_nonce_though_the_session_is_known():
    c = Dialogue()
    c.connect(psn(0))
    c.accept(psn(0))
    c.ask(psn(0), form=0)
    return c.packets


change("dc-psn", two_targets, 1, psn=psn(1))
change_message("dc-psn", two_targets, 18, next_psn=psn(6))


@breach("dc-psn")
def a_request_left_out():
    packets = two_targets()
    del packets[13]
    return packets


change_message("dc-accept", repeated, 8, nonce=0x4FFF)
change_message("dc-accept", repeated, 8, session=SESSION_B)
change_message("dc-accept", two_targets, 2, expected_psn=psn(2))
change_message("dc-session-reused", two_targets, 12, session=SESSION_A, also=(
    "dc-session", "dc-response-early"))

change_message("dc-cnak", repeated, 4, nonce=0x4FFF)
change_message("dc-connect-repeat", repeated, 2, mtu=2)
change_message("dc-cnak", repeated, 4, session=SESSION_A)


@breach("dc-response-early")
def an_acknowledgement_before_the_accept():
    packets = two_targets()[:4]
    packets[2], packets[3] = packets[3], packets[2]
    packets[2].time_ns, packets[3].time_ns = packets[3].time_ns, packets[2].time_ns
    return packets


change_message("dc-response-session", repeated, 11, source=DCT_B, also=("dc-unacknowledged",))
change_message("dc-response-session", repeated, 11, stream=1, also=("dc-unacknowledged",))
change("dc-response-session", repeated, 11, dqpn=DCI + 1, also=("dc-unacknowledged",))
change("dc-response-psn", repeated, 11, psn=psn(2), also=("dc-unacknowledged",))
change("dc-response-psn", two_targets, 15, psn=psn(4), also=("dc-unacknowledged",))
