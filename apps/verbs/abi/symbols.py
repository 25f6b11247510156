#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Makes of symbols.txt the version script of libibverbs.so.1 and the source of its stubs."""

import argparse
import collections
import pathlib
import re

SECTION = re.compile(r'\[(.+)\]')
REGISTER_DRIVER = 'verbs_register_driver_'
LOG = '__verbs_log'
QUERY_GID_TYPE = 'ibv_query_gid_type'
DATA = {'verbs_allow_disassociate_destroy'}
HEAD = '''// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// Made by symbols.py. A name that is in several nodes is a function in each: the linker gives one
// version to a symbol.
#include "apps/verbs/abi/report.h"

extern "C" {
int rockhopper_query_gid_type(void*, unsigned char, unsigned, void*);
'''


def read_symbols(text):
    """{node: names} of public, old and private symbols; the nodes in their order."""
    public, old = collections.defaultdict(list), []
    private = {}
    section = None
    for line in text.splitlines():
        line = line.partition('#')[0].strip()
        if match := SECTION.fullmatch(line):
            section = match.group(1).split()
            if section[0] == 'private':
                private = {number: [] for number in section[1:]}
        elif not line:
            continue
        elif section[0] == 'private':
            name, *numbers = line.split()
            for number in numbers or private:
                private[number].append(name.replace('_N', f'_{number}'))
        elif section[0] == 'old':
            old.append(line)
        else:
            public[section[0]].append(line)
    return public, old, {f'IBVERBS_PRIVATE_{number}': names for number, names in private.items()}


def node_of_script(node, names, parent, hidden):
    lines = [f'{node} {{', '  global:', *(f'    {name};' for name in names)]
    if hidden:
        lines += ['  local:', '    *;']
    return '\n'.join(lines) + f'\n}}{" " + parent if parent else ""};\n'


def version_script(public, private):
    """Old and private symbols get their nodes by .symver, and their nodes have to be there.

    What is hidden stands in the newest public node: ld asks a symbol's own node, and none of that
    one has its version by .symver."""
    parts, parent, newest = [], '', list(public)[-1]
    for node, names in public.items():
        parts.append(node_of_script(node, names, parent, hidden=node == newest))
        parent = node
    # ld takes no empty node, and mold no name that is nowhere: a pattern.
    parts += [node_of_script(node, [f'{node}_is_named_by_symver*'], parent, hidden=False)
              for node in private]
    return '\n'.join(parts)


def stub(symbol, name, node, is_default):
    if name in DATA:
        code = f'bool {symbol} = false;'
    elif name == QUERY_GID_TYPE:
        code = (f'int {symbol}(void* context, unsigned char port, unsigned index, void* type) {{\n'
                f'  return rockhopper_query_gid_type(context, port, index, type);\n}}')
    elif name.startswith(REGISTER_DRIVER):
        # libmlx5 and libefa announce themselves: there is no device of theirs here.
        code = f'void {symbol}(const void*) {{}}'
    elif name == LOG:
        # libefa says so when libfabric asks it whether a device is one of its own.
        code = f'void {symbol}(const void*, unsigned, const char*, ...) {{}}'
    elif node == 'IBVERBS_1.0' and name == 'ibv_get_device_list':
        code = (f'void* {symbol}(int*) {{\n'
                f'  rockhopper::verbs::report("this program is built for libibverbs 1.0, of 2006");\n'
                f'  return nullptr;\n}}')
    else:
        code = f'void {symbol}() {{ rockhopper::verbs::end_of_stub("{name}"); }}'
    version = ('@@' if is_default else '@') + node
    return f'{code}\n__asm__(".symver {symbol}, {name}{version}");\n'


def stubs(old, private):
    newest = {name: node for node, names in private.items() for name in names}
    lines = [HEAD]
    for name in old:
        lines.append(stub(f'old_{name}', name, 'IBVERBS_1.0', is_default=False))
    for node, names in private.items():
        for name in names:
            symbol = f'stub_{node.rpartition("_")[2]}_{name}'
            lines.append(stub(symbol, name, node, is_default=newest[name] == node))
    lines.append('}  // extern "C"')
    return '\n'.join(lines) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('symbols', type=pathlib.Path)
    parser.add_argument('script', type=pathlib.Path)
    parser.add_argument('stubs', type=pathlib.Path)
    arguments = parser.parse_args()
    public, old, private = read_symbols(arguments.symbols.read_text(encoding='utf-8'))
    arguments.script.write_text(version_script(public, private), encoding='utf-8')
    arguments.stubs.write_text(stubs(old, private), encoding='utf-8')


if __name__ == '__main__':
    main()
