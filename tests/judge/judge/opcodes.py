# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The opcodes of the BTH and the headers that follow each (IBTA vol. 1, 9.2.1 and annex A14)."""

from typing import NamedTuple

# Sizes of the extension headers in bytes.
RDETH, DETH, XRCETH, RETH, AETH, ATOMIC_ETH, ATOMIC_ACK_ETH = 4, 8, 4, 16, 4, 28, 8
IMM_DT, IETH, FETH, CNP_RESERVED, DCSH, DCCH, LKETH, LKAETH = 4, 4, 4, 16, 12, 48, 40, 24

RC, UC, RD, UD, CNP_CLASS, XRC = 0x00, 0x20, 0x40, 0x60, 0x80, 0xA0
MANUFACTURER = (0xC0, 0xE0)
# Dynamic connections of Rockhopper (docs/wire.md): data, the messages that open and close, and a
# CONNECT with the first request of its connection.
DC, DC_MESSAGE, DC_CONNECT = 0xC0, 0xD8, 0xDE
CNP = 0x81

# The low five bits, the same in all connected services.
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(0x00, 0x06)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM = range(0x06, 0x0A)
WRITE_ONLY, WRITE_ONLY_IMM = 0x0A, 0x0B
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = range(0x0C, 0x11)
ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD, RESYNC = range(0x11, 0x16)
SEND_LAST_INVALIDATE, SEND_ONLY_INVALIDATE = 0x16, 0x17
FLUSH, ATOMIC_WRITE = 0x1C, 0x1D
# Rockhopper's, behind the upper three bits of DC also on connections of RC (docs/wire.md).
LOCK_REQUEST, LOCK_RESPONSE = 0x19, 0x1A

FIRST, MIDDLE, LAST, ONLY = "first", "middle", "last", "only"

READ_RESPONSES = frozenset((READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY))
RESPONSES = READ_RESPONSES | {ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE}
ATOMICS = frozenset((COMPARE_SWAP, FETCH_ADD))
# Requests answered by a response of their own, which no later acknowledgement replaces.
ANSWERED = ATOMICS | {READ_REQUEST, FLUSH, ATOMIC_WRITE, LOCK_REQUEST}
# Those which a second execution does not harm.
REPEATABLE = ANSWERED - ATOMICS - {LOCK_REQUEST}


class Opcode(NamedTuple):
    """What the opcode byte alone says about a packet."""

    name: str
    service: int  # RC, UC, ...
    operation: int  # the low five bits
    kind: str  # "send", "write", "read", "read response", "ack", "atomic", ...
    position: str  # of the packet in its message
    headers: int  # bytes of extension headers after the BTH
    reth: int  # offset of the RETH behind the BTH, -1 without one
    aeth: int  # the same for the AETH
    fields_end: int  # behind the last of these two, from the BTH's end
    has_payload: bool
    is_request: bool
    lock: int = -1  # offset of the LKETH or LKAETH behind the BTH, -1 without one


# operation: (name, kind, position, headers but those of RD and XRC, has RETH, has AETH, payload)
_OPERATIONS = {
    SEND_FIRST: ("SEND_FIRST", "send", FIRST, 0, False, False, True),
    SEND_MIDDLE: ("SEND_MIDDLE", "send", MIDDLE, 0, False, False, True),
    SEND_LAST: ("SEND_LAST", "send", LAST, 0, False, False, True),
    SEND_LAST_IMM: ("SEND_LAST_IMM", "send", LAST, IMM_DT, False, False, True),
    SEND_ONLY: ("SEND_ONLY", "send", ONLY, 0, False, False, True),
    SEND_ONLY_IMM: ("SEND_ONLY_IMM", "send", ONLY, IMM_DT, False, False, True),
    WRITE_FIRST: ("WRITE_FIRST", "write", FIRST, RETH, True, False, True),
    WRITE_MIDDLE: ("WRITE_MIDDLE", "write", MIDDLE, 0, False, False, True),
    WRITE_LAST: ("WRITE_LAST", "write", LAST, 0, False, False, True),
    WRITE_LAST_IMM: ("WRITE_LAST_IMM", "write", LAST, IMM_DT, False, False, True),
    WRITE_ONLY: ("WRITE_ONLY", "write", ONLY, RETH, True, False, True),
    WRITE_ONLY_IMM: ("WRITE_ONLY_IMM", "write", ONLY, RETH + IMM_DT, True, False, True),
    READ_REQUEST: ("READ_REQUEST", "read", ONLY, RETH, True, False, False),
    READ_FIRST: ("READ_RESPONSE_FIRST", "read response", FIRST, AETH, False, True, True),
    READ_MIDDLE: ("READ_RESPONSE_MIDDLE", "read response", MIDDLE, 0, False, False, True),
    READ_LAST: ("READ_RESPONSE_LAST", "read response", LAST, AETH, False, True, True),
    READ_ONLY: ("READ_RESPONSE_ONLY", "read response", ONLY, AETH, False, True, True),
    ACKNOWLEDGE: ("ACKNOWLEDGE", "ack", ONLY, AETH, False, True, False),
    ATOMIC_ACKNOWLEDGE: (
        "ATOMIC_ACKNOWLEDGE", "atomic ack", ONLY, AETH + ATOMIC_ACK_ETH, False, True, False
    ),
    COMPARE_SWAP: ("COMPARE_SWAP", "atomic", ONLY, ATOMIC_ETH, False, False, False),
    FETCH_ADD: ("FETCH_ADD", "atomic", ONLY, ATOMIC_ETH, False, False, False),
    RESYNC: ("RESYNC", "resync", ONLY, 0, False, False, False),
    SEND_LAST_INVALIDATE: ("SEND_LAST_INVALIDATE", "send", LAST, IETH, False, False, True),
    SEND_ONLY_INVALIDATE: ("SEND_ONLY_INVALIDATE", "send", ONLY, IETH, False, False, True),
    FLUSH: ("FLUSH", "flush", ONLY, FETH + RETH, True, False, False),
    ATOMIC_WRITE: ("ATOMIC_WRITE", "atomic write", ONLY, RETH, True, False, True),
}

_RC_OPERATIONS = frozenset(_OPERATIONS) - {RESYNC}
_DEFINED = {
    RC: ("RC", _RC_OPERATIONS),
    UC: ("UC", frozenset(range(SEND_FIRST, WRITE_ONLY_IMM + 1))),
    RD: ("RD", frozenset(range(SEND_FIRST, RESYNC + 1))),
    UD: ("UD", frozenset((SEND_ONLY, SEND_ONLY_IMM))),
    XRC: ("XRC", _RC_OPERATIONS),
}


def _opcode(service: int, prefix: str, operation: int) -> Opcode:
    name, kind, position, headers, has_reth, has_aeth, has_payload = _OPERATIONS[operation]
    is_request = operation not in RESPONSES
    front = 0
    if service == RD:
        front = RDETH + (DETH if is_request else 0)
    elif service == UD:
        front = DETH
    elif service == XRC and is_request:
        front = XRCETH
    elif service == DC:
        front = DCSH
    elif service == DC_CONNECT:
        front = DCCH
    # FLUSH carries the FETH before the RETH.
    reth = front + (FETH if operation == FLUSH else 0) if has_reth else -1
    aeth = front if has_aeth else -1
    fields_end = reth + RETH if has_reth else aeth + AETH if has_aeth else front
    return Opcode(
        f"{prefix}_{name}", service, operation, kind, position, front + headers, reth, aeth,
        fields_end, has_payload, is_request,
    )


def _table() -> list[Opcode | None]:
    table: list[Opcode | None] = [None] * 256
    for service, (prefix, operations) in _DEFINED.items():
        for operation in operations:
            table[service | operation] = _opcode(service, prefix, operation)
    table[CNP] = Opcode("CNP", CNP_CLASS, 1, "cnp", ONLY, CNP_RESERVED, -1, -1, 0, False, False)
    return table


TABLE = _table()


# What a packet of DC_CONNECT is, by the opcode that it carries in this byte of the CONNECT.
CARRIED_AT = 44
CARRIED = {
    DC | operation: _opcode(DC_CONNECT, "DC_CONNECT", operation)
    for operation in (
        SEND_ONLY, SEND_ONLY_IMM, SEND_ONLY_INVALIDATE, WRITE_ONLY, WRITE_ONLY_IMM
    )
}  # fmt: skip


def _with_dynamic_connections() -> list[Opcode | None]:
    table = list(TABLE)
    for operation in _RC_OPERATIONS:
        table[DC | operation] = _opcode(DC, "DC", operation)
    table[DC_MESSAGE] = Opcode(
        "DC_MESSAGE", DC_MESSAGE, 0x18, "dc message", ONLY, 0, -1, -1, 0, True, False
    )
    table[DC_CONNECT] = Opcode(
        "DC_CONNECT", DC_CONNECT, 0x1E, "dc connect", ONLY, DCCH, -1, -1, DCCH, True, True
    )
    return table


def _lock(service: int, prefix: str, operation: int) -> Opcode:
    front = DCSH if service == DC else 0
    is_request = operation == LOCK_REQUEST
    end = front + (LKETH if is_request else LKAETH)
    name = f"{prefix}_LOCK_{'REQUEST' if is_request else 'RESPONSE'}"
    kind = "lock" if is_request else "lock response"
    return Opcode(
        name, service, operation, kind, ONLY, end, -1, -1, end, is_request, is_request, front
    )


# What they are to ends of dynamic connections, which have these numbers, and to others.
DC_NUMBERS = range(0xD00000, 0xE00000)
_DC_LOCKS = {DC | which: _lock(DC, "DC", which) for which in (LOCK_REQUEST, LOCK_RESPONSE)}
_RC_LOCKS = {DC | which: _lock(RC, "RC", which) for which in (LOCK_REQUEST, LOCK_RESPONSE)}


class Opcodes:
    """Those that are defined in a capture."""

    def __init__(self, dynamic_connections: bool, locks: bool):
        self._table = _with_dynamic_connections() if dynamic_connections else TABLE
        # By whether the destination is an end of a dynamic connection.
        self._locks = {False: _RC_LOCKS, True: _DC_LOCKS if dynamic_connections else {}}
        if not locks:
            self._locks = {False: {}, True: {}}

    def find(self, opcode: int, dqpn: int) -> Opcode | None:
        if opcode in _RC_LOCKS:
            return self._locks[dqpn in DC_NUMBERS].get(opcode)
        return self._table[opcode]


STANDARD = Opcodes(dynamic_connections=False, locks=False)
