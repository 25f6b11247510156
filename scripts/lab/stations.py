# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Several programs at the ports of an rh-switch, as memif joins only two."""

from lab.processes import wait_until


class Stations:
    """The switch runs from here on; its sockets are in `folder`."""

    def __init__(self, lab, programs, ports, folder, cpu=None):
        self.folder = folder
        self.switch = lab.start('rh-switch', [
            programs / 'rh-switch', '--memif', ports, '--socket-dir', folder, '--json'], cpu)
        wait_until(lambda: 'rh-switch: ready' in self.switch.messages() or self.switch.has_ended(),
                   20, 'rh-switch is not ready')
        if self.switch.has_ended():
            self.switch.expect_success(0)

    def socket(self, port):
        return self.folder / f'switch{port}.sock'

    def options(self, port, prefix_length=24):
        """Of a program at that port."""
        return ['--memif-role', 'client', '--memif-socket', self.socket(port),
                '--ip', f'10.42.0.{port + 1}/{prefix_length}']
