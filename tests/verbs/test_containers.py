#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The commands of examples/containers, each in a sandbox that has what the files grant and no more: a
user and a network namespace, a root file system that is read-only, no device, no capability, and the
64 MB of shared memory that engines give a container."""

import pathlib
import tempfile
import time
import unittest

try:
    import yaml
except ImportError:
    yaml = None

from pairs import PairTest
from verbs_support import PROGRAMS, ROOT

EXAMPLES = ROOT / 'examples/containers'
ADDRESSES = {4: ('10.8.0.1', '10.8.0.2'), 6: ('fd08::1', 'fd08::2')}
MTU = 1500
SHARED_MEMORY = 64 << 20
LIMIT_S = 60


class Container:
    """What a file grants one: `command`, `user`, `group`, and the folders `writable`."""

    def __init__(self, command, user, group, writable):
        self.command, self.user, self.group, self.writable = command, int(user), int(group), writable


def of_compose():
    """{name: Container}, a name being what others call it by."""
    services = yaml.safe_load((EXAMPLES / 'compose.yaml').read_text())['services']
    containers = {}
    for name, service in services.items():
        assert service['cap_drop'] == ['ALL'] and service['read_only'], name
        assert 'no-new-privileges:true' in service['security_opt'], name
        assert not {'cap_add', 'devices', 'network_mode', 'privileged', 'volumes'} & set(service), name
        containers[name] = Container(service['command'], *service['user'].split(':'), service['tmpfs'])
    return containers


def of_kubernetes():
    containers = {}
    for document in yaml.safe_load_all((EXAMPLES / 'kubernetes.yaml').read_text()):
        if document['kind'] != 'Job':
            continue
        pod = document['spec']['template']['spec']
        assert not {'hostNetwork', 'hostIPC', 'hostPID'} & set(pod)
        container, = pod['containers']
        rights = container['securityContext']
        assert rights == {'allowPrivilegeEscalation': False, 'readOnlyRootFilesystem': True,
                          'capabilities': {'drop': ['ALL']}}, rights
        user = pod['securityContext']
        assert user['runAsNonRoot'] and user['seccompProfile'] == {'type': 'RuntimeDefault'}
        volumes = {volume['name'] for volume in pod['volumes'] if set(volume) == {'name', 'emptyDir'}}
        assert volumes == {mount['name'] for mount in container['volumeMounts']}
        containers[document['metadata']['name']] = Container(
            container['command'], user['runAsUser'], user['runAsGroup'],
            [mount['mountPath'] for mount in container['volumeMounts']])
    return containers


@unittest.skipUnless(yaml, 'python3-yaml is not installed')
class Containers(PairTest):
    def setUp(self):
        super().setUp()
        self.need('bwrap')
        self.need('ib_write_bw')
        self.hosts = self.two_hosts(MTU, ADDRESSES)
        # The test's own folder is another user's.
        self.names = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix='rockhopper-')), 'hosts')

    def start_container(self, name, container, host):
        writable = [word for folder in container.writable for word in ('--tmpfs', folder)]
        sandbox = ['bwrap', '--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--die-with-parent',
                   '--uid', container.user, '--gid', container.group, '--cap-drop', 'ALL', '--clearenv',
                   '--setenv', 'PATH', f'{PROGRAMS}:/usr/bin:/bin', '--ro-bind', '/', '/',
                   '--ro-bind', self.names, '/etc/hosts', '--proc', '/proc',
                   '--dev', '/dev', '--size', SHARED_MEMORY, '--tmpfs', '/dev/shm', *writable,
                   # Last, as the build may be in one of these folders.
                   '--ro-bind', ROOT, ROOT, '--ro-bind', PROGRAMS, PROGRAMS]
        return self.lab.start(name, host.enter(*sandbox, *container.command))

    def meet(self, containers):
        """Server and client, the first and the second one of the file."""
        (server_name, server), (client_name, client) = containers.items()
        self.names.write_text(f'{ADDRESSES[4][0]} {server_name}\n')
        first = self.start_container(server_name, server, self.hosts[0])
        deadline = time.monotonic() + LIMIT_S
        while True:  # as an engine starts it anew
            second = self.start_container(client_name, client, self.hosts[1])
            if second.wait(LIMIT_S) == 0 or first.has_ended() or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.finish([first, second])
        self.assertRegex(second.output(), r'\n 65536 +5000 +\d')

    def test_compose(self):
        self.meet(of_compose())

    def test_kubernetes(self):
        self.meet(of_kubernetes())

    def test_the_sandbox_grants_nothing(self):
        """Or the other tests would show nothing."""
        container = of_compose()['server']
        container.command = ['sh', '-c', 'id -u; grep CapEff /proc/self/status; df --output=size -B1 /dev/shm; ls /dev; '
                             'for file in /usr/x /etc/x /var/x; do ! touch $file || exit 1; done; '
                             '! ip link add type veth']
        self.names.touch()
        looks = self.start_container('looks', container, self.hosts[0])
        said, = self.finish([looks])
        self.assertRegex(said, rf'^{container.user}\nCapEff:\s+0{{16}}\n.*\n *{SHARED_MEMORY}\n')
        self.assertNotIn('infiniband', said)

    def test_the_image_has_the_programs(self):
        """Containerfile installs what the commands run, and its user is theirs."""
        text = (EXAMPLES / 'Containerfile').read_text()
        self.assertIn('/packages/rockhopper_*.deb', text)
        self.assertIn('perftest', text)
        for container in (*of_compose().values(), *of_kubernetes().values()):
            self.assertIn(f'USER {container.user}:{container.group}\n', text)
            self.assertEqual(container.command[0], 'rh-run')


if __name__ == '__main__':
    unittest.main(verbosity=2)
