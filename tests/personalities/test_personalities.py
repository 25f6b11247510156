# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""An ordinary endpoint beside each device that can be played, on a bad network: everything arrives,
and two judges find nothing wrong in the captures of either end but what the device is known for.
ROCKHOPPER_PERSONALITIES is how many of the runs, chosen by ROCKHOPPER_SEED (24; all)."""

import collections
import ipaddress
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'tests/judge'), str(ROOT / 'tests/conformance')]

import go_back_n  # noqa: E402
from judge.checker import check  # noqa: E402
from judge.options import Options  # noqa: E402
from judge.rules import RULES  # noqa: E402
from player.device import knobs_of  # noqa: E402

PROGRAMS = pathlib.Path(os.environ.get('ROCKHOPPER_PROGRAMS', 'build/apps')).resolve()
FILES = ROOT / 'apps/common/personalities'
SEED = int(os.environ.get('ROCKHOPPER_SEED', str(random.SystemRandom().randrange(1 << 32))), 0)
COUNT = os.environ.get('ROCKHOPPER_PERSONALITIES', '24')
NEAR, DEVICE = '10.0.0.1', '10.0.0.2'
MTU = 1024

# What a knob makes a device do that the first judge holds for wrong.
KNOWN = {
    ('nak_repeat', 'yes'): {'nak-repeated'},
    ('write_retry', 'named_plus_one'): {'retransmit-hole', 'nak-not-followed'},
    ('read_retry', 'part'): {'read-retry-range', 'retransmit-hole', 'retransmit-content'},
    ('probe_every', None): {'opcode-defined'},
}


# What such a device makes the ordinary end do: where more than two parts of a READ are asked for at
# once, it answers what lies between, too.
DRAWN = {('read_retry', 'part'): {'read-response-sequence', 'read-response-unrequested', 'response-order'}}


def known_of(knobs, known=None):
    return set().union(*(rules for (knob, value), rules in (known or KNOWN).items()
                         if knob in knobs and value in (None, knobs[knob])))


def flow(source, target, operation='write', **more):
    return {'name': f'{operation} from {source}', 'from': source, 'to': target,
            'operation': operation, 'size': 16384, 'count': 60, 'window': 4, 'path_mtu': MTU, **more}


def both(operation, **more):
    return [flow('near', 'device', operation, **more), flow('device', 'near', operation, **more)]


Run = collections.namedtuple('Run', 'flows faults personality near', defaults=('', '', {}))
LOSSY = 'tx.loss=1%,rx.loss=1%'
DCQCN = {'congestion': {'algorithm': 'dcqcn', 'nak_cnp_period': '20us'}}

# What is tried of each personality; `personality` are knobs behind its name.
SCENARIOS = {
    'loss, WRITE': Run(both('write'), LOSSY),
    'loss, READ': Run(both('read'), LOSSY),
    'loss, SEND': Run(both('send'), LOSSY),
    'static credits': Run(both('send', size=64, count=200), '', 'credits=static:2'),
    'a slow receiver': Run(both('send', size=64, count=200, receives=2, window=16)),
    'NAK and CNP under DCQCN': Run([flow('near', 'device', **DCQCN)], 'tx.loss=0.5%', 'nak_draws_cnp=yes'),
    'parts of a READ': Run(both('read'), LOSSY, 'read_retry=part'),
    'packets spread over ways': Run(both('write') + both('read'), 'tx.reorder=2%:3us,rx.reorder=2%:3us'),
    'stalls': Run(both('write', count=6), '', '', {'poll_interval': '20ms'}),
    'another look': Run(both('write', count=5) + both('read', count=5), '',
                        'source_mac=zero,udp_checksum=right,vlan=vid0,traffic_class=106,ip_id=counter,'
                        'mig_req=no,source_port=qpn'),
    'probes': Run(both('write'), '', 'probe_every=100us'),
}
PERSONALITIES = sorted(path.stem for path in FILES.glob('*.json'))
# Selective repeat before a responder that drops what is behind a gap gains a packet a round trip. Where the
# order is lost, too, its retries may run out: it is to be switched off (docs/running.md).
LEFT_OUT = {('packets spread over ways', 'mlx5-cx7-sr')}


class Personalities(unittest.TestCase):
    def test_known_rules_are_rules(self):
        self.assertLessEqual(set().union(*KNOWN.values()), set(RULES))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def play(self, run, personality):
        """The report of the simulation, and the captures of both ends."""
        scenario = self.folder / 'scenario.json'
        scenario.write_text(json.dumps({
            'name': 'an endpoint and a device', 'duration': '30s', 'seed': SEED % (1 << 32) + 1,
            'hosts': [{'name': 'near', **run.near}, {'name': 'device', 'personality': personality}],
            'links': [{'from': 'near', 'to': 'device', 'rate': '25Gbit', 'delay': '1us', 'faults': run.faults}],
            'flows': run.flows}))
        done = subprocess.run([PROGRAMS / 'rh-sim', scenario, '--json', '--pcap', self.folder / 'run.pcapng'],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout[-3000:])
        return json.loads(done.stdout), self.folder / 'run.near.pcapng', self.folder / 'run.device.pcapng'

    def assert_clean(self, capture, endpoint, known):
        verdict = check(str(capture), Options(endpoints=frozenset({ipaddress.ip_address(endpoint).packed}),
                                              lossy='far', pmtu=MTU))
        found = [str(violation) for violation in verdict.report.violations
                 if violation.rule not in known]
        self.assertEqual(found[:10], [], capture)

    def assert_second(self, capture, own, knobs, reads, ordered):
        """By the other judge: `knobs` are those of `own`."""
        me = ipaddress.ip_address(own).packed
        packets = list(go_back_n.packets_of(str(capture), MTU))
        problems = []
        for of_flow, own_qpn in go_back_n.pairs(packets).items():
            partial = knobs.get('write_retry') == 'named_plus_one' or knobs.get('read_retry') == 'part'
            if of_flow[0] == me and not partial:
                problems += go_back_n.check_requester(packets, of_flow, own_qpn, reads, ordered)
            if of_flow[1] == me and knobs.get('nak_repeat') != 'yes':
                problems += go_back_n.check_responder(packets, of_flow, own_qpn)
        interval = knobs.get('cnp_interval', '50us')
        self.assertTrue(interval.endswith('us'))
        problems += go_back_n.check_notifications(packets, me, float(interval[:-2]) * 1000,
                                                  knobs.get('cnp_scope', 'qp'), knobs.get('nak_draws_cnp') == 'yes')
        self.assertEqual(problems[:10], [], capture)

    def run_one(self, name, personality):
        run = SCENARIOS[name]
        whole = ','.join(part for part in (personality, run.personality) if part)
        knobs = knobs_of(whole)
        known = known_of(knobs)
        with self.subTest(scenario=name, personality=whole):
            _, near, device = self.play(run, whole)
            self.assert_clean(near, NEAR, known_of(knobs, DRAWN))
            self.assert_clean(device, DEVICE, known)
            reads = any(one['operation'] == 'read' for one in run.flows)
            ordered = 'reorder' not in run.faults
            self.assert_second(near, NEAR, {}, reads, ordered)
            self.assert_second(device, DEVICE, knobs, reads, ordered)

    def test_scenarios(self):
        print(f'seed: repeat with ROCKHOPPER_SEED={SEED}', flush=True)
        runs = [(name, personality) for name in SCENARIOS for personality in PERSONALITIES]
        chooser = random.Random(SEED)
        if COUNT != 'all':
            # Each scenario and each personality at least once.
            chosen = [(name, chooser.choice(PERSONALITIES)) for name in SCENARIOS]
            chosen += [(chooser.choice(list(SCENARIOS)), personality) for personality in PERSONALITIES]
            chosen += chooser.sample(runs, max(0, int(COUNT) - len(chosen)))
            runs = list(dict.fromkeys(chosen))
        runs = [run for run in runs if run not in LEFT_OUT]
        for name, personality in runs:
            self.run_one(name, personality)


if __name__ == '__main__':
    unittest.main(verbosity=2)
