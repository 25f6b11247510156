# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Graphs run by several rh-dag work over memif: the digest is the one that a reckoning in Python
has, whoever is killed, stands still, or comes later. ROCKHOPPER_DAG_NODES is how many nodes random
graphs have."""

import json
import os
import signal
import time

import support
from dag_support import DagTest
from support import LIMIT_S, wait_until
from test_dag import commands, digest_of, random_workflow

NODES = int(os.environ.get('ROCKHOPPER_DAG_NODES', '5000'))

BAD_ARGUMENTS = [
    ('load', [], '--random'),
    ('load', ['--random', 'nodes=0'], 'nodes=0'),
    ('load', ['--random', 'knots=3'], 'knots'),
    ('load', ['--random', 'nodes=3', '--name', 'a/b'], 'a/b'),
    ('load', ['--random', 'nodes=3', '--drop'], '--wait'),
    ('load', ['--random', 'nodes=3', '--priority', '4'], '--priority'),
    ('load', ['/nonexistent'], '/nonexistent'),
    ('work', ['--slots', '0'], '--slots'),
    ('work', ['--inline', '--slots', '2'], '--inline'),
    ('work', ['--name', 'a b'], 'a b'),
    ('cancel', [], 'run'),
    ('drop', ['a b'], 'a b'),
    ('status', ['--watch', '0'], '--watch'),
]


class Run(DagTest):
    """The home is at port 0 of the switch, loaders at port 1, workers at the others."""

    def work(self, number, servers, *arguments):
        return self.client('work', 2 + number, servers, '--name', f'w{number}', '--json',
                           *arguments)

    def workflow(self, tasks, name='workflow'):
        document = random_workflow(self.random, tasks)
        path = self.lab.path(name + '.json')
        path.write_text(json.dumps(document))
        return document, path

    def load(self, servers, path, *arguments, status=0):
        return self.asked('load', 1, servers, path, '--wait', '--name', 'run', *arguments,
                          status=status)[-1]

    def status(self, servers):
        return self.asked('status', 1, servers)[0]

    def completed(self, servers, looker=1):
        runs = self.asked('status', looker, servers)[0]['runs']
        return runs[0]['completed'] if runs else 0

    def test_bad_arguments(self):
        for command, arguments, word in BAD_ARGUMENTS:
            with self.subTest(command=command, arguments=arguments):
                self.assertRegex(self.assert_refused('rh-dag', command, *arguments), word)

    def test_workers(self):
        """DG-1 to DG-3, DG-10 to DG-12, DG-34, DG-35, DG-37, DG-40: with one, two and four workers
        the digest is the same, and each node is run once."""
        self.start_switch(6)
        document, path = self.workflow(300)
        server, where = self.serve()
        for workers in (1, 2, 4):
            log = self.lab.path(f'logs{workers}')
            log.mkdir()
            mode = self.random.choice([[], ['--inline'], ['--slots', '2']])
            started = [self.work(number, where, '--runs', 1, '--log', log, *mode)
                       for number in range(workers)]
            shown = self.load(where, path, '--scale', 0.0002)
            self.assertEqual(shown['digest'], digest_of(document, 1))
            reports = []
            for worker in started:
                self.assert_status(worker, 0)
                reports.append(json.loads(worker.output()))
            self.assertEqual(sum(report['nodes'] for report in reports), 300)
            self.run_client('drop', 1, where, 'run')
            logs = sorted(log.iterdir())
            checked = self.run_program('rh-dag', 'report', *logs, '--workflow', path, '--json')
            self.assert_status(checked, 0)
            self.assertEqual(json.loads(checked.output())['committed'], 300)
        shown = self.report(server)
        self.assertEqual(shown['clients']['fenced'], 0)
        self.assert_versions('rh-dag', [shown, *reports])

    def test_random_graphs(self):
        """DG-21, DG-34, DG-35, DG-41: many small tasks of a graph by chance, in two runs at once; the
        digest is that of a run by one thread."""
        self.start_switch(5)
        server, where = self.serve('--memory', '512MiB', '--records', 4 * NODES)
        workers = [self.work(number, where, '--runs', 2, '--inline') for number in range(2)]
        specs = {name: f'nodes={NODES},seed={self.random.getrandbits(32)},'
                       f'edges={self.random.randrange(1, 5)},width={width},'
                       f'bytes={self.random.randrange(32, 300)}'
                 for name, width in (('wide', 0), ('narrow', 20))}
        self.run_client('load', 1, where, '--random', specs['wide'], '--name', 'wide')
        shown = self.asked('load', 1, where, '--random', specs['narrow'], '--name', 'narrow', '--wait')
        alone = self.run_program('rh-dag', 'run-local', '--random', specs['narrow'], '--json')
        self.assertEqual(shown[-1]['digest'], json.loads(alone.output())['digest'])
        for worker in workers:
            self.assert_status(worker, 0)
        self.assertEqual(sum(json.loads(worker.output())['nodes'] for worker in workers), 2 * NODES)
        self.report(server)

    def linked_station(self, port):
        """As station(), but with links of the home in place of a switch: port 0 is the home."""
        link = ['--memif-role', 'client', '--memif-id', port - 1] if port > 0 else [
            '--memif-role', 'server', '--memif-links', 5]
        return ['--memif-socket', self.lab.path('home.sock'), *link, '--ip', f'10.42.0.{port + 1}/24']

    def test_links_of_the_home(self):
        """DG-12, DG-35, DG-36: without a switch each worker has a memif link of the home, and steals
        from the others through it. One is killed, and another comes by the same link."""
        self.station = self.linked_station
        document, path = self.workflow(300)
        server, where = self.serve('--lease', '3s')
        workers = [self.work(number, where, '--slots', 2, '--runs', 1) for number in range(3)]
        loader = self.client('load', 1, where, path, '--wait', '--name', 'run', '--json',
                             '--scale', 0.3)
        looker = 5

        def has_begun():
            self.assertFalse(loader.has_ended(), loader.messages())
            return self.completed(where, looker) > 0
        wait_until(has_begun, LIMIT_S, 'nodes are run')
        workers[0].child.kill()
        workers[0].child.wait()
        workers[0] = self.work(0, where, '--slots', 2, '--runs', 1)
        self.assert_status(loader, 0)
        self.assertEqual(json.loads(loader.output())['digest'], digest_of(document, 1))
        for worker in workers:
            self.assert_status(worker, 0)
        self.assertGreater(sum(json.loads(worker.output())['counters']['steals_successful']
                               for worker in workers), 0)
        self.report(server)

    def test_killed_workers(self):
        """DG-35, DG-36: workers are killed, one after another, and others come: the digest is right,
        and no output is missing."""
        self.start_switch(6)
        document, path = self.workflow(300)
        server, where = self.serve('--lease', '3s')
        # Tasks take so long that the run does not end before the last worker is killed, although it
        # takes seconds on a busy machine to look at it.
        loader = self.client('load', 1, where, path, '--wait', '--name', 'run', '--json',
                             '--scale', 1)
        workers = [self.work(number, where, '--slots', 2, '--runs', 1) for number in range(3)]
        looker = 5
        done = 0
        for victim in range(3):
            def completed():
                """So many nodes, if they have become more."""
                self.assertFalse(loader.has_ended(), loader.messages())
                runs = self.asked('status', looker, where)[0]['runs']
                return bool(runs) and runs[0]['completed'] > done and runs[0]['completed']
            done = wait_until(completed, LIMIT_S, 'nodes are run')
            workers[victim].child.kill()
            workers[victim].child.wait()
            workers[victim] = self.work(victim, where, '--slots', 2, '--runs', 1)
        self.assert_status(loader, 0)
        self.assertEqual(json.loads(loader.output())['digest'], digest_of(document, 1))
        for worker in workers:
            self.assert_status(worker, 0)
        self.report(server)

    def test_a_task_that_kills_its_workers(self):
        """DG-36, DG-41: it ends its run after so many lost workers as the run allows, and all who show
        the run name it. Other runs go on."""
        self.start_switch(6)
        server, where = self.serve('--lease', '2s')
        document, path = self.workflow(100)
        deadly = self.lab.path('deadly.json')
        deadly.write_text(json.dumps(commands({'first': 'echo 1', 'deadly': 'kill -9 $PPID; sleep 1'})))
        other = self.client('load', 5, where, path, '--wait', '--name', 'other', '--json', '--scale', 1)
        loader = self.client('load', 1, where, deadly, '--commands', '--wait', '--name', 'run',
                             '--lost-attempts', 2)
        workers = {number: self.work(number, where, '--allow-commands') for number in range(2)}
        over = False
        while not over:
            over = loader.has_ended()
            for number, worker in workers.items():
                if worker.has_ended():
                    workers[number] = self.work(number, where, '--allow-commands')
            time.sleep(0.05)
        why = "node 'deadly': 2 workers were lost while running it"
        self.assert_failed(loader, why)
        self.assertIn(f'run run: failed: {why}', server.messages())
        run = next(run for run in self.asked('status', 1, where)[0]['runs'] if run['run'] == 'run')
        self.assertEqual((run['phase'], run['text'], run['lost']), ('failed', why, 2))
        self.assert_status(other, 0)
        self.assertEqual(json.loads(other.output())['digest'], digest_of(document, 1))
        for worker in workers.values():
            worker.child.send_signal(signal.SIGTERM)
            self.assert_status(worker, 0)
        self.report(server)

    def test_who_stood_still_joins_again(self):
        """DG-36: a worker that stood still is fenced; what it had is run by others, and it takes part
        again. The loader, which is fenced too, finds its run still there."""
        self.start_switch(5)
        document, path = self.workflow(200)
        server, where = self.serve('--lease', '3s')
        workers = [self.work(number, where, '--runs', 1) for number in range(2)]
        wait_until(lambda: len(self.status(where)['workers']) == 2, LIMIT_S, 'both have joined')
        loader = self.client('load', 1, where, path, '--wait', '--name', 'run', '--json',
                             '--scale', 0.03)
        wait_until(lambda: 'run run: running' in server.messages(), LIMIT_S, 'the run begins')
        for process in (workers[0], loader):
            process.child.send_signal(signal.SIGSTOP)
        wait_until(lambda: server.messages().count('was fenced') >= 2, LIMIT_S, 'the server fences')
        for process in (workers[0], loader):
            process.child.send_signal(signal.SIGCONT)
        self.assert_status(loader, 0)
        self.assertEqual(json.loads(loader.output())['digest'], digest_of(document, 1))
        for worker in workers:
            self.assert_status(worker, 0)
        self.report(server)

    def test_nodes_are_run_without_the_home(self):
        """DG-34, DG-38 to DG-40: while the home's application stands still, workers claim, release and
        steal nodes among themselves, and everybody sees by READs how far they are."""
        self.start_switch(6)
        _, path = self.workflow(300)
        server, where = self.serve('--lease', '20s')
        workers = [self.work(number, where, '--slots', 4, '--runs', 1) for number in range(2)]
        watch = self.client('status', 4, where, '--watch', 0.05, '--json')
        self.run_client('load', 1, where, path, '--name', 'run', '--scale', 0.15)

        def completed():
            lines = [line for line in watch.output().splitlines(keepends=True)
                     if line.endswith('\n')]
            runs = json.loads(lines[-1])['runs'] if lines else []
            return (runs[0]['completed'], runs[0]['phase']) if runs else (0, 'none')
        # Each has memory for outputs by then, which it has to ask for.
        wait_until(lambda: completed()[0] > 10, LIMIT_S, 'nodes are run')
        self.stop_application(server)
        stopped_at, _ = completed()
        wait_until(lambda: completed()[0] == 300, LIMIT_S, 'all nodes are run')
        self.assertLess(stopped_at, 300)
        self.assertEqual(completed()[1], 'running')
        self.continue_application(server)
        for worker in workers:
            self.assert_status(worker, 0)
        wait_until(lambda: completed()[1] == 'complete', LIMIT_S, 'the home knows')
        self.report(server)

    def test_two_runs_and_one_canceled(self):
        """DG-41: three runs at once; the one that is canceled ends, and the others are right."""
        self.start_switch(6)
        server, where = self.serve()
        documents = [self.workflow(150, name) for name in ('a', 'b', 'c')]
        names = ('a', 'b', 'c')
        # The one to be canceled takes ten seconds, so that it is not over before.
        for name, (_, path), scale in zip(names, documents, (0.01, 1, 0.01)):
            self.run_client('load', 1, where, path, '--name', name, '--scale', scale,
                            '--priority', self.random.randrange(4))
        workers = [self.work(number, where, '--slots', 2, '--until-idle') for number in range(3)]
        self.run_client('cancel', 1, where, 'b', '--wait')
        phases = {run['run']: run['phase'] for run in self.status(where)['runs']}
        self.assertEqual(phases['b'], 'canceled')
        for worker in workers:
            self.assert_status(worker, 0)
        phases = {run['run']: run['phase'] for run in self.status(where)['runs']}
        self.assertEqual(phases, {'a': 'complete', 'b': 'canceled', 'c': 'complete'})
        for name in names:
            self.run_client('drop', 1, where, name)
        self.assertEqual(self.status(where)['runs'], [])
        self.assertEqual(self.report(server)['records'], 0)

    def test_refusals(self):
        """DG-33, DG-41, DG-42: a name that is taken, no room for a run, a run that is not there;
        a task that fails, with its text; commands that are not allowed."""
        self.start_switch(4)
        server, where = self.serve('--runs', 2, '--memory', '4MiB')
        _, path = self.workflow(20)
        self.run_client('load', 1, where, path, '--name', 'first')
        again = self.run_client('load', 1, where, path, '--name', 'first', status=1)
        self.assert_failed(again, 'there is a run of that name already')
        self.assert_failed(self.run_client('drop', 1, where, 'first', status=1), 'another state')
        self.assert_failed(self.run_client('cancel', 1, where, 'nobody', status=1), 'no such run')
        self.run_client('load', 1, where, support.ROOT / 'tests/data/workflows/letters.json',
                        '--name', 'second', '--commands')
        third = self.run_client('load', 1, where, path, '--name', 'third', status=1)
        self.assert_failed(third, 'no room')
        worker = self.work(0, where, '--until-idle')
        self.assert_status(worker, 0)
        runs = {run['run']: run for run in self.status(where)['runs']}
        self.assertEqual(runs['first']['phase'], 'complete')
        self.assertEqual(runs['second']['phase'], 'failed')
        self.assertIn('commands are not run here', runs['second']['text'])
        self.run_client('drop', 1, where, 'second')
        large = self.run_client('load', 1, where, '--random', 'nodes=200000', status=1)
        self.assert_failed(large, 'room|memory')
        self.run_client('drop', 1, where, 'first')
        self.assertEqual(self.report(server)['records'], 0)

    def test_commands_and_several_servers(self):
        """DG-14: outputs are at other servers than the home, a program's output is what its
        successors read, and a run that is dropped leaves nothing at any server."""
        self.start_switch(6)
        started = [self.serve(station=station) for station in (0, 4, 5)]
        places = [where for _, where in started]
        placement = ['--placement', self.random.choice(['hash', 'affinity'])]
        workers = [self.work(number, places, '--runs', 2, '--allow-commands', *placement)
                   for number in range(2)]
        letters = support.ROOT / 'tests/data/workflows/letters.json'
        shown = self.asked('load', 1, places, letters, '--commands', '--wait', '--name', 'letters')
        alone = self.run_program('rh-dag', 'run-local', letters, '--commands', '--json')
        self.assertEqual(shown[-1]['digest'], json.loads(alone.output())['digest'])
        document, path = self.workflow(100)
        self.assertEqual(self.load(places, path)['digest'], digest_of(document, 1))
        elsewhere = 0
        for worker in workers:
            self.assert_status(worker, 0)
            elsewhere += json.loads(worker.output())['counters']['outputs_elsewhere']
        self.assertGreater(elsewhere, 0)
        node = next(iter(document['workflow']['specification']['tasks']))['id']
        output, = self.asked('get', 1, places, f'run/{node}', '--output')
        self.assertEqual(output['bytes'], 32)
        for run in ('letters', 'run'):
            self.run_client('drop', 1, places, run)
        home, *others = (self.report(server) for server, _ in started)
        self.assertEqual(home['records'], 0)
        for other in others:
            counters = other['counters']
            self.assertEqual(counters['group_arenas_released'], counters['arenas'])


if __name__ == '__main__':
    support.main()
