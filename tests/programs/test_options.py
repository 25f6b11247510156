# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Every program's options, their values and defaults, as they were and shall stay.

options.txt has a line for each option of each program and command: its names and argument, and what
--help says of its values and its default. An option that is new, gone or different on purpose stands
in WANTED, until options.txt is written again by `test_options.py --write`.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAMS = pathlib.Path(os.environ.get('ROCKHOPPER_PROGRAMS', 'build/apps'))
LISTS = pathlib.Path(__file__).with_name('options.txt')
NAMES = ('rh-accounts', 'rh-ami', 'rh-cm', 'rh-dag', 'rh-perf', 'rh-pingpong', 'rh-publish', 'rh-run',
         'rh-sim', 'rh-stats', 'rh-subscribe', 'rh-switch')
# Lines of options.txt with a leading '-' if they are gone, '+' if they are new.
WANTED = ()

# A group's title stands at the margin, an option's names behind two spaces, its text behind six.
OPTION = re.compile(r'  (-\S.*|\S+)')
# "(0 to 7; default 3)", "({bw,lat}; default bw)", "([1 - 31])", "(above 0)": the end of an option's text.
VALUES = re.compile(r'\(([^()]*(?:default [^()]*|\[[^()]*\]|\{[^()]*\}|above 0))\)$')
SECTIONS_WITHOUT_OPTIONS = ('USAGE', 'EXAMPLES', 'EAL ARGUMENTS', 'EXIT STATUS')


def help_of(program, *command):
    run = subprocess.run([PROGRAMS / program, *command, '--help'], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=120, check=True)
    return run.stdout


def paragraphs(text):
    """Each option's section, names and text."""
    section, found = '', []
    for line in text.splitlines():
        if line and not line.startswith(' '):
            section = line
        elif section in SECTIONS_WITHOUT_OPTIONS or not line:
            continue
        elif line.startswith('      ') and found:
            found[-1][2] += ' ' + line.strip()
        elif match := OPTION.fullmatch(line):
            found.append([section, match.group(1), ''])
    return found


def options_of(program, *command):
    """A line for each option, and all of its commands' options."""
    title = ' '.join((program, *command))
    for section, names, text in paragraphs(help_of(program, *command)):
        if section.startswith('COMMANDS'):
            yield f'{title}: command {names}'
            yield from options_of(program, names)
            continue
        values = VALUES.search(text)
        yield f'{title}: {names}' + (f' ({values.group(1)})' if values else '')


def all_options():
    return [line for program in NAMES for line in options_of(program)]


def bad_values(option):
    """Values that an option does not take, each with what a line about it has to have."""
    if found := re.search(r'\(\[(\S+) - (\S+)\]', option):
        low, high = found.groups()
        yield 'x', (low, high) if low.isdigit() and high.isdigit() else ()
        if low.isdigit() and high.isdigit():
            yield str(int(high) + 1), (low, high)
            if int(low) > 0:
                yield str(int(low) - 1), (low, high)
        else:
            yield '1e300', [f'{float(end):.15g}' for end in (low, high)]
    elif found := re.search(r'\(\{([^}]+)\}', option):
        yield 'nonsense', found.group(1).split(',')
    elif '(above 0' in option:
        yield '0', ('above 0',)


class Options(unittest.TestCase):
    def test_options_are_as_they_were(self):
        before = collections.Counter(LISTS.read_text(encoding='utf-8').splitlines())
        now = collections.Counter(all_options())
        changes = [f'-{line}' for line in before - now] + [f'+{line}' for line in now - before]
        self.assertEqual(sorted(changes), sorted(WANTED))

    def test_values_that_are_not_allowed(self):
        """The line names the option, the value and what is allowed."""
        tried = 0
        for line in all_options():
            title, _, rest = line.partition(': ')
            for value, allowed in bad_values(rest):
                option = next(name for name in re.split(r'[ ,]+', rest) if name.startswith('--'))
                with self.subTest(program=title, option=option, value=value):
                    program, *command = title.split()
                    run = subprocess.run([PROGRAMS / program, *command, option, value],
                                         stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                         timeout=120, check=False)
                    self.assertEqual((run.returncode, run.stdout), (2, ''), run.stderr)
                    self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
                    for word in (option, value, *allowed):
                        self.assertIn(word, run.stderr)
                tried += 1
        self.assertGreater(tried, 300)

    def test_a_changed_option_is_seen(self):
        text = 'Does it.\n\nUSAGE\n  rh-x [options]\n\nOptions\n  -n, --count N\n      how many\n      (default {})\n'
        was, now = (list(paragraphs(text.format(count))) for count in (3, 4))
        self.assertEqual(was, [['Options', '-n, --count N', ' how many (default 3)']])
        self.assertNotEqual(was, now)


if __name__ == '__main__':
    if sys.argv[1:] == ['--write']:
        LISTS.write_text('\n'.join(all_options()) + '\n', encoding='utf-8')
    else:
        unittest.main()
