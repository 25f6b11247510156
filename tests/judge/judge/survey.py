# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The first pass over a capture: judges single packets and finds out which flows there are, their
path MTU, and which flow answers which.

A packet names only its destination queue pair. So a flow is (source, destination, service,
destination QPN), and a connection is two flows of opposite direction, found by the PSNs: responses
repeat the PSNs of the requests that they answer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import framing
from .capture import Capture
from .frame import Frame, address, parse
from .opcodes import FIRST, MIDDLE, RC, READ_REQUEST, UC, XRC
from .options import Options
from .psn import unwrap
from .report import Report

MTUS = (256, 512, 1024, 2048, 4096)
_MAX_VOTES = 64  # responses that are looked at, per flow, while several partners are possible
_STRONG = 4  # the vote of a response that repeats the PSN of the latest request
_RECENT = 1 << 17  # PSNs before the latest request that a response may still refer to
_MAX_READ_SAMPLES = 64
_STRETCH_BITS = 17  # flows are found by stretches of so many bits of PSNs
_STRETCHES = 1 << 24 - _STRETCH_BITS
_LEAP_NS = 600 * 10**9  # longer than any timeout of the transport

FlowKey = tuple[bytes, bytes, int, int]  # source, destination, service, destination QPN


def flow_key(frame: Frame) -> FlowKey:
    return frame.src, frame.dst, frame.info.service, frame.dqpn


class Flow:
    """What the first pass learns about the packets to one queue pair."""

    def __init__(self, key: FlowKey, src_port: int):
        self.key = key
        self.src_port = src_port
        self.packets = self.requests = self.responses = 0
        self.sizes: Counter[int] = Counter()  # payload of FIRST and MIDDLE packets
        self.largest = 0  # payload of any LAST or ONLY packet
        self.low = self.high = self.latest = -1  # PSNs of the requests, unwrapped; high inclusive
        self.latest_frame = 0
        self.reads: list[tuple[int, int]] = []  # (DMA length, PSNs up to the next request)
        self.votes_cast = 0
        self.stretches = range(0)  # where responses to its requests are looked for, unwrapped
        self._read: tuple[int, int] | None = None  # (PSN, DMA length) of the request before

    def on_request(self, frame: Frame) -> None:
        if self.low < 0:
            self.low = self.high = frame.psn + (1 << 24)  # room below for late retransmissions
        psn = unwrap(self.high, frame.psn)
        if self._read and psn > self._read[0] and len(self.reads) < _MAX_READ_SAMPLES:
            self.reads.append((self._read[1], psn - self._read[0]))
        self._read = None
        last = psn
        if frame.info.operation == READ_REQUEST:
            length = frame.reth()[2]
            self._read = (psn, length)
            last += max(0, (length - 1) // MTUS[0])
        self.low, self.high, self.latest = min(self.low, psn), max(self.high, last), psn
        self.latest_frame = frame.number

    def lowest(self) -> int:
        """The lowest PSN that a response may still refer to."""
        return max(self.low, self.latest - _RECENT)

    def vote_of(self, psn: int) -> int:
        """How strongly a response with this PSN points to the requests of this flow."""
        near = unwrap(self.latest, psn)
        if not self.lowest() <= near <= self.high:
            return 0
        return _STRONG if near == self.latest else 1


class FlowsOfHosts:
    """The flows of one service from one host to another. Thousands may be there, of which few have
    requests near a PSN."""

    def __init__(self) -> None:
        self.count = 0
        self._by_stretch: list[dict[FlowKey, Flow]] = [{} for _ in range(_STRETCHES)]

    def on_request(self, flow: Flow) -> None:
        """To be told behind each request of a flow."""
        first, last = flow.lowest() >> _STRETCH_BITS, flow.high >> _STRETCH_BITS
        stretches = range(max(first, last - _STRETCHES + 1), last + 1)
        if stretches == flow.stretches:
            return
        for stretch in flow.stretches:
            del self._by_stretch[stretch % _STRETCHES][flow.key]
        for stretch in stretches:
            self._by_stretch[stretch % _STRETCHES][flow.key] = flow
        flow.stretches = stretches

    def near(self, psn: int) -> Iterable[Flow]:
        return self._by_stretch[psn >> _STRETCH_BITS].values()


@dataclass
class Survey:
    """The result of the first pass."""

    flows: dict[FlowKey, Flow] = field(default_factory=dict)
    usable: bytearray = field(default_factory=bytearray)  # by frame number: 1 for the second pass
    answers: dict[FlowKey, FlowKey] = field(default_factory=dict)  # requests -> responses
    unclear: set[FlowKey] = field(default_factory=set)  # several flows could be the answer
    frames: int = 0
    roce: int = 0
    judged: int = 0
    dropped: int = 0
    cut: int = 0  # by the snap length
    headers_cut: int = 0  # so short that not even the headers are there
    last_ns: int = 0
    _leaps: int = 0  # frames in a row that are far behind last_ns

    def note_time(self, time_ns: int) -> None:
        """Moves the end of the capture. One frame whose clock was wrong does not: a leap counts when
        the next frame is there, too."""
        is_leap = self.last_ns > 0 and time_ns > self.last_ns + _LEAP_NS
        self._leaps = self._leaps + 1 if is_leap else 0
        if not is_leap or self._leaps > 1:
            self.last_ns = max(self.last_ns, time_ns)


def run(capture: Capture, options: Options, report: Report) -> Survey:
    survey = Survey()
    votes: Counter[tuple[FlowKey, FlowKey]] = Counter()
    by_pair: defaultdict[tuple[bytes, bytes, int], FlowsOfHosts] = defaultdict(FlowsOfHosts)
    usable = survey.usable
    usable.append(0)
    opcodes = options.opcodes
    for record in capture:
        survey.frames += 1
        frame = parse(record, opcodes, options.ports)
        if frame is None:
            usable.append(0)
            continue
        survey.roce += 1
        survey.judged += options.judges(frame.src)
        survey.dropped += frame.dropped
        survey.cut += not frame.complete
        survey.headers_cut += frame.defect is not None and not frame.defect[0]
        survey.note_time(frame.time_ns)
        good = framing.check(frame, options, report)
        usable.append(good)
        if good and frame.info.service in (RC, UC, XRC):
            _note_flow(frame, survey, by_pair, votes, report)
    _pair(survey, votes, options, report)
    return survey


def _note_flow(frame: Frame, survey: Survey, by_pair, votes, report: Report) -> None:
    key = flow_key(frame)
    flow = survey.flows.get(key)
    if flow is None:
        flow = survey.flows[key] = Flow(key, frame.src_port)
        by_pair[key[:3]].count += 1
    elif frame.src_port != flow.src_port:
        report.add(
            "udp-source-port-constant",
            frame,
            f"source port {frame.src_port}, was {flow.src_port} in this flow",
        )
        flow.src_port = frame.src_port
    flow.packets += 1
    info = frame.info
    if info.position in (FIRST, MIDDLE):
        flow.sizes[frame.payload_length] += 1
    elif frame.payload_length > flow.largest:
        flow.largest = frame.payload_length
    if info.is_request:
        flow.requests += 1
        flow.on_request(frame)
        by_pair[key[:3]].on_request(flow)
        return
    flow.responses += 1
    candidates = by_pair[frame.dst, frame.src, info.service]
    if candidates.count > 1 and flow.votes_cast >= _MAX_VOTES:
        return
    flow.votes_cast += 1
    best: Flow | None = None
    for candidate in candidates.near(frame.psn):
        vote = candidate.vote_of(frame.psn)
        if vote:
            votes[candidate.key, key] += vote
        if vote == _STRONG and (best is None or candidate.latest_frame > best.latest_frame):
            best = candidate
    if best:
        votes[best.key, key] += _STRONG  # most responses follow their request closely


def _pair(survey: Survey, votes, options: Options, report: Report) -> None:
    """Joins flows to connections: most votes first, each flow once, unclear cases left out."""
    both: Counter[tuple[FlowKey, FlowKey]] = Counter()
    for (requests, responses), count in votes.items():
        both[min(requests, responses), max(requests, responses)] += count
    partner: dict[FlowKey, FlowKey] = {}
    for one in survey.flows:
        wanted = options.pairs.get(one[3])
        other = (one[1], one[0], one[2], wanted)
        if wanted is not None and other in survey.flows:
            partner[one], partner[other] = other, one
    unclear = survey.unclear
    ranked = both.most_common()
    of_flow: dict[FlowKey, list[tuple[FlowKey, FlowKey]]] = {}
    for pair, _ in ranked:
        for flow in pair:
            of_flow.setdefault(flow, []).append(pair)
    for (one, other), count in ranked:
        if one in partner or other in partner or one in unclear or other in unclear:
            continue
        rivals = [
            pair
            for pair in (*of_flow[one], *of_flow[other])
            if both[pair] * 10 >= count * 9
            and pair != (one, other)
            and (one in pair) != (other in pair)
            and not any(flow in partner for flow in pair)
        ]
        if rivals:
            unclear.update((one, other))
            continue
        partner[one], partner[other] = other, one
    _pair_the_only_ones(survey, partner)
    survey.answers = partner
    for key in unclear:
        report.notes.append(
            f"flow {address(key[0])} > {address(key[1])} QP 0x{key[3]:06x}: several flows could "
            "answer it; requests and responses are not compared (use --pair)"
        )


def _pair_the_only_ones(survey: Survey, partner: dict[FlowKey, FlowKey]) -> None:
    """Joins flows which no PSN joins, where only one flow of requests and one of responses is left
    between two hosts."""
    left: dict[tuple[bytes, bytes, int], list[Flow]] = {}
    for key, flow in survey.flows.items():
        if key not in partner and key not in survey.unclear:
            left.setdefault(key[:3], []).append(flow)
    for (src, dst, service), flows in left.items():
        others = left.get((dst, src, service), [])
        if len(flows) == len(others) == 1 and src != dst:
            one, other = flows[0], others[0]
            if not one.responses and not other.requests:
                partner[one.key], partner[other.key] = other.key, one.key


def path_mtu(flows: list[Flow], options: Options) -> int:
    """The path MTU of a connection, from the packets of its flows."""
    if options.pmtu:
        return options.pmtu
    sizes: Counter[int] = Counter()
    for flow in flows:
        sizes.update(flow.sizes)
    for size, _ in sizes.most_common():
        if size in MTUS:
            return size
    # No message had two packets: what single packets carried is a lower bound, and the PSNs that
    # READ requests take tell more.
    largest = max((flow.largest for flow in flows), default=0)
    reads = [read for flow in flows for read in flow.reads]

    def agreement(mtu: int) -> int:
        return sum(max(1, -(-length // mtu)) == psns for length, psns in reads)

    candidates = [mtu for mtu in MTUS if mtu >= largest] or [MTUS[-1]]
    return max(candidates, key=lambda mtu: (agreement(mtu), mtu))
