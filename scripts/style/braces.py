# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""One rule for braces: an `if` without `else` whose one statement fits on its line has none, all
else has: `if (x) return y;`.

A statement with a block, a declaration, a comment, a macro, or behind an attribute as [[likely]]
keeps its braces, as does whatever this module cannot follow.
"""

import re

from style import code as cpp

COLUMNS = 100
DECLARATION = re.compile(
    r'(?:const|auto|static|using|typename|constexpr|volatile|struct|class)\b'
    r'|(?!return\b|throw\b|delete\b|new\b|co_\w+\b|goto\b)[\w:<>,*&\s]*[\w>*&]\s+[*&]?\w+\s*[=({;\[]')
# Such as EXPECT_EQ(): an `else` in it would be ambiguous without braces around.
MACRO = re.compile(r'(?!ROCKHOPPER_TRY\b)[A-Z][A-Z0-9_]*\s*\(')
TRY_WITH_VARIABLE = re.compile(r'ROCKHOPPER_TRY\((?:[^(),]|\([^()]*\))*,')


class Edits:
    """What is to be put in or taken out of a text, by place."""

    def __init__(self, text):
        self._text = text
        self._edits = []  # (place, order, bytes taken out, what is put in)

    def put(self, place, words):
        self._edits.append((place, 1, 0, words))

    def take(self, begin, end):
        self._edits.append((begin, 0, end - begin, ''))

    @property
    def lines(self):
        """The lines, from 1 on, in which something changes."""
        return sorted({self._text.count('\n', 0, place) + 1 for place, *_ in self._edits})

    def applied(self):
        parts, at = [], 0
        for place, _, length, words in sorted(self._edits, key=lambda edit: edit[:2]):
            parts += [self._text[at:place], words]
            at = place + length
        return ''.join([*parts, self._text[at:]])


def flat(text):
    return ' '.join(text.split())


def is_simple(code, begin, end):
    """Whether the statement may stand behind an `if` on its line."""
    statement = code[begin:end]
    return (cpp.keyword(code, begin) not in ('if', 'for', 'while', 'do', 'switch', 'else')
            and not re.search(r'\{[^{}]*;', statement) and not DECLARATION.match(statement)
            and not MACRO.match(statement) and not TRY_WITH_VARIABLE.match(statement))


def column(text, at):
    """The column that `at` has, from 0 on, if only blanks are before it; else None."""
    begin = text.rfind('\n', 0, at) + 1
    return at - begin if not text[begin:at].strip() else None


def fits(text, at, head_end, begin, end):
    """Whether the `if` at `at` and its statement are one line. None: not to be told."""
    indent = column(text, at)
    if indent is None:
        return None
    return indent + len(f'{flat(text[at:head_end])} {flat(text[begin:end])}') <= COLUMNS


def add_braces(text, code, begin, end, edits):
    line_end = text.find('\n', end)
    line_end = len(text) if line_end < 0 else line_end
    behind = text[end:line_end]
    edits.put(begin, '{\n')
    # A comment behind the statement goes into the block with it.
    if behind.strip().startswith('//') and not code[end:line_end].strip():
        edits.put(line_end, '\n}')
    else:
        edits.put(end, '\n}')


def treat(text, code, at, edits):
    """What is to be done about the control statement at `at`."""
    word = cpp.keyword(code, at)
    is_else_if = False
    if word in ('do', 'else'):
        head_end = at + len(word)
        body = cpp.skip_space(code, head_end)
        if word == 'else' and cpp.keyword(code, body) == 'if':
            return
        has_attribute = False
    else:
        body, head_end = cpp.behind_condition(code, at)
        has_attribute = bool(code[head_end:body].strip())
        is_else_if = re.search(r'\belse\s*$', code[:at]) is not None
    if code.startswith(';', body):
        return  # nothing to do, or the end of do ... while
    end = cpp.behind_statement(code, body)
    has_else = word == 'if' and cpp.keyword(code, cpp.skip_space(code, end)) == 'else'
    may_be_bare = word == 'if' and not (has_else or is_else_if or has_attribute)
    if not code.startswith('{', body):
        keeps = may_be_bare and is_simple(code, body, end) and fits(
            text, at, head_end, body, end) is not False
        if not keeps:
            add_braces(text, code, body, end, edits)
        return
    first = cpp.skip_space(code, body + 1)
    if not may_be_bare or code.startswith('}', first):
        return
    last = cpp.behind_statement(code, first)
    # One statement, and nothing that blanks stand for in `code`.
    if cpp.skip_space(code, last) != end - 1 or text[body + 1:first].strip() or (
            text[last:end - 1].strip()) or text[at:end].find('//') >= 0:
        return
    if is_simple(code, first, last) and fits(text, at, head_end, first, last):
        edits.take(body, first)
        edits.take(last, end)


def edits(text):
    """What the rule changes in a file."""
    code = cpp.visible(text)
    found = Edits(text)
    for match in cpp.CONTROL.finditer(code):
        try:
            treat(text, code, match.start(), found)
        except (cpp.SyntaxUnknown, ValueError, IndexError):
            continue
    return found
