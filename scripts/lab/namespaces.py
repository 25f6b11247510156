# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Network namespaces that any user may make, each in the place of a host."""

import subprocess

from lab.processes import Unavailable, wait_until

LIMIT_S = 60
PREFIX_LENGTHS = {4: 24, 6: 64}


class Host:
    """A network namespace with the loopback device up, in a user namespace of its own or in that of
    the host `beside`. A process of `lab` holds it. Unavailable where no user may make one."""

    def __init__(self, lab, beside=None):
        own = ('unshare', '--user', '--map-root-user', '--net')
        self.holder = lab.start('host', [*(beside.enter('unshare', '--net') if beside else own), 'sh', '-c',
                                         'ip link set lo up && echo here && exec sleep infinity'])
        wait_until(lambda: self.holder.output() or self.holder.has_ended(), LIMIT_S, 'a namespace is there')
        if self.holder.has_ended():
            raise Unavailable(f'no namespaces of a user here: {self.holder.messages().strip()}')

    @property
    def pid(self):
        return self.holder.child.pid

    def enter(self, *command):
        """The command line that runs the command there, where it is root."""
        return ('nsenter', '--target', str(self.pid), '--user', '--net', '--preserve-credentials', *command)

    def run(self, script):
        """Runs a shell script there, to success."""
        subprocess.run(self.enter('sh', '-e', '-c', script), check=True, stdin=subprocess.DEVNULL,
                       timeout=LIMIT_S)


def two_hosts(lab, mtu, addresses):
    """Two hosts, joined by a veth pair; `addresses` are {family: those of both}."""
    first = Host(lab)
    second = Host(lab, first)
    first.run(f'ip link add eth0 mtu {mtu} type veth peer name eth0 mtu {mtu} netns {second.pid}')
    for number, host in enumerate((first, second)):
        host.run('ip link set eth0 up; ' + '; '.join(
            f'ip address add {pair[number]}/{PREFIX_LENGTHS[family]} dev eth0 {"nodad" if family == 6 else ""}'
            for family, pair in addresses.items()))
    return first, second
