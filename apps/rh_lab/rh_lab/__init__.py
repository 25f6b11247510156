# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A walk through what one tries on the first day with a peer, and a report of it."""
