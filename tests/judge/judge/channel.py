# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""One direction of a connection: requests one way, their responses the other way."""

from .frame import Frame
from .locks import LockLine
from .opcodes import UC
from .options import Options
from .report import Report
from .requester import Requester
from .requestlog import RequestLog
from .responder import Responder


class Channel:
    def __init__(
        self, service: int, pmtu: int, answered: bool, clear: bool, locks: LockLine | None,
        options: Options, report: Report,
    ):
        """`answered` when the capture has the flow of the responses; not `clear` when it may have
        it, but which one it is could not be found out."""
        self.pmtu = pmtu
        self._locks = locks
        log = RequestLog()
        self.requester = Requester(log, pmtu, answered, options, report)
        self._reliable = service != UC and clear
        self.responder = Responder(log, pmtu, options, report)

    def on_request(self, frame: Frame) -> None:
        request = self.requester.on_request(frame)
        if self._locks is not None:
            self._locks.on_request(frame, self.pmtu)
        if not self._reliable:
            return
        if frame.dropped:
            self.responder.on_dropped_request(request)
        else:
            self.responder.on_request(frame, request)

    def on_response(self, frame: Frame) -> None:
        self.responder.on_response(frame)
        if self._locks is not None:
            self._locks.on_response(frame)
        if frame.dropped:
            self.requester.on_dropped_response(frame)
        else:
            self.requester.on_response(frame)

    def finish(self, last_ns: int) -> None:
        if self._reliable:
            self.responder.finish(last_ns)
