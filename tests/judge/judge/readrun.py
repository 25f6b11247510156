# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The responses to READ requests: which run of PSNs answers which request, and with what bytes."""

from collections import deque

from .frame import Frame
from .opcodes import FIRST, LAST, MIDDLE, ONLY
from .options import Options
from .report import Report
from .requestlog import Request, RequestLog

_HORIZON = 1 << 17  # PSNs for which the content is remembered
_MAX_RUNS = 4096
_MAX_ARRIVED = 256


class ReadRun:
    """What one READ request asks for; a request resumed in the middle is a run of its own."""

    __slots__ = ("psn", "count", "length", "pending", "interrupted")

    def __init__(self, request: Request):
        self.psn, self.count = request.psn, request.count
        self.length = request.read_length
        self.pending = 0  # executions not yet begun
        self.interrupted = False  # by the answer to an earlier request: may begin anew, or go on


class ReadRuns:
    def __init__(self, log: RequestLog, pmtu: int, options: Options, report: Report):
        self._log, self._pmtu, self._options, self._report = log, pmtu, options, report
        # By first PSN, oldest request first: one for each length that was asked for from there on.
        self._runs: dict[int, list[ReadRun]] = {}
        self._queue: deque[ReadRun] = deque(maxlen=_MAX_RUNS)  # not yet begun
        self._current: ReadRun | None = None
        self._next = 0  # PSN that goes on with the current run
        self._asked_again = False  # since the current run began
        self._arrived: deque[Request] = deque(maxlen=_MAX_ARRIVED)  # whether answered or not
        self._contents: dict[int, int] = {}  # hash of the payload by PSN

    def on_request(self, request: Request) -> None:
        runs = self._runs.setdefault(request.psn, [])
        run = next((known for known in runs if known.length == request.read_length), None)
        if run is None:
            run = ReadRun(request)
            runs.append(run)
        run.pending += 1
        self._queue.append(run)
        self._arrived.append(request)
        self._asked_again = True
        self._prune(request.psn)

    def on_response(self, frame: Frame, psn: int) -> bool:
        """Judges a response; true when it is the last of its run."""
        starts = frame.info.position in (FIRST, ONLY)
        run = self._start(frame, psn) if starts else self._continue(frame, psn)
        if run is None:
            self._current = None
            return False
        last = psn == run.psn + run.count - 1
        self._check_opcode(frame, run, psn, last)
        self._check_size(frame, run, psn, last)
        self._check_content(frame, psn)
        if last:
            run.interrupted = False
        self._current, self._next = (None, 0) if last else (run, psn + 1)
        return last

    def on_earlier_answer(self, psn: int) -> None:
        """Something before the current run has been answered again. Its requester may have gone
        back, and will want the run from its start."""
        if self._current is not None and psn < self._current.psn:
            self._current.interrupted = True

    def _starting(self, frame: Frame, psn: int) -> ReadRun | None:
        """Of the runs that start there, the oldest one that is due and may start like that."""
        runs = self._runs.get(psn, [])
        alone = frame.info.position == ONLY
        fitting = [run for run in runs if (run.count == 1) == alone] or runs
        due = [run for run in fitting if run.pending > 0 or run.interrupted]
        return (due or fitting or [None])[0]

    def _start(self, frame: Frame, psn: int) -> ReadRun | None:
        run = self._starting(frame, psn)
        anew = run is not None and run.interrupted
        if run is None or (run.pending == 0 and not anew):
            why = "no READ request starts there" if run is None else "it was answered before"
            self._report.add("read-response-unrequested", frame, f"PSN {frame.psn:#08x}: {why}")
            return run
        left = self._current
        # What was passed over may have its turn still.
        asked = left is not None and run.pending > 0 and psn < left.psn + left.count
        if left is not None and not (self._asked_again or asked or (anew and left is run)):
            self._report.add(
                "read-response-sequence",
                frame,
                f"a new run while PSN {self._next & 0xFFFFFF:#08x} of the one before is due",
            )
        self.on_earlier_answer(psn)
        queue = self._queue
        # What begins anew answers the earlier request still.
        if run.pending > 0 and not anew:
            run.pending -= 1
        if run in queue and not anew:  # requests in front of it were passed over
            while queue.popleft() is not run:
                pass
        run.interrupted = False
        # Asked again for something before its end, a responder may leave this run. It may have been
        # after this response was made ready, though before it was sent.
        self._asked_again = any(other.psn < psn + run.count for other in queue) or any(
            other.psn < psn + run.count and self._comes_after(frame, other)
            for other in self._arrived
        )
        return run

    def _comes_after(self, frame: Frame, request: Request) -> bool:
        return request.received is not None and not self._options.follows(frame, request.received)

    def _continue(self, frame: Frame, psn: int) -> ReadRun | None:
        run = self._current
        if run is not None and psn == self._next:
            return run
        request = self._log.covering(psn)
        if request is None or request.reth is None or request.received is None:
            self._report.add(
                "read-response-unrequested", frame, f"no READ request covers {frame.psn:#08x}"
            )
            return None
        due = f"{self._next & 0xFFFFFF:#08x} is due" if run else "no run is under way"
        self._report.add(
            "read-response-sequence", frame, f"{frame.info.name} at {frame.psn:#08x}, {due}"
        )
        return self._runs.get(request.psn, [None])[0]

    def _check_opcode(self, frame: Frame, run: ReadRun, psn: int, last: bool) -> None:
        if run.count == 1:
            due = ONLY
        elif last:
            due = LAST
        else:
            due = FIRST if psn == run.psn else MIDDLE
        if frame.info.position != due:
            self._report.add(
                "read-response-sequence",
                frame,
                f"{frame.info.name}, a {due.upper()} is due "
                f"({psn - run.psn + 1} of {run.count} responses)",
            )

    def _check_size(self, frame: Frame, run: ReadRun, psn: int, last: bool) -> None:
        due = run.length - (psn - run.psn) * self._pmtu if last else self._pmtu
        if frame.payload_length != due:
            self._report.add(
                "read-response-size",
                frame,
                f"{frame.payload_length} bytes at {frame.psn:#08x}, {due} are due",
            )

    def _check_content(self, frame: Frame, psn: int) -> None:
        if self._options.memory_changes or not frame.complete:
            return
        digest = hash(frame.payload_bytes())
        if self._contents.setdefault(psn, digest) != digest:
            self._report.add(
                "read-response-content",
                frame,
                f"PSN {frame.psn:#08x} got other bytes when it was first answered",
            )

    def _prune(self, newest: int) -> None:
        if len(self._contents) > 2 * _HORIZON:
            self._contents = {p: d for p, d in self._contents.items() if p > newest - _HORIZON}
        if len(self._runs) > 2 * _MAX_RUNS:
            for old in list(self._runs)[:_MAX_RUNS]:
                if all(run.pending == 0 for run in self._runs[old]):
                    del self._runs[old]
