#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Builds the Debian packages."""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from testing import processes  # noqa: E402 (needs the path above)
from testing.progress import NINJA_STATUS, Progress  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
DESCRIPTION = """\
Builds the Debian packages librockhopper0, librockhopper-dev and rockhopper of what is in this
folder, uncommitted changes included; and in the folder debug of the output those with symbols for
debuggers. docs/packages.md says what is in them. As root it installs what the build needs
(debian/control) with apt.
"""
EPILOGUE = """\
Their version is that of debian/changelog. DEB_BUILD_OPTIONS is obeyed, as parallel=N and noopt.
To install them, as root:  apt-get install build/packages/*.deb
"""
# dpkg-buildpackage does not pass signals on: this ends all of its group.
_END_TOGETHER = 'trap "trap : TERM; kill -TERM 0; wait; exit 130" INT; "$@" & wait $!'


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog='scripts/package', description=DESCRIPTION, epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--output', metavar='DIR', type=pathlib.Path,
                        default=ROOT / 'build' / 'packages',
                        help='where the packages go (build/packages); packages of an earlier run '
                        'that are there are removed')
    parser.add_argument('--lintian', action='store_true',
                        help='have lintian look at the packages, and install it; an error of its '
                        'fails the run')
    parser.add_argument('--no-setup', action='store_true', help='install nothing')
    return parser.parse_args()


class Failure(Exception):
    """The run has failed; the message says why."""


def say(text):
    print(f'package: {text}', flush=True)


def source_files():
    """The files of the project, without those that a build leaves; None if git does not know."""
    if not shutil.which('git'):
        return None
    listed = subprocess.run(
        ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=ROOT,
        capture_output=True, check=False)
    if listed.returncode != 0 or not listed.stdout:
        return None
    names = [os.fsdecode(name) for name in listed.stdout.split(b'\0') if name]
    return [name for name in names if os.path.lexists(ROOT / name)]


def copy_source(target):
    """A copy to build in, so that nothing of the build gets between the sources."""
    shutil.rmtree(target, ignore_errors=True)
    names = source_files()
    if names is None:  # not a clone: sources as a tarball has them
        skipped = {str(ROOT): {name for name in os.listdir(ROOT)
                               if name == '.git' or name.startswith('build')}}
        shutil.copytree(ROOT, target, symlinks=True, ignore=lambda folder, names: {
            name for name in names if name in skipped.get(folder, ()) or name == '__pycache__'})
        return
    for name in names:
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, file, follow_symlinks=False)


def compiler_cache(environment):
    """The compilers by ccache where there is one. debhelper gives builds another home."""
    links = pathlib.Path('/usr/lib/ccache')
    if not links.is_dir() or not shutil.which('ccache'):
        return
    cache = subprocess.run(['ccache', '--get-config', 'cache_dir'], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.strip()
    environment['PATH'] = f'{links}:{os.environ["PATH"]}'
    environment['CCACHE_DIR'] = cache
    environment['CCACHE_SLOPPINESS'] = 'pch_defines,time_macros'  # as precompiled headers want


def build(source, log):
    environment = {}
    compiler_cache(environment)
    jobs = len(os.sched_getaffinity(0))
    # A user's flags would be compiled into what others install.
    unset = [word for name in ('CC', 'CXX', 'CFLAGS', 'CXXFLAGS', 'CPPFLAGS', 'LDFLAGS')
             for word in ('-u', name)]
    command = ['env', '-C', source, *unset, 'dpkg-buildpackage', '-us', '-uc', '-b', f'-j{jobs}']
    with contextlib.closing(Progress('building')) as progress:
        status = processes.run(
            ['sh', '-c', _END_TOGETHER, 'sh', *command], log, {**environment, 'NINJA_STATUS': NINJA_STATUS},
            on_line=progress.read, on_tick=progress.tick)
    if status != 0:
        tail = log.read_text(encoding='utf-8', errors='replace').splitlines()[-30:]
        raise Failure('\n'.join([*tail, f'dpkg-buildpackage failed; the whole output: {log}']))


def look_with_lintian(output, log):
    changes = [str(path) for path in output.glob('*.changes')]
    done = subprocess.run(['lintian', '--allow-root', '--fail-on', 'error', *changes],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    with log.open('a', encoding='utf-8') as out:
        out.write(done.stdout)
    found = [line for line in done.stdout.splitlines() if line.startswith(('E: ', 'W: '))]
    say('\n  '.join([f'lintian: {sum(line.startswith("E: ") for line in found)} errors, '
                     f'{sum(line.startswith("W: ") for line in found)} warnings', *found]))
    if done.returncode != 0:
        raise Failure(f'lintian is not content:\n{done.stdout[-3000:]}')


def main():
    arguments = parse_arguments()
    start = time.monotonic()
    output = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    log = output / 'build.log'
    unmet = subprocess.run(['dpkg-checkbuilddeps'], cwd=ROOT, capture_output=True, text=True,
                           check=False)
    if unmet.returncode != 0:
        raise Failure(unmet.stderr.strip())
    symbols = output / 'debug'
    shutil.rmtree(symbols, ignore_errors=True)
    for pattern in ('*.deb', '*.changes', '*.buildinfo'):
        for old in output.glob(pattern):
            old.unlink()
    source = output / 'source'
    copy_source(source)
    say(f'building; the output goes to {log}')
    build(source, log)
    shutil.rmtree(source)
    if arguments.lintian:
        look_with_lintian(output, log)
    # Apart, so that *.deb names what a user installs.
    symbols.mkdir()
    for package in output.glob('*-dbgsym_*.deb'):
        package.rename(symbols / package.name)
    for package in sorted(output.glob('*.deb')):
        say(f'{package} ({package.stat().st_size // 1024} KiB)')
    say(f'done in {time.monotonic() - start:.0f} s')
    return 0


def reported():
    try:
        return main()
    except Failure as failure:
        print(f'package: {failure}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(processes.interruptible(reported))
