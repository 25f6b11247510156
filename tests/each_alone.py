#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks that sources which are compiled together compile each by itself too, without a warning.

Behind others a source has their includes and does not miss its own; whoever builds without
`-Dcombine=true` does. Starts from a build folder whose precompiled headers are made, and makes nothing.

Closes with `N passed, N failed`.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'scripts'))

from testing import combined_sources, shares  # noqa: E402

# What asks for outputs, each with its argument, and by itself.
OUTPUTS = re.compile(r'^-(?:o|MQ|MF)$')
DEPENDENCIES = '-MD'


def check_command(command):
    """The compiler's command that only looks at the source."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        if OUTPUTS.match(word):
            next(words)
        elif word != DEPENDENCIES:
            kept.append(word)
    return [*kept, '-fsyntax-only', '-Werror']


def combined_entries(build):
    """Of each source that is compiled with others, once."""
    entries = json.loads((build / 'compile_commands.json').read_text(encoding='utf-8'))
    combined = [entry for entry in entries if combined_sources.is_combined(entry['file'])]
    return list({entry['file']: entry for entry in combined_sources.each_alone(combined)}.values())


def errors_of(entry):
    """What the compiler says of the source; empty if nothing."""
    done = subprocess.run(check_command(entry['command']), cwd=entry['directory'], text=True,
                          errors='replace', stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout or f'exit status {done.returncode}' if done.returncode else ''


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('patterns', nargs='*', help='only sources whose path matches one of these')
    shares.add_option(parser, 'source')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/gcc',
                        help='folder that has been built with -Dcombine=true (build/gcc)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    entries = [entry for entry in combined_entries(arguments.build.resolve())
               if not arguments.patterns or any(re.search(p, entry['file']) for p in arguments.patterns)]
    entries = entries[arguments.share]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for entry, errors in zip(entries, pool.map(errors_of, entries)):
            if errors:
                failed += 1
                print(f'failed {os.path.relpath(entry["file"], ROOT)}\n{errors}', flush=True)
    print(f'{len(entries) - failed} passed, {failed} failed')
    return 1 if failed or not entries else 0


if __name__ == '__main__':
    sys.exit(main())
