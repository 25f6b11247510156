# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Rules of style that clang-format 14 does not know (CONTRIBUTING.md): braces, names, casts."""
