#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Proves that tests can fail: each mutation of table.json leaves one protection out, and the tests
named there must fail then.

Starts from a build folder that is up to date. Compiles anew only what is made from the patched
files, and links each test with these objects in front of the library. Where sources are compiled
together (`-Dcombine=true`), that is first the patched source by itself, whose functions then come before
those of the library. Callers among the others may have the original inlined: if the test passes, all that
stand with the patched one are compiled, and it runs again.

Closes with `N passed, N failed`; passed means that the test noticed.
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from table import ROOT, Problem, check_patches, load, problems_of

sys.path.insert(0, str(ROOT / 'scripts'))

from testing import combined_sources, shares  # noqa: E402

LIMIT_S = 600
FOLDER = 'mutations'  # of the build folder
# With these a compiler cache takes precompiled headers, and another clone's results.
CACHE = {'CCACHE_NOHASHDIR': '1', 'CCACHE_SLOPPINESS': 'pch_defines,time_macros'}
# The first function of a name is taken.
FIRST_OF_SEVERAL = '-Wl,-z,muldefs'


class Tree:
    """A build folder of ninja."""

    def __init__(self, folder):
        self.folder = folder
        try:
            entries = json.loads((folder / 'compile_commands.json').read_text())
        except OSError as error:
            raise SystemExit(f'{error}: `meson setup {folder}` makes it') from error
        self.compilers = {entry['output']: entry['command'] for entry in entries}
        self.sources = {entry['output']: entry['file'] for entry in entries}

    @functools.cached_property
    def users(self):
        """Of each file: the objects that are made from it."""
        users = {}
        for line in self.ninja('-t', 'deps').splitlines():
            if line.startswith(' '):
                users.setdefault((self.folder / line.strip()).resolve(), set()).add(target)
            elif line:
                target = line.split(':')[0]
        return users

    def ninja(self, *arguments):
        return subprocess.run(['ninja', *arguments], cwd=self.folder, text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    def run(self, command):
        done = subprocess.run(command, cwd=self.folder, env={**CACHE, **os.environ}, text=True,
                              errors='replace', stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Problem('does not build: ' + done.stdout[-2000:])

    @functools.cache  # noqa: B019: the tree lives as long as the program
    def parts(self, target):
        """The sources in the repository that the object is compiled from, in their order."""
        return combined_sources.parts(self.folder / self.sources[target])

    @functools.cache  # noqa: B019
    def texts(self, program):
        """The sources that are compiled for the program alone."""
        return [part.read_text(encoding='utf-8')
                for target in self.sources if target.startswith(f'{program}.p/')
                for part in self.parts(target)]

    def link_command(self, program):
        return shlex.split(self.ninja('-t', 'commands', '-s', program))

    @contextlib.contextmanager
    def folder_of(self, mutation):
        """For the time being. Its name is the same each time, for the sake of a compiler cache."""
        folder = self.folder / FOLDER / mutation.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder.relative_to(self.folder)
        finally:
            shutil.rmtree(folder)

    @contextlib.contextmanager
    def alone(self):
        """Waits until no other run has the folder."""
        (self.folder / FOLDER).mkdir(exist_ok=True)
        with open(self.folder / FOLDER / 'lock', 'w', encoding='utf-8') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class Mutant:
    """One mutation in a folder of its own, relative to that of the build: patched files, and the
    objects made from these. Several programs may be linked with them."""

    def __init__(self, tree, mutation, folder):
        self.tree, self.mutation, self.folder = tree, mutation, folder
        self.patched = folder / 'patched'  # laid over the repository: headers are found here first
        self.objects = {}
        check_patches(mutation)
        for file in mutation.files():
            place = tree.folder / self.patched / file
            place.parent.mkdir(parents=True, exist_ok=True)
            text = (ROOT / file).read_text(encoding='utf-8')
            place.write_text(mutation.apply(file, text), encoding='utf-8')
        # rh-run looks for its libraries there.
        (tree.folder / folder / 'verbs').symlink_to(tree.folder / 'apps/verbs')

    def compile(self, target, alone=None):
        """The object in place of `target`, compiled as that was but for warnings and debug data; or
        of it only the patched source `alone`."""
        if (target, alone) in self.objects:
            return self.objects[target, alone]
        to = str(self.folder / f'{len(self.objects)}.o')
        source = str(self.patched / alone) if alone else self.source(target, f'{to}.cpp')
        places = {target: to, f'{target}.d': f'{to}.d', self.tree.sources[target]: source}
        command = [places.get(part, part) for part in shlex.split(self.tree.compilers[target])]
        command[command.index('-MQ') + 1] = to
        self.tree.run([*command, '-iquote', str(self.patched), '-w', '-g0'])
        if str(self.patched) not in (self.tree.folder / f'{to}.d').read_text():
            raise Problem(f'{target} is made without the patched file')
        self.objects[target, alone] = to
        return to

    def alone(self, target):
        """The patched sources that can stand for `target` by themselves: if it is compiled from
        several, and no header is patched."""
        files = self.mutation.files()
        if (not combined_sources.is_combined(self.tree.sources[target])
                or any(file.endswith('.h') for file in files)):
            return []
        return [file for file in files if (ROOT / file).resolve() in self.tree.parts(target)]

    def source(self, target, combined):
        """What to compile in place of the source of `target`; one that includes a patched file among
        others is written to `combined`."""
        parts = self.tree.parts(target)
        patched = {(ROOT / file).resolve(): self.patched / file for file in self.mutation.files()}
        if not patched.keys() & set(parts):
            return self.tree.sources[target]  # includes a patched header, which is found by itself
        if not combined_sources.is_combined(self.tree.sources[target]):
            return str(patched[parts[0]])
        lines = [f'#include "{self.tree.folder / patched.get(part, part)}"\n' for part in parts]
        (self.tree.folder / combined).write_text(''.join(lines), encoding='utf-8')
        return combined

    def link(self, program, whole):
        """The program as it is without the protection, but for what is inlined of it elsewhere, unless
        it is to be whole. Returns its path, which is absolute, and whether it is whole."""
        tree = self.tree
        files = [(ROOT / file).resolve() for file in self.mutation.files()]
        targets = sorted(set().union(*(tree.users.get(file, set()) for file in files)))
        command = tree.link_command(program)
        own = f'{program}.p/'
        linked = [f'{archive}.p/' for archive in command if archive.endswith('.a')]
        # Each source once: some programs compile a library's themselves, or have it in two libraries.
        chosen, compiled = [], set()
        for target in sorted((target for target in targets if target.startswith((own, *linked))),
                             key=lambda target: (not target.startswith(own), -len(tree.parts(target)))):
            if not compiled.issuperset(tree.parts(target)):
                chosen.append(target)
                compiled.update(tree.parts(target))
        if not chosen:
            raise Problem(f'{program} has nothing that is made from {" or ".join(map(str, files))}')
        alone = {} if whole else {target: self.alone(target) for target in chosen}
        before = [self.compile(target, file) for target, files in alone.items() for file in files]
        mutated = {target: self.compile(target) for target in chosen if not alone.get(target)}
        to = str(self.folder / program.replace('/', '-'))
        command[command.index('-o') + 1] = to
        command = [mutated.pop(part, part) for part in command]
        # What the archive has of the same name is then not wanted.
        first = command.index('-o')
        tree.run([*command[:first], *before, *mutated.values(), *command[first:],
                  *([FIRST_OF_SEVERAL] if before else [])])
        return str(tree.folder / to), not before


def test_command(test, program):
    """GoogleTest, by another program that starts this one if the test says so; or conformance
    scripts with the program as their device; or a test in Python that starts it."""
    if 'python' in test:
        return [sys.executable, ROOT / test['python'], *test['filter'].split()]
    if 'scripts' in test:
        return [sys.executable, ROOT / 'tests/conformance/run.py', '--program', program,
                *test['scripts'].split()]
    return [test.get('run_by', program), f'--gtest_filter={test["filter"]}', '--gtest_fail_fast']


def what(test):
    return test.get('filter') or test['scripts']


def notices(tree, test, program):
    """Whether the test fails with the mutated program."""
    environment = {**os.environ, 'ROCKHOPPER_PROGRAMS': str(tree.folder / 'apps'),
                   **({test['variable']: program} if 'variable' in test else {})}
    try:
        done = subprocess.run(test_command(test, program), cwd=tree.folder, env=environment,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT_S, errors='replace')
    except subprocess.TimeoutExpired as late:
        raise Problem(f'the test neither passed nor failed in {LIMIT_S} s') from late
    if not any(begin in done.stdout for begin in ('[ RUN      ]', 'failed, ', 'Ran 1 test')):
        raise Problem(f'no test matches {what(test)}')
    return done.returncode != 0


def passes(tree, link, test, whole=False):
    """Whether the test notices nothing, even with the program that `link` makes whole."""
    program, is_whole = link(test['program'], whole)
    if any(notices(tree, test, program) for _ in range(test.get('tries', 1))):
        return False
    return is_whole or passes(tree, link, test, whole=True)


def verdicts(tree, mutation, tests):
    """(test, None or its problem) for each; where it takes a race to notice, in several tries."""
    with tree.folder_of(mutation) as folder:
        try:
            mutant = Mutant(tree, mutation, folder)
        except Problem as problem:
            return [(test, problem) for test in tests]
        link = functools.cache(mutant.link)
        found = []
        for test in tests:
            try:
                if passes(tree, link, test):
                    raise Problem(f'{what(test)} passes without {mutation.without}')
                found.append((test, None))
            except Problem as problem:
                found.append((test, problem))
        return found


def chosen_tests(mutations, arguments):
    """[(mutation, its tests to run)], as the arguments say."""
    chosen = []
    for mutation in mutations:
        if arguments.mutations and mutation.name not in arguments.mutations:
            continue
        tests = [test for test in mutation.tests
                 if arguments.mutations or arguments.all or 'tries' not in test]
        if tests:
            chosen.append((mutation, tests))
    return chosen[arguments.share]


def results(tree, runs, jobs):
    """(name, test, None or its problem) for all tests, as they end."""
    if not runs:
        return
    with tree.alone(), concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for (mutation, _), found in zip(runs, pool.map(lambda run: verdicts(tree, *run), runs)):
            yield from ((mutation.name, test, problem) for test, problem in found)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mutations', nargs='*', help='only these')
    parser.add_argument('--all', action='store_true', help='also tests that take several tries to '
                        'notice')
    shares.add_option(parser, 'mutation of the table')
    parser.add_argument('--check', action='store_true', help='compile nothing; only check that each '
                        'patch has its place, and that programs and tests are there')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/gcc',
                        help='folder that has been built, for --check only configured (build/gcc)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    return parser, parser.parse_args()


def main():
    parser, arguments = parse_arguments()
    mutations, problems = load()
    known = {mutation.name for mutation in mutations} | {name for name, _ in problems}
    for name in arguments.mutations:
        if name not in known:
            parser.error(f'table.json has no mutation {name}')
    tree = Tree(arguments.build.resolve())
    failed = passed = 0
    if arguments.check:
        problems += problems_of(mutations, tree.texts)
        passed = len(known) - len({name for name, _ in problems})
    for name, problem in problems:
        print(f'mutation {name:<16} FAILED: {problem}')
        failed += 1
    runs = [] if arguments.check else chosen_tests(mutations, arguments)
    for name, test, problem in results(tree, runs, arguments.jobs):
        verdict = f'FAILED: {problem}' if problem else f'noticed by {what(test)}'
        print(f'mutation {name:<16} {verdict}', flush=True)
        failed += problem is not None
        passed += problem is None
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or passed == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
