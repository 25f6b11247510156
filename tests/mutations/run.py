#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Proves that tests can fail: for each row of table.json leaves one protection out and expects that
the test named there then fails.

Starts from a build folder that is up to date. Compiles anew only the files that have the switch,
and links the test with these in front of the library.

Closes with `N passed, N failed`; passed means that the test noticed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 600
FOLDERS = ('stack', 'roce', 'dc', 'apps/ami', 'apps/dag', 'apps/publish', 'apps/publisher',
           'apps/subscribe', 'apps/workflow')


class Problem(Exception):
    """What is wrong with a row, in one line."""


def sources_by_mutation():
    """Which files have each switch, from the macro names."""
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob('*'):
            if path.suffix in ('.h', '.cc'):
                for name in re.findall(r'ROCKHOPPER_MUTATION_(\w+)', path.read_text()):
                    found.setdefault(name.lower(), set()).add(path)
    return found


class Tree:
    """A build folder of ninja."""

    def __init__(self, folder):
        self.folder = folder
        entries = json.loads((folder / 'compile_commands.json').read_text())
        self.compilers = {entry['output']: entry['command'] for entry in entries}
        self.sources = {entry['output']: entry['file'] for entry in entries}
        self.users = {}  # of each file: the objects that are made from it
        for line in self.ninja('-t', 'deps').splitlines():
            if line.startswith(' '):
                self.users.setdefault((folder / line.strip()).resolve(), set()).add(target)
            elif line:
                target = line.split(':')[0]

    def ninja(self, *arguments):
        return subprocess.run(['ninja', *arguments], cwd=self.folder, text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    def run(self, command):
        done = subprocess.run(command, cwd=self.folder, text=True, errors='replace',
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Problem('does not build: ' + done.stdout[-2000:])

    def compile(self, target, mutation, to):
        command = shlex.split(self.compilers[target])
        output = command.index('-o') + 1
        command[output] = to
        # Its own list of dependencies is not to be that of the object in the tree.
        self.run([part if part != f'{target}.d' else f'{to}.d' for part in command] +
                 ['-w', f'-DROCKHOPPER_MUTATION_{mutation.upper()}=1'])

    def build(self, mutation, files, program, to):
        """The program as it is without the protection."""
        targets = sorted(set().union(*(self.users.get(path, set()) for path in files)))
        own = [target for target in targets if target.startswith(f'{program}.p/')]
        link = shlex.split(self.ninja('-t', 'commands', '-s', program))
        linked = tuple(f'{archive}.p/' for archive in link if archive.endswith('.a'))
        # Each source once: some programs compile a library's themselves, or have it in two libraries.
        chosen = {self.sources[target]: target for target in targets if target.startswith(linked)}
        chosen.update({self.sources[target]: target for target in own})
        mutated = {}
        for target in chosen.values():
            mutated[target] = f'{to}-{len(mutated)}.o'
            self.compile(target, mutation, mutated[target])
        if not mutated:
            raise Problem('nothing that is built has the switch')
        link[link.index('-o') + 1] = to
        link = [mutated.pop(part, part) for part in link]
        # What the archive has of the same name is then not wanted.
        first = link.index('-o')
        self.run(link[:first] + list(mutated.values()) + link[first:])


def test_command(row, program):
    """GoogleTest, by another program that starts this one if the row says so; or conformance
    scripts with the program as their device; or a test in Python that starts it."""
    if 'python' in row:
        return [sys.executable, ROOT / row['python'], *row.get('filter', '').split()]
    if 'scripts' in row:
        return [sys.executable, ROOT / 'tests/conformance/run.py', '--program', program,
                *row['scripts'].split()]
    return [row.get('run_by', program), f'--gtest_filter={row["filter"]}', '--gtest_fail_fast']


def notices(tree, row, to):
    """Whether the test fails with the mutated program."""
    environment = {**os.environ, 'ROCKHOPPER_PROGRAMS': str(tree.folder / 'apps'),
                   **({row['variable']: to} if 'variable' in row else {})}
    try:
        done = subprocess.run(test_command(row, to), cwd=tree.folder, env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT_S, errors='replace')
    except subprocess.TimeoutExpired as late:
        raise Problem(f'the test neither passed nor failed in {LIMIT_S} s') from late
    proof = row.get('filter') or row['scripts']
    if not any(begin in done.stdout for begin in ('[ RUN      ]', 'failed, ', 'Ran 1 test')):
        raise Problem(f'no test matches {proof}')
    return done.returncode != 0


def check(tree, files, row, to):
    """Passes if the test notices the mutation: where it takes a race, in one of several tries."""
    tree.build(row['mutation'], files, row['program'], to)
    if not any(notices(tree, row, to) for _ in range(row.get('tries', 1))):
        raise Problem(f'{row.get("filter") or row["scripts"]} passes without {row["without"]}')


def share(text):
    numbers = re.fullmatch(r'(\d+)/(\d+)', text)
    if not numbers or int(numbers[1]) >= int(numbers[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is no share; such as 1/3, with K below N")
    return int(numbers[1]), int(numbers[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mutations', nargs='*', help='only these')
    parser.add_argument('--all', action='store_true', help='also those whose test takes several '
                        'tries to notice')
    parser.add_argument('--share', type=share, default=(0, 1), metavar='K/N',
                        help='only every N-th row of the table, from row K (0/1)')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/gcc',
                        help='folder that has been built (build/gcc)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    table = json.loads((HERE / 'table.json').read_text())
    sources = sources_by_mutation()
    failed = passed = 0
    for name in sorted(set(sources) - {row['mutation'] for row in table}):
        print(f'mutation {name:<16} FAILED: the code has it, table.json does not')
        failed += 1
    rows = [row for row in table if (row['mutation'] in arguments.mutations if arguments.mutations
                                     else arguments.all or 'tries' not in row)]
    first, step = arguments.share
    rows = rows[first::step]
    tree = Tree(arguments.build.resolve())
    with tempfile.TemporaryDirectory() as folder, \
         concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [(row, pool.submit(check, tree, sources.get(row['mutation'], ()), row,
                                  f'{folder}/{number}'))
                for number, row in enumerate(rows)]
        for row, run in runs:
            verdict = 'noticed by ' + (row.get('filter') or row['scripts'])
            try:
                run.result()
                passed += 1
            except Problem as problem:
                verdict = f'FAILED: {problem}'
                failed += 1
            print(f'mutation {row["mutation"]:<16} {verdict}', flush=True)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or passed == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
