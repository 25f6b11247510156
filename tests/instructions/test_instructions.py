#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What an operation costs, against tests/instructions/budget.json: see docs/testing.md.

Counts by valgrind the instructions that bench/instruction-load executes in our own code, and takes
the bytes of an idle queue pair. Fails when one differs from its number by more than 2 percent:
more is a loss that a commit has to say why it is worth, less is a gain that the file is to keep.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUDGET = pathlib.Path(__file__).resolve().with_name('budget.json')
TOLERANCE = 0.02
# Of the build; without a word from elsewhere this runs in the build's folder.
PROGRAM = os.environ.get('ROCKHOPPER_INSTRUCTION_LOAD', 'bench/instruction-load')
BUILD = os.environ.get('ROCKHOPPER_INSTRUCTION_BUILD', 'tests/instructions/build')

NAME = re.compile(r'(?P<what>ob|fn)=(?:\((?P<id>\d+)\))?(?: ?(?P<name>.+))?$')


def own_instructions(dump, root):
    """(description, instructions) of a callgrind dump: those executed in objects below `root`.

    Code of others stays out, because libraries choose their functions by the processor."""
    description, objects, own, calls, total = '', {}, False, False, 0
    for line in dump.splitlines():
        if line.startswith('desc: Trigger: Client Request: '):
            description = line.split(': ', 3)[3].strip()
        elif line.startswith('ob='):
            match = NAME.match(line)
            if match['name'] and match['id']:
                objects[match['id']] = match['name']
            own = objects.get(match['id'], match['name'] or '').startswith(root)
        elif line.startswith('cob='):
            match = NAME.match(line[1:])
            if match['name'] and match['id']:
                objects[match['id']] = match['name']
        elif line.startswith('calls='):
            calls = True
        elif line and line[0] in '0123456789+-*':
            # The line behind "calls=" is what the callee took, which is counted at the callee.
            _, *cost = line.split()
            if own and not calls and cost:
                total += int(cost[0])
            calls = False
    return description, total


def measure(program):
    """{case: instructions an operation, and bytes of an idle queue pair}"""
    idle = subprocess.run([program, '--idle'], check=True, capture_output=True, text=True).stdout
    measured = {'idle-queue-pair/bytes': int(idle.split()[1])}
    with tempfile.TemporaryDirectory(prefix='rockhopper-instructions-') as folder:
        folder = pathlib.Path(folder)
        output = subprocess.run(
            ['valgrind', '-q', '--tool=callgrind', '--instr-atstart=no', '--collect-atstart=no',
             f'--callgrind-out-file={folder}/dump', program],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        operations = {case: int(count) for case, count in
                      (line.split() for line in output.splitlines())}
        root = str(pathlib.Path(program).resolve().parent.parent) + '/'
        for dump in folder.glob('dump.*'):
            case, instructions = own_instructions(dump.read_text(), root)
            if case in operations:
                measured[case] = round(instructions / operations[case])
    missing = operations.keys() - measured.keys()
    if missing or not operations:
        sys.exit(f'callgrind left no dump for: {", ".join(sorted(missing)) or "any case"}')
    return measured


def compare(measured, budget):
    """{case: what is wrong with it, or nothing}"""
    result = {}
    for case in sorted(measured.keys() | budget.keys()):
        now, then = measured.get(case), budget.get(case)
        if now is None or then is None:
            result[case] = 'is measured only' if then is None else 'is in the file only'
        elif abs(now / then - 1) <= TOLERANCE:
            result[case] = None
        else:
            result[case] = f'{now} in place of {then}, {now / then - 1:+.1%}' + (
                '' if now > then else ': a gain that the file does not keep yet')
    return result


def build_name():
    return pathlib.Path(BUILD).read_text().strip()


class Budget(unittest.TestCase):
    def test_budget(self):
        budget = json.loads(BUDGET.read_text()).get(build_name())
        if budget is None:
            self.skipTest(f'{BUDGET.name} has no numbers for "{build_name()}"')
        if not shutil.which('valgrind') or not pathlib.Path(PROGRAM).exists():
            self.skipTest('valgrind is not there, or was not when the build was configured')
        for case, wrong in compare(measure(PROGRAM), budget).items():
            with self.subTest(case):
                self.assertIsNone(wrong, f'if it is to be so, {sys.argv[0]} --record changes '
                                  f'{BUDGET.name}; the commit says why')


def record():
    budgets = json.loads(BUDGET.read_text())
    budgets[build_name()] = measure(PROGRAM)
    BUDGET.write_text(json.dumps(budgets, indent=1, sort_keys=True) + '\n')


if __name__ == '__main__':
    if sys.argv[1:] == ['--record']:
        record()
    else:
        unittest.main()
