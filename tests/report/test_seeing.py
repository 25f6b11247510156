# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Each picture of docs/seeing.md shows what the page says of it: made from a run, in Chromium.

With SEEING_PICTURES set to a folder the pictures are left there; docs/images has them from such a run.
"""

import base64
import os
import pathlib
import sys
import unittest

import rig

sys.path.insert(0, str(rig.ROOT / 'tests/programs'))

import support  # noqa: E402 (needs the path above)
import test_page  # noqa: E402 (as above)

FOLDER = os.environ.get('SEEING_PICTURES')
WIDTH, HEIGHT = 1000, 6000  # so that nothing is scrolled


def hosts(faults, *flows, rate='10Gbit'):
    return {'seed': 7, 'duration': '100ms', 'hosts': [{'name': 'a'}, {'name': 'b'}],
            'links': [{'from': 'a', 'to': 'b', 'rate': rate, 'delay': '2us'} | faults],
            'flows': [{'from': 'a', 'to': 'b'} | flow for flow in flows]}


LOSS = hosts({'faults': 'tx.loss=1%'},
             {'name': 'w', 'operation': 'write', 'size': '16KiB', 'window': 4, 'count': 40, 'timeout': 8})
CONGESTION = {
    'seed': 2, 'duration': '6ms', 'hosts': [{'name': 'h', 'count': 4}, {'name': 'sink'}],
    'switches': [{'name': 's', 'queue': '4MiB', 'ecn': '5KiB,100KiB,5%'}],
    'links': [{'from': 'h', 'to': 's', 'rate': '10Gbit'}, {'from': 'sink', 'to': 's', 'rate': '10Gbit'}],
    'flows': [{'name': 'f', 'from': 'h', 'to': 'sink', 'operation': 'write', 'size': '16KiB', 'window': 8,
               'stagger': '500us', 'congestion': {'algorithm': 'dcqcn'}}]}


class Seeing(test_page.PageTest):
    def setUp(self):
        self.browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': WIDTH, 'height': HEIGHT, 'deviceScaleFactor': 1, 'mobile': False})

    def connection(self, number=0):
        return self.ask('window.report.data.connections[arguments[0]]', number)

    def picture(self, name, selector, height=None):
        """Of an element, or the upper part of it."""
        self.settled()
        self.browser.execute_script('document.activeElement.blur(); document.getElementById("hover").style.display = "none"')
        box = self.ask('''(() => { const b = document.querySelector(arguments[0]).getBoundingClientRect();
            return [b.x + scrollX, b.y + scrollY, b.width, b.height]; })()''', selector)
        shot = self.browser.execute_cdp_cmd('Page.captureScreenshot', {'clip': {
            'x': box[0], 'y': box[1], 'width': box[2], 'height': min(box[3], height or box[3]), 'scale': 1}})
        data = base64.b64decode(shot['data'])
        # A picture that shows nothing compresses to next to nothing.
        self.assertGreater(len(data), 4000)
        if FOLDER:
            (pathlib.Path(FOLDER) / f'seeing-{name}.png').write_bytes(data)

    def stretch(self, packet, before, after):
        self.ask('''(() => { const r = window.report, t = r.columns.time;
            r.setRange(t[arguments[0]] - arguments[1], t[arguments[0]] + arguments[2]); })()''', packet, before, after)
        self.settled()

    def first(self, kind):
        """The first packet of a kind in the connection that is shown."""
        return self.ask('''window.report.columns.kind.indexOf(window.report.data.classes.indexOf(arguments[0]),
            window.report.data.connections[window.report.state.connection].at)''', kind)

    def ladder(self, packet):
        self.browser.execute_script('location.hash = "#c0p" + arguments[0]', packet)
        self.until(lambda: self.all(f'#ladder [data-packet="{packet}"].chosen'))

    def test_loss(self):
        self.open(*self.simulate(LOSS, 'loss'))
        figures = self.connection()['figures']
        self.assertGreater(figures['lost_between_captures'], 0)
        self.assertGreater(figures['retransmissions'], 0)
        self.assertGreater(figures['naks'], 0)
        self.stretch(self.first('NAK'), 60_000, 90_000)
        self.picture('loss', '.plot[role]')

    def test_rnr(self):
        # The receiver has one receive request at a time, and the sender does not heed its credits.
        self.open(self.perf('--op', 'send', '-s', 64, '-t', 8, '-r', 1, '-n', 20, '--warmup', 0, '--no-validate',
                            '--credits', 'ignore'))
        figures = self.connection()['figures']
        self.assertGreater(figures['rnr_naks'], 0)
        self.ladder(self.first('RNR NAK'))
        self.picture('rnr', '#ladder', 460)

    def test_congestion(self):
        self.simulate(CONGESTION, 'congestion')
        self.open(self.folder / 'congestion.sink.pcapng')
        figures = self.connection()['figures']
        self.assertGreater(figures['ecn_marks'], 0)
        self.assertGreater(figures['cnps'], 0)
        self.picture('congestion', '#goodput')

    def perf(self, *arguments):
        """A capture of rh-perf's client, over memif."""
        test = support.ProgramTest('run_pair')
        test.setUp()
        try:
            path = test.lab.path('client.pcapng')
            test.run_pair('rh-perf', *support.PATIENT, *arguments, client=('--pcap', path))
            return self.write('client.pcapng', path.read_bytes())
        finally:
            test.doCleanups()

    def test_sessions(self):
        self.open(self.perf('--transport', 'dc', '--op', 'write', '-q', 3, '-t', 1, '-s', 64, '-n', 6))
        self.assertIn('CONNECT', self.connection()['figures']['session_messages'])
        self.assertTrue(all(span[0] == 'session' for span in self.connection()['spans']))
        self.ladder(0)
        self.picture('sessions', '#ladder', 460)

    def test_locks(self):
        self.open(self.perf('--op', 'lock', '-q', 2, '-n', 20))
        self.assertEqual({span[0] for span in self.connection()['spans']}, {'lock'})
        self.ladder(0)
        self.picture('locks', '#ladder', 460)


if __name__ == '__main__':
    unittest.main()
