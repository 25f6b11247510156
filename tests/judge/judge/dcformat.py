# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Session headers and messages of dynamic connections (docs/wire.md, "Dynamic connections")."""

import struct
from typing import NamedTuple

from .frame import BTH_SIZE, Frame
from .opcodes import CARRIED, CARRIED_AT, DC_NUMBERS, DCCH, DCSH

CONNECT, ACCEPT, CNAK, DISCONNECT, KEEPALIVE = range(1, 6)
NAMES = ("", "CONNECT", "ACCEPT", "CNAK", "DISCONNECT", "KEEPALIVE")
NO_CONTEXT, NO_SUCH_DCT, DRAINING, STALE_SESSION, INCOMPATIBLE, QUOTA = range(1, 7)
REASONS = (
    "unknown", "no context", "no such DCT", "draining", "stale session", "incompatible", "quota",
)  # fmt: skip
FULL = 1  # flag of CONNECT
EXECUTED = 1  # flag of CNAK: the expected PSN says what has been executed
ANSWER = 1  # flag of KEEPALIVE
_MAGIC, _VERSION = 0x44435631, 1
_FLAGS = {CONNECT: 3, ACCEPT: 0, CNAK: 1, DISCONNECT: 0, KEEPALIVE: 1}  # those that exist
_VALUES = {CONNECT: range(1, 6), ACCEPT: range(1, 6), CNAK: range(1, 7)}
_HEAD = struct.Struct(">IBBBB")
_BODIES = {
    # reserved + DCI, reserved + PSN, nonce, lease, key, incarnation, stream, resources, reserved
    CONNECT: struct.Struct(">IIIIQQBB6s"),
    ACCEPT: struct.Struct(">IQIIB11s"),  # nonce, session, PSN, lease, resources, reserved
    CNAK: struct.Struct(">IQIII"),  # nonce, session, PSN, back-off, reserved
    DISCONNECT: struct.Struct(">QII"),  # session, PSN, reserved
    KEEPALIVE: struct.Struct(">QII"),
}


class Header(NamedTuple):
    """DCSH."""

    form: int
    stream: int
    source: int
    nonce: int  # of form 0, else 0
    session: int  # of form 1, else 0


class Message(NamedTuple):
    """Fields that a message does not have are 0."""

    subtype: int
    value: int
    flags: int
    nonce: int = 0
    session: int = 0
    psn: int = 0  # first, expected or next PSN
    dci: int = 0
    stream: int = 0
    lasting: tuple[int, ...] = ()  # of CONNECT: what else a repetition repeats


def header(frame: Frame) -> tuple[Header, list[str]]:
    """The header, and what is wrong with it."""
    word, tail = struct.unpack_from(">IQ", frame.data, frame.bth + BTH_SIZE)
    form, stream, source = word >> 31, word >> 24 & 0x7F, word & 0xFFFFFF
    fields = Header(form, stream, source, 0 if form else tail >> 32, tail if form else 0)
    faults = _numbers(frame.dqpn, source)
    if not form and tail & 0xFFFFFFFF:
        faults.append("reserved bits are not 0")
    if not form and not frame.info.is_request:
        faults.append("a response of form 0")
    return fields, faults


def message(frame: Frame) -> tuple[Message | None, list[str]]:
    """The message and what is wrong with it; None when it cannot be read."""
    fields, faults = _read(frame.dqpn, frame.payload_bytes())
    if fields is not None and (frame.ack_request or frame.psn or frame.pad):
        faults.append("AckReq, PSN or pad count is not 0")
    return fields, faults


def connect_data(frame: Frame) -> tuple[Message | None, list[str]]:
    """The CONNECT of a packet that carries a request too, and what is wrong with it."""
    start = frame.bth + BTH_SIZE
    data = bytearray(frame.data[start : start + DCCH])
    operation, data[CARRIED_AT] = data[CARRIED_AT], 0
    fields, faults = _read(frame.dqpn, bytes(data))
    if fields is None:
        return None, faults
    if fields.subtype != CONNECT or operation not in CARRIED:
        return None, [f"0x{operation:02X} behind {NAMES[fields.subtype]}"]
    if fields.flags & FULL:
        faults.append("data with the full handshake")
    if fields.psn != frame.psn:
        faults.append(f"PSN {frame.psn}, the first one is {fields.psn}")
    if frame.payload_length > (128 << fields.value) - (DCCH - DCSH):
        faults.append(f"{frame.payload_length} bytes of payload beside a CONNECT")
    return fields, faults


def _read(dqpn: int, data: bytes) -> tuple[Message | None, list[str]]:
    if len(data) < _HEAD.size:
        return None, [f"{len(data)} bytes are no message"]
    magic, version, subtype, value, flags = _HEAD.unpack_from(data)
    body = _BODIES.get(subtype)
    if magic != _MAGIC or version != _VERSION or body is None:
        return None, [f"magic number 0x{magic:08X}, version {version}, subtype {subtype}"]
    if len(data) != _HEAD.size + body.size:
        return None, [f"{NAMES[subtype]} of {len(data)} bytes"]
    faults = _numbers(dqpn)
    if value not in _VALUES.get(subtype, (0,)):
        faults.append(f"value {value} in {NAMES[subtype]}")
    if flags & ~_FLAGS[subtype]:
        faults.append(f"flags 0x{flags:02X} in {NAMES[subtype]}")
    fields, reserved = _body(subtype, value, flags, body.unpack_from(data, _HEAD.size))
    if subtype == CONNECT:
        faults += _numbers(fields.dci)
        if fields.stream > 0x7F:
            faults.append(f"stream {fields.stream}")
    if reserved:
        faults.append(f"reserved bits of {NAMES[subtype]} are not 0")
    return fields, faults


def _body(subtype: int, value: int, flags: int, body: tuple) -> tuple[Message, bool]:
    """The message, and whether any reserved bit is set."""
    if subtype == CONNECT:
        dci, psn, nonce, lease, key, incarnation, stream, resources, rest = body
        reserved = dci >> 24 or psn >> 24 or any(rest)
        lasting = (lease, key, incarnation, resources)
        fields = Message(
            subtype, value, flags, nonce, 0, psn & 0xFFFFFF, dci & 0xFFFFFF, stream, lasting
        )
    elif subtype == ACCEPT:
        nonce, session, psn, _, _, rest = body
        reserved = psn >> 24 or any(rest)
        fields = Message(subtype, value, flags, nonce, session, psn & 0xFFFFFF)
    elif subtype == CNAK:
        nonce, session, psn, _, rest = body
        reserved = psn >> 24 or rest
        fields = Message(subtype, value, flags, nonce, session, psn & 0xFFFFFF)
    else:
        session, psn, rest = body
        reserved = psn >> 24 or rest
        fields = Message(subtype, value, flags, 0, session, psn & 0xFFFFFF)
    return fields, bool(reserved)


def _numbers(*numbers: int) -> list[str]:
    return [f"number 0x{number:06X}" for number in numbers if number not in DC_NUMBERS]
