# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the user tells about a capture and the devices in it."""

from dataclasses import dataclass, field

from .frame import Arrival, Frame
from .layers import STANDARD_PORTS
from .opcodes import Opcodes

LOSSY = ("none", "near", "far", "both")


@dataclass
class Options:
    """See cli.py for the meaning of each; times in nanoseconds, addresses as raw bytes."""

    endpoints: frozenset[bytes] = frozenset()  # judged senders; empty: all
    ports: frozenset[int] = STANDARD_PORTS  # UDP ports of RoCEv2
    strict: bool = False
    traits: bool = False
    lossy: str = "none"
    pmtu: int | None = None
    pkeys: frozenset[int] = frozenset((0xFFFF,))
    max_rd_atomic: int | None = None
    memory_changes: bool = False
    selective_repeat: bool = False
    manufacturer_opcodes: bool = False
    dynamic_connections: bool = False
    locks: bool = False
    race_ns: int = 1_000_000
    queued: int = 0
    settle_ns: int = 1_000_000_000
    ignore: frozenset[str] = frozenset()
    pairs: dict[int, int] = field(default_factory=dict)  # QPN -> QPN, both ways

    @property
    def opcodes(self) -> Opcodes:
        return Opcodes(self.dynamic_connections, self.locks)

    def judges(self, address: bytes) -> bool:
        return not self.endpoints or address in self.endpoints

    def sees_all_of(self, address: bytes) -> bool:
        """Whether the capture holds all that this endpoint sent and received.

        `lossy` names the side of the capture point on which packets may be lost, duplicated or
        reordered: near is between the judged endpoint and the capture, far is beyond it.
        """
        if not self.endpoints:
            return self.lossy == "none"
        return self.lossy in (("none", "far") if address in self.endpoints else ("none", "near"))

    def follows(self, frame: Frame, received: Arrival) -> bool:
        """Whether the sender of `frame` had made it ready after it got `received`."""
        return frame.sent - received[1] >= self.queued

    def acts_on(self, frame: Frame, received: Arrival) -> bool:
        """Whether the sender of `frame` must have taken account of `received`."""
        return frame.time_ns - received[0] > self.race_ns and self.follows(frame, received)
