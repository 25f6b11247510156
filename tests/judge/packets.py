# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Builds RoCEv2 packets and capture files for the tests of the checker; uses none of its code."""

import ipaddress
import struct
import zlib
from dataclasses import dataclass, field
from typing import Iterable

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
READ, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = 0x0C, 0x0D, 0x0E, 0x0F, 0x10
ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD = 0x11, 0x12, 0x13, 0x14
UC, UD, UD_SEND_ONLY, CNP = 0x20, 0x60, 0x64, 0x81
LOCK_RESPONSE = 0xDA
NO_CREDITS = 0x1F
RNR_NAK, NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS = 0x20, 0x60, 0x61, 0x62


def reth(length: int, va: int = 0x7F0000001000, rkey: int = 0x1234) -> bytes:
    return struct.pack(">QII", va, rkey, length)


def aeth(syndrome: int, msn: int) -> bytes:
    return struct.pack(">I", syndrome << 24 | msn & 0xFFFFFF)


def atomic_eth(va: int, swap_or_add: int, compare: int = 0, rkey: int = 0x1234) -> bytes:
    return struct.pack(">QIQQ", va, rkey, swap_or_add, compare)


@dataclass
class Packet:
    """A packet as values; to_bytes() makes a frame whose checksums and ICRC are right.

    A field that is None is filled in; giving it makes a wrong packet.
    """

    src: str
    dst: str
    opcode: int
    dqpn: int
    psn: int
    headers: bytes = b""
    payload: bytes = b""
    ack_request: bool = False
    solicited: bool = False
    mig_req: bool = False
    src_port: int = 0xC123
    pkey: int = 0xFFFF
    version: int = 0
    byte4: int = 0
    reserved7: int = 0
    tos: int = 0
    ttl: int = 64
    ip_flags: int = 0x4000
    udp_checksum: int = 0
    vlan: int | None = None
    pad: bytes | None = None
    pad_count: int | None = None
    ip_length: int | None = None
    udp_length: int | None = None
    ip_checksum: int | None = None
    icrc: int | None = None
    time_ns: int = 0
    comment: str = ""
    direction: str = ""

    def to_bytes(self) -> bytes:
        pad = bytes(-len(self.payload) % 4) if self.pad is None else self.pad
        pad_count = len(pad) if self.pad_count is None else self.pad_count
        flags = self.solicited << 7 | self.mig_req << 6 | pad_count << 4 | self.version
        bth = struct.pack(
            ">BBHII", self.opcode, flags, self.pkey, self.byte4 << 24 | self.dqpn,
            (self.ack_request << 7 | self.reserved7) << 24 | self.psn & 0xFFFFFF,
        )  # fmt: skip
        body = self.headers + self.payload + pad
        size = 8 + len(bth) + len(body) + 4
        udp_length = size if self.udp_length is None else self.udp_length
        udp = struct.pack(">HHHH", self.src_port, 4791, udp_length, self.udp_checksum)
        ip, masked = self._ip(size)
        covered = b"\xff" * 8 + masked + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:] + body
        icrc = zlib.crc32(covered) if self.icrc is None else self.icrc
        tag = b"" if self.vlan is None else struct.pack(">HH", 0x8100, self.vlan)
        kind = b"\x08\x00" if len(masked) == 20 else b"\x86\xdd"
        ethernet = b"\x02\0\0\0\0\x0b\x02\0\0\0\0\x0a" + tag + kind
        return ethernet + ip + udp + bth + body + struct.pack("<I", icrc)

    def _ip(self, size: int) -> tuple[bytes, bytes]:
        """The IP header, and the same with its variant fields as ones."""
        source, destination = ipaddress.ip_address(self.src), ipaddress.ip_address(self.dst)
        if source.version == 6:
            length = size if self.ip_length is None else self.ip_length
            rest = struct.pack(">HB", length, 17)
            ends = source.packed + destination.packed
            head = struct.pack(">I", 6 << 28 | self.tos << 20)
            masked_head = b"\x6f\xff\xff\xff"
            return head + rest + bytes([self.ttl]) + ends, masked_head + rest + b"\xff" + ends
        length = 20 + size if self.ip_length is None else self.ip_length
        header = bytearray(
            struct.pack(">BBHHHBBH", 0x45, self.tos, length, 1, self.ip_flags, self.ttl, 17, 0)
            + source.packed
            + destination.packed
        )
        total = sum(struct.unpack(">10H", header))
        total = (total & 0xFFFF) + (total >> 16)
        checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        if self.ip_checksum is not None:
            checksum = self.ip_checksum
        header[10:12] = struct.pack(">H", checksum)
        masked = bytearray(header)
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
        return bytes(header), bytes(masked)


@dataclass
class Conversation:
    """Writes down a dialogue between the queue pairs of two hosts, packet by packet."""

    requester: str = "192.0.2.1"
    responder: str = "192.0.2.2"
    requester_qpn: int = 0x11
    responder_qpn: int = 0x22
    pmtu: int = 256
    service: int = 0
    now_ns: int = 1_700_000_000_000_000_000
    step_ns: int = 10_000
    packets: list[Packet] = field(default_factory=list)

    def wait(self, ns: int) -> None:
        self.now_ns += ns

    def add(self, packet: Packet) -> Packet:
        packet.time_ns = self.now_ns
        self.now_ns += self.step_ns
        self.packets.append(packet)
        return packet

    def request(self, operation: int, psn: int, payload=b"", headers=b"", **fields) -> Packet:
        return self.add(
            Packet(
                self.requester, self.responder, self.service | operation, self.responder_qpn, psn,
                headers, payload, **fields,
            )
        )  # fmt: skip

    def respond(self, operation: int, psn: int, headers=b"", payload=b"", **fields) -> Packet:
        return self.add(
            Packet(
                self.responder, self.requester, self.service | operation, self.requester_qpn, psn,
                headers, payload, **fields,
            )
        )  # fmt: skip

    def ack(self, psn: int, msn: int, syndrome: int = NO_CREDITS) -> Packet:
        return self.respond(ACK, psn, aeth(syndrome, msn))

    def send(self, psn: int, packets: int, tail: int = 100, first: int = 1) -> None:
        """A SEND of several packets, of which those from number `first` are sent."""
        for index in range(first, packets + 1):
            last = index == packets
            operation = SEND_LAST if last else SEND_FIRST if index == 1 else SEND_MIDDLE
            if packets == 1:
                operation = SEND_ONLY
            size = tail if last else self.pmtu
            self.request(operation, psn + index - 1, pattern(size, psn + index), ack_request=last)

    def write(self, psn: int, length: int) -> None:
        count = max(1, -(-length // self.pmtu))
        for index in range(count):
            last = index == count - 1
            operation = WRITE_LAST if last else WRITE_FIRST if index == 0 else WRITE_MIDDLE
            if count == 1:
                operation = WRITE_ONLY
            size = length - index * self.pmtu if last else self.pmtu
            header = reth(length) if index == 0 else b""
            self.request(operation, psn + index, pattern(size, psn), header, ack_request=last)

    def read(self, psn: int, length: int, va: int = 0x7F0000001000) -> None:
        self.request(READ, psn, headers=reth(length, va), ack_request=True)

    def read_responses(self, psn: int, length: int, msn: int, stop: int | None = None) -> None:
        """The responses to a READ, or the first `stop` of them."""
        count = max(1, -(-length // self.pmtu))
        for index in range(count if stop is None else stop):
            last = index == count - 1
            operation = READ_LAST if last else READ_FIRST if index == 0 else READ_MIDDLE
            if count == 1:
                operation = READ_ONLY
            size = length - index * self.pmtu if last else self.pmtu
            header = b"" if operation == READ_MIDDLE else aeth(NO_CREDITS, msn)
            self.respond(operation, psn + index, header, pattern(size, psn + index))

    def fetch_add(self, psn: int, add: int = 1) -> None:
        self.request(FETCH_ADD, psn, headers=atomic_eth(0x7F0000002000, add), ack_request=True)

    def atomic_ack(self, psn: int, msn: int, original: int) -> None:
        self.respond(ATOMIC_ACK, psn, aeth(NO_CREDITS, msn) + struct.pack(">Q", original))


def pattern(size: int, seed: int) -> bytes:
    """Bytes that differ from one seed to the next."""
    return bytes((7 * index + 31 * seed + 3) & 0xFF for index in range(size))


def pcap(
    packets: list[Packet], snaplen: int = 1 << 16, order: str = "<", nano: bool = True
) -> bytes:
    magic, tick = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, 1)]
    for packet in packets:
        data = packet.to_bytes()
        seconds, rest = divmod(packet.time_ns, 10**9)
        kept = data[:snaplen]
        parts.append(struct.pack(order + "IIII", seconds, rest // tick, len(kept), len(data)))
        parts.append(kept)
    return b"".join(parts)


def udp_checksum(packet: Packet) -> int:
    """That of RFC 768, for a packet of IPv4 whose other fields are right."""
    frame = packet.to_bytes()
    l3 = 14 if packet.vlan is None else 18
    addresses, datagram = frame[l3 + 12 : l3 + 20], frame[l3 + 20 :]
    datagram = datagram[:6] + bytes(2) + datagram[8:]
    words = addresses + struct.pack(">HH", 17, len(datagram)) + datagram + bytes(len(datagram) % 2)
    total = sum(int.from_bytes(words[at : at + 2], "big") for at in range(0, len(words), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def frames(raw: Iterable[bytes], linktype: int = 1) -> bytes:
    """A pcap file of frames that are bytes already, a microsecond apart."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, linktype)]
    for number, data in enumerate(raw):
        parts.append(struct.pack("<IIII", 1_700_000_000, number, len(data), len(data)) + data)
    return b"".join(parts)


def pcapng(packets: list[Packet], order: str = "<", resolution: int = 9) -> bytes:
    """A pcapng file with directions and comments; `resolution` is the value of if_tsresol."""

    def option(code: int, value: bytes) -> bytes:
        return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)

    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    end = option(0, b"")
    parts = [
        block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(1, struct.pack(order + "HHI", 1, 0, 0) + option(9, bytes([resolution])) + end),
        block(5, struct.pack(order + "III", 0, 0, 0)),  # a block to be skipped
    ]
    for packet in packets:
        data = packet.to_bytes()
        ticks = packet.time_ns * 10**resolution // 10**9
        size = len(data)
        body = struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, size, size)
        body += data + bytes(-len(data) % 4)
        if packet.direction:
            body += option(2, struct.pack(order + "I", {"in": 1, "out": 2}[packet.direction]))
        if packet.comment:
            body += option(1, packet.comment.encode())
        parts.append(block(6, body + end))
    return b"".join(parts)


def load(path: str) -> list[tuple[int, bytearray]]:
    """Time in nanoseconds and bytes of each frame of a little-endian pcap file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] != b"\xd4\xc3\xb2\xa1":
        raise ValueError(f"{path}: not a little-endian pcap file with microseconds")
    frames, position = [], 24
    while position < len(data):
        seconds, micros, size, _ = struct.unpack_from("<IIII", data, position)
        position += 16
        frames.append(
            (seconds * 10**9 + micros * 1000, bytearray(data[position : position + size]))
        )
        position += size
    return frames


def save(path: str, frames: list[tuple[int, bytes]]) -> None:
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 16, 1)]
    for time_ns, data in frames:
        seconds, rest = divmod(time_ns, 10**9)
        parts.append(struct.pack("<IIII", seconds, rest, len(data), len(data)) + data)
    with open(path, "wb") as file:
        file.write(b"".join(parts))


def mend(data: bytearray) -> None:
    """Makes checksum and ICRC of an edited frame right again (Ethernet, no VLAN, no IP options)."""
    if data[12:14] == b"\x08\x00":
        data[24:26] = b"\0\0"
        total = sum(struct.unpack(">10H", data[14:34]))
        total = (total & 0xFFFF) + (total >> 16)
        data[24:26] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
        end, udp, variant = 14 + (data[16] << 8 | data[17]), 34, (15, 22, 24, 25)
    else:
        end, udp, variant = 54 + (data[18] << 8 | data[19]), 54, (15, 16, 17, 21)
    covered = bytearray(data[: end - 4])
    if udp == 54:
        covered[14] |= 0x0F
    for index in (*variant, udp + 6, udp + 7, udp + 12):
        covered[index] = 0xFF
    data[end - 4 : end] = struct.pack("<I", zlib.crc32(b"\xff" * 8 + covered[14:]))
