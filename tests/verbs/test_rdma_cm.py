#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Stock programs of librdmacm, unmodified, under rh-run: two processes of a host, and of two hosts
over --uplink udp."""

import pathlib
import random
import subprocess
import time
import unittest

from pairs import LINE_BY_LINE, PairTest
import support
from lab.pairs import free_port, has_port
from support import wait_until
from testing.segment_table import has_listener
from verbs_support import SANITIZER, SOAK

UPLINK = ('--uplink', 'udp')
ADDRESSES = {4: ('10.8.0.1', '10.8.0.2'), 6: ('fd08::1', 'fd08::2')}
MTU = 4200
PORTS = random.Random()
LIMIT_S = 60
UDADDY_PORT, RCOPY_PORT = 7174, 7427
CM_REQ = b'\x00\x10'  # the attribute of a ConnectRequest
RESPONSE_TIMEOUT_S = 1.1  # 4.096 us * 2^18
# The status and the last words of an rping whose main thread has closed the event channel before its
# other thread asked for the next event, which it does with every device. All of its work is done then.
RPING_CLOSED_FIRST = (255, 'DISCONNECT EVENT...\nrdma_get_cm_event: Bad file descriptor\n')


def some_port():
    """One of the device's: the kernel knows nothing of these ports."""
    return PORTS.randrange(10000, 30000)


class RdmaCmTest(PairTest):
    def start_listener(self, program, *command, port, host=None, options=()):
        self.need(program)
        server = self.start_verbs(f'{program}-server', program, *command, host=host, options=options)
        wait_until(lambda: server.has_ended() or has_listener(self.segment(host), port), LIMIT_S,
                   f'{program} listens')
        return server

    def has_failed(self, process):
        status, words = RPING_CLOSED_FIRST
        closed_first = process.child.poll() == status and process.messages().endswith(words)
        return not closed_first and super().has_failed(process)

    def succeeds(self, process, text=''):
        self.assertIn(text, self.finish([process], LIMIT_S)[0])

    def rping(self, server='127.0.0.1', client='127.0.0.1', *options, hosts=(None, None), runs=((), ())):
        port = some_port()
        common = ('-p', port, '-C', 50, '-V', *options)
        pair = (self.start_listener('rping', '-s', '-a', server, *common, port=port, host=hosts[0], options=runs[0]),
                self.start_verbs('rping-client', 'rping', '-c', '-a', client, *common, host=hosts[1],
                                 options=runs[1]))
        for process in reversed(pair):
            self.succeeds(process)
            self.assertNotIn('mismatch', process.output() + process.messages())


class OneHost(RdmaCmTest):
    def own_address(self):
        """One of the device's, as its first GID says."""
        shown = self.start_verbs('devinfo', 'ibv_devinfo', '-v')
        self.succeeds(shown)
        found = [line.rpartition('::ffff:')[2].partition(',')[0] for line in shown.output().splitlines()
                 if 'GID[' in line and '::ffff:' in line]
        return found[0] if found else self.skipTest('no address of IPv4')

    def test_rping(self):
        own = self.own_address()
        for server, client in (('127.0.0.1', '127.0.0.1'), ('0.0.0.0', '127.0.0.1'), (own, own), ('0.0.0.0', own)):
            with self.subTest(server=server, client=client):
                self.rping(server, client)

    def test_rping_over_ipv6(self):
        self.rping('::', '::1')

    def test_rping_in_each_way_of_progress(self):
        for modes in (('adaptive', 'thread'), ('thread', 'adaptive'), ('thread', 'thread')):
            with self.subTest(modes=modes):
                self.rping(runs=[('--progress', mode) for mode in modes])

    def test_rping_with_packets_twice_and_late(self):
        """Not with loss: who ends takes its connection manager along, which repeats nothing then."""
        for _ in range(20 if SOAK else 2):
            self.rping(runs=(('--faults', 'dup=2%,reorder=2%:1ms'), ()))

    def test_several_clients(self):
        """A persistent server. Until rdma-core 56 it loses a request that comes while it still takes up
        another one, so each client waits until the one before is connected."""
        port = some_port()
        self.start_listener('rping', '-s', '-P', '-a', '127.0.0.1', '-p', port, port=port)
        clients = []
        for i in range(4):
            client = self.start_verbs(f'client-{i}', *LINE_BY_LINE, 'rping', '-c', '-a', '127.0.0.1', '-p', port,
                                      '-C', 3000, '-V', '-v')
            wait_until(lambda client=client: client.has_ended() or 'ping data' in client.output(), LIMIT_S,
                       f'{client.name} is connected')
            clients.append(client)
        for client in clients:
            self.succeeds(client)

    def test_ucmatose(self):
        for options in ((), ('-c', 10, '-C', 20, '-S', 3000), ('-m',)):
            with self.subTest(options=options):
                port = some_port()
                server = self.start_listener('ucmatose', '-p', port, *options, port=port)
                client = self.start_verbs('client', 'ucmatose', '-s', '127.0.0.1', '-p', port, *options)
                for process in (client, server):
                    self.succeeds(process, 'return status 0')

    def test_udaddy(self):
        """Its port is always the same."""
        for options in ((), ('-c', 5, '-C', 20, '-S', 1000)):
            with self.subTest(options=options):
                server = self.start_listener('udaddy', *options, port=UDADDY_PORT)
                client = self.start_verbs('client', 'udaddy', '-s', '127.0.0.1', *options)
                for process in (client, server):
                    self.succeeds(process, 'return status 0')

    def test_rdma_client(self):
        port = some_port()
        server = self.start_listener('rdma_server', '-p', port, port=port)
        client = self.start_verbs('client', 'rdma_client', '-s', '127.0.0.1', '-p', port)
        for process in (client, server):
            self.succeeds(process, 'end 0')

    def test_rdma_xclient(self):
        """The client's queue pair sends inline, and has not asked for that."""
        for transport in ('r', 'x'):
            with self.subTest(transport=transport):
                port = some_port()
                server = self.start_listener('rdma_xserver', '-p', port, '-c', transport, port=port)
                client = self.start_verbs('client', 'rdma_xclient', '-s', '127.0.0.1', '-p', port, '-c', transport)
                for process in (client, server):
                    self.succeeds(process, 'end 0')

    def test_a_listener_for_another_transport(self):
        port = some_port()
        self.start_listener('rdma_xserver', '-p', port, '-c', 'r', port=port)
        client = self.start_verbs('client', 'rdma_xclient', '-s', '127.0.0.1', '-p', port, '-c', 'x')
        self.assertNotEqual(client.wait(LIMIT_S), 0)
        self.assertIn('refused', client.output() + client.messages())

    def test_cmtime(self):
        """Its server goes on for ever, or, from rdma-core 56 on, for as many connections as it is told."""
        port = some_port()
        common = ('-p', port, '-c', 50)
        self.start_listener('cmtime', *common, port=port)
        client = self.start_verbs('client', 'cmtime', '-s', '127.0.0.1', *common)
        self.succeeds(client, 'disconnect')

    def test_rstream(self):
        for program in ('rstream', 'riostream'):
            with self.subTest(program=program):
                port = some_port()
                common = ('-p', port, '-S', 10000, '-C', 100, '-T', 'b')
                server = self.start_listener(program, *common, port=port)
                client = self.start_verbs('client', program, '-s', '127.0.0.1', *common)
                for process in (client, server):
                    self.succeeds(process, 'custom')

    def test_udpong(self):
        """Its server, which goes on for ever, also has a UDP socket of the kernel, and takes ::1 by itself."""
        self.need('udpong')
        for address, transfers in (('127.0.0.1', 'b'), (self.own_address(), 'n')):
            with self.subTest(address=address):
                port = some_port()
                common = ('-p', port, '-S', 1000, '-C', 100, '-T', transfers)
                server = self.start_verbs('server', 'udpong', '-b', address, *common)
                wait_until(lambda: server.has_ended() or has_port(address, port), LIMIT_S, 'udpong listens')
                self.succeeds(self.start_verbs('client', 'udpong', '-s', address, *common), 'custom')

    def test_rcopy(self):
        """Its server goes on for ever."""
        self.start_listener('rcopy', port=RCOPY_PORT)
        copy = self.segment() / 'copy'
        client = self.start_verbs('client', 'rcopy', '/bin/bash', f'127.0.0.1:{copy}')
        self.succeeds(client)
        self.assertEqual(copy.read_bytes(), pathlib.Path('/bin/bash').read_bytes())

    def test_libfabric(self):
        """Its endpoints of connections, and those without connections on top of them. Of the latter the
        server may crash while it closes a connection that its peer has closed: libfabric posts a receive to
        an endpoint that it has closed (ofiwg/libfabric#11828, also with RNICs). All is verified by then."""
        self.need('fi_pingpong')
        for provider, endpoint in (('verbs', 'msg'), ('verbs;ofi_rxm', 'rdm')):
            with self.subTest(provider=provider):
                port = free_port()
                common = ('fi_pingpong', '-p', provider, '-e', endpoint, '-I', 50, '-c')
                server = self.start_listening(port, *common, '-B', port)
                client = self.start_verbs('fi_pingpong-client', *common, '-P', port, '127.0.0.1')
                self.succeeds(client, '1m')
                if endpoint == 'rdm' and server.wait(LIMIT_S) != 0:
                    self.assertRegex(server.output() + server.messages(), r'(?s)1m .*terminated with signal 11')
                else:
                    self.succeeds(server, '1m')

    def test_fio(self):
        """It lets nothing be repeated for want of a receive, so there is one for each message."""
        for verb in ('write', 'read', 'send'):
            with self.subTest(verb=verb):
                port = some_port()
                common = ('--name=job', '--ioengine=rdma', f'--port={port}', '--bs=64k', '--size=4m')
                server = self.start_listener('fio', *common, '--rw=read', '--iodepth=64', port=port)
                client = self.start_verbs('fio-client', 'fio', *common, '--hostname=127.0.0.1', f'--verb={verb}',
                                          '--rw=write')
                self.succeeds(client, 'err= 0')
                self.succeeds(server, 'err= 0')

    def test_fio_verifies(self):
        port = some_port()
        common = ('--name=job', '--ioengine=rdma', f'--port={port}', '--bs=64k', '--size=4m')
        server = self.start_listener('fio', *common, '--rw=read', '--iodepth=64', port=port)
        client = self.start_verbs('fio-client', 'fio', *common, '--hostname=127.0.0.1', '--verb=write', '--rw=write',
                                  '--verify=crc32c')
        self.succeeds(client, 'err= 0')
        self.succeeds(server, 'err= 0')

    def test_sockets_of_other_programs(self):
        """librspreload makes a program's TCP sockets rsockets."""
        library = next(pathlib.Path('/usr/lib').glob('*/rsocket/librspreload.so'), None)
        if library is None:
            self.skipTest('librspreload is not installed')
        copy = self.segment() / 'copy'
        for server, client in (
                (f'exec nc.traditional -l -p {{port}} > {copy}', 'exec nc.traditional -q 1 127.0.0.1 {port} < /bin/bash'),
                ('exec iperf -s -p {port} -P 1', 'exec iperf -c 127.0.0.1 -p {port} -n 50M')):
            with self.subTest(client=client):
                port = some_port()
                self.need(client.split()[1])
                run = ('sh', '-c', f'export LD_PRELOAD="$LD_PRELOAD:{library}"; eval "$0"')
                first = self.start_listener(*run, server.format(port=port), port=port)
                second = self.start_verbs('client', *run, client.format(port=port))
                self.succeeds(second)
                self.succeeds(first)
        self.assertEqual(copy.read_bytes(), pathlib.Path('/bin/bash').read_bytes())

    def test_dapl(self):
        """By librdmacm, and by sockets."""
        self.need('dtest')
        own = self.own_address()
        interface = next(line.split()[1] for line in subprocess.run(
            ['ip', '-oneline', 'address'], capture_output=True, text=True, check=True).stdout.splitlines()
            if f' {own}/' in line)
        registry = self.segment() / 'dat.conf'
        registry.write_text(f'cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{interface} 0" ""\n'
                            'scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "rh0 1" ""\n')
        for provider in ('cma', 'scm'):
            with self.subTest(provider=provider):
                run = ('env', f'DAT_OVERRIDE={registry}', *LINE_BY_LINE, 'dtest', '-P', provider)
                server = self.start_verbs(f'{provider}-server', *run)
                wait_until(lambda: server.has_ended() or 'waiting for client' in server.output().lower(), LIMIT_S,
                           'dtest listens')
                client = self.start_verbs(f'{provider}-client', *run, '-h', own)
                for process in (client, server):
                    self.succeeds(process, 'PASSED')

    def test_iser(self):
        """A disk by iSCSI over RDMA. Over iSER this version of tgtd wants the initiator's address in one
        list and its name in another, where otherwise one of them would do."""
        self.need('tgtd')
        self.need('iscsi-test-cu')
        target, initiator = 'iqn.2026-11.org.example:disk', 'iqn.2026-11.org.example:initiator'
        disk = self.segment() / 'disk'
        port = some_port()
        socket = ('env', f'TGT_IPC_SOCKET={self.segment() / "tgtd"}')
        server = self.start_verbs('tgtd', *socket, 'tgtd', '-f', '--iscsi', f'portal=127.0.0.1:{free_port()}',
                                  '--iser', f'port={port}')
        wait_until(lambda: server.has_ended() or has_listener(self.segment(), port), LIMIT_S, 'tgtd listens')
        disk.write_bytes(random.randbytes(4 << 20))
        disk.chmod(0o666)
        for mode, operation, options in (('target', 'new', ('-T', target)),
                                         ('logicalunit', 'new', ('--lun', 1, '-b', disk)),
                                         ('target', 'bind', ('-I', 'ALL')),
                                         ('target', 'bind', ('--initiator-name', initiator))):
            self.succeeds(self.start_verbs('tgtadm', *socket, 'tgtadm', '--lld', 'iser', '--mode', mode, '--op', operation,
                                           '--tid', 1, *options))
        url = f'iser://127.0.0.1:{port}/{target}/1'
        self.succeeds(self.start_verbs('inq', 'iscsi-inq', '-i', initiator, url), 'VIRTUAL-DISK')
        # VERIFY sends back what READ has brought, for the target to compare.
        for test in ('Write10.Simple', 'Read10.Simple', 'Verify10.Simple'):
            with self.subTest(test=test):
                done = self.start_verbs('iscsi', 'iscsi-test-cu', '-i', initiator, '--fail', '--dataloss', '--test',
                                        f'ALL.{test}', url)
                self.assertRegex(self.finish([done], LIMIT_S)[0], r'asserts +(\d{3,}) +\1 +\1 +0 ')

    def test_qperf(self):
        self.need('qperf')
        port = free_port()
        self.start_listening(port, 'qperf', '-lp', port)
        self.succeeds(self.start_verbs('qperf', 'qperf', '-lp', port, '127.0.0.1', '-t', 1, '-cm', 1, 'rc_lat', 'rc_bw'),
                      'latency')

    def test_mckey(self):
        """The receiver says nothing before its end."""
        common = ('-m', '239.1.1.1', '-b', self.own_address())
        receiver = self.start_verbs('receiver', 'mckey', *common)
        time.sleep(1)
        sender = self.start_verbs('sender', 'mckey', '-s', *common)
        for process in (sender, receiver):
            self.succeeds(process, 'return status 0')

    @unittest.skipIf(SANITIZER, 'perftest frees little at its end')
    def test_perftest(self):
        for program, options in (('ib_write_bw', ()), ('ib_read_lat', ()), ('ib_send_bw', ('-c', 'UD')),
                                 ('ib_send_lat', ())):
            with self.subTest(program=program, options=options):
                port = some_port()
                common = ('-R', '-p', port, '-n', 200, '-F', *options)
                server = self.start_listener(program, *common, port=port)
                client = self.start_verbs('client', program, *common, '127.0.0.1')
                self.succeeds(client, '#bytes')
                self.succeeds(server)

    def test_a_port_in_use(self):
        port = some_port()
        self.start_listener('rping', '-s', '-a', '127.0.0.1', '-p', port, port=port)
        second = self.start_verbs('second', 'rping', '-s', '-a', '127.0.0.1', '-p', port)
        self.assertNotEqual(second.wait(LIMIT_S), 0)
        self.assertIn('Address already in use', second.output() + second.messages())

    def test_nobody_listens(self):
        """A REJ of the reason 8 comes at once."""
        for program, refusal in (('ucmatose', 'REJECTED, error: 8'), ('udaddy', 'UNREACHABLE, error: 1')):
            with self.subTest(program=program):
                self.need(program)
                begin = time.monotonic()
                client = self.start_verbs('client', program, '-s', '127.0.0.1')
                self.assertNotEqual(client.wait(LIMIT_S), 0)
                self.assertIn(refusal, client.output() + client.messages())
                self.assertLess(time.monotonic() - begin, 10)

    def test_a_request_is_repeated_in_its_time_only(self):
        """Also where nothing has been asked for longer than an answer may take."""
        script = ('import time\n'
                  'from pyverbs import cm_enums, enums\n'
                  'from pyverbs.cmid import CMID, AddrInfo\n'
                  'from pyverbs.pyverbs_error import PyverbsRDMAError\n'
                  'from pyverbs.qp import QPCap, QPInitAttr\n'
                  f'to = AddrInfo(dst="127.0.0.1", dst_service="{some_port()}",\n'
                  '              port_space=cm_enums.RDMA_PS_TCP)\n'
                  'cm = CMID(creator=to, qp_init_attr=QPInitAttr(qp_type=enums.IBV_QPT_RC,\n'
                  '                                              cap=QPCap(max_recv_wr=1)))\n'
                  f'time.sleep({RESPONSE_TIMEOUT_S + 1})\n'
                  'try: cm.connect()\n'
                  'except PyverbsRDMAError as error: print(error)\n')
        capture = self.segment() / 'cm.pcapng'
        self.succeeds(self.start_verbs('python', '/usr/bin/python3', '-c', script, options=('--pcap', capture)),
                      'refused')
        requests = [packet for packet in support.roce_packets(capture)
                    if packet.dqpn == 1 and packet.payload_bytes()[16:18] == CM_REQ]
        self.assertEqual(len(requests), 2)  # on its way out and in, as nobody else is there

    def test_no_way_there(self):
        client = self.start_verbs('client', 'ucmatose', '-s', '203.0.113.77', '-p', some_port())
        self.assertNotEqual(client.wait(LIMIT_S), 0)
        self.assertIn('ADDR_ERROR', client.output() + client.messages())

    def test_a_killed_process_gives_its_port_back(self):
        port = some_port()
        server = self.start_listener('rping', '-s', '-a', '127.0.0.1', '-p', port, port=port)
        server.child.kill()
        server.wait(LIMIT_S)
        # Nobody has noticed yet that the port is free.
        second = self.start_verbs('second', 'rping', '-s', '-a', '127.0.0.1', '-p', port, '-C', 5)
        time.sleep(1)
        pair = (second, self.start_verbs('client', 'rping', '-c', '-a', '127.0.0.1', '-p', port, '-C', 5))
        for process in reversed(pair):
            self.succeeds(process)

    @unittest.skipIf(SANITIZER, 'perftest frees little at its end')
    def test_a_peer_that_is_killed(self):
        """Who sends learns it from the queue pair, within its retries: this client does so all the time."""
        port = some_port()
        common = ('-R', '-p', port, '-F', '-D', 30)
        server = self.start_listener('ib_write_bw', *common, port=port)
        client = self.start_verbs('ib_write_bw-client', *LINE_BY_LINE, 'ib_write_bw', *common, '127.0.0.1')
        wait_until(lambda: client.has_ended() or '#bytes' in client.output(), LIMIT_S, 'both are connected')
        server.child.kill()
        self.assertNotEqual(client.wait(LIMIT_S), 0)
        self.assertIn('error', client.output() + client.messages())

    def test_a_descriptor_is_a_character_device(self):
        script = ('import os, select, stat, fcntl\n'
                  'fd = os.open("/dev/infiniband/rdma_cm", os.O_RDWR | os.O_CLOEXEC)\n'
                  'other = os.dup(fd)\n'
                  'assert stat.S_ISCHR(os.fstat(other).st_mode)\n'
                  'assert stat.S_ISCHR(os.stat("/dev/infiniband/rdma_cm").st_mode)\n'
                  'assert select.select([other], [], [], 0)[0] == []\n'
                  'os.close(fd)\n'
                  'for command, errno in ((b"", 22), (bytes(7), 22), (b"\\xff" * 8, 22), (bytes(8), 22),\n'
                  '                       (b"\\x0d" + bytes(7), 38), (bytes(4) + b"\\x18" + bytes(27), 28)):\n'
                  '  try:\n'
                  '    os.write(other, command)\n'
                  '    raise SystemExit(f"{command} passed")\n'
                  '  except OSError as error:\n'
                  '    assert error.errno == errno, (command, error)\n'
                  'fcntl.fcntl(other, fcntl.F_SETFL, os.O_NONBLOCK)\n'
                  'try:\n'
                  '  buffer = bytearray(512)\n'
                  '  import ctypes, struct\n'
                  '  place = ctypes.addressof((ctypes.c_char * 512).from_buffer(buffer))\n'
                  '  os.write(other, struct.pack("=IHHQ", 12, 8, 512, place))\n'
                  '  raise SystemExit("an event")\n'
                  'except BlockingIOError: pass\n'
                  'print(open("/sys/class/misc/rdma_cm/abi_version").read())\n'
                  'os.close(other)\n')
        shown = self.start_verbs('python', '/usr/bin/python3', '-c', script)
        self.succeeds(shown, '4')


class TwoHosts(RdmaCmTest):
    def setUp(self):
        super().setUp()
        self.hosts = self.two_hosts(MTU, ADDRESSES)
        self.runs = (UPLINK, UPLINK)

    def test_rping(self):
        for family in (4, 6):
            with self.subTest(family=family):
                server = ADDRESSES[family][0]
                self.rping(server, server, hosts=self.hosts, runs=self.runs)

    def test_the_first_process_receives_for_all(self):
        """Messages for the queue pair 1 of others are passed on."""
        for host in self.hosts:
            self.start_listener('rping', '-s', '-a', '127.0.0.1', '-p', 7000, port=7000, host=host, options=UPLINK)
        self.test_rping()

    def test_datagrams(self):
        server = self.start_listener('udaddy', port=UDADDY_PORT, host=self.hosts[0], options=UPLINK)
        client = self.start_verbs('client', 'udaddy', '-s', ADDRESSES[4][0], host=self.hosts[1], options=UPLINK)
        for process in (client, server):
            self.succeeds(process, 'return status 0')

    def test_nobody_listens(self):
        """A process there answers in the place of all."""
        self.start_listener('rping', '-s', '-a', '0.0.0.0', '-p', 7000, port=7000, host=self.hosts[0], options=UPLINK)
        client = self.start_verbs('client', 'ucmatose', '-s', ADDRESSES[4][0], '-p', some_port(), host=self.hosts[1],
                                  options=UPLINK)
        self.assertNotEqual(client.wait(LIMIT_S), 0)
        self.assertIn('REJECTED, error: 8', client.output() + client.messages())

    def test_what_is_sent_keeps_the_rules(self):
        captures = [self.segment(host) / 'cm.pcapng' for host in self.hosts]
        self.rping(ADDRESSES[4][0], ADDRESSES[4][0], hosts=self.hosts,
                   runs=[(*UPLINK, '--pcap', capture) for capture in captures])
        for capture in captures:
            self.assertGreater(self.checked(capture)['judged_packets'], 100)


if __name__ == '__main__':
    unittest.main(verbosity=2)
