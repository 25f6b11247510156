#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What scripts/draw-structure makes of sources."""

import pathlib
import sys
import unittest
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'scripts'))

from structure import pictures, tree  # noqa: E402 (needs the path above)

FILES = {
    'stack/README.md': '# stack/\n\nPackets `in` and [out](x.md) (RFC 1. 2). More.\n',
    'stack/link.h': 'class Link {\n public:\n  virtual void burst() = 0;\n};\n',
    'stack/net/port.h': '#include "stack/link.h"\nclass Port final : public Link {\n};\n',
    'roce/engine.cc': '#include "stack/link.h"\n// #include is a word\n#include <vector>\n',
    'apps/rh_x/README.md': '# apps/rh_x/\n\nThe program `rh-x`: does it.\n',
    'apps/rh_x/main.cc': '#include "roce/engine.h"\n#include "apps/common/a.h"\n',
    'apps/common/a.h': '',
    'apps/precompiled.h': '',
}


class Tree(unittest.TestCase):
    def test_rooms(self):
        self.assertEqual(tree.rooms(FILES), {
            'apps/common': [], 'apps/rh_x': ['apps/common', 'roce'], 'roce': ['stack'],
            'stack': [], 'stack/net': ['stack']})

    def test_floors(self):
        self.assertEqual(tree.floors(FILES), [
            [('apps/common', ['apps/common']), ('stack', ['stack', 'stack/net'])],
            [('roce', ['roce'])], [('apps/rh_*', ['apps/rh_x'])]])

    def test_floors_on_each_other(self):
        files = FILES | {'stack/bad.cc': '#include "roce/engine.h"\n'}
        with self.assertRaisesRegex(tree.StructureError, 'apps/rh_.*, roce, stack'):
            tree.floors(files)

    def test_summary(self):
        self.assertEqual(tree.summary('stack', FILES), 'Packets in and out')
        self.assertEqual(tree.summary('apps/rh_x', FILES), 'does it')
        self.assertEqual(tree.summary('roce', FILES), '')

    def test_interfaces(self):
        [link] = tree.interfaces(FILES)
        self.assertEqual((link.name, link.header), ('Link', 'stack/link.h'))
        self.assertEqual(link.implemented_by, (('Port', 'stack/net/port.h'),))


class Pictures(unittest.TestCase):
    def drawn(self, files):
        found = {path: draw(files) for path, draw in pictures.PICTURES.items()}
        for picture in found.values():
            xml.dom.minidom.parseString(picture)
        return found

    def test_what_changes_them(self):
        before = self.drawn(FILES)
        for file, text, changed in (
                ('stack/link.h', FILES['stack/link.h'] + '\nint a;\n', ()),
                ('roce/wire/a.h', '', ('architecture',)),
                ('stack/README.md', '# stack/\n\nOther words.\n', ('architecture',)),
                ('roce/engine.cc', '#include "stack/net/port.h"\n', ('architecture',)),
                ('roce/link.h', 'class Mine : public stack::Link {\n};\n', ('seams',))):
            with self.subTest(file):
                after = self.drawn(FILES | {file: text})
                self.assertEqual({pathlib.Path(path).stem for path in after
                                  if after[path] != before[path]}, set(changed))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
