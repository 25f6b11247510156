# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""An independent checker of RoCEv2 captures, written from the rules of the specification."""
