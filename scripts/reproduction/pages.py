# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The parts of a page that are made: settings as the scenario files have them, results as a run
found them. They stand between two comments each; everything else is written by hand."""

import json

from reproduction.simulator import SCENARIOS


def settings(names):
    """Tables of all members of scenario files."""
    blocks = []
    for name in names:
        document = json.loads((SCENARIOS / f'{name}.json').read_text())
        rows = [f'| `{path}` | {value} |' for path, value in _leaves(document, '')]
        blocks.append('\n'.join([f'`apps/rh_sim/scenarios/reproduce/{name}.json`:', '',
                                 '| setting | value |', '|---|---|', *rows]))
    return '\n\n'.join(blocks)


def _leaves(value, path):
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _leaves(member, f'{path}.{name}' if path else name)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f'{path}[{number}]')
    else:
        yield path, value


def table(rows):
    """The first row is the head."""
    head, *others = [[str(cell) for cell in row] for row in rows]
    lines = [head, ['---'] * len(head), *others]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def block(text, kind):
    """What a page has between the comments of a kind; None if it has none."""
    begin, end = f'<!-- {kind}: made by scripts/reproduce -->\n', f'\n<!-- end of {kind} -->'
    first, last = text.find(begin), text.find(end)
    return None if first < 0 or last < first else text[first + len(begin):last]


def with_block(text, kind, content):
    """The page with another content between the comments."""
    old = block(text, kind)
    if old is None:
        raise ValueError(f'the page has no place for {kind}')
    begin = text.index(f'<!-- {kind}: made by scripts/reproduce -->\n')
    return text[:begin] + text[begin:].replace(old, content, 1)


def update(path, experiment, figures):
    """Puts settings and results into the page, if there is one."""
    if not path.exists():
        return
    text = path.read_text()
    text = with_block(text, 'settings', settings(experiment.SCENARIOS))
    text = with_block(text, 'results', experiment.results(figures))
    path.write_text(text)
