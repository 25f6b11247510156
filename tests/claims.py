#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks the tables of docs/dag-claims.md: each call is declared in the header that they name, each
test is in its file and names the id, and no id is left out.

One line a mistake; exit status 1 if there is any.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = ROOT / 'docs/dag-claims.md'
HEADERS = ROOT / 'apps/dag'
IDS = {f'DG-{number}' for number in [*range(1, 22), *range(30, 43)]}

ROW = re.compile(r'^\| (DG-\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$', re.MULTILINE)
PLACE = re.compile(r'^`([^`]+)` ([\w:.]+)$')
RANGE = re.compile(r'DG-(\d+) to (?:DG-)?(\d+)')
COMMENT = re.compile(r'//[^\n]*')


def places(cell):
    """Each `file` name of a cell, the items of which are parted by commas."""
    for item in cell.split(', '):
        match = PLACE.match(item.strip())
        yield match.groups() if match else (None, item)


def declares(header, name):
    """Whether a header declares a class, a function, or a function of a class."""
    text = COMMENT.sub('', header)
    *classes, last = name.split('::')
    if classes:
        body = re.search(rf'\b(?:class|struct) {classes[0]}\b[^;{{]*\{{(.*?)^\}};', text,
                         re.DOTALL | re.MULTILINE)
        text = body.group(1) if body else ''
    elif re.search(rf'\b(?:class|struct) {last}\b[^;]*\{{', text):
        return True
    return re.search(rf'\b{last}\(', text) is not None


def has_test(source, name):
    if '.' in name:
        suite, test = name.split('.')
        return re.search(rf'\bTEST(?:_[FP])?\(\s*{suite},\s*{test}\)', source) is not None
    return f'def {name}(' in source


def names_id(source, wanted):
    number = int(wanted.removeprefix('DG-'))
    return (re.search(rf'\b{wanted}\b', source) is not None
            or any(int(a) <= number <= int(b) for a, b in RANGE.findall(source)))


def mistakes(tables):
    rows = ROW.findall(tables)
    found = {wanted for wanted, _, _ in rows}
    for wanted in sorted(IDS ^ found):
        yield f'{wanted}: ' + ('not there' if wanted in IDS else 'no such id')
    for wanted, calls, tests in rows:
        for name, call in places(calls):
            header = HEADERS / name if name else None
            if not header or not header.is_file() or not declares(header.read_text(), call):
                yield f'{wanted}: no declaration of {call} in {name}'
        for name, test in places(tests):
            path = ROOT / name if name else None
            if not path or not path.is_file() or not has_test(path.read_text(), test):
                yield f'{wanted}: no test {test} in {name}'
            elif not names_id(path.read_text(), wanted):
                yield f'{wanted}: {name} does not name it'


class Tables(unittest.TestCase):
    def test_tables(self):
        found = list(mistakes(TABLES.read_text()))
        if found:
            self.fail('\n' + '\n'.join(found))

    def test_mistakes_are_found(self):
        tables = TABLES.read_text()
        for right, wrong in (('Client::update', 'Client::upsert'),
                             ('Graph.RefusesCyclesByName', 'Graph.RefusesNothing'),
                             ('test_placement', 'test_nothing'),
                             ('| DG-37 |', '| DG-47 |'),
                             ('`hash.h` hash_of', 'hash_of')):
            with self.subTest(wrong=wrong):
                self.assertIn(right, tables)
                self.assertTrue(list(mistakes(tables.replace(right, wrong))))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
