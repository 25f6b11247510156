# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Draws captures of RoCEv2 traffic: one page of HTML that needs nothing else."""
