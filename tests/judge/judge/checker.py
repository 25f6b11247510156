# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Judges one capture: a pass over single packets, then a pass over sequences."""

from collections import Counter
from dataclasses import dataclass
from typing import Callable

from . import layers, survey
from .capture import Capture, CaptureError
from .channel import Channel
from .dynamic import SERVICES, DynamicConnections
from .frame import address, parse
from .opcodes import RC, UC
from .locks import Locks
from .options import Options
from .report import Report
from .traits import TraitsOfFlows


@dataclass
class Verdict:
    """What is to be told about one capture."""

    path: str
    report: Report
    survey: survey.Survey
    truncated: bool
    connections: list[dict]
    dynamic: dict[str, int]  # counters of dynamic connections; empty without --dynamic-connections
    locks: dict[str, float]  # those of locks; empty without --locks
    flows: list[dict]  # what each has in common; empty without --traits


def check(
    path: str, options: Options, surveyed: Callable[[survey.Survey], None] | None = None
) -> Verdict:
    """Judges a capture; raises CaptureError or OSError when it cannot be read.

    `surveyed` is told the result of the first pass, so that its caller may go on with it meanwhile.
    """
    report = Report(options)
    capture = Capture(path)
    overview = survey.run(capture, options, report)
    if surveyed:
        surveyed(overview)
    if overview.roce == 0:
        instead = layers.summary(capture, options.ports)
        raise CaptureError("no RoCEv2 packet in it" + (f", but {instead}" if instead else ""))
    if overview.headers_cut:
        raise CaptureError(
            f"the snap length cut the headers of {overview.headers_cut} packets: use 128 or more"
        )
    if capture.truncated:
        report.notes.append("the last record is incomplete and was left out")
    if overview.cut:
        report.notes.append(
            f"{overview.cut} packets were cut by the snap length: ICRC and content not checked"
        )
    locks = Locks(options, report)
    channels = _channels(overview, locks, options, report)
    dynamic = DynamicConnections(locks, options, report)
    opcodes = options.opcodes
    sent: Counter[bytes] = Counter()
    flows = TraitsOfFlows()
    for record in capture:
        if not overview.usable[record.number]:
            continue
        frame = parse(record, opcodes, options.ports)
        frame.sent, frame.receiver_sent = sent[frame.src], sent[frame.dst]
        sent[frame.src] += 1
        if options.traits and options.judges(frame.src):
            flows.on_packet(frame)
        if frame.info.service in SERVICES:
            dynamic.on_packet(frame)
            continue
        channel = channels.get((survey.flow_key(frame), frame.info.is_request))
        if channel is None:
            continue
        if frame.info.is_request:
            channel.on_request(frame)
        else:
            channel.on_response(frame)
    for (_, is_request), channel in channels.items():
        if is_request:
            channel.finish(overview.last_ns)
    counters = dynamic.counters() if options.dynamic_connections else {}
    of_locks = locks.counters() if options.locks else {}
    report.violations.sort()
    connections = _connections(overview, channels)
    return Verdict(
        path, report, overview, capture.truncated, connections, counters, of_locks, flows.rows()
    )


def _channels(overview, locks, options, report) -> dict[tuple[survey.FlowKey, bool], Channel]:
    channels: dict[tuple[survey.FlowKey, bool], Channel] = {}
    for key, flow in overview.flows.items():
        if not flow.requests:
            continue
        other = overview.answers.get(key)
        flows = [flow] if other is None else [flow, overview.flows[other]]
        clear = key not in overview.unclear
        pmtu = survey.path_mtu(flows, options)
        line = locks.line(in_session=False) if key[2] == RC else None
        channel = Channel(key[2], pmtu, other is not None, clear, line, options, report)
        channels[key, True] = channel
        if other is not None:
            channels[other, False] = channel
    return channels


def _connections(overview, channels) -> list[dict]:
    """For the JSON output: each flow of requests, and what was seen of it."""
    rows = []
    for (key, is_request), channel in channels.items():
        if not is_request:
            continue
        other = overview.answers.get(key)
        rows.append(
            {
                "requester": address(key[0]),
                "responder": address(key[1]),
                "service": "UC" if key[2] == UC else "RC",
                "responder_qpn": key[3],
                "requester_qpn": other[3] if other else None,
                "path_mtu": channel.pmtu,
                "requests": overview.flows[key].requests,
                "responses": overview.flows[other].responses if other else 0,
                "retransmissions": channel.requester.retransmissions,
                "naks": channel.responder.naks,
            }
        )
    return rows
