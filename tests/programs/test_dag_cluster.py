# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Graphs run on several hosts by what is in examples/cluster: ssh, Slurm, and the commands of the
Kubernetes manifest. The digest is the one that a reckoning in Python has."""

import json
import os
import random
import signal
import subprocess
import unittest

try:
    import yaml
except ImportError:
    yaml = None

import support
from cluster_support import INTERFACE, NETWORK, ClusterTest, needs
from support import LIMIT_S, LabError, wait_until
from test_dag import digest_of, random_workflow

EXAMPLES = support.ROOT / 'examples/cluster'
SEED = int(os.environ.get('ROCKHOPPER_SEED') or str(random.SystemRandom().getrandbits(32)), 0)
DEVICE = f'net_af_packet0,iface={INTERFACE},blocksz=65536,framesz=8192,framecnt=512'
ADDRESS = f'{NETWORK}.101/24'
# A busy machine is not taken for a lost peer.
SERVE = '--memory 64MiB --lease 20s'
# So long that nobody is ready before the test ends it.
LONG = '--scale 1000'


class OnCluster(ClusterTest):
    def setUp(self):
        super().setUp()
        print(f'seed: repeat with ROCKHOPPER_SEED={SEED}', flush=True)
        self.document = random_workflow(random.Random(SEED), 100)
        self.document['name'] = 'chance'
        self.workflow = self.lab.path('workflow.json')
        self.workflow.write_text(json.dumps(self.document))
        self.results = self.lab.path('results')

    def assert_right(self, text):
        self.assertEqual(json.loads(text)['digest'], digest_of(self.document, 1))

    def assert_workers_took_part(self, reports, nodes=100):
        self.assertEqual(sum(json.loads(path.read_text())['nodes'] for path in reports), nodes)

    def wait_for_begin(self, messages):
        try:
            wait_until(lambda: 'run chance: running' in messages(), LIMIT_S, 'the run begins')
        except LabError as error:
            self.fail(f'{error}; the server said:\n{messages()}')

    def wait_for_programs(self, count):
        wait_until(lambda: len(self.programs()) >= count, LIMIT_S, f'{count} rh-dag run')


@needs('ip', 'nsenter', 'unshare', 'bash', 'ssh', 'sshd', 'ssh-keygen')
class Ssh(OnCluster):
    def begin(self, *options):
        return self.head.start(EXAMPLES / 'ssh.sh', '--ssh', self.ssh, '--device', DEVICE,
                               '--address', ADDRESS, '--endpoint', '--idle sleep',
                               '--program', support.PROGRAMS / 'rh-dag', '--serve', SERVE,
                               '--results', self.results, *options, self.workflow,
                               *(host.name for host in self.hosts))

    def test_ssh(self):
        """A run; one that loses a worker; one that is ended by a signal, one whose server is lost."""
        self.ssh = self.start_sshd()
        script = self.begin()
        self.assert_status(script, 0)
        self.assert_right(script.output())
        self.assert_workers_took_part(self.results.glob('worker-*.json'))
        self.assert_all_ended()

        script = self.begin('--load', '--scale 0.1')
        self.wait_for_begin(script.messages)
        self.wait_for_programs(4)
        os.kill(self.hosts[1].programs()[0], signal.SIGKILL)
        self.assert_status(script, 0)
        self.assert_right(script.output())
        self.assert_all_ended()

        for victim in ('script', 'server'):
            script = self.begin('--load', LONG)
            self.wait_for_programs(4)
            if victim == 'script':
                own = [pid for pid, name in self.head.processes().items() if name == 'ssh.sh']
                os.kill(min(own), signal.SIGTERM)
            else:
                os.kill(self.hosts[0].programs()[0], signal.SIGKILL)
            self.assert_status(script, 1)
            self.assert_all_ended()

    def test_arguments(self):
        for arguments, word in ((['a', 'b'], 'worker'), (['--what'], '--what'),
                                (['--address', 'x', 'a', 'b', 'c'], 'ADDR/LEN')):
            done = subprocess.run([EXAMPLES / 'ssh.sh', *arguments], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)


@needs('ip', 'nsenter', 'unshare', 'bash', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'munged')
class Slurm(OnCluster):
    def slurm(self, *words, **more):
        return self.head.run(*words, SLURM_CONF=self.slurm_conf, **more)

    def environment(self, load):
        return {'SLURM_CONF': self.slurm_conf, 'RH_DEVICE': DEVICE, 'RH_ADDRESS': ADDRESS,
                'RH_ENDPOINT': '--idle sleep', 'RH_SERVE': SERVE, 'RH_LOAD': load,
                'RH_PROGRAM': support.PROGRAMS / 'rh-dag', 'RH_RESULTS': self.results}

    def submit(self, load=''):
        return self.head.run('sbatch', '--parsable', '--output', self.lab.path('job-%j.log'),
                             EXAMPLES / 'slurm.sh', self.workflow, **self.environment(load)).strip()

    def ended(self, job, state):
        def is_so():
            shown = self.slurm('scontrol', '--oneliner', 'show', 'job', job)
            return 'JobState=RUNNING' not in shown and 'JobState=PENDING' not in shown \
                and 'JobState=COMPLETING' not in shown and shown
        shown = wait_until(is_so, LIMIT_S, f'job {job} ends', 0.2)
        log = self.lab.path(f'job-{job}.log')
        said = log.read_text() if log.exists() else ''
        self.assertIn(f'JobState={state} ', shown, said)
        return said

    def test_slurm(self):
        """A run; one that loses a worker; one that is canceled."""
        self.start_slurm()
        self.ended(self.submit(), 'COMPLETED')
        self.assert_right((self.results / 'result.json').read_text())
        self.assert_workers_took_part(self.results.glob('worker-*.json'))
        self.assert_all_ended()

        job = self.submit('--scale 0.1')
        self.wait_for_programs(4)
        self.wait_for_begin((self.results / 'server.log').read_text)
        os.kill(self.hosts[1].programs()[0], signal.SIGKILL)
        self.ended(job, 'COMPLETED')
        self.assert_right((self.results / 'result.json').read_text())
        self.assert_all_ended()

        job = self.submit(LONG)
        self.wait_for_programs(4)
        self.slurm('scancel', job)
        self.ended(job, 'CANCELLED')
        self.assert_all_ended()


REQUIRED = {
    'NetworkAttachmentDefinition': ['config'],
    'Service': ['selector', 'ports'],
    'StatefulSet': ['serviceName', 'selector', 'template'],
    'Job': ['template'],
}


@unittest.skipIf(yaml is None, 'not installed: python3-yaml (scripts/setup installs it)')
@needs('ip', 'nsenter', 'unshare')
class Kubernetes(OnCluster):
    """No Kubernetes is here: the manifest is read, and what its containers run is run on hosts that
    have the interface of its annotations."""

    hosts_wanted = 4

    def manifest(self):
        documents = list(yaml.safe_load_all((EXAMPLES / 'kubernetes.yaml').read_text()))
        for document in documents:
            self.assertIn('/' if document['kind'] != 'Service' else 'v1', document['apiVersion'])
            for field in REQUIRED[document['kind']]:
                self.assertIn(field, document['spec'], document['kind'])
        return {document['metadata']['name']: document for document in documents}

    def container(self, document):
        template = document['spec']['template']
        network = template['metadata']['annotations']['k8s.v1.cni.cncf.io/networks']
        self.assertEqual(network, f'roce@{INTERFACE}')
        container, = template['spec']['containers']
        self.assertIn('NET_RAW', container['securityContext']['capabilities']['add'])
        if document['kind'] == 'Job':
            self.assertIn(template['spec']['restartPolicy'], ('Never', 'OnFailure'))
        return container

    def begin(self, host, document, **environment):
        container = self.container(document)
        words = [*container['command'], *container['args']]
        for mount in container.get('volumeMounts', []):
            words = [word.replace(mount['mountPath'], str(self.lab.folder)) for word in words]
        return host.start(*words, **environment)

    def test_manifest(self):
        made = self.manifest()
        server, workers, load = (made[f'rh-dag-{name}'] for name in ('server', 'worker', 'load'))
        service = made['rh-dag']['spec']
        labels = server['spec']['template']['metadata']['labels']
        self.assertEqual(service['selector'], labels)
        self.assertEqual(server['spec']['selector']['matchLabels'], labels)
        self.assertEqual(server['spec']['serviceName'], 'rh-dag')
        # As the service does with the name.
        with self.lab.path('hosts').open('a') as hosts:
            hosts.write(f'{NETWORK}.1 rh-dag\n')
        serving = self.begin(self.hosts[0], server)
        working = [self.begin(self.hosts[1 + index], workers, JOB_COMPLETION_INDEX=index)
                   for index in range(workers['spec']['completions'])]
        loading = self.begin(self.hosts[3], load)
        self.assert_status(loading, 0)
        self.assert_right(loading.output())
        for worker in working:
            self.assert_status(worker, 0)
        os.kill(self.hosts[0].programs()[0], signal.SIGTERM)
        self.assert_status(serving, 0)
        self.assert_all_ended()


if __name__ == '__main__':
    support.main()
