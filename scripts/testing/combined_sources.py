# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What meson compiles together (`-Dcombine=true`): a source that it makes includes the others, one on
each line. compile_commands.json names the made one alone."""

import pathlib
import re
import shlex

COMBINED = re.compile(r'-unity\d+\.cpp$')
PART = re.compile(r'^#include<(.+)>$', re.MULTILINE)


def is_combined(source):
    return bool(COMBINED.search(str(source)))


def parts(source):
    """The sources, absolute and in their order, that `source` consists of: itself, or those that it
    includes."""
    if not is_combined(source):
        return (pathlib.Path(source).resolve(),)
    return tuple(pathlib.Path(part).resolve()
                 for part in PART.findall(pathlib.Path(source).read_text(encoding='utf-8')))


def each_alone(entries):
    """Entries of compile_commands.json as they were if each source was compiled by itself. Their
    outputs are those of the combined ones."""
    for entry in entries:
        if not is_combined(entry['file']):
            yield entry
            continue
        words = shlex.split(entry['command'])
        for part in map(str, parts(pathlib.Path(entry['directory'], entry['file']))):
            command = [part if word == entry['file'] else word for word in words]
            yield {**entry, 'file': part, 'command': shlex.join(command)}
