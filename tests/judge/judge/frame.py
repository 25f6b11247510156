# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A captured RoCEv2 packet: its headers from IP on, and where its parts lie."""

import ipaddress
import struct

from . import capture, layers
from .opcodes import CARRIED, CARRIED_AT, DC_CONNECT, STANDARD, Opcode, Opcodes

BTH_SIZE = 12
ICRC_SIZE = 4
_UDP_HEADER = struct.Struct(">HHHH")
_BTH = struct.Struct(">BBHII")


# When a packet arrives: the time in ns, and how many packets its receiver has sent by then.
Arrival = tuple[int, int]


class Frame:
    """A RoCEv2 packet: where its parts lie in the captured bytes, and the fields of its BTH.

    `info` is None and nothing behind the BTH is known when the opcode is not defined. `defect` is
    the rule and the reason when a packet could not be taken apart; the rule is empty when only the
    capture is to blame.
    """

    __slots__ = (
        "number", "time_ns", "data", "wire_length", "dropped", "direction",
        "ip_version", "l3", "src", "dst", "ip_end", "udp", "src_port", "udp_length", "udp_checksum",
        "bth", "opcode", "info", "flags", "pad", "pkey", "byte4", "dqpn", "byte8", "psn",
        "payload", "payload_length", "complete", "defect", "sent", "receiver_sent",
    )  # fmt: skip

    number: int
    time_ns: int
    sent: int  # packets that its sender has sent before
    receiver_sent: int  # packets that its receiver has sent before
    data: bytes
    info: Opcode | None
    defect: tuple[str, str] | None

    @property
    def arrival(self) -> Arrival:
        return self.time_ns, self.receiver_sent

    @property
    def ack_request(self) -> bool:
        return bool(self.byte8 & 0x80)

    def payload_bytes(self) -> bytes:
        return self.data[self.payload : self.payload + self.payload_length]

    def u32(self, offset: int) -> int:
        return int.from_bytes(self.data[offset : offset + 4], "big")

    def reth(self) -> tuple[int, int, int]:
        """Virtual address, R_Key and DMA length; only for opcodes that have a RETH."""
        return struct.unpack_from(">QII", self.data, self.bth + BTH_SIZE + self.info.reth)

    def aeth(self) -> tuple[int, int]:
        """Syndrome and MSN; only for opcodes that have an AETH."""
        word = self.u32(self.bth + BTH_SIZE + self.info.aeth)
        return word >> 24, word & 0xFFFFFF

    def msn(self) -> int:
        """Only for responses that have an AETH or LKAETH."""
        if self.info.lock >= 0:
            return self.u32(self.lock_header + 4) >> 8
        return self.aeth()[1]

    @property
    def lock_header(self) -> int:
        """Where the LKETH or LKAETH begins; only for opcodes that have one."""
        return self.bth + BTH_SIZE + self.info.lock


def address(raw: bytes) -> str:
    return str(ipaddress.ip_address(raw))


def parse(
    record: capture.Record,
    opcodes: Opcodes = STANDARD,
    ports: frozenset[int] = layers.STANDARD_PORTS,
) -> Frame | None:
    """The RoCEv2 packet of a record, or None when it holds something else."""
    data = record.data
    found = layers.find(data, record.linktype, ports)
    if isinstance(found, layers.Other):
        return None
    frame = Frame()
    frame.number, frame.time_ns, frame.data = record.number, record.time_ns, data
    frame.wire_length, frame.direction = record.wire_length, record.direction
    frame.dropped = record.comment.startswith("drop:") if record.comment else False
    frame.ip_version, frame.l3, frame.src, frame.dst, frame.ip_end, frame.udp = found
    frame.src_port, _, frame.udp_length, frame.udp_checksum = _UDP_HEADER.unpack_from(
        data, frame.udp
    )
    _transport(frame, opcodes)
    return frame


def _was_cut(frame: Frame) -> bool:
    """A switch that mirrors cuts frames without a word; then both lengths in it agree."""
    length = int.from_bytes(frame.data[frame.udp + 4 : frame.udp + 6], "big")
    return len(frame.data) >= frame.udp + 8 and frame.udp + length == frame.ip_end


def _transport(frame: Frame, opcodes: Opcodes) -> None:
    """Fills in the BTH and what follows it."""
    data = frame.data
    frame.bth = bth = frame.udp + 8
    frame.complete = frame.ip_end <= len(data)
    frame.defect, frame.info, frame.opcode, frame.dqpn = None, None, -1, 0
    frame.payload, frame.payload_length = 0, 0
    if frame.ip_end > frame.wire_length and not _was_cut(frame):
        frame.defect = ("ip-length", "the IP packet is longer than the frame")
    elif frame.ip_end < bth + BTH_SIZE + ICRC_SIZE:
        frame.defect = ("header-length", "no room for the BTH and the ICRC")
    elif len(data) < bth + BTH_SIZE:
        frame.defect = ("", "the BTH was not captured")
    if frame.defect:
        return
    opcode, flags, frame.pkey, word1, word2 = _BTH.unpack_from(data, bth)
    frame.opcode, frame.flags, frame.pad = opcode, flags, flags >> 4 & 3
    frame.byte4, frame.dqpn = word1 >> 24, word1 & 0xFFFFFF
    frame.byte8, frame.psn = word2 >> 24, word2 & 0xFFFFFF
    info = opcodes.find(opcode, frame.dqpn)
    if info is not None and info.service == DC_CONNECT and len(data) > bth + BTH_SIZE + CARRIED_AT:
        info = CARRIED.get(data[bth + BTH_SIZE + CARRIED_AT], info)
    frame.info = info
    if info is None:
        return
    frame.payload = payload = bth + BTH_SIZE + info.headers
    frame.payload_length = frame.ip_end - ICRC_SIZE - frame.pad - payload
    if payload > frame.ip_end - ICRC_SIZE:
        frame.defect = ("header-length", f"no room for the headers of {info.name}")
    elif bth + BTH_SIZE + info.fields_end > len(data):
        frame.defect = ("", "the extension headers were not captured")
