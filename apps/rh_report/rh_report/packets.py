# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Reads a capture into columns, one row a packet, with the decoder of the capture checker.

A million frames do not fit the memory as objects, so each becomes a row of fixed size, and its extension
headers, which are of any opcode's length, stand one behind the other in `extension`.
"""

import struct
from dataclasses import dataclass, field

import numpy

from judge.capture import Capture
from judge.dcformat import connect_data, header as dc_header, message as dc_message
from judge.frame import BTH_SIZE, ICRC_SIZE, parse
from judge.opcodes import DC, DC_CONNECT, DC_MESSAGE, UD

ROW = numpy.dtype([
    ('time', '<i8'), ('number', '<u4'), ('flow', '<u4'), ('psn', '<u4'), ('wire', '<u4'), ('icrc', '<u4'),
    ('length', '<i4'), ('start', '<u4'), ('port', '<u2'), ('pkey', '<u2'), ('opcode', 'u1'), ('flags', 'u1'),
    ('tos', 'u1'), ('marks', 'u1'), ('ack_request', 'u1'), ('size', 'u1'), ('dropped', 'u1'), ('ttl', 'u1'),
])
_PACK = struct.Struct('<qIIIIIiIHHBBBBBBBB')
_BTH = struct.Struct('>BBHII')
assert _PACK.size == ROW.itemsize

_LONGEST_HEADERS = 64
_MAX_MESSAGES = 50_000  # management datagrams and messages of dynamic connections that are decoded
_MAX_REASONS = 200
GSI_QPN = 1
MAD_BYTES = 256
# A flow is (source, destination, service, destination QPN, number of the initiator or of the sender of a
# datagram, number of the target); what a packet does not name is 0.


@dataclass
class Packets:
    """What a capture holds. `flows` says what the numbers in the rows' `flow` stand for."""

    path: str
    rows: numpy.ndarray = None
    extension: bytes = b''
    flows: list = field(default_factory=list)
    messages: dict = field(default_factory=dict)  # row: payload of a management datagram
    dynamic: dict = field(default_factory=dict)  # row: what a message of dynamic connections says
    sessions: dict = field(default_factory=dict)  # (target, session or nonce): (initiator, its number, target's)
    reasons: dict = field(default_factory=dict)  # row: why it was dropped
    frames: int = 0
    unreadable: int = 0
    cut: int = 0
    truncated: bool = False
    format: str = ''


def extensions_used(path, ports):
    """(dynamic connections, locks): whether opcodes of Rockhopper's own go to numbers that such ends have.

    Others use these opcodes for things of their own, so a connection is believed only with the magic number of
    its first message, and a lock where a request is of the form that it must have.
    """
    from judge.opcodes import DC_NUMBERS, LOCK_REQUEST, LOCK_RESPONSE, Opcodes
    from judge import layers, lockformat

    dynamic = locks = False
    both = Opcodes(True, True)
    wanted = {DC_MESSAGE, DC_CONNECT}
    lock_opcodes = {DC | LOCK_REQUEST, DC | LOCK_RESPONSE}
    for record in Capture(path):
        data = record.data
        # Most frames are told by one byte, where the BTH of the usual headers begins.
        if len(data) > 62 and data[42] < 0xC0 and data[12:14] == b'\x08\0' and data[14] == 0x45:
            continue
        found = layers.find(data, record.linktype, ports)
        if isinstance(found, layers.Other) or len(data) < found.udp + 8 + BTH_SIZE:
            continue
        opcode = data[found.udp + 8]
        if opcode < 0xC0 or (opcode not in wanted and opcode not in lock_opcodes):
            continue
        frame = parse(record, both, ports)
        if frame is None or frame.info is None or frame.defect:
            continue
        if opcode in wanted and frame.dqpn in DC_NUMBERS:
            read = dc_message if frame.info.service == DC_MESSAGE else connect_data
            dynamic = dynamic or read(frame)[0] is not None
        elif opcode in lock_opcodes and frame.info.is_request:
            locks = locks or lockformat.request(frame)[0] is not None
        if dynamic and locks:
            break
    return dynamic, locks


def read(path, options):
    capture = Capture(path)
    packets = Packets(path, format=capture.format)
    rows, extension = bytearray(), bytearray()
    flows = {}
    opcodes, ports = options.opcodes, options.ports
    pack = _PACK.pack
    count = 0
    for record in capture:
        packets.frames += 1
        frame = parse(record, opcodes, ports)
        if frame is None:
            continue
        if frame.opcode < 0 and not _read_bth(frame):
            packets.unreadable += 1
            continue
        info, data, bth = frame.info, frame.data, frame.bth
        l3 = frame.l3
        if frame.ip_version == 4:
            tos, ttl = data[l3 + 1], data[l3 + 8]
        else:
            tos, ttl = (data[l3] & 0x0F) << 4 | data[l3 + 1] >> 4, data[l3 + 7]
        start = len(extension)
        initiator = target = 0
        if info is None:
            service, length, headers = frame.opcode & 0xE0, max(0, frame.ip_end - ICRC_SIZE - bth - BTH_SIZE), b''
        else:
            service, length = info.service, max(0, frame.payload_length)
            headers = data[bth + BTH_SIZE:bth + BTH_SIZE + info.headers] if info.headers else b''
            if service in (DC, DC_CONNECT, DC_MESSAGE) and not frame.defect:
                initiator, target = _ends(packets, frame, count)
            elif service == UD and frame.dqpn == GSI_QPN and length >= MAD_BYTES \
                    and len(packets.messages) < _MAX_MESSAGES:
                packets.messages[count] = frame.payload_bytes()[:MAD_BYTES]
            if service == UD:
                initiator = source_qpn(headers)
        key = frame.src, frame.dst, service, frame.dqpn, initiator, target
        flow = flows.get(key)
        if flow is None:
            flow = flows[key] = len(flows)
        if headers:
            extension += headers[:_LONGEST_HEADERS]
        icrc = 0
        if frame.complete:
            icrc = int.from_bytes(data[frame.ip_end - ICRC_SIZE:frame.ip_end], 'little')
        else:
            packets.cut += 1
        if frame.dropped and len(packets.reasons) < _MAX_REASONS * 100:
            packets.reasons[count] = record.comment[5:].strip()[:_MAX_REASONS]
        rows += pack(
            frame.time_ns, frame.number, flow, frame.psn, frame.wire_length & 0xFFFFFFFF, icrc, length, start,
            frame.src_port, frame.pkey, frame.opcode, frame.flags, tos, frame.byte4, frame.byte8,
            len(extension) - start, frame.dropped, ttl)
        count += 1
    packets.rows = numpy.frombuffer(rows, ROW)
    packets.extension = bytes(extension)
    packets.flows = list(flows)
    packets.truncated = capture.truncated
    return packets


def _read_bth(frame):
    """Of a packet whose lengths are wrong the BTH is shown all the same; what is behind it is not believed."""
    if len(frame.data) < frame.bth + BTH_SIZE:
        return False
    frame.opcode, frame.flags, frame.pkey, one, two = _BTH.unpack_from(frame.data, frame.bth)
    frame.byte4, frame.dqpn, frame.byte8, frame.psn = one >> 24, one & 0xFFFFFF, two >> 24, two & 0xFFFFFF
    frame.complete = False
    return True


def _ends(packets, frame, row):
    """Numbers of initiator and target that a packet of dynamic connections names, or that an earlier one with
    the same session or nonce has named; 0 where none has. The stream stands above the initiator's number."""
    service, sessions = frame.info.service, packets.sessions
    if service == DC:
        fields, _ = dc_header(frame)
        is_request = frame.info.is_request
        initiator = (fields.source if is_request else frame.dqpn) | fields.stream << 24
        target = frame.dqpn if is_request else fields.source
        if fields.session:
            sessions.setdefault((frame.dst if is_request else frame.src, fields.session), (initiator, target))
        return initiator, target
    fields, _ = (dc_message if service == DC_MESSAGE else connect_data)(frame)
    if fields is None:
        return 0, 0
    if len(packets.dynamic) < _MAX_MESSAGES:
        packets.dynamic[row] = fields
    if fields.dci:
        ends = fields.dci | fields.stream << 24, frame.dqpn
        sessions.setdefault((frame.src, fields.dci, fields.nonce), ends)
        return ends
    if fields.nonce:
        ends = sessions.get((frame.dst, frame.dqpn, fields.nonce), (0, 0))
        if fields.session and ends[0]:
            sessions.setdefault((frame.src, fields.session), ends)
        return ends
    return sessions.get((frame.dst, fields.session)) or sessions.get((frame.src, fields.session)) or (0, 0)


def source_qpn(headers):
    """That of the DETH."""
    return int.from_bytes(headers[5:8], 'big') if len(headers) >= 8 else 0
