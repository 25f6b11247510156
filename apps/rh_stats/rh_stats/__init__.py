# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The counters of running Rockhopper programs: once, again and again, as a page, and for Prometheus."""
