# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What a program says with --help, as data. apps/common/help_formatter.cc has the form of it."""

import dataclasses
import re
import subprocess

# Sections that are text; all others list options or commands.
VERBATIM = ('EXAMPLES', 'EAL ARGUMENTS', 'EXIT STATUS')
_COMMANDS = 'COMMANDS (each has --help)'
_POSITIONALS = 'Positionals'


class HelpError(Exception):
    """A program's help has not the form that is expected of it."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One option, positional argument or command."""
    head: str  # "-p, --port N"
    text: str  # what it does, on one line

    @property
    def names(self):
        """["-p", "--port"]; of an argument or command its name."""
        names, _ = self._split()
        return names

    @property
    def argument(self):
        """What the option takes, "" for a flag."""
        _, argument = self._split()
        return argument

    def _split(self):
        *before, last = self.head.split(', ')
        name, _, argument = last.partition(' ')
        return [*before, name], argument

    @property
    def values(self):
        """The words that it takes, if they are a set."""
        found = re.findall(r'\{([^{}]*)\}', self.text.rpartition('(')[2])
        return found[-1].split(',') if found else []


@dataclasses.dataclass
class Help:
    """The help of a program, or of one of its commands."""
    name: str
    summary: str
    usage: str  # without the program's name
    groups: dict  # {"Network": [Entry...]}
    commands: list  # [Entry...]
    positionals: list  # [Entry...]
    verbatim: dict  # {"EXAMPLES": text}
    of_commands: dict = dataclasses.field(default_factory=dict)  # {"serve": Help}

    @property
    def options(self):
        return [entry for entries in self.groups.values() for entry in entries]


def _entries(lines, section):
    entries = []
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 2:
            entries.append([line.strip(), []])
        elif indent > 2 and entries:
            entries[-1][1].append(line.strip())
        else:
            raise HelpError(f'section {section!r}: unexpected line {line!r}')
    return [Entry(head, ' '.join(text)) for head, text in entries]


def parse(name, text):
    """The Help that `text` is. `name` is the program's, with a command behind it if it is one's."""
    lines = text.splitlines()
    for line in lines:
        if not line.isprintable():
            raise HelpError(f'{name} --help has a control character: {line!r}')
    try:
        start = lines.index('USAGE')
    except ValueError:
        raise HelpError(f'{name} --help has no line USAGE') from None
    summary = ' '.join(line.strip() for line in lines[:start] if line.strip())
    sections, title = {'USAGE': []}, 'USAGE'
    for line in lines[start + 1:]:
        if line and not line.startswith(' '):
            title = line
            if title in sections:
                raise HelpError(f'{name} --help has section {title!r} twice')
            sections[title] = []
        else:
            sections[title].append(line)
    usage = ' '.join(' '.join(sections.pop('USAGE')).split())
    if not usage.startswith(name):
        raise HelpError(f'{name} --help has the usage of another program: {usage!r}')
    verbatim = {title: '\n'.join(sections.pop(title)).strip('\n')
                for title in VERBATIM if title in sections}
    commands = _entries(sections.pop(_COMMANDS, []), 'COMMANDS')
    positionals = _entries(sections.pop(_POSITIONALS, []), _POSITIONALS)
    groups = {title: _entries(body, title) for title, body in sections.items()}
    if not summary or not any(groups.values()):
        raise HelpError(f'{name} --help has no summary or no options')
    return Help(name, summary, usage[len(name):].strip(), groups, commands, positionals, verbatim)


def ask(program, name):
    """Runs the program for its help, and that of each of its commands."""
    def run(*arguments):
        done = subprocess.run([program, *arguments, '--help'], check=False, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            raise HelpError(f'{" ".join([name, *arguments])} --help has failed with status '
                            f'{done.returncode}: {done.stderr.strip()}')
        return done.stdout

    result = parse(name, run())
    for command in result.commands:
        result.of_commands[command.head] = parse(f'{name} {command.head}', run(command.head))
    return result
