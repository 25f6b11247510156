# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Manual pages and shell completion, made from what the programs say with --help and from docs/."""
