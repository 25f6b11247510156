#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks that no relative link of a page is dead, and that each page of docs/ is reached.

docs/README.md leads to every page in docs/ itself, and with the pages there to all below it; the
README leads to docs/README.md.
"""

import sys
import unittest

import pages

DOCUMENTS = 'docs/'
INDEX = 'docs/README.md'


def exists(path, files):
    return path == '' or path in files or any(name.startswith(path + '/') for name in files)


def dead_links(page, files):
    for target in pages.links(files[page]):
        path, _, anchor = target.partition('#')
        found = pages.resolve(page, path) if path else page
        if found is None or not exists(found.rstrip('/'), files):
            yield f'{page}: nothing is at {target}'
        elif anchor and found.endswith('.md') and anchor not in pages.anchors(files[found]):
            yield f'{page}: no section {target}'


def led_to(page, files):
    """The pages that a page's links lead to."""
    found = {pages.resolve(page, target.partition('#')[0]) for target in pages.links(files[page])}
    return {path for path in found if path in files and path.endswith('.md')}


def unreached(files):
    """The pages of docs/ to which nothing leads from the index."""
    known, new = set(), {INDEX}
    while new:
        known |= new
        new = set().union(*(led_to(page, files) for page in new)) - known
    direct = led_to(INDEX, files) | {INDEX}
    for page in sorted(files):
        if not page.startswith(DOCUMENTS) or not page.endswith('.md'):
            continue
        if page not in (known if page.count('/') > 1 else direct):
            yield f'{page}: {INDEX} does not lead to it'


def mistakes(files):
    for page in sorted(name for name in files if name.endswith('.md')):
        yield from dead_links(page, files)
    yield from unreached(files)
    if INDEX not in led_to('README.md', files):
        yield f'README.md: does not lead to {INDEX}'


class CheckerCanFail(unittest.TestCase):
    def setUp(self):
        self.files = {
            'README.md': '# A\n[all](docs/README.md) ![p](docs/p.svg) [x](https://x.org/y)\n',
            'docs/README.md': '[a](a.md#one-two), [code](../stack/)\n```\n[no](no.md)\n```\n',
            'docs/a.md': '# One `two`\n[below](below/b.md) `[no](no.md)`\n',
            'docs/below/b.md': '[up](../a.md) [top](#here)\n<a id="here"></a>\n',
            'docs/p.svg': '<svg/>',
            'stack/a.cc': '',
        }

    def found(self, page, right, wrong):
        self.assertIn(right, self.files[page])
        return list(mistakes(self.files | {page: self.files[page].replace(right, wrong)}))

    def test_none(self):
        self.assertEqual(list(mistakes(self.files)), [])

    def test_dead(self):
        for page, right, wrong, found in (
                ('README.md', 'p.svg', 'q.svg', 'README.md: nothing is at docs/q.svg'),
                ('docs/README.md', '../stack/', '../roce/',
                 'docs/README.md: nothing is at ../roce/'),
                ('docs/README.md', '../stack/', '../../x',
                 'docs/README.md: nothing is at ../../x'),
                ('docs/README.md', '#one-two', '#one', 'docs/README.md: no section a.md#one'),
                ('docs/below/b.md', '#here', '#there', 'docs/below/b.md: no section #there')):
            with self.subTest(wrong):
                self.assertEqual(self.found(page, right, wrong), [found])

    def test_unreached(self):
        self.assertEqual(self.found('docs/a.md', '[below](below/b.md)', ''),
                         ['docs/below/b.md: docs/README.md does not lead to it'])
        self.files['docs/c.md'] = ''
        self.assertEqual(self.found('docs/a.md', '# One', '# One [c](c.md)\n# One'),
                         ['docs/c.md: docs/README.md does not lead to it'])

    def test_the_index_is_reached(self):
        self.assertEqual(self.found('README.md', 'docs/README.md', 'docs/a.md'),
                         ['README.md: does not lead to docs/README.md'])


class Tree(unittest.TestCase):
    def test_tree(self):
        files = pages.tree()
        self.assertGreater(sum(len(pages.links(files[name])) for name in files
                               if name.endswith('.md')), 200, 'the links were not found')
        found = list(mistakes(files))
        if found:
            self.fail('\n' + '\n'.join(found))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
