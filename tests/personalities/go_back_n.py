# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A second judge of captures, which knows nothing of the first but how to read a file: the two ends
of go-back-N, and congestion notifications, as small state machines. Their rules are those by which
Lumina (Yu et al., NSDI 2023) judged RNICs, in words of our own:

A requester's packets are in order, or begin again at the PSN that a NAK has named, or, where there
is no NAK, anywhere: a timeout. What acknowledges it never goes back, and one NAK is under way at a time.

A responder answers the first packet behind a gap by a NAK of what is missing, once; it sends no
acknowledgement of less than before.

A notification point sends a CNP for a marked packet, or a NAK where the device does that, and none
within the time that it leaves between two of a scope.
"""

import collections

from judge.capture import Capture
from judge.frame import parse

MASK = 0xFFFFFF
# A packet may be ready to go so long before its turn at the port comes.
READY_NS = 1_000_000
Packet = collections.namedtuple('Packet', 'time_ns src dst qpn psn kind count ce nak')


def distance(first, second):
    """From the first PSN to the second, on their circle."""
    return ((second - first + 0x800000) & MASK) - 0x800000


def packets_of(path, mtu):
    """RC packets and CNPs: `kind` is request, read, response, ack, nak or cnp."""
    for record in Capture(path):
        frame = parse(record)
        if frame is None or frame.defect or frame.info is None:
            continue
        name, count, nak = frame.info.name, 1, None
        if name == 'CNP':
            kind = 'cnp'
        elif not name.startswith('RC_'):
            continue
        elif 'READ_REQUEST' in name:
            kind, count = 'read', max(1, -(-frame.reth()[2] // mtu))
        elif frame.info.is_request:
            kind = 'request'
        elif name == 'RC_ACKNOWLEDGE':
            syndrome, _ = frame.aeth()
            nak = syndrome & 0x1F if syndrome >> 5 == 3 else None
            kind = {0: 'ack', 1: 'rnr', 3: 'nak'}.get(syndrome >> 5, 'reserved')
        else:
            kind = 'response'
        traffic_class = frame.data[frame.l3 + 1] if frame.ip_version == 4 else (
            (frame.data[frame.l3] << 4 | frame.data[frame.l3 + 1] >> 4) & 0xFF)
        yield Packet(frame.time_ns, frame.src, frame.dst, frame.dqpn, frame.psn, kind, count,
                     traffic_class & 3 == 3, nak)


def pairs(packets):
    """{(requester, its peer's queue pair): (the peer, its own queue pair)}, found by who answers
    whose PSNs."""
    found, requests = {}, collections.defaultdict(set)
    for packet in packets:
        if packet.kind in ('request', 'read'):
            requests[packet.src, packet.dst, packet.qpn].update(
                (packet.psn + i) & MASK for i in range(packet.count))
    for packet in packets:
        if packet.kind not in ('ack', 'response'):
            continue
        fitting = [flow for flow, psns in requests.items()
                   if flow[:2] == (packet.dst, packet.src) and packet.psn in psns]
        if len(fitting) == 1:
            found[fitting[0]] = packet.qpn
    return found


def check_requester(packets, flow, own_qpn, reads, ordered):
    """What it sends, at its own port. `reads`: READs are among it; `ordered`: the network keeps the
    order of packets."""
    source, peer, qpn = flow
    problems, following, last_ack, nak = [], None, None, None
    for packet in packets:
        if packet.src == source and packet.dst == peer and packet.qpn == qpn and packet.kind in ('request', 'read'):
            if following is None or packet.psn == following:
                pass
            elif nak is not None and packet.psn == nak:
                pass
            elif nak is not None and not reads and distance(following, packet.psn) < 0:
                problems.append(f'goes back to {packet.psn}, though the NAK names {nak}')
            elif distance(following, packet.psn) > 0 and (last_ack is None or distance(last_ack, packet.psn) > 1):
                problems.append(f'leaves out what is between {following} and {packet.psn}')
            if nak is not None and distance(nak, packet.psn) >= 0:
                nak = None
            following = (packet.psn + packet.count) & MASK
        elif packet.src == peer and packet.dst == source and packet.qpn == own_qpn:
            ahead = 1 if last_ack is None else distance(last_ack, packet.psn)
            if packet.kind == 'ack' and ahead < 0 and ordered:
                problems.append(f'ACK of {packet.psn} behind that of {last_ack}')
            if packet.kind in ('ack', 'response') and ahead > 0:
                last_ack = packet.psn
            elif packet.kind == 'nak' and packet.nak == 0:
                nak = packet.psn
                if last_ack is None or distance(last_ack, nak) > 1:
                    last_ack = (nak - 1) & MASK
    return problems


def check_responder(packets, flow, own_qpn):
    """What it answers, at its own port: `flow` is what it receives."""
    source, peer, qpn = flow
    problems, asked, last_ack = [], None, None
    first = [packet.psn for packet in packets if packet.src == source and packet.dst == peer
             and packet.qpn == qpn and packet.kind in ('request', 'read')][:64]
    # The network may have changed the order of the first ones.
    expected = min(first, key=lambda psn: distance(first[0], psn))
    until = {}  # when a PSN stopped being the expected one
    for packet in packets:
        if packet.src == source and packet.dst == peer and packet.qpn == qpn and packet.kind in ('request', 'read'):
            if packet.psn == expected:
                until[expected] = packet.time_ns
                expected = (packet.psn + packet.count) & MASK
                asked = None
        elif packet.src == peer and packet.dst == source and packet.qpn == own_qpn:
            if packet.kind == 'nak' and packet.nak == 0:
                if packet.psn != expected and packet.time_ns - until.get(packet.psn, -READY_NS) > READY_NS:
                    problems.append(f'NAK of {packet.psn}, though {expected} is missing')
                if asked == packet.psn:
                    problems.append(f'a second NAK of {packet.psn}')
                asked = packet.psn
            elif packet.kind == 'rnr':
                # What it could not take comes again.
                expected = packet.psn
            elif packet.kind == 'ack':
                if last_ack is not None and distance(last_ack, packet.psn) < 0:
                    problems.append(f'ACK of {packet.psn} behind that of {last_ack}')
                last_ack = packet.psn
    return problems


def check_notifications(packets, own, interval_ns, scope, nak_draws):
    """CNPs of `own`, at its port."""
    problems, last, causes = [], {}, 0
    # A cause counts for one.
    for packet in packets:
        if packet.dst == own and packet.ce:
            causes += 1
        if packet.src != own:
            continue
        if packet.kind == 'nak' and packet.nak == 0 and nak_draws:
            causes += 1
        if packet.kind != 'cnp':
            continue
        if causes == 0:
            problems.append('a CNP without a cause')
        causes = max(0, causes - 1)
        key = {'port': None, 'destination': packet.dst, 'qp': (packet.dst, packet.qpn)}[scope]
        if not nak_draws and key in last and packet.time_ns - last[key] < interval_ns:
            problems.append(f'two CNPs within {packet.time_ns - last[key]} ns')
        last[key] = packet.time_ns
    return problems
