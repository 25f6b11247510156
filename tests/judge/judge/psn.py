# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Arithmetic of 24-bit sequence numbers (IBTA vol. 1, 9.7.1: PSN; 9.7.7.1: MSN)."""

MASK = 0xFFFFFF
_HALF = 1 << 23


def distance(first: int, second: int) -> int:
    """`second - first` modulo 2^24, as a signed number in [-2^23, 2^23)."""
    return ((second - first + _HALF) & MASK) - _HALF


def unwrap(reference: int, value: int) -> int:
    """The unbounded number nearest to `reference` whose low 24 bits are `value`."""
    return reference + distance(reference & MASK, value)
