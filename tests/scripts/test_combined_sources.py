#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What is compiled together is known by its own sources again: clang-tidy reads each of them."""

import pathlib
import shlex
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from testing import combined_sources  # noqa: E402

# As meson writes it.
COMBINED = '#include</project/stack/clock.cc>\n#include</project/build/../dc/dci.cc>\n'


def entry(file, folder):
    return {'directory': str(folder), 'file': file, 'output': f'{file}.o',
            'command': f"g++ '-DNAME=\"a b\"' -o {file}.o -c {file}"}


class CombinedSources(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='rockhopper-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.combined = self.folder / 'lib-unity0.cpp'
        self.combined.write_text(COMBINED, encoding='utf-8')

    def test_parts(self):
        self.assertEqual(combined_sources.parts(self.combined),
                         (pathlib.Path('/project/stack/clock.cc'), pathlib.Path('/project/dc/dci.cc')))
        self.assertEqual(combined_sources.parts(self.folder / 'unity0.cc'),
                         (self.folder / 'unity0.cc',))

    def test_each_alone(self):
        alone = entry('../main.cc', self.folder)
        found = list(combined_sources.each_alone([entry('lib-unity0.cpp', self.folder), alone]))
        self.assertEqual(found[2], alone)
        for made, file in zip(found, ('/project/stack/clock.cc', '/project/dc/dci.cc')):
            self.assertEqual(made['file'], file)
            self.assertEqual(shlex.split(made['command']), [
                'g++', '-DNAME="a b"', '-o', 'lib-unity0.cpp.o', '-c', file])


if __name__ == '__main__':
    unittest.main()
