# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Messages of the connection manager (IBTA vol. 1, 12.6): what a reader of a handshake wants to know of them."""

import struct
from typing import NamedTuple

_CLASS, _HEADER = 0x07, 24
_NAMES = {
    0x10: 'REQ', 0x11: 'MRA', 0x12: 'REJ', 0x13: 'REP', 0x14: 'RTU', 0x15: 'DREQ', 0x16: 'DREP', 0x17: 'SIDR_REQ',
    0x18: 'SIDR_REP', 0x19: 'LAP', 0x1A: 'APR',
}
_MTUS = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_SERVICES = ('RC', 'UC', 'RD', 'XRC')
_ABOUT = ('REQ', 'REP', 'another message', '?')


class Message(NamedTuple):
    name: str
    text: str
    local: int  # communication ids; for SIDR the request id
    remote: int
    qpn: int  # of the sender, where the message says it
    conversation: int  # transaction id of the MAD


def decode(payload):
    """The message in a management datagram, or None for one of another class."""
    if len(payload) < 256 or payload[1] != _CLASS:
        return None
    attribute, = struct.unpack_from('>H', payload, 16)
    transaction, = struct.unpack_from('>Q', payload, 8)
    body = payload[_HEADER:]
    name = _NAMES.get(attribute)
    if name is None:
        return Message('CM', f'attribute 0x{attribute:04X}', 0, 0, 0, transaction)
    local, remote = struct.unpack_from('>II', body)
    qpn, words = 0, []
    if name == 'REQ':
        service, = struct.unpack_from('>Q', body, 8)
        qpn, remote = int.from_bytes(body[32:35], 'big'), 0
        words = [
            f'QP 0x{qpn:06x}', f'service id 0x{service:016x}', _SERVICES[body[43] >> 1 & 3],
            f'first PSN 0x{int.from_bytes(body[44:47], "big"):06x}', f'path MTU {_MTUS.get(body[50] >> 4, "?")}',
            f'responder resources {body[35]}', f'initiator depth {body[39]}', f'retries {body[47] & 7}',
            f'RNR retries {body[50] & 7}', f'ACK timeout {body[95] >> 3}']
    elif name == 'REP':
        qpn = int.from_bytes(body[12:15], 'big')
        words = [
            f'QP 0x{qpn:06x}', f'first PSN 0x{int.from_bytes(body[20:23], "big"):06x}',
            f'responder resources {body[24]}', f'initiator depth {body[25]}', f'RNR retries {body[27] >> 5}']
    elif name == 'REJ':
        words = [f'of {_ABOUT[body[8] >> 6]}', f'reason {struct.unpack_from(">H", body, 10)[0]}']
    elif name == 'MRA':
        words = [f'of {_ABOUT[body[8] >> 6]}', f'service timeout {body[9] >> 3}']
    elif name == 'DREQ':
        words = [f'to QP 0x{int.from_bytes(body[8:11], "big"):06x}']
    elif name == 'SIDR_REQ':
        remote = 0
        words = [f'service id 0x{struct.unpack_from(">Q", body, 8)[0]:016x}']
    elif name == 'SIDR_REP':
        remote, qpn = 0, int.from_bytes(body[8:11], 'big')
        words = [f'status {body[4]}', f'QP 0x{qpn:06x}', f'Q_Key 0x{struct.unpack_from(">I", body, 20)[0]:08x}']
    ids = f'id 0x{local:08x}' + (f' to 0x{remote:08x}' if remote else '')
    return Message(name, ', '.join([ids, *words]), local, remote, qpn, transaction)
