# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What goes wrong, and how it is told."""

import sys

NAME = 'rh-stats'


class Failure(Exception):
    """What ends the program with status 1; its text is for people."""


class Gone(Failure):
    """The program at the other end of a socket has ended."""


def note(text):
    print(f'{NAME}: skipped {text}', file=sys.stderr)
