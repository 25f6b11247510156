# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What scripts/reproduce is made of: a module for each published result, and what they share."""
