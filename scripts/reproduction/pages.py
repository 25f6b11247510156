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
        rows = [('setting', 'value')]
        for member, value in document.items():
            if isinstance(value, list):
                rows += [(f'`{member}[{number}]`', ', '.join(_leaves(item)))
                         for number, item in enumerate(value)]
            else:
                rows.append((f'`{member}`', ', '.join(_leaves(value))))
        blocks.append(f'`apps/rh_sim/scenarios/reproduce/{name}.json`:\n\n{table(rows)}')
    return '\n\n'.join(blocks)


def _leaves(value, path=''):
    """'member value' of each member of a document, those of objects in it by their whole names."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _leaves(member, f'{path}.{name}' if path else name)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f'{path}[{number}]')
    else:
        yield f'{path} {value}' if path else str(value)


def table(rows):
    """The first row is the head."""
    head, *others = [[str(cell) for cell in row] for row in rows]
    lines = [head, ['---'] * len(head), *others]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def _place(text, kind):
    """Where the content between the comments of a kind begins and ends; None if there are none."""
    begin = f'<!-- {kind}: made by scripts/reproduce -->\n'
    first = text.find(begin)
    last = text.find(f'<!-- end of {kind} -->')
    return None if first < 0 or last < first else (first + len(begin), last)


def block(text, kind):
    """What a page has between the comments of a kind; None if it has none."""
    place = _place(text, kind)
    return None if place is None else text[place[0]:place[1]].strip()


def with_block(text, kind, content):
    """The page with another content between the comments."""
    place = _place(text, kind)
    if place is None:
        raise ValueError(f'the page has no place for {kind}')
    return f'{text[:place[0]]}{content}\n{text[place[1]:]}'


def update(path, experiment, figures):
    """Puts settings and results into the page, if there is one."""
    if not path.exists():
        return
    text = path.read_text()
    text = with_block(text, 'settings', settings(experiment.SCENARIOS))
    text = with_block(text, 'results', experiment.results(figures))
    path.write_text(text)
