#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Installs a build folder into a temporary root, builds and runs examples/ with what is there, and
does what docs/tutorial.md says.

Usage: check.py BUILD_FOLDER
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree may be read-only, or shared

import tutorial  # noqa: E402 (needs the line above)

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / 'examples'
STANDARD = ['-std=c++20', '-Wall', '-Wextra', '-Werror']


def output(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, **options).stdout


def environment(root):
    """As a user has it who has installed the library into `root`."""
    folders = {str(path.parent) for path in root.rglob('rockhopper.pc')}
    assert len(folders) == 1, f'rockhopper.pc in {sorted(folders)}'
    return {**os.environ, 'PKG_CONFIG_PATH': folders.pop()}


def pkg_config(root, *arguments):
    return shlex.split(output(['pkg-config', *arguments], env=environment(root)))


def all_headers(root, folder):
    """A file that includes each installed header: they are complete and agree."""
    headers = sorted(root.rglob('rockhopper/**/*.h'))
    assert len(headers) > 30, f'only {len(headers)} headers installed'
    file = folder / 'headers.cc'
    file.write_text(''.join(f'#include "{header}"\n' for header in headers))
    return file


def modules(root):
    return sorted(path.stem for path in root.rglob('rockhopper*.pc'))


def run_examples(root, folder):
    """Builds all examples outside of the tree and runs them; how many there are."""
    sources = folder / 'examples'
    shutil.copytree(EXAMPLES, sources, ignore=shutil.ignore_patterns('build*'))
    build = folder / 'build-examples'
    output(['meson', 'setup', '--werror', '--buildtype=plain', build, sources],
           env=environment(root))
    output(['ninja', '-C', build])
    examples = sorted(path.stem for path in sources.glob('*.cc'))
    for example in examples:
        said = output([build / example], cwd='/')
        assert 'verified: ' in said and 'NOT SO' not in said, f'{example} says:\n{said}'
    return len(examples)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    compiler = shlex.split(os.environ.get('CXX', 'g++'))
    with tempfile.TemporaryDirectory(prefix='rockhopper-') as name:
        folder = pathlib.Path(name)
        root = folder / 'root'
        output(['meson', 'install', '-C', build, '--no-rebuild', '--destdir', root])
        prefix = next(root.rglob('include/rockhopper')).parent.parent
        # Our headers are held to the warnings, other libraries' are not.
        flags = [flag.replace('-I/usr/', '-isystem/usr/')
                 for flag in pkg_config(root, '--cflags', *modules(root))]
        output([*compiler, *STANDARD, *flags, '-fsyntax-only', all_headers(root, folder)])
        examples = run_examples(root, folder)
        tutorial.follow(tutorial.TUTORIAL.read_text(encoding='utf-8'), {
            **environment(root), 'PATH': f'{prefix / "bin"}:{os.environ["PATH"]}'})
        assert (prefix / 'share/rockhopper/rockhopper.lua').is_file(), 'no Wireshark dissector'
        programs = sorted(path.name for path in (prefix / 'bin').glob('*'))
        assert all(name.startswith('rh-') for name in programs), f'other programs: {programs}'
        for installed in programs:
            output([prefix / 'bin' / installed, '--version'], cwd='/')
            manual = prefix / 'share/man/man1' / f'{installed}.1'
            assert f'.TH {installed.upper()} 1 ' in manual.read_text(), f'{manual} is another page'
            assert (prefix / 'share/bash-completion/completions' / installed).is_file()
    print(f'install: headers, library, {examples} examples, the tutorial and {len(programs)} programs '
          'work outside the tree, each program with its manual page')


if __name__ == '__main__':
    sys.exit(main())
