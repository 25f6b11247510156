# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-accounts: clients and threads of the server transfer between the same accounts under locks
that the server's transport executes; no audit finds other than the one sum."""

import json
import random
import signal
import unittest

import support
from support import LIMIT_S, wait_until

# Of what a client sends and of what it receives.
FAULTS = ('--faults', 'loss=1%,dup=1%,reorder=2%:1ms,corrupt=0.2%')
# Longer than it takes to send a scope again that was lost more than once.
LONG_LEASE = ('--lease', 10_000_000)
INITIAL = 1000


class Accounts(support.SwitchTest):
    def start_accounts(self, port, *arguments):
        return self.start('rh-accounts', *self.station(port), '--json', *arguments)

    def start_table(self, *arguments):
        server = self.start_accounts(0, *arguments)
        wait_until(lambda: self.listens(server), LIMIT_S, 'rh-accounts listens')
        return server

    def listens(self, server):
        self.assertIsNone(server.child.poll(), server.messages())
        return 'listening on port' in server.messages()

    def start_client(self, port, *arguments):
        return self.start_accounts(port, *arguments, '10.42.0.1')

    def finish(self, process):
        self.assert_status(process, 0)
        return json.loads(process.output())

    def stop(self, server):
        server.child.send_signal(signal.SIGTERM)
        return self.finish(server)

    def check(self, server, clients, accounts=1000):
        """What the server says fits what its clients say."""
        self.assertEqual(server['sum'], accounts * INITIAL)
        done = sum(client['transfers'] for client in clients)
        self.assertEqual(server['transfers'], done + server['local_transfers'])
        for client in clients:
            self.assertGreater(client['audits'], 0)

    def test_one_round_trip(self):
        """LK-1, LK-2, LK-3, LK-4, LK-6, LK-11, LK-12, LK-30, LK-32: acquire, accesses and release
        of every scope leave before its first answer."""
        self.start_switch(2)
        server = self.start_table()
        capture = self.lab.path('client.pcapng')
        client = self.finish(self.start_client(1, '-n', 2000, '-q', 4, '--pcap', capture))
        self.check(self.stop(server), [client])
        self.assertTrue(client['locks_at_target'])
        counted = self.judged_locks(capture)
        scopes = client['transfers'] + client['audits']
        self.assertEqual(counted['granted'], scopes)
        # All but what a busy machine has sent again.
        self.assertEqual(counted['pipelined'] + counted['disturbed'], scopes)
        self.assertGreater(counted['pipelined'], scopes // 2)

    def test_all_kinds_of_contenders(self):
        """LK-5, LK-10, LK-13, LK-22, LK-23, LK-24, LK-26, LK-32: connections of one process,
        other processes, and threads of the server, on few accounts and a bad network."""
        self.start_switch(4)
        server = self.start_table('--threads', 2, *LONG_LEASE)
        clients = [self.start_client(port, '-n', 1500, '-q', 4, '--hot', 8, '--audit-every', 50,
                                     *FAULTS) for port in (1, 2, 3)]
        clients = [self.finish(client) for client in clients]
        report = self.stop(server)
        self.check(report, clients)
        self.assertGreater(report['local_transfers'], 0)
        self.assertEqual(report['locks']['lease_expiries'], 0)

    def test_killed_clients(self):
        """LK-29: whenever a client dies, nothing is done by half, and no lock stays."""
        self.start_switch(3)
        server = self.start_table()
        for _ in range(5):
            victim = self.start_client(1, '-n', 10_000_000, '-q', 8, '--hot', 8)
            audits = random.SystemRandom().randrange(1, 20)
            self.finish(self.start_client(2, '-n', 50 * audits, '--hot', 8, '--audit-every', 50))
            victim.child.kill()
            victim.child.wait()
        survivor = self.finish(self.start_client(2, '-n', 500, '--hot', 8, '--audit-every', 50))
        self.assertEqual(survivor['transfers'], 500)
        self.assertEqual(self.stop(server)['sum'], 1000 * INITIAL)

    def test_by_compare_and_swap(self):
        """A server without locks at the target: the same table, the same scopes."""
        self.start_switch(3)
        server = self.start_table('--standard', '--threads', 1)
        clients = [self.start_client(port, '-n', 300, '-q', 2, '--audit-every', 50)
                   for port in (1, 2)]
        clients = [self.finish(client) for client in clients]
        self.check(self.stop(server), clients)
        for client in clients:
            self.assertFalse(client['locks_at_target'])

    def test_a_server_that_ends_with_its_clients(self):
        self.start_switch(2)
        server = self.start_table('--clients', 3, '--accounts', 10)
        client = self.finish(self.start_client(1, '-n', 100, '-q', 3))
        self.check(self.finish(server), [client], accounts=10)

    def test_bad_arguments(self):
        for arguments in (['--accounts', '1'], ['--accounts', '2000'], ['-q', '0'], ['nonsense']):
            process = self.start('rh-accounts', *arguments)
            self.assertIn(process.wait(LIMIT_S), (1, 2), arguments)
            self.assertEqual(len(process.messages().strip().splitlines()[-1:]), 1)


if __name__ == '__main__':
    unittest.main()
