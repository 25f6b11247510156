# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""scripts/rxe-guest itself: commands, files, ports, and that nothing is left behind."""

import contextlib
import fcntl
import io
import lzma
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import lab
from rxe_guest import guest, image, machine
from rxe_guest.errors import GuestError, Skip, Timeout, UsageError
from rxe_guest.guest import Guest
from rxe_guest.links import Link
from testing.standstill import RepeatedTest

SCRIPT = lab.ROOT / 'scripts/rxe-guest'
LIMIT_S = 300


def wait_until(condition, what, limit_s=60):
    """Returns once `condition()` is true."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f'not within {limit_s} s: {what}'
        time.sleep(0.05)


def left_of(name):
    """Processes and files that belong to a guest of this name."""
    directory = machine.runtime_directory() / name
    found = [str(directory)] if directory.exists() else []
    for process in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        try:
            if f'{directory}/ready'.encode() in process.read_bytes():
                found.append(str(process))
        except OSError:
            pass
    return found


def rxe_guest(*arguments, **options):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                          check=False, timeout=LIMIT_S, **options)


class Commands(RepeatedTest):
    """One guest with a veth pair for all."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.guest = Guest.start(f'commands-{os.getpid()}', [Link.parse('veth,mtu=4300')],
                                    owner=os.getpid())
        except Skip as reason:
            raise unittest.SkipTest(str(reason)) from None
        cls.addClassCleanup(cls.guest.stop)

    def test_output_errors_and_status_are_told_apart(self):
        result = self.guest.execute('echo out; echo err >&2; exit 7')
        self.assertEqual((result.status, result.stdout, result.stderr), (7, b'out\n', b'err\n'))

    def test_words_stay_as_they_are(self):
        words = ['printf', '[%s]', 'a  b', "it's", '$HOME', '']
        self.assertEqual(self.guest.check(words), "[a  b][it's][$HOME][]")

    def test_a_signal_that_ends_a_command_is_in_the_status(self):
        self.assertEqual(self.guest.execute('kill -9 $$').status, 128 + 9)

    def test_input_reaches_the_command_whole(self):
        data = os.urandom(3_000_000)
        result = self.guest.execute('cat', stdin=data)
        self.assertEqual((result.status, result.stdout == data), (0, True))

    def test_large_output_and_errors_at_once(self):
        result = self.guest.execute('seq 200000 & seq 200000 >&2; wait')
        expected = ''.join(f'{i}\n' for i in range(1, 200001)).encode()
        self.assertTrue(result.stdout == expected and result.stderr == expected)

    def test_commands_run_side_by_side(self):
        fifo = '/tmp/side-by-side'
        self.guest.check(f'mkfifo {fifo}')
        results = []
        reader = threading.Thread(target=lambda: results.append(self.guest.check(f'cat {fifo}')))
        reader.start()
        self.guest.check(f'echo here >{fifo}')
        reader.join()
        self.assertEqual(results, ['here\n'])

    def test_a_command_that_takes_too_long_is_killed(self):
        with self.assertRaises(Timeout):
            self.guest.execute('sh -c "sleep 4242" & sleep 4242', timeout_s=2)
        wait_until(lambda: '4242' not in self.guest.check('ps | grep "[s]leep" || true'),
                   'the command is gone')

    def test_what_a_command_leaves_running_stays(self):
        self.guest.check('sleep 4343 >/dev/null 2>&1 & echo started')
        found = self.guest.check('ps | grep "[s]leep 4343"')
        self.guest.check(f'kill {found.split()[0]}')

    def test_files_keep_content_and_mode(self):
        with tempfile.TemporaryDirectory(prefix='rockhopper-') as folder:
            source, back = pathlib.Path(folder, 'file'), pathlib.Path(folder, 'back')
            source.write_bytes(os.urandom(100_000))
            source.chmod(0o750)
            self.guest.push(source, '/tmp/some/where/')
            self.assertEqual(self.guest.check('stat -c %a /tmp/some/where/file'), '750\n')
            self.guest.pull('/tmp/some/where/file', back)
            self.assertEqual(back.read_bytes(), source.read_bytes())

    def test_a_forwarded_port_leads_into_the_guest(self):
        port = self.guest.forward(4444)
        listener = threading.Thread(
            target=lambda: self.guest.check('nc -l -p 4444 -e /bin/echo hello', timeout_s=60))
        listener.start()
        self.guest.check('until ss -Hltn sport = :4444 | grep -q .; do sleep 0.05; done')
        with socket.create_connection(('127.0.0.1', port)) as connection:
            self.assertEqual(connection.makefile('rb').read(), b'hello\n')
        listener.join()

    def test_gids_are_found_by_address(self):
        for device, address in (('rxe0', '10.8.0.1'), ('rxe1', '10.8.0.2'), ('rxe0', 'fd08::1')):
            index = self.guest.gid_index(device, address)
            gid = self.guest.check(f'cat /sys/class/infiniband/{device}/ports/1/gids/{index}')
            self.assertEqual(gid.replace(':', '').strip()[-2:], address[-1].zfill(2))
        with self.assertRaises(GuestError):
            self.guest.gid_index('rxe0', '10.8.0.77')

    def test_the_mtu_gives_the_path_mtu(self):
        self.assertIn('active_mtu:\t\t4096', self.guest.check('ibv_devinfo -d rxe0'))

    def test_netem_comes_and_goes(self):
        self.guest.impair('rdma0', lab.Impairment(loss=1, duplicate=2, reorder=3))
        text = self.guest.check('tc qdisc show')
        self.assertEqual(text.count('loss 1% duplicate 2% reorder 3%'), 2, text)
        self.guest.impair('rdma0', None)
        self.assertNotIn('netem', self.guest.check('tc qdisc show'))

    def test_another_of_the_same_name_is_refused(self):
        result = rxe_guest('start', self.guest.name)
        self.assertEqual(result.returncode, 1)
        self.assertIn('runs already', result.stderr)


class Frozen(RepeatedTest):
    """Guests that go on from where one has booted."""

    def start(self, number):
        try:
            guest_ = Guest.start(f'frozen-{os.getpid()}-{number}', [Link.parse('veth')], owner=os.getpid())
        except Skip as reason:
            self.skipTest(str(reason))
        self.addCleanup(guest_.stop)
        return guest_

    def test_each_is_another_one(self):
        if not image.find_program('zstd'):
            self.skipTest('no zstd')
        self.start(0).stop()  # one has booted
        first, second = self.start(1), self.start(2)
        # The same boot, to the microsecond.
        self.assertEqual(*(guest_.check('dmesg | head -n 100') for guest_ in (first, second)))
        # But neither random numbers nor tokens are the same.
        for command in ('head -c 16 /dev/urandom | od -tx1', 'cat /proc/sys/kernel/random/uuid', 'cat /run/agent/token'):
            self.assertNotEqual(first.check(command), second.check(command))
        for guest_ in (first, second):
            self.assertLess(abs(int(guest_.check('date +%s')) - time.time()), 10)

    def spoilt(self, **what):
        """Starts a guest where a kept one is spoilt; what it says. What is really kept stays."""
        forgotten = []
        with mock.patch.multiple(machine.frozen.Frozen, exists=lambda _: not forgotten, is_wanted=lambda _: False,
                                 forget=lambda _: forgotten.append(True), **what), \
             contextlib.redirect_stderr(io.StringIO()) as said:
            started = self.start(3)
            self.assertEqual(started.check('echo up'), 'up\n')
            started.stop()
        self.assertEqual(forgotten, [True])
        return said.getvalue()

    def test_a_memory_that_cannot_be_read(self):
        def fill(_, memory):
            os.write(memory, b'half of it')
            raise OSError('Data corruption detected')
        self.assertRegex(self.spoilt(fill=fill), 'Data corruption detected; booting anew')

    def test_a_stream_that_cannot_be_read(self):
        self.start(0).stop()  # one has booted
        whole = machine.frozen.Frozen.reader
        for wrong in (lambda _: 'echo garbage', lambda kept: f'{whole(kept)} | head -c 20000'):
            with self.subTest():
                said = self.spoilt(fill=lambda _, memory: None, reader=wrong)
                self.assertRegex(said, 'booting anew')


class Lifetime(RepeatedTest):
    """However a guest ends, nothing is left of it."""

    def setUp(self):
        self.name = f'life-{os.getpid()}'
        self.addCleanup(machine.stop, self.name)

    def start(self, *options):
        result = rxe_guest('start', self.name, *options)
        if result.returncode == Skip.exit_status:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stderr)

    def assert_gone(self):
        wait_until(lambda: not left_of(self.name), 'nothing is left')

    def test_stop(self):
        self.start()
        self.assertTrue(left_of(self.name))
        self.assertEqual(rxe_guest('stop', self.name).returncode, 0)
        self.assertEqual(left_of(self.name), [])
        self.assertEqual(rxe_guest('stop', self.name).returncode, 1)

    def test_what_qemu_says_when_it_ends_at_once(self):
        for wrong, said in (({'cpu_model': 'nonesuch'}, r"QEMU ended \(status 1\).*'nonesuch'"),
                            ({'memory_mb': 0}, r'QEMU ended \(status 1\).*memory')):
            with self.subTest(wrong=wrong):
                try:
                    with self.assertRaisesRegex(GuestError, said):
                        Guest.start(self.name, owner=os.getpid(), **wrong)
                except Skip as reason:
                    self.skipTest(str(reason))
                self.assert_gone()

    def test_lifetime(self):
        # Over before it has booted, as a rule.
        result = rxe_guest('start', self.name, '--lifetime', '1')
        if result.returncode == Skip.exit_status:
            self.skipTest(result.stderr.strip())
        self.assertNotIn('Traceback', result.stderr)
        self.assert_gone()

    def test_another_that_starts_meanwhile_leaves_it_alone(self):
        """It removes what dead guests left, at the moment at which this one is nearly locked."""
        def flock(descriptor, operation):
            if operation == fcntl.LOCK_EX:
                machine.running()
            lock(descriptor, operation)

        lock = fcntl.flock
        try:
            guest.build()  # which locks, too
            with mock.patch.object(machine.fcntl, 'flock', flock), \
                 Guest.start(self.name, owner=os.getpid()) as started:
                self.assertEqual(started.check('echo up'), 'up\n')
        except Skip as reason:
            self.skipTest(str(reason))

    def test_end_of_the_owner(self):
        with subprocess.Popen(['sleep', '4444']) as owner:
            try:
                self.start('--owner', str(owner.pid))
                self.assertTrue(left_of(self.name))
            finally:
                owner.kill()
        self.assert_gone()

    def test_death_of_the_supervisor(self):
        self.start()
        os.kill(machine.supervisor_of(machine.state_directory(self.name)), 9)
        wait_until(lambda: len(left_of(self.name)) <= 1, 'QEMU is gone')
        machine.running()  # removes the folder
        self.assertEqual(left_of(self.name), [])

    def test_a_command_that_fails_in_run(self):
        with subprocess.Popen([sys.executable, SCRIPT, 'run', '--', 'exit 9'],
                              stderr=subprocess.PIPE, text=True) as run:
            said = run.communicate(timeout=LIMIT_S)[1]
        if run.returncode == Skip.exit_status:
            self.skipTest(said.strip())
        self.assertEqual(run.returncode, 9, said)
        self.assertEqual(left_of(f'run-{run.pid}'), [])

    def test_a_run_that_is_killed(self):
        command = [sys.executable, SCRIPT, 'run', '--', 'echo up; sleep 4545']
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            if run.stdout.readline() != b'up\n':
                self.skipTest(run.stderr.read().decode().strip())
            self.assertTrue(left_of(f'run-{run.pid}'))
            run.kill()
        wait_until(lambda: not left_of(f'run-{run.pid}'), 'nothing is left')


class Arguments(unittest.TestCase):
    """What is wrong is said in one line, before anything starts."""

    def test_links(self):
        for text in ('', 'ethernet=x', 'tap', 'veth=1', 'veth,mtu=100', 'veth,mtu=x', 'veth,ip=10',
                     'veth,mac=1:2', 'veth,mac=01:00:00:00:00:01', 'veth,colour=red', 'veth,rxe=2',
                     'guest=a,neighbour=10.0.0.1'):
            with self.subTest(text), self.assertRaises(UsageError):
                Link.parse(text)

    def test_names(self):
        for name in ('', 'a/b', '.hidden', 'x' * 33, '..'):
            with self.subTest(name), self.assertRaises(UsageError):
                machine.state_directory(name)

    def test_status_two_and_one_line(self):
        for arguments in (['start', 'x', '--link', 'vhost-user=/nonexistent'],
                          ['start', 'x', '--link', 'tap=nonexistent0'], ['exec', 'a/b', 'true']):
            with self.subTest(arguments):
                result = rxe_guest(*arguments)
                if result.returncode == Skip.exit_status:
                    self.skipTest(result.stderr.strip())
                self.assertEqual((result.returncode, result.stderr.count('\n')), (2, 1))

    def test_a_machine_without_the_programs_skips_and_names_the_packages(self):
        with mock.patch.object(image, 'find_program', lambda name: None):
            with self.assertRaisesRegex(Skip, 'apt-get install .*qemu-system-x86'):
                image.require_programs()

    def test_a_kernel_is_started_uncompressed(self):
        """Or as it is, where what is in it is unknown, damaged, or nothing that can be started."""
        note = struct.pack('<III4s', 4, 4, 18, b'Xen')
        elf = b'\x7fELF' + bytes(1000) + note + bytes(1000)

        def packed(content, protocol=0x20f, magic=b'HdrS'):
            head = bytearray(1024)
            head[0x1f1] = 1  # sectors of setup code behind the first one
            head[0x202:0x206], head[0x206:0x208] = magic, struct.pack('<H', protocol)
            head[0x248:0x250] = struct.pack('<II', 100, len(content))
            return bytes(head) + bytes(100) + content + bytes(50)

        compressed = lzma.compress(elf) + struct.pack('<I', len(elf))
        self.assertEqual(image.uncompressed(packed(compressed)), elf)
        for what, content in (('old', packed(compressed, protocol=0x207)),
                              ('no kernel', packed(compressed, magic=b'XXXX')),
                              ('other compression', packed(b'\x28\xb5\x2f\xfd' + bytes(100))),
                              ('no note', packed(lzma.compress(elf.replace(note, b'')))),
                              ('no ELF file', packed(lzma.compress(elf[1:]))),
                              ('cut off', packed(compressed)[:1200])):
            with self.subTest(what):
                self.assertTrue(image.uncompressed(content) is None)

    def test_a_machine_without_a_kernel_skips_and_says_why(self):
        with tempfile.TemporaryDirectory(prefix='rockhopper-') as folder:
            with mock.patch.object(image, 'MODULES_ROOT', pathlib.Path(folder)):
                with self.assertRaisesRegex(Skip, 'apt-get install linux-image'):
                    image.Kernel.find()


if __name__ == '__main__':
    unittest.main(verbosity=2)
