#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Tests of what manual pages and shell completion are made with (scripts/manuals)."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from manuals import completion, help_text, markdown, page, roff  # noqa: E402 (needs the path above)

HELP = """\
Sends things to and fro, and counts them. What it does besides is none of this
page.

USAGE
  rh-try [options] [HOST]

Positionals
  HOST
      the other end

Options
  -h, --help
      Print this help message and exit
  -p, --port N
      TCP port; \\n and 'quotes' stay as they are ([0 - 65535]; default 18515)
  --mode NAME
      bw or lat ({bw,lat}; default bw)

Observation and faults
  --pcap FILE
      write packets to this file

EXAMPLES
  rh-try                 on one terminal
  .hidden 'x' -p 1       begins with a dot

EAL ARGUMENTS
  rh-try [EAL arguments] -- [options]
  Arguments before -- go to DPDK.

EXIT STATUS
  0  done
  1  failed
"""
WITH_COMMANDS = """\
Has commands.

USAGE
  rh-try COMMAND

Options
  -h, --help
      Print this help message and exit

COMMANDS (each has --help)
  go
      Goes somewhere.
  stop
      Stops.
"""
DOCUMENT = """\
# rh-try

It sends **things** by `--mode bw`, see [rh-perf](programs/rh-perf.md).

| option | meaning |
|---|---|
| `-p`, `--port N` | the port |

Its counters, with these options:

| option | meaning |
|---|---|
| `--pcap FILE` | a capture |

Exit status: 0 in the end.

## Files

- one `a\\b`
- two

| name | type | what |
|---|---|---|
| `left` | number | of things that are left over |

```
.code --here
```
"""


def manual():
    program = help_text.parse('rh-try', HELP)
    return page.page_of_program(program, markdown.read(DOCUMENT)[1:], 1, '2026-01-02', '1.2.3',
                                frozenset(('rh-try', 'rh-perf')))


def section(text, title):
    return text.partition(f'.SH "{title}"\n')[2].partition('\n.SH')[0]


def rendered(text):
    done = subprocess.run(['man', '--warnings', '--encoding=ascii', '-l', '-'], input=text,
                          text=True, capture_output=True, check=False)
    return done.stdout, done.stderr


class HelpText(unittest.TestCase):
    def test_parts(self):
        found = help_text.parse('rh-try', HELP)
        self.assertEqual(found.usage, '[options] [HOST]')
        self.assertTrue(found.summary.endswith('is none of this page.'))
        self.assertEqual([entry.head for entry in found.positionals], ['HOST'])
        self.assertEqual(list(found.groups), ['Options', 'Observation and faults'])
        port, mode = found.groups['Options'][1:]
        self.assertEqual((port.names, port.argument, port.values), (['-p', '--port'], 'N', []))
        self.assertEqual((mode.names, mode.argument, mode.values),
                         (['--mode'], 'NAME', ['bw', 'lat']))
        self.assertIn('begins with a dot', found.verbatim['EXAMPLES'])

    def test_commands(self):
        found = help_text.parse('rh-try', WITH_COMMANDS)
        self.assertEqual([entry.head for entry in found.commands], ['go', 'stop'])

    def test_other_forms_are_refused(self):
        for text in (HELP.replace('USAGE', 'usage:'), HELP.replace('  rh-try [options]', '  rh-other'),
                     HELP.replace('\n  -h, --help', '\n -h, --help'), 'Nothing.\n\nUSAGE\n  rh-try\n',
                     HELP + '\nOptions\n  --twice\n      a section\n',
                     HELP.replace('default 18515', 'default \x01')):
            with self.subTest(text[:60]), self.assertRaises(help_text.HelpError):
                help_text.parse('rh-try', text)


class Page(unittest.TestCase):
    def test_sections(self):
        titles = re.findall(r'(?m)^\.SH "(.*)"$', manual())
        self.assertEqual(titles, ['NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'FILES',
                                  'EAL ARGUMENTS', 'EXIT STATUS', 'EXAMPLES', 'SEE ALSO'])
        self.assertTrue(manual().startswith('.TH RH-TRY 1 "2026-01-02" "Rockhopper 1.2.3"'))
        self.assertIn('rh\\-try \\- sends things to and fro, and counts them\n', manual())

    def test_options_stand_once(self):
        """A table that says of options what --help says is left out, and what leads to it mended."""
        options, description = section(manual(), 'OPTIONS'), section(manual(), 'DESCRIPTION')
        self.assertIn('\\fB\\-p\\fR, \\fB\\-\\-port\\fR \\fIN\\fR', options)
        self.assertNotIn('port', description)
        self.assertNotIn('capture', description)
        self.assertIn('with these options (see OPTIONS).', description)

    def test_unknown_options_stay(self):
        text = DOCUMENT.replace('| `-p`, `--port N` | the port |', '| `-q` | quietly |')
        program = help_text.parse('rh-try', HELP)
        made = page.page_of_program(program, markdown.read(text)[1:], 1, '2026-01-02', '1',
                                    frozenset(('rh-try',)))
        self.assertIn('quietly', section(made, 'DESCRIPTION'))

    def test_examples_stand_once(self):
        same = DOCUMENT.replace('Its counters', '```\nrh-try        # what --help shows\n```\n\nIts counters')
        more = same.replace('rh-try        #', 'rh-try --mode lat   #')
        for text, kept in ((same, False), (more, True)):
            program = help_text.parse('rh-try', HELP)
            made = page.page_of_program(program, markdown.read(text)[1:], 1, '2026-01-02', '1',
                                        frozenset(('rh-try',)))
            self.assertEqual('what \\-\\-help shows' in section(made, 'DESCRIPTION'), kept)

    def test_exit_status_of_the_document(self):
        self.assertIn('0 in the end.', section(manual(), 'EXIT STATUS'))
        self.assertNotIn('0 in the end.', section(manual(), 'DESCRIPTION'))

    def test_see_also(self):
        self.assertIn('.BR rh-perf (1),\n.BR rockhopper (7)', section(manual(), 'SEE ALSO'))

    @unittest.skipUnless(shutil.which('man'), 'no man')
    def test_rendered(self):
        text, warnings = rendered(manual())
        self.assertEqual(warnings, '')
        for expected in ("\\n and 'quotes' stay", ".hidden 'x' -p 1", '.code --here', 'a\\b',
                         '(type: number)', '-p, --port N'):
            self.assertIn(expected, re.sub(r'\s+', ' ', text))

    def test_nothing_becomes_a_request(self):
        for row in ('.SH x', "'x", '\\fBx', 'x\\'):
            self.assertNotRegex('\n'.join(roff.code(row)[3:-2]), r"(?m)^[.']|\\f|\\$")
            self.assertNotRegex('\n'.join(roff.filled(markdown.inline(row))), r"(?m)^[.']|\\fB|\\$")

    def test_long_words(self):
        """They are broken where a line has no room for them, and groff does not complain."""
        word = ','.join(f'parameter{number}=1' for number in range(8))
        text = '\n'.join(['.TH X 1', '.SH X', '.TP', 'head', *roff.filled(f'one of {word} two')])
        done = subprocess.run(['groff', '-ww', '-man', '-Tascii'], input=text, text=True, check=True,
                              capture_output=True)
        self.assertEqual(done.stderr, '')
        self.assertIn(word, ''.join(done.stdout.split()))

    def test_long_code_lines(self):
        """They are continued in the source, and whole when shown."""
        row = ' '.join(f'--option-{number}=value\\{number}' for number in range(40))
        source = '\n'.join(roff.code(row)[3:-2])
        self.assertTrue(all(len(part) <= 80 for part in source.splitlines()))
        self.assertEqual(source.replace('\\\n', '').replace('\\-', '-').replace('\\e', '\\'), row)


class Completion(unittest.TestCase):
    def setUp(self):
        self.program = help_text.parse('rh-try', HELP)
        self.several = help_text.parse('rh-try', WITH_COMMANDS)
        for command in ('go', 'stop'):
            self.several.of_commands[command] = help_text.parse(
                f'rh-try {command}', HELP.replace('rh-try', f'rh-try {command}', 1)
                .replace('--mode', f'--mode-of-{command}'))

    def completed(self, program, *words):
        quoted = ' '.join(f"'{word}'" for word in words)
        script = (completion.bash(program) + f"\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}"
                  '\n_rh_try 2>/dev/null; echo "${COMPREPLY[@]}"')
        done = subprocess.run(['bash', '-c', script], check=True, text=True, capture_output=True)
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(self.completed(self.program, 'rh-try', '--p'), ['--port', '--pcap'])
        self.assertEqual(self.completed(self.program, 'rh-try', '--mode', ''), ['bw', 'lat'])
        self.assertEqual(self.completed(self.program, 'rh-try', '--mode', '=', 'l'), ['lat'])
        self.assertEqual(self.completed(self.program, 'rh-try', '--mode', '='), ['bw', 'lat'])
        self.assertEqual(self.completed(self.program, 'rh-try', '--port', '-'), [])
        self.assertEqual(self.completed(self.program, 'rh-try', ''), [])

    def test_bash_commands(self):
        self.assertEqual(self.completed(self.several, 'rh-try', 's'), ['stop'])
        self.assertEqual(self.completed(self.several, 'rh-try', 'go', '--m'), ['--mode-of-go'])
        self.assertEqual(self.completed(self.several, 'rh-try', 'stop', '--mode-of-stop', 'b'),
                         ['bw'])

    def check_syntax(self, shell, text):
        with tempfile.NamedTemporaryFile('w') as file:
            file.write(text)
            file.flush()
            subprocess.run([shell, '-n', file.name], check=True, capture_output=True)

    @unittest.skipUnless(shutil.which('zsh'), 'no zsh')
    def test_zsh(self):
        for program in (self.program, self.several):
            self.check_syntax('zsh', completion.zsh(program))

    @unittest.skipUnless(shutil.which('fish'), 'no fish')
    def test_fish(self):
        for program in (self.program, self.several):
            self.check_syntax('fish', completion.fish(program))


class Project(unittest.TestCase):
    """What is said in two files of the project agrees."""

    def test_each_program_has_a_manual(self):
        installed = set(re.findall(r"executable\('(rh-[a-z-]+)'.*install: true",
                                   (ROOT / 'apps/meson.build').read_text()))
        documented = set(re.findall(r"(?m)^  '(rh-[a-z-]+)': \[",
                                    (ROOT / 'docs/meson.build').read_text()))
        scripts = {'rh-check', 'rh-lab', 'rh-report', 'rh-stats'}
        self.assertEqual(installed | scripts, documented)

    def test_version(self):
        version = re.search(r"(?m)^  version: '(.*)'", (ROOT / 'meson.build').read_text())[1]
        newest = (ROOT / 'debian/changelog').read_text().splitlines()[0]
        self.assertTrue(newest.startswith(f'rockhopper ({version}) '), newest)


if __name__ == '__main__':
    unittest.main()
