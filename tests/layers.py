#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks what no compiler checks: which layer may include what, and what every file carries.

Reads every file of the tree; one line a violation; exit status 1 if there is any.
"""

import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

TRANSPORT = {'dc', 'roce', 'roce/wire', 'stack'}
SERVICES = {'apps/services/ami', 'apps/services/dag', 'apps/services/dag/graph',
            'apps/services/dag/schedule', 'apps/services/publisher'}
# What users have when the library is installed.
INSTALLED = TRANSPORT | SERVICES | {'apps/node'}

# A layer includes itself and what stands right of it. The longest matching folder counts.
MAY_INCLUDE = {
    'stack': {'stack/segment/reader'},
    'stack/segment/reader': set(),  # the C library alone, too
    'roce/wire': set(),
    'roce': {'roce/wire', 'stack'},
    'dc': {'roce', 'roce/wire', 'stack'},
    'apps/services/ami': TRANSPORT,
    'apps/services/dag': {'apps/services/dag/graph'} | TRANSPORT,
    'apps/services/dag/graph': {'stack'},
    'apps/services/dag/schedule': {'apps/services/dag', 'apps/services/dag/graph'} | TRANSPORT,
    'apps/services/publisher': TRANSPORT,
    'apps/node': TRANSPORT,
    # Every program loads it: the C library and nothing else.
    'apps/verbs/abi': {'stack/segment/reader'},
    'apps/verbs/shim': {'apps/verbs/abi'},
    'apps/verbs/node': {'apps/node', 'apps/verbs/abi'} | TRANSPORT,
    'apps/verbs/cm': {'apps/node', 'apps/verbs/abi', 'apps/verbs/node'} | TRANSPORT,
    'apps/verbs/objects': {'apps/verbs/abi', 'apps/verbs/cm', 'apps/verbs/node'} | TRANSPORT,
    'apps/common': {'apps/node'} | TRANSPORT,
    'apps': {'stack'},  # the precompiled header
    'examples': INSTALLED,
    'examples/accounts': {'apps/common'} | INSTALLED,  # built with the programs
}
# A program knows no other program, but for these.
OTHER_PROGRAMS = {
    'apps/rh_dag': {'apps/rh_publish'},  # reads records as rh-publish does
    'apps/rh_run': {'apps/verbs/abi', 'apps/verbs/node'},  # shows devices and addresses as these have them
    'apps/rh_subscribe': {'apps/rh_publish'},  # the two ends of one exchange
}
for program in sorted(ROOT.glob('apps/rh_*')):
    folder = program.relative_to(ROOT).as_posix()
    MAY_INCLUDE[folder] = {'apps/common'} | INSTALLED | OTHER_PROGRAMS.get(folder, set())
for layer in MAY_INCLUDE:
    MAY_INCLUDE[layer] = MAY_INCLUDE[layer] | {layer}

# Protocol code takes packets and times in; it reads no clock, starts no thread, calls no device.
PROTOCOL_LAYERS = {'roce', 'roce/wire', 'dc'} | SERVICES
NOT_IN_PROTOCOL = re.compile(
    r'<(chrono|thread|mutex|condition_variable|future|ctime|time\.h|unistd\.h|pthread\.h'
    r'|sys/(socket|time|epoll|select)\.h|poll\.h'
    r'|rte_(ethdev|eal|cycles|timer|lcore|launch|spinlock|rwlock|per_lcore|telemetry|pcapng)\.h)>'
    r'|"stack/(clock|eal|port|worker|telemetry|memif|pcap_writer|fault_injector|tracer)\.h"')
CALLS_NOT_IN_PROTOCOL = re.compile(
    r'\b(sleep|usleep|nanosleep|sleep_for|clock_gettime|gettimeofday|rte_rdtsc(_precise)?'
    r'|rte_get_(timer|tsc)_(cycles|hz)|rte_delay_\w+|rte_eth_\w+|pthread_\w+)\s*\(')

# What only the layers that stand on the inside of an engine see of it.
INTERNAL = {'roce/engine_context.h': {'roce', 'dc'}, 'roce/transport_context.h': {'roce', 'dc'}}

INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
PERSONAL_PATH = re.compile(r'(?<![\w.$}~/])/(?:home|root|work|Users)/\w')

CODE = {'.h', '.cc'}
LICENSED = CODE | {'.py', '.sh', '.lua'}
LICENSE_LINES = ('SPDX-License-Identifier: BSD-3-Clause', 'Copyright (c) The Rockhopper authors')
SKIPPED_FOLDERS = re.compile(r'^(build.*|\.git|__pycache__|\.cache)$')


def project_files():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not SKIPPED_FOLDERS.match(f))
        # In a further worktree .git is a file, which names where the first one is.
        for name in sorted(set(names) - {'.git'}):
            yield pathlib.Path(folder, name)


def layer_of(path):
    """The folder of MAY_INCLUDE that `path`, relative to the root, is in; None for other files."""
    matches = [layer for layer in MAY_INCLUDE if path.startswith(layer + '/')]
    return max(matches, key=len, default=None)


def read_text(path):
    try:
        return path.read_text(encoding='utf-8')
    except UnicodeDecodeError:
        return None  # a capture or an image


def is_licensed(path, text):
    return path.suffix in LICENSED or path.name.startswith('meson') or text.startswith('#!')


def layer_violations(path, text):
    """Includes and calls of one source file that its layer does not allow."""
    layer = layer_of(path)
    if layer is None:
        return
    for name in INCLUDE.findall(text):
        if layer == 'examples' and name == '"support.h"':
            continue  # beside it: a user's programs have no root folder of ours
        target = layer_of(name.strip('"')) if name.startswith('"') else None
        if name.startswith('"') and target not in MAY_INCLUDE[layer]:
            yield f'{path}: {layer}/ must not include {name}'
        if layer not in INTERNAL.get(name.strip('"'), {layer}):
            yield f'{path}: {name} is not for {layer}/'
        if layer == 'roce/wire' and name.startswith('<rte_'):
            yield f'{path}: roce/wire must not include DPDK ({name})'
        if layer in PROTOCOL_LAYERS and NOT_IN_PROTOCOL.fullmatch(name):
            yield f'{path}: protocol code does no I/O and reads no clock ({name})'
    if layer in PROTOCOL_LAYERS:
        for call in CALLS_NOT_IN_PROTOCOL.finditer(COMMENT.sub('', text)):
            yield f'{path}: protocol code must not call {call.group(1)}()'


def file_violations(path, text):
    """What every file of the project must carry, or must not."""
    if is_licensed(pathlib.Path(path), text):
        head = text.splitlines()[:3]
        if not all(any(line in h for h in head) for line in LICENSE_LINES):
            yield f'{path}: the first lines are not the licence and copyright lines'
    # What is precompiled is the main file, where compilers warn about it.
    if path.endswith('.h') and not path.endswith('/precompiled.h') and '#pragma once' not in text:
        yield f'{path}: no #pragma once'
    if PERSONAL_PATH.search(text):
        yield f'{path}: names a path of one machine ({PERSONAL_PATH.search(text).group(0)}...)'


class CheckerCanFail(unittest.TestCase):
    """The checker itself: each rule fires on a text that breaks it, and only then."""

    def violations(self, path, text):
        return list(layer_violations(path, text))

    def test_upward_include(self):
        self.assertTrue(self.violations('stack/a.cc', '#include "roce/engine.h"\n'))
        self.assertTrue(self.violations('roce/a.cc', '#include "dc/dci.h"\n'))
        self.assertTrue(self.violations('roce/wire/a.h', '#include "stack/link.h"\n'))
        self.assertFalse(self.violations('dc/a.cc', '#include "roce/wire/bth.h"\n'))
        self.assertFalse(self.violations('apps/node/a.cc', '#include "dc/dci.h"\n'))
        self.assertTrue(self.violations('apps/node/a.cc', '#include "apps/common/endpoint.h"\n'))
        self.assertTrue(self.violations('apps/services/ami/a.cc', '#include "apps/node/node.h"\n'))

    def test_programs_know_no_other_program(self):
        self.assertFalse(self.violations('apps/rh_perf/a.cc', '#include "apps/rh_perf/report.h"\n'))
        self.assertFalse(self.violations('apps/rh_perf/a.cc', '#include "apps/common/endpoint.h"\n'))
        self.assertFalse(self.violations('apps/rh_perf/a.cc', '#include "apps/node/node.h"\n'))
        self.assertTrue(self.violations('apps/rh_perf/a.cc', '#include "apps/rh_ami/report.h"\n'))
        self.assertFalse(
            self.violations('apps/rh_subscribe/a.cc', '#include "apps/rh_publish/names.h"\n'))
        self.assertTrue(self.violations('apps/common/a.cc', '#include "apps/rh_perf/report.h"\n'))

    def test_examples_have_what_is_installed(self):
        self.assertFalse(self.violations('examples/a.cc', '#include "apps/node/node.h"\n'))
        self.assertFalse(self.violations('examples/a.cc', '#include "support.h"\n'))
        self.assertTrue(self.violations('examples/a.cc', '#include "apps/common/endpoint.h"\n'))
        self.assertFalse(
            self.violations('examples/accounts/a.cc', '#include "apps/common/endpoint.h"\n'))
        self.assertTrue(self.violations('examples/a.cc', '#include "tests/support/seed.h"\n'))

    def test_include_by_repository_path(self):
        self.assertTrue(self.violations('stack/a.cc', '#include "link.h"\n'))

    def test_inside_of_an_engine(self):
        self.assertTrue(self.violations('apps/a.cc', '#include "roce/transport_context.h"\n'))
        self.assertFalse(self.violations('dc/a.cc', '#include "roce/transport_context.h"\n'))

    def test_wire_has_no_dpdk(self):
        self.assertTrue(self.violations('roce/wire/a.h', '#include <rte_mbuf.h>\n'))
        self.assertFalse(self.violations('roce/a.h', '#include <rte_mbuf.h>\n'))

    def test_protocol_reads_no_clock(self):
        self.assertTrue(self.violations('roce/a.cc', '#include <chrono>\n'))
        self.assertTrue(self.violations('dc/a.cc', 'auto t = rte_rdtsc();\n'))
        self.assertFalse(self.violations('roce/a.cc', '// not sleep() here\n'))
        self.assertFalse(self.violations('stack/a.cc', '#include <chrono>\n'))

    def test_licence_and_paths(self):
        licence = ''.join(f'// {line}\n' for line in LICENSE_LINES)
        self.assertTrue(list(file_violations('stack/a.cc', 'int a;\n')))
        self.assertFalse(list(file_violations('stack/a.cc', licence)))
        self.assertTrue(list(file_violations('stack/a.h', licence)))
        self.assertTrue(list(file_violations('a.md', 'see ' + '/home' + '/me/x\n')))


class Tree(unittest.TestCase):
    def test_tree(self):
        violations, files = [], 0
        for path in project_files():
            text = read_text(path)
            if text is None:
                continue
            files += 1
            name = path.relative_to(ROOT).as_posix()
            violations += file_violations(name, text)
            if path.suffix in CODE:
                violations += layer_violations(name, text)
        self.assertGreater(files, 50, 'the tree was not found')
        if violations:
            self.fail('\n' + '\n'.join(violations))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
