#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Does what a page of documents says, in an empty folder, as a reader would who copies it.

A block of code with a file's name behind its language is put into that file. Blocks of `sh` are run
one after the other in one shell, which ends with the first command that fails. Each line of a block
of `text` has to be a line of what the block before has printed; figures and spaces may differ.

Usage: tutorial.py [PAGE]
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TUTORIAL = ROOT / 'docs/tutorial.md'
BLOCK = re.compile(r'^```(\w+)(?: (\S+))?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
END_OF_BLOCK = 'the block that ends here is number'


class TutorialError(Exception):
    """The page says what is not so: a line about it."""


def blocks(page):
    """(language, file or None, text) of each block of code, in order."""
    return [(language, file or None, text) for language, file, text in BLOCK.findall(page)]


def script(page):
    """The page as one script, which says on standard output where the output of each block ends."""
    lines = ['set -euo pipefail']
    for number, (language, file, text) in enumerate(blocks(page)):
        if file:
            lines.append(f"cat > '{file}' <<'END_OF_FILE'\n{text}END_OF_FILE")
        elif language == 'sh':
            lines.append(f'{text}echo "{END_OF_BLOCK} {number}"')
        elif language != 'text':
            raise TutorialError(f'block {number} of {language} has no file')
    return '\n'.join(lines) + '\n'


def outputs(printed):
    """{number of a block: what it has printed}"""
    pieces = re.split(rf'{END_OF_BLOCK} (\d+)\n', printed)
    return {int(number): text for text, number in zip(pieces[::2], pieces[1::2])}


def pattern(line):
    """A line without its figures and the width of its spaces."""
    return re.sub(r'\d+', '0', ' '.join(line.split()))


def differences(page, printed):
    """The lines that the page promises and that were not printed."""
    said, last = outputs(printed), None
    for number, (language, file, text) in enumerate(blocks(page)):
        if language == 'sh' and not file:
            last = number
        elif language == 'text':
            found = {pattern(line) for line in said.get(last, '').splitlines()}
            yield from (line for line in text.splitlines() if pattern(line) not in found)


def follow(page, environment=None):
    """Does what the page says; how many blocks of commands there were. TutorialError."""
    with tempfile.TemporaryDirectory(prefix='rockhopper-') as folder:
        done = subprocess.run(['bash'], input=script(page), cwd=folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise TutorialError(f'exit status {done.returncode} behind\n{done.stdout}\n{done.stderr}')
    missing = list(differences(page, done.stdout))
    if missing:
        raise TutorialError('not printed: ' + '; '.join(missing) + f'\nbut\n{done.stdout}')
    return len(outputs(done.stdout))


def main():
    page = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else TUTORIAL
    try:
        print(f'{page.name}: {follow(page.read_text(encoding="utf-8"))} blocks of commands work')
    except TutorialError as error:
        print(f'{page}: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
