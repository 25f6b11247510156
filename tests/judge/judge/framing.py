# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Rules that a single packet keeps or breaks, whatever came before it."""

import struct

from . import dcformat, icrc, lockformat
from .frame import BTH_SIZE, ICRC_SIZE, Frame
from .opcodes import (
    ACKNOWLEDGE, ATOMIC_WRITE, CNP_CLASS, DC, DC_CONNECT, DC_MESSAGE, FIRST, MANUFACTURER, MIDDLE,
    RC, RD, UC, UD, XRC,
)  # fmt: skip
from .options import Options
from .report import Report

_DYNAMIC = (DC, DC_MESSAGE, DC_CONNECT)
_CONNECTED = (RC, UC, XRC, *_DYNAMIC)
_WORDS_OF_20 = struct.Struct(">10H")
_NAK_CODES = 5  # 0 sequence, 1 invalid request, 2 remote access, 3 operational, 4 invalid RD
_LARGEST_MTU = 4096


def check(frame: Frame, options: Options, report: Report) -> bool:
    """Judges one packet; False when it is of no use to what looks at sequences."""
    _ip_and_udp(frame, report)
    if frame.defect:
        rule, reason = frame.defect
        if rule:
            report.add(rule, frame, reason)
        return False
    _bth(frame, options, report)
    # Some captures lack the ICRC; whoever says that it does not count wants the rest judged.
    if frame.complete and "icrc" not in options.ignore and icrc.compute(frame) != icrc.stored(frame):
        report.add(
            "icrc", frame, f"ICRC {icrc.stored(frame):08x}, should be {icrc.compute(frame):08x}"
        )
        return False
    info = frame.info
    if info is None:
        if not (options.manufacturer_opcodes and frame.opcode & 0xE0 in MANUFACTURER):
            report.add("opcode-defined", frame, f"opcode 0x{frame.opcode:02X}")
        return False
    if not _lengths(frame, report):
        return False
    if info.aeth >= 0:
        _aeth(frame, report)
    if info.service == CNP_CLASS:
        _cnp(frame, report)
    elif info.service == UD and frame.payload_length > (options.pmtu or _LARGEST_MTU):
        report.add("ud-size", frame, f"{frame.payload_length} bytes of payload")
    elif info.service in _CONNECTED and frame.src_port < 0xC000:
        report.add("udp-source-port", frame, f"source port 0x{frame.src_port:04X}")
    is_readable = info.lock < 0 or _lock(frame, report)
    return is_readable and (info.service not in _DYNAMIC or _dynamic(frame, report))


def _ip_and_udp(frame: Frame, report: Report) -> None:
    data, l3 = frame.data, frame.l3
    if frame.ip_version == 4:
        header = data[l3 : frame.udp]
        words = (
            _WORDS_OF_20.unpack(header)
            if len(header) == 20
            else struct.unpack(f">{len(header) // 2}H", header)
        )
        # Ones' complement: the sum of all words, checksum included, is all ones.
        if sum(words) % 0xFFFF or not any(words):
            report.add("ipv4-checksum", frame, f"header checksum 0x{words[5]:04X} is wrong")
        if words[3] & 0xE000 != 0x4000:
            report.add("ipv4-fragment", frame, f"flags and offset 0x{words[3]:04X}")
    if frame.udp_checksum and frame.complete and not _udp_checksum_is_right(frame):
        report.add("udp-checksum", frame, f"UDP checksum 0x{frame.udp_checksum:04X} is wrong")
    if frame.ip_end <= frame.wire_length and frame.udp_length != frame.ip_end - frame.udp:
        report.add(
            "udp-length",
            frame,
            f"UDP length {frame.udp_length}, the IP payload has {frame.ip_end - frame.udp} bytes",
        )


def _udp_checksum_is_right(frame: Frame) -> bool:
    """Over the pseudo header and the datagram: all words together are all ones."""
    datagram = frame.data[frame.udp : frame.ip_end]
    words = frame.src + frame.dst + struct.pack(">II", len(datagram), 17) + datagram
    words += bytes(len(words) % 2)
    return sum(struct.unpack(f">{len(words) // 2}H", words)) % 0xFFFF == 0


def _bth(frame: Frame, options: Options, report: Report) -> None:
    if frame.flags & 0x0F:
        report.add("bth-version", frame, f"version {frame.flags & 0x0F}")
    if frame.byte4 & 0x3F or frame.byte8 & 0x7F:
        report.add(
            "bth-reserved", frame, f"bytes 4 and 8 are {frame.byte4:02x} and {frame.byte8:02x}"
        )
    if frame.pkey not in options.pkeys:
        report.add("bth-pkey", frame, f"P_Key 0x{frame.pkey:04X}")


def _lengths(frame: Frame, report: Report) -> bool:
    info, pad = frame.info, frame.pad
    room = frame.ip_end - ICRC_SIZE - frame.payload
    if room & 3:
        report.add("payload-alignment", frame, f"{room} bytes of payload and padding")
        return False
    if not info.has_payload:
        if pad:
            report.add("pad-count", frame, f"pad count {pad} in {info.name}")
        if room:
            report.add("header-length", frame, f"{room} bytes behind the headers of {info.name}")
        return not room and not pad
    if info.operation == ATOMIC_WRITE and room - pad != 8:
        report.add("header-length", frame, f"{room - pad} bytes of payload in {info.name}")
        return False
    if pad > room or (pad and info.position in (FIRST, MIDDLE)):
        report.add("pad-count", frame, f"pad count {pad} in {info.name} with {room} bytes")
        return pad <= room
    if pad and frame.complete:
        padding = frame.data[frame.ip_end - ICRC_SIZE - pad : frame.ip_end - ICRC_SIZE]
        if any(padding):
            report.add("pad-zero", frame, f"padding {padding.hex()}")
    return True


def _aeth(frame: Frame, report: Report) -> None:
    syndrome, _ = frame.aeth()
    kind, code = syndrome >> 5, syndrome & 0x1F
    if kind == 0 or frame.info.service == RD:
        return
    if frame.info.operation != ACKNOWLEDGE:
        report.add("aeth-syndrome", frame, f"syndrome 0x{syndrome:02X} in {frame.info.name}")
    elif kind == 2 or kind > 3 or (kind == 3 and code >= _NAK_CODES):
        report.add("aeth-syndrome", frame, f"syndrome 0x{syndrome:02X} is reserved")


def _dynamic(frame: Frame, report: Report) -> bool:
    """Session header or message of a dynamic connection; False when it cannot be read."""
    if frame.info.service == DC:
        fields, faults = dcformat.header(frame)
    elif frame.info.service == DC_CONNECT:
        fields, faults = dcformat.connect_data(frame)
    elif frame.complete:
        fields, faults = dcformat.message(frame)
    else:
        return False
    if faults:
        report.add("dc-format", frame, ", ".join(faults))
    return fields is not None


def _lock(frame: Frame, report: Report) -> bool:
    """Lock request or response; False when it cannot be read."""
    read = lockformat.request if frame.info.is_request else lockformat.response
    fields, faults = read(frame)
    if faults:
        report.add("lock-format", frame, ", ".join(faults))
    return fields is not None


def _cnp(frame: Frame, report: Report) -> None:
    reserved = frame.data[frame.bth + BTH_SIZE : frame.payload]
    if not frame.byte4 & 0x40 or frame.psn or any(reserved):
        report.add("cnp-format", frame, "BECN clear, PSN not 0 or reserved bytes not 0")
