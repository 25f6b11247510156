# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""One spelling for constants, kTimeoutNs, one for a result that is not used, (void)f(), and one for a
zeroed local `struct` of C, because versions of clang-format lay out its braces differently."""

import re

from style import code as cpp

CONSTANT = re.compile(r'\bk[A-Z][A-Za-z0-9]*(?:_[a-z0-9]+)+\b')
VOID = re.compile(r'\bstatic_cast<void>\(')
ZEROED = re.compile(r'\b(struct \w+ (?!final\b)\w+) ?\{\};')
# What a cast takes without brackets around it: a name, members of it, calls.
OPERAND = re.compile(r'[\w:.]+(?:->[\w:.]+)*(?:\(|$)')


def misspelt(text):
    """(place, what is wrong) in a text."""
    yield from ((match.start(), match.group()) for match in CONSTANT.finditer(text))
    yield from ((match.start(), 'static_cast<void>') for match in VOID.finditer(cpp.visible(text)))
    yield from ((match.start(), f'{match[1]} = {{}};') for match in ZEROED.finditer(cpp.visible(text)))


def constants(text):
    """kTimeout_ns as kTimeoutNs, wherever it stands."""
    return CONSTANT.sub(
        lambda match: ''.join(part if number == 0 else part[0].upper() + part[1:]
                              for number, part in enumerate(match.group().split('_'))), text)


def zeroed(text):
    """struct stat a {}; as struct stat a = {};"""
    return ZEROED.sub(r'\1 = {};', text)


def is_operand(code):
    """Whether a cast in front of the expression takes all of it."""
    match = OPERAND.match(code)
    while match:
        at = match.end()
        if not code[:at].endswith('('):
            return at == len(code)
        at = cpp.closing(code, at - 1)
        if at == len(code):
            return True
        match = re.compile(r'(?:\.|->)[\w:.]+(?:->[\w:.]+)*(?:\(|$)').match(code, at)
    return False


def casts(text):
    """static_cast<void>(x) as (void)x."""
    code = cpp.visible(text)
    parts, at = [], 0
    for match in VOID.finditer(code):
        if match.start() < at:
            continue
        end = cpp.closing(code, match.end() - 1)
        inside = slice(match.end(), end - 1)
        bare = is_operand(code[inside].strip())
        parts += [text[at:match.start()], '(void)',
                  text[inside].strip() if bare else f'({text[inside]})']
        at = end
    return ''.join([*parts, text[at:]])
