#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Installed programs under rh-run: they load, and find a device; what rh-run says when they cannot."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from verbs_support import (ENGINE, FOLDER, LIBRARY_FOLDERS, ORDINARY, PATHS, RH_RUN, THIN, RunTest,
                           clean_environment)

DLVSYM = '''
import ctypes
library = ctypes.CDLL({name!r})
libc = ctypes.CDLL(None)
libc.dlvsym.restype = ctypes.c_void_p
libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
for name, node in (('ibv_get_device_list', 'IBVERBS_1.1'), ('ibv_reg_mr_iova2', 'IBVERBS_1.8'),
                   ('ibv_reg_dmabuf_mr', 'IBVERBS_1.12'), ('ibv_query_port_speed', 'IBVERBS_1.16'),
                   ('ibv_query_gid_type', 'IBVERBS_PRIVATE_34')):
    assert libc.dlvsym(library._handle, name.encode(), node.encode()), (name, node)
assert not libc.dlvsym(library._handle, b'ibv_reg_mr', b'IBVERBS_1.18')
count = ctypes.c_int(-1)
get = library.ibv_get_device_list
get.restype = ctypes.POINTER(ctypes.c_void_p)
first, second = get(ctypes.byref(count)), get(None)
library.ibv_free_device_list(first)
library.ibv_get_device_name.restype = ctypes.c_char_p
library.ibv_get_device_name.argtypes = [ctypes.c_void_p]
again = get(None)
print(count.value, library.ibv_get_device_name(again[0]).decode(), second[0] == again[0], again[count.value])
'''

LOOK = '''
import os, stat
node = os.stat('/dev/infiniband/uverbs0')
assert stat.S_ISCHR(node.st_mode) and os.access('/dev/infiniband/uverbs0', os.R_OK | os.W_OK)
print(os.listdir('/sys/class/infiniband'))
for name in ('gids/0', 'gid_attrs/types/0', 'state'):
    print(open(f'/sys//class/infiniband/rh0/ports/1/{name}').read().strip())
print(os.path.exists('/sys/class/infinibandage'), os.path.exists('/sys/class/infiniband/rh9'),
      os.path.exists('/sys/class/net'))
'''


MISSING = re.compile(r'.*(?:not found|undefined symbol: (?:_?ibv_|_?verbs_|mult_to|mbps_to)).*')


def needs_verbs(path):
    """Whether a file is a program or library that links libibverbs."""
    listing = subprocess.run(['readelf', '--wide', '--dynamic', path], capture_output=True, text=True,
                             timeout=60, check=False).stdout
    return re.search(r'\(NEEDED\).*\[libibverbs\.so\.1\]', listing) is not None


def installed_files():
    """Programs, and libraries of the folders that the loader and known plug-ins use."""
    folders = [pathlib.Path('/usr/bin'), pathlib.Path('/usr/sbin'), *LIBRARY_FOLDERS]
    for folder in LIBRARY_FOLDERS:
        folders += [folder / name for name in ('ucx', 'openmpi/lib/openmpi3', 'libibverbs')]
    folders += pathlib.Path('/usr/lib/python3/dist-packages').glob('pyverbs*')
    for folder in folders:
        if not folder.is_dir():
            continue
        for path in sorted(folder.iterdir()):
            if not path.is_file() or path.is_symlink():
                continue
            with open(path, 'rb') as file:
                if file.read(4) == b'\x7fELF' and b'libibverbs.so.1' in file.read():
                    yield path


class Load(RunTest):
    def test_every_installed_program_loads(self):
        files = [path for path in installed_files() if needs_verbs(path)]
        if not files:
            self.skipTest('no program or library here links libibverbs')
        for path in files:
            with self.subTest(path=path):
                output = self.assert_good(self.rh_run('ldd', '-r', path))
                self.assertIn(f'libibverbs.so.1 => {THIN}', output)
                # A plug-in has other symbols from the program that loads it.
                self.assertEqual(MISSING.findall(output), [])

    def test_list_of_devices(self):
        if shutil.which('ibv_devices') is None:
            self.skipTest('ibv_devices is not installed')
        lines = self.assert_good(self.rh_run('ibv_devices')).splitlines()[2:]
        self.assertEqual([line.split()[0] for line in lines], ['rh0'])
        guid = lines[0].split()[1]
        self.assertRegex(guid, r'^02[0-9a-f]{14}$')
        two = self.assert_good(self.rh_run('--device', 'rh0', '--device', 'rail1', 'ibv_devices'))
        found = [line.split() for line in two.splitlines()[2:]]
        self.assertEqual([name for name, _ in found], ['rh0', 'rail1'])
        self.assertEqual(found[0][1], guid)
        self.assertNotEqual(found[1][1], guid)
        # Without rh-run's tree and shim, the library alone serves too.
        alone = self.run_command('ibv_devices', LD_LIBRARY_PATH=str(FOLDER))
        self.assertIn(guid, self.assert_good(alone))

    def test_opened_later(self):
        for name in ('libibverbs.so.1', 'libibverbs.so'):
            done = self.rh_run(sys.executable, '-c', DLVSYM.format(name=name))
            self.assertEqual(self.assert_good(done).strip(), '1 rh0 True None')

    def test_device_that_cannot_be_opened(self):
        if ENGINE.exists() or shutil.which('ibv_devinfo') is None:
            self.skipTest('the engine library is there, or ibv_devinfo is not')
        done = self.rh_run('ibv_devinfo')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f'libibverbs of Rockhopper: no device can be opened without the engine library: '
                      f'{ENGINE}', done.stderr)

    def test_stub_says_who_may_call_it(self):
        call = f'import ctypes; ctypes.CDLL({str(THIN)!r}).ibv_cmd_alloc_pd()'
        done = self.run_command(sys.executable, '-c', call)
        self.assertEqual(done.returncode, -6)
        self.assertIn('ibv_cmd_alloc_pd is for drivers of rdma-core', done.stderr)

    def test_what_drivers_log_is_not_shown(self):
        call = f"""
import ctypes
library = ctypes.CDLL({str(THIN)!r})
getattr(library, '__verbs_log')(None, 3, b'not an EFA device')
"""
        self.assert_good(self.run_command(sys.executable, '-c', call))

    def test_off(self):
        show = 'import os; print([os.environ.get(n) for n in ("LD_LIBRARY_PATH", "LD_PRELOAD")])'
        done = self.rh_run(sys.executable, '-c', show, ROCKHOPPER_VERBS='off')
        self.assertEqual(self.assert_good(done).strip(), '[None, None]')
        inner = self.rh_run('env', 'ROCKHOPPER_VERBS=off', RH_RUN, sys.executable, '-c', show)
        self.assertEqual(self.assert_good(inner).strip(), '[None, None]')
        if shutil.which('ibv_devices') is not None:
            left = self.run_command('ibv_devices', LD_LIBRARY_PATH=str(FOLDER), ROCKHOPPER_VERBS='off')
            self.assertEqual(left.returncode, 0)
            self.assertNotIn('rh0', left.stdout)
            self.assertRegex(left.stderr, r'ROCKHOPPER_VERBS=off.*rh-run')
        other = {'ROCKHOPPER_VERBS': 'no'}
        self.assert_one_line(self.rh_run('true', **other), 2, 'ROCKHOPPER_VERBS')
        if shutil.which('ibv_devices') is not None:
            left = self.run_command('ibv_devices', LD_LIBRARY_PATH=str(FOLDER), **other)
            self.assertNotIn('rh0', left.stdout)
            self.assertIn('ROCKHOPPER_VERBS', left.stderr)

    def test_preload_of_an_outer_rh_run_stays(self):
        show = 'import os; print(os.environ["LD_PRELOAD"])'
        done = self.rh_run('--preload', RH_RUN, sys.executable, '-c', show)
        self.assertEqual(self.assert_good(done), f'{PATHS}:{THIN}\n')


class Tree(RunTest):
    def test_files_in_sys_and_dev(self):
        done = self.rh_run('--addresses', '192.0.2.1/24,fd00::1/64', sys.executable, '-c', LOOK)
        self.assertEqual(self.assert_good(done).splitlines(), [
            "['rh0']", '0000:0000:0000:0000:0000:ffff:c000:0201', 'RoCE v2', '4: ACTIVE',
            f'False False {os.path.exists("/sys/class/net")}'])

    def test_commands_that_look_at_files(self):
        for command in (('ls', '-l', '/sys/class/infiniband'), ('stat', '-f', '/sys/class/infiniband/rh0')):
            with self.subTest(command=command):
                shown = self.assert_good(self.rh_run('--addresses', '192.0.2.1/24', *command))
                self.assertIn('rh0', shown)

    def interrupt_while_it_is_written(self, number):
        folder = self.runtime / 'rockhopper'
        shutil.rmtree(folder, ignore_errors=True)
        environment = clean_environment(XDG_RUNTIME_DIR=str(self.runtime))
        with subprocess.Popen([RH_RUN, 'true'], env=environment) as child:
            while child.poll() is None and not (folder / 'unfinished-tree').exists():
                pass
            child.send_signal(number)
        return [path.name for path in folder.glob('*tree*')]

    def test_interrupted_while_it_is_written(self):
        """There is the whole tree, or nothing, as the signal waits for its end."""
        for _ in range(20):
            for name in self.interrupt_while_it_is_written(signal.SIGINT):
                self.assertRegex(name, '^tree-[0-9a-f]{16}$')

    def test_killed_while_it_is_written(self):
        """The next one cleans up."""
        folder = self.runtime / 'rockhopper'
        hits = 0
        for _ in range(20):
            if 'unfinished-tree' not in self.interrupt_while_it_is_written(signal.SIGKILL):
                continue
            hits += 1
            (folder / 'unfinished-tree/of_another_device').touch()
            self.assert_good(self.rh_run('true'))
            [tree] = folder.glob('*tree*')
            self.assertRegex(tree.name, '^tree-[0-9a-f]{16}$')
            self.assertFalse((tree / 'of_another_device').exists())
        self.assertGreater(hits, 0)

    def test_tree_is_used_again(self):
        for _ in range(2):
            self.assert_good(self.rh_run('--addresses', '192.0.2.1/24', 'true'))
        self.assertEqual(len(list((self.runtime / 'rockhopper').glob('tree-*'))), 1)
        self.assert_good(self.rh_run('--addresses', '192.0.2.2/24', 'true'))
        self.assertEqual(len(list((self.runtime / 'rockhopper').glob('tree-*'))), 2)


class Command(RunTest):
    def test_environment(self):
        show = ('import os; print({n: v for n, v in os.environ.items()'
                ' if n.startswith(("ROCKHOPPER_", "LD_"))})')
        done = self.rh_run('--preload', '--pcap', 'run-%p.pcapng', '--faults', 'loss=1%', '--',
                           sys.executable, '-c', show, LD_LIBRARY_PATH=f'/nowhere:{FOLDER}')
        found = eval(self.assert_good(done))  # pylint: disable=eval-used
        tree = found.pop('ROCKHOPPER_TREE')
        self.assertTrue(tree.startswith(f'{self.runtime}/rockhopper/tree-'), tree)
        self.assertEqual(found, {'LD_LIBRARY_PATH': f'{FOLDER}:/nowhere',
                                 'LD_PRELOAD': f'{PATHS}:{THIN}',
                                 'ROCKHOPPER_PCAP': 'run-%p.pcapng', 'ROCKHOPPER_FAULTS': 'loss=1%'})

    def test_status_and_arguments_are_the_commands(self):
        done = self.rh_run('sh', '-c', 'echo "$@"; exit 7', 'sh', '--pcap', '--', '-x')
        self.assertEqual((done.returncode, done.stdout), (7, '--pcap -- -x\n'))

    def test_command_that_cannot_be_run(self):
        self.assert_one_line(self.rh_run('there-is-no-such-command'), 127, 'there-is-no-such-command')
        self.assert_one_line(self.rh_run('/etc/passwd'), 126, 'Permission denied')
        self.assert_one_line(self.rh_run('/etc'), 126, 'Is a directory')
        self.assert_one_line(self.rh_run('/etc/passwd/x'), 127, 'Not a directory')
        script = self.script('#!/no/such/interpreter -x')
        self.assert_one_line(self.rh_run(script), 126, '/no/such/interpreter')

    def script(self, text):
        path = self.runtime / 'script'
        path.write_text(text)
        path.chmod(0o755)
        return path

    def test_command_is_found_as_a_shell_finds_it(self):
        folder = self.runtime / 'bin'
        (folder / 'name').mkdir(parents=True)
        path = f'{folder}:/etc/passwd:{os.environ["PATH"]}'
        self.assert_one_line(self.rh_run('name', PATH=path), 127, 'name: command not found')
        self.script('echo "$0 $1"')  # no first line: sh runs it
        done = self.rh_run('script', 'x', PATH=f'{folder}:{self.runtime}:{os.environ["PATH"]}')
        self.assertEqual(self.assert_good(done), f'{self.runtime}/script x\n')
        (self.runtime / 'script').chmod(0o644)
        self.assert_one_line(self.rh_run('script', PATH=str(self.runtime)), 126, 'Permission denied')

    def test_bad_arguments(self):
        for arguments, text in (((), 'no command'), (('--faults', 'nonsense', 'true'), 'nonsense'),
                                (('--addresses', '1.2.3.4', 'true'), 'prefix length'),
                                (('--addresses', '127.0.0.1/8', 'true'), '127.0.0.1'),
                                (('--addresses', '::1/128', 'true'), '::1'),
                                (('--addresses', '255.255.255.255/32', 'true'), '255.255.255.255'),
                                (('--addresses', '10.0.0.1/24,10.0.0.1/8', 'true'), 'twice'),
                                (('--addresses', '', 'true'), 'empty'),
                                (('--uplink', 'tcp', 'true'), 'uplink'),
                                (('--uplink', 'udp', '--addresses', '1.2.3.4', 'true'), 'prefix length'),
                                (('--faults', '', 'true'), 'empty'), (('--pcap', '', 'true'), 'empty'),
                                (('--pcap', '/no/such/folder/x', 'true'), 'No such file'),
                                (('--pcap', str(self.runtime), 'true'), 'Is a directory'),
                                (('--device', '7up', 'true'), '7up'),
                                (('--device', 'a', '--device', 'a', 'true'), 'twice'),
                                (('--nothing', 'true'), 'nothing')):
            with self.subTest(arguments=arguments):
                self.assert_one_line(self.rh_run(*arguments), 2, text)

    def test_check(self):
        if shutil.which('ibv_devices') is not None:
            output = self.assert_good(self.rh_run('--check', 'ibv_devices'))
            self.assertIn(str(THIN), output)
            self.assertIn('all symbols are there', output)
        self.assert_one_line(self.rh_run('--check', 'there-is-no-such-command'), 127, 'not found')
        self.assert_one_line(self.rh_run('--check', '/etc'), 126, 'Is a directory')
        output = self.assert_good(self.rh_run('--check', self.script('#! /bin/sh -e\n')))
        self.assertIn('is a script of /bin/sh\n', output)
        if os.geteuid() == 0:
            strange = self.runtime / 'true'
            shutil.copy('/bin/true', strange)
            os.chown(strange, ORDINARY, ORDINARY)
            strange.chmod(0o4755)
        else:
            strange = shutil.which('su')  # root's, and setuid
        self.assert_one_line(self.rh_run('--check', strange), 1, 'setuid')
        done = self.rh_run('--check', self.script('#!/no/such/interpreter'))
        self.assert_one_line(done, 1, '/no/such/interpreter: No such file')
        output = self.assert_good(self.rh_run('--check', 'true'))
        self.assertIn('does not name libibverbs', output)


if __name__ == '__main__':
    unittest.main()
