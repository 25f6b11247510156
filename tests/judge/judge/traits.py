# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What each flow's packets have in common that no rule asks for: from these one sees what device sent
them."""

from collections import Counter
from dataclasses import dataclass, field

from .frame import Frame, address
from .opcodes import ACKNOWLEDGE, CNP_CLASS, LAST, ONLY, RC, UC, UD, XRC

_UNLIMITED = 31  # credits of an AETH that say nothing of a limit
_ECN = ("not ECT", "ECT(1)", "ECT(0)", "CE")
_SERVICES = {RC: "RC", UC: "UC", UD: "UD", XRC: "XRC", CNP_CLASS: "CNP"}

FlowKey = tuple[bytes, bytes, int, int]  # source, destination, service, destination QPN


@dataclass
class Traits:
    """Of the packets to one queue pair."""

    key: FlowKey
    packets: int = 0
    source_ports: set[int] = field(default_factory=set)
    tos: Counter[int] = field(default_factory=Counter)  # or the traffic class
    ttl: set[int] = field(default_factory=set)
    ip_ids: set[int] = field(default_factory=set)  # the first ones
    mig_req: Counter[int] = field(default_factory=Counter)
    reserved: int = 0  # bits that were set, of bytes 4 and 8 of the BTH
    udp_checksums: int = 0
    message_ends: int = 0
    ack_requests: int = 0
    credits: Counter[int] = field(default_factory=Counter)

    def on_packet(self, frame: Frame) -> None:
        data, l3 = frame.data, frame.l3
        self.packets += 1
        self.source_ports.add(frame.src_port)
        if frame.ip_version == 4:
            self.tos[data[l3 + 1]] += 1
            self.ttl.add(data[l3 + 8])
            if len(self.ip_ids) < 2:
                self.ip_ids.add(data[l3 + 4] << 8 | data[l3 + 5])
        else:
            self.tos[(data[l3] & 0x0F) << 4 | data[l3 + 1] >> 4] += 1
            self.ttl.add(data[l3 + 7])
        self.mig_req[frame.flags >> 6 & 1] += 1
        self.reserved |= (frame.byte4 & 0x3F) << 8 | frame.byte8 & 0x7F
        self.udp_checksums += frame.udp_checksum != 0
        info = frame.info
        if info.is_request and info.position in (LAST, ONLY):
            self.message_ends += 1
            self.ack_requests += frame.ack_request
        if info.operation == ACKNOWLEDGE and info.aeth >= 0:
            syndrome = frame.aeth()[0]
            if syndrome >> 5 == 0:
                self.credits[syndrome & 0x1F] += 1

    def texts(self) -> dict[str, str]:
        """Each trait that the flow shows, in words."""
        ports = sorted(self.source_ports)
        shown = ", ".join(f"0x{port:04X}" for port in ports[:3]) + (", ..." if ports[3:] else "")
        texts = {
            "source_port": shown + (" (below 0xC000)" if ports[0] < 0xC000 else ""),
            "dscp": ", ".join(f"{tos >> 2} {_ECN[tos & 3]}" for tos in sorted(self.tos)),
            "ttl": ", ".join(map(str, sorted(self.ttl))),
            "mig_req": ", ".join(map(str, sorted(self.mig_req))),
        }
        if self.ip_ids:
            texts["ip_id"] = "0" if self.ip_ids == {0} else "varies" if self.packets > 1 else "not 0"
        if self.reserved:
            texts["bth_reserved"] = f"{self.reserved >> 8:02x} and {self.reserved & 0x7F:02x}"
        if self.udp_checksums:
            texts["udp_checksum"] = f"in {self.udp_checksums} packets"
        if self.message_ends:
            texts["ack_req"] = f"{self.ack_requests} of {self.message_ends} messages"
        if self.credits:
            limited = sum(count for credit, count in self.credits.items() if credit != _UNLIMITED)
            texts["credits"] = (
                "unlimited" if not limited
                else f"limited in {limited} of {self.credits.total()} acknowledgements"
            )  # fmt: skip
        return texts

    def row(self) -> dict:
        """For the JSON output."""
        source, destination, service, qpn = self.key
        return {
            "source": address(source),
            "destination": address(destination),
            "service": _SERVICES.get(service, f"0x{service:02X}"),
            "qpn": qpn,
            "packets": self.packets,
            **self.texts(),
        }


class TraitsOfFlows:
    def __init__(self) -> None:
        self._flows: dict[FlowKey, Traits] = {}

    def on_packet(self, frame: Frame) -> None:
        key = frame.src, frame.dst, frame.info.service, frame.dqpn
        traits = self._flows.get(key)
        if traits is None:
            traits = self._flows[key] = Traits(key)
        traits.on_packet(frame)

    def rows(self) -> list[dict]:
        return [traits.row() for traits in self._flows.values()]
