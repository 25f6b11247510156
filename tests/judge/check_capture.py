#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Checks captures of RoCEv2 traffic; docs/capture-checker.md tells how to use it."""

import sys

from judge.cli import main

if __name__ == "__main__":
    sys.exit(main())
