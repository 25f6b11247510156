#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs rdma-core's tests of verbs, which are a package `tests`, and tells the outcome of each in lines
of JSON. test_pyverbs.py calls it."""

import argparse
import fnmatch
import importlib
import json
import pathlib
import sys
import time
import traceback
import unittest


class Recorder(unittest.TestResult):
    """Writes at once, so that the last line names the test in which the process ended."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def write(self, test, outcome, text=''):
        print(json.dumps({'test': test.id(), 'outcome': outcome, 'text': text,
                          'time_s': round(time.monotonic(), 3)}), file=self.file, flush=True)

    @staticmethod
    def trace(error):
        return ''.join(traceback.format_exception(*error))

    def startTest(self, test):
        super().startTest(test)
        self.write(test, 'begins')

    def addSuccess(self, test):
        self.write(test, 'passed')

    def addSkip(self, test, reason):
        self.write(test, 'skipped', reason)

    def addError(self, test, error):
        self.write(test, 'failed', self.trace(error))

    def addFailure(self, test, error):
        self.write(test, 'failed', self.trace(error))

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.write(test, 'failed', self.trace(error))

    def addExpectedFailure(self, test, error):
        self.write(test, 'passed')

    def addUnexpectedSuccess(self, test):
        self.write(test, 'failed', 'an unexpected success')


def each(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from each(part)
        else:
            yield part


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', help='has the package')
    parser.add_argument('results', help='the file to write')
    parser.add_argument('--only', metavar='PATTERN', nargs='*', default=['*'],
                        help='tests that match none of these are named, and not run')
    parser.add_argument('--without', metavar='PATTERN', nargs='*', default=[],
                        help='and neither are tests that match one of these')
    return parser.parse_args()


def matches(test, patterns):
    return any(fnmatch.fnmatchcase(test.id(), pattern) for pattern in patterns)


def main():
    arguments = parse_arguments()
    # The tests name each other as modules of the package, and their parser of options alone.
    sys.path[:0] = [arguments.folder, str(pathlib.Path(arguments.folder) / 'tests')]
    sys.argv[1:] = []
    importlib.import_module('args_parser').parser.parse_args()
    package = importlib.import_module('tests')
    with open(arguments.results, 'w', encoding='utf-8') as file:
        recorder = Recorder(file)
        chosen = unittest.TestSuite()
        for test in each(unittest.defaultTestLoader.loadTestsFromModule(package)):
            if matches(test, arguments.only) and not matches(test, arguments.without):
                chosen.addTest(test)
            else:
                recorder.write(test, 'left out')
        chosen.run(recorder)


if __name__ == '__main__':
    main()
