# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The invariant CRC of RoCEv2 (IBTA vol. 1, 7.8.1 and annex A17).

CRC-32 as Ethernet and zlib compute it, over eight bytes of ones in the place of the LRH, the IP and
UDP headers, the BTH with its extension headers, the payload and its padding. Fields that a network
element may change count as ones. The result is stored least significant byte first.
"""

import zlib

from .frame import ICRC_SIZE, Frame

_ONES = b"\xff" * 8


def compute(frame: Frame) -> int:
    """The ICRC that a completely captured packet should carry."""
    data, l3, bth = frame.data, frame.l3, frame.bth
    headers = bytearray(data[l3 : bth + 12])
    if frame.ip_version == 4:
        headers[1] = headers[8] = headers[10] = headers[11] = 0xFF
    else:
        headers[0] |= 0x0F  # traffic class (both halves) and flow label
        headers[1] = headers[2] = headers[3] = 0xFF
        headers[7] = 0xFF  # hop limit
    udp = frame.udp - l3
    headers[udp + 6] = headers[udp + 7] = 0xFF
    headers[bth - l3 + 4] = 0xFF  # FECN, BECN, reserved
    crc = zlib.crc32(headers, zlib.crc32(_ONES))
    return zlib.crc32(data[bth + 12 : frame.ip_end - ICRC_SIZE], crc)


def stored(frame: Frame) -> int:
    return int.from_bytes(frame.data[frame.ip_end - ICRC_SIZE : frame.ip_end], "little")
