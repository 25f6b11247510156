# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The model of a responder: acknowledgements, NAKs, READ and ATOMIC responses (IBTA vol. 1, 9.7).

The model accepts every request that arrives in order; a NAK then tells that the real responder did
not, and the model goes back to that PSN.
"""

from collections import deque

from .frame import Frame
from .lockformat import is_waiting
from .opcodes import (
    ACKNOWLEDGE, ATOMICS, ATOMIC_ACKNOWLEDGE, FIRST, LAST, LOCK_REQUEST, ONLY,
)  # fmt: skip
from .options import Options
from .psn import distance, unwrap
from .readrun import ReadRuns
from .report import Report
from .requestlog import Request, RequestLog

_ACK, _RNR, _NAK = 0, 1, 3
_SEQUENCE_ERROR = 0


def _hex(psn: int) -> str:
    return f"{psn & 0xFFFFFF:#08x}"


class Responder:
    """Judges the responses of one direction, by the requests that the responder received."""

    def __init__(self, log: RequestLog, pmtu: int, options: Options, report: Report):
        self._log, self._options, self._report = log, options, report
        self._reads = ReadRuns(log, pmtu, options, report)
        self._first: int | None = None
        self._next = 0  # expected PSN
        self._messages = 0  # completed
        self._ahead = False  # a request from the expected PSN on was received too early
        self._too_early = -1  # the highest such PSN; it was dropped and must come again
        self._kept: dict[int, tuple[Frame, Request]] = {}  # out of order, selective repeat only
        self._highest: int | None = None  # PSN of any positive response
        self._unanswered: deque[Request] = deque()  # READ and ATOMIC, accepted
        self._duplicates = 0  # duplicate requests not yet answered
        self._owed: deque[tuple[int, Frame]] = deque()  # PSNs to acknowledge, increasing
        self._owed_again: tuple[int, Frame] | None = None  # the same for duplicates
        self._gap_nak: int | None = None  # PSN of a NAK sequence error still waited for
        self._refused: int | None = None  # the same for an RNR NAK
        self._locks: deque[Request] = deque()  # lock requests, accepted and not decided
        self._waiting: tuple[int, int] | None = None  # PSN and time of the last lock's "waiting"
        self._failed: str = ""
        self._msn_offset: int | None = None  # of the responder's MSN to _messages
        self._msn: int | None = None
        self._results: dict[int, bytes] = {}  # ATOMIC responses by PSN
        self.naks = 0

    def on_request(self, frame: Frame, request: Request) -> None:
        if self._first is None:
            self._first = self._next = request.psn
        if request.psn == self._next:
            self._accept(frame, request)
            while self._next in self._kept:
                self._accept(*self._kept.pop(self._next))
        elif request.psn < self._next:
            self._duplicate(frame, request)
        else:
            self._came_early(request.psn)
            if self._options.selective_repeat:
                self._kept[request.psn] = (frame, request)

    def on_dropped_request(self, request: Request) -> None:
        """A request that the responder saw but did not use: it may explain a NAK, or an
        acknowledgement of a duplicate, and asks for nothing."""
        request.refused = True
        if self._first is None:
            # Which packet is the first one is told by one that was used: this one may have overtaken it.
            self._came_early(request.psn)
        elif request.psn < self._next:
            self._duplicates += request.count
        elif request.psn > self._next:
            self._came_early(request.psn)

    def _came_early(self, psn: int) -> None:
        self._ahead = True
        self._too_early = max(self._too_early, psn)

    def _accept(self, frame: Frame, request: Request) -> None:
        request.messages_before = self._messages
        request.received = frame.arrival
        request.copies += 1
        self._next = request.end
        self._messages += request.ends_message
        # What was dropped behind this request may be asked for as soon as this one is here.
        self._ahead = self._too_early >= self._next and not self._options.selective_repeat
        self._gap_nak = self._refused = None
        if request.operation == LOCK_REQUEST:
            self._locks.append(request)
        if request.answered:
            self._unanswered.append(request)
            self._expect_answer(request)
        if request.answered or frame.ack_request:
            self._owed.append((request.end - 1, frame))

    def _expect_answer(self, request: Request) -> None:
        if request.operation in ATOMICS or request.operation == LOCK_REQUEST:
            request.pending += 1
        else:
            self._reads.on_request(request)

    def _duplicate(self, frame: Frame, request: Request) -> None:
        request.received = frame.arrival
        request.copies += 1
        self._duplicates += request.count
        if request.answered:
            self._expect_answer(request)
        if request.answered or frame.ack_request:
            self._owed_again = (request.end - 1, frame)

    def on_response(self, frame: Frame) -> None:
        if self._first is None:
            return  # nothing to compare with
        psn = unwrap(self._next, frame.psn)
        if self._failed:
            self._report.add(
                "response-after-error", frame, f"{frame.info.name} after {self._failed}"
            )
            return
        operation = frame.info.operation
        kind = _ACK
        if operation == ACKNOWLEDGE:
            syndrome, _ = frame.aeth()
            kind, code = syndrome >> 5, syndrome & 0x1F
        if frame.info.lock >= 0 and is_waiting(frame):
            self._still_waiting(frame, psn)
        elif kind == _ACK:
            self._positive(frame, psn)
        elif kind == _RNR:
            self._negative(frame, psn, "an RNR NAK")
        elif kind == _NAK and code == _SEQUENCE_ERROR:
            self._sequence_error(frame, psn)
        elif kind == _NAK:
            self._negative(frame, psn, f"a NAK with code {code}")
            self._failed = f"a NAK with code {code}"

    def _positive(self, frame: Frame, psn: int) -> None:
        report, info = self._report, frame.info
        if psn >= self._next:
            report.add(
                "ack-psn",
                frame,
                f"{info.name} for PSN {_hex(psn)}, {_hex(self._next)} is still expected",
            )
            return
        if psn < self._first:
            self._begin_earlier(psn)
            return
        fresh = self._highest is None or psn > self._highest
        if fresh:
            self._check_order(frame, psn)
        elif info.operation == ACKNOWLEDGE and psn < self._highest:
            self._check_backwards(frame, psn)
        while self._locks and self._locks[0].psn <= psn:
            self._locks.popleft()
        if info.operation == ATOMIC_ACKNOWLEDGE:
            self._atomic_response(frame, psn)
        elif info.lock >= 0:
            psn = self._lock_response(frame, psn)
        elif info.operation != ACKNOWLEDGE and self._reads.on_response(frame, psn):
            self._answered(psn)
        if info.aeth >= 0 or info.lock >= 0:
            self._check_msn(frame, psn, fresh)
        self._highest = psn if fresh else self._highest
        self._discharge(psn)

    def _begin_earlier(self, psn: int) -> None:
        """An answer to what came before the first request seen: either that was before the capture,
        or the first request seen was too early and the responder dropped it."""
        request = self._log.covering(psn)
        if self._highest is None and request is not None and request.received is not None:
            self._came_early(self._next - 1)
            self._first = request.psn
            self._go_back(request.end)

    def _discharge(self, psn: int) -> None:
        owed = self._owed
        while owed and owed[0][0] <= psn:
            owed.popleft()
        if self._owed_again and self._owed_again[0] <= psn:
            self._owed_again = None

    def _check_order(self, frame: Frame, psn: int) -> None:
        """No READ or ATOMIC before this PSN still waits for its answer."""
        unanswered, operation = self._unanswered, frame.info.operation
        if not unanswered or unanswered[0].psn > psn:
            return
        oldest = unanswered[0]
        in_turn = oldest.psn <= psn < oldest.end
        if in_turn and operation != ACKNOWLEDGE:
            return  # whether its kind fits is seen where its content is
        # Of locks lock-order says it.
        if oldest.operation != LOCK_REQUEST and frame.info.lock < 0:
            self._report.add(
                "response-order",
                frame,
                f"{frame.info.name} for PSN {_hex(psn)}, {oldest.name} at {_hex(oldest.psn)} is "
                "not answered",
            )
        while unanswered and unanswered[0].psn <= psn:
            unanswered.popleft()

    def _check_order_of_nak(self, frame: Frame, psn: int) -> None:
        """While a lock request waits, what is behind it has no answers and may need a NAK."""
        if not self._locks or self._locks[0].psn >= psn:
            self._check_order(frame, psn - 1)

    def _check_backwards(self, frame: Frame, psn: int) -> None:
        if self._duplicates > 0:
            self._duplicates -= 1
            return
        self._report.add(
            "ack-backwards",
            frame,
            f"PSN {_hex(psn)} after {_hex(self._highest)}, and no duplicate came",
        )

    def _answered(self, psn: int) -> None:
        while self._unanswered and self._unanswered[0].end <= psn + 1:
            self._unanswered.popleft()

    def _atomic_response(self, frame: Frame, psn: int) -> None:
        request = self._log.starting_at(psn)
        if request is None:
            return
        if request.operation not in ATOMICS or request.received is None:
            self._report.add("response-order", frame, f"atomic response to {request.name}")
            return
        if request.pending == 0:
            self._report.add(
                "response-order", frame, f"second atomic response to PSN {_hex(psn)}"
            )
        request.pending = max(0, request.pending - 1)
        result = frame.data[frame.payload - 8 : frame.payload]
        first = self._results.setdefault(psn, result) if len(result) == 8 else result
        if first != result:
            self._report.add(
                "atomic-replay", frame, f"result {result.hex()}, it was {first.hex()} at first"
            )
        self._reads.on_earlier_answer(psn)
        if len(self._results) > 1 << 16:
            for old in sorted(self._results)[: 1 << 15]:
                del self._results[old]
        self._answered(psn)

    def _lock_response(self, frame: Frame, psn: int) -> int:
        """Returns the last PSN that is answered: a READ that is not executed has one answer."""
        request = self._log.covering(psn)
        if request is None or not request.answered or request.received is None:
            return psn
        if request.operation == LOCK_REQUEST:
            if request.pending == 0:
                self._report.add(
                    "response-order", frame, f"second lock response to PSN {_hex(psn)}"
                )
            request.pending = max(0, request.pending - 1)
        self._waiting = None
        self._reads.on_earlier_answer(psn)
        self._answered(request.end - 1)
        return request.end - 1

    def _still_waiting(self, frame: Frame, psn: int) -> None:
        """A lock request has no answer yet, but all before it is acknowledged."""
        if psn >= self._next:
            self._report.add("ack-psn", frame, f"{_hex(psn)} waits, it did not come")
            return
        self._discharge(psn - 1)
        self._check_msn(frame, psn, False)
        self._waiting = psn, frame.time_ns

    def _sequence_error(self, frame: Frame, psn: int) -> None:
        self.naks += 1
        if self._highest is None and psn < self._first:
            # The first thing heard from this responder: it tells what it expects.
            self._first = psn
            self._go_back(psn)
            self._ahead, self._gap_nak = True, psn
            return
        if psn < self._next:
            late = self._log.starting_at(psn)
            if late and late.received and not self._options.acts_on(frame, late.received):
                return  # sent before the request came
        if psn != self._next or not self._ahead:
            reason = "nothing from it on was received early" if psn == self._next else "wrong PSN"
            self._report.add(
                "nak-sequence-psn",
                frame,
                f"NAK for PSN {_hex(psn)}, {_hex(self._next)} is expected: {reason}",
            )
            return
        if self._refused == psn:
            self._report.add("nak-after-rnr", frame, f"PSN {_hex(psn)} was refused with RNR")
        elif self._gap_nak == psn:
            self._report.add("nak-repeated", frame, f"second NAK for PSN {_hex(psn)}")
        self._check_order_of_nak(frame, psn)
        self._check_msn(frame, psn, True)
        self._gap_nak = psn
        self._owed.clear()

    def _negative(self, frame: Frame, psn: int, what: str) -> None:
        """An RNR NAK, or one that ends the connection."""
        self.naks += 1
        if psn < self._first:
            return
        request = self._log.covering(psn)
        known = request is not None and (
            request.refused or (request.received is not None and psn < self._next)
        )
        if not known or psn > self._next or (self._highest is not None and psn <= self._highest):
            self._report.add("nak-psn", frame, f"{what} for PSN {_hex(psn)}")
            return
        self._check_order_of_nak(frame, psn)
        # A copy that came meanwhile may have been taken: then go on as before.
        copies, request.copies = request.copies, 0
        recent = request.received and not self._options.acts_on(frame, request.received)
        if copies > 1 and psn < self._next and recent:
            return
        self._go_back(request.psn)
        self._refused = request.psn
        self._check_msn(frame, psn, True)

    def _go_back(self, psn: int) -> None:
        """Requests from this PSN on were not accepted."""
        request = self._log.starting_at(psn)
        if request is not None and request.messages_before is not None and psn < self._next:
            self._messages = request.messages_before
            self._ahead = self._next > request.end
        for position in range(psn, self._next):
            if (dropped := self._log.starting_at(position)) is not None:
                dropped.copies = 0
        self._next = psn
        for waiting in (self._unanswered, self._locks):
            while waiting and waiting[-1].psn >= psn:
                waiting.pop()
        self._owed.clear()
        self._owed_again = None

    def _check_msn(self, frame: Frame, psn: int, fresh: bool) -> None:
        msn = frame.msn()
        if fresh and self._msn is not None and distance(self._msn, msn) < 0:
            self._report.add("msn-backwards", frame, f"MSN {msn} after {self._msn}")
        if fresh:
            self._msn = msn
        bounds = self._msn_bounds(frame, psn, fresh)
        if bounds is None:
            return
        lowest, most = bounds
        if self._locks and self._locks[0].psn < psn:  # nothing behind it is complete
            lowest = min(lowest, self._locks[0].messages_before)
        if self._msn_offset is None:
            if frame.info.position != FIRST:
                self._msn_offset = msn - lowest
            return
        surplus = distance(self._msn_offset + lowest & 0xFFFFFF, msn)
        if not 0 <= surplus <= most - lowest:
            self._report.add(
                "msn-count",
                frame,
                f"MSN {msn}, {(self._msn_offset + lowest) & 0xFFFFFF} messages are complete",
            )
            self._msn_offset = None  # learn anew: one fault, one finding

    def _msn_bounds(self, frame: Frame, psn: int, fresh: bool) -> tuple[int, int] | None:
        """Completed messages that an AETH for this PSN may report."""
        if psn == self._next:
            return self._messages, self._messages
        request = self._log.covering(psn)
        if request is None or request.messages_before is None:
            return None
        before = request.messages_before
        operation = frame.info.operation
        if operation == ACKNOWLEDGE and frame.aeth()[0] >> 5:
            return before, before
        if frame.info.lock >= 0 and is_waiting(frame):
            return before, before
        done = before + request.ends_message
        if operation == ACKNOWLEDGE:
            return done, done if fresh else self._messages
        # A READ counts when it is executed; a responder may have gone on while it sends.
        lowest = done if frame.info.position in (LAST, ONLY) else before
        return lowest, self._messages

    def finish(self, last_ns: int) -> None:
        """The capture ends at `last_ns`: what is still owed?"""
        owed = self._owed[0] if self._owed else self._owed_again
        if owed is None or self._failed:
            return
        psn, frame = owed
        since = frame.time_ns
        if self._waiting is not None and self._waiting[0] <= psn:
            since = max(since, self._waiting[1])
        waited = last_ns - since
        if waited >= self._options.settle_ns:
            self._report.add_omission(
                "ack-owed",
                frame,
                f"{frame.info.name} at PSN {_hex(psn)} has no answer after {waited / 1e6:.0f} ms",
            )
