# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What was found, as a page for people, as JSON, and as a personality of the peer."""

import dataclasses
import json

from .judging import knobs

# Counters of ours that are not to move where nothing is lost on purpose.
QUIET = {
    'drop_bad_icrc': 'packets of the peer have a wrong ICRC, or something on the way changes them',
    'drop_malformed': 'packets of the peer do not parse',
    'local_ack_timeout_err': 'the peer has not answered in time',
    'retry_exceeded_err': 'the peer has not answered at all',
    'roce_v1': 'the peer sends RoCE version 1: another GID is to be taken',
}


@dataclasses.dataclass
class Result:
    step: object
    good: bool = False
    words: str = ''
    judgement: object = None
    counters: dict = dataclasses.field(default_factory=dict)
    theirs: dict = dataclasses.field(default_factory=dict)  # by how much the peer's have moved
    first_findings: list = dataclasses.field(default_factory=list)  # of a first try, where this is the second


def findings(result, peer):
    """[(finding, explanation or '')] of a step."""
    step, judged = result.step, result.judgement
    known = peer.known(step)
    found = [(text, 'only when it was tried first') for text in result.first_findings]
    if not result.good:
        found.append((f'it failed: {result.words}', ''))
    for name, meaning in QUIET.items():
        if result.counters.get(name) and not step.faults:
            found.append((f'our counter {name} is {result.counters[name]}: {meaning}', ''))
    if judged is None:
        return found
    if judged.problem:
        found.append((f'the capture cannot be judged: {judged.problem}', ''))
    for rule, count in sorted(judged.ours.items()):
        found.append((f'this end broke the rule {rule}, {count} times: {judged.examples["ours", rule]}', ''))
    for rule, count in sorted(judged.theirs.items()):
        found.append((f'the peer broke the rule {rule}, {count} times: {judged.examples["theirs", rule]}',
                      known.get(rule, '')))
    if step.program == 'rh-perf' and step.we_ask and judged.packets and not judged.ack_requests:
        found.append(('no request of this end asks for an acknowledgement', ''))
    if step.name == 'marked-write':
        handled = result.counters.get('rp_cnp_handled', 0)
        if judged.cnps and not handled:
            found.append((f'{judged.cnps} CNPs came, and this end obeyed none', ''))
        if not judged.cnps:
            found.append(('marked packets drew no CNP', known.get('no-cnp', '')))
    return found


def unexplained(result, peer):
    return [text for text, why in findings(result, peer) if not why]


def personality(results, name):
    """The file of what was measured."""
    found = knobs([result.judgement for result in results if result.judgement])
    return {'name': name, 'device': name,
            'knobs': {knob: {'value': value, 'source': f'measured by rh-lab: {why}'}
                      for knob, (value, why) in sorted(found.items())}}


def as_json(results, peer):
    return {'peer': peer.name, 'steps': [
        {'name': result.step.name, 'good': result.good, 'words': result.words,
         'findings': [{'finding': text, 'explained': why} for text, why in findings(result, peer)],
         'counters': result.counters, 'peer_counters': result.theirs}
        for result in results]}


def page(results, peer, command):
    unexplained_count = sum(len(unexplained(result, peer)) for result in results)
    lines = [f'# {peer.name}', '', f'`{command}`', '',
             f'{len(results)} steps, {sum(result.good for result in results)} went well; '
             f'{unexplained_count} findings are not explained.', '',
             '| step | what | result | packets | violations here | there |', '|---|---|---|---|---|---|']
    for result in results:
        judged = result.judgement
        counts = (judged.packets, sum(judged.ours.values()), sum(judged.theirs.values())) if judged else ('', '', '')
        lines.append(f'| {result.step.name} | {result.step.purpose} | {"good" if result.good else "**failed**"} | '
                     + ' | '.join(map(str, counts)) + ' |')
    lines += ['', '## Findings', '']
    for result in results:
        for text, why in findings(result, peer):
            lines.append(f'- {result.step.name}: {text}' + (f' (known: {why})' if why else ''))
    lines += ['' if lines[-1] else 'None.', '', '## What the peer is like', '', '| knob | measured | from |', '|---|---|---|']
    for knob, told in personality(results, peer.name)['knobs'].items():
        lines.append(f'| `{knob}` | {told["value"]} | {told["source"].partition(": ")[2]} |')
    moved = {name: 0 for result in results for name in result.theirs}
    if moved:
        lines += ['', '## Counters of the peer that moved', '', '| counter | by |', '|---|---|']
        for name in sorted(moved):
            lines.append(f'| `{name}` | {sum(result.theirs.get(name, 0) for result in results)} |')
    return '\n'.join(lines) + '\n', unexplained_count


def write(folder, results, peer, command):
    """Returns how many findings are not explained."""
    text, count = page(results, peer, command)
    (folder / 'report.md').write_text(text, encoding='utf-8')
    (folder / 'report.json').write_text(json.dumps(as_json(results, peer), indent=2) + '\n', encoding='utf-8')
    (folder / 'personality.json').write_text(json.dumps(personality(results, peer.name), indent=2) + '\n', encoding='utf-8')
    return count
