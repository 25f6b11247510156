#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Requests that must be refused: what both ends report when Rockhopper and Soft-RoCE talk is
compared with what they report when two Soft-RoCE devices do. Asynchronous events are not
compared: Soft-RoCE 6.1 raises none."""

import unittest

import lab
from testing.standstill import RepeatedTest

# Where we follow IBTA vol. 1 and the verbs manual instead: {case: {our role: {role: {id of the work
# request: status}}}}.
_TOO_LONG = {'responder': {  # 9.7.4.1.6: the NAK for too long a message is "invalid request"
    'requester': {1: 'rem_inv_req_err'}, 'responder': {0: 'loc_len_err'}}}
DEVIATIONS = {
    'send_too_long': _TOO_LONG,
    'send_long_too_long': _TOO_LONG,
    # A WRITE that is refused consumes no receive.
    'write_imm_wrong_rkey': {'responder': {'responder': {0: 'wr_flush_err'}}},
    # Soft-RoCE acknowledges the SEND and then answers no more.
    'send_inv_wrong_rkey': {'responder': {
        'requester': {1: 'rem_access_err', 2: 'wr_flush_err'}, 'responder': {0: 'loc_prot_err'}}},
    # The manual's status for a list that names no valid region.
    'bad_receive_key': {'responder': {'responder': {0: 'loc_prot_err'}}},
    'bad_local_key': {'requester': {'requester': {1: 'loc_prot_err'}}},
}

_lab = None


def setUpModule():
    global _lab
    _lab = lab.Lab.for_module(more_links=['veth,mtu=4300'])


def without_events(report):
    return {key: value for key, value in report.items() if key != 'events'}


def with_statuses(report, statuses):
    """The report with other statuses of some completions."""
    return dict(report, completions=[
        dict(one, status=statuses.get(one['id'], one['status'])) for one in report['completions']])


class Refusals(RepeatedTest):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        server, port = _lab.guest_server('rc_peer -d rxe1 --address 10.8.0.1')
        client = _lab.run_in_guest(
            f'rc_peer -d rxe2 --address 10.8.0.2 -p {port} --negative all 127.0.0.1')
        assert client.finish() == 0, client.said()
        assert server.finish() == 0, server.said()
        cls.measure = {case['case']: case for case in lab.summary(client.output())['cases']}

    def compare(self, cases, own_role):
        self.assertEqual([case['case'] for case in cases], list(self.measure))
        for case in cases:
            name = case['case']
            deviations = DEVIATIONS.get(name, {}).get(own_role, {})
            for role in ('requester', 'responder'):
                with self.subTest(case=name, role=role):
                    expected = with_statuses(self.measure[name][role], deviations.get(role, {}))
                    self.assertEqual(without_events(case[role]), without_events(expected))
        self.assertEqual(_lab.judge(), '')

    def test_we_are_the_responder(self):
        for family, address in lab.GUEST_ADDRESSES.items():
            ipv6 = ['--ipv6'] if family == 6 else []
            with self.subTest(ip=family), _lab.host('tests/interop/rh_rc_peer', *ipv6) as server:
                port = server.wait_for(lambda: lab.listening_port(server.out.read_text()))
                client = _lab.run_in_guest(f'rc_peer -d rxe0 --address {address} -p {port} '
                                           '--negative all 10.0.2.2')
                self.assertEqual(client.finish(), 0, client.said() + server.said())
                self.assertEqual(server.wait(), 0, server.said())
                self.compare(lab.summary(client.output())['cases'], 'responder')

    def test_we_are_the_requester(self):
        for family, address in lab.GUEST_ADDRESSES.items():
            ipv6 = ['--ipv6'] if family == 6 else []
            server, port = _lab.guest_server(f'rc_peer -d rxe0 --address {address}')
            with self.subTest(ip=family), _lab.host(
                    'tests/interop/rh_rc_peer', *ipv6, '-p', _lab.guest.forward(port),
                    '--negative', 'all', '127.0.0.1') as client:
                self.assertEqual(client.wait(), 0, client.said() + server.last_words())
                self.assertEqual(server.finish(), 0, server.said())
                self.compare(lab.summary(client.out.read_text())['cases'], 'requester')


if __name__ == '__main__':
    unittest.main(verbosity=2)
