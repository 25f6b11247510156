# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""All rules of this package, on a text."""

from style import braces, spelling


def violations(text):
    """(line, what is wrong) of a file."""
    for line in braces.edits(text).lines:
        yield line, 'braces'
    for place, what in spelling.misspelt(text):
        yield text.count('\n', 0, place) + 1, what


def mended(text):
    """The text as the rules want it, but for its layout: that is clang-format's."""
    text = spelling.zeroed(spelling.casts(spelling.constants(text)))
    return braces.edits(text).applied()
