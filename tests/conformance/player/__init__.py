# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Plays conformance scripts (docs/conformance.md) against a RoCEv2 device."""

import pathlib
import sys

# The capture checker's codec, which shares no code with Rockhopper.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "judge"))
