# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-cm against itself: each part over memif, with faults, and what ends a run before its time."""

import json
import signal

import support
from support import ADDRESSES, LIMIT_S, wait_until

PARTS = ('rping', 'ucmatose', 'udaddy', 'rdma_client')
# All tries of a message last for four seconds: the peer may first have to repeat a lost ARP request,
# a second later, before it can answer any of them. Those of a packet last for one.
PATIENT = ('--response-timeout', '16', '--ack-timeout', '15')
FAULTS = ('--faults', 'loss=3%,dup=2%,reorder=3%:1ms,corrupt=0.5%')


class CmTest(support.ProgramTest):
    def start_listening(self, *arguments):
        server = self.start('rh-cm', *arguments)
        wait_until(lambda: self.listens(server), LIMIT_S, 'rh-cm listens')
        return server

    def listens(self, server):
        self.assertIsNone(server.child.poll(), server.messages())
        return 'listening on port' in server.messages()

    def start_ends(self, *common, server=(), client=(), family=4):
        """Server and client joined by memif."""
        ends = ADDRESSES[family]
        socket = ('--memif-socket', self.lab.path(self.lab.unique('memif') + '.sock'))
        server_process = self.start_listening(*socket, '--ip', ends[0], *common, *server)
        client_process = self.start('rh-cm', *socket, '--ip', ends[1], *common, *client,
                                    ends[0].split('/')[0])
        return server_process, client_process

    def start_receiving(self, group, *arguments):
        receiver = self.start('rh-cm', '--as', 'mckey', '--json', '-V', *arguments, group)
        wait_until(lambda: 'receiving what is sent' in receiver.messages(), LIMIT_S,
                   'rh-cm has joined')
        return receiver

    def check_received(self, receiver, connections, messages):
        self.assert_status(receiver, 0)
        result = json.loads(receiver.output())
        self.assertEqual((result['connections'], result['messages'], result['messages_checked']),
                         (connections, messages, messages))

    def stop_waiting(self, server):
        """A server that no client has connected to."""
        server.child.send_signal(signal.SIGTERM)
        self.assert_failed(server, 'interrupted by SIGTERM|the link went down')

    def run_ends(self, *common, **more):
        """Runs both to success and returns their JSON objects, the server's first."""
        both = self.start_ends('--json', '-V', *common, **more)
        for process in reversed(both):
            self.assert_status(process, 0)
        server, client = (json.loads(process.output()) for process in both)
        self.assertEqual((server['role'], client['role']), ('server', 'client'))
        self.assertEqual(server['as'], client['as'])
        return server, client

    def check(self, part, connections, messages, *options, **more):
        for end in self.run_ends('--as', part, *options, **more):
            self.assertEqual(end['as'], part)
            self.assertEqual(end['connections'], connections)
            self.assertEqual(end['messages'], messages)
            self.assertEqual(end['messages_checked'], messages)


class Parts(CmTest):
    def test_rping(self):
        for family, size in ((4, 64), (6, 64), (4, 65536)):
            with self.subTest(family=family, size=size):
                self.check('rping', 1, 10, '-C', 10, '-S', size, family=family)

    def test_ucmatose(self):
        for family, connections, count in ((4, 1, 10), (6, 3, 20), (4, 20, 5)):
            with self.subTest(family=family, connections=connections):
                self.check('ucmatose', connections, connections * count, '-c', connections,
                           '-C', count, '-S', 3000, family=family)

    def test_ucmatose_without_messages(self):
        self.check('ucmatose', 2, 0, '-c', 2, '-C', 0)

    def test_unreliable_connections(self):
        for family in (4, 6):
            with self.subTest(family=family):
                self.check('ucmatose', 2, 20, '--uc', '-c', 2, family=family)

    def test_udaddy(self):
        for family, connections in ((4, 1), (6, 4)):
            with self.subTest(family=family, connections=connections):
                self.check('udaddy', connections, connections * 10, '-c', connections,
                           family=family)

    def test_mckey(self):
        for family, group in ((4, '239.1.2.3'), (6, 'ff0e::1:2')):
            with self.subTest(family=family):
                ends = ADDRESSES[family]
                socket = ('--memif-socket', self.lab.path(self.lab.unique('memif') + '.sock'))
                receiver = self.start_receiving(group, *socket, '--ip', ends[0], '-c', 3)
                sender = self.start('rh-cm', '--as', 'mckey', '--sender', *socket,
                                    '--ip', ends[1], group)
                self.assert_status(sender, 0)
                self.check_received(receiver, 3, 30)

    def test_rdma_client(self):
        for family in (4, 6):
            with self.subTest(family=family):
                self.check('rdma_client', 1, 1, family=family)

    def test_path_mtu(self):
        self.check('ucmatose', 1, 10, '-m', 256, '-S', 5000)

    def test_another_port(self):
        self.check('rdma_client', 1, 1, '-p', 20886)


class Faults(CmTest):
    def test_rping(self):
        self.check('rping', 1, 30, '-C', 30, '-S', 4096, *PATIENT, *FAULTS)

    def test_ucmatose(self):
        self.check('ucmatose', 5, 50, '-c', 5, *PATIENT, *FAULTS)

    def test_lost_messages_are_counted(self):
        # The first message of the client, its REQ, is UD SEND Only.
        server, client = self.start_ends('--as', 'rdma_client', *PATIENT, '--stats', 1,
                                         client=('--faults', 'tx.drop_opcode=0x64*1'))
        for process in (client, server):
            self.assert_status(process, 0)
        self.assertRegex(client.messages(), r'cm +repeated_messages +[1-9]')


class Servers(CmTest):
    def test_persistent_server_with_several_clients(self):
        # memif joins two; the switch joins a server and its clients.
        switch = self.start('rh-switch', '--memif', 4, '--socket-dir', self.lab.folder)
        wait_until(lambda: 'rh-switch: ready' in switch.messages(), LIMIT_S, 'rh-switch is ready')

        def station(port):
            return ('--memif-role', 'client', '--memif-socket',
                    self.lab.path(f'switch{port}.sock'), '--ip', f'10.42.0.{port + 1}/24')

        server = self.start_listening(*station(0), '-P', '-V')
        clients = [self.start('rh-cm', *station(port), '-V', '-C', 20, '10.42.0.1')
                   for port in (1, 2, 3)]
        for client in clients:
            self.assert_status(client, 0)
            self.assertIn('rping: 20 pings over 1 connection', client.output())
        server.child.send_signal(signal.SIGTERM)
        self.assert_status(server, 0)
        self.assertIn('rping: 60 pings over 3 connections', server.output())

    def test_several_members_of_a_group(self):
        switch = self.start('rh-switch', '--memif', 4, '--socket-dir', self.lab.folder)
        wait_until(lambda: 'rh-switch: ready' in switch.messages(), LIMIT_S, 'rh-switch is ready')

        def station(port):
            return ('--memif-role', 'client', '--memif-socket',
                    self.lab.path(f'switch{port}.sock'), '--ip', f'10.42.0.{port + 1}/24')

        members = [self.start_receiving('239.1.2.3', *station(port)) for port in (0, 1, 2)]
        sender = self.start('rh-cm', '--as', 'mckey', '--sender', *station(3), '239.1.2.3')
        self.assert_status(sender, 0)
        for member in members:
            self.check_received(member, 1, 10)

    def test_no_listener_on_the_port(self):
        server, client = self.start_ends('--as', 'ucmatose', server=('-p', 1000),
                                         client=('-p', 1001))
        self.assert_failed(client, r'the peer rejected the connection: nobody listens.*reason 8')
        self.stop_waiting(server)

    def test_no_service_for_datagrams(self):
        server, client = self.start_ends('--as', 'udaddy', server=('-p', 1000),
                                         client=('-p', 1001))
        self.assert_failed(client, r'the peer has no such service.*status 1')
        self.stop_waiting(server)

    def test_nobody_there(self):
        """A port on which nothing answers: one line that says so."""
        for part in PARTS:
            with self.subTest(part=part):
                client = self.start('rh-cm', '--as', part, '--device', 'net_null0',
                                    '--ip', '10.42.0.7/24', '--timeout', 20, '10.42.0.8',
                                    '--response-timeout', 10, '--cm-retries', 3)
                self.assert_failed(client, "no answer from the peer's connection manager")

    def test_different_parts_do_not_meet(self):
        server, client = self.start_ends(server=('--as', 'ucmatose', '-p', 1000),
                                         client=('--as', 'udaddy', '-p', 1000))
        self.assert_failed(client, 'the peer has no such service')
        self.stop_waiting(server)


class Ends(CmTest):
    def test_sigterm_while_waiting_for_a_client(self):
        for part in PARTS:
            with self.subTest(part=part):
                server = self.start_listening('--as', part, '--memif-socket',
                                              self.lab.path(self.lab.unique('memif') + '.sock'))
                server.child.send_signal(signal.SIGTERM)
                self.assert_failed(server, 'interrupted by SIGTERM')

    def start_endless(self):
        capture = self.lab.path(self.lab.unique('client') + '.pcapng')
        server, client = self.start_ends(client=('--pcap', capture))
        wait_until(lambda: capture.exists() and capture.stat().st_size > 20000, LIMIT_S,
                   'packets are captured')
        return server, client

    def test_sigterm_ends_endless_pings(self):
        server, client = self.start_endless()
        client.child.send_signal(signal.SIGTERM)
        for process in (client, server):
            self.assert_status(process, 0)
            self.assertRegex(process.output(), r'rping: [1-9]\d* pings over 1 connection')

    def test_killed_peer(self):
        server, client = self.start_endless()
        server.child.kill()
        self.assert_failed(client, 'the link went down|waiting for|the server left|waited 10 s')


class Arguments(CmTest):
    def test_bad_arguments(self):
        for arguments in (['--as', 'nothing'], ['server.example'], ['--as', 'rping', '-S', 15],
                          ['--uc'], ['--uc', '--as', 'udaddy'], ['-c', 0], ['-c', 5000],
                          ['--response-timeout', 32], ['--response-timeout', 7],
                          ['--cm-retries', 16], ['-m', 1500], ['-a', 0], ['-p', 65536],
                          ['--timeout', 0], ['--as', 'ucmatose', '-C', 40000],
                          ['--as', 'ucmatose', '-C', 32768, '-S', 40000],
                          ['--as', 'mckey'], ['--as', 'mckey', '10.42.0.1'], ['--sender'],
                          ['--as', 'mckey', '--sender', '-c', 2, '239.1.2.3'],
                          ['--ip', 'nonsense'], ['10.42.0.1', '10.42.0.2']):
            with self.subTest(arguments=arguments):
                process = self.run_program('rh-cm', *arguments)
                self.assert_status(process, 2)
                self.assertEqual(process.output(), '')
                self.assertRegex(process.messages(), '^rh-cm: .')

    def test_the_address_of_the_other_family(self):
        client = self.start('rh-cm', '--device', 'net_null0', '--ip', '10.42.0.7/24', 'fd42::1')
        self.assert_failed(client, 'uses IPv6, and this end has no such address; add --ip')

    def test_help(self):
        process = self.run_program('rh-cm', '--help')
        self.assert_status(process, 0)
        for word in ('--as', '--cm-retries', '--response-timeout', '--uc', '--persistent'):
            self.assertIn(word, process.output())


if __name__ == '__main__':
    support.main()
