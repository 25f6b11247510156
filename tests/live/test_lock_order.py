# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Who takes part in a scope: the two interfaces, and nobody else (LK-1, LK-2, LK-3, LK-4, LK-5, LK-6,
LK-11). Over a path of 100 ms, acquires, accesses and releases have left before anything comes back,
the target's memory changes, and all is answered, while both applications are stopped by SIGSTOP: the
target's before the initiator is there, the initiator's from when it has handed over its scopes.
Captures at both ends prove the order."""

import os
import signal
import time

import locks
from judge import frame, opcodes
from judge.capture import Capture
from judge.lockformat import GRANTED, RELEASED, request, response
from locks import LIMIT_S, wait_until

DELAY_MS = 50  # each way
SLOTS = 4
BYTES = 4000
WRITES = 4  # packets of 1024 bytes
SCOPE = ['acquire', 'atomic', *['write'] * WRITES, 'atomic', 'release']
CM_QPN, DC_MESSAGE = 1, 0xD8
_OPCODES = opcodes.Opcodes(dynamic_connections=True, locks=True)


def packets(path):
    """What a capture has of queue pairs and sessions: not what opens or closes connections."""
    for record in Capture(path):
        packet = frame.parse(record, _OPCODES)
        if packet is not None and packet.dqpn != CM_QPN:
            yield packet


def kind(packet):
    """What it is, by the names of SCOPE, or "granted", "released"."""
    if packet.info.kind == 'lock':
        return 'acquire' if request(packet)[0].is_acquire else 'release'
    if packet.info.kind == 'lock response':
        return {GRANTED: 'granted', RELEASED: 'released'}[response(packet)[0].status]
    return packet.info.kind


def cpu_ticks(pid):
    """Time that a process has had, in user and system mode."""
    with open(f'/proc/{pid}/stat', encoding='ascii') as stat:
        return sum(int(word) for word in stat.read().rsplit(')', 1)[1].split()[11:13])


class LockOrder(locks.LocksTest):
    def check(self, *options, transport='rc', stores=True):
        self.start_switch(2, '--faults', f'1:delay={DELAY_MS}ms')
        captures = [self.lab.path(f'{end}.pcapng') for end in ('target', 'initiator')]
        target = self.start_target('--transport', transport, '--bytes', BYTES, '--lease-us',
                                   10_000_000, '--pcap', captures[0])
        os.kill(target.application, signal.SIGSTOP)
        self.assert_stopped(target)
        initiator = self.start_initiator(1, '--transport', transport, '--bytes', BYTES, '--slots',
                                         SLOTS, '--scopes', SLOTS, '--stop', *options,
                                         '--pcap', captures[1])
        self.assert_stopped(initiator)
        ticks = [cpu_ticks(node.application) for node in (target, initiator)]
        wait_until(lambda: sum(record.last for record in self.records()) == SLOTS, LIMIT_S,
                   'all scopes have been executed')
        time.sleep(4 * DELAY_MS / 1000)  # for the answers, of which nobody can tell
        for record in self.records():
            self.assertEqual(record.first, record.last)
            self.assertEqual(record.word.generation, record.last)  # as often as it became free
            self.assertIsNone(record.word.holder)
            self.assertEqual(len(set(record.data[:BYTES])), 1)  # of one scope, or of none
        for node in (target, initiator):
            self.assert_stopped(node)
        # Nobody has let them run in between.
        self.assertEqual(ticks, [cpu_ticks(node.application) for node in (target, initiator)])
        self.assertEqual(locks.Journal.length(initiator.journal), 0)
        for node in (initiator, target):
            os.kill(node.application, signal.SIGCONT)
        self.assertEqual(self.report(initiator.process), {'scopes': SLOTS, 'succeeded': SLOTS})
        statistics = self.end(target.process)['locks']
        self.assertEqual((statistics['grants'], statistics['failures']), (SLOTS, 0))
        self.assert_initiator_did_not_wait(captures[1])
        self.assert_target_answered(captures[0], stores)
        for capture in captures:
            # What the target gets had left the initiator before it had the latest answers.
            counted = self.judged_locks(capture, '--dynamic-connections', '--race-us',
                                        4 * DELAY_MS * 1000)
            self.assertEqual((counted['granted'], counted['disturbed']), (SLOTS, 0))
        self.assertEqual(counted['pipelined'], SLOTS)

    def assert_stopped(self, node):
        wait_until(lambda: locks.state_of(node.application) == 'T', LIMIT_S,
                   f'{node.process.name} is stopped')
        self.assertNotEqual(locks.state_of(node.engine), 'T')

    def assert_initiator_did_not_wait(self, capture):
        """LK-1 to LK-3: all of all scopes has left before the first packet comes in, be it only the
        target's word that a connection is accepted."""
        came = False
        scopes = {}
        for packet in packets(capture):
            if packet.direction == 'in':
                came = True
            elif packet.opcode != DC_MESSAGE:
                self.assertFalse(came, f'frame {packet.number} left behind an answer')
                # Requests of a scope have PSNs in a row.
                scope = next((psn for psn in scopes
                              if (packet.psn - psn) % (1 << 24) < len(SCOPE)), packet.psn)
                scopes.setdefault(scope, []).append(kind(packet))
        self.assertTrue(came)
        self.assertEqual(list(scopes.values()), [SCOPE] * SLOTS)

    def assert_target_answered(self, capture, stores):
        """LK-4 to LK-6: every answer follows its request, the release's comes last; a scope that is
        stored is answered only when its release is there."""
        came, answered = {}, []
        for packet in packets(capture):
            if packet.opcode == DC_MESSAGE:
                continue
            if packet.direction == 'in':
                came[packet.psn] = kind(packet)
                continue
            self.assertIn(packet.psn, came, f'frame {packet.number} answers nothing')
            answered.append((packet.psn, kind(packet)))
            if stores and kind(packet) == 'granted':
                self.assertEqual(came.get((packet.psn + len(SCOPE) - 1) % (1 << 24)), 'release')
        self.assertEqual(len(came), SLOTS * len(SCOPE))
        for psn in (psn for psn, name in answered if name == 'granted'):
            self.assertEqual(came[psn], 'acquire')
            own = [name for other, name in answered
                   if (other - psn) % (1 << 24) < len(SCOPE) and name != 'ack']
            self.assertEqual(own, ['granted', 'atomic ack', 'atomic ack', 'released'])

    def test_stored_scopes(self):
        self.check()

    def test_scopes_that_cut_through(self):
        self.check('--cut-through', stores=False)

    def test_stored_scopes_over_dynamic_connections(self):
        self.check(transport='dc')

    def test_scopes_that_cut_through_over_dynamic_connections(self):
        self.check('--cut-through', transport='dc', stores=False)


if __name__ == '__main__':
    locks.live.support.main()
