# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The requests of a connection with locks, and the scopes that they belong to."""

from . import lockformat
from .frame import Arrival, Frame
from .opcodes import ATOMICS, LOCK_REQUEST, READ_REQUEST
from .requestlog import psn_count


class Entry:
    """One request packet; its transmissions share it."""

    __slots__ = (
        "psn", "count", "name", "lock", "is_read", "is_atomic", "first_frame", "came", "scope",
        "answer", "waiting", "rnr", "release", "acquire", "contents",
    )  # fmt: skip

    def __init__(self, frame: Frame, psn: int, pmtu: int):
        operation = frame.info.operation
        self.psn, self.count = psn, psn_count(frame, pmtu)
        self.lock = lockformat.request(frame)[0] if operation == LOCK_REQUEST else None
        self.name = self.lock.name if self.lock else frame.info.name
        self.is_read, self.is_atomic = operation == READ_REQUEST, operation in ATOMICS
        self.first_frame = frame.number
        self.came = False  # to the target, for all that the capture says
        self.scope: Scope | None = None
        self.answer: lockformat.Response | None = None  # the first one that is none of waiting
        self.waiting: Arrival | None = None  # the last answer "waiting"
        self.rnr: tuple[Arrival, int] | None = None  # an RNR NAK and its timer, until sent again
        self.release: Entry | None = None  # of an acquire
        self.acquire: Entry | None = None  # of a release
        self.contents: dict[int, int] | None = None  # hash of each READ response by PSN

    @property
    def end(self) -> int:
        """The PSN behind the last one that the request takes."""
        return self.psn + self.count

    @property
    def is_acquire(self) -> bool:
        return self.lock is not None and self.lock.is_acquire

    @property
    def is_release(self) -> bool:
        return self.lock is not None and self.lock.is_release

    @property
    def status(self) -> int:
        """Of the answer to a lock request; 0: there is none yet."""
        return self.answer.status if self.answer else 0


class Scope:
    """An acquire and the requests behind it that it announces by PSNs; the last is its release."""

    __slots__ = (
        "acquire", "remaining", "answered", "late", "disturbed", "executed", "flushed", "packets",
    )  # fmt: skip

    def __init__(self, acquire: Entry):
        self.acquire = acquire
        self.remaining = acquire.lock.scope_psns  # PSNs not seen yet
        self.answered: Arrival | None = None  # the first answer to any of them
        self.late = False  # a request was first sent behind that
        self.disturbed = False  # something was sent again, or refused
        self.executed = False  # an access or the release
        self.flushed = False  # likewise
        self.packets = 0  # both ways, with everything that was sent again

    @property
    def is_pipelined(self) -> bool:
        return not (self.remaining or self.late or self.disturbed)
