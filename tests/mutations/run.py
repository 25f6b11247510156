#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Proves that tests can fail: builds the library with one protection left out (meson option
`mutation`) and expects that the test named in table.json then fails.

Closes with `N passed, N failed`; passed means that the test noticed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 600


def quiet(command, env):
    result = subprocess.run([str(c) for c in command], cwd=ROOT, env=env, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    if result.returncode != 0:
        print(result.stdout[-4000:])
    return result.returncode == 0


def build(folder, mutation, program, env):
    if (folder / 'build.ninja').exists():
        configured = quiet(['meson', 'configure', folder, f'-Dmutation={mutation}'], env)
    else:
        configured = quiet(['meson', 'setup', folder, ROOT, '-Dwerror=false',
                            f'-Dmutation={mutation}'], env)
    return configured and quiet(['ninja', '-C', folder, program], env)


def test_command(row, folder):
    """GoogleTest, or conformance scripts with the program as their device."""
    program = folder / row['program']
    if 'scripts' in row:
        return [sys.executable, ROOT / 'tests/conformance/run.py', '--program', program,
                *row['scripts'].split()]
    return [program, f'--gtest_filter={row["filter"]}', '--gtest_fail_fast']


def test_output(command):
    """Runs the test; its exit status (None: neither passed nor failed in time) and its output."""
    try:
        result = subprocess.run(
            command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=LIMIT_S, errors='replace')
    except subprocess.TimeoutExpired:
        return None, ''
    return result.returncode, result.stdout


def verdict(row, folder, env):
    """Empty when the test noticed the mutation, else what is wrong."""
    if not build(folder, row['mutation'], row['program'], env):
        return 'does not build'
    status, output = test_output(test_command(row, folder))
    proof = row.get('filter') or row['scripts']
    if status is None:
        return f'the test neither passed nor failed in {LIMIT_S} s'
    if '[ RUN      ]' not in output and 'failed, ' not in output:
        return f'no test matches {proof}'
    return '' if status != 0 else f'{proof} passes without {row["without"]}'


def known_mutations():
    """The switches that the code has, from the macro names."""
    names = set()
    for folder in ('stack', 'roce', 'dc'):
        for path in (ROOT / folder).rglob('*'):
            if path.suffix in ('.h', '.cc'):
                names.update(re.findall(r'ROCKHOPPER_MUTATION_(\w+)', path.read_text()))
    return {name.lower() for name in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mutations', nargs='*', help='only these')
    parser.add_argument('--all', action='store_true', help='also those that are not run by default')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/mutation')
    arguments = parser.parse_args()
    table = json.loads((HERE / 'table.json').read_text())
    failed = passed = 0
    for name in sorted(known_mutations() - {row['mutation'] for row in table}):
        print(f'mutation {name:<16} FAILED: the code has it, table.json does not')
        failed += 1
    env = {**os.environ, 'CCACHE_NOHASHDIR': '1'}
    if shutil.which('ccache'):
        env.update(CC='ccache gcc', CXX='ccache g++')
    for row in table:
        wanted = (row['mutation'] in arguments.mutations if arguments.mutations
                  else arguments.all or row.get('default', False))
        if not wanted:
            continue
        problem = verdict(row, arguments.build.resolve(), env)
        passed, failed = passed + (not problem), failed + bool(problem)
        print(f'mutation {row["mutation"]:<16} ' +
              (f'FAILED: {problem}' if problem
               else 'noticed by ' + (row.get('filter') or row['scripts'])), flush=True)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or passed == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
