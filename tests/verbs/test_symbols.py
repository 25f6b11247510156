#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""libibverbs.so.1 has every symbol that its list names and that the system's library has."""

import pathlib
import re
import subprocess
import unittest

from verbs_support import LIBRARY_FOLDERS, PATHS, ROOT, THIN, exported

# How many names a node has: of IBVERBS_PRIVATE_34 those that the libraries of Debian 12 and 13 define
# together, of the others those in rdma-core's map files of these versions.
PUBLIC = {'1.0': 42, '1.1': 48, '1.5': 1, '1.6': 1, '1.7': 1, '1.8': 1, '1.9': 1, '1.10': 7,
          '1.11': 2, '1.12': 1, '1.13': 3, '1.14': 1, '1.15': 3, '1.16': 2, '1.17': 3, '1.18': 11}
PRIVATE = {'34': 73, '57': 73, '59': 76, '64': 82, '65': 92}


def count_by_node(symbols):
    counts = {}
    for _, node in symbols:
        counts[node] = counts.get(node, 0) + 1
    return counts


def dynamic_section(library, tag):
    listing = subprocess.run(['readelf', '--wide', '--dynamic', library], capture_output=True,
                             text=True, check=True, timeout=60).stdout
    return re.findall(rf'\({tag}\).*\[(\S+)\]', listing)


class Symbols(unittest.TestCase):
    def test_every_symbol_of_the_systems_library(self):
        libraries = [path for folder in LIBRARY_FOLDERS
                     if (path := folder / 'libibverbs.so.1').exists()]
        if not libraries:
            self.skipTest('the system has no libibverbs')
        ours = exported(THIN)
        for library in libraries:
            theirs = exported(library)
            self.assertGreater(len(theirs), 100, library)
            self.assertEqual(sorted(set(theirs) - set(ours)), [], library)
            # What a linker or dlsym() without a version takes of the public ones is the same.
            differ = [symbol for symbol, default in theirs.items()
                      if 'PRIVATE' not in symbol[1] and ours[symbol] != default]
            self.assertEqual([name for name, _ in differ if name != 'ibv_register_driver'], [])

    def test_nodes(self):
        wanted = {f'IBVERBS_{node}': count for node, count in PUBLIC.items()}
        wanted |= {f'IBVERBS_PRIVATE_{node}': count for node, count in PRIVATE.items()}
        self.assertEqual(count_by_node(exported(THIN)), wanted)

    def test_nothing_else_is_shown(self):
        listing = subprocess.run(['nm', '--dynamic', '--defined-only', THIN], capture_output=True,
                                 text=True, check=True, timeout=60).stdout
        names = {line.split()[-1] for line in listing.splitlines()}
        strange = [name for name in names if 'rockhopper' in name or name.startswith(('_Z', 'stub', 'old'))]
        self.assertEqual(strange, [])

    def test_libraries_need_the_c_library_alone(self):
        for library in (THIN, PATHS):
            self.assertEqual(dynamic_section(library, 'NEEDED'), ['libc.so.6'], library)
        self.assertEqual(dynamic_section(THIN, 'SONAME'), ['libibverbs.so.1'])

    def test_link_without_number(self):
        link = pathlib.Path(THIN).with_name('libibverbs.so')
        self.assertEqual(link.resolve(), pathlib.Path(THIN).resolve())

    def test_a_missing_symbol_is_seen(self):
        ours = exported(THIN)
        self.assertNotIn(('ibv_query_gid', 'IBVERBS_1.18'), ours)
        self.assertTrue(ours[('ibv_query_gid', 'IBVERBS_1.1')])
        self.assertFalse(ours[('ibv_query_gid', 'IBVERBS_1.0')])
        self.assertTrue((ROOT / 'apps/verbs/abi/symbols.txt').exists())


if __name__ == '__main__':
    unittest.main()
