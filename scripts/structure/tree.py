# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the sources say of the structure: rooms, floors, interfaces.

A room is a folder with C++ files in it. A floor is a group of rooms: a folder of the root, or one of
apps/, of which all programs are a floor together. Each floor stands on those that it includes.
"""

import dataclasses
import pathlib
import re

TOPS = ('stack', 'roce', 'dc', 'apps')
PROGRAMS = 'apps/rh_*'
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)/[^"/]+"', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*')
CLASS = re.compile(
    r'^(?P<indent> *)(?:class|struct) (?:alignas\(\w+\) )?(?P<name>\w+)(?: final)?\s*'
    r'(?::\s*(?P<bases>[^{;]+?))?\s*\{', re.MULTILINE)
PURE = re.compile(r'\)[\w\s]*= 0;')
ACCESS = re.compile(r'^(?:public|private|protected)\s+')
# What stands in Markdown for its looks alone.
MARKUP = re.compile(r'\[([^]]*)\]\([^)]*\)|`')


class StructureError(Exception):
    """The sources are not as a picture could show them: a line that says why."""


@dataclasses.dataclass(frozen=True)
class Interface:
    """A class with pure virtual functions, and who implements it."""
    name: str
    header: str
    implemented_by: tuple  # of (class, file)


def read(root):
    """{path from the root: text} of the C++ files and READMEs."""
    return {path.relative_to(root).as_posix(): path.read_text(encoding='utf-8')
            for top in TOPS for path in sorted((root / top).rglob('*'))
            if path.suffix in ('.h', '.cc') or path.name == 'README.md'}


def room_of(path):
    return pathlib.PurePosixPath(path).parent.as_posix()


def floor_of(room):
    first, *rest = room.split('/')
    if first != 'apps' or not rest:
        return first
    return PROGRAMS if rest[0].startswith('rh_') else f'apps/{rest[0]}'


def rooms(files):
    """{room: the rooms that it includes, itself not}"""
    found = {}
    for path, text in files.items():
        if not path.endswith('.md') and path.count('/') > 0:
            found.setdefault(room_of(path), set()).update(INCLUDE.findall(text))
    found.pop('apps', None)  # what is precompiled for all of them
    return {room: sorted((included & found.keys()) - {room})
            for room, included in sorted(found.items())}


def floors(files):
    """[[(floor, its rooms)]]: the floors by height, the lowest first; none stands on one beside it.
    StructureError if floors stand on each other."""
    on = {}
    for room, included in rooms(files).items():
        floor = floor_of(room)
        on.setdefault(floor, set()).update({floor_of(one) for one in included} - {floor})
    heights, placed = [], set()
    while len(placed) < len(on):
        ready = sorted(floor for floor, below in on.items()
                       if floor not in placed and below <= placed)
        if not ready:
            circle = ', '.join(sorted(set(on) - placed))
            raise StructureError(f'floors stand on each other: {circle}')
        heights.append(ready)
        placed.update(ready)
    return [[(floor, [room for room in rooms(files) if floor_of(room) == floor])
             for floor in beside] for beside in heights]


def summary(room, files):
    """The first sentence of a room's README, without markup, what is in brackets, and the name of the
    program that it may begin with; empty if there is none."""
    text = files.get(f'{room}/README.md', '')
    paragraphs = [part for part in text.split('\n\n') if part and not part.startswith('#')]
    if not paragraphs or paragraphs[0].startswith('|'):
        return ''
    flat = MARKUP.sub(lambda match: match.group(1) or '', ' '.join(paragraphs[0].split()))
    sentence = re.split(r'(?<=\.) ', re.sub(r' \([^()]*\)', '', flat) + ' ')[0]
    return re.sub(r'^The program rh-\w+: ', '', sentence).rstrip('. ')


def classes(files):
    """(name, path, text of the body, names of the bases) of each class."""
    for path, text in files.items():
        if path.endswith('.md'):
            continue
        code = COMMENT.sub('', text)
        for match in CLASS.finditer(code):
            end = code.find(f'\n{match["indent"]}}};', match.end())
            bases = [ACCESS.sub('', base.strip()).split('::')[-1].split('<')[0]
                     for base in (match['bases'] or '').split(',') if base.strip()]
            yield match['name'], path, code[match.end():end], bases


def interfaces(files):
    """The interfaces of the floors below apps/, and who implements them there."""
    below = {path: text for path, text in files.items() if not path.startswith('apps/')}
    found = list(classes(below))
    by_base = {}
    for name, path, _, bases in found:
        for base in bases:
            by_base.setdefault(base, set()).add((name, path))
    return [Interface(name, path, tuple(sorted(by_base.get(name, ()), key=lambda one: one[::-1])))
            for name, path, body, _ in found if path.endswith('.h') and PURE.search(body)]
