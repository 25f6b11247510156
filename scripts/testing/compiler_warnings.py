# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Warnings are errors in scripts/test and in no user's build, though both share a folder.

With -Werror in one of them alone, each would compile again what the other has compiled. So the
compiler only warns; a list in the build folder names the outputs whose making warned, and
scripts/test has these made again and fails if they still do.
"""

import json
import re

LIST = 'rockhopper-warned'
# What ninja prints before the output of a step; the last word is the file that the step makes.
STEP = re.compile(r'^\[\d+/\d+\] .*?(\S+)$')
WARNING = re.compile(r'\bwarning: ')


def warned_outputs(log):
    """{output: its lines with warnings} of what ninja printed."""
    found, output = {}, ''
    for line in log.splitlines():
        step = STEP.match(line)
        if step:
            output = step[1]
        elif WARNING.search(line) and not line.startswith('ninja: '):
            found.setdefault(output, []).append(line)
    return found


def remembered(folder):
    path = folder / LIST
    return json.loads(path.read_text()) if path.exists() else {}


def remember(folder, log):
    """Adds to the folder's list what warned in this log."""
    found = warned_outputs(log)
    if found:
        (folder / LIST).write_text(json.dumps({**remembered(folder), **found}))


def forget(folder):
    """Empties the list and removes the outputs in it, so that ninja makes them again."""
    for output in remembered(folder):
        path = folder / output
        if path.is_file():
            path.unlink()
    (folder / LIST).unlink(missing_ok=True)
