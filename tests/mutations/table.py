# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The mutations of table.json, and what is wrong with them.

A mutation takes one protection out of the code by patches, and its tests must fail then. A patch
replaces the lines `find` of `file` by the lines `put`: whole lines, each a string (a single line
needs no list), of which the blanks around do not count. They have to be in the file exactly once. A
mutation that takes out what others do names those in `all_of` in place of `patches`.
"""

import collections
import dataclasses
import fnmatch
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PRODUCT = ('stack/', 'roce/', 'dc/', 'apps/')
SCRIPTS = 'tests/conformance/scripts'

GTEST = re.compile(r'\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)')
INSTANCES = re.compile(r'\bINSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)')


class Problem(Exception):
    """What is wrong with a mutation, in one line."""


def as_lines(value):
    """Of `find` or `put`: none for an empty string, one for another string, or those of a list."""
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise Problem(f'{json.dumps(value)} is neither a line nor a list of lines')
    return [line.strip() for line in lines] if lines != [''] else []


@dataclasses.dataclass(frozen=True)
class Patch:
    file: str
    find: tuple[str, ...]
    put: tuple[str, ...]

    def place(self, lines):
        """Where the lines to replace begin among `lines`, which are stripped."""
        size = len(self.find)
        places = [at for at in range(len(lines) - size + 1)
                  if tuple(lines[at:at + size]) == self.find]
        if len(places) != 1:
            raise Problem(f'`{self.find[0]}`{" ..." if size > 1 else ""} matches {len(places)} times '
                          f'in {self.file}')
        return places[0]


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    without: str
    patches: tuple[Patch, ...]
    tests: tuple[dict, ...]

    def files(self):
        return sorted({patch.file for patch in self.patches})

    def apply(self, file, text):
        """The text of one of its files without the protection."""
        lines = text.split('\n')
        stripped = [line.strip() for line in lines]
        edits = sorted(((patch.place(stripped), patch) for patch in self.patches
                        if patch.file == file), key=lambda edit: edit[0], reverse=True)
        end = len(lines)
        for at, patch in edits:
            if at + len(patch.find) > end:
                raise Problem(f'two patches of {file} overlap at line {at + 1}')
            lines[at:at + len(patch.find)] = patch.put
            end = at
        return '\n'.join(lines)


def fields(entry, needed, optional=()):
    """Fails if the object has others, or lacks one that is needed."""
    for name in (*needed, *entry):
        if name not in entry:
            raise Problem(f'has no `{name}`')
        if name not in (*needed, *optional):
            raise Problem(f'has a field `{name}`, which means nothing')


def parse_patch(entry):
    fields(entry, ('file', 'find', 'put'))
    patch = Patch(entry['file'], tuple(as_lines(entry['find'])), tuple(as_lines(entry['put'])))
    if not any(patch.find):
        raise Problem(f'a patch of {patch.file} finds nothing')
    if patch.find == patch.put:
        raise Problem(f'a patch of {patch.file} puts what it finds')
    return patch


def parse_test(entry):
    if 'scripts' in entry:
        fields(entry, ('program', 'scripts'), ('tries',))
    elif 'python' in entry:
        fields(entry, ('program', 'filter', 'python', 'variable'), ('tries',))
    elif 'run_by' in entry:
        fields(entry, ('program', 'filter', 'run_by', 'variable'), ('tries',))
    else:
        fields(entry, ('program', 'filter'), ('tries',))
    return entry


def parse(entries):
    """The mutations of a table, and the problems of those that are none as (name, problem)."""
    mutations, problems, composed = {}, [], []
    for entry in entries:
        name = entry.get('mutation', '?')
        try:
            patches = 'all_of' if 'all_of' in entry else 'patches'
            fields(entry, ('mutation', 'without', patches, 'tests'))
            if name in mutations:
                raise Problem('is in the table twice')
            if not entry['tests'] or not entry[patches]:
                raise Problem('has no tests' if not entry['tests'] else f'has no {patches}')
            tests = tuple(parse_test(test) for test in entry['tests'])
            own = tuple(parse_patch(patch) for patch in entry.get('patches', ()))
            mutations[name] = Mutation(name, entry['without'], own, tests)
            if 'all_of' in entry:
                composed.append((name, entry['all_of']))
        except Problem as problem:
            problems.append((name, problem))
    alone = {name for name, mutation in mutations.items() if mutation.patches}
    for name, others in composed:
        unknown = [other for other in others if other not in alone]
        if unknown:
            problems.append((name, Problem(f'{unknown[0]} is no mutation with patches')))
            del mutations[name]
            continue
        patches = tuple(patch for other in others for patch in mutations[other].patches)
        mutations[name] = dataclasses.replace(mutations[name], patches=patches)
    return list(mutations.values()), problems


def load():
    return parse(json.loads((HERE / 'table.json').read_text(encoding='utf-8')))


def check_patches(mutation, root=ROOT):
    """Fails unless each patch has its place."""
    for file in mutation.files():
        if not file.startswith(PRODUCT) or not (root / file).is_file():
            raise Problem(f'{file} is no file of {", ".join(PRODUCT)}')
        mutation.apply(file, (root / file).read_text(encoding='utf-8'))


def gtest_names(sources):
    """The tests of a program, `*` for the name of each parameter."""
    text = '\n'.join(sources)
    instances = collections.defaultdict(list)
    for prefix, suite in INSTANCES.findall(text):
        instances[suite].append(prefix)
    for suite, name in GTEST.findall(text):
        yield f'{suite}.{name}'
        yield from (f'{prefix}/{suite}.{name}/*' for prefix in instances[suite])


def selects(pattern, name):
    """Whether the pattern of a filter takes in a test; of a parameter any name is believed."""
    if name.endswith('/*') and '/' in pattern:
        name = name[:-1] + pattern.rpartition('/')[2]
    return fnmatch.fnmatchcase(name, pattern)


def check_filter(text, sources):
    """Fails unless each pattern of GoogleTest's filter takes in a test of these sources."""
    names = set(gtest_names(sources))
    for pattern in text.split('-')[0].split(':'):
        if not any(selects(pattern, name) for name in names):
            raise Problem(f'no test matches {pattern}')


def check_test(test, sources_of, root=ROOT):
    """Fails unless the program is built and has the tests; `sources_of(program)` are its texts."""
    programs = [test[key] for key in ('program', 'run_by') if key in test]
    texts = {program: sources_of(program) for program in programs}
    for program in programs:
        if not texts[program]:
            raise Problem(f'{program} is no program of the build folder')
    if 'scripts' in test:
        for pattern in test['scripts'].split():
            if not any((root / SCRIPTS).glob(f'{pattern}*')):
                raise Problem(f'no script of {SCRIPTS} begins with {pattern}')
    elif 'python' in test:
        file = root / test['python']
        text = file.read_text(encoding='utf-8') if file.is_file() else ''
        for name in test['filter'].split():
            suite, _, method = name.partition('.')
            if f'class {suite}(' not in text or f'def {method}(' not in text:
                raise Problem(f'{test["python"]} has no {name}')
    else:
        check_filter(test['filter'], texts[programs[-1]])


def problems_of(mutations, sources_of, root=ROOT):
    """What is wrong with each, without compiling anything: (name, problem)."""
    by_patches = {}
    for mutation in mutations:
        twin = by_patches.setdefault(mutation.patches, mutation)
        try:
            if twin is not mutation:
                raise Problem(f'has the patches of {twin.name}; tests of one mutation stand together')
            check_patches(mutation, root)
            for number, test in enumerate(mutation.tests):
                if test in mutation.tests[:number]:
                    raise Problem(f'has a test of {test["program"]} twice')
                check_test(test, sources_of, root)
        except Problem as problem:
            yield mutation.name, problem
