# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The project's pages of Markdown, and what they lead to."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from layers import ROOT, project_files, read_text  # noqa: E402 (needs the path above)

FENCE = re.compile(r'^```.*?^```', re.MULTILINE | re.DOTALL)
CODE = re.compile(r'`([^`\n]+)`')
LINK = re.compile(r'!?\[(?:[^][]|\[[^][]*\])*\]\(([^)\s]+)\)')
HEADING = re.compile(r'^#+ (.+)$', re.MULTILINE)
ANCHOR = re.compile(r'<a id="([\w-]+)">')


def tree():
    """{path from the root: text} of all files; None for what is no text."""
    return {path.relative_to(ROOT).as_posix(): read_text(path) for path in project_files()}


def prose(text):
    """A page without its blocks of code."""
    return FENCE.sub('', text)


def links(text):
    """The targets of a page's links and images that are not elsewhere in the world."""
    return [target for target in LINK.findall(CODE.sub('`', prose(text)))
            if not re.match(r'[a-z]+:', target)]


def anchors(text):
    """What a link can lead to within a page, as GitHub makes it."""
    titles = [re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', title) for title in HEADING.findall(prose(text))]
    return set(ANCHOR.findall(text)) | {
        re.sub(r'[^\w -]', '', title.lower()).replace(' ', '-') for title in titles}


def resolve(page, target):
    """The path from the root that a link on a page leads to; None if it leads out of the tree."""
    path = pathlib.PurePosixPath(page).parent / target
    parts = []
    for part in path.parts:
        if part == '..':
            if not parts:
                return None
            parts.pop()
        elif part != '.':
            parts.append(part)
    return '/'.join(parts)
