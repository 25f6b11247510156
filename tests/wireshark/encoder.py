# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Encodes what Rockhopper adds to RoCEv2, from docs/wire.md; uses nothing of the dissector.

A layout is a tuple of (field, bits), most significant first. Fields are named by their display
filter, without "rockhopper."; RESERVED is 0 unless a value is given for it.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'judge'))

import packets  # noqa: E402

RESERVED = 'reserved'
MAGIC, VERSION = 0x44435631, 1
SELECTIVE_ACK, CONTROL, MASKED_ATOMIC, CONNECT_DATA = 0xD5, 0xD8, 0xDB, 0xDE
LOCK_REQUEST, LOCK_RESPONSE = 0xD9, 0xDA

DCSH = {
    0: (('dc.form', 1), ('dc.stream', 7), ('dc.source', 24), ('dc.nonce', 32), (RESERVED, 32)),
    1: (('dc.form', 1), ('dc.stream', 7), ('dc.source', 24), ('dc.session', 64)),
}
SESSION = (('dc.session.shard', 8), ('dc.session.index', 24), ('dc.session.generation', 32))

RETH = (('reth.va', 64), ('reth.r_key', 32), ('reth.dmalen', 32))
AETH = (('aeth.syndrome', 8), ('aeth.msn', 24))
ATOMIC_ETH = (('reth.va', 64), ('reth.r_key', 32), ('atomiceth.swapdt', 64),
              ('atomiceth.cmpdt', 64))
ATOMIC_ACK_ETH = (('atomicacketh.origremdt', 64),)
IMM_DT = (('immdt', 32),)
IETH = (('ieth', 32),)
FETH = ((RESERVED, 26), ('feth.selectivity', 2), ('feth.placement', 4))
SAETH = (('saeth.bitmap', 256),)
XAETH = (('xaeth.subtype', 8), (RESERVED, 24), ('xaeth.r_key', 32), ('xaeth.va', 64),
         ('xaeth.compare', 64), ('xaeth.compare_mask', 64), ('xaeth.swap_add', 64),
         ('xaeth.mask', 64))

LKETH = (('lock.subtype', 8), ('lock.flags', 8), ('lock.scope', 16), ('lock.r_key', 32),
         ('lock.va', 64), ('lock.tries', 16), ('lock.timeout', 8), (RESERVED, 8),
         ('lock.wait', 32), ('lock.owner', 32), ('lock.lease', 32), ('lock.scope_psns', 16),
         (RESERVED, 48))
LOCK_WORD = (('lock.r_key', 32), ('lock.shared', 8), (RESERVED, 24), ('lock.va', 64))
LOCK_OPERATION = (('lock.compare', 64), ('lock.compare_mask', 64), ('lock.swap_add', 64),
                  ('lock.mask', 64))
_ACQUIRE_SEVERAL, _ACQUIRE_FOREIGN, _RELEASE_FOREIGN = 6, 7, 8
# Subtypes of lock requests, and the payload of each; a word stands for 1 to 7.
LOCK_PAYLOADS = {1: (), 2: (), 3: (), 5: (), _ACQUIRE_SEVERAL: LOCK_WORD,
                 _ACQUIRE_FOREIGN: LOCK_OPERATION, _RELEASE_FOREIGN: LOCK_OPERATION}
LOCK_FLAGS = ('lock.flags.store_forward', 'lock.flags.fifo', 'lock.flags.resend', 'lock.flags.add')
LOCK_ADD = 8
# How the last field of a response is called, by its status.
LOCK_VALUES = {1: 'lock.token', 2: 'lock.looked', 3: 'lock.looked', 4: 'lock.token',
               5: 'lock.value', 6: 'lock.value'}
LOCK_FAILED = 3


def lkaeth_layout(status: int) -> tuple:
    return (('lock.status', 8), ('lock.cause', 8), ('lock.scope', 16), ('lock.msn', 24),
            (RESERVED, 8), ('lock.previous', 64), (LOCK_VALUES[status], 64))


# By the low five bits: extension headers of RC, whether there is payload.
OPERATIONS = {
    0x00: ((), True), 0x01: ((), True), 0x02: ((), True), 0x04: ((), True),
    0x03: (IMM_DT, True), 0x05: (IMM_DT, True),
    0x06: (RETH, True), 0x0A: (RETH, True), 0x07: ((), True), 0x08: ((), True),
    0x09: (IMM_DT, True), 0x0B: (RETH + IMM_DT, True),
    0x0C: (RETH, False),
    0x0D: (AETH, True), 0x0F: (AETH, True), 0x10: (AETH, True), 0x0E: ((), True),
    0x11: (AETH, False), 0x12: (AETH + ATOMIC_ACK_ETH, False),
    0x13: (ATOMIC_ETH, False), 0x14: (ATOMIC_ETH, False),
    0x16: (IETH, True), 0x17: (IETH, True),
    0x1C: (FETH + RETH, False),
    0x1D: (RETH, True),
}  # fmt: skip
ATOMIC_WRITE = 0x1D
CARRIED = (0x04, 0x05, 0x0A, 0x0B, 0x17)  # by a connect
RESPONSES = range(0x0D, 0x13)

CONNECT, ACCEPT, CNAK, DISCONNECT, KEEPALIVE = range(1, 6)
# How the byte "value" is called in a message.
VALUES = {CONNECT: 'dc.mtu', ACCEPT: 'dc.mtu', CNAK: 'dc.reason'}
# Flags from bit 0 on.
FLAGS = {CONNECT: ('dc.flags.full', 'dc.flags.data'), CNAK: ('dc.flags.executed',),
         KEEPALIVE: ('dc.flags.answer',)}
_CLOSING = (('dc.session', 64), (RESERVED, 8), ('dc.next_psn', 24), (RESERVED, 32))
_BODIES = {
    CONNECT: ((RESERVED, 8), ('dc.dci', 24), (RESERVED, 8), ('dc.first_psn', 24),
              ('dc.nonce', 32), ('dc.lease', 32), ('dc.access_key', 64), ('dc.incarnation', 64),
              ('dc.stream', 8), ('dc.responder_resources', 8), (RESERVED, 48)),
    ACCEPT: (('dc.nonce', 32), ('dc.session', 64), (RESERVED, 8), ('dc.expected_psn', 24),
             ('dc.lease', 32), ('dc.responder_resources', 8), (RESERVED, 88)),
    CNAK: (('dc.nonce', 32), ('dc.session', 64), (RESERVED, 8), ('dc.expected_psn', 24),
           ('dc.backoff', 32), (RESERVED, 32)),
    DISCONNECT: _CLOSING, KEEPALIVE: _CLOSING,
}  # fmt: skip


def message_layout(subtype: int) -> tuple:
    head = (('dc.magic', 32), ('dc.version', 8), ('dc.subtype', 8),
            (VALUES.get(subtype, 'dc.value'), 8), ('dc.flags', 8))
    return head + _BODIES[subtype]


def connect_with_data_layout() -> tuple:
    """A CONNECT that carries a request: its last word names the opcode of that."""
    *connect, (_, rest) = message_layout(CONNECT)
    return (*connect, (RESERVED, rest - 32), ('dc.operation', 8), (RESERVED, 24))


def connect_data_layout(operation: int) -> tuple:
    return connect_with_data_layout() + OPERATIONS[operation][0]


def size_of(layout: tuple) -> int:
    """Bytes of a layout."""
    return sum(bits for _, bits in layout) // 8


def encode(layout: tuple, values: dict) -> bytes:
    number = 0
    for name, bits in layout:
        value = values.get(name, 0)
        assert 0 <= value < 1 << bits, (name, value)
        number = number << bits | value
    return number.to_bytes(size_of(layout), 'big')


def places(layout: tuple):
    """(field, first byte, byte behind it) of each field that is not reserved."""
    bit = 0
    for name, bits in layout:
        if name != RESERVED:
            yield name, bit // 8, (bit + bits + 7) // 8
        bit += bits


@dataclasses.dataclass
class Sample:
    """A packet of ours as values."""

    opcode: int
    layout: tuple  # everything between BTH and payload, or up to the end; of a name twice one value
    values: dict
    payload: bytes = b''
    bth: dict = dataclasses.field(default_factory=dict)  # dqpn, psn, ack_request, pad, ...
    ends: tuple = ('192.0.2.1', '192.0.2.2')
    vlan: int | None = None

    @property
    def headers(self) -> bytes:
        return encode(self.layout, self.values)

    def with_values(self, **values) -> 'Sample':
        """A copy with other values; `_` in names stands for the dot that keywords cannot have."""
        known = {name.replace('.', '_'): name for name, _ in self.layout}
        changed = {known[key]: value for key, value in values.items()}
        return dataclasses.replace(self, values=self.values | changed)

    def packet(self) -> packets.Packet:
        fields = {'dqpn': 0xD00005, 'psn': 0} | self.bth
        return packets.Packet(*self.ends, self.opcode, headers=self.headers, payload=self.payload,
                              mig_req=True, vlan=self.vlan, **fields)

    def frame(self) -> bytes:
        return self.packet().to_bytes()

    @property
    def offset(self) -> int:
        """Where the headers begin in the frame."""
        tag = 0 if self.vlan is None else 4
        ip = 40 if ':' in self.ends[0] else 20
        return 14 + tag + ip + 8 + 12


def some_value(rng, name: str, bits: int) -> int:
    """A random value that the document allows for the field, whatever the packet."""
    if name in ('dc.source', 'dc.dci'):
        return rng.randrange(0xD00000, 0xE00000)
    if name == 'aeth.syndrome':
        return rng.choice((rng.randrange(32), 0x20 + rng.randrange(32), 0x60 + rng.randrange(5)))
    allowed = {RESERVED: (0,), 'dc.magic': (MAGIC,), 'dc.version': (VERSION,), 'dc.value': (0,),
               'dc.mtu': range(1, 6), 'dc.reason': range(1, 7), 'dc.stream': range(128),
               'feth.selectivity': (0, 1), 'feth.placement': (1, 2, 3),
               'xaeth.subtype': (1, 2), 'lock.timeout': range(32), 'lock.shared': (0, 1)}
    if name in allowed:
        return rng.choice(allowed[name])
    return rng.getrandbits(bits)


def some_values(rng, layout: tuple, **fixed) -> dict:
    return {name: some_value(rng, name, bits) for name, bits in layout} | fixed


def dc_sample(rng, operation: int, form: int) -> Sample:
    headers, has_payload = OPERATIONS[operation]
    layout = DCSH[form] + headers
    values = some_values(rng, layout, **{'dc.form': form})
    size = rng.randrange(1, 60) if has_payload else 0
    payload = rng.randbytes(8 if operation == ATOMIC_WRITE else size)
    bth = {'dqpn': rng.randrange(0xD00000, 0xE00000), 'psn': rng.getrandbits(24),
           'ack_request': rng.random() < 0.5}
    return Sample(0xC0 + operation, layout, values, payload, bth)


def message_sample(rng, subtype: int) -> Sample:
    layout = message_layout(subtype)
    flags = rng.getrandbits(len(FLAGS.get(subtype, ())))
    values = some_values(rng, layout, **{'dc.subtype': subtype, 'dc.flags': flags})
    return Sample(CONTROL, layout, values, bth={'dqpn': rng.randrange(0xD00000, 0xE00000)})


def connect_data_sample(rng, operation: int) -> Sample:
    psn = rng.getrandbits(24)
    fixed = {'dc.subtype': CONNECT, 'dc.flags': rng.choice((0, 2)), 'dc.first_psn': psn,
             'dc.operation': 0xC0 + operation}
    layout = connect_data_layout(operation)
    bth = {'dqpn': rng.randrange(0xD00000, 0xE00000), 'psn': psn, 'ack_request': True}
    return Sample(CONNECT_DATA, layout, some_values(rng, layout, **fixed),
                  rng.randbytes(rng.randrange(1, 60)), bth)


def selective_ack_sample(rng, psn: int | None = None, bitmap: int | None = None) -> Sample:
    """`bitmap`: bit n stands for the packet with PSN psn + 1 + n."""
    psn = rng.getrandbits(24) if psn is None else psn
    bitmap = rng.randrange(1, 1 << 256) if bitmap is None else bitmap
    layout = AETH + SAETH
    wire = int.from_bytes(bitmap.to_bytes(32, 'little'), 'big')
    values = some_values(rng, layout, **{'aeth.syndrome': rng.randrange(32), 'saeth.bitmap': wire})
    return Sample(SELECTIVE_ACK, layout, values, bth={'dqpn': rng.getrandbits(24), 'psn': psn})


def masked_atomic_sample(rng, subtype: int) -> Sample:
    fixed = {'xaeth.subtype': subtype}
    if subtype == 2:
        fixed |= {'xaeth.compare': 0, 'xaeth.compare_mask': 0}
    bth = {'dqpn': rng.getrandbits(24), 'psn': rng.getrandbits(24), 'ack_request': True}
    return Sample(MASKED_ATOMIC, XAETH, some_values(rng, XAETH, **fixed), bth=bth)


def _lock_sample(rng, opcode: int, layout: tuple, fixed: dict, in_session: bool) -> Sample:
    number = rng.randrange(0xD00000, 0xE00000) if in_session else rng.randrange(2, 0xD00000)
    bth = {'dqpn': number, 'psn': rng.getrandbits(24), 'ack_request': opcode == LOCK_REQUEST}
    if in_session:
        layout, fixed = DCSH[1] + layout, fixed | {'dc.form': 1}
    return Sample(opcode, layout, some_values(rng, layout, **fixed), bth=bth)


def lock_request_sample(rng, subtype: int, in_session: bool = False) -> Sample:
    is_foreign = subtype in (_ACQUIRE_FOREIGN, _RELEASE_FOREIGN)
    flags = rng.getrandbits(4) & (0xF if is_foreign else ~LOCK_ADD)
    fixed = {'lock.subtype': subtype, 'lock.flags': flags}
    return _lock_sample(rng, LOCK_REQUEST, LKETH + LOCK_PAYLOADS[subtype], fixed, in_session)


def lock_response_sample(rng, status: int, in_session: bool = False) -> Sample:
    cause = rng.randrange(1, 8) if status == LOCK_FAILED else 0
    fixed = {'lock.status': status, 'lock.cause': cause}
    return _lock_sample(rng, LOCK_RESPONSE, lkaeth_layout(status), fixed, in_session)


def samples(rng) -> list[Sample]:
    """Valid packets: every opcode, form, message, subtype; over IPv4 and IPv6, with VLAN tags."""
    found = [dc_sample(rng, operation, form) for operation in OPERATIONS for form in (0, 1)
             if form == 1 or operation not in RESPONSES]
    found += [message_sample(rng, subtype) for subtype in _BODIES]
    found += [connect_data_sample(rng, operation) for operation in CARRIED]
    found += [masked_atomic_sample(rng, subtype) for subtype in (1, 2)]
    found.append(selective_ack_sample(rng))
    for in_session in (False, True):
        found += [lock_request_sample(rng, subtype, in_session) for subtype in LOCK_PAYLOADS]
        found += [lock_response_sample(rng, status, in_session) for status in LOCK_VALUES]
    for index, sample in enumerate(found):
        if index % 3 == 1:
            sample.ends = ('2001:db8::1', '2001:db8::2')
        if index % 4 == 2:
            sample.vlan = rng.randrange(1, 4095)
    return found
