# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""C++ as text in which statements can be found: no more of the language than that takes."""

import re

# Comments, texts, and lines of the preprocessor with those that continue them.
HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'|(?:^|(?<=\n))[ \t]*#(?:\\\n|[^\n])*", re.DOTALL)
CONTROL = re.compile(r'\b(if|for|while|do|else)\b')
KEYWORD = re.compile(r'\w+')
SPACE = re.compile(r'\s*')
ATTRIBUTES = re.compile(r'(?:\s*\[\[[^\]]*\]\])*')
OPENING, CLOSING = '([{', ')]}'


class SyntaxUnknown(Exception):
    """Something that this module cannot follow; what has it stays as it is."""


def visible(text):
    """The text with blanks in place of all that is no code, so that places stay the same."""
    def hide(match):
        hidden = re.sub(r'[^\n]', ' ', match.group())
        # A text is an operand.
        return hidden if match.group().lstrip()[:1] in '/#' else '_' + hidden[1:]

    return HIDDEN.sub(hide, text)


def skip_space(code, at):
    return SPACE.match(code, at).end()


def closing(code, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(code)):
        if code[place] in OPENING:
            depth += 1
        elif code[place] in CLOSING:
            depth -= 1
            if depth == 0:
                return place + 1
    raise SyntaxUnknown


def keyword(code, at):
    """The word that begins at `at`; empty if none does."""
    match = KEYWORD.match(code, at)
    return match.group() if match else ''


def behind_condition(code, at):
    """Where the body begins of the `if`, `for` or `while` at `at`, and where its brackets end."""
    place = skip_space(code, at + len(keyword(code, at)))
    if keyword(code, place) == 'constexpr':
        place = skip_space(code, place + len('constexpr'))
    if place >= len(code) or code[place] != '(':
        raise SyntaxUnknown
    end = closing(code, place)
    return skip_space(code, ATTRIBUTES.match(code, end).end()), end


def behind_statement(code, at):
    """Behind the statement that begins at `at`."""
    word = keyword(code, at)
    if code.startswith('{', at):
        return closing(code, at)
    if word in ('for', 'while', 'switch'):
        return behind_statement(code, behind_condition(code, at)[0])
    if word == 'if':
        end = behind_statement(code, behind_condition(code, at)[0])
        next_word = skip_space(code, end)
        if keyword(code, next_word) != 'else':
            return end
        return behind_statement(code, skip_space(code, next_word + len('else')))
    if word == 'do':
        end = behind_statement(code, skip_space(code, at + len('do')))
        return code.index(';', end) + 1
    if word in ('case', 'default', 'try', 'else', ''):
        if word or code[at] in CLOSING or code[at] == ';':
            raise SyntaxUnknown
    place = at
    while place < len(code):
        if code[place] in OPENING:
            place = closing(code, place)
        elif code[place] == ';':
            return place + 1
        elif code[place] in CLOSING:
            break
        else:
            place += 1
    raise SyntaxUnknown
