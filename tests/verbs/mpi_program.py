#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What each process of `mpirun` runs: messages of all sizes and collective operations of the MPI library
that is named, by its C interface, with results checked. No compiler and no headers are needed.

    mpirun -np 4 python3 tests/verbs/mpi_program.py libmpi.so.40"""

import ctypes
import sys

SIZES = (0, 1, 64, 1024, 8192, 65536, 300_000)
ROUNDS = 3
BLOCK = 100_000


class Library:
    """The functions, and the handles of the implementation: addresses of objects in Open MPI,
    numbers in MPICH and those that share its ABI."""

    def __init__(self, name):
        self.mpi = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        if hasattr(self.mpi, 'ompi_mpi_comm_world'):
            self.world, self.byte, self.double, self.sum, self.no_info = (
                ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.mpi, 'ompi_mpi_' + name)))
                for name in ('comm_world', 'byte', 'double', 'op_sum', 'info_null'))
            self.no_status = None
            self.window = ctypes.c_void_p
        else:
            self.world, self.byte, self.double, self.sum = (
                ctypes.c_int(value) for value in (0x44000000, 0x4c00010d, 0x4c00080b, 0x58000003))
            self.no_status = ctypes.c_void_p(1)
            self.window = ctypes.c_int
            self.no_info = ctypes.c_int(0x1c000000)

    def __getattr__(self, name):
        def call(*arguments):
            status = getattr(self.mpi, 'MPI_' + name)(*arguments)
            assert status == 0, f'MPI_{name} returned {status}'
        return call

    def number(self, name):
        value = ctypes.c_int(-1)
        getattr(self, name)(self.world, ctypes.byref(value))
        return value.value


def pattern(sender, receiver, size):
    unit = bytes((sender * 64 + receiver * 16 + i) & 0xff for i in range(251))
    return (unit * (size // len(unit) + 1))[:size]


def check_ring(mpi, rank, count):
    """All send to the next and receive from the one before, at the same time."""
    after, before = (rank + 1) % count, (rank - 1) % count
    for size in SIZES:
        out = pattern(rank, after, size)
        for number in range(ROUNDS):
            got = ctypes.create_string_buffer(max(size, 1))
            mpi.Sendrecv(out, size, mpi.byte, after, number, got, size, mpi.byte, before, number,
                         mpi.world, mpi.no_status)
            assert got.raw[:size] == pattern(before, rank, size), (rank, size)


def check_collectives(mpi, rank, count):
    values = (ctypes.c_double * 1000)(*(rank + i for i in range(1000)))
    sums = (ctypes.c_double * 1000)()
    mpi.Allreduce(values, sums, 1000, mpi.double, mpi.sum, mpi.world)
    assert list(sums) == [count * i + count * (count - 1) / 2 for i in range(1000)], rank
    out = b''.join(pattern(rank, to, BLOCK) for to in range(count))
    got = ctypes.create_string_buffer(count * BLOCK)
    mpi.Alltoall(out, BLOCK, mpi.byte, got, BLOCK, mpi.byte, mpi.world)
    assert got.raw == b''.join(pattern(sender, rank, BLOCK) for sender in range(count)), rank
    for root in range(count):
        data = ctypes.create_string_buffer(pattern(root, root, BLOCK) if rank == root else BLOCK, BLOCK)
        mpi.Bcast(data, BLOCK, mpi.byte, root, mpi.world)
        assert data.raw == pattern(root, root, BLOCK), (rank, root)
        mpi.Barrier(mpi.world)


def check_window(mpi, rank, count):
    """One-sided: each puts its block into the windows of all."""
    memory = ctypes.create_string_buffer(count * BLOCK)
    window = mpi.window()
    mpi.Win_create(memory, ctypes.c_ssize_t(len(memory)), 1, mpi.no_info, mpi.world, ctypes.byref(window))
    mpi.Win_fence(0, window)
    blocks = [pattern(rank, to, BLOCK) for to in range(count)]  # they stay until the fence
    for to, block in enumerate(blocks):
        mpi.Put(block, BLOCK, mpi.byte, to, ctypes.c_ssize_t(rank * BLOCK), BLOCK, mpi.byte, window)
    mpi.Win_fence(0, window)
    assert memory.raw == b''.join(pattern(sender, rank, BLOCK) for sender in range(count)), rank
    mpi.Win_free(ctypes.byref(window))


def main():
    mpi = Library(sys.argv[1])
    mpi.Init(None, None)
    rank, count = mpi.number('Comm_rank'), mpi.number('Comm_size')
    for check in (check_ring, check_collectives, check_window):
        check(mpi, rank, count)
    mpi.Finalize()
    print(f'rank {rank} of {count} is right', flush=True)


if __name__ == '__main__':
    main()
