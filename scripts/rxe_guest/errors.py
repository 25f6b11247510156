# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The errors that a user sees as one line, and the exit status of each."""


class GuestError(Exception):
    """Something failed; the text says what, in one line where possible."""

    exit_status = 1


class UsageError(GuestError):
    """An argument is wrong; the text says which and how to mend it."""

    exit_status = 2


class Skip(GuestError):
    """This machine cannot run a guest at all (77: what test runners take as "skipped")."""

    exit_status = 77


class Timeout(GuestError):
    """A deadline passed (124, as timeout(1))."""

    exit_status = 124
