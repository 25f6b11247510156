# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Finds the UDP datagram of RoCEv2 in a captured frame: below VLAN tags and MPLS labels, and in what
switches and routers put around mirrored or overlaid traffic (VXLAN, Geneve, GRE, ERSPAN, IP in IP)."""

import struct
from collections import Counter
from typing import Iterable, NamedTuple

from . import capture

ROCE_PORT = 4791
STANDARD_PORTS = frozenset((ROCE_PORT,))
_IPV4, _IPV6, _ROCE_V1 = 0x0800, 0x86DD, 0x8915
_BRIDGED = 0x6558  # an Ethernet frame
_VLAN = (0x8100, 0x88A8, 0x9100)
_MPLS = (0x8847, 0x8848)
_ERSPAN_2, _ERSPAN_3 = 0x88BE, 0x22EB
_IP_IN_IP = {4: _IPV4, 41: _IPV6}
_UDP, _GRE = 17, 47
_VXLAN_PORTS, _GENEVE_PORT = (4789, 8472), 6081
_UDP_SIZE, _TUNNEL_SIZE, _MACS = 8, 8, 12
_DEPTH = 8  # encapsulations of one frame; more are somebody's joke
_SHOWN = 4  # kinds of what a capture without RoCEv2 has
_LINK_TYPES = {105: "802.11", 127: "802.11", 189: "USB", 197: "ERF", 220: "USB", 247: "InfiniBand"}
_ETHERTYPES = {0x0806: "ARP", 0x88CC: "LLDP", 0x8808: "pause frame", _ROCE_V1: "RoCEv1"}
_PROTOCOLS = {1: "ICMP", 2: "IGMP", 6: "TCP", 50: "ESP", 58: "ICMPv6"}


class Datagram(NamedTuple):
    """Where a UDP datagram lies, and who sent it to whom."""

    version: int  # of IP
    l3: int
    src: bytes
    dst: bytes
    ip_end: int
    udp: int


class Other(NamedTuple):
    """What a frame holds that is no RoCEv2 packet."""

    kind: str
    number: int = 0
    inside: tuple[str, ...] = ()  # encapsulations, the outermost first


def find(data: bytes, linktype: int, ports: frozenset[int] = STANDARD_PORTS) -> Datagram | Other:
    protocol, at = _network_layer(data, linktype)
    if at < 0:
        return Other("link type", linktype)
    inside: tuple[str, ...] = ()
    for _ in range(_DEPTH):
        if protocol in _MPLS:
            protocol, at = _behind_labels(data, at)
            inside += ("MPLS",)
            continue
        if protocol == _BRIDGED:
            protocol, at = _behind_tags(data, at + _MACS)
            continue
        if protocol not in (_IPV4, _IPV6):
            return Other("ethertype", protocol, inside)
        packet = _ip(data, at, 4 if protocol == _IPV4 else 6)
        if packet is None:
            return Other("damaged IP header or fragment", 0, inside)
        upper, payload, datagram = packet
        if upper in _IP_IN_IP:
            protocol, at = _IP_IN_IP[upper], payload
            inside += ("IP",)
            continue
        if upper == _GRE:
            name, protocol, at = _behind_gre(data, payload)
            inside += (name,)
            continue
        if upper != _UDP or len(data) < payload + _UDP_SIZE:
            return Other("protocol", upper, inside)
        port = data[payload + 2] << 8 | data[payload + 3]
        if port in ports:
            return datagram
        tunnel = payload + _UDP_SIZE
        if port in _VXLAN_PORTS and len(data) > tunnel + _TUNNEL_SIZE:
            protocol, at = _BRIDGED, tunnel + _TUNNEL_SIZE
            inside += ("VXLAN",)
        elif port == _GENEVE_PORT and len(data) > tunnel + _TUNNEL_SIZE:
            protocol = data[tunnel + 2] << 8 | data[tunnel + 3]
            at = tunnel + _TUNNEL_SIZE + (data[tunnel] & 0x3F) * 4
            inside += ("Geneve",)
        else:
            return Other("UDP port", port, inside)
    return Other("too many encapsulations", 0, inside)


def _network_layer(data: bytes, linktype: int) -> tuple[int, int]:
    """Ethertype and offset of the network header; an offset below 0 for a link type not known."""
    if linktype == capture.LINKTYPE_ETHERNET:
        return _behind_tags(data, _MACS)
    if linktype == capture.LINKTYPE_LINUX_SLL:
        return _behind_tags(data, 14)
    if linktype == capture.LINKTYPE_LINUX_SLL2:
        return (int.from_bytes(data[:2], "big"), 20) if len(data) > 20 else (0, 0)
    if linktype in (capture.LINKTYPE_RAW, capture.LINKTYPE_IPV4, capture.LINKTYPE_IPV6):
        return ({4: _IPV4, 6: _IPV6}.get(data[0] >> 4, 0), 0) if data else (0, 0)
    return 0, -1


def _behind_tags(data: bytes, position: int) -> tuple[int, int]:
    """Ethertype behind VLAN tags, and where its header begins; 0 when there is none."""
    while len(data) >= position + 2:
        ethertype = data[position] << 8 | data[position + 1]
        if ethertype not in _VLAN:
            return ethertype, position + 2
        position += 4
    return 0, 0


def _behind_labels(data: bytes, position: int) -> tuple[int, int]:
    """Behind the bottom of an MPLS stack is IP, or a pseudowire: a control word and a frame."""
    while len(data) >= position + 4 and not data[position + 2] & 1:
        position += 4
    position += 4
    if len(data) <= position:
        return 0, 0
    version = data[position] >> 4
    if version == 0:
        return _BRIDGED, position + 4
    return {4: _IPV4, 6: _IPV6}.get(version, _BRIDGED), position


def _behind_gre(data: bytes, position: int) -> tuple[str, int, int]:
    """Name of the encapsulation, ethertype and offset of what is in it; ethertype 0: nothing."""
    if len(data) < position + 4:
        return "GRE", 0, 0
    flags, protocol = struct.unpack_from(">HH", data, position)
    if flags & 0x4007:  # source routes, and versions of PPTP
        return "GRE", 0, 0
    position += 4 + 4 * bool(flags & 0x8000) + 4 * bool(flags & 0x2000) + 4 * bool(flags & 0x1000)
    if protocol == _ERSPAN_2:  # type I has no header of its own, nor a sequence number
        return "ERSPAN", _BRIDGED, position + (8 if flags & 0x1000 else 0)
    if protocol == _ERSPAN_3 and len(data) >= position + 12:
        return "ERSPAN", _BRIDGED, position + (20 if data[position + 11] & 1 else 12)
    return "GRE", protocol, position


def _ip(data: bytes, l3: int, version: int) -> tuple[int, int, Datagram] | None:
    """Upper protocol, where it begins, and the datagram that it would be; None if it has no
    header there."""
    if len(data) < l3 + (20 if version == 4 else 40) or data[l3] >> 4 != version:
        return None
    if version == 4:
        payload = l3 + (data[l3] & 0x0F) * 4
        if payload < l3 + 20 or (data[l3 + 6] << 8 | data[l3 + 7]) & 0x1FFF:
            return None  # not the first fragment: no UDP header here
        end = l3 + (data[l3 + 2] << 8 | data[l3 + 3])
        src, dst = data[l3 + 12 : l3 + 16], data[l3 + 16 : l3 + 20]
        return data[l3 + 9], payload, Datagram(4, l3, src, dst, end, payload)
    payload = l3 + 40
    end = payload + (data[l3 + 4] << 8 | data[l3 + 5])
    src, dst = data[l3 + 8 : l3 + 24], data[l3 + 24 : l3 + 40]
    return data[l3 + 6], payload, Datagram(6, l3, src, dst, end, payload)


def _name(other: Other) -> str:
    if other.kind == "link type":
        name = _LINK_TYPES.get(other.number)
        return f"link type {other.number}" + (f" ({name})" if name else "")
    if other.kind == "ethertype":
        text = _ETHERTYPES.get(other.number, f"ethertype 0x{other.number:04x}")
    elif other.kind == "protocol":
        text = _PROTOCOLS.get(other.number, f"IP protocol {other.number}")
    elif other.kind == "UDP port":
        text = f"UDP port {other.number} (--port {other.number} if that is RoCEv2)"
    else:
        text = other.kind
    return " in ".join((text, *reversed(other.inside)))


def summary(records: Iterable[capture.Record], ports: frozenset[int]) -> str:
    """What a capture holds in which there is no RoCEv2; empty if it holds nothing."""
    counts: Counter[str] = Counter()
    for record in records:
        found = find(record.data, record.linktype, ports)
        if isinstance(found, Other):
            counts[_name(found)] += 1
    shown = [f"{count} x {name}" for name, count in counts.most_common(_SHOWN)]
    rest = counts.total() - sum(count for _, count in counts.most_common(_SHOWN))
    return ", ".join(shown + ([f"{rest} of other kinds"] if rest else []))
