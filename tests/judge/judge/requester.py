# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The model of a requester: new requests, go-back-N, RNR waits (IBTA vol. 1, 9.7)."""

from collections import deque

from .frame import Arrival, Frame
from .lockformat import is_waiting
from .opcodes import ACKNOWLEDGE, LOCK_REQUEST, READ_REQUEST, READ_RESPONSES
from .options import Options
from .psn import unwrap
from .report import Report
from .requestlog import Request, RequestLog, digest, psn_count
from .segmentation import Messages

_WINDOW = 1 << 23
_TIMESTAMP_NS = 1000  # resolution of the timestamps of most captures

# IBTA vol. 1, 9.7.5, table of RNR NAK timer codes; in units of 10 microseconds.
_RNR_TIMER_10US = (
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
)  # fmt: skip


def rnr_timer_ns(code: int) -> int:
    return _RNR_TIMER_10US[code] * 10_000


class Requester:
    """Judges the requests of one direction; sees the responses to know what is acknowledged."""

    def __init__(self, log: RequestLog, pmtu: int, paired: bool, options: Options, report: Report):
        self._log, self._pmtu, self._options, self._report = log, pmtu, options, report
        self._paired = paired  # responses can be seen
        self._messages = Messages(report, pmtu)
        self._cursor = 0  # PSN that follows the last transmission
        self._unacked: deque[Request] = deque()
        self._una = 0  # oldest unacknowledged PSN, by the responses captured
        self._settled = 0  # the same, by responses that have surely been processed
        self._advances: deque[tuple[Arrival, int]] = deque()  # (response, una) not yet settled
        self._hinted = 0  # the same, counting responses that were received and dropped
        self._answers_due = 0  # READ and ATOMIC requests in _unacked
        self._rnr: tuple[int, Arrival, int] | None = None  # (PSN, the NAK, timer in ns)
        self._nak: tuple[int, Arrival] | None = None  # (PSN, the NAK)
        self.retransmissions = 0

    def on_request(self, frame: Frame) -> Request:
        """Judges a request and returns what it is a transmission of."""
        log = self._log
        if log.first is None:
            log.begin(frame.psn + (1 << 24))
            self._cursor = self._una = self._settled = self._hinted = log.next
        psn = unwrap(log.next, frame.psn)
        if self._paired:
            self._check_waits(frame, psn)
        if psn >= log.next:
            request = self._new(frame, psn)
        else:
            request = self._repeated(frame, psn)
        self._cursor = request.end
        return request

    def _new(self, frame: Frame, psn: int) -> Request:
        log, report = self._log, self._report
        if psn > log.next:
            report.add(
                "psn-advance",
                frame,
                f"PSN {frame.psn:#08x} where {log.next & 0xFFFFFF:#08x} is due",
            )
            self._messages.lost_track()
        else:
            self._check_hole(frame, psn)
        self._messages.on_packet(frame)
        request = Request(frame, psn, self._pmtu)
        log.add(request)
        if not self._paired:
            return request
        self._unacked.append(request)
        if log.next - self._una > _WINDOW:
            report.add("psn-window", frame, f"{log.next - self._una} PSNs are outstanding")
        if request.takes_resource:
            self._answers_due += 1
            limit = self._options.max_rd_atomic
            if limit is not None and self._answers_due > limit:
                report.add(
                    "max-rd-atomic", frame, f"{self._answers_due} READ and ATOMIC outstanding"
                )
        return request

    def _repeated(self, frame: Frame, psn: int) -> Request:
        log, report = self._log, self._report
        self.retransmissions += 1
        self._settle(frame)
        if psn < self._settled and psn >= log.first:
            report.add(
                "retransmit-acknowledged",
                frame,
                f"PSN {frame.psn:#08x} again, all before {self._settled & 0xFFFFFF:#08x} is "
                "acknowledged",
            )
        self._check_hole(frame, psn)
        original = log.covering(psn)
        if original is None:  # its first transmission was lost before the capture
            request = Request(frame, psn, self._pmtu)
            log.add(request)
            return request
        if original.psn != psn:
            return self._resumed_read(frame, psn, original)
        original.transmissions += 1
        now = digest(frame)
        if now != original.digest and None not in (now, original.digest):
            report.add(
                "retransmit-content",
                frame,
                f"{frame.info.name} at PSN {frame.psn:#08x} differs from its first transmission",
            )
            if psn_count(frame, self._pmtu) != original.count:
                return Request(frame, psn, self._pmtu)
        return original

    def _resumed_read(self, frame: Frame, psn: int, original: Request) -> Request:
        """A request for the rest of a READ, after part of its responses has arrived."""
        request = Request(frame, psn, self._pmtu)
        if request.operation != READ_REQUEST:
            self._report.add(
                "retransmit-content",
                frame,
                f"{frame.info.name} at a PSN that belongs to the responses of a READ",
            )
            return request
        done = (psn - original.psn) * self._pmtu
        va, rkey, length = original.reth
        if request.reth != ((va + done) & ((1 << 64) - 1), rkey, length - done):
            self._report.add(
                "read-retry-range",
                frame,
                f"asks for {request.reth[2]} bytes at {request.reth[0]:#x}, "
                f"{length - done} at {va + done:#x} are left",
            )
        return request

    def _check_hole(self, frame: Frame, psn: int) -> None:
        """Between the last transmission and this one lies nothing that still needs sending."""
        if self._options.selective_repeat or not self._paired:
            return
        acknowledged = max(self._una, self._hinted)
        if psn > self._cursor and acknowledged < psn:
            missing = max(self._cursor, acknowledged)
            self._report.add(
                "retransmit-hole",
                frame,
                f"PSNs {missing & 0xFFFFFF:#08x} to {psn - 1 & 0xFFFFFF:#08x} were skipped",
            )

    def _check_waits(self, frame: Frame, psn: int) -> None:
        """The requester keeps to the RNR timer and follows a NAK."""
        options = self._options
        if self._rnr:
            refused, nak, timer = self._rnr
            waited = frame.time_ns - nak[0]
            if waited >= timer - _TIMESTAMP_NS:
                self._rnr = None
            elif (psn == refused and options.follows(frame, nak)) or (
                psn > refused and options.acts_on(frame, nak)
            ):
                self._report.add(
                    "rnr-wait",
                    frame,
                    f"{waited / 1e6:.3f} ms after an RNR NAK that asked for "
                    f"{timer / 1e6:.2f} ms",
                )
                self._rnr = None
        if self._nak:
            expected, nak = self._nak
            if psn == expected:
                self._nak = None
            elif psn > expected and options.acts_on(frame, nak) and not self._rnr:
                self._report.add(
                    "nak-not-followed",
                    frame,
                    f"the responder asked for PSN {expected & 0xFFFFFF:#08x} "
                    f"{(frame.time_ns - nak[0]) / 1e6:.3f} ms before",
                )
                self._nak = None

    def on_response(self, frame: Frame) -> None:
        """Takes note of a response that the requester received."""
        log = self._log
        if log.first is None:
            return
        psn = unwrap(log.next, frame.psn)
        if not self._una <= psn < log.next:
            return  # stale, or a ghost: the requester ignores it
        info = frame.info
        kind = 0
        if info.operation == ACKNOWLEDGE:
            syndrome, _ = frame.aeth()
            kind = syndrome >> 5
        if info.lock >= 0 and is_waiting(frame):
            self._acknowledge(psn - 1, frame, ACKNOWLEDGE)
        elif kind in (0, 1, 3):
            self._acknowledge(psn if kind == 0 else psn - 1, frame, info.operation)
        if psn != self._una:
            return  # an answer before it is missing: the NAK tells only that, and to go back there
        request = log.covering(psn)
        if kind == 1:
            self._rnr = (psn, frame.arrival, rnr_timer_ns(syndrome & 0x1F))
        elif kind == 3 and syndrome & 0x1F == 0 and request and request.transmissions == 1:
            self._nak = (psn, frame.arrival)

    def on_dropped_response(self, frame: Frame) -> None:
        """A response that the requester did not use: it may have told that what lies before it is
        acknowledged, and so excuses that it is not sent again."""
        log = self._log
        if log.first is not None:
            psn = unwrap(log.next, frame.psn)
            if psn < log.next:
                self._hinted = max(self._hinted, psn + 1)

    def _acknowledge(self, psn: int, response: Frame, operation: int) -> None:
        """Everything up to `psn` is acknowledged, READ and ATOMIC only by responses of theirs."""
        unacked, before = self._unacked, self._una
        while unacked:
            oldest = unacked[0]
            if oldest.psn > psn:
                break
            if not oldest.answered:
                self._una = oldest.end
            elif operation == ACKNOWLEDGE or psn >= oldest.end:
                break
            elif operation in READ_RESPONSES:
                if psn == oldest.psn + oldest.progress:
                    oldest.progress += 1
                    self._una = psn + 1
                if oldest.progress < oldest.count:
                    break
                self._answers_due -= 1
            else:
                self._una = oldest.end
                self._answers_due -= oldest.takes_resource
            unacked.popleft()
        if self._una != before:
            self._advances.append((response.arrival, self._una))
            if self._nak and self._una > self._nak[0]:
                self._nak = None
            if self._rnr and self._una > self._rnr[0]:
                self._rnr = None

    def _settle(self, frame: Frame) -> None:
        advances = self._advances
        while advances and self._options.acts_on(frame, advances[0][0]):
            self._settled = advances.popleft()[1]
