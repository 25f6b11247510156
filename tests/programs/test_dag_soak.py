# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Long runs of graphs: 100,000 nodes while a worker is killed every two seconds, with
ROCKHOPPER_SOAK=1; and each workflow of the folder that ROCKHOPPER_WORKFLOWS names, with one, two
and four workers."""

import json
import os
import pathlib
import time
import unittest

import support
from dag_support import DagTest
from support import wait_until

SOAK = os.environ.get('ROCKHOPPER_SOAK', '0') not in ('', '0')
WORKFLOWS = os.environ.get('ROCKHOPPER_WORKFLOWS', '')
LIMIT_S = 600
WORKERS = 4
# How long the work of a workflow, or its critical path, takes.
WORKFLOW_S = 8


class Soak(DagTest):
    """The home is at port 0 of the switch, loaders at port 1, workers at the others."""

    def work(self, number, where, *arguments):
        return self.client('work', 2 + number, where, '--name', f'w{number}', '--json', '--runs', 1,
                           *arguments)

    def local(self, *arguments):
        alone = self.run_program('rh-dag', 'run-local', *arguments, '--json')
        self.assert_status(alone, 0)
        return json.loads(alone.output())

    @unittest.skipUnless(SOAK, 'takes a minute: ROCKHOPPER_SOAK=1')
    def test_killed_every_two_seconds(self):
        """DG-1, DG-34 to DG-36: each node counts once, whoever is killed."""
        nodes = 100_000
        graph = f'nodes={nodes},seed={self.random.getrandbits(32)},edges=3'
        expected = self.local('--random', graph)['digest']
        self.start_switch(2 + WORKERS)
        server, where = self.serve('--memory', '1GiB', '--records', 4 * nodes, '--lease', '500ms')
        workers = [self.work(number, where, '--slots', 4) for number in range(WORKERS)]
        loader = self.client('load', 1, where, '--random', graph + ',work=2ms', '--wait', '--json',
                             '--lost-attempts', 1000)
        killed = 0
        while not loader.has_ended():
            time.sleep(2)  # what the test is about, not a wait for anything
            victim = self.random.randrange(WORKERS)
            if loader.has_ended() or workers[victim].has_ended():
                continue
            workers[victim].child.kill()
            workers[victim].child.wait()
            workers[victim] = self.work(victim, where, '--slots', 4)
            killed += 1
        self.assert_status(loader, 0)
        shown = json.loads(loader.output())
        print(f'{nodes} nodes in {shown["run_seconds"]:.1f} s, {killed} workers killed, '
              f'{shown["lost"]} nodes put back')
        self.assertEqual(shown['digest'], expected)
        self.assertGreater(killed, 2)
        for worker in workers:
            worker.end()
        self.report(server)

    @unittest.skipUnless(WORKFLOWS, 'ROCKHOPPER_WORKFLOWS names a folder of workflows')
    def test_workflows(self):
        """DG-10 to DG-13: real workflows, with one, two and four workers."""
        paths = sorted(pathlib.Path(WORKFLOWS).glob('*.json'))
        self.assertTrue(paths)
        self.start_switch(2 + WORKERS)
        server, where = self.serve('--memory', '1GiB')
        for path in paths:
            summary = json.loads(self.run_program('rh-dag', 'check', path, '--json').output())
            expected = self.local(path)['digest']
            for workers in (1, 2, 4):
                with self.subTest(workflow=path.name, workers=workers):
                    longest = max(summary['work_s'] / workers, summary['critical_path_s'])
                    self.check_workflow(path, where, workers, WORKFLOW_S / longest, expected)
        self.report(server)

    def check_workflow(self, path, where, workers, scale, expected):
        logs = self.lab.path(self.lab.unique('logs'))
        logs.mkdir()
        started = [self.work(number, where, '--log', logs) for number in range(workers)]
        wait_until(lambda: len(self.asked('status', 1, where)[0]['workers']) == workers, LIMIT_S,
                   'all have joined')
        shown = self.asked('load', 1, where, path, '--scale', scale, '--name', 'run', '--wait',
                           '--drop')[-1]
        for worker in started:
            worker.wait(LIMIT_S)
        report = json.loads(self.run_program(
            'rh-dag', 'report', *sorted(logs.iterdir()), '--workflow', path, '--json').output())
        share = report['makespan_s'] / (
            report['work_s'] / workers + report['critical_path_s'])
        print(f'{path.name}, {workers} workers: makespan {report["makespan_s"]:.2f} s, '
              f'{share:.2f} of work / workers + critical path, variation of busy time '
              f'{report["busy_variation"]:.3f}, {report["stolen"]} stolen')
        self.assertEqual(shown['digest'], expected)
        self.assertEqual(report['problems'], [])


if __name__ == '__main__':
    support.main()
