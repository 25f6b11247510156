# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The requests of one direction of a connection, by PSN: what both models look things up in."""

from bisect import bisect_right, insort

from .frame import BTH_SIZE, ICRC_SIZE, Arrival, Frame
from .opcodes import ANSWERED, LAST, LOCK_REQUEST, ONLY, READ_REQUEST

# PSNs behind the newest that are remembered; an older retransmission is not compared.
_HORIZON = 1 << 17
_SOLICITED = 0x80


class Request:
    """One request packet; its transmissions share it."""

    __slots__ = (
        "psn", "count", "operation", "name", "digest", "reth", "ends_message", "answered",
        "transmissions", "progress", "messages_before", "received", "refused", "copies",
        "pending",
    )  # fmt: skip

    def __init__(self, frame: Frame, psn: int, pmtu: int):
        info = frame.info
        self.psn = psn  # unwrapped
        self.operation, self.name = info.operation, info.name
        self.reth = frame.reth() if info.reth >= 0 else None
        self.count = psn_count(frame, pmtu)
        self.digest = digest(frame)
        self.ends_message = info.position in (LAST, ONLY)
        self.answered = info.operation in ANSWERED  # by a response of its own
        self.transmissions = 1
        self.progress = 0  # responses in order so far, at the requester
        # What the responder model notes: messages completed before it (None: never accepted), when
        # it was last received, whether the responder saw it and did not use it, how many copies
        # came since the last NAK for it, and how many executions are still unanswered.
        self.messages_before: int | None = None
        self.received: Arrival | None = None
        self.refused = False
        self.copies = 0
        self.pending = 0

    @property
    def takes_resource(self) -> bool:
        """One of the responder's resources for READ and ATOMIC."""
        return self.answered and self.operation != LOCK_REQUEST

    @property
    def end(self) -> int:
        """The PSN behind the last one that the request takes."""
        return self.psn + self.count

    @property
    def read_length(self) -> int:
        """Bytes that its READ responses carry; FLUSH and ATOMIC WRITE get an empty one."""
        return self.reth[2] if self.operation == READ_REQUEST else 0


def psn_count(frame: Frame, pmtu: int) -> int:
    """How many PSNs a request takes: a READ takes one for each response."""
    if frame.info.operation != READ_REQUEST:
        return 1
    return max(1, -(-frame.reth()[2] // pmtu))


def digest(frame: Frame) -> int | None:
    """Stands for all that a retransmission must repeat; None when the frame was cut."""
    if not frame.complete:
        return None
    body = frame.data[frame.bth + BTH_SIZE : frame.ip_end - ICRC_SIZE]
    return hash((frame.opcode, frame.flags & ~_SOLICITED, frame.pkey, body))


class RequestLog:
    def __init__(self) -> None:
        self.first: int | None = None  # PSN of the first request captured
        self.next = 0  # behind the newest request
        self._requests: dict[int, Request] = {}
        self._read_starts: list[int] = []  # READs of more than one PSN
        self._prune_at = 2 * _HORIZON

    def begin(self, psn: int) -> None:
        self.first = self.next = psn
        self._prune_at = psn + 2 * _HORIZON

    def add(self, request: Request) -> None:
        self._requests[request.psn] = request
        if request.count > 1:
            insort(self._read_starts, request.psn)
        self.next = max(self.next, request.end)
        if self.next > self._prune_at:
            self._prune()

    def starting_at(self, psn: int) -> Request | None:
        return self._requests.get(psn)

    def covering(self, psn: int) -> Request | None:
        """The request that takes this PSN."""
        request = self._requests.get(psn)
        if request is None and self._read_starts:
            index = bisect_right(self._read_starts, psn) - 1
            if index >= 0:
                read = self._requests[self._read_starts[index]]
                if psn < read.end:
                    return read
        return request

    def _prune(self) -> None:
        oldest = self.next - _HORIZON
        self._requests = {
            psn: request for psn, request in self._requests.items() if request.end > oldest
        }
        self._read_starts = [psn for psn in self._read_starts if psn in self._requests]
        self._prune_at = self.next + _HORIZON
