# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Joins flows, which name only where their packets go, to connections of two ends."""

from dataclasses import dataclass, field

from judge.frame import address
from judge.opcodes import CNP_CLASS, DC, DC_CONNECT, DC_MESSAGE, RC, RD, UC, UD, XRC

from .packets import GSI_QPN

NAMES = {RC: 'RC', UC: 'UC', RD: 'RD', UD: 'UD', XRC: 'XRC', DC: 'DC', CNP_CLASS: 'CNP'}
_DYNAMIC = (DC, DC_CONNECT, DC_MESSAGE)


@dataclass
class Connection:
    """Two ends, A and B. A is that which is seen to ask first."""

    kind: str
    a: bytes
    b: bytes
    qpn_a: int = 0  # 0: not seen
    qpn_b: int = 0
    flows: dict = field(default_factory=dict)  # number of the flow: 0 for A to B, 1 for B to A
    answered: bool = True  # both directions are in the capture
    path_mtu: int = 0
    stream: int = 0  # of a dynamic connection

    def ends(self):
        def end(host, qpn):
            return f'{address(host)} {"" if self.kind == "CM" or not qpn else f"QP 0x{qpn:06x}"}'.strip()
        return end(self.a, self.qpn_a), end(self.b, self.qpn_b)


def join(flows, answers, mtus):
    """All connections of these flows, and for each flow which it belongs to.

    `answers` joins flows of connected services, as the checker has found out from their PSNs.
    """
    by_key = {flow[:4]: index for index, flow in enumerate(flows) if flow[2] in (RC, UC, XRC)}
    found, of_flow = [], [None] * len(flows)
    grouped = {}

    def take(index, connection, direction):
        connection.flows[index] = direction
        of_flow[index] = connection

    def group(key, index, make, forward):
        connection = grouped.get(key)
        if connection is None:
            connection = grouped[key] = make()
            found.append(connection)
        take(index, connection, 0 if forward(connection) else 1)

    for index, flow in enumerate(flows):
        source, destination, service, qpn, initiator, target = flow
        if of_flow[index] is not None:
            continue
        if service in (RC, UC, XRC):
            connection = Connection(NAMES[service], source, destination, 0, qpn)
            connection.path_mtu = mtus.get(flow[:4], 0)
            found.append(connection)
            take(index, connection, 0)
            other = by_key.get(answers.get(flow[:4]))
            if other is not None and of_flow[other] is None:
                take(other, connection, 1)
                connection.qpn_a = flows[other][3]
            else:
                connection.answered = service == UC
        elif service in _DYNAMIC and initiator:
            at_target = qpn == target and initiator & 0xFFFFFF != qpn
            a, b = (source, destination) if at_target else (destination, source)
            group(('DC', a, initiator, b, target), index,
                  lambda a=a, b=b, i=initiator, t=target: Connection('DC', a, b, i & 0xFFFFFF, t, stream=i >> 24),
                  lambda connection, to=qpn: to == connection.qpn_b)
        elif service == UD and qpn == GSI_QPN:
            group(('CM', frozenset((source, destination))), index,
                  lambda s=source, d=destination: Connection('CM', s, d, 1, 1),
                  lambda connection, s=source: s == connection.a)
        elif service == UD:
            group(('UD', frozenset(((source, initiator), (destination, qpn)))), index,
                  lambda s=source, d=destination, i=initiator, q=qpn: Connection('UD', s, d, i, q),
                  lambda connection, d=destination, q=qpn: (d, q) == (connection.b, connection.qpn_b))
    _attach(flows, found, of_flow, take, group)
    return found, of_flow


def _attach(flows, found, of_flow, take, group):
    """Notifications of congestion, and opcodes that are not known, to the connection whose queue pair they go to."""
    by_place = {}
    for index, flow in enumerate(flows):
        if of_flow[index] is not None:
            by_place.setdefault((flow[0], flow[1], flow[3]), (of_flow[index], of_flow[index].flows[index]))
    for connection in found:
        for source, destination, qpn, direction in (
                (connection.a, connection.b, connection.qpn_b, 0), (connection.b, connection.a, connection.qpn_a, 1)):
            if qpn:
                by_place.setdefault((source, destination, qpn), (connection, direction))
    for index, flow in enumerate(flows):
        if of_flow[index] is not None:
            continue
        source, destination, service, qpn = flow[:4]
        place = by_place.get((source, destination, qpn))
        if place is not None:
            take(index, *place)
        else:
            kind = NAMES.get(service, 'other')
            group((kind, frozenset((source, destination)), qpn), index,
                  lambda s=source, d=destination, q=qpn, k=kind: Connection(k, s, d, 0, q, answered=False),
                  lambda connection, s=source: s == connection.a)
