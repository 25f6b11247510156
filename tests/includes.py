#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks that a file includes the standard headers that it uses.

A header that another one happens to include is there with one version of the standard library and
not with the next, and a precompiled header hides what is missing. A name may come from the file
itself or from a header of the project that the file includes.
"""

import functools
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ('stack', 'roce', 'dc', 'apps', 'tests', 'bench', 'examples')

# {header: names in std:: that only it is sure to bring}.
NAMES = {
    'algorithm': r'(?:ranges::)?(?:adjacent_find|all_of|any_of|binary_search|clamp|copy|copy_if|copy_n|'
                 r'count|count_if|equal|equal_range|fill|fill_n|find|find_if|find_if_not|for_each|'
                 r'generate|includes|is_sorted|lower_bound|max|max_element|merge|min|min_element|'
                 r'minmax|minmax_element|mismatch|next_permutation|none_of|nth_element|partial_sort|'
                 r'partition|pop_heap|push_heap|remove|remove_if|replace|reverse|rotate|search|'
                 r'set_difference|shuffle|sort|stable_sort|transform|unique|upper_bound)(?=[(<])',
    'array': r'(?:array\b|to_array\b)',
    'atomic': r'(?:atomic\b|atomic_flag\b|atomic_ref\b|memory_order)',
    'bit': r'(?:bit_cast|bit_ceil|bit_floor|bit_width|countl_zero|countr_zero|endian|'
           r'has_single_bit|popcount|rotl|rotr)\b',
    'charconv': r'(?:from_chars|to_chars)\b',
    'chrono': r'chrono::',
    'cmath': r'(?:ceil|exp|floor|isfinite|isnan|llround|log|log2|lround|pow|round|sqrt)\(',
    'condition_variable': r'condition_variable\b',
    'cstdio': r'(?:FILE|fclose|fflush|fopen|fprintf|fputs|fread|fwrite|printf|puts|snprintf)\b',
    'cstdlib': r'(?:abort|exit|getenv|mkstemp|strtol|strtoul|strtoull|system)\(',
    'cstring': r'(?:memchr|memcmp|memcpy|memmove|memset|strcmp|strerror|strlen|strncmp)\b',
    'deque': r'deque\b',
    'exception': r'(?:exception\b|exception_ptr|current_exception|terminate\()',
    'filesystem': r'filesystem::',
    'fstream': r'[io]?fstream\b',
    'functional': r'(?:function\b|greater<|hash<|invoke\(|less<|plus<|ref\(|cref\()',
    'iostream': r'(?:cerr|cin|cout)\b',
    'limits': r'numeric_limits\b',
    'map': r'(?:multi)?map\b',
    'memory': r'(?:make_shared|make_unique|shared_ptr|unique_ptr|weak_ptr)\b',
    'mutex': r'(?:call_once|lock_guard|mutex|once_flag|scoped_lock|unique_lock)\b',
    'numeric': r'(?:accumulate|gcd|iota|lcm|midpoint|partial_sum|reduce)\b',
    'optional': r'(?:make_optional|nullopt|optional)\b',
    'random': r'(?:mt19937|random_device|uniform_int_distribution|uniform_real_distribution)',
    'set': r'(?:multi)?set\b',
    'sstream': r'[io]?stringstream\b',
    'string': r'(?:stoi|stoul|string|to_string)\b',
    'string_view': r'string_view\b',
    'system_error': r'(?:errc|error_code|generic_category|system_error)\b',
    'thread': r'(?:jthread|this_thread|thread)\b',
    'tuple': r'(?:make_tuple|tie\(|tuple\b)',
    'type_traits': r'(?:conditional_t|decay_t|invoke_result_t|is_\w+_v|remove_\w+_t|underlying_type_t)\b',
    'unordered_map': r'unordered_map\b',
    'unordered_set': r'unordered_set\b',
    'variant': r'(?:get_if|holds_alternative|monostate|variant|visit)\b',
    'vector': r'vector\b',
}
# Headers of C++ bring these, but for those that are C's too and a few that need nothing.
EVERYWHERE = {
    'cstddef': r'(?:byte|max_align_t|nullptr_t|ptrdiff_t)\b',
    'span': r'span\b',
    'utility': r'(?:exchange|forward|index_sequence|make_pair|move|pair|swap|unreachable)\b',
}
OF_C = {'cassert', 'cctype', 'cerrno', 'cfloat', 'cinttypes', 'climits', 'clocale', 'cmath', 'csignal',
        'cstdarg', 'cstddef', 'cstdint', 'cstdio', 'cstdlib', 'cstring', 'ctime', 'cwchar'}
OF_LITTLE = {'atomic', 'bit', 'compare', 'concepts', 'initializer_list', 'limits', 'new', 'numbers',
             'type_traits', 'version'}
USES = {header: re.compile(names) for header, names in (NAMES | EVERYWHERE).items()}
STD = re.compile(r'\bstd::((?:ranges::|chrono::|filesystem::)?\w*[(<]?)')
# Headers whose synopsis in the standard includes or declares the names of another one.
BRINGS = {'string': {'string_view'}}
C_NAMES = {'stdio.h': 'cstdio', 'stdlib.h': 'cstdlib', 'string.h': 'cstring', 'math.h': 'cmath'}
INCLUDE = re.compile(r'^ *# *include (<[^>]+>|"[^"]+")', re.MULTILINE)
NOT_CODE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def standard_headers(text):
    names = {name[1:-1] for name in INCLUDE.findall(text) if name[0] == '<'}
    names = {C_NAMES.get(name, name) for name in names}
    names = names.union(*(BRINGS.get(name, ()) for name in names))
    # Those of the system, of libraries and of C itself have an extension or a folder.
    own = any(re.fullmatch(r'\w+', name) for name in names - OF_C - OF_LITTLE)
    return names.union(EVERYWHERE if own else ())


@functools.cache
def headers_of_file(name):
    path = ROOT / name
    return standard_headers(path.read_text(encoding='utf-8')) if path.is_file() else set()


def missing(text):
    """(line, header, name) of the first use of each header that is not included."""
    included = standard_headers(text)
    for name in INCLUDE.findall(text):
        if name[0] == '"':
            included |= headers_of_file(name[1:-1])
    code = NOT_CODE.sub('', text)
    first_uses = {}
    for use in STD.finditer(code):
        first_uses.setdefault(use[1], use.start())
    for header, names in USES.items():
        used = [name for name in first_uses if names.match(name)] if header not in included else []
        if used:
            yield code.count('\n', 0, first_uses[used[0]]) + 1, header, f'std::{used[0]}'


class CheckerCanFail(unittest.TestCase):
    def found(self, text):
        return [header for _, header, _ in missing(text)]

    def test_missing(self):
        self.assertEqual(['algorithm'], self.found('#include <array>\nint a = std::max(b, c);\n'))
        self.assertEqual(['vector'], self.found('std::vector<int> a;\n'))
        self.assertEqual([(2, 'cstring', 'std::memcpy(')], list(missing('\nstd::memcpy(a, b, 1);\n')))

    def test_included(self):
        self.assertEqual([], self.found('#include <algorithm>\nint a = std::max(b, c);\n'))
        self.assertEqual([], self.found('#include <string>\nstd::string_view a;\n'))
        self.assertEqual([], self.found('#include <string.h>\nauto a = std::strlen(b);\n'))

    def test_what_is_everywhere(self):
        self.assertEqual(['cstddef'], self.found('#include <cerrno>\n#include <net/if.h>\nstd::byte a;\n'))
        self.assertEqual([], self.found('#include <cerrno>\n#include <array>\nstd::byte a;\n'))
        self.assertEqual(['utility'], self.found('#include <cstdint>\nauto a = std::move(b);\n'))

    def test_by_a_header_of_the_project(self):
        self.assertEqual([], self.found('#include "stack/arp.h"\nstd::span<int> a;\n'))
        self.assertIn('optional', headers_of_file('stack/ip_address.h'))
        self.assertEqual([], self.found('#include "stack/ip_address.h"\nstd::optional<int> a;\n'))

    def test_neither_comments_nor_texts(self):
        self.assertEqual([], self.found('// std::vector\nauto a = "std::vector";\n'))


class Tree(unittest.TestCase):
    def test_tree(self):
        files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob('*')
                       if path.suffix in ('.h', '.cc'))
        self.assertGreater(len(files), 50, 'the tree was not found')
        found = [f'{path.relative_to(ROOT)}:{line}: {name} needs <{header}>' for path in files
                 for line, header, name in missing(path.read_text(encoding='utf-8'))]
        if found:
            self.fail('\n' + '\n'.join(found))


if __name__ == '__main__':
    sys.exit(unittest.main(verbosity=2))
