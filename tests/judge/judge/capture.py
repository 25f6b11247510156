# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Reads pcap and pcapng files, compressed by gzip or not, also those cut short because their writer
was killed."""

import mmap
import os
import struct
import zlib
from typing import Iterator, NamedTuple

LINKTYPE_ETHERNET = 1
LINKTYPE_RAW = 101
LINKTYPE_LINUX_SLL = 113
LINKTYPE_IPV4 = 228
LINKTYPE_IPV6 = 229
LINKTYPE_LINUX_SLL2 = 276

_NS = 10**9
_GZIP_MAGIC = b"\x1f\x8b"
_PCAP_MAGICS = {  # first four bytes -> (byte order, nanoseconds of one tick)
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
# By byte order: made once, since each of a million packets needs them.
_BLOCK_HEAD = {order: struct.Struct(order + "II") for order in "<>"}
_ENHANCED = {order: struct.Struct(order + "IIIII") for order in "<>"}
_OPTION_HEAD = {order: struct.Struct(order + "HH") for order in "<>"}
_WORD = {order: struct.Struct(order + "I") for order in "<>"}
_MAX_FRAME = 1 << 20  # a longer one is a damaged file, not a packet

_SECTION_HEADER = 0x0A0D0D0A
_INTERFACE = 1
_OLD_PACKET = 2
_SIMPLE_PACKET = 3
_ENHANCED_PACKET = 6
_OPT_COMMENT = 1
_EPB_FLAGS = 2
_IF_TSRESOL = 9
_IF_TSOFFSET = 14
_DIRECTIONS = ("", "in", "out", "")


class CaptureError(Exception):
    """The file is no capture, or damaged where reading cannot go on."""


class Record(NamedTuple):
    """One captured frame."""

    number: int  # 1 for the first, as other tools count
    time_ns: int
    linktype: int
    data: bytes
    wire_length: int  # larger than len(data) when a snap length cut the frame
    direction: str  # "in", "out", or "" when the file does not say
    comment: str


class Capture:
    """An open capture; iterate it to get its records, any number of times.

    `truncated` is set by an iteration that met an incomplete last record.
    """

    def __init__(self, path: str):
        self.path = path
        self.truncated = False
        self._data = _load(path)
        head = bytes(self._data[:4])
        if head in _PCAP_MAGICS and len(self._data) >= 24:
            self.format = "pcap"
        elif head == b"\x0a\x0d\x0d\x0a" and len(self._data) >= 28:
            self.format = "pcapng"
        else:
            raise CaptureError("neither a pcap nor a pcapng file")

    def __iter__(self) -> Iterator[Record]:
        return self._pcap_records() if self.format == "pcap" else self._pcapng_records()

    def _pcap_records(self) -> Iterator[Record]:
        data = self._data
        order, tick_ns = _PCAP_MAGICS[bytes(data[:4])]
        linktype = struct.unpack_from(order + "I", data, 20)[0] & 0x0FFFFFFF
        header = struct.Struct(order + "IIII")
        position, number, size = 24, 0, len(data)
        while position + 16 <= size:
            seconds, ticks, captured, original = header.unpack_from(data, position)
            position += 16
            number += 1
            if captured > _MAX_FRAME:
                raise CaptureError(f"record {number} claims {captured} bytes: the file is damaged")
            if position + captured > size:
                position = -1
                break
            time_ns = seconds * _NS + ticks * tick_ns
            yield Record(
                number, time_ns, linktype, data[position : position + captured], original, "", ""
            )
            position += captured
        self.truncated = position != size

    def _pcapng_records(self) -> Iterator[Record]:
        data = self._data
        size, position, number, order = len(data), 0, 0, "<"
        interfaces: list[_Interface] = []
        while position + 12 <= size:
            if data[position : position + 4] == b"\x0a\x0d\x0d\x0a":
                order = _section_order(data, position)
                interfaces = []
            kind, length = _BLOCK_HEAD[order].unpack_from(data, position)
            if length < 12 or length % 4:
                raise CaptureError(f"block at byte {position} has length {length}")
            if position + length > size:
                break
            body, end = position + 8, position + length - 4
            if kind == _INTERFACE:
                interfaces.append(_Interface(data, order, body, end))
            elif kind in (_ENHANCED_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                number += 1
                yield _packet(data, order, kind, body, end, interfaces, number)
            position += length
        self.truncated = position != size


class _Interface:
    """What an interface description says about the packets that refer to it."""

    def __init__(self, data: bytes, order: str, body: int, end: int):
        if end - body < 8:
            raise CaptureError(f"interface description at byte {body - 8} is too short")
        self.linktype, _, self.snaplen = struct.unpack_from(order + "HHI", data, body)
        self.ticks_per_second = 10**6
        self.offset_s = 0
        for code, value in _options(data, order, body + 8, end):
            if code == _IF_TSRESOL and value:
                exponent = value[0] & 0x7F
                self.ticks_per_second = 2**exponent if value[0] & 0x80 else 10**exponent
            elif code == _IF_TSOFFSET and len(value) == 8:
                self.offset_s = struct.unpack(order + "q", value)[0]

    def time_ns(self, ticks: int) -> int:
        if self.ticks_per_second == _NS:
            return ticks + self.offset_s * _NS
        return ticks * _NS // self.ticks_per_second + self.offset_s * _NS


def _load(path: str):
    """The file's bytes; mapped where possible, so that large captures cost no memory."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size and file.seekable():
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return _unpacked(mapped) if mapped[:2] == _GZIP_MAGIC else mapped
        data = file.read()
        return _unpacked(data) if data[:2] == _GZIP_MAGIC else data


def _unpacked(data) -> bytes:
    """What is compressed in it, as far as it goes: its writer may have been killed."""
    whole, rest = [], bytes(data)
    while rest[:2] == _GZIP_MAGIC:
        member = zlib.decompressobj(31)
        try:
            whole.append(member.decompress(rest))
        except zlib.error as error:
            raise CaptureError(f"the compressed bytes are damaged: {error}") from error
        rest = member.unused_data
    return b"".join(whole)


def _section_order(data: bytes, position: int) -> str:
    magic = data[position + 8 : position + 12]
    if magic == b"\x1a\x2b\x3c\x4d":
        return ">"
    if magic == b"\x4d\x3c\x2b\x1a":
        return "<"
    raise CaptureError(f"section header at byte {position} has no byte-order magic")


def _options(data: bytes, order: str, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    head = _OPTION_HEAD[order]
    while position + 4 <= end:
        code, length = head.unpack_from(data, position)
        position += 4
        if code == 0 or position + length > end:
            return
        yield code, data[position : position + length]
        position += (length + 3) & ~3


def _packet(
    data: bytes,
    order: str,
    kind: int,
    body: int,
    end: int,
    interfaces: list[_Interface],
    number: int,
) -> Record:
    """The record of an Enhanced, (obsolete) Packet or Simple Packet Block."""
    header_size = 4 if kind == _SIMPLE_PACKET else 20
    if end - body < header_size:
        raise CaptureError(f"packet block of frame {number} is too short")
    high = low = 0
    if kind == _ENHANCED_PACKET:
        index, high, low, captured, original = _ENHANCED[order].unpack_from(data, body)
    elif kind == _OLD_PACKET:
        index, _, high, low, captured, original = struct.unpack_from(order + "HHIIII", data, body)
    else:
        index, original = 0, struct.unpack_from(order + "I", data, body)[0]
        captured = original
    if index >= len(interfaces):
        raise CaptureError(f"frame {number} refers to interface {index}, which is not described")
    interface = interfaces[index]
    if kind == _SIMPLE_PACKET:
        captured = min(original, interface.snaplen or original)
    start = body + header_size
    if start + captured > end:
        raise CaptureError(f"frame {number} is longer than its block")
    direction, comment = "", ""
    options = start + ((captured + 3) & ~3)
    if kind != _SIMPLE_PACKET and options < end:
        for code, value in _options(data, order, options, end):
            if code == _OPT_COMMENT:
                text = value.decode("utf-8", "replace")
                comment = f"{comment}\n{text}" if comment else text
            elif code == _EPB_FLAGS and len(value) == 4:
                direction = _DIRECTIONS[_WORD[order].unpack(value)[0] & 3]
    time_ns = interface.time_ns(high << 32 | low)
    frame = data[start : start + captured]
    return Record(number, time_ns, interface.linktype, frame, original, direction, comment)
