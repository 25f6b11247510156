#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A constant of one source alone must not hide a header's: sources of a folder are compiled
together, and then another source that means the header's gets that one, and nobody warns."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ('stack', 'roce', 'dc', 'apps', 'bench', 'tests', 'examples')

NOT_CODE = re.compile(r'//(?! namespace)[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.S)
NAMESPACE = re.compile(r'^namespace ([\w:]+) \{$|^namespace \{$|^\}  // namespace', re.M)
DECLARED = re.compile(
    r'^(?:inline |static )?const(?:expr|init)? [^;={(]*?\b(k[A-Z]\w*)(?=\[| =|\{|;)', re.M)
USED = re.compile(r'(?<![\w.:>])k[A-Z]\w*')
USING = re.compile(r'^using namespace ([\w:]+);', re.M)


class Source:
    """`own`: {constant that it declares for itself alone: the namespace around}; `used`: those that
    it mentions without saying whose; `seen`: namespaces in which it looks for them."""

    def __init__(self, text):
        code = NOT_CODE.sub('', text)
        self.own = {}
        self.seen = set(USING.findall(code))
        self.used = set(USED.findall(code))
        around, begin = [], 0  # names of the namespaces that are open; None: without a name
        for line in NAMESPACE.finditer(code):
            if line[0].startswith('namespace'):
                around.append(line[1])
                self.seen.add('::'.join(filter(None, around)))
            elif around and around.pop() is None:
                self.own.update(dict.fromkeys(DECLARED.findall(code, begin, line.start()),
                                              '::'.join(around)))
            begin = line.end()

    def sees(self, namespace):
        return any(f'{seen}::'.startswith(f'{namespace}::') for seen in self.seen)


def hidden(texts, headers):
    """[(declared by, constant, mentioned by)] of {name of a source of one folder: its text} and the
    texts of all headers. One that no header has is none that another source could have meant."""
    sources = {name: Source(text) for name, text in texts.items()}
    known = {name for header in headers for name in DECLARED.findall(NOT_CODE.sub('', header))}
    return sorted((owner, name, other) for owner, one in sources.items()
                  for name, namespace in one.own.items() if name in known
                  for other, source in sources.items()
                  if name in source.used and name not in source.own and source.sees(namespace))


def source(namespace, declared, code):
    return (f'namespace {namespace} {{\nnamespace {{\n{declared}\n}}  // namespace\n{code}\n'
            f'}}  // namespace {namespace}\n')


class HiddenNames(unittest.TestCase):
    HEADER = 'namespace rockhopper {\ninline constexpr int kVersion = 7;\n}  // namespace\n'

    def found(self, declared, there, code, header=HEADER):
        return hidden({'a.cc': source('rockhopper::apps', declared, ''),
                       'b.cc': source(there, '', code)}, [header])

    def test_notices(self):
        for declared in ('constexpr int kVersion = 6;', 'const char kVersion[] = "6";',
                         'constexpr std::array<int, 1> kVersion{6};'):
            for there in ('rockhopper::apps', 'rockhopper::apps::perf'):
                self.assertEqual(self.found(declared, there, 'auto x = kVersion;'),
                                 [('a.cc', 'kVersion', 'b.cc')])

    def test_is_content(self):
        declared = 'constexpr int kVersion = 6;'
        for there, code in (('rockhopper::roce', 'auto x = kVersion;'),
                            ('rockhopper::apps', 'auto x = wire::kVersion;'),
                            ('rockhopper::apps', '// kVersion'),
                            ('rockhopper::apps', 'auto x = "kVersion";')):
            self.assertEqual(self.found(declared, there, code), [], code)
        self.assertEqual(
            self.found(declared, 'rockhopper::apps', 'auto x = kVersion;', header=''), [])

    def test_sources(self):
        headers = [path.read_text() for top in FOLDERS for path in (ROOT / top).rglob('*.h')]
        folders = {path.parent for top in FOLDERS for path in (ROOT / top).rglob('*.cc')}
        self.assertTrue(folders)
        for folder in sorted(folders):
            for owner, name, other in hidden({path.name: path.read_text()
                                              for path in folder.glob('*.cc')}, headers):
                with self.subTest(folder=str(folder.relative_to(ROOT))):
                    self.fail(f'{owner} has a {name} of its own, and {other} means another: '
                              'give it another name')


if __name__ == '__main__':
    unittest.main()
