# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-perf over memif beside testpmd's raw rate of such frames, in the same run.

The raw rate is what memif carries when nobody builds, checks or acknowledges anything: the ceiling
of this machine at this moment. Compared are frames a second in the direction that carries the data.
"""

from lab.pairs import Pair
from lab.testpmd import raw_rate

OPERATIONS = ('send', 'write', 'read', 'cas', 'faa')
PATH_MTU = 4096
SMALL, LARGE = 8, 65536

# Ethernet, IPv4, UDP, BTH and ICRC of every packet.
ENVELOPE = 14 + 20 + 8 + 12 + 4
# Extension header and payload of the packet that carries the data of a small operation:
# SEND; WRITE with RETH; READ response with AETH; atomic request with AtomicETH.
SMALL_EXTRA = {'send': SMALL, 'write': 16 + SMALL, 'read': 4 + SMALL, 'cas': 28, 'faa': 28}


def frame_bytes(operation, size):
    """Length of the frames that carry the operation's data (of the middle ones if many)."""
    return ENVELOPE + (SMALL_EXTRA[operation] if size <= SMALL else PATH_MTU)


def frame_of_raw_rate(size):
    """Of what frames testpmd's rate is taken: all small ones are alike to it, to a few bytes."""
    return max(frame_bytes(operation, size) for operation in OPERATIONS if size in sizes(operation))


def frames_per_operation(size):
    return max(1, -(-size // PATH_MTU))


def sizes(operation):
    return (SMALL,) if operation in ('cas', 'faa') else (SMALL, LARGE)


def measure(lab, programs, seconds):
    """A list of rows (dictionaries), one an operation and size."""
    raw, results = {}, {}
    for size in (SMALL, LARGE):
        measured = [operation for operation in OPERATIONS if size in sizes(operation)]
        raw[size] = raw_rate(lab, frame_of_raw_rate(size), samples=max(1, round(seconds)))
        client, _ = Pair(lab, programs, 'rh-perf').run(
            ['--op', ','.join(measured), '-s', str(size), '-D', str(seconds), '-m', str(PATH_MTU)])
        results |= {(result['op'], size): result for result in client['results']}
    rows = []
    for operation in OPERATIONS:
        for size in sizes(operation):
            result = results[operation, size]
            frames_per_s = result['mops'] * 1e6 * frames_per_operation(size)
            rows.append({
                'op': operation, 'size': size, 'frame_bytes': frame_bytes(operation, size),
                'mops': result['mops'],
                'gbit_per_s': result['gbit_per_s'], 'frames_per_s': frames_per_s,
                'testpmd_frames_per_s': raw[size], 'ratio': frames_per_s / raw[size]})
    return rows


HEADER = (f'{"op":<6} {"bytes":>6} {"frame":>6} {"Mop/s":>9} {"Gbit/s":>8} {"Mframe/s":>9} '
          f'{"testpmd":>9} {"ratio":>7}')


def table(rows):
    lines = [HEADER]
    for row in rows:
        lines.append(
            f'{row["op"]:<6} {row["size"]:>6} {row["frame_bytes"]:>6} {row["mops"]:>9.4f} '
            f'{row["gbit_per_s"]:>8.3f} {row["frames_per_s"] / 1e6:>9.4f} '
            f'{row["testpmd_frames_per_s"] / 1e6:>9.4f} {row["ratio"]:>7.3f}')
    return lines
