# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-dag without a network: workflows checked and refused, run here against a reckoning of their
digest in Python, logs and reports."""

import hashlib
import json
import os
import pathlib
import random
import signal
import xml.etree.ElementTree

import support
from support import LIMIT_S, ROOT, wait_until

LETTERS = ROOT / 'tests/data/workflows/letters.json'
SEED = int(os.environ.get('ROCKHOPPER_SEED') or str(random.SystemRandom().getrandbits(32)), 0)


def random_workflow(rng, tasks):
    """Tasks in layers by chance; about one dependency in four is without a file."""
    ids = [f'{rng.choice("abcdef")}{rng.getrandbits(16):x}_{number}' for number in range(tasks)]
    made = [{'name': name.split('_')[0], 'id': name, 'parents': [], 'children': [],
             'inputFiles': [], 'outputFiles': [f'of.{name}']} for name in ids]
    for number in range(1, tasks):
        for parent in rng.sample(range(number), min(number, rng.randrange(4))):
            made[number]['parents'].append(ids[parent])
            made[parent]['children'].append(ids[number])
            if rng.randrange(4):
                made[number]['inputFiles'].append(f'of.{ids[parent]}')
    files = [{'id': f'of.{name}', 'sizeInBytes': rng.randrange(10_000)} for name in ids]
    runs = [{'id': name, 'runtimeInSeconds': rng.random()} for name in ids]
    rng.shuffle(made)
    rng.shuffle(runs)
    return {'name': 'by chance', 'schemaVersion': '1.5',
            'workflow': {'specification': {'tasks': made, 'files': files},
                         'execution': {'makespanInSeconds': tasks, 'executedAt': 'once',
                                       'tasks': runs}}}


def commands(scripts):
    """Tasks one after another, each of which is a script of a shell."""
    names = list(scripts)
    tasks = [{'name': name, 'id': name, 'parents': names[max(0, at - 1):at],
              'children': names[at + 1:at + 2], 'inputFiles': [f'of.{names[at - 1]}'] if at else [],
              'outputFiles': [f'of.{name}']} for at, name in enumerate(names)]
    runs = [{'id': name, 'runtimeInSeconds': 0.01,
             'command': {'program': 'sh', 'arguments': ['-c', script]}}
            for name, script in scripts.items()]
    return {'name': 'commands', 'schemaVersion': '1.5',
            'workflow': {'specification': {
                'tasks': tasks, 'files': [{'id': f'of.{name}', 'sizeInBytes': 1} for name in names]},
                         'execution': {'makespanInSeconds': 1, 'executedAt': 'once', 'tasks': runs}}}


def number(value):
    return value.to_bytes(8, 'little')


def text(value):
    return number(len(value)) + value


def digest_of(workflow, seed):
    """The digest as docs/dag-graphs.md has it, for outputs of 32 bytes."""
    tasks = {task['id']: task for task in workflow['workflow']['specification']['tasks']}
    writers = {file: name for name, task in tasks.items() for file in task['outputFiles']}
    outputs = {}

    def output(name):
        if name not in outputs:
            task = tasks[name]
            read = sorted({writers[file] for file in task['inputFiles']}, key=str.encode)
            inputs = [text(output(other)) for other in read]
            outputs[name] = hashlib.sha256(text(name.encode()) + number(seed) + text(b'') +
                                           number(len(inputs)) + b''.join(inputs)).digest()
        return outputs[name]

    whole = hashlib.sha256()
    for name in sorted(tasks, key=str.encode):
        whole.update(text(name.encode()) + hashlib.sha256(output(name)).digest())
    return whole.hexdigest()


def lives(process):
    """A process that has ended and whose parent has not looked is none."""
    try:
        return pathlib.Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def group_lives(group):
    for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            state, _, number_of_group = stat.read_text().rpartition(')')[2].split()[:3]
        except OSError:
            continue
        if state != 'Z' and int(number_of_group) == group:
            return True
    return False


class Dag(support.ProgramTest):
    @classmethod
    def setUpClass(cls):
        print(f'seed: repeat with ROCKHOPPER_SEED={SEED}', flush=True)

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)

    def write(self, document, name='workflow.json'):
        path = self.lab.path(name)
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def dag(self, *arguments, status=0):
        process = self.run_program('rh-dag', *arguments)
        self.assert_status(process, status)
        return process

    def asked(self, *arguments, status=0):
        return json.loads(self.dag(*arguments, '--json', status=status).output())

    def test_check_counts(self):
        found = self.asked('check', LETTERS)
        wanted = {'tasks': 5, 'dependencies': 5, 'data_dependencies': 4, 'levels': 3, 'width': 3,
                  'first_tasks': 1, 'last_tasks': 2, 'with_command': 5, 'without_runtime': 0,
                  'work_s': 5.875, 'critical_path_s': 3.625, 'recorded_makespan_s': 9,
                  'critical_path': ['split_1', 'count_1', 'merge_1']}
        self.assertEqual({name: found[name] for name in wanted}, wanted)
        table = self.dag('check', LETTERS).output()
        for line in ('critical path (3 tasks)', 'tasks of the widest level', 'workers'):
            self.assertIn(line, table)

    # DG-33: one line with file and place.
    def test_mistakes_are_refused_in_one_line(self):
        right = json.loads(LETTERS.read_text())
        right['workflow']['specification']['tasks'][1]['parents'] = ['nobody']
        loop = json.loads(LETTERS.read_text())
        loop['workflow']['specification']['tasks'][0]['inputFiles'] = ['result.txt']
        for document, message in ((right, r"tasks\[1\]\.parents\[0\]: 'nobody' is no task's id"),
                                  (loop, "cycle: 'count_1' -> 'merge_1' -> 'split_1' -> 'count_1'"),
                                  ('{', 'no JSON')):
            path = self.write(document)
            for command in ('check', 'run-local'):
                process = self.dag(command, path, status=2)
                self.assertRegex(process.messages(), f'^rh-dag: {path}: .*{message}')
                self.assertEqual(len(process.messages().splitlines()), 1)
                self.assertEqual(process.output(), '')
        for arguments in ((), ('fly',), ('check',), ('check', self.lab.path('none')),
                          ('run-local', LETTERS, '--scale', '-1'),
                          ('run-local', LETTERS, '--compute', 'guess'), ('report',),
                          ('report', LETTERS)):
            process = self.dag(*arguments, status=2)
            self.assertEqual(len(process.messages().splitlines()), 1, process.messages())

    def test_help(self):
        for command in ((), ('check',), ('run-local',), ('report',)):
            help_text = self.dag(*command, '--help').output()
            self.assertIn('USAGE', help_text)
            self.assertLessEqual(max(map(len, help_text.splitlines())), 80, help_text)

    # DG-10: the digest of any workflow, reckoned by another program in another language.
    def test_digests_are_those_of_the_definition(self):
        for tasks in (1, 2, 30, 300):
            workflow = random_workflow(self.random, tasks)
            path = self.write(workflow)
            seed = self.random.getrandbits(64)
            run = self.asked('run-local', path, '--seed', seed)
            self.assertEqual((run['nodes'], run['digest']), (tasks, digest_of(workflow, seed)))
            self.assertEqual(run['output_bytes'], 32 * tasks)
            larger = self.asked('run-local', path, '--seed', seed, '--size-scale', 0.5)
            self.assertNotEqual(larger['digest'], run['digest'])

    def test_a_run_its_log_and_its_report(self):
        workflow = random_workflow(self.random, 60)
        path, log, chart = self.write(workflow), self.lab.path('run.log'), self.lab.path('run.svg')
        self.dag('run-local', path, '--scale', 0.001, '--log', log)
        report = self.asked('report', log, '--workflow', path, '--gantt', chart)
        self.assertEqual((report['committed'], report['stolen'], report['problems']), (60, 0, []))
        recorded = sum(run['runtimeInSeconds']
                       for run in workflow['workflow']['execution']['tasks'])
        self.assertGreaterEqual(report['work_s'], recorded * 0.001)
        self.assertGreaterEqual(report['makespan_s'], report['least_makespan_s'])
        self.assertTrue(report['critical_path_measured'])
        svg = xml.etree.ElementTree.parse(chart).getroot()
        self.assertTrue(svg.tag.endswith('svg'))
        self.assertIn('worker', self.dag('report', log).output())

        # A run that lacks a task, and one that was too early.
        lines = log.read_text().splitlines(keepends=True)
        short = self.write(''.join(lines[:-1]), 'short.log')
        self.assert_failed(self.dag('report', short, status=1), '59 of 60 nodes were run')
        first = json.loads(lines[-1])
        first.update(start_ns=0)
        early = self.write(''.join(lines[:-1]) + json.dumps(first) + '\n', 'early.log')
        name = first['node']
        has_parents = any(task['id'] == name and task['parents']
                          for task in workflow['workflow']['specification']['tasks'])
        process = self.dag('report', early, '--workflow', path, status=int(has_parents))
        if has_parents:
            self.assert_failed(process, f"node '{name}' was begun before it could be")

    def test_logs_of_several_workers(self):
        head = {'log': 'rh-dag', 'version': 1, 'graph': 'g', 'nodes': 2}
        runs = [{'node': 'a', 'worker': 'w0', 'start_ns': 0, 'end_ns': 10 ** 9},
                {'node': 'b', 'worker': 'w1', 'start_ns': 0, 'end_ns': 10 ** 9, 'stolen': True}]
        logs = [self.write(f'{json.dumps(head)}\n{json.dumps(run)}\n', f'{run["worker"]}.log')
                for run in runs]
        report = self.asked('report', *logs)
        self.assertEqual((report['speed_up'], report['efficiency'], report['stolen'],
                          report['busy_variation']), (2, 1, 1, 0))
        with logs[1].open('a') as log:
            log.write('{"node": "c", "wor')
        self.assertEqual(self.asked('report', *logs)['torn_lines'], 1)
        self.write(json.dumps(dict(head, nodes=3)) + '\n', 'w1.log')
        process = self.dag('report', *logs, status=2)
        self.assertRegex(process.messages(), 'w1.log: line 1: the log is of another run')

    def test_commands(self):
        run = self.asked('run-local', LETTERS, '--commands')
        self.assertEqual(run['output_bytes'], len('abcabc' + 'aa' + 'bcbc' + 'aabcbc\n'))
        document = json.loads(LETTERS.read_text())
        document['workflow']['execution']['tasks'][2]['command'] = {'program': 'false'}
        process = self.dag('run-local', self.write(document), '--commands', status=1)
        self.assert_failed(process, "node 'count_2', task 0: program 'false' ended with status 1")

    def test_commands_write_as_into_a_pipe(self):
        """Standard output under its name, once more or twice, by the program or its children."""
        lines = {'first': 'echo aaaa > /dev/stdout; echo b', 'second': 'tee /dev/stdout',
                 'third': 'cat > /dev/fd/1; (sleep 0.1; echo late) & true'}
        kept = self.lab.path('kept')
        lines['last'] = f'cat /dev/stdin > {kept}'
        self.dag('run-local', self.write(commands(lines)), '--commands')
        self.assertEqual(sorted(kept.read_text().splitlines()),
                         sorted(2 * ['aaaa', 'b'] + ['late']))

    def process_of(self, file):
        """The number that a command has written there, once it has."""
        return wait_until(lambda: file.exists() and file.read_text().endswith('\n') and
                          int(file.read_text()), LIMIT_S, 'the command runs')

    def test_a_stop_ends_commands_that_do_not_listen(self):
        """SIGTERM is asked for, then SIGKILL comes; a second signal is not polite. Nothing is left."""
        for signals in (1, 2):
            with self.subTest(signals=signals):
                file = self.lab.path(f'pid{signals}')
                asked = self.lab.path(f'asked{signals}')
                script = f"trap 'touch {asked}' TERM; echo $$ > {file}; sleep 600; sleep 600"
                process = self.start('rh-dag', 'run-local', self.write(commands({'w': script})),
                                     '--commands')
                group = self.process_of(file)
                process.child.send_signal(signal.SIGTERM)
                if signals == 1:
                    self.assert_failed(process, 'interrupted by SIGTERM')
                else:
                    wait_until(asked.exists, LIMIT_S, 'it asks the command to end')
                    process.child.send_signal(signal.SIGINT)
                    self.assert_status(process, -signal.SIGINT)
                wait_until(lambda g=group: not group_lives(g), LIMIT_S, 'nothing of it is left')

    def test_what_a_command_leaves_ends(self):
        for script in ('sleep 600 & echo $! > {}', 'sleep 600 > /dev/null & echo $! > {}',
                       "setsid sh -c 'echo $$ > {}; exec sleep 600' & sleep 0.3"):
            with self.subTest(script=script):
                file = self.lab.path('left')
                file.unlink(missing_ok=True)
                path = self.write(commands({'w': script.format(file)}))
                self.dag('run-local', path, '--commands')
                left = int(file.read_text())
                wait_until(lambda p=left: not lives(p), LIMIT_S, 'it has ended')

    def test_output_without_end(self):
        """It ends at the limit, not with the machine's memory. The limit of an output is 1 GiB."""
        process = self.dag('run-local', self.write(commands({'w': 'cat /dev/zero'})), '--commands',
                           status=1)
        self.assert_failed(process, "node 'w', task 0: program 'sh' has written more than 1073741824")

    def test_a_signal_ends_a_run(self):
        log = self.lab.path('run.log')
        process = self.start('rh-dag', 'run-local', LETTERS, '--scale', 100, '--log', log)
        wait_until(log.exists, LIMIT_S, 'it runs')
        process.child.send_signal(signal.SIGTERM)
        self.assert_status(process, 1)
        self.assertIn('critical_path_ns', log.read_text())


if __name__ == '__main__':
    support.main()
