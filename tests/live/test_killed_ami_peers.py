# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A peer of active messages that is killed while 10,000 instructions of all kinds are outstanding:
each callback is called once, with an error (AM-22), over queue pairs and dynamic connections, with
the mask and with the counter (AM-32)."""

import json
import os
import pathlib
import signal

import live

# A mutated one takes its place.
AMI_NODE = os.environ.get('ROCKHOPPER_AMI_NODE', live.LIVE / 'ami-node')
OUTSTANDING = 10_000
# Half a second, and 8 times that to the end: on a busy machine, too, they are outstanding until then.
TIMEOUT = 17


class KilledPeers(live.support.SwitchTest):
    def start_node(self, role, port, peer, *options):
        return self.lab.start(role, [AMI_NODE, role, '--peer', peer, *self.station(port),
                                    *live.PATIENT_OF_LINK, *options])

    def wait_for_line(self, process, name):
        """The last line of its output, once it has that."""
        def look():
            self.assertFalse(process.has_ended(), f'{process.name}: {process.messages()}')
            lines = process.output().splitlines(keepends=True)
            return lines and lines[-1].endswith('\n') and name in json.loads(lines[-1]) and lines[-1]
        return json.loads(live.wait_until(look, live.LIMIT_S, name))

    def check(self, transport, mode):
        self.start_switch(2)
        go = self.lab.path('go')
        introduction = pathlib.Path(self.lab.path('introduction'))  # the initiator's
        common = ('--transport', transport, '--mode', mode, '--timeout', TIMEOUT)
        target = self.start_node('target', 0, introduction, *common)
        initiator = self.start_node('initiator', 1, target.out, '--go', go, '--instructions',
                                    OUTSTANDING, *common)
        introduction.symlink_to(initiator.out)
        self.wait_for_line(initiator, 'ready')
        # Stopped, it answers nothing: all are outstanding when it dies.
        target.child.send_signal(signal.SIGSTOP)
        pathlib.Path(go).touch()
        outstanding = self.wait_for_line(initiator, 'outstanding')['outstanding']
        target.child.kill()
        target.wait(live.LIMIT_S)
        self.assert_status(initiator, 0)
        report = json.loads(initiator.output().splitlines()[-1])
        print(f'{transport}, {mode}: {outstanding} outstanding; {report}', flush=True)
        self.assertEqual(outstanding, OUTSTANDING)
        self.assertTrue(report['ended'])
        self.assertTrue(report['idle'])
        self.assertEqual(report['once'], OUTSTANDING)
        self.assertEqual(sum(report['statuses'].values()), OUTSTANDING)
        self.assertNotIn('ok', report['statuses'])

    def test_queue_pairs(self):
        self.check('rc', 'mask')

    def test_queue_pairs_with_the_counter(self):
        self.check('rc', 'counter')

    def test_dynamic_connections(self):
        self.check('dc', 'mask')

    def test_dynamic_connections_with_the_counter(self):
        self.check('dc', 'counter')


if __name__ == '__main__':
    live.support.main()
