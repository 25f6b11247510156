# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What a capture says: violations of either end, and what the peer's packets have in common."""

import collections
import dataclasses
import ipaddress
import statistics

from judge.capture import Capture, CaptureError
from judge.checker import check
from judge.frame import parse
from judge.options import Options

# A program hands out so many packets at a time without looking at what comes in meanwhile.
QUEUED = 64
# What devices are known for, by rule; Soft-RoCE's is in docs/soft-roce.md.
KNOWN = {
    'rxe': {
        'no-cnp': 'Soft-RoCE has no congestion control',
        'retransmit-hole': 'Soft-RoCE leaves out what was not acknowledged yet after a NAK',
        'nak-repeated': 'Soft-RoCE sends a NAK again',
        'ack-backwards': 'Soft-RoCE acknowledges a duplicate by its own PSN',
        'retransmit-acknowledged': 'Soft-RoCE repeats what is acknowledged',
        'read-response-unrequested': 'Soft-RoCE answers what nobody has asked for again',
        'response-order': 'Soft-RoCE answers duplicates in between',
        'read-response-sequence': 'Soft-RoCE answers duplicates with the opcodes of the first time',
        'nak-not-followed': 'Soft-RoCE repeats from elsewhere',
    },
    'ionic': {'nak-repeated': 'each packet behind a gap draws the NAK again (knob nak_repeat)'},
    'ernic': {'nak-repeated': 'each packet behind a gap draws the NAK again (knob nak_repeat)'},
    'mlx5-cx6dx': {'opcode-defined': 'probes of the firmware (knob probe_every)'},
    'mlx5-cx7-sr': {
        'opcode-defined': 'probes of the firmware (knob probe_every)',
        'retransmit-hole': 'selective repeat (knob write_retry)',
        'nak-not-followed': 'selective repeat (knob write_retry)',
        'read-retry-range': 'parts of a READ (knob read_retry)',
        'retransmit-content': 'parts of a READ (knob read_retry)',
    },
}

# What stock programs are known for beside a program of ours, whatever their device is.
KNOWN_PROGRAMS = {
    'rh-pingpong': {
        'retransmit-content': 'ibv_rc_pingpong receives into the buffer that it sends from: what is sent again '
                              'may be our message',
    },
}


@dataclasses.dataclass
class Judgement:
    packets: int = 0
    ours: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    theirs: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    examples: dict = dataclasses.field(default_factory=dict)  # by (whose, rule)
    flows: list = dataclasses.field(default_factory=list)  # the peer's
    problem: str = ''
    cnps: int = 0  # to us
    ack_requests: int = 0  # in requests of ours
    nak_delays_us: list = dataclasses.field(default_factory=list)
    nak_repeated: int = 0
    credits: set = dataclasses.field(default_factory=set)  # codes of the peer's ACKs


def packed(addresses):
    return frozenset(ipaddress.ip_address(address).packed for address in addresses)


def judge(path, own, peer, lossy):
    """`lossy`: faults are between us and the capture."""
    result = Judgement()
    try:
        for whose, addresses, side in (('ours', own, 'near'), ('theirs', peer, 'far')):
            options = Options(endpoints=packed(addresses), lossy=side if lossy else 'none', traits=True,
                              queued=QUEUED)
            verdict = check(str(path), options)
            counted = getattr(result, whose)
            for violation in verdict.report.violations:
                counted[violation.rule] += 1
                result.examples.setdefault((whose, violation.rule), f'frame {violation.frame}: {violation.message}')
            if whose == 'theirs':
                result.flows = verdict.flows
        measure(path, packed(own), packed(peer), result)
    except (CaptureError, OSError) as error:
        result.problem = str(error)
    return result


def measure(path, own, peer, result):
    """What the rules do not ask for: delays, repetitions, credits."""
    gap_since, asked = {}, collections.Counter()
    expected = {}
    for record in Capture(str(path)):
        frame = parse(record)
        if frame is None or frame.defect or frame.info is None:
            continue
        result.packets += 1
        name = frame.info.name
        if frame.src in own and frame.info.is_request and name.startswith('RC_'):
            result.ack_requests += frame.ack_request
            due = expected.get(frame.dqpn)
            if due is not None and 0 < (frame.psn - due) & 0xFFFFFF < 0x800000:
                gap_since.setdefault((frame.dqpn, due), frame.time_ns)
            elif due is None or frame.psn == due:
                expected[frame.dqpn] = (frame.psn + 1) & 0xFFFFFF
        elif frame.src in peer and name == 'CNP':
            result.cnps += 1
        elif frame.src in peer and name == 'RC_ACKNOWLEDGE':
            syndrome, _ = frame.aeth()
            if syndrome >> 5 == 0:
                result.credits.add(syndrome & 0x1F)
            elif syndrome == 0x60:
                asked[frame.dqpn, frame.psn] += 1
                since = [time for (_, psn), time in gap_since.items() if psn == frame.psn]
                if since and asked[frame.dqpn, frame.psn] == 1:
                    result.nak_delays_us.append((frame.time_ns - since[0]) / 1000)
    result.nak_repeated = sum(count - 1 for count in asked.values())


def knobs(judgements):
    """{knob: (value, from what)} as far as the captures show them."""
    flows = [flow for one in judgements for flow in one.flows]
    rc = [flow for flow in flows if flow.get('service') == 'RC']
    cnps = [flow for flow in flows if flow.get('service') == 'CNP']
    found = {}

    def tell(knob, values, why):
        seen = set(values)
        if len(seen) == 1:
            found[knob] = (seen.pop(), why)

    packets = sum(int(flow.get('packets', 0)) for flow in rc)
    why = f'{packets} packets of {len(rc)} flows'
    tell('mig_req', ('yes' if flow.get('mig_req') == '1' else 'no' for flow in rc if 'mig_req' in flow), why)
    tell('ip_id', ('zero' if flow.get('ip_id') == '0' else 'counter' for flow in rc if 'ip_id' in flow), why)
    tell('ttl', (flow['ttl'] for flow in rc if flow.get('ttl', '').isdigit()), why)
    codes = set().union(*(one.credits for one in judgements)) if judgements else set()
    if codes:
        value = 'unlimited' if codes == {31} else 'count'
        if len(codes) == 1 and 31 not in codes:
            code = next(iter(codes))
            value = f'static:{code if code < 2 else (2 + code % 2) << (code // 2 - 1)}'
        found['credits'] = (value, f'{len(codes)} different credits in acknowledgements')
    delays = [delay for one in judgements for delay in one.nak_delays_us]
    if delays:
        found['nak_delay'] = (f'{max(1, round(statistics.median(delays)))}us',
                              f'median of {len(delays)}, from the packet behind the gap to the NAK, at our end')
        repeated = sum(one.nak_repeated for one in judgements)
        found['nak_repeat'] = ('yes' if repeated > len(delays) else 'no', f'{repeated} repetitions of {len(delays)} NAKs')
    if cnps:
        why = f'{sum(int(flow.get("packets", 0)) for flow in cnps)} CNPs'
        tell('cnp_dscp', (flow.get('dscp', '').split(' ')[0] for flow in cnps), why)
        tell('cnp_ttl', (flow['ttl'] for flow in cnps if flow.get('ttl', '').isdigit()), why)
        ports = {flow.get('source_port', '').split(' ')[0] for flow in cnps}
        if ports == {'0x0000'}:
            found['cnp_source_port'] = ('0', why)
    return found
