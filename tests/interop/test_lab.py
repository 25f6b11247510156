#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-lab against the stock programs of a Soft-RoCE guest, behind rh-switch. A random third of the steps, unless
ROCKHOPPER_SOAK=1."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import lab
from testing.standstill import RepeatedTest

sys.path.insert(0, str(lab.ROOT / 'apps/rh_lab'))
sys.path.insert(0, str(lab.ROOT / 'tests/judge'))

from rh_lab.steps import all_steps  # noqa: E402

_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module()


class Reports(RepeatedTest):
    maxDiff = None

    def test_soft_roce(self):
        steps = lab.some_of([step.name for step in all_steps()], 3)
        port = lab.free_port()
        report = pathlib.Path(_lab.folder, f'report-{port}')
        with _lab.switch(1):
            _lab.wait_for_active_port()
            done = subprocess.run(
                [sys.executable, '-m', 'rh_lab', 'run', '--peer', '127.0.0.1',
                 '--by', f'{lab.ROOT}/scripts/rxe-guest exec {_lab.guest.name} --', '--here', '10.0.2.2',
                 '--port', str(port), '--peer-port', str(_lab.guest.forward(port)), '--device', 'rxe0',
                 *(word for address in lab.GUEST_ADDRESSES.values() for word in ('--peer-ip', address)),
                 '--ack-timeout', '18', '--programs', str(lab.BUILD / 'apps'), '--output', str(report),
                 *(word for step in steps for word in ('--steps', step)), '--',
                 '--memif-role', 'client', '--memif-socket', f'{_lab.folder}/switch1.sock',
                 *(word for address, prefix in zip(lab.OUR_ADDRESSES, (24, 64))
                   for word in ('--ip', f'{address}/{prefix}')),
                 '--link-mtu', str(_lab.mtu), *lab.IDLE],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=lab.DEADLINE_S * 4, check=False,
                env={**os.environ, 'PYTHONPATH': f'{lab.ROOT}/apps/rh_lab:{lab.ROOT}/tests/judge',
                     'PYTHONDONTWRITEBYTECODE': '1'})
        page = (report / 'report.md').read_text() if (report / 'report.md').exists() else ''
        print(page, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + page)
        told = json.loads((report / 'report.json').read_text())
        self.assertEqual([step['name'] for step in told['steps']], steps)
        self.assertTrue(all(step['good'] for step in told['steps']), page)
        measured = json.loads((report / 'personality.json').read_text())['knobs']
        # What Soft-RoCE is known for.
        self.assertEqual(measured['mig_req']['value'], 'no')
        self.assertIn('rcvd_pkts', page, 'a counter of the guest')


if __name__ == '__main__':
    unittest.main(verbosity=2)
