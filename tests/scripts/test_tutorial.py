#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Tests of tests/install/tutorial.py: it does what a page says, and notices what is not so."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True  # the source tree may be read-only, or shared
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'install'))

import tutorial  # noqa: E402 (needs the path above)


class TutorialCanFail(unittest.TestCase):
    PAGE = ('# A\n```c a.c\nint a;\n```\n```sh\nmkdir b\ncd b\n```\n'
            '```sh\ncat ../a.c\necho "took  7 s"\n```\n\n```text\nint a;\ntook 12 s\n```\n')

    def test_followed(self):
        self.assertEqual(tutorial.follow(self.PAGE), 2)

    def test_command_fails(self):
        with self.assertRaisesRegex(tutorial.TutorialError, 'exit status 1'):
            tutorial.follow(self.PAGE.replace('../a.c', 'a.c'))

    def test_another_output(self):
        with self.assertRaisesRegex(tutorial.TutorialError, 'not printed: took 12 ms'):
            tutorial.follow(self.PAGE.replace('12 s', '12 ms'))

    def test_block_without_file(self):
        with self.assertRaisesRegex(tutorial.TutorialError, 'block 0 of c has no file'):
            tutorial.follow(self.PAGE.replace('```c a.c', '```c'))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
