#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks that each folder of sources has a README, and that a README names no file that is not there.

A folder may also be named, as `folder/`, by the README of a folder above it. In a table, what stands
in the last column under "file", "folder" or "where" is a file of the README's own folder, with or
without its suffix, or a folder. What stands as `folder/file`, anywhere, is looked for there and from
the root on.
"""

import pathlib
import re
import sys
import unittest

import pages

SOURCES = {'.h', '.cc', '.py', '.sh', '.lua'}
# Folders whose form others prescribe.
OTHERS = ('debian', '.ci')
COLUMNS = {'file', 'folder', 'where'}
ROW = re.compile(r'^\|(.*)\|\s*$', re.MULTILINE)
TABLE = re.compile(r'(?:^\|.*\|\s*\n)+', re.MULTILINE)
PATH = re.compile(r'^[\w.-]+(/[\w.-]+)*/?$')


def parents(folder):
    """A folder and all above it, the root last, as '.'."""
    path = pathlib.PurePosixPath(folder)
    return [path.as_posix(), *(parent.as_posix() for parent in path.parents)]


def join(folder, name):
    return pages.resolve(f'{folder}/x', name)


def folders_of_sources(files):
    found = {pathlib.PurePosixPath(name).parent.as_posix() for name, text in files.items()
             if pathlib.PurePosixPath(name).suffix in SOURCES or (text or '').startswith('#!')}
    return sorted(folder for folder in found - {'.'} if folder.split('/')[0] not in OTHERS)


def named_folders(folder, files):
    """What a folder's README names as `folder/`."""
    text = files.get(join(folder, 'README.md')) or ''
    return {join(folder, name.rstrip('/')) for name in pages.CODE.findall(text)
            if name.endswith('/') and PATH.match(name)}


def without_readme(files):
    for folder in folders_of_sources(files):
        own = parents(folder)
        named = set().union(*(named_folders(above, files) for above in own[1:-1]))
        if join(folder, 'README.md') not in files and not named & set(own):
            yield f'{folder}: has no README'


def cells_of_files(text):
    """The cells of tables that name files."""
    for table in TABLE.findall(text):
        head, *rows = ([cell.strip() for cell in row.split('|')] for row in ROW.findall(table))
        if head[-1] in COLUMNS:
            yield from (row[-1] for row in rows)


def is_there(folder, name, files):
    path = join(folder, name.rstrip('/'))
    if path is None:
        return False
    if any(file.startswith(path + '/') for file in files):
        return True
    return not name.endswith('/') and (
        path in files or any(path + suffix in files for suffix in SOURCES))


def wrong_names(page, files):
    folder = pathlib.PurePosixPath(page).parent.as_posix()
    text = pages.prose(files[page])
    in_tables = [name for cell in cells_of_files(text)
                 for name in pages.CODE.findall(re.sub(r'\[[^]]*\]\([^)]*\)', '', cell))]
    tops = {file.split('/')[0] for file in files if '/' in file}
    for name in dict.fromkeys([*in_tables, *pages.CODE.findall(text)]):
        is_path = '/' in name.rstrip('/') and PATH.match(name) and name.split('/')[0] in tops
        if (name in in_tables or is_path) and not is_there(folder, name, files) and not (
                is_path and is_there('.', name, files)):
            yield f'{page}: there is no {name}'


def mistakes(files):
    yield from without_readme(files)
    for page in sorted(files):
        if page.endswith('/README.md'):
            yield from wrong_names(page, files)


class CheckerCanFail(unittest.TestCase):
    def setUp(self):
        self.files = {
            'README.md': '# A\n',
            'stack/README.md': '# stack/\n\nAs `tests/run.py`; `a.b/c` is nothing of ours.\n\n'
                               '| what happens when | file |\n|---|---|\n'
                               '| one | `a`, `b.build` |\n| all | [net/](net/README.md), `c/` |\n',
            'stack/a.cc': '', 'stack/b.build': '', 'stack/c/d.cc': '', 'stack/c/e/f.cc': '',
            'stack/net/README.md': '', 'stack/net/g.cc': '',
            'tests/run.py': '', 'tests/README.md': '',
            'debian/rules': '#!/bin/sh\n',
        }

    def found(self, **changed):
        return list(mistakes(self.files | changed))

    def test_none(self):
        self.assertEqual(self.found(), [])

    def test_folder_without_readme(self):
        self.files['roce/h'] = '#!/bin/sh\n'
        self.assertEqual(self.found(), ['roce: has no README'])
        del self.files['roce/h']
        del self.files['stack/net/README.md']
        self.assertEqual(self.found(), ['stack/net: has no README'])

    def test_name_of_no_file(self):
        right = self.files['stack/README.md']
        for old, new, missing in (('`a`', '`A`', 'A'), ('b.build', 'b', 'b'), ('`a`', '`d`', 'd'),
                                  ('`c/`', '`c/`, `i/`', 'i/'),
                                  ('tests/run.py', 'tests/run', None),
                                  ('tests/run.py', 'tests/walk', 'tests/walk')):
            with self.subTest(new):
                self.files['stack/README.md'] = right.replace(old, new)
                self.assertEqual(self.found(),
                                 [f'stack/README.md: there is no {missing}'] if missing else [])


class Tree(unittest.TestCase):
    def test_tree(self):
        files = pages.tree()
        self.assertGreater(len(folders_of_sources(files)), 50, 'the folders were not found')
        found = list(mistakes(files))
        if found:
            self.fail('\n' + '\n'.join(found))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
