#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Installs a build folder into a temporary root and builds program.cc against what is there.

Usage: check.py BUILD_FOLDER
"""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STANDARD = ['-std=c++20', '-Wall', '-Wextra', '-Werror']


def output(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, **options).stdout


def pkg_config(root, *options):
    folders = {str(path.parent) for path in root.rglob('rockhopper.pc')}
    assert len(folders) == 1, f'rockhopper.pc in {sorted(folders)}'
    environment = {**os.environ, 'PKG_CONFIG_PATH': folders.pop()}
    return shlex.split(output(['pkg-config', *options, 'rockhopper'], env=environment))


def all_headers(root, folder):
    """A file that includes each installed header: they are complete and agree."""
    headers = sorted(root.rglob('rockhopper/**/*.h'))
    assert len(headers) > 30, f'only {len(headers)} headers installed'
    file = folder / 'headers.cc'
    file.write_text(''.join(f'#include "{header}"\n' for header in headers))
    return file


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    compiler = shlex.split(os.environ.get('CXX', 'g++'))
    with tempfile.TemporaryDirectory(prefix='rockhopper-') as name:
        folder = pathlib.Path(name)
        root = folder / 'root'
        output(['meson', 'install', '-C', build, '--no-rebuild', '--destdir', root])
        prefix = next(root.rglob('include/rockhopper')).parent.parent
        # Our headers are held to the warnings, other libraries' are not.
        flags = [flag.replace('-I/usr/', '-isystem/usr/') for flag in pkg_config(root, '--cflags')]
        libraries = pkg_config(root, '--libs')
        output([*compiler, *STANDARD, *flags, '-fsyntax-only', all_headers(root, folder)])
        program = folder / 'program'
        output([*compiler, *STANDARD, *flags, HERE / 'program.cc', '-o', program, *libraries])
        print(output([program], cwd='/'), end='')
        assert (prefix / 'share/rockhopper/rockhopper.lua').is_file(), 'no Wireshark dissector'
        programs = sorted(path.name for path in (prefix / 'bin').glob('*'))
        assert all(name.startswith('rh-') for name in programs), f'other programs: {programs}'
        for installed in programs:
            output([prefix / 'bin' / installed, '--version'], cwd='/')
            manual = prefix / 'share/man/man1' / f'{installed}.1'
            assert f'.TH {installed.upper()} 1 ' in manual.read_text(), f'{manual} is another page'
            assert (prefix / 'share/bash-completion/completions' / installed).is_file()
    print(f'install: headers, library and {len(programs)} programs work outside the tree, each with its '
          'manual page')


if __name__ == '__main__':
    sys.exit(main())
