# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Links between two DPDK processes on this machine. The server's process opens the socket."""

import os
import pathlib
import shutil
import tempfile


def segment_memory():
    """The folder of shared memory, so that a segment's frames do not go to a disk; None, which is the
    default of tempfile, where there is none."""
    return '/dev/shm' if os.access('/dev/shm', os.W_OK | os.X_OK) else None


def segment_folder(lab):
    """A new folder for segments there, which ends with the lab."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix='rockhopper-', dir=segment_memory()))
    lab.at_end.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Link:
    """One link; every instance has a socket of its own."""

    def __init__(self, lab):
        self.socket = lab.path(f'{lab.unique(self.NAME)}.sock')


class Memif(Link):
    NAME = 'memif'

    def program_options(self, end):
        """For a Rockhopper program; `end` is 'server' or 'client'."""
        return ['--memif-socket', self.socket, '--memif-role', end]

    def testpmd_vdev(self, end):
        return (f'net_memif0,role={end},socket={self.socket},socket-abstract=no,'
                'bsize=4352,rsize=10')


class Vhost(Link):
    NAME = 'vhost'

    def _device(self, end):
        return (f'eth_vhost0,iface={self.socket}' if end == 'server'
                else f'net_virtio_user0,path={self.socket}')

    def program_options(self, end):
        return ['--device', self._device(end), '--link-mtu', 4200]

    def testpmd_vdev(self, end):
        return self._device(end)


LINKS = {link.NAME: link for link in (Memif, Vhost)}
