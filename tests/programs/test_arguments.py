# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Arguments, exit statuses, and the two ways to configure the EAL, for every program."""

import os
import pwd
import shutil
import subprocess
import unittest

import support
from support import PROGRAMS

PERF = 'rh-perf'
PINGPONG = 'rh-pingpong'
CM = 'rh-cm'

BAD = [
    (PINGPONG, ['--no-such-option'], 'no-such-option'),
    (PINGPONG, ['a', 'b'], 'b'),
    (PINGPONG, ['-m', '1000'], '1000'),
    (PINGPONG, ['-m', '4096', '--link-mtu', '1500'], '--link-mtu'),
    (PINGPONG, ['-s', '-1'], '--size'),
    (PINGPONG, ['-s', '99999999999999'], '--size'),
    (PINGPONG, ['-n', '0'], '--iters'),
    (PINGPONG, ['-p', '65536'], '--port: 65536 is not a whole number from 0 to 65535'),
    (PINGPONG, ['-n', '-1'], '--iters: Value -1 not in range 1 to'),
    (PINGPONG, ['-g', '2'], 'own addresses'),
    (PINGPONG, ['--ip', '10.0.0.1'], 'prefix length'),
    (PINGPONG, ['--ip', 'nowhere/24'], '--ip nowhere/24'),
    (PINGPONG, ['--faults', 'loss=much'], '--faults'),
    (PINGPONG, ['--vlan', '4095'], '--vlan'),
    (PINGPONG, ['--memif-role', 'middle'], '--memif-role'),
    (PINGPONG, ['--device', 'net_null0', '--memif-role', 'client'], '--device'),
    (PINGPONG, ['--memif-links', '32'], '--memif-links'),
    (PINGPONG, ['--memif-links', '2', 'localhost'], '--memif-links'),
    (PINGPONG, ['--memif-links', '2', '--device', 'net_null0'], '--memif-links'),
    (PERF, ['--op', 'fly'], 'fly'),
    (PERF, ['--op', 'send,'], '--op'),
    (PERF, ['-s', '4x'], '4x'),
    (PERF, ['-s', '64', '-a'], '--all'),
    (PERF, ['-n', '5', '-D', '5'], '--duration'),
    (PERF, ['--mode', 'fast'], '--mode'),
    (PERF, ['--mode', 'lat', '-q', '2'], 'latency'),
    (PERF, ['--mode', 'lat', '--op', 'write', '-s', '0'], 'latency'),
    (PERF, ['-I', '5000'], '--inline'),
    (PERF, ['-x', '9'], '--gid-index'),
    (PERF, ['--trace', 'everything'], '--trace'),
    (PERF, ['-R'], '--peer perftest'),
    (PERF, ['--peer', 'perftest', '-R', '--backend', 'verbs'], '--backend rockhopper'),
    (PERF, ['--peer', 'perftest', '-R', '-p', '0'], '--port'),
    (PERF, ['--peer', 'perftest', '-R', 'localhost'], 'localhost'),
    (PERF, ['--recovery', 'selective', '--peer', 'perftest'], '--recovery'),
    (PERF, ['--adaptive-timeout', '--backend', 'verbs'], '--adaptive-timeout'),
    (PERF, ['--op', 'lock', '--backend', 'verbs'], '--backend verbs'),
    (PERF, ['--op', 'lock', '--peer', 'perftest'], '--peer perftest'),
    (PERF, ['--op', 'lock,write'], 'other operations'),
    (PERF, ['--op', 'lock', '--lock-mode', 'cas', '--transport', 'dc'], '--transport dc'),
    (PERF, ['--op', 'lock', '--lock-mode', 'cas', '-t', '2'], '--window'),
    (PERF, ['--lock-mode', 'cas'], '--op lock'),
]


class Arguments(support.ProgramTest):
    def test_bad_ones_are_named_in_one_line(self):
        for program, arguments, named in BAD:
            with self.subTest(program=program, arguments=arguments):
                process = self.run_program(program, *arguments)
                self.assert_status(process, 2)
                self.assertEqual(process.output(), '')
                lines = process.messages().splitlines()
                self.assertEqual(len(lines), 1, lines)
                self.assertTrue(lines[0].startswith(program + ': '), lines[0])
                self.assertIn(named, lines[0])

    def test_help_and_version(self):
        for program in (PINGPONG, PERF, CM):
            for option in ('--help', '-h'):
                process = self.run_program(program, option)
                self.assert_status(process, 0)
                text = process.output()
                for part in ('USAGE', 'EXAMPLES', 'EXIT STATUS', '--pcap', '--faults', '--ip'):
                    self.assertIn(part, text)
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
                self.assertEqual(process.messages(), '')
            process = self.run_program(program, '--version')
            self.assert_status(process, 0)
            self.assertRegex(process.output(), rf'^{program} \d+\.\d+\.\d+\n$')

    def test_no_server(self):
        for program in (PINGPONG, PERF):
            with self.subTest(program=program, missing='memif'):
                process = self.run_program(program, '--memif-socket', self.lab.path('none.sock'),
                                           '--connect-timeout', 0.3, 'localhost')
                self.assert_failed(process, 'no memif server at .*none.sock')
            with self.subTest(program=program, missing='TCP'):
                process = self.run_program(program, '--device', 'net_null0', '-p', 1,
                                           '--connect-timeout', 0.3, 'localhost')
                self.assert_failed(process, 'no server answers at localhost port 1')

    def test_a_device_that_does_not_exist(self):
        for device, cause in (('net_nonsense0', 'net_nonsense0'), ('mlx5_0', '--backend verbs'),
                              ('net_af_packet0,iface=nonesuch0', 'no network interface nonesuch0')):
            with self.subTest(device=device):
                process = self.run_program(PINGPONG, '--device', device)
                self.assert_failed(process, cause)

    def test_sockets_that_cannot_be(self):
        """The path and the cause, before the driver is asked."""
        occupied = self.lab.path('occupied')
        occupied.write_text('')
        for place, cause, role in ((self.lab.path('none/memif.sock'), 'no such folder', ()),
                                   (occupied, 'something else of that name', ()),
                                   (occupied, 'something else of that name', ('localhost',))):
            with self.subTest(place=place, role=role):
                process = self.run_program(PINGPONG, '--memif-socket', place, *role)
                self.assert_failed(process, f'memif socket {place}: .*{cause}')
                self.assertEqual(len(process.messages().splitlines()), 1, process.messages())
        server, _ = self.start_server(PINGPONG, '--memif-socket', self.lab.path('memif.sock'))
        second = self.run_program(PINGPONG, '--memif-socket', self.lab.path('memif.sock'))
        self.assert_failed(second, 'another program serves it')
        self.assertFalse(server.has_ended())

    def test_a_full_device(self):
        """What was asked for is lost."""
        for options in (('--help',), ('--version',)):
            for program in (PINGPONG, PERF, CM, 'rh-run', 'rh-dag', 'rh-sim'):
                with self.subTest(program=program, options=options), open('/dev/full', 'wb') as full:
                    done = subprocess.run([PROGRAMS / program, *options], stdout=full, stderr=subprocess.PIPE,
                                          text=True, check=False)
                    self.assertEqual((done.returncode, done.stderr),
                                     (1, f'{program}: standard output cannot be written\n'))

    def test_verbs_without_a_device(self):
        process = self.run_program(PERF, '--backend', 'verbs', '--device', 'no such device')
        self.assert_failed(process, 'RDMA device')

    def test_a_capture_that_cannot_be_written(self):
        process = self.run_program(PINGPONG, '--device', 'net_null0', '--pcap',
                                   self.lab.path('no/such/folder.pcapng'))
        self.assert_failed(process, 'no/such/folder.pcapng')


class Eal(support.ProgramTest):
    def eal(self, *more):
        return ['--no-huge', '-m', '256', '--no-pci', '--no-telemetry',
                f'--file-prefix={self.lab.unique("rh")}', *more]

    def test_arguments_before_the_dashes_are_the_eals(self):
        device = f'net_memif0,socket={self.lab.path("memif.sock")},socket-abstract=no,role='
        options = ('-c', '-n', 50)
        server, port = self.start_server(PINGPONG, '--ip', '10.9.0.1/24', *options,
                                         eal=self.eal('--vdev', device + 'server'))
        client = self.start(PINGPONG, '--ip', '10.9.0.2/24', '-p', port, *options, 'localhost',
                            eal=self.eal('--vdev', device + 'client'))
        for process in (client, server):
            self.assert_status(process, 0)
            self.assertIn('50 messages checked', process.output())

    def test_bad_eal_arguments_fail_with_a_message(self):
        process = self.run_program(PINGPONG, '-n', 1, eal=self.eal('--lcores', 'nonsense'))
        self.assert_failed(process, f'^{PINGPONG}: DPDK does not start')

    def as_nobody(self):
        """The prefix of a command that runs rh-perf as a user without rights."""
        nobody = pwd.getpwnam('nobody')
        os.chmod(self.lab.folder, 0o711)
        home = self.lab.path('home')
        home.mkdir(mode=0o700)
        shutil.copy(PROGRAMS / PERF, home)
        for path in (home, home / PERF):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        # The build folder need not be open to everybody: the copy is.
        return ['setpriv', f'--reuid={nobody.pw_uid}', f'--regid={nobody.pw_gid}',
                '--clear-groups', '--inh-caps=-all', 'env', f'XDG_RUNTIME_DIR={home}',
                'sh', '-c', 'cd "$0" && shift && exec ./rh-perf "$@"', home]

    @unittest.skipUnless(os.getuid() == 0, 'only root can become somebody else')
    def test_rights_that_are_missing_are_named_at_once(self):
        prefix = self.as_nobody()
        theirs = self.lab.path('theirs')
        theirs.mkdir(mode=0o700)
        socket = theirs / 'memif.sock'
        for arguments, said in (
                (('--memif-socket', socket), f'memif socket {socket}: no permission'),
                (('--memif-socket', socket, 'localhost'), f'memif socket {socket}: no permission'),
                (('-d', 'net_af_packet0,iface=lo', '--ip', '10.9.0.1/24'), 'CAP_NET_RAW')):
            with self.subTest(arguments=arguments):
                process = self.run_program(PERF, *arguments, prefix=prefix)
                self.assert_failed(process, said)
                self.assertEqual(len(process.messages().splitlines()), 1, process.messages())

    @unittest.skipUnless(os.getuid() == 0, 'only root can become somebody else')
    def test_without_root_rights_and_huge_pages(self):
        prefix = self.as_nobody()
        server, port = self.start_server(PERF, prefix=prefix)
        client = self.start(PERF, '-p', port, '--op', 'all', '-n', 200, 'localhost', prefix=prefix)
        for process in (client, server):
            self.assert_status(process, 0)
        self.assertEqual(server.output().count('data is right'), 5)


if __name__ == '__main__':
    support.main()
