#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Open MPI and MPICH, unmodified, over UCX: four processes under one rh-run, whose results are
checked, with proof by captures that all that they send goes over rh0."""

import pathlib
import re
import shutil
import unittest

from mpi_program import BLOCK, ROUNDS, SIZES
from pairs import PairTest
from support import LIMIT_S, roce_packets
from verbs_support import LIBRARY_FOLDERS

PROCESSES = 4
PROGRAM = pathlib.Path(__file__).with_name('mpi_program.py')
PYTHON = '/usr/bin/python3'
# Neither shared memory nor TCP: what does not go over rh0 does not go.
TRANSPORTS = 'rc_v,self'


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

    def under_rh_run(self, *command, options=()):
        # They ask before root runs them. UCX 1.13 ends by an assertion when it has repeated a connect,
        # after 10 ms that a process may be without a processor, and both answers come.
        settings = {'UCX_TLS': TRANSPORTS, 'UCX_NET_DEVICES': 'rh0:1', 'UCX_UD_TIMER_TICK': '1s',
                    'UCX_UD_ASYNC_TIMER_TICK': '1s', 'OMPI_ALLOW_RUN_AS_ROOT': 1,
                    'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': 1, 'TMPDIR': self.lab.folder}
        return super().under_rh_run('env', *(f'{name}={value}' for name, value in settings.items()),
                                    *command, options=options)

    def run_mpi(self, *command, options=()):
        """Runs it to success."""
        if shutil.which(command[0]) is None:
            self.skipTest(f'{command[0]} is not installed')
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

    def check_netpipe(self, mpirun, netpipe):
        if shutil.which(netpipe) is None:
            self.skipTest(f'{netpipe} is not installed')
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


class Mpich(Mpi):
    # What MPICH sends itself within a machine does not go through UCX.
    MPIRUN = ('mpirun.mpich', '-genv', 'MPIR_CVAR_NOLOCAL', 1)

    def test_program(self):
        self.check_program(self.MPIRUN, library('libmpich.so.*'))

    def test_netpipe(self):
        self.check_netpipe(self.MPIRUN, 'NPmpich2')


if __name__ == '__main__':
    unittest.main(verbosity=2)
