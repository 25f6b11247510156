# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The option --share of checks that are too many for each run: every N-th of them, from K on."""

import argparse
import re


def share(text):
    """`K/N` as a slice of what is to be checked."""
    numbers = re.fullmatch(r'(\d+)/(\d+)', text)
    if not numbers or int(numbers[1]) >= int(numbers[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is no share; such as 1/3, with K below N")
    return slice(int(numbers[1]), None, int(numbers[2]))


def add_option(parser, what):
    parser.add_argument('--share', type=share, default=share('0/1'), metavar='K/N',
                        help=f'only every N-th {what}, from K on (0/1)')
