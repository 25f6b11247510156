# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Carries tests/mutations/table.json along when the sources are mended: its patches are lines of them."""

import json
import re

WIDTH = 100
PATCH = re.compile(r'\{\s*"file": ')


def as_lines(value):
    lines = [value] if isinstance(value, str) else value
    return [line.strip() for line in lines] if lines != [''] else []


def places(lines, find):
    return [at for at in range(len(lines) - len(find) + 1) if lines[at:at + len(find)] == find]


def applied(patch, text):
    """The file's text with the patch; None if it has not one place there."""
    lines, find = text.split('\n'), as_lines(patch['find'])
    found = places([line.strip() for line in lines], find)
    if len(found) != 1:
        return None
    return '\n'.join([*lines[:found[0]], *as_lines(patch['put']), *lines[found[0] + len(find):]])


def same_code(one, other):
    """Whether two texts differ in their layout at most."""
    return ''.join(one.split()) == ''.join(other.split())


def difference(old, new):
    """(find, put): the lines in which two texts differ, with as many around as make them unique."""
    old, new = ([line.strip() for line in text.split('\n')] for text in (old, new))
    begin = 0
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        begin += 1
    behind = 0
    while behind < min(len(old), len(new)) - begin and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    end = len(old) - behind
    while begin == end or len(places(old, old[begin:end])) != 1 or not any(old[begin:end]):
        if end < len(old):
            end, behind = end + 1, behind - 1
        else:
            begin -= 1
    return old[begin:end], new[begin:len(new) - behind]


def rendered(key, lines, indent):
    """A member of a patch, on one line if it fits there."""
    value = lines[0] if len(lines) == 1 else lines or ''
    line = f'{" " * indent}"{key}": {json.dumps(value, ensure_ascii=False)}'
    if isinstance(value, str) or len(line) < WIDTH and len(lines) < 3:
        return line
    inner = ',\n'.join(f'{" " * (indent + 2)}{json.dumps(each, ensure_ascii=False)}' for each in lines)
    return f'{" " * indent}"{key}": [\n{inner}\n{" " * indent}]'


def carried(table, old, mend):
    """The table's text for sources that have been mended.

    `old` are their texts before, by path; `mend(path, text)` does with a text what was done to them.
    """
    decoder, at, parts = json.JSONDecoder(), 0, []
    for match in PATCH.finditer(table):
        start = match.start()
        patch, end = decoder.raw_decode(table, start)
        text = old.get(patch['file'])
        without = applied(patch, text) if text is not None else None
        if without is None:
            continue
        mended, wanted = mend(patch['file'], text), mend(patch['file'], without)
        found = applied(patch, mended)
        if found is not None and same_code(mend(patch['file'], found), wanted):
            continue
        find, put = difference(mended, wanted)
        indent = start - table.rfind('\n', 0, start) - 1
        members = [f'{" " * (indent + 2)}"file": {json.dumps(patch["file"])}',
                   rendered('find', find, indent + 2), rendered('put', put, indent + 2)]
        parts += [table[at:start], '{\n' + ',\n'.join(members) + f'\n{" " * indent}}}']
        at = end
    return ''.join([*parts, table[at:]])
