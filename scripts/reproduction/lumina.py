# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Lumina (Yu et al., "Understanding the Micro-Behaviors of Hardware Offloaded Network Stacks with
Lumina", SIGCOMM 2023): one packet of a message is lost; who notices, who asks, what comes again."""

import math
import sys

from reproduction import charts, pages
from reproduction.simulator import ROOT, scenario

sys.path.insert(0, str(ROOT / 'tests/judge'))

from judge.capture import Capture  # noqa: E402

SCENARIOS = ('lumina',)

# Opcodes of packets with data, and where the direction of these is impaired.
DATA = {'write': (0x06, 0x0b), 'read': (0x0d, 0x10)}
IMPAIRED = {'write': (1, 'tx'), 'read': (0, 'rx')}
RECOVERIES = ('go-back-n', 'selective')
READ_REQUEST = 0x0c
ACKNOWLEDGE = 0x11
SELECTIVE_ACKNOWLEDGE = 0xd5
NAK_SYNDROME = 0x60
PSN_MASK = (1 << 24) - 1


def document_of(operation, recovery, lost):
    """With the packet of that number lost, the first being 1; none for 0."""
    document = scenario('lumina')
    flow = document['flows'][0]
    flow['operation'] = operation
    flow['recovery'] = {'algorithm': recovery}
    if lost:
        link, direction = IMPAIRED[operation]
        first, last = DATA[operation]
        document['links'][link]['faults'] = (
            f'{direction}.drop_opcode={first:#04x}-{last:#04x}+{lost - 1}*1')
    return document


class Packet:
    """What of a captured packet matters here."""

    def __init__(self, record, bth):
        data = record.data
        self.time_ns = record.time_ns
        self.out = record.direction == 'out'
        self.opcode = data[bth]
        self.psn = int.from_bytes(data[bth + 9:bth + 12], 'big')
        self.nak = (self.opcode == ACKNOWLEDGE and data[bth + 12] & 0x60 == NAK_SYNDROME)


def packets(path):
    """The RoCEv2 packets of a capture of ours: Ethernet, IPv4 without options, UDP."""
    found = []
    for record in Capture(str(path)):
        data = record.data
        if data[12:14] == b'\x08\x00' and data[23] == 17 and data[36:38] == b'\x12\xb7':
            found.append(Packet(record, 42))
    return found


def ahead(psn, of):
    """By how much a PSN is after another; negative if it is before."""
    return ((psn - of + (1 << 23)) & PSN_MASK) - (1 << 23)


def examine(run, operation, lost):
    """The story of one loss from the captures at both ends."""
    first, last = DATA[operation]
    sender, receiver = ('requester', 'responder') if operation == 'write' else (
        'responder', 'requester')
    at_sender, at_receiver = packets(run.capture(sender)), packets(run.capture(receiver))

    def data_of(found, out):
        return [one for one in found if first <= one.opcode <= last and one.out == out]

    sent, arrived = data_of(at_sender, True), data_of(at_receiver, False)
    base, start_ns = sent[0].psn, min(packet.time_ns for packet in at_sender + at_receiver)
    story = {'latency_us': round(run.flow('message')['latency_avg_us'], 2), 'sent': len(sent),
             'trace': [[round((one.time_ns - start_ns) / 1e3, 2), ahead(one.psn, base)]
                       for one in sent]}
    if not lost:
        return story
    psn = (base + lost - 1) & PSN_MASK
    tries = [one for one in sent if one.psn == psn]
    story['retransmission_us'] = round((tries[1].time_ns - tries[0].time_ns) / 1e3, 2)
    gap = next((one for one in arrived if ahead(one.psn, psn) > 0), None)
    asks = _asks(at_receiver, operation, gap)
    heard = [one for one in at_sender if not one.out and _is_ask(one, operation)]
    heard = [one for one in heard if tries[0].time_ns < one.time_ns <= tries[1].time_ns]
    # A request that a timer has sent is none that the gap has sent.
    in_time = tries[1].time_ns - tries[0].time_ns < timeout_ns()
    story['trigger'] = 'gap' if gap and asks and heard and in_time else 'timeout'
    if story['trigger'] == 'gap':
        story['generation_us'] = round((asks[0].time_ns - gap.time_ns) / 1e3, 2)
        story['reaction_us'] = round((tries[1].time_ns - heard[-1].time_ns) / 1e3, 2)
        story['asked'] = [round((heard[-1].time_ns - start_ns) / 1e3, 2), lost - 1]
    return story


def _is_ask(packet, operation):
    """Whether a packet says that something is missing: a READ request is sent a second time."""
    if operation == 'read':
        return packet.opcode == READ_REQUEST
    return packet.nak or packet.opcode == SELECTIVE_ACKNOWLEDGE


def _asks(found, operation, gap):
    return [one for one in found if one.out and _is_ask(one, operation)
            and gap is not None and one.time_ns >= gap.time_ns]


def timeout_ns():
    return 4096 << scenario('lumina')['flows'][0]['timeout']


def count_of_packets():
    flow = scenario('lumina')['flows'][0]
    return math.ceil(flow['size'] / flow['path_mtu'])


def measure(simulator, quick):
    count = count_of_packets()
    places = (1, count // 2, count) if quick else (1, 2, 10, 25, count // 2, 75, 90, count - 2,
                                                   count - 1, count)
    simulator.expect(2 * len(RECOVERIES) * (len(places) + 1))
    figures = {'packets': count, 'ways': {}}
    for operation in DATA:
        for recovery in RECOVERIES:
            lines = []
            for lost in (0, *places):
                lines.append({'lost': lost, **simulator.run(
                    document_of(operation, recovery, lost),
                    f'{operation.upper()}, {recovery}, packet {lost or "none"} lost', captures=True,
                    use=lambda run: examine(run, operation, lost))})
                if lost != count // 2:
                    del lines[-1]['trace']
            figures['ways'][f'{operation.upper()}, {recovery}'] = lines
    return figures


def results(figures):
    rows = [['operation', 'recovery', 'lost packet', 'noticed by', 'sent in all', 'generation',
             'reaction', 'retransmission after', 'completed after']]
    for way, lines in figures['ways'].items():
        operation, recovery = way.split(', ')
        for line in lines:
            gap = line.get('trigger') == 'gap'
            rows.append([operation, recovery, line['lost'] or 'none', line.get('trigger', ''),
                         line['sent'], f'{line["generation_us"]:.2f} us' if gap else '',
                         f'{line["reaction_us"]:.2f} us' if gap else '',
                         _duration(line.get('retransmission_us')), _duration(line['latency_us'])])
    return pages.table(rows)


def _duration(us):
    if us is None:
        return ''
    return f'{us:.2f} us' if us < 1000 else f'{us / 1000:.2f} ms'


def draw(plots, figures):
    figure, axes = plots.subplots(2, 2, figsize=(11, 7), layout='constrained')
    colours = charts.COLOURS
    trend = axes[0][0]
    trend.set_title(charts.TREND + ': retransmission after a loss')
    trend.bar(range(4), [1, 1.2, 2, 3], color=[colours[name] for name in
                                              ('good', 'good', 'middle', 'bad')],
              hatch='//', edgecolor='white')
    trend.set_xticks(range(4), ['recent NICs,\nWRITE', 'recent NICs,\nREAD', 'an older NIC',
                                'one NIC, READ:\nas a timeout'])
    trend.set_yticks([])
    ours = axes[0][1]
    styles = {'WRITE': '-', 'READ': '--'}
    for way, lines in figures['ways'].items():
        operation, recovery = way.split(', ')
        lost = [line for line in lines if line['lost']]
        ours.plot([line['lost'] for line in lost], [line['latency_us'] for line in lost],
                  styles[operation], marker='o', markersize=3, label=way,
                  color=colours['bad' if recovery == 'go-back-n' else 'good'])
    ours.set_yscale('log')
    ours.set_xlabel(f'which of {figures["packets"]} packets is lost')
    ours.set_title('ours: completion, us')
    ours.legend(frameon=False)
    for one, operation in zip(axes[1], ('WRITE', 'READ')):
        for recovery, colour, size in (('go-back-n', 'bad', 9), ('selective', 'good', 3)):
            line = next(line for line in figures['ways'][f'{operation}, {recovery}']
                        if 'trace' in line)
            one.scatter(*zip(*line['trace']), s=size, color=colours[colour], label=recovery)
            if 'asked' in line:
                one.scatter(*line['asked'], marker='x', color='black', s=30,
                            label='it is asked for' if recovery == 'go-back-n' else None)
        one.set_xlabel('us')
        one.set_ylabel('packet')
        one.set_title(f'ours: data packets sent, {operation}')
        one.legend(frameon=False)
    return figure
