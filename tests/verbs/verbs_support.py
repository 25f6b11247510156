# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Where the libraries and rh-run are, and how a program is run by it."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get('ROCKHOPPER_PROGRAMS', 'build/apps')).resolve()
FOLDER = PROGRAMS / 'verbs'
THIN = FOLDER / 'libibverbs.so.1'
PATHS = FOLDER / 'librh-paths.so'
ENGINE = FOLDER / 'librockhopper-verbs.so'
RH_RUN = pathlib.Path(os.environ.get('ROCKHOPPER_RH_RUN', PROGRAMS / 'rh-run'))
# Of a build with a sanitizer: its runtime, which programs that are built without do not have.
SANITIZER = os.environ.get('ROCKHOPPER_SANITIZER')
SANITIZER_OPTIONS = ('ASAN_OPTIONS', 'LSAN_OPTIONS', 'TSAN_OPTIONS', 'UBSAN_OPTIONS')
# As long as one wants to wait: docs/testing.md says what it runs more.
SOAK = os.environ.get('ROCKHOPPER_SOAK', '0') not in ('', '0')
# What the kernel calls "nobody".
ORDINARY = 65534
AS_ORDINARY = ('setpriv', f'--reuid={ORDINARY}', f'--regid={ORDINARY}', '--clear-groups')
LIBRARY_FOLDERS = [folder for folder in pathlib.Path('/usr/lib').glob('*-linux-gnu')]

# Behind a name of nm's there is @ and a node, or @@ if it is what a linker takes.
SYMBOL = re.compile(r'(\S+?)@(@?)(IBVERBS_\S+)$', re.MULTILINE)


def exported(library):
    """{(name, node): whether it is the default version} of what a library defines."""
    listing = subprocess.run(['nm', '--dynamic', '--defined-only', '--with-symbol-versions', library],
                             capture_output=True, text=True, check=True, timeout=60).stdout
    names = [line.split()[-1] for line in listing.splitlines()]
    return {(name, node): bool(default) for text in names
            for name, default, node in SYMBOL.findall(text) if not name.startswith('IBVERBS_')}


def clean_environment(**settings):
    """The environment without what a session around the tests may have set."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith('ROCKHOPPER_') and name not in ('LD_LIBRARY_PATH', 'LD_PRELOAD')}
    return kept | settings


def instrumented(*command):
    """The command line for rh-run: with the sanitizer's runtime in front of what rh-run preloads."""
    if SANITIZER is None:
        return command
    return 'sh', '-c', 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"', SANITIZER, *command


@functools.cache
def as_ordinary_user():
    """What stands before a command so that an ordinary user runs it. Nothing for an ordinary user;
    nor where the tree is in a folder that is closed to others, which is said."""
    if os.geteuid() != 0:
        return ()
    if shutil.which('setpriv'):
        looks = ' && '.join(f'test -r {path}' for path in (RH_RUN, ENGINE, ROOT / 'tests/leak.supp'))
        if subprocess.run([*AS_ORDINARY, 'sh', '-c', looks], check=False).returncode == 0:
            return AS_ORDINARY
    print(f'as root: no ordinary user may read {ROOT} and {PROGRAMS}', file=sys.stderr)
    return ()


def own_folder(path, prefix):
    """Makes a folder, if there is none, of the user that the command `prefix` becomes: AS_ORDINARY,
    or nothing for this one."""
    path.mkdir(mode=0o700, exist_ok=True)
    if prefix:
        os.chown(path, ORDINARY, ORDINARY)
    return path


class RunTest(unittest.TestCase):
    """Runs programs with a runtime directory of the test's own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runtime = pathlib.Path(folder.name)

    def run_command(self, *command, **settings):
        return subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False,
                              env=clean_environment(XDG_RUNTIME_DIR=str(self.runtime), **settings))

    def rh_run(self, *arguments, **settings):
        return self.run_command(RH_RUN, *arguments, **settings)

    def assert_good(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ''), done.args)
        return done.stdout

    def assert_one_line(self, done, status, pattern):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
