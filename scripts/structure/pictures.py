# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The pictures of docs/images that show the structure."""

from structure import svg, tree

MADE_BY = 'scripts/draw-structure'
EDGE = 16
GAP = 12
PAD = 10
# Rooms side by side: programs are many, and say what they are by their names.
COLUMNS, COLUMNS_OF_PROGRAMS = 3, 4


def label(room, floor):
    """What a room is called on its floor."""
    if floor == tree.PROGRAMS:
        return room.split('/')[-1].replace('_', '-')
    return room.removeprefix(floor + '/') + '/' if room != floor else f'{room}/'


def stands_on(room, included):
    """The rooms that a room includes, those of its own folder by their last name."""
    names = [one.removeprefix(room.split('/')[0] + '/') if one.startswith(room.split('/')[0] + '/')
             else one for one in included]
    return 'on ' + ', '.join(names) if names else ''


def room_lines(room, floor, width, files, included):
    """(class, text) of each line in a room's box."""
    found = [('name', label(room, floor))]
    found += [('text', line) for line in svg.lines(tree.summary(room, files), width - 2 * PAD)]
    if floor != tree.PROGRAMS:
        found += [('quiet', line)
                  for line in svg.lines(stands_on(room, included), width - 2 * PAD)]
    return found


def draw_rooms(floor, rooms, place, columns, files, included):
    """The boxes of a floor's rooms, in rows, and where they end. `place` is (x, y, width)."""
    left, y, whole = place
    width = (whole - (columns - 1) * GAP) // columns
    drawn = []
    for first in range(0, len(rooms), columns):
        row = [room_lines(room, floor, width, files, included[room])
               for room in rooms[first:first + columns]]
        height = max(len(lines) for lines in row) * svg.LINE + PAD
        for column, lines in enumerate(row):
            x = left + column * (width + GAP)
            drawn.append(svg.box(x, y, width, height, 'room'))
            drawn += write(x, y, lines)
        y += height + GAP
    return drawn, y - GAP


def write(x, y, lines):
    return [svg.words(x + PAD, y + (number + 1) * svg.LINE, text, kind)
            for number, (kind, text) in enumerate(lines)]


def draw_floor(floor, rooms, place, columns, files, included):
    """What is on a floor, and where that ends."""
    x, y, width = place
    if rooms == [floor]:
        lines = room_lines(floor, floor, width, files, included[floor])
        return write(x, y, lines), y + len(lines) * svg.LINE + PAD
    name = 'programs: apps/rh_NAME/' if floor == tree.PROGRAMS else f'{floor}/'
    drawn, end = draw_rooms(floor, rooms, (x + PAD, y + 28, width - 2 * PAD), columns, files,
                            included)
    return [svg.words(x + PAD, y + 19, name, 'name'), *drawn], end + PAD


def shares(beside):
    """The columns that each of the floors beside each other has: the largest has what is left."""
    if len(beside) == 1:
        return [COLUMNS_OF_PROGRAMS if beside[0][0] == tree.PROGRAMS else COLUMNS]
    largest = max(range(len(beside)), key=lambda number: len(beside[number][1]))
    return [max(COLUMNS - len(beside) + 1, 1) if number == largest else 1
            for number in range(len(beside))]


def floors(files):
    """The floors, the highest on top, each on those below it."""
    included = tree.rooms(files)
    body, y = [], EDGE
    for beside in reversed(tree.floors(files)):
        columns, x = shares(beside), EDGE
        unit = (svg.WIDTH - 2 * EDGE - (len(beside) - 1) * GAP) / sum(columns)
        drawn = []
        for (floor, rooms), share in zip(beside, columns):
            width = int(unit * share)
            drawn.append((x, width, *draw_floor(floor, rooms, (x, y, width), share, files, included)))
            x += width + GAP
        bottom = max(end for *_, end in drawn)
        for x, width, inside, _ in drawn:
            body += [svg.box(x, y, width, bottom - y, 'floor'), *inside,
                     svg.arrow(x + width // 2, bottom + 1, bottom + 22)]
        y = bottom + 24
    body += [svg.box(EDGE, y, svg.WIDTH - 2 * EDGE, 30, 'floor'),
             svg.words(EDGE + PAD, y + 20, 'DPDK', 'name')]
    return svg.document('Rockhopper: floors and rooms, and what each room includes', MADE_BY,
                        y + 30 + EDGE, body)


def implemented_by(interface):
    """The classes by room: "stack: FaultInjector, Tracer; stack/sim: Nic"."""
    rooms = {}
    for name, path in interface.implemented_by:
        rooms.setdefault(tree.room_of(path), []).append(name)
    return '; '.join(f'{room}: {", ".join(names)}' for room, names in rooms.items())


def seams(files):
    """The interfaces and what implements each."""
    width = (svg.WIDTH - 2 * EDGE - GAP) // 2
    boxes = []
    for interface in tree.interfaces(files):
        by = implemented_by(interface) or "an application's"
        lines = [('name', interface.name), ('quiet', interface.header)]
        lines += [('text', line) for line in svg.lines(by, width - 2 * PAD)]
        boxes.append(lines)
    body, ends = [], [EDGE, EDGE]
    for lines in boxes:
        column = ends.index(min(ends))
        x, y = EDGE + column * (width + GAP), ends[column]
        height = len(lines) * svg.LINE + PAD
        body += [svg.box(x, y, width, height, 'room'), *write(x, y, lines)]
        ends[column] += height + GAP
    return svg.document('Rockhopper: interfaces, and the classes that implement them', MADE_BY,
                        max(ends) - GAP + EDGE, body)


# {file: the function that draws it}
PICTURES = {'docs/images/architecture.svg': floors, 'docs/images/seams.svg': seams}
