#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Looks at the Debian packages on a machine that has never seen the sources.

Usage: check.py DIR           as root: installs the packages in DIR, looks, purges them, and sees
                              that nothing is left. The machine is to be one that may be thrown
                              away; scripts/fresh-debian-test --packages makes one.
       check.py --installed   only looks at what is installed already
"""

import contextlib
import json
import os
import pathlib
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
PACKAGES = ('librockhopper-dev', 'librockhopper0', 'rockhopper')
# What a user of the development package and this file need besides.
TOOLS = ('g++', 'man-db', 'pkgconf', 'tshark')
USER = 'rh-visitor'
LIMIT_S = 120  # a machine that is busy with other things must not fail a check
# Where apt, dpkg and the like keep what they know; and what is not on the disk.
STATE = ('/dev', '/etc/ld.so.cache', '/proc', '/run', '/sys', '/tmp', '/var/cache', '/var/lib/apt',
         '/var/lib/dpkg', '/var/lib/systemd', '/var/log', '/var/tmp')


class Failure(Exception):
    """A check has failed; the message says which and why."""


def expect(truth, message):
    if not truth:
        raise Failure(message)


def say(text):
    print(f'packages: {text}', flush=True)


def run(command, **options):
    """The standard output of a command that has to succeed."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=3600, **options)
    expect(done.returncode == 0, f'{" ".join(map(str, command))}: exit status {done.returncode}\n'
           f'{done.stdout[-3000:]}{done.stderr[-3000:]}')
    return done.stdout


def apt(*arguments):
    run(['apt-get', '-q', '-y', *arguments], env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'})


class Visitor:
    """An ordinary user, who sees what the packages have installed."""

    def __init__(self, account, home):
        self.options = {'cwd': home, 'env': {
            'PATH': '/usr/local/bin:/usr/bin:/bin', 'HOME': str(home), 'LANG': 'C.UTF-8',
            'MANWIDTH': '80', 'USER': account.pw_name}}
        if os.geteuid() == 0:
            self.options |= {'user': account.pw_uid, 'group': account.pw_gid, 'extra_groups': []}
        self.home = home

    def run(self, *command):
        return run(command, **self.options)

    def both(self, *command):
        """Standard output and standard error of a command that has to succeed."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, capture_output=True,
                              check=False, timeout=LIMIT_S, **self.options)
        expect(done.returncode == 0, f'{" ".join(command)}: {done.stderr}')
        return done.stdout, done.stderr

    @contextlib.contextmanager
    def start(self, *command):
        """A process, with its standard error in a file; it ends with the block."""
        with tempfile.TemporaryFile('w+') as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                                       stdout=subprocess.PIPE, stderr=errors, **self.options)

            def messages():
                errors.seek(0)
                return errors.read()

            try:
                yield process, messages
            finally:
                if process.poll() is None:
                    process.kill()
                process.communicate()

    def pair(self, program, server=(), client=()):
        """Two processes that talk; both JSON objects, the server's first."""
        with self.start(program, '-p', '0', '--json', *server) as (process, messages):
            deadline = time.monotonic() + LIMIT_S
            while not (port := re.search(r'listening on TCP port (\d+)', messages())):
                expect(process.poll() is None, f'{program} has ended: {messages()}')
                expect(time.monotonic() < deadline, f'{program} does not listen: {messages()}')
                time.sleep(0.05)
            other = self.run(program, '-p', port[1], '--json', *client, 'localhost')
            own, _ = process.communicate(timeout=LIMIT_S)
            expect(process.returncode == 0, f'{program}, the server: {messages()}')
        return json.loads(own), json.loads(other)


def material(path):
    """A file of the tests: beside this one where only that was copied, else in its own folder."""
    copied = HERE / pathlib.Path(path).name
    return str(copied if copied.exists() else TESTS / path)


def installed_files(package):
    return [pathlib.Path(name) for name in run(['dpkg-query', '-L', package]).splitlines()]


def programs():
    return sorted(path.name for path in installed_files('rockhopper')
                  if str(path.parent) == '/usr/bin')


def check_programs(visitor):
    version = run(['dpkg-query', '-W', '-f', '${Version}', 'rockhopper'])
    for program in programs():
        told = visitor.run(program, '--version').strip()
        expect(told == f'{program} {version}', f'{program} --version: {told!r}, not {version}')
    say(f'{len(programs())} programs of version {version}')


def check_talk(visitor):
    ends = visitor.pair('rh-pingpong', ['-c'], ['-c'])
    expect(all(end['program'] == 'rh-pingpong' for end in ends), f'rh-pingpong: {ends}')
    # Without --memif-socket both ends use the folder that every user has.
    capture = visitor.home / 'perf.pcapng'
    _, client = visitor.pair('rh-perf', [], ['--op', 'all', '-n', '500', '-s', '64,4k',
                                             '--pcap', str(capture)])
    done = {result['op'] for result in client['results'] if result['validated']}
    expect(done == {'send', 'write', 'read', 'cas', 'faa'}, f'rh-perf has verified {done}')
    judged = json.loads(visitor.run('rh-check', '--json', str(capture)))
    packets = judged['files'][0]['judged_packets']
    expect(judged['violation_count'] == 0 and packets > 1000, f'rh-check: {judged}')
    say(f'two processes of an ordinary user talk: rh-pingpong, rh-perf; rh-check: {packets} packets '
        'without a violation')


def check_workflow(visitor):
    done = json.loads(visitor.run('rh-dag', 'run-local', '--json', material('data/workflows/letters.json')))
    expect(done['nodes'] > 1 and re.fullmatch('[0-9a-f]{64}', done['digest']), f'rh-dag: {done}')
    say(f'rh-dag run-local: {done["nodes"]} tasks')


def check_manuals(visitor):
    pages = [*programs(), 'rockhopper']
    for page in pages:
        text, warnings = visitor.both('man', '--warnings', '--encoding=UTF-8', page)
        expect(not warnings.strip(), f'man {page} warns: {warnings}')
        expect(len(text.splitlines()) > 30 and 'NAME' in text and page in text,
               f'man {page} has only:\n{text}')
    text = visitor.run('man', 'rh-perf')
    for title in ('SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'EXIT STATUS', 'EXAMPLES', 'SEE ALSO'):
        expect(f'\n{title}\n' in text, f'man rh-perf has no section {title}')
    say(f'{len(pages)} manual pages without a warning')


def check_completion(visitor):
    def completed(*words):
        script = (f'source /usr/share/bash-completion/completions/{words[0]}\n'
                  f'COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}\n'
                  f'_{words[0].replace("-", "_")} 2>/dev/null; printf "%s\\n" "${{COMPREPLY[@]}}"')
        return visitor.run('bash', '-c', script).split()

    for program in programs():
        expect('--help' in completed(program, '--h') or 'check' in completed(program, 'ch'),
               f'no completion of {program} --h')
    expect(completed('rh-perf', '--mode', 'l') == ['lat'], 'no completion of rh-perf --mode l')
    expect('run-local' in completed('rh-dag', 'run'), 'no completion of rh-dag run')
    expect('--log' in completed('rh-dag', 'run-local', '--l'), 'no completion of rh-dag run-local')
    say('bash completes programs, options and their values')


def check_dissector(visitor):
    plugins, errors = visitor.both('tshark', '-G', 'plugins')
    expect('rockhopper.lua' in plugins, f'tshark has no rockhopper.lua: {plugins}{errors}')
    fields = visitor.run('tshark', '-G', 'fields')
    expect('rockhopper.dc.session' in fields, 'tshark does not know the fields of the dissector')
    say('tshark has the dissector')


def check_development(visitor):
    compiler = ['g++', '-std=c++20', '-Wall', '-Wextra', '-Werror']
    modules = sorted(path.stem for path in installed_files('librockhopper-dev')
                     if path.suffix == '.pc')

    def pkg_config(*arguments):
        flags = shlex.split(visitor.run('pkg-config', *arguments))
        # Our headers are held to the warnings, other libraries' are not.
        return [flag if 'rockhopper' in flag else flag.replace('-I/usr/', '-isystem/usr/')
                for flag in flags]

    program = visitor.home / 'program'
    visitor.run(*compiler, *pkg_config('--cflags', 'rockhopper-node'),
                material('../examples/write.cc'), '-o', str(program),
                *pkg_config('--libs', 'rockhopper-node'))
    expect('librockhopper.so.0' in visitor.run('ldd', str(program)), 'not linked with the library')
    visitor.run(str(program))
    headers = sorted(path for path in installed_files('librockhopper-dev') if path.suffix == '.h')
    expect(len(headers) > 100, f'only {len(headers)} headers')
    file = visitor.home / 'headers.cc'
    file.write_text(''.join(f'#include "{path}"\n' for path in headers) + 'int main() {}\n')
    visitor.run(*compiler, '-Wno-missing-field-initializers', *pkg_config('--cflags', *modules),
                str(file), '-o', str(program), *pkg_config('--libs', *modules))
    say(f'a program is built by pkg-config alone; {len(headers)} headers, '
        f'{", ".join(modules)}')


CHECKS = (check_programs, check_talk, check_workflow, check_manuals, check_completion,
          check_dissector, check_development)


def look(visitor):
    for check in CHECKS:
        check(visitor)


def needed_besides(packages):
    """The packages of others that come along with ours, by what apt would do."""
    plan = run(['apt-get', '-s', 'install', *packages])
    return [name for name in re.findall(r'^Inst (\S+) ', plan, re.MULTILINE)
            if name not in PACKAGES]


def files_on_disk():
    found = set()
    for folder, folders, names in os.walk('/'):
        folders[:] = [name for name in folders
                      if os.path.join(folder, name) not in STATE and
                      not os.path.ismount(os.path.join(folder, name))]
        found.update(os.path.join(folder, name) for name in [*folders, *names])
    return {path for path in found if path not in STATE}


def files_of_packages():
    """What belongs to the packages that are installed now, by its real path."""
    owned = set()
    for listed in pathlib.Path('/var/lib/dpkg/info').glob('*.list'):
        for name in listed.read_text().splitlines():
            folder, file = os.path.split(name)
            owned.add(os.path.join(os.path.realpath(folder), file))
    return owned


def accounts():
    return [pathlib.Path(file).read_text() for file in ('/etc/passwd', '/etc/group')]


def is_of_others(path, owned):
    """Bytecode of a Python program that is installed, and the system's choices of alternatives."""
    folder = os.path.dirname(path)
    if folder.endswith('/__pycache__'):
        source = os.path.basename(path).partition('.')[0] + '.py'
        return os.path.join(os.path.dirname(folder), source) in owned
    if path.endswith('/__pycache__'):
        return folder in owned and 'rockhopper' not in folder
    return path.startswith('/etc/alternatives/') or (
        os.path.islink(path) and os.readlink(path).startswith('/etc/alternatives/'))


def left_over(before):
    owned = files_of_packages()
    return sorted(path for path in files_on_disk() - before - owned
                  if not is_of_others(path, owned))


def visitor_account():
    """The ordinary user, who is made unless an earlier run has made it."""
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        run(['useradd', '--no-create-home', '--shell', '/bin/bash', USER])
        return pwd.getpwnam(USER)


def known_packages():
    """Those of ours that dpkg knows anything of."""
    known = run(['dpkg-query', '-W', '-f', '${Package}\n']).split()
    return [package for package in PACKAGES if package in known]


def whole(folder):
    """Installs, looks, purges, and sees that nothing is left."""
    packages = sorted(folder.glob('*.deb'))
    expect({package.name.split('_')[0] for package in packages} == set(PACKAGES),
           f'{folder} has {[package.name for package in packages]}')
    apt('update')
    if known := known_packages():  # an earlier run has failed
        apt('purge', *known)
    apt('install', '--no-install-recommends', *TOOLS)
    with tempfile.TemporaryDirectory(prefix='rockhopper-visitor-') as home:
        account = visitor_account()
        shutil.chown(home, USER, account.pw_gid)
        # What scripts of other packages leave is not of ours.
        others = needed_besides(packages)
        say(f'{len(others)} packages of others come along')
        apt('install', '--no-install-recommends', *others)
        before, people = files_on_disk(), accounts()
        say('apt-get install')
        apt('install', *packages)
        try:
            look(Visitor(account, pathlib.Path(home)))
        finally:
            # A program without $XDG_RUNTIME_DIR keeps its sockets there, whoever starts it.
            shutil.rmtree(f'/tmp/rockhopper-{account.pw_uid}', ignore_errors=True)
        say('apt-get purge')
        apt('purge', *PACKAGES)
        left = left_over(before)
        expect(not left, 'left behind:\n  ' + '\n  '.join(left[:50]))
        expect(accounts() == people, 'users or groups are others than before')
        expect(not known_packages(), 'dpkg still knows of the packages')
        say('nothing is left')


def main():
    if sys.argv[1:] == ['--installed']:
        with tempfile.TemporaryDirectory(prefix='rockhopper-visitor-') as home:
            account = pwd.getpwuid(os.geteuid() or pwd.getpwnam('nobody').pw_uid)
            if os.geteuid() == 0:
                shutil.chown(home, account.pw_uid, account.pw_gid)
            look(Visitor(account, pathlib.Path(home)))
        return 0
    if len(sys.argv) != 2 or sys.argv[1].startswith('-'):
        print(__doc__, file=sys.stderr)
        return 2
    expect(os.geteuid() == 0, 'needs root')
    whole(pathlib.Path(sys.argv[1]).resolve())
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Failure as failure:
        print(f'packages: FAILED: {failure}', file=sys.stderr)
        sys.exit(1)
