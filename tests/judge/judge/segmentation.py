# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Follows the packets of one message after another (IBTA vol. 1, 9.7.4 and 9.8.2)."""

from .frame import Frame
from .opcodes import FIRST, LAST, MIDDLE, ONLY
from .report import Report

MAX_MESSAGE = 1 << 31
_UNKNOWN = "unknown"


class Messages:
    """The message under way in one direction; fed with new requests only, in order."""

    def __init__(self, report: Report, pmtu: int):
        self._report = report
        self._pmtu = pmtu
        self.lost_track()

    def lost_track(self) -> None:
        """Packets are missing: the next one may be in the middle of a message."""
        self._kind = _UNKNOWN  # "send" or "write" inside a message, "" between messages
        self._declared: int | None = None  # DMA length of the RETH
        self._bytes = 0

    def on_packet(self, frame: Frame) -> None:
        info = frame.info
        self._check_sequence(frame)
        if info.kind not in ("send", "write"):
            self._kind = ""
            if info.kind == "read" and frame.reth()[2] > MAX_MESSAGE:
                self._report.add("message-length", frame, f"READ of {frame.reth()[2]} bytes")
            return
        self._check_size(frame)
        if info.position in (FIRST, ONLY):
            self._bytes = 0
            self._declared = frame.reth()[2] if info.reth >= 0 else None
            if self._declared is not None and self._declared > MAX_MESSAGE:
                self._report.add("message-length", frame, f"DMA length {self._declared}")
        elif self._kind == _UNKNOWN:
            self._declared, self._bytes = None, 0
        self._bytes += frame.payload_length
        ends = info.position in (LAST, ONLY)
        self._check_length(frame, ends)
        if ends:
            self._kind = ""
        elif self._kind != _UNKNOWN or info.position == FIRST:
            self._kind = info.kind

    def _check_sequence(self, frame: Frame) -> None:
        info = frame.info
        continues = info.position in (MIDDLE, LAST)
        if self._kind == _UNKNOWN:
            return
        if continues and info.kind != self._kind:
            before = f"a message of kind {self._kind}" if self._kind else "no message"
            self._report.add("opcode-sequence", frame, f"{info.name} with {before} under way")
            self.lost_track()
        elif not continues and self._kind:
            self._report.add("opcode-sequence", frame, f"{info.name} inside a {self._kind} message")

    def _check_size(self, frame: Frame) -> None:
        size, position = frame.payload_length, frame.info.position
        if position in (FIRST, MIDDLE):
            good = size == self._pmtu
        else:
            good = size <= self._pmtu and (size > 0 or position == ONLY)
        if not good:
            self._report.add(
                "segment-size",
                frame,
                f"{frame.info.name} carries {size} bytes, the path MTU is {self._pmtu}",
            )

    def _check_length(self, frame: Frame, ends: bool) -> None:
        declared = self._declared
        if declared is None:
            if self._bytes > MAX_MESSAGE:
                self._report.add("message-length", frame, f"{self._bytes} bytes and no end")
        elif self._bytes > declared or (ends and self._bytes != declared):
            self._report.add(
                "reth-length",
                frame,
                f"{self._bytes} bytes up to here, the RETH said {declared}",
            )
            self._declared = None
