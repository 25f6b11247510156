# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Lock requests and responses (docs/wire.md, "Locks")."""

import struct
from typing import NamedTuple

from .frame import Frame

ACQUIRE_EXCLUSIVE, ACQUIRE_SHARED, RELEASE, CANCEL = 1, 2, 3, 5
ACQUIRE_SEVERAL, ACQUIRE_FOREIGN, RELEASE_FOREIGN = 6, 7, 8
RESEND, ADD = 1 << 2, 1 << 3  # flags
GRANTED, WAITING, FAILED, RELEASED, FLUSHED, CANCELED = range(1, 7)
STATUSES = ("", "granted", "waiting", "failed", "released", "flushed", "canceled")
CAUSE_NOT_OWNER, CAUSE_EXPIRED, CAUSE_TOO_LATE = 5, 6, 7
CAUSES = (
    "none", "tries", "wait", "canceled", "too big", "not owner", "expired", "too late",
)  # fmt: skip

_ACQUIRES = (ACQUIRE_EXCLUSIVE, ACQUIRE_SHARED, ACQUIRE_SEVERAL, ACQUIRE_FOREIGN)
_FOREIGN = (ACQUIRE_FOREIGN, RELEASE_FOREIGN)
_NAMES = {
    ACQUIRE_EXCLUSIVE: "acquire", ACQUIRE_SHARED: "shared acquire", RELEASE: "release",
    CANCEL: "cancel", ACQUIRE_SEVERAL: "acquire of several", ACQUIRE_FOREIGN: "foreign acquire",
    RELEASE_FOREIGN: "foreign release",
}  # fmt: skip
# subtype, flags, scope id, R_Key, address, tries, timeout, reserved, wait, owner, lease, scope
# packets, reserved
_LKETH = struct.Struct(">BBHIQHBBIIIH6s")
_LKAETH = struct.Struct(">BBHIQQ")  # status, cause, scope id, MSN + reserved, word, value
_WORD = struct.Struct(">IIQ")  # R_Key, shared + reserved, address
_MOST_WORDS = 7  # behind the first
_OPERATION_SIZE = 32
_LONGEST_TIMEOUT = 31


class Word(NamedTuple):
    rkey: int
    va: int
    shared: bool


class Request(NamedTuple):
    subtype: int
    flags: int
    scope_id: int
    words: tuple[Word, ...]
    timeout_ns: int | None  # the requester's; None: it has none
    scope_psns: int

    @property
    def name(self) -> str:
        return f"{_NAMES[self.subtype]} of scope {self.scope_id}"

    @property
    def is_acquire(self) -> bool:
        return self.subtype in _ACQUIRES

    @property
    def is_foreign(self) -> bool:
        return self.subtype in _FOREIGN

    @property
    def is_release(self) -> bool:
        return self.subtype in (RELEASE, RELEASE_FOREIGN)


class Response(NamedTuple):
    status: int
    cause: int
    scope_id: int
    previous: int
    value: int


def request(frame: Frame) -> tuple[Request | None, list[str]]:
    """The request, and what is wrong with it; None when it cannot be read."""
    (
        subtype, flags, scope_id, rkey, va, _, timeout, reserved, _, _, _, scope_psns, rest,
    ) = _LKETH.unpack_from(frame.data, frame.lock_header)  # fmt: skip
    if subtype not in _NAMES:
        return None, [f"subtype {subtype}"]
    faults = []
    if flags & 0xF0 or (flags & ADD and subtype not in _FOREIGN):
        faults.append(f"flags 0x{flags:02X} in subtype {subtype}")
    if timeout > _LONGEST_TIMEOUT:
        faults.append(f"timeout {timeout}")
    if reserved or any(rest):
        faults.append("reserved bits are not 0")
    if not _is_size(subtype, frame.payload_length):
        return None, [*faults, f"{frame.payload_length} bytes of payload in subtype {subtype}"]
    words = [Word(rkey, va, subtype == ACQUIRE_SHARED)]
    if subtype == ACQUIRE_SEVERAL and frame.complete:
        for rkey, shared, va in _WORD.iter_unpack(frame.payload_bytes()):
            words.append(Word(rkey, va, shared >> 24 == 1))
            if shared not in (0, 1 << 24):
                faults.append(f"shared and reserved 0x{shared:08X}")
    timeout_ns = 4096 << timeout if timeout else None
    return Request(subtype, flags, scope_id, tuple(words), timeout_ns, scope_psns), faults


def response(frame: Frame) -> tuple[Response | None, list[str]]:
    """The response, and what is wrong with it; None when it cannot be read."""
    status, cause, scope_id, msn, previous, value = _LKAETH.unpack_from(
        frame.data, frame.lock_header
    )
    if not GRANTED <= status <= CANCELED:
        return None, [f"status {status}"]
    faults = []
    if cause >= len(CAUSES) or (status == FAILED) != (cause != 0):
        faults.append(f"cause {cause} of {STATUSES[status]}")
    if msn & 0xFF:
        faults.append("reserved bits are not 0")
    return Response(status, cause, scope_id, previous, value), faults


def is_waiting(frame: Frame) -> bool:
    """Whether a lock response is no answer yet."""
    return frame.data[frame.lock_header] == WAITING


def _is_size(subtype: int, size: int) -> bool:
    """Whether the subtype has such a payload."""
    if subtype in _FOREIGN:
        return size == _OPERATION_SIZE
    if subtype == ACQUIRE_SEVERAL:
        return size % _WORD.size == 0 and 1 <= size // _WORD.size <= _MOST_WORDS
    return size == 0
