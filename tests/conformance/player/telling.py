# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Packets in the words of scripts, for people who want to know what went wrong."""

import dataclasses

from . import packet
from .values import Values

_DIALOGUE_SHOWN = 16
_HIDDEN = ("sport", "tos", "ttl", "pkey", "dqpn", "fecn", "becn", "pad", "migreq", "syndrome")
_NAK_NAMES = {code: name for name, code in packet.NAK_CODES.items()}


@dataclasses.dataclass
class Teller:
    """Knows the numbers of a run, so that PSNs are told as scripts count them."""

    values: Values
    path: packet.Path
    pmtu: int
    start_ns: int

    def field(self, key: str, values: dict, response_psns: bool) -> str:
        value = values[key]
        if key == "psn":
            base = self.values.sq_psn if response_psns else self.values.rq_psn
            return str((value - base + (1 << 23) & 0xFFFFFF) - (1 << 23))
        if key == "payload":
            return f"{len(value)} bytes {value[:12].hex()}{'...' if len(value) > 12 else ''}"
        if key == "code":
            return _NAK_NAMES.get(value, str(value))
        return hex(value) if isinstance(value, int) and value > 9999 else str(value)

    def packet(self, decoded: packet.Decoded, time_ns: int) -> str:
        """One that the device has sent."""
        response_psns = not packet.is_response(decoded.opcode)
        shown = " ".join(f"{key}={self.field(key, decoded.values, response_psns)}"
                         for key in decoded.values if key not in _HIDDEN)  # fmt: skip
        return f"{packet.name_of(decoded.opcode)} {shown} at {self._ms(time_ns):.3f} ms"

    def dialogue(self, frames: list[tuple[int, bytes, str]]) -> list[str]:
        """The last packets of both directions, a line each."""
        if not frames:
            return []
        lines = ["  the packets until then (PSNs as on the wire):"]
        return lines + [f"    {self._line(*one)}" for one in frames[-_DIALOGUE_SHOWN:]]

    def _line(self, time_ns: int, frame: bytes, direction: str) -> str:
        decoded = packet.decode(frame, self.path, self.pmtu)
        line = f"{self._ms(time_ns):9.3f} {direction}"
        if decoded is None or "psn" not in decoded.values:
            return f"{line} not RoCEv2"
        line += f" {packet.name_of(decoded.opcode)} {decoded.values['psn']:06x}"
        if "kind" in decoded.values:
            line += f" {decoded.values['kind']} msn={decoded.values['msn']}"
        return line

    def _ms(self, time_ns: int) -> float:
        return (time_ns - self.start_ns) / 1e6
