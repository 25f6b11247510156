# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Reads the documents of the project: as much of Markdown as they use."""

import dataclasses
import re

from manuals import roff


@dataclasses.dataclass
class Block:
    """A heading, a paragraph, an item of a list, code, or a table."""
    kind: str  # 'heading', 'paragraph', 'item', 'code', 'table'
    text: str = ''
    level: int = 0
    rows: list = dataclasses.field(default_factory=list)  # of a table; the first is its head


def _cells(row):
    return [cell.strip().replace('\\|', '|') for cell in re.split(r'(?<!\\)\|', row.strip()[1:-1])]


def read(text):
    """The blocks of a document."""
    blocks, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        row = lines[at]
        at += 1
        if not row.strip() or row.lstrip().startswith('!['):
            continue
        if row.startswith('```'):
            body = []
            while at < len(lines) and not lines[at].startswith('```'):
                body.append(lines[at])
                at += 1
            at += 1
            blocks.append(Block('code', '\n'.join(body)))
        elif heading := re.match(r'(#+) (.*)', row):
            blocks.append(Block('heading', heading[2], len(heading[1])))
        elif row.startswith('|'):
            rows = [_cells(row)]
            while at < len(lines) and lines[at].startswith('|'):
                rows.append(_cells(lines[at]))
                at += 1
            del rows[1:2]  # the line of dashes
            blocks.append(Block('table', rows=rows))
        else:
            item = re.match(r'(?:[-*]|\d+\.) +(.*)', row)
            body = [item[1] if item else row]
            while at < len(lines) and lines[at].strip() and not re.match(
                    r'```|#|\||(?:[-*]|\d+\.) ', lines[at]):
                body.append(lines[at].strip())
                at += 1
            blocks.append(Block('item' if item else 'paragraph', ' '.join(body)))
    return blocks


def inline(text):
    """Text of a paragraph or a cell in roff."""
    text = re.sub(r'<a id=[^>]*></a>', '', text)
    text = re.sub(r'\[((?:`[^`]*`|[^\[\]`])*)\]\((\S+?)\)', _link, text)
    parts = re.split(r'(``.+?``|`[^`]+`|\*\*.+?\*\*|(?<![\w*])\*[^*\s][^*]*\*(?![\w*]))', text)
    result = ''
    for part in parts:
        if part.startswith('`'):
            result += roff.bold(part.strip('`'))
        elif part.startswith('**'):
            result += roff.bold(plain(part[2:-2]))
        elif len(part) > 2 and part.startswith('*'):
            result += roff.italic(part[1:-1])
        else:
            result += roff.escape(part)
    return result


def plain(text):
    """Text without any marks, for headings."""
    text = re.sub(r'<a id=[^>]*></a>', '', text)
    text = re.sub(r'\[([^\]]*)\]\((\S+?)\)', r'\1', text)
    return text.replace('`', '').replace('**', '')


def _link(found):
    text, target = found[1], found[2]
    return f'{text} ({target})' if target.startswith('http') else text
