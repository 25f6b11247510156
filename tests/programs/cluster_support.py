# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A cluster on one machine: hosts that are namespaces of their own (network, processes, mounts, name),
joined by a bridge; sshd on them, and Debian's Slurm. All of it ends with the test, even a killed one."""

import os
import pathlib
import shutil
import subprocess
import unittest

import support
from support import LIMIT_S, wait_until

NETWORK = '10.9.0'
# Of the kernel's addresses; those of RoCE come behind.
HEAD_NUMBER = 100
INTERFACE = 'net1'

# The first process of a host. It ends when the test closes its standard input, be it by dying; with
# it end all processes of the host, its network, and what is mounted.
HOST = '''
hostname "$1"
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -m 755 /run/sshd /run/munge /run/rockhopper
mount --bind "$2" /etc/hosts
ip link set lo up
echo ready
exec cat
'''

MUNGE_KEY_BYTES = 128

SLURM = '''
ClusterName=rockhopper
SlurmctldHost=head
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=10
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
NodeName={nodes} CPUs=2
PartitionName=all Nodes=ALL Default=YES State=UP
'''

SSHD = '''
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
'''

SSH = '''
Host *
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
  BatchMode yes
'''


def needs(*programs):
    """Skips a test where it cannot be run, and says why."""
    def why():
        if os.geteuid() != 0:
            return 'only root can make network namespaces'
        path = os.environ.get('PATH', '') + ':/usr/sbin:/sbin'
        missing = [name for name in programs if not shutil.which(name, path=path)]
        if missing:
            return f'not installed: {", ".join(missing)} (scripts/setup installs them)'
        made = subprocess.run(['unshare', '--net', '--mount', '--uts', '--pid', '--fork',
                               '--mount-proc', 'true'], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        return f'no namespaces here: {made.stderr.strip()}' if made.returncode else ''
    reason = why()
    return unittest.skipIf(reason, reason)


class Host:
    """A host of the cluster; `pid` is its first process, as the machine sees it."""

    def __init__(self, test, name):
        self.test = test
        self.name = name
        hosts = test.lab.path('hosts')
        self.child = subprocess.Popen(
            ['unshare', '--net', '--mount', '--uts', '--pid', '--fork', '--kill-child',
             '--mount-proc', 'sh', '-ec', HOST, 'host', name, hosts],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.lab.at_end.callback(self.end)
        test.assertEqual(self.child.stdout.readline(), 'ready\n', f'host {name}')
        children = pathlib.Path(f'/proc/{self.child.pid}/task/{self.child.pid}/children')
        self.pid, = map(int, children.read_text().split())
        self.space = os.readlink(f'/proc/{self.pid}/ns/pid')

    def end(self):
        self.child.stdin.close()
        self.child.stdout.close()
        try:
            self.child.wait(60)
        finally:
            self.child.kill()

    def command(self, *words, **environment):
        """A command line that runs `words` on this host."""
        path = f'{support.PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin'
        variables = [f'{name}={value}' for name, value in {'PATH': path, **environment}.items()]
        return ['nsenter', f'--target={self.pid}', '--net', '--mount', '--uts', '--pid',
                f'--wd={self.test.lab.folder}', 'env', *variables, *map(str, words)]

    def start(self, *words, **environment):
        name = f'{self.name}-{pathlib.Path(words[0]).name}'
        return self.test.lab.start(name, self.command(*words, **environment))

    def run(self, *words, status=0, **environment):
        process = self.start(*words, **environment)
        self.test.assert_status(process, status)
        return process.output()

    def processes(self):
        """Process ids, as the machine has them, and names of what runs here."""
        found = {}
        for folder in pathlib.Path('/proc').iterdir():
            try:
                if folder.name.isdigit() and os.readlink(folder / 'ns/pid') == self.space:
                    name, rest = (folder / 'stat').read_text().split('(', 1)[1].rsplit(')', 1)
                    if rest.split()[0] not in 'ZX':
                        found[int(folder.name)] = name
            except OSError:
                pass  # it has ended meanwhile, or is nothing that may be looked at
        return found

    def programs(self):
        """Process ids of the rh-dag that run here."""
        return [pid for pid, name in self.processes().items() if name == 'rh-dag']


class ClusterTest(support.ProgramTest):
    """`hosts` is where graphs are run; at `head` their user sits."""

    hosts_wanted = 3

    def setUp(self):
        super().setUp()
        names = [f'node{number}' for number in range(self.hosts_wanted)]
        lines = [f'{NETWORK}.{number + 1} {name}\n' for number, name in enumerate(names)]
        lines += [f'{NETWORK}.{HEAD_NUMBER} head\n', '127.0.0.1 localhost\n']
        self.lab.path('hosts').write_text(''.join(lines))
        self.head = Host(self, 'head')
        self.head.run('ip', 'link', 'add', 'bridge', 'type', 'bridge')
        self.head.run('ip', 'addr', 'add', f'{NETWORK}.{HEAD_NUMBER}/24', 'dev', 'bridge')
        self.head.run('ip', 'link', 'set', 'bridge', 'up')
        self.hosts = [Host(self, name) for name in names]
        for number, host in enumerate(self.hosts):
            self.join(host, number)

    def join(self, host, number):
        port = f'port{number}'
        subprocess.run(['ip', 'link', 'add', INTERFACE, 'netns', str(host.pid), 'type', 'veth',
                        'peer', 'name', port, 'netns', str(self.head.pid)], check=True)
        host.run('ip', 'addr', 'add', f'{NETWORK}.{number + 1}/24', 'dev', INTERFACE)
        host.run('ip', 'link', 'set', INTERFACE, 'up')
        self.head.run('ip', 'link', 'set', port, 'up', 'master', 'bridge')

    def programs(self):
        """What runs anywhere: process ids of rh-dag."""
        return [pid for host in [self.head, *self.hosts] for pid in host.programs()]

    def assert_all_ended(self):
        wait_until(lambda: not self.programs(), LIMIT_S, 'no rh-dag is left')

    def start_sshd(self):
        """An sshd on each host; returns the ssh that reaches them."""
        folder = self.lab.folder
        for key in ('host_key', 'user_key'):
            self.head.run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', folder / key)
        public = (folder / 'host_key.pub').read_text()
        (folder / 'known_hosts').write_text('* ' + public)
        (folder / 'sshd_config').write_text(SSHD.format(folder=folder))
        (folder / 'ssh_config').write_text(SSH.format(folder=folder))
        for host in self.hosts:
            daemon = host.start('/usr/sbin/sshd', '-D', '-e', '-f', folder / 'sshd_config')
            wait_until(lambda said=daemon: self.says(said, 'Server listening'), LIMIT_S, 'sshd listens')
        return f'ssh -F {folder}/ssh_config'

    def start_slurm(self):
        """munged on each host, slurmctld on the head, slurmd on the others. Their ports are the
        usual ones, in networks of their own."""
        folder = self.lab.folder
        nodes = ','.join(host.name for host in self.hosts)
        (folder / 'state').mkdir()
        self.slurm_conf = folder / 'slurm.conf'
        self.slurm_conf.write_text(SLURM.format(folder=folder, nodes=nodes))
        key = folder / 'munge.key'
        key.touch(0o600)
        key.write_bytes(os.urandom(MUNGE_KEY_BYTES))
        for host in [self.head, *self.hosts]:
            host.start('munged', '--foreground', '--force', f'--key-file={key}',
                       '--socket=/run/munge/munge.socket.2', '--pid-file=/run/munge/pid',
                       '--seed-file=/run/munge/seed', '--num-threads=2')
        for host in [self.head, *self.hosts]:
            wait_until(lambda where=host: self.tries(where, 'munge', '--no-input'), LIMIT_S,
                       'munged answers')
        self.head.start('slurmctld', '-D', '-f', self.slurm_conf, SLURM_CONF=self.slurm_conf)
        for host in self.hosts:
            host.start('slurmd', '-D', '-N', host.name, '-f', self.slurm_conf,
                       SLURM_CONF=self.slurm_conf)
        wait_until(lambda: self.idle_nodes() == len(self.hosts), LIMIT_S, 'Slurm has all nodes')

    def idle_nodes(self):
        shown = subprocess.run(
            self.head.command('sinfo', '--noheader', '--Node', '--format=%T',
                              SLURM_CONF=self.slurm_conf),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return shown.stdout.split().count('idle')

    def tries(self, host, *words):
        return subprocess.run(host.command(*words), stdin=subprocess.DEVNULL, capture_output=True,
                              check=False).returncode == 0

    def says(self, process, words):
        self.assertFalse(process.has_ended(), process.messages())
        return words in process.messages()
