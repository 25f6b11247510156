#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks docs/requirements.md, which defines the ids of requirements, and the tables of
docs/dag-claims.md, to which it leads for those of the DAG systems.

- Each id in code, tests and documents is defined, and none is defined twice.
- An entry that says where it is shown names tests that are there, in files that name the id, and
  sections of documents that are there. An entry without a test says why, and no test names its id.
- Each call in a table is declared in the header that the row names; each entry that leads to the
  tables has one row, and each row has an entry.

One line a mistake; exit status 1 if there is any.
"""

import functools
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ('stack', 'roce', 'dc', 'apps', 'examples', 'bench', 'tests', 'scripts', 'wireshark',
           'docs')
SUFFIXES = ('.h', '.cc', '.py', '.md', '.json', '.lua', '.build', '')
OTHERS = {'data', '__pycache__'}  # folders of captures and the like
PAGE = 'docs/requirements.md'
CLAIMS = 'docs/dag-claims.md'
HEADERS = 'apps/services/dag/'  # what the tables name calls in
SELF = 'tests/requirements.py'  # its own tests have ids that there are not

ENTRY = re.compile(r'^- \*\*([A-Z]+-\d+)\*\*: (.*(?:\n  .*)*)', re.MULTILINE)
MARK = re.compile(r' \*(Shown|No test|Not claimed):\* ')
ROW = re.compile(r'^\| ([A-Z]+-\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$', re.MULTILINE)
PLACE = re.compile(r'^`([^`]+)`(?: ([\w:.]+))?$')
LINK = re.compile(r'^\[[^]]+\]\(([\w.-]+)(?:#([\w-]+))?\)$')
HEADING = re.compile(r'^#+ (.+)$', re.MULTILINE)
NAME = re.compile(r'\b([A-Z]+)-(\d+)(?: to (?:\1-)?(\d+))?')
WRAP = re.compile(r'\n[ \t]*(?://+|#+)?[ \t]*')
COMMENT = re.compile(r'//[^\n]*')


def sources():
    """{path from the root: text} of all that may name an id."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob('*')]
    return {str(path.relative_to(ROOT)): path.read_text(encoding='utf-8')
            for path in [*paths, *ROOT.glob('*.md')]
            if path.is_file() and path.suffix in SUFFIXES and not OTHERS & set(path.parts)}


def flat(text):
    """On one line, without what comments have at the beginning of lines."""
    return WRAP.sub(' ', text)


@functools.cache
def named(text):
    """All ids in a text; "AB-1 to AB-3" names three."""
    return {f'{prefix}-{number}' for prefix, first, last in NAME.findall(flat(text))
            for number in range(int(first), int(last or first) + 1)}


def anchors(document):
    """What a link can lead to in a document."""
    return {re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-')
            for heading in HEADING.findall(document)}


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
        return re.search(rf'TEST(?:_[FP])?\(\s*{suite},\s*{test}\)', source) is not None
    return f'def {name}(' in source


def items(cell):
    """Of a list whose items are parted by commas."""
    return [item.strip() for item in cell.split(', ')]


def place(item):
    """The file and the name in it of an item `file` name; None for what is missing."""
    match = PLACE.match(item)
    return match.groups() if match else (None, None)


def wrong_test(wanted, item, files):
    """What is wrong with an item that is a test of the id; None if nothing is."""
    path, test = place(item)
    if path not in files or not path.startswith('tests/') or test and not has_test(files[path],
                                                                                   test):
        return f'{wanted}: no test {item}'
    return None if wanted in named(files[path]) else f'{wanted}: {path} does not name it'


def wrong_link(wanted, item, files):
    target, anchor = LINK.match(item).groups()
    document = files.get(f'docs/{target}')
    if document is None or anchor and anchor not in anchors(document):
        return f'{wanted}: no section {item}'
    return None


def entries(page):
    """The ids of a page in its order, each with what is demanded and a list of (mark, text)."""
    for wanted, text in ENTRY.findall(page):
        demand, *marks = MARK.split(flat(text))
        yield wanted, demand, list(zip(marks[::2], marks[1::2]))


def mistakes_of_entry(wanted, demand, marks, files):
    parts = dict(marks)
    if len(parts) < len(marks) or not all(part.endswith('.') for part in [demand, *parts.values()]):
        yield f'{wanted}: not a sentence, and each mark once'
    shown = items(parts['Shown'].removesuffix('.')) if 'Shown' in parts else []
    links = [item for item in shown if LINK.match(item)]
    tests = [item for item in shown if item not in links]
    yield from filter(None, (wrong_link(wanted, item, files) for item in links))
    yield from filter(None, (wrong_test(wanted, item, files) for item in tests))
    if 'No test' in parts:
        naming = [path for path, text in files.items()
                  if path.startswith('tests/') and path != SELF and wanted in named(text)]
        if tests or naming:
            yield f'{wanted}: there is a test, {", ".join(tests or naming)}'
    elif not tests and not leads_to_claims(marks):
        yield f'{wanted}: neither a test nor why there is none'


def leads_to_claims(marks):
    return any(mark == 'Shown' and f'({CLAIMS.removeprefix("docs/")})' in text
               for mark, text in marks)


def mistakes_of_row(wanted, calls, tests, files):
    for item in items(calls):
        name, call = place(item)
        header = files.get(f'{HEADERS}{name}')
        if header is None or not call or not declares(header, call):
            yield f'{wanted}: no declaration {item}'
    for item in items(tests):
        yield from filter(None, [wrong_test(wanted, item, files)])


def mistakes(files):
    """Of the page and the tables among all files."""
    page = list(entries(files[PAGE]))
    defined = [wanted for wanted, _, _ in page]
    for wanted in sorted({one for one in defined if defined.count(one) > 1}):
        yield f'{wanted}: defined twice'
    for wanted, demand, marks in page:
        yield from mistakes_of_entry(wanted, demand, marks, files)
    prefixes = tuple({f'{wanted.split("-")[0]}-' for wanted in defined})
    for path, text in files.items():
        unknown = {one for one in named(text) if one.startswith(prefixes)} - set(defined)
        if path != SELF:
            yield from (f'{path}: {one} is not defined' for one in sorted(unknown))
    rows = ROW.findall(files[CLAIMS])
    for wanted, calls, tests in rows:
        yield from mistakes_of_row(wanted, calls, tests, files)
    claimed = sorted(wanted for wanted, _, _ in rows)
    leading = sorted(wanted for wanted, _, marks in page if leads_to_claims(marks))
    if claimed != leading:
        different = set(claimed) ^ set(leading) or set(claimed)
        yield f'{", ".join(sorted(different))}: not once in the tables and once on the page'


class Mistakes(unittest.TestCase):
    """Each kind of mistake in a project of a few lines."""

    def setUp(self):
        self.files = {
            PAGE: '# Requirements\n\n'
                  '- **AB-1**: The first one holds. *Shown:* [there](there.md#a-section),\n'
                  '  `tests/a_test.cc` Suite.First, `tests/test_b.py`.\n'
                  '- **AB-2**: The second one\n  holds. *Shown:* `tests/test_b.py` test_second.\n'
                  '  *Not claimed:* More than that.\n'
                  '- **AB-3**: The third one holds. *No test:* Nobody can see it.\n'
                  '- **CD-1**: There are tables. *Shown:* [tables](dag-claims.md).\n',
            CLAIMS: '| id | element | call | tests |\n|---|---|---|---|\n'
                    '| CD-1 | tables | `x.h` Table::make | `tests/test_b.py` test_second |\n',
            'docs/there.md': '# There\n\n## A `section`\n',
            'apps/services/dag/x.h': '/// CD-1.\nclass Table {\n  void make();\n};\n',
            'tests/a_test.cc': '/// AB-1.\nTEST_P(Suite, First) {}\n',
            'tests/test_b.py': '"""AB-1 to\nAB-2; CD-1."""\ndef test_second():\n',
            'stack/y.cc': '// AB-3, BSD-3, UTF-8.\n',
        }

    def found(self, path, right, wrong):
        self.assertIn(right, self.files[path])
        return list(mistakes(self.files | {path: self.files[path].replace(right, wrong)}))

    def test_none(self):
        self.assertEqual(list(mistakes(self.files)), [])

    def test_ids(self):
        for path, right, wrong, found in (
                ('stack/y.cc', 'AB-3', 'AB-4', ['stack/y.cc: AB-4 is not defined']),
                ('stack/y.cc', 'AB-3', 'CD-1 to 2', ['stack/y.cc: CD-2 is not defined']),
                ('stack/y.cc', 'AB-3', 'AB-1 to\n// AB-4', ['stack/y.cc: AB-4 is not defined']),
                (PAGE, '- **AB-1**', '- **AB-2**: Again. *No test:* No.\n- **AB-1**',
                 ['AB-2: defined twice', 'AB-2: there is a test, tests/test_b.py'])):
            with self.subTest(wrong):
                self.assertEqual(self.found(path, right, wrong), found)

    def test_entries(self):
        for right, wrong, found in (
                ('Suite.First', 'Suite.Last', 'AB-1: no test `tests/a_test.cc` Suite.Last'),
                ('test_second', 'test_first', 'AB-2: no test `tests/test_b.py` test_first'),
                ('tests/a_test.cc', 'stack/y.cc', 'AB-1: no test `stack/y.cc` Suite.First'),
                ('#a-section', '#section', 'AB-1: no section [there](there.md#section)'),
                ('there.md', 'nowhere.md', 'AB-1: no section [there](nowhere.md#a-section)'),
                ('*Shown:* `tests/test_b.py` test_second', '*Shown:* [there](there.md)',
                 'AB-2: neither a test nor why there is none'),
                (' *No test:* Nobody can see it.', '',
                 'AB-3: neither a test nor why there is none'),
                ('Nobody can see it.', 'Nobody can see it',
                 'AB-3: not a sentence, and each mark once'),
                ('The third one holds.', 'The third one holds',
                 'AB-3: not a sentence, and each mark once'),
                ('*No test:*', '*No test:* No. *No test:*',
                 'AB-3: not a sentence, and each mark once')):
            with self.subTest(wrong):
                self.assertEqual(self.found(PAGE, right, wrong), [found])

    def test_tests_name_what_they_show(self):
        self.assertEqual(self.found('tests/a_test.cc', 'AB-1', 'AB'),
                         ['AB-1: tests/a_test.cc does not name it'])
        self.assertEqual(self.found('tests/a_test.cc', 'AB-1', 'AB-1, AB-3'),
                         ['AB-3: there is a test, tests/a_test.cc'])

    def test_tables(self):
        nowhere = 'CD-1: not once in the tables and once on the page'
        for path, right, wrong, found in (
                (CLAIMS, 'Table::make', 'Table::get', 'CD-1: no declaration `x.h` Table::get'),
                (CLAIMS, '`x.h` Table::make', 'Table::make', 'CD-1: no declaration Table::make'),
                (CLAIMS, 'test_second', 'test_third', 'CD-1: no test `tests/test_b.py` test_third'),
                (CLAIMS, '| CD-1 |', '| - |', nowhere),
                (CLAIMS, '| CD-1 |', '| CD-1 | a | `x.h` Table | `tests/test_b.py` |\n| CD-1 |',
                 nowhere),
                (PAGE, '[tables](dag-claims.md)', '`tests/test_b.py`', nowhere)):
            with self.subTest(wrong):
                self.assertEqual(self.found(path, right, wrong), [found])


class Tree(unittest.TestCase):
    def test_tree(self):
        files = sources()
        self.assertGreater(len(list(entries(files[PAGE]))), 100, 'the page was not understood')
        self.assertGreater(len(ROW.findall(files[CLAIMS])), 30, 'the tables were not understood')
        self.assertGreater(len(files), 1000, 'the tree was not found')
        found = list(mistakes(files))
        if found:
            self.fail('\n' + '\n'.join(found))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
