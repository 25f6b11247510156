# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Judges locks (docs/wire.md, "Locks"): each scope of each connection, over RC or a dynamic one."""

from bisect import insort
from collections import Counter, deque

from . import lockformat
from .frame import Arrival, Frame
from .lockformat import CAUSES, FAILED, FLUSHED, GRANTED, RELEASED, STATUSES, WAITING, Response
from .locklog import Entry, Scope
from .lockwords import LockWords
from .opcodes import ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, LAST, ONLY, READ_RESPONSES
from .options import Options
from .psn import unwrap
from .report import Report
from .requester import rnr_timer_ns
from .requestlog import RequestLog

_TIMESTAMP_NS = 1000  # resolution of the timestamps of most captures
_MAX_SCOPES = 4096  # of a connection that may still get packets
_MAX_UNANSWERED = 4096
_ROOM = 1 << 24  # below the first PSN, for late ones
_ACK, _RNR, _NAK = 0, 1, 3  # kinds of AETH


class Locks:
    """All of one capture."""

    def __init__(self, options: Options, report: Report):
        self.options, self.report = options, report
        self.words = LockWords(report)
        self.counts: Counter[str] = Counter()
        self.spacings: list[int] = []  # least and most; of resends, in percent of the RNR timer
        self._lines: list[LockLine] = []

    def line(self, in_session: bool) -> "LockLine | None":
        """For the requests of one connection and their answers, if locks are to be judged."""
        if not self.options.locks:
            return None
        self._lines.append(LockLine(self, in_session))
        return self._lines[-1]

    def counters(self) -> dict[str, float]:
        """At the end of the capture."""
        for line in self._lines:
            line.finish()
        names = ["acquires", "scopes", "pipelined", "disturbed", "granted"]
        names += [_failed(cause) for cause in range(1, len(CAUSES))]
        names += ["refused", "waiting", "releases", "flushed", "canceled", "rnr_naks", "resends"]
        names += ["packets", "granted_scopes", "packets_of_granted"]
        counts = self.counts
        least, most = self.spacings or (0, 0)
        return {name: counts[name] for name in names} | {
            "packets_per_granted_scope": round(
                counts["packets_of_granted"] / max(1, counts["granted_scopes"]), 2
            ),
            "resend_percent_least": least,
            "resend_percent_most": most,
        }


class LockLine:
    """One direction of a connection: requests one way, their answers the other way."""

    def __init__(self, locks: Locks, in_session: bool):
        self._locks, self._options, self._report = locks, locks.options, locks.report
        self._counts, self._in_session = locks.counts, in_session
        self._log = RequestLog()
        self._scopes: deque[Scope] = deque()
        self._growing: dict[int, Scope] = {}  # by the PSN of the request that comes next
        self._acquires: dict[int, Entry] = {}  # the newest by scope id
        # Requests that only answers of their own answer, by PSN.
        self._unanswered: list[Entry] = []
        self._nak: Arrival | None = None  # the last NAK: something is to be sent again
        self._has_nak = False  # since the last request
        self._next: int | None = None  # PSN behind the last request, while the requester goes back

    # Requests ------------------------------------------------------------------------------------

    def on_request(self, frame: Frame, pmtu: int) -> None:
        log = self._log
        if log.first is None:
            log.begin(frame.psn + _ROOM)
        psn = unwrap(log.next, frame.psn)
        entry = log.covering(psn)
        if entry is None:
            entry = Entry(frame, psn, pmtu)
            log.add(entry)
            self._next = None
            self._on_new(frame, entry)
        else:
            if entry.scope is not None:
                entry.scope.disturbed = True
            # Behind something else that was sent again.
            goes_on = self._next is not None and self._next <= psn
            self._next = entry.end
            if entry.is_acquire and entry.answer is None:
                self._on_acquire_again(frame, entry, goes_on)
        self._has_nak = False
        entry.came = entry.came or not frame.dropped
        if entry.scope is not None:
            entry.scope.packets += 1

    def _on_new(self, frame: Frame, entry: Entry) -> None:
        lock = entry.lock
        if lock is not None or entry.is_read or entry.is_atomic:
            insort(self._unanswered, entry, key=_psn)
            del self._unanswered[:-_MAX_UNANSWERED]
        self._grow(frame, entry)
        if entry.is_acquire:
            self._counts["acquires"] += 1
            self._acquires[lock.scope_id] = entry
            if lock.scope_psns:
                self._begin(frame, entry)
        elif entry.is_release and entry.acquire is None:
            acquire = self._acquires.get(lock.scope_id)
            if acquire is not None and acquire.release is None and acquire.psn < entry.psn:
                _bind(acquire, entry)

    def _begin(self, frame: Frame, acquire: Entry) -> None:
        scope = acquire.scope = Scope(acquire)
        self._scopes.append(scope)
        if len(self._scopes) > _MAX_SCOPES:
            self._count(self._scopes.popleft())
        self._growing[acquire.end] = scope
        behind = self._log.starting_at(acquire.end)
        if behind is not None:  # the network has changed the order
            self._grow(frame, behind)

    def _grow(self, frame: Frame, entry: Entry | None) -> None:
        """What comes next in a scope is there, and so perhaps what follows it."""
        while entry is not None and (scope := self._growing.pop(entry.psn, None)) is not None:
            scope.remaining -= entry.count
            is_end = scope.remaining <= 0
            if is_end != (entry.lock is not None) or (is_end and not _releases(scope, entry)):
                self._report.add(
                    "lock-scope",
                    frame,
                    f"{entry.name}, {scope.remaining} PSNs before the end of scope "
                    f"{scope.acquire.lock.scope_id}",
                )
                scope.disturbed = True
                return
            entry.scope = scope
            self._check_pipelined(frame, scope)
            if is_end:
                _bind(scope.acquire, entry)
                return
            self._growing[entry.end] = scope
            entry = self._log.starting_at(entry.end)

    def _check_pipelined(self, frame: Frame, scope: Scope) -> None:
        if scope.answered is None or scope.disturbed or scope.late:
            return
        scope.late = True
        if self._options.acts_on(frame, scope.answered):
            waited = (frame.time_ns - scope.answered[0]) / 1e6
            self._report.add(
                "lock-pipelined", frame, f"{waited:.3f} ms after an answer to its scope"
            )

    def _on_acquire_again(self, frame: Frame, acquire: Entry, goes_on: bool) -> None:
        if acquire.rnr is not None:
            self._on_resend(frame, acquire)
            return
        waiting, timeout_ns = acquire.waiting, acquire.lock.timeout_ns
        if waiting is None or goes_on or self._has_nak:
            return
        if self._nak is not None and self._nak[0] >= waiting[0]:
            return
        waited = frame.time_ns - waiting[0]
        if timeout_ns is not None and waited >= timeout_ns - _TIMESTAMP_NS:
            return
        if self._options.acts_on(frame, waiting):
            self._report.add(
                "lock-waiting", frame, f"{acquire.name} {waited / 1e6:.3f} ms after it waits"
            )

    def _on_resend(self, frame: Frame, acquire: Entry) -> None:
        (nak, timer_ns), acquire.rnr = acquire.rnr, None
        waited = frame.time_ns - nak[0]
        locks, percent = self._locks, round(waited * 100 / timer_ns)
        self._counts["resends"] += 1
        least, most = locks.spacings or (percent, percent)
        locks.spacings = [min(least, percent), max(most, percent)]
        # Of RC the requester's model says it.
        early = waited < timer_ns - _TIMESTAMP_NS and self._options.follows(frame, nak)
        if early and self._in_session:
            self._report.add(
                "lock-resend",
                frame,
                f"{waited / 1e6:.3f} ms after an RNR NAK that asked for {timer_ns / 1e6:.2f} ms",
            )

    # Answers -------------------------------------------------------------------------------------

    def on_response(self, frame: Frame) -> None:
        if self._log.first is None:
            return
        psn = unwrap(self._log.next, frame.psn)
        entry = self._log.covering(psn)
        if entry is None:
            return
        scope, info = entry.scope, frame.info
        if scope is not None:
            scope.packets += 1
        if info.operation == ACKNOWLEDGE and frame.aeth()[0] >> 5 != _ACK:
            self._on_nak(frame, psn, entry)
            return
        if info.lock >= 0:
            self._on_lock_response(frame, psn, entry)
        else:
            self._check_order(frame, entry)
            if info.operation in READ_RESPONSES or info.operation == ATOMIC_ACKNOWLEDGE:
                self._on_data(frame, psn, entry)
        if scope is not None and scope.answered is None and not frame.dropped:
            scope.answered = frame.arrival

    def _on_nak(self, frame: Frame, psn: int, entry: Entry) -> None:
        if entry.scope is not None:
            entry.scope.disturbed = True
        syndrome, _ = frame.aeth()
        kind, code = syndrome >> 5, syndrome & 0x1F
        is_of_acquire = entry.is_acquire and psn == entry.psn
        self._counts["rnr_naks"] += is_of_acquire and kind == _RNR
        self._counts["refused"] += is_of_acquire and kind == _NAK and code != 0
        if frame.dropped:
            return
        self._nak, self._has_nak = frame.arrival, True
        if is_of_acquire and kind == _RNR:
            entry.rnr = frame.arrival, rnr_timer_ns(code)

    def _on_data(self, frame: Frame, psn: int, entry: Entry) -> None:
        """READ or atomic response."""
        if frame.info.position in (LAST, ONLY):
            self._answered(entry)
        scope = entry.scope
        if scope is None or not (entry.is_read or entry.is_atomic):
            return
        self._on_executed(frame, scope)
        if entry.is_read and frame.complete:
            if entry.contents is None:
                entry.contents = {}
            digest = hash(frame.payload_bytes())
            if entry.contents.setdefault(psn, digest) != digest:
                self._report.add(
                    "lock-read-replay",
                    frame,
                    f"PSN {frame.psn:#08x} got other bytes when it was first answered",
                )

    def _on_lock_response(self, frame: Frame, psn: int, entry: Entry) -> None:
        response, _ = lockformat.response(frame)
        said = f"{STATUSES[response.status]} (cause {response.cause}, scope {response.scope_id})"
        if psn != entry.psn or not _fits(entry, response):
            self._report.add("lock-answer", frame, f"{said} for {entry.name}")
            self._answered(entry)
            return
        self._check_order(frame, entry)
        if response.status == WAITING:
            self._counts["waiting"] += 1
            if entry.answer is not None:
                self._report.add("lock-order", frame, f"{said} after its outcome")
            elif not frame.dropped:
                entry.waiting = frame.arrival
        elif entry.answer is None:
            entry.answer = response
            self._answered(entry)
            self._on_decided(frame, entry, response)
        elif entry.answer != response:
            first = entry.answer
            self._report.add(
                "lock-replay",
                frame,
                f"{said}, word {response.previous:#x}, value {response.value}; it was "
                f"{STATUSES[first.status]}, word {first.previous:#x}, value {first.value}",
            )

    def _on_decided(self, frame: Frame, entry: Entry, response: Response) -> None:
        """The first outcome of a request."""
        counts, scope, status = self._counts, entry.scope, response.status
        if status == FAILED:
            counts[_failed(response.cause)] += 1
        elif status == FLUSHED:
            counts["flushed"] += 1
            if scope is not None:
                scope.flushed = True
                self._check_flushed(frame, scope)
        elif status == GRANTED:
            counts["granted"] += 1
            self._locks.words.on_granted(frame, entry, response.value)
        else:
            counts["releases" if status == RELEASED else "canceled"] += 1
        if entry.is_acquire and scope is not None:
            self._check_flushed(frame, scope)
        if status == RELEASED and scope is not None:
            self._on_executed(frame, scope)
        if entry.is_release and status != FLUSHED and entry.acquire is not None:
            self._locks.words.on_release(frame.src, entry.acquire, status == RELEASED)

    def _on_executed(self, frame: Frame, scope: Scope) -> None:
        scope.executed = True
        self._check_flushed(frame, scope)

    def _check_flushed(self, frame: Frame, scope: Scope) -> None:
        """Nothing of a scope whose acquire failed is executed, and nothing else is flushed. (If a
        lease ended, the release fails.)"""
        acquire = scope.acquire
        has_failed = acquire.status == FAILED
        is_released = acquire.release is not None and acquire.release.status == RELEASED
        if (has_failed and scope.executed) or (scope.flushed and is_released):
            what = "executed though the acquire failed" if has_failed else "flushed and released"
            self._report.add(
                "lock-failed-scope", frame, f"scope {acquire.lock.scope_id}: {what}"
            )

    def _check_order(self, frame: Frame, entry: Entry) -> None:
        """No lock request before this one still waits for its answer; nor anything else if this is
        the answer to one."""
        unanswered = self._unanswered
        is_ack = frame.info.operation == ACKNOWLEDGE  # answers this one too, and must not
        behind = entry.psn + is_ack
        if not unanswered or unanswered[0].psn >= behind:
            return
        oldest = unanswered[0]
        if oldest.lock is not None or frame.info.lock >= 0:
            self._report.add(
                "lock-order", frame, f"answer to {entry.name}, {oldest.name} has none"
            )
        while unanswered and unanswered[0].psn < behind:
            unanswered.pop(0)

    def _answered(self, entry: Entry) -> None:
        if entry in self._unanswered:
            self._unanswered.remove(entry)

    # The end -------------------------------------------------------------------------------------

    def finish(self) -> None:
        while self._scopes:
            self._count(self._scopes.popleft())

    def _count(self, scope: Scope) -> None:
        counts = self._counts
        counts["scopes"] += 1
        counts["pipelined"] += scope.is_pipelined
        counts["disturbed"] += scope.disturbed
        counts["packets"] += scope.packets
        if scope.acquire.status == GRANTED:
            counts["granted_scopes"] += 1
            counts["packets_of_granted"] += scope.packets


def _psn(entry: Entry) -> int:
    return entry.psn


def _releases(scope: Scope, entry: Entry) -> bool:
    return entry.is_release and entry.lock.scope_id == scope.acquire.lock.scope_id


def _bind(acquire: Entry, release: Entry) -> None:
    acquire.release, release.acquire = release, acquire


def _fits(entry: Entry, response: Response) -> bool:
    """Whether such a request gets such an answer."""
    status, cause, lock = response.status, response.cause, entry.lock
    if lock is None:
        is_flushed = status == FLUSHED and (entry.is_read or entry.is_atomic)
        scope = entry.scope
        return is_flushed and (scope is None or scope.acquire.lock.scope_id == response.scope_id)
    if response.scope_id != lock.scope_id:
        return False
    if lock.is_acquire:
        may_wait = not lock.flags & lockformat.RESEND
        good = status in (GRANTED, FAILED) or (status == WAITING and may_wait)
        return good and cause < lockformat.CAUSE_NOT_OWNER
    if lock.is_release:
        good = (0, lockformat.CAUSE_NOT_OWNER, lockformat.CAUSE_EXPIRED)
        return status in (RELEASED, FAILED, FLUSHED) and cause in good
    return status in (lockformat.CANCELED, FAILED) and cause in (0, lockformat.CAUSE_TOO_LATE)


def _failed(cause: int) -> str:
    """Name of the counter of such failures."""
    return f"failed_{CAUSES[cause if cause < len(CAUSES) else 0].replace(' ', '_')}"
