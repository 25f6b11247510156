#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Open MPI and MPICH, unmodified, over UCX: four processes under one rh-run, whose results are
checked, with proof by captures that all that they send goes over rh0."""

import pathlib
import re
import unittest

from mpi_program import BLOCK, ROUNDS, SIZES
from pairs import PairTest
from support import LIMIT_S, roce_packets
from verbs_support import LIBRARY_FOLDERS

PROCESSES = 4
PROGRAM = pathlib.Path(__file__).with_name('mpi_program.py')
PYTHON = '/usr/bin/python3'
MPI4PY = pathlib.Path('/usr/lib/python3/dist-packages/mpi4py')
# Neither shared memory nor TCP: what does not go over rh0 does not go.
TRANSPORTS = 'rc_v,self'
RING_BYTES, RING_LOOPS = 65536, 50
# What hpcc reads: numbers in lines of a fixed order, which words follow. Its other parts take their
# sizes from that of the matrix.
HPCC = """\
HPLinpack benchmark input file
four processes share two processors
HPL.out      output file name (if any)
8            device out
1            # of problem sizes (N)
200          Ns
1            # of block sizes (NB)
40           NBs
0            process mapping
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold of residuals
1            # of panel factorisations
2            PFACTs
1            # of recursive stopping criteria
4            NBMINs
1            # of panels in recursion
2            NDIVs
1            # of recursive panel factorisations
1            RFACTs
1            # of broadcasts
1            BCASTs
1            # of lookahead depths
1            DEPTHs
2            SWAP
64           swapping threshold
0            L1 in transposed form
0            U in transposed form
1            equilibration
8            memory alignment in double
separator
0            # of further problem sizes for PTRANS
1200         values of N
0            # of further block sizes for PTRANS
40           values of NB
"""


def library(pattern):
    """The file name of the newest library that is installed, else None."""
    found = [path.name for folder in LIBRARY_FOLDERS for path in folder.glob(pattern)
             if re.fullmatch(r'.*\.so\.\d+', path.name)]
    return max(found, default=None)


class Mpi(PairTest):
    def setUp(self):
        super().setUp()
        if not pathlib.Path(PYTHON).exists():
            self.skipTest(f'{PYTHON} is not there')

    def under_rh_run(self, *command, **more):
        # They ask before root runs them, where no ordinary user can. UCX 1.13 ends by an assertion when
        # it has repeated a connect, after 10 ms that a process may be without a processor, and both
        # answers come.
        settings = {'UCX_TLS': TRANSPORTS, 'UCX_NET_DEVICES': 'rh0:1', 'UCX_UD_TIMER_TICK': '1s',
                    'UCX_UD_ASYNC_TIMER_TICK': '1s', 'OMPI_ALLOW_RUN_AS_ROOT': 1,
                    'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': 1, 'TMPDIR': self.lab.folder}
        return super().under_rh_run('env', *(f'{name}={value}' for name, value in settings.items()),
                                    *command, **more)

    def run_mpi(self, *command, options=()):
        """Runs it to success."""
        self.need(command[0])
        process = self.start_verbs(command[0], *command, options=options)
        self.assertEqual(process.wait(LIMIT_S), 0, process.output()[-2000:] + process.messages())
        return process

    def check_program(self, mpirun, name):
        """Runs the program; each process sent on rh0 what it gave to MPI."""
        if name is None:
            self.skipTest(f'the library of {mpirun[0]} is not installed')
        process = self.run_mpi(*mpirun, '-np', PROCESSES, PYTHON, PROGRAM, name,
                               options=('--pcap', self.lab.path('rank-%p.pcapng')))
        ranks = re.findall(r'rank (\d) of 4 is right', process.output())
        self.assertEqual(sorted(ranks), list('0123'))
        captures = list(self.lab.folder.glob('rank-*.pcapng'))
        self.assertEqual(len(captures), PROCESSES)
        given = ROUNDS * sum(SIZES) + 2 * (PROCESSES - 1) * BLOCK
        for capture in captures:
            sent = sum(packet.payload_length for packet in roce_packets(capture)
                       if packet.direction == 'out')
            self.assertGreater(sent, given)

    def check_bench(self, mpirun, name):
        """The benchmarks of mpi4py: every process says hello, and a message goes in a ring."""
        if name is None or not MPI4PY.exists():
            self.skipTest('python3-mpi4py is not installed')
        bench = (*mpirun, '-np', PROCESSES, PYTHON, '-m', 'mpi4py.bench')
        hello = self.run_mpi(*bench, 'helloworld').output()
        self.assertEqual(sorted(re.findall(r'I am process (\d) of 4', hello)), list('0123'))
        ring = self.run_mpi(*bench, 'ringtest', '-n', RING_BYTES, '-l', RING_LOOPS).output()
        self.assertRegex(ring, rf'time for {RING_LOOPS} loops = .* \(4 processes, {RING_BYTES} bytes\)')

    def check_hpcc(self, mpirun):
        """HPC Challenge checks all that it computes: RandomAccess, PTRANS, DGEMM, FFT, HPL."""
        self.need('hpcc')
        self.lab.path('hpccinf.txt').write_text(HPCC)
        self.run_mpi(*mpirun, '-np', PROCESSES, 'hpcc')
        found = self.lab.path('hpccoutf.txt').read_text()
        self.assertIn('\nSuccess=1\n', found)
        # Each check says so in words of its own.
        self.assertEqual(len(re.findall(r'Found 0 errors in \d+ locations \(passed\)', found)), 4)
        self.assertEqual(re.findall(r'(\d+) tests completed and passed residual', found), ['5', '1'])
        self.assertEqual(re.findall(r'(\d+) tests completed and failed residual', found), ['0', '0'])
        errors = re.findall(r'Node\(s\) with error (\d+)', found)
        self.assertEqual((len(errors), set(errors)), (10, {'0'}))

    def check_netpipe(self, mpirun, netpipe):
        self.need(netpipe)
        process = self.run_mpi(*mpirun, '-np', 2, netpipe, '-i', '-u', 300_000, '-n', 3,
                               '-o', self.lab.path('netpipe'))
        results = re.findall(r'bytes +3 times --> +(.*)', process.messages())
        self.assertGreater(len(results), 20)
        self.assertEqual(set(results), {'Integrity check passed'})


class OpenMpi(Mpi):
    # Four processes share two processors, and give way while they wait.
    MPIRUN = ('mpirun.openmpi', '--oversubscribe', '--mca', 'mpi_yield_when_idle', 1, '--mca', 'pml',
              'ucx', '--mca', 'osc', 'ucx', '--mca', 'btl', 'self')

    def test_program(self):
        self.check_program(self.MPIRUN, library('libmpi.so.*'))

    def test_netpipe(self):
        self.check_netpipe(self.MPIRUN, 'NPopenmpi')


    def test_mpi4py(self):
        self.check_bench(self.MPIRUN, library('libmpi.so.*'))

    def test_hpcc(self):
        self.check_hpcc((*self.MPIRUN, '--wdir', self.lab.folder))


class Mpich(Mpi):
    # What MPICH sends itself within a machine does not go through UCX.
    MPIRUN = ('mpirun.mpich', '-genv', 'MPIR_CVAR_NOLOCAL', 1)

    def test_program(self):
        self.check_program(self.MPIRUN, library('libmpich.so.*'))

    def test_netpipe(self):
        self.check_netpipe(self.MPIRUN, 'NPmpich2')


if __name__ == '__main__':
    unittest.main(verbosity=2)
