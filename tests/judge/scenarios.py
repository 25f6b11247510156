# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Dialogues for the tests of the checker: good ones, and for each rule some that break it."""

import dataclasses
import struct
from typing import Callable, NamedTuple

import packets as p
from packets import Conversation, Packet

_MS = 1_000_000
_START = 0xFFFFF8  # so that the PSN wraps in each dialogue
_MASK = 0xFFFFFF


def psn(offset: int) -> int:
    return (_START + offset) & _MASK


# Good dialogues. The comments count packets from 0, as the breaches below refer to them.


def basic() -> list[Packet]:
    """SEND, WRITE and READ of three packets each, FetchAdd, SEND of one packet."""
    c = Conversation()
    c.send(psn(0), 3)  # 0-2
    c.ack(psn(2), 1)  # 3
    c.write(psn(3), 701)  # 4-6
    c.ack(psn(5), 2)  # 7
    c.read(psn(6), 700)  # 8
    c.read_responses(psn(6), 700, 3)  # 9-11
    c.fetch_add(psn(9))  # 12
    c.atomic_ack(psn(9), 4, 5)  # 13
    c.send(psn(10), 1)  # 14
    c.ack(psn(10), 5)  # 15
    return c.packets


def timeout() -> list[Packet]:
    """All of a message is sent again, and acknowledged once."""
    c = Conversation()
    c.send(psn(0), 3)  # 0-2
    c.wait(50 * _MS)
    c.send(psn(0), 3)  # 3-5
    c.packets[5].solicited = True
    c.packets[4].ack_request = True
    c.ack(psn(2), 1)  # 6
    return c.packets


def coalesced() -> list[Packet]:
    """One acknowledgement for many messages, a duplicate answered with it again."""
    c = Conversation()
    for offset in range(4):
        c.send(psn(offset), 1)  # 0-3
    c.ack(psn(3), 4)  # 4
    c.send(psn(4), 1)  # 5
    c.ack(psn(4), 5)  # 6
    return c.packets


def gap() -> list[Packet]:
    """The second packet is lost before the responder: NAK, go back."""
    c = Conversation()
    c.send(psn(0), 4)  # 0-3
    c.packets[1].comment = "drop: test"
    c.respond(p.ACK, psn(1), p.aeth(p.NAK_SEQUENCE, 0))  # 4
    c.wait(5 * _MS)
    c.send(psn(0), 4, first=2)  # 5-7
    c.ack(psn(3), 1)  # 8
    return c.packets


def overtaken_at_the_start() -> list[Packet]:
    """The fourth message of a connection arrives before the first one and is dropped."""
    c = Conversation()
    c.send(psn(3), 1)  # 0
    c.packets[0].comment = "drop: test"
    for offset in range(3):
        c.send(psn(offset), 1)  # 1-3
    c.respond(p.ACK, psn(3), p.aeth(p.NAK_SEQUENCE, 3))  # 4
    c.wait(5 * _MS)
    c.send(psn(3), 1)  # 5
    c.ack(psn(3), 4)  # 6
    return c.packets


def rnr() -> list[Packet]:
    """The receiver is not ready, code 20 = 10.24 ms; what was under way is dropped silently."""
    c = Conversation()
    c.send(psn(0), 1)  # 0
    c.ack(psn(0), 1)  # 1
    c.send(psn(1), 3)  # 2-4
    c.respond(p.ACK, psn(1), p.aeth(p.RNR_NAK | 20, 1))  # 5
    c.wait(11 * _MS)
    c.send(psn(1), 3)  # 6-8
    c.ack(psn(3), 2)  # 9
    return c.packets


def read_retry() -> list[Packet]:
    """A READ whose responses stop is resumed where they stopped."""
    c = Conversation()
    c.send(psn(0), 1)  # 0
    c.ack(psn(0), 1)  # 1
    c.read(psn(1), 700)  # 2
    c.read_responses(psn(1), 700, 2)  # 3-5
    c.packets[4].comment = c.packets[5].comment = "drop: test"
    c.wait(50 * _MS)
    c.read(psn(2), 700 - 256, 0x7F0000001000 + 256)  # 6
    c.respond(p.READ_FIRST, psn(2), p.aeth(31, 2), p.pattern(256, psn(2)))  # 7
    c.respond(p.READ_LAST, psn(3), p.aeth(31, 2), p.pattern(700 - 512, psn(3)))  # 8
    return c.packets


def read_again() -> list[Packet]:
    """A READ and a FetchAdd whose answers are lost behind the capture are repeated."""
    c = Conversation()
    c.send(psn(0), 1)  # 0
    c.ack(psn(0), 1)  # 1
    c.read(psn(1), 600)  # 2
    c.read_responses(psn(1), 600, 2)  # 3-5
    c.fetch_add(psn(4))  # 6
    c.atomic_ack(psn(4), 3, 77)  # 7
    for index in (3, 4, 5, 7):
        c.packets[index].comment = "drop: test"
    c.wait(50 * _MS)
    c.read(psn(1), 600)  # 8
    c.fetch_add(psn(4))  # 9
    c.read_responses(psn(1), 600, 3)  # 10-12
    c.atomic_ack(psn(4), 3, 77)  # 13
    return c.packets


def read_interrupted() -> list[Packet]:
    """A READ is being answered when what came before it is asked for again, as is then the READ."""
    c = Conversation()
    c.read(psn(0), 400)  # 0
    c.read_responses(psn(0), 400, 1)  # 1, 2
    c.fetch_add(psn(2))  # 3
    c.atomic_ack(psn(2), 2, 77)  # 4
    c.read(psn(3), 700)  # 5
    c.read_responses(psn(3), 700, 3, stop=2)  # 6, 7
    for index in (1, 2, 4, 6, 7):
        c.packets[index].comment = "drop: test"
    c.wait(50 * _MS)
    c.read(psn(0), 400)  # 8
    c.read_responses(psn(0), 400, 1)  # 9, 10
    c.read_responses(psn(3), 700, 3, stop=1)  # 11: from its start
    c.fetch_add(psn(2))  # 12
    c.atomic_ack(psn(2), 2, 77)  # 13
    c.read_responses(psn(3), 700, 3)  # 14-16: from its start again
    c.read(psn(3), 700)  # 17
    c.read_responses(psn(3), 700, 3)  # 18-20
    return c.packets


def read_interrupted_late() -> list[Packet]:
    """The last copy of the first READ comes while the answer to the second is begun but not sent:
    three packets wait."""
    c = Conversation()
    c.read(psn(0), 400)  # 0
    c.read(psn(2), 400)  # 1
    c.read_responses(psn(0), 400, 1)  # 2, 3
    for index in (2, 3):
        c.packets[index].comment = "drop: test"
    c.wait(50 * _MS)
    c.read(psn(0), 400)  # 4
    c.read(psn(0), 400)  # 5
    c.read(psn(2), 400)  # 6
    c.read_responses(psn(0), 400, 1)  # 7, 8
    c.read_responses(psn(2), 400, 2, stop=1)  # 9
    c.read_responses(psn(0), 400, 1)  # 10, 11
    c.read_responses(psn(2), 400, 2)  # 12, 13
    return c.packets


def acknowledged_twice() -> list[Packet]:
    """A message is sent again though its acknowledgement is there: good only if it was dropped."""
    c = Conversation()
    c.send(psn(0), 3)  # 0-2
    c.ack(psn(2), 1)  # 3
    c.wait(50 * _MS)
    c.send(psn(0), 3)  # 4-6
    c.ack(psn(2), 1)  # 7
    return c.packets


def duplicate_acknowledged() -> list[Packet]:
    packets = acknowledged_twice()
    packets[3].comment = "drop: test"
    return packets


def rnr_behind_a_lost_answer() -> list[Packet]:
    """An RNR NAK tells first of all that the answer to the READ before it is lost."""
    c = Conversation()
    c.read(psn(0), 100)  # 0
    c.send(psn(1), 1)  # 1
    c.read_responses(psn(0), 100, 1)  # 2
    c.packets[2].comment = "drop: test"
    c.respond(p.ACK, psn(1), p.aeth(p.RNR_NAK | 20, 1))  # 3
    c.read(psn(0), 100)  # 4
    c.send(psn(1), 1)  # 5
    c.read_responses(psn(0), 100, 1)  # 6
    c.ack(psn(1), 2)  # 7
    return c.packets


def pipelined_reads() -> list[Packet]:
    c = Conversation()
    for index in range(3):
        c.read(psn(index * 2), 400)  # 0-2
    for index in range(3):
        c.read_responses(psn(index * 2), 400, index + 1)  # 3-8
    return c.packets


def refused() -> list[Packet]:
    """A WRITE with a bad key."""
    c = Conversation()
    c.send(psn(0), 1)  # 0
    c.ack(psn(0), 1)  # 1
    c.write(psn(1), 600)  # 2-4
    c.respond(p.ACK, psn(1), p.aeth(p.NAK_ACCESS, 1))  # 5
    return c.packets


def told_drops(build: Callable[[], list[Packet]], *dropped: int) -> list[Packet]:
    """The same in a capture that tells which requests were not used."""
    packets = build()
    for index in dropped:
        packets[index].comment = "drop: told"
    return packets


def two_alike() -> list[Packet]:
    """Two connections of the same hosts with the same PSNs, in step."""
    packets = []
    for step in range(0, 4):
        for index in range(2):
            c = Conversation(requester_qpn=0x11 + index, responder_qpn=0x22 + index)
            c.wait(step * _MS + index * 10_000)
            c.send(psn(step), 1)
            packets += c.packets
        for index in (0, 1):
            # Acknowledged in the other order, so that time does not tell them apart.
            c = Conversation(requester_qpn=0x12 - index, responder_qpn=0x23 - index)
            c.wait(step * _MS + 100_000 + index * 10_000)
            c.ack(psn(step), step + 1)
            packets += c.packets
    # The same number of votes for each pairing.
    packets[2:4] = packets[3], packets[2]
    packets[10:12] = packets[11], packets[10]
    return packets


def uc() -> list[Packet]:
    c = Conversation(service=p.UC)
    c.send(psn(0), 3)
    c.write(psn(3), 700)
    c.send(psn(6), 1)
    for packet in c.packets:
        packet.ack_request = False
    return c.packets


def datagrams() -> list[Packet]:
    c = Conversation()
    deth = struct.pack(">II", 0x11111111, 0x55)
    for index, size in enumerate((0, 1, 2, 3, 1024)):
        c.request(p.UD_SEND_ONLY, index, p.pattern(size, index), deth)
    c.request(p.CNP, 0, headers=bytes(16), byte4=0x40)
    return c.packets


def selective() -> list[Packet]:
    """The responder keeps what came behind the gap, the requester repeats only what was lost."""
    c = Conversation()
    c.send(psn(0), 4)
    c.packets[1].comment = "drop: test"
    c.respond(p.ACK, psn(1), p.aeth(p.NAK_SEQUENCE, 0))
    c.wait(5 * _MS)
    c.packets.append(dataclasses.replace(c.packets[1], comment="", time_ns=c.now_ns))
    c.wait(_MS)
    c.ack(psn(3), 1)
    return c.packets


def flush_and_atomic_write() -> list[Packet]:
    c = Conversation()
    c.request(0x1C, psn(0), headers=struct.pack(">I", 1) + p.reth(4096), ack_request=True)
    c.respond(p.READ_ONLY, psn(0), p.aeth(31, 1))
    c.request(0x1D, psn(1), b"12345678", p.reth(8), ack_request=True)
    c.respond(p.READ_ONLY, psn(1), p.aeth(31, 2))
    return c.packets


CLEAN: dict[str, tuple[Callable[[], list[Packet]], tuple[str, ...]]] = {
    "basic": (basic, ()),
    "timeout": (timeout, ()),
    "coalesced": (coalesced, ()),
    "gap": (gap, ()),
    "rnr": (rnr, ()),
    "read retry": (read_retry, ()),
    "read again": (read_again, ()),
    "read interrupted": (read_interrupted, ("--max-rd-atomic", "3")),
    "read interrupted late": (read_interrupted_late, ("--max-rd-atomic", "3", "--queued", "3")),
    "duplicate acknowledged": (duplicate_acknowledged, ()),
    "RNR behind a lost answer": (rnr_behind_a_lost_answer, ()),
    "pipelined reads": (pipelined_reads, ("--max-rd-atomic", "3")),
    "refused": (refused, ()),
    "gap, told": (lambda: told_drops(gap, 1, 2, 3), ()),
    "rnr, told": (lambda: told_drops(rnr, 2, 3, 4), ()),
    "refused, told": (lambda: told_drops(refused, 2, 3, 4), ()),
    "duplicate acknowledged, told": (lambda: told_drops(duplicate_acknowledged, 4, 5, 6), ()),
    "uc": (uc, ()),
    "datagrams": (datagrams, ()),
    "selective repeat": (selective, ("--selective-repeat",)),
    "flush and atomic write": (flush_and_atomic_write, ()),
    "ready before it was acknowledged": (acknowledged_twice, ("--queued", "3")),
}


def as_service(packet: Packet, service: int) -> Packet:
    """An RC packet as one of another reliable service: XRC requests carry the SRQ number."""
    if service == 0 or packet.opcode >= p.UC:
        return packet
    is_response = p.READ_FIRST <= packet.opcode <= p.ATOMIC_ACK
    headers = packet.headers if is_response else struct.pack(">I", 7) + packet.headers
    return dataclasses.replace(packet, opcode=service | packet.opcode, headers=headers)


def as_ipv6(packet: Packet) -> Packet:
    def address(text: str) -> str:
        return "2001:db8::" + text.rsplit(".", 1)[1]

    return dataclasses.replace(packet, src=address(packet.src), dst=address(packet.dst))


# Breaches: the dialogue, what to do to it, the rule that must find it.


class Breach(NamedTuple):
    rule: str
    what: str
    build: Callable[[], list[Packet]]
    options: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()  # rules that such a packet cannot help breaking too


BREACHES: list[Breach] = []


def breach(rule: str, *options: str, also: tuple[str, ...] = ()):
    """Registers a function that returns packets; its name says what is wrong."""

    def register(build: Callable[[], list[Packet]]):
        BREACHES.append(Breach(rule, build.__name__, build, options, frozenset(also)))
        return build

    return register


def change(rule: str, build: Callable[[], list[Packet]], index: int, *options, also=(), **fields):
    """Registers a dialogue with some fields of one packet replaced."""

    def damaged() -> list[Packet]:
        packets = build()
        packets[index] = dataclasses.replace(packets[index], **fields)
        return packets

    what = f"{build.__name__}[{index}] {' '.join(sorted(fields))}"
    BREACHES.append(Breach(rule, what, damaged, options, frozenset(also)))


# Framing.
change("ip-length", datagrams, 0, ip_length=400)
change("udp-length", basic, 0, udp_length=300)
change("udp-length", basic, 3, udp_length=20)
change("ipv4-checksum", basic, 0, ip_checksum=0x1234)
change("ipv4-fragment", basic, 0, ip_flags=0)
change("ipv4-fragment", basic, 0, ip_flags=0x6000)
change("udp-checksum", basic, 0, udp_checksum=0x1234)
change("udp-source-port-constant", basic, 5, src_port=0xC124)
change("bth-version", basic, 5, version=1)
change("bth-reserved", basic, 5, byte4=0x01)
change("bth-reserved", basic, 5, reserved7=0x40)
change("bth-pkey", basic, 5, pkey=0x7FFF)
change("bth-pkey", basic, 5, "--pkey", "0xFFFF", "--pkey", "0x8001", pkey=0x8002)
change("opcode-defined", datagrams, 0, opcode=0x15)
change("opcode-defined", datagrams, 0, opcode=0x2C)
change("opcode-defined", datagrams, 0, opcode=0x66)
change("opcode-defined", datagrams, 0, opcode=0xC4)
change("header-length", datagrams, 5, headers=bytes(12))
change("header-length", datagrams, 5, payload=b"data")
change("header-length", datagrams, 0, headers=b"\0\0\0\0")
change("payload-alignment", datagrams, 1, pad=b"")
change("pad-count", datagrams, 0, pad_count=1)
change("pad-count", datagrams, 5, pad_count=1)
change("pad-zero", basic, 6, pad=b"\x00\x00\x01")
change("icrc", datagrams, 1, icrc=0)
change("aeth-syndrome", basic, 15, headers=p.aeth(0x9F, 5), also=("ack-owed",))
change("aeth-syndrome", basic, 15, headers=p.aeth(0x5F, 5), also=("ack-owed",))
change("aeth-syndrome", refused, 5, headers=p.aeth(0x65, 1))
change("aeth-syndrome", basic, 9, headers=p.aeth(0x61, 3))
change("cnp-format", datagrams, 5, byte4=0)
change("cnp-format", datagrams, 5, headers=bytes(15) + b"\1")
change("cnp-format", datagrams, 5, psn=1)
change("ud-size", datagrams, 4, "--pmtu", "512")
change("ud-size", datagrams, 4, payload=bytes(4097))


@breach("udp-source-port")
def source_port_outside_the_range():
    return [dataclasses.replace(packet, src_port=0x8123) for packet in basic()[:1]]


@breach("pad-count", also=("segment-size",))
def padding_in_a_first_packet():
    c = Conversation()
    c.request(p.SEND_FIRST, psn(0), bytes(256), pad=b"", pad_count=2)
    c.request(p.SEND_LAST, psn(1), bytes(10))
    return c.packets[:1]


# Segmentation.
change("segment-size", basic, 0, payload=bytes(252))
change("segment-size", basic, 1, payload=bytes(260))
change("segment-size", basic, 2, payload=b"")
change("segment-size", basic, 2, payload=bytes(260))
change("segment-size", basic, 14, payload=bytes(257))
change("segment-size", uc, 0, payload=bytes(128))
change("reth-length", basic, 4, headers=p.reth(700))
change("reth-length", basic, 4, headers=p.reth(900))
change("reth-length", basic, 4, headers=p.reth(300))
change("reth-length", uc, 3, headers=p.reth(100))


@breach("opcode-sequence")
def middle_without_first():
    packets = basic()
    c = Conversation(now_ns=packets[-1].time_ns + 10_000)
    c.request(p.SEND_MIDDLE, psn(11), bytes(256))
    c.request(p.SEND_LAST, psn(12), bytes(10), ack_request=True)
    c.ack(psn(12), 6)
    return packets + c.packets


@breach("opcode-sequence")
def write_last_in_a_send():
    return _replaced(basic(), 2, opcode=p.WRITE_LAST)


@breach("opcode-sequence")
def only_inside_a_message():
    return _replaced(uc(), 1, opcode=p.UC | p.SEND_ONLY)


@breach("opcode-sequence")
def first_inside_a_message():
    c = Conversation()
    c.send(psn(0), 1)
    c.ack(psn(0), 1)
    c.request(p.SEND_FIRST, psn(1), bytes(256))
    c.send(psn(2), 2)
    c.ack(psn(3), 2)
    return c.packets


@breach("opcode-sequence")
def read_inside_a_message():
    c = Conversation()
    c.send(psn(0), 1)
    c.ack(psn(0), 1)
    c.request(p.SEND_FIRST, psn(1), bytes(256))
    c.read(psn(2), 10)
    c.read_responses(psn(2), 10, 2)
    return c.packets


@breach("message-length")
def write_beyond_2_31():
    c = Conversation()
    c.request(p.WRITE_FIRST, psn(0), bytes(256), p.reth((1 << 31) + 1))
    return c.packets


@breach("message-length", "--pmtu", "4096", "--settle-ms", "60000")
def read_beyond_2_31():
    c = Conversation()
    c.read(psn(0), (1 << 31) + 4)
    return c.packets


# Requester.


def _replaced(packets: list[Packet], index: int, **fields) -> list[Packet]:
    packets[index] = dataclasses.replace(packets[index], **fields)
    return packets


@breach("psn-advance", also=("ack-psn",))
def psn_skipped():
    c = Conversation()
    c.send(psn(0), 1)
    c.ack(psn(0), 1)
    c.send(psn(2), 1)
    c.ack(psn(2), 2)
    return c.packets


@breach("psn-advance")
def uc_packet_missing():
    packets = uc()
    del packets[1]
    return packets


@breach("psn-advance", also=("ack-psn",))
def read_takes_one_psn_only():
    c = Conversation()
    c.send(psn(0), 2)
    c.ack(psn(1), 1)
    c.read(psn(2), 256)
    c.read_responses(psn(2), 256, 2)
    c.send(psn(4), 1)
    c.ack(psn(4), 3)
    return c.packets


@breach("psn-window", "--pmtu", "256", "--settle-ms", "60000")
def more_than_half_of_the_psns():
    c = Conversation()
    c.send(psn(0), 1)
    c.ack(psn(0), 1)
    c.read(psn(1), 1 << 31)
    c.send(psn(1 + (1 << 23)), 1)
    return c.packets


change("retransmit-content", timeout, 4, payload=bytes(256))
change("retransmit-content", timeout, 4, opcode=p.SEND_FIRST)
change("retransmit-content", timeout, 4, pkey=0x8001, also=("bth-pkey",))
change("retransmit-content", read_again, 9, headers=p.atomic_eth(0x7F0000002000, 2))
change("retransmit-content", read_retry, 6, opcode=p.FETCH_ADD,
       headers=p.atomic_eth(0, 1), also=("read-response-sequence", "read-response-unrequested"))
change("read-retry-range", read_retry, 6, headers=p.reth(700 - 256, 0x7F0000001000))
change("read-retry-range", read_retry, 6, headers=p.reth(700 - 256, 0x7F0000001100, 0x9999))


@breach("read-retry-range", also=("read-response-size",))
def resumed_read_asks_for_too_much():
    return _replaced(read_retry(), 6, headers=p.reth(700 - 250, 0x7F0000001100))


@breach("retransmit-acknowledged")
def sent_again_after_the_acknowledgement():
    return acknowledged_twice()


@breach("retransmit-acknowledged", "--queued", "2")
def more_than_was_ready():
    return acknowledged_twice()


@breach("retransmit-hole")
def one_packet_left_out():
    packets = timeout()
    del packets[4]
    return packets


@breach("retransmit-hole")
def new_request_in_the_middle_of_going_back():
    c = Conversation()
    c.send(psn(0), 3)
    c.wait(50 * _MS)
    c.send(psn(0), 3)
    del c.packets[4:]
    c.send(psn(3), 1)
    c.ack(psn(3), 2)
    return c.packets


@breach("nak-not-followed")
def new_request_after_a_nak():
    c = Conversation()
    c.send(psn(0), 4)
    c.packets[1].comment = "drop: test"
    c.respond(p.ACK, psn(1), p.aeth(p.NAK_SEQUENCE, 0))
    c.wait(5 * _MS)
    c.send(psn(4), 1)
    c.wait(5 * _MS)
    c.send(psn(0), 4, first=2)
    c.send(psn(4), 1)
    c.ack(psn(4), 2)
    return c.packets


@breach("rnr-wait")
def too_early_after_rnr():
    packets = rnr()
    for packet in packets[6:]:
        packet.time_ns -= 3 * _MS
    return packets


@breach("rnr-wait")
def at_once_after_rnr():
    packets = rnr()
    for packet in packets[6:]:
        packet.time_ns -= 11 * _MS
    return packets


BREACHES.append(
    Breach("max-rd-atomic", "three READs, two agreed", pipelined_reads, ("--max-rd-atomic", "2"))
)


# Responder.
change("ack-psn", basic, 3, psn=psn(3))
change("ack-psn", basic, 15, psn=psn(200), also=("ack-owed",))
change("ack-psn", gap, 8, psn=psn(4), also=("ack-owed",))


@breach("ack-psn")
def acknowledged_behind_a_gap():
    packets = gap()
    return packets[:4] + [dataclasses.replace(packets[8], time_ns=packets[4].time_ns)]


@breach("ack-psn")
def acknowledged_after_refusing():
    packets = rnr()
    packets[9].time_ns = packets[5].time_ns + 10_000
    return packets[:6] + packets[9:]


@breach("ack-backwards")
def older_psn_acknowledged():
    packets = basic()
    packets[15:] = [
        packets[15],
        dataclasses.replace(
            packets[3], headers=p.aeth(31, 5), time_ns=packets[15].time_ns + 10_000
        ),
    ]
    return packets


@breach("response-order")
def read_passed_over():
    packets = basic()
    del packets[9:12]
    return packets


@breach("response-order")
def read_acknowledged_only():
    packets = basic()
    packets[9:12] = [_acknowledgement(packets[9], psn(8), 3)]
    return packets


@breach("response-order")
def atomic_acknowledged_only():
    packets = basic()
    packets[13] = _acknowledgement(packets[13], psn(9), 4)
    return packets


@breach("response-order")
def atomic_response_to_a_send():
    packets = basic()
    headers = p.aeth(31, 5) + bytes(8)
    packets[15] = dataclasses.replace(packets[15], opcode=p.ATOMIC_ACK, headers=headers)
    return packets


@breach("response-order")
def atomic_answered_twice():
    packets = basic()
    packets.insert(14, dataclasses.replace(packets[13], time_ns=packets[13].time_ns + 1000))
    return packets


def _acknowledgement(like: Packet, number: int, msn: int) -> Packet:
    return dataclasses.replace(
        like, opcode=p.ACK, psn=number, headers=p.aeth(31, msn), payload=b""
    )


@breach("ack-owed")
def last_request_not_answered():
    return basic()[:-1]


@breach("ack-owed")
def read_not_answered():
    return basic()[:9]


@breach("ack-owed")
def read_answered_in_part():
    return basic()[:11]


@breach("ack-owed")
def duplicate_not_answered():
    return duplicate_acknowledged()[:-1]


@breach("ack-owed")
def never_any_answer():
    return basic()[:3]


change("nak-sequence-psn", gap, 4, psn=psn(2), also=("retransmit-acknowledged",))
change("nak-sequence-psn", gap, 4, "--race-us", "5", psn=psn(0), also=("nak-not-followed",))
change("nak-sequence-psn", gap, 4, psn=psn(4))


@breach("nak-sequence-psn", also=("ack-owed",))
def nak_without_a_gap():
    return _replaced(basic(), 15, psn=psn(11), headers=p.aeth(p.NAK_SEQUENCE, 5))


@breach("nak-repeated")
def second_nak_for_a_gap():
    packets = gap()
    packets.insert(5, dataclasses.replace(packets[4], time_ns=packets[4].time_ns + 10_000))
    return packets


@breach("nak-after-rnr")
def nak_for_what_was_under_way():
    packets = rnr()
    nak = dataclasses.replace(
        packets[5], headers=p.aeth(p.NAK_SEQUENCE, 1), time_ns=packets[5].time_ns + 10_000
    )
    return packets[:6] + [nak] + packets[6:]


change("nak-psn", refused, 5, psn=psn(0))
change("nak-psn", refused, 5, psn=psn(9))
change("nak-psn", rnr, 5, psn=psn(8))


@breach("response-after-error")
def acknowledged_after_an_error():
    packets = refused()
    packets.append(_acknowledgement(packets[5], psn(3), 2))
    packets[-1].time_ns += 10_000
    return packets


change("msn-count", basic, 15, headers=p.aeth(31, 6))
change("msn-count", basic, 15, headers=p.aeth(31, 4))
change("msn-count", coalesced, 6, headers=p.aeth(31, 4))
change("msn-count", gap, 8, headers=p.aeth(31, 3))
change("msn-count", refused, 5, headers=p.aeth(p.NAK_ACCESS, 2))
change("msn-count", basic, 11, headers=p.aeth(31, 2), also=("msn-backwards",))
change("msn-backwards", basic, 15, headers=p.aeth(31, 3), also=("msn-count",))


@breach("read-response-unrequested")
def responses_nobody_asked_for():
    packets = basic()
    packets[15] = dataclasses.replace(
        packets[15], opcode=p.READ_ONLY, psn=psn(10), payload=bytes(100)
    )
    return packets


@breach("read-response-unrequested")
def read_answered_twice():
    packets = basic()
    again = [
        dataclasses.replace(packet, time_ns=packets[11].time_ns + 1000 * (index + 1))
        for index, packet in enumerate(packets[9:12])
    ]
    packets[12:12] = again[:1]
    return packets


@breach("read-response-unrequested", also=("read-response-sequence",))
def read_begun_anew_for_no_reason():
    packets = basic()
    again = dataclasses.replace(packets[9], time_ns=packets[10].time_ns + 1000)
    packets[11:11] = [again]
    return packets


@breach("read-response-sequence")
def read_response_missing():
    packets = basic()
    del packets[10]
    return packets


@breach("read-response-sequence")
def last_instead_of_middle():
    return _replaced(basic(), 10, opcode=p.READ_LAST, headers=p.aeth(31, 3))


@breach("read-response-sequence")
def only_instead_of_first():
    return _replaced(basic(), 9, opcode=p.READ_ONLY)


@breach("read-response-sequence", also=("response-order",))
def run_left_for_another():
    packets = pipelined_reads()
    del packets[4]  # the end of the first
    return packets


change("read-response-size", basic, 9, payload=bytes(128))
change("read-response-size", basic, 11, payload=bytes(700 - 512 + 4))
change("read-response-size", basic, 11, payload=b"")
change("read-response-content", read_again, 11, payload=bytes(256))
change("atomic-replay", read_again, 13, headers=p.aeth(31, 3) + struct.pack(">Q", 78))
