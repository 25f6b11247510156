# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-lab: its reports of peers that are right, of devices that are played, and of planted faults."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))

from testing.standstill import RepeatedTest  # noqa: E402

PROGRAMS = pathlib.Path(os.environ.get('ROCKHOPPER_PROGRAMS', 'build/apps')).resolve()
# Our end's, in place of the ordinary one: with a fault that is planted.
RH_PERF = pathlib.Path(os.environ.get('ROCKHOPPER_RH_PERF', PROGRAMS / 'rh-perf'))


class LabTest(RepeatedTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        programs = self.folder / 'programs'
        programs.mkdir()
        for name in ('rh-pingpong', 'rh-cm'):
            (programs / name).symlink_to(PROGRAMS / name)
        (programs / 'rh-perf').symlink_to(RH_PERF)
        self.report = self.folder / 'report'

    def lab(self, *arguments):
        return subprocess.run(
            [sys.executable, '-m', 'rh_lab', *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=600, check=False, cwd=self.folder,
            env={**os.environ, 'PYTHONPATH': f'{ROOT}/apps/rh_lab:{ROOT}/tests/judge', 'PYTHONDONTWRITEBYTECODE': '1'})

    def run_steps(self, peer, *steps):
        """The run, and the report as JSON."""
        done = self.lab('run', '--rockhopper', peer, '--programs', self.folder / 'programs', '--output', self.report,
                        *(word for step in steps for word in ('--steps', step)))
        self.assertNotEqual(done.returncode, 2, done.stderr)
        return done, json.loads((self.report / 'report.json').read_text())

    def assert_explained(self, peer, *steps):
        done, report = self.run_steps(peer, *steps)
        page = (self.report / 'report.md').read_text()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + page)
        self.assertEqual([step['name'] for step in report['steps']], list(steps))
        self.assertTrue(all(step['good'] for step in report['steps']), page)
        return report


class Reports(LabTest):
    STEPS = ('pingpong-ipv6-ask', 'send-bw-serve', 'faa-bw-ask', 'read-loss-ask', 'read-loss-serve', 'marked-write',
             'cm-ask')

    def test_a_second_rockhopper(self):
        report = self.assert_explained('', *self.STEPS)
        page = (self.report / 'report.md').read_text()
        self.assertIn('7 steps, 7 went well; 0 findings are not explained', page)
        for step in report['steps']:
            self.assertEqual(step['findings'], [], step['name'])
            self.assertTrue((self.report / f'captures/{step["name"]}.pcapng').exists())
        knobs = json.loads((self.report / 'personality.json').read_text())['knobs']
        measured = {name: knob['value'] for name, knob in knobs.items()}
        self.assertEqual({name: measured.get(name) for name in ('mig_req', 'ip_id', 'ttl', 'cnp_dscp', 'credits')},
                         {'mig_req': 'yes', 'ip_id': 'zero', 'ttl': '64', 'cnp_dscp': '48', 'credits': 'count'})

    def test_a_device_that_is_played(self):
        self.assert_explained('mlx5-cx6dx', *self.STEPS)
        page = (self.report / 'report.md').read_text()
        self.assertIn('known: probes of the firmware', page)
        file = self.report / 'personality.json'
        knobs = json.loads(file.read_text())['knobs']
        self.assertEqual((knobs['ip_id']['value'], knobs['cnp_source_port']['value']), ('counter', '0'))
        # What was measured can be played.
        done = subprocess.run([PROGRAMS / 'rh-pingpong', '--personality', file, '--device', 'nonesuch'],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotIn('--personality', done.stderr)

    def test_static_credits_are_seen(self):
        self.assert_explained('e810', 'send-bw-ask')
        knobs = json.loads((self.report / 'personality.json').read_text())['knobs']
        self.assertEqual((knobs['credits']['value'], knobs['mig_req']['value']), ('static:2', 'no'))

    def test_what_fails_is_said(self):
        done, report = self.run_steps('e810', 'faa-bw-ask')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(report['steps'][0]['findings'][-1]['finding'], 'remote invalid request')

    def test_bad_arguments(self):
        for arguments, said in ((('run',), '--peer'), (('run', '--peer', 'a', '--rockhopper'), '--peer'),
                                (('run', '--rockhopper', '--steps', 'x*'), 'x*'), (('walk',), 'walk'),
                                (('run', '--ack-timeout', '0'), '1 to 31'),
                                (('run', '--peer', 'x', '--by', '/nonexistent/ssh'), '/nonexistent/ssh'),
                                (('run', '--peer', 'x', '--by', 'false', '--device', 'd'), '--peer-ip')):
            with self.subTest(arguments=arguments):
                done = self.lab(*arguments, '--programs', str(PROGRAMS)) if arguments[0] == 'run' else self.lab(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(said, done.stderr)

    def test_a_folder_that_is_there(self):
        self.report.mkdir()
        done = self.lab('run', '--rockhopper', '', '--programs', str(PROGRAMS), '--output', str(self.report))
        self.assertEqual(done.returncode, 2)
        self.assertIn(str(self.report), done.stderr)


class PlantedFaults(LabTest):
    """Nothing is found of the ordinary rh-perf; of one with a fault, the report names it."""

    def test_icrc(self):
        self.assert_explained('', 'write-bw-ask')

    def test_message_sequence_number(self):
        self.assert_explained('', 'write-bw-serve')

    def test_read_that_is_asked_for_again(self):
        self.assert_explained('', 'read-loss-ask', 'read-loss-serve')

    def test_no_acknowledgement_is_asked_for(self):
        self.assert_explained('', 'write-bw-ask')

    def test_notifications_that_are_not_obeyed(self):
        self.assert_explained('', 'marked-write')


if __name__ == '__main__':
    unittest.main(verbosity=2)
