# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The language of manual pages: man(7), as far as groff and mandoc both have it."""

import re

# Behind this column a line of code is continued in the source, where that shows nothing.
_SOURCE_WIDTH = 76
# A word that is longer than a line may be broken behind its commas.
_LONG_WORD = 30


def escape(text):
    """Text as it is: nothing in it is taken for an instruction."""
    text = text.replace('\\', '\\e')
    text = text.replace('`', '\\(ga').replace('^', '\\(ha').replace('~', '\\(ti')
    return re.sub(r'[^\x00-\x7f]', lambda found: f'\\[u{ord(found[0]):04X}]', text)


def literal(text):
    """Code: minus signs and quotes can be copied into a shell."""
    return escape(text).replace('-', '\\-').replace("'", '\\(aq').replace('"', '\\(dq')


def bold(text):
    return f'\\fB{literal(text)}\\fR'


def italic(text):
    return f'\\fI{literal(text)}\\fR'


def line(text):
    """A line of its own: what it begins with is no request."""
    return '\\&' + text if text.startswith(('.', "'")) else text


def _breakable(word):
    # Elsewhere a hyphen would get into it.
    return '\\%' + re.sub(r',(?=.)', r',\\:', word) if len(word) > _LONG_WORD else word


def filled(text):
    """A paragraph in short lines of source; each sentence begins a new one."""
    lines = []
    for sentence in re.split(r'(?<=[.:;!?])(?<!\be\.g\.)(?<!\bi\.e\.)\s+(?=\S)', text.strip()):
        current = ''
        for word in map(_breakable, sentence.split()):
            if current and len(current) + 1 + len(word) > _SOURCE_WIDTH:
                lines.append(line(current))
                current = word
            else:
                current = f'{current} {word}'.strip()
        lines.append(line(current))
    return lines


def _continued(row):
    """A long line of code as lines that are one when shown; no escape sequence is cut."""
    parts = ['']
    for token in re.findall(r'\\\(..|\\\[[^\]]*\]|\\.|.', row):
        if len(parts[-1]) + len(token) > _SOURCE_WIDTH:
            parts[-1] += '\\'
            parts.append('')
        parts[-1] += token
    return parts


def code(text):
    """Lines that stay as they are."""
    result = ['.PP', '.RS 4', '.nf']
    for row in text.splitlines():
        result += _continued(line(literal(row.rstrip())))
    return [*result, '.fi', '.RE']


def section(title):
    return [f'.SH "{literal(title.upper())}"']


def subsection(title):
    return [f'.SS "{literal(title)}"']
