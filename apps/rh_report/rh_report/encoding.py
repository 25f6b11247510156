# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Columns as the page holds them: differences, cut into planes of bytes, deflated, in base64.

Neighbours differ little, so that the upper planes are zeros and deflate leaves nothing of them: a million packets
take some five bytes each.
"""

import base64
import zlib

import numpy

_LEVEL = 6


def column(values, size):
    """`size` bytes a value, little endian, of the difference to the one before; negative ones by zigzag."""
    values = numpy.asarray(values, numpy.int64)
    if not len(values):
        return ''
    steps = numpy.diff(values, prepend=0)
    folded = (steps << 1) ^ (steps >> 63)
    planes = folded.view(numpy.uint8).reshape(-1, 8)[:, :size]
    return _packed(numpy.ascontiguousarray(planes.T).tobytes())


def matrix(rows):
    """Headers of one opcode, column by column: each byte's difference to that of the row before."""
    steps = numpy.diff(rows, axis=0, prepend=numpy.zeros((1, rows.shape[1]), numpy.uint8))
    return _packed(numpy.ascontiguousarray(steps.T).tobytes())


def _packed(data):
    return base64.b64encode(zlib.compress(data, _LEVEL)).decode('ascii')
