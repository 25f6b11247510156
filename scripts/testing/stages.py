# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The stages of scripts/test: each builds something, runs it, and returns counts.

What looks at the clock runs by itself, in the foreground. It leaves much of the machine idle: guests
answer slowly, and protocols wait for timers. All else runs meanwhile, in the background, with so low
a priority that it gets little more than what is left.
"""

import contextlib
import contextvars
import dataclasses
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time

from testing import compiler_warnings, processes
from testing.processes import ROOT
from testing.progress import NINJA_STATUS, Progress, say
from testing.results import (REPEATED, Counts, count_log, count_plain, excerpt, failure,
                             last_line)

BUILD = ROOT / 'build'
SOAK = os.environ.get('ROCKHOPPER_SOAK', '0') not in ('', '0')


@dataclasses.dataclass(frozen=True)
class Build:
    """One meson build folder below build/."""
    name: str
    compiler: tuple  # of the C and the C++ compiler
    options: tuple = ()

    @property
    def folder(self):
        return BUILD / self.name


# Line tables are all that a backtrace needs; full debug information costs a quarter of the time.
# All trees compile sources together, which takes half the time where all have to be compiled.
GCC = Build('gcc', ('gcc', 'g++'), ('-Dcombine=true', '-Dcpp_args=-g1'))
# The programs alone.
PROGRAMS = Build('programs', ('gcc', 'g++'), (
    '-Dcombine=true', '-Dbenchmarks=false', '-Dmanuals=false', '-Dcpp_args=-g0'))
ASAN = Build('asan', ('clang', 'clang++'), (
    '-Dcombine=true', '-Db_sanitize=address,undefined', '-Db_lundef=false', '-Dfuzzing=true',
    '-Doptimization=1', '-Dcpp_args=-g1'))
TSAN = Build('tsan', ('clang', 'clang++'), (
    '-Dcombine=true', '-Db_sanitize=thread', '-Db_lundef=false', '-Doptimization=1',
    '-Dcpp_args=-g1'))
# The engine behind libibverbs, as its threads share the work in each of the ways.
VERBS_ENGINE_TESTS = ('verbs-engine-adaptive', 'verbs-engine-thread', 'verbs-engine-inline')
# The same engine behind stock programs.
VERBS_TESTS = (*VERBS_ENGINE_TESTS, 'verbs-pingpong', 'verbs-pyverbs', 'verbs-uplink')
# The tests that start threads of the library.
TSAN_TESTS = ('unit-stack', 'ami-threads', 'ami-threads-delayed', *VERBS_TESTS)


# Simulated runs take megabytes and give them back, thousands of times. Each time glibc would give them
# back to the kernel, and the next run would fault for each page.
KEEP_MEMORY = {'MALLOC_MMAP_THRESHOLD_': str(32 << 20), 'MALLOC_TRIM_THRESHOLD_': str(1 << 30),
               'MALLOC_TOP_PAD_': str(16 << 20)}

# Those of these suites, wherever their files are, that look at the clock: see tests/meson.build.
REAL_TIME = 'real-time'
# In the background: of each processor a tenth, at least, and more time for each test.
NICE = 10
BACKGROUND_PATIENCE = 5

_in_background = contextvars.ContextVar('in_background', default=False)


def in_background(function):
    """Calls it with all that it runs in the background; returns its result."""
    _in_background.set(True)
    return function()


def run(command, log, env=None, quiet=True, **more):
    """Runs `command` with its output in the file `log`; on the terminal too unless `quiet`: then
    only what tells why it failed, and with None nothing. See processes.run() for the rest."""
    if quiet is False:
        more['on_line'] = lambda line: say('  ' + line.rstrip()) if line.strip() else None
    status = processes.run(command, log, env, nice=NICE if _in_background.get() else 0, **more)
    if status != 0 and quiet:
        complain(status, log)
    return status


def complain(status, log):
    say('\n'.join('  | ' + line for line in excerpt(read_log(log)).splitlines()))
    say(f'  exit status {status}; the whole output: {log.relative_to(ROOT)}')


def log_file(name):
    return BUILD / 'logs' / f'{name}.log'


def read_log(log):
    return log.read_text(encoding='utf-8', errors='replace') if log.exists() else ''


def one_test(name, command, failed=None, env=None):
    """The counts of a test that is one program: it passed if its exit status is 0."""
    log, start = log_file(name), time.monotonic()
    status = run(command, log, env)
    output = read_log(log)
    counts = Counts(passed=1) if status == 0 else failure(failed or name, output)
    counts.repeats = [f'{name}: {what}' for what in REPEATED.findall(output)]
    counts.times.append((time.monotonic() - start, name))
    return counts


def configure(build, env):
    """Sets the build folder up, anew if its options are others than last time, or if ninja was
    interrupted while it renewed what it reads itself: it removes that then."""
    stamp = build.folder / 'rockhopper-options'
    wanted = json.dumps([env, build.options])
    whole = stamp.exists() and (build.folder / 'build.ninja').exists()
    if build.folder.exists() and not (whole and stamp.read_text() == wanted):
        shutil.rmtree(build.folder)
    if not stamp.exists():
        say(f'  configuring {build.folder.relative_to(ROOT)}')
        command = ['meson', 'setup', build.folder, ROOT, *build.options]
        if run(command, log_file(f'{build.name}-setup'), env) != 0:
            return False
        stamp.write_text(wanted)
    return True


def introspect(build, what):
    return json.loads(subprocess.run(
        ['meson', 'introspect', f'--{what}', build.folder], check=True, capture_output=True,
        text=True).stdout)


def test_programs(build, tests=(), suites=()):
    """The ninja targets that these tests, and all of these suites, need."""
    files = target_files(build)
    found = set()
    for test in introspect(build, 'tests'):
        if test['name'] in tests or any(s.split(':')[-1] in suites for s in test['suite']):
            found.update(*(files[target] for target in test['depends']))
    return sorted(found)


def fuzz_programs(build):
    """The ninja targets of the fuzzers and of what makes their corpus."""
    return sorted(file for files in target_files(build).values() for file in files
                  if file.startswith('tests/fuzz/fuzz-'))


def real_time_programs(build):
    """The ninja targets that tests which look at the clock need, and all programs of the product."""
    programs = {file for files in target_files(build).values() for file in files
                if file.startswith('apps/rh-') and '.' not in file}
    return sorted(programs.union(test_programs(build, suites=[REAL_TIME])))


def target_files(build):
    """{id of a target: its files, as ninja names them}"""
    return {target['id']: [pathlib.Path(name).relative_to(build.folder).as_posix()
                           for name in target['filename']]
            for target in introspect(build, 'targets')}


def compile_tree(build, targets=(), needed=None):
    """Configures and builds: everything, or `targets`, or what `needed()` names once the folder is
    configured. True on success."""
    ccache = ['ccache'] if shutil.which('ccache') else []
    env = {'CC': ' '.join([*ccache, build.compiler[0]]),
           'CXX': ' '.join([*ccache, build.compiler[1]]),
           'CCACHE_SLOPPINESS': 'pch_defines,time_macros',  # as precompiled headers want
           'CCACHE_DEPEND': '1'}  # it does not preprocess what it has not seen yet
    if shutil.which('mold'):
        # There are hundreds of links, and each takes the usual linker seconds.
        env |= {'CC_LD': 'mold', 'CXX_LD': 'mold'}
    if 'clang' not in build.compiler:
        # So that another clone's results serve too. Clang's precompiled headers name the folder that
        # they were made in.
        env['CCACHE_NOHASHDIR'] = '1'
    log = log_file(f'{build.name}-build')
    log.unlink(missing_ok=True)  # build_failure() takes the newest
    start = time.monotonic()
    if not configure(build, env):
        return False
    if needed:
        # What tests need is asked of a configuration that knows today's tests.
        if run(['ninja', '-C', build.folder, 'build.ninja'], log, env, quiet=None) != 0:
            complain(1, log)
            return False
        targets = needed()
    jobs = str(len(os.sched_getaffinity(0)))
    name = build.folder.relative_to(ROOT)
    with contextlib.closing(Progress(f'building {name}')) as progress:
        status = run(['ninja', '-j', jobs, '-C', build.folder, *targets], log,
                     {**env, 'NINJA_STATUS': NINJA_STATUS}, quiet=None,
                     on_line=progress.read, on_tick=progress.tick)
    compiler_warnings.remember(build.folder, read_log(log))
    if status != 0:
        complain(status, log)
        return False
    say(f'  built {name} in {time.monotonic() - start:.0f} s')
    return True


_warned = {}  # {name of a build: the lines with warnings that compile_cleanly() met}
_begun = set()  # names of the builds whose outputs that had warned were removed


def compile_cleanly(build, targets=(), needed=None):
    """compile_tree for the project's own runs: what has warned before them is made again, and what
    still does is a failure, see warnings()."""
    # Once: programs that a first call made may be running when the next one makes others.
    if build.name not in _begun:
        compiler_warnings.forget(build.folder)
        _begun.add(build.name)
    compiled = compile_tree(build, targets, needed)
    found = compiler_warnings.remembered(build.folder)
    lines = sorted({line for lines in found.values() for line in lines})
    for line in lines:
        say(f'  {line}')
    if lines:
        say(f'  warnings are errors here; all of it: {log_file(build.name + "-build")}')
        _warned[build.name] = lines
    return compiled


def warnings():
    """{build: Counts} of those that warned. Their tests are run nevertheless: a compiler that nobody
    here has seen is no reason to learn nothing else."""
    return {name: failure(f'warnings of the compiler in build/{name}', '\n'.join(lines))
            for name, lines in _warned.items()}


def build_failure(build, name):
    """What compile_tree() could not build, with the end of what it printed."""
    logs = [log_file(f'{build.name}-{step}') for step in ('build', 'setup')]
    return failure(name, next(filter(None, map(read_log, logs)), ''))


def run_suites(build, suites=(), tests=(), without=(), env=None, timeout_factor=1, expected=(),
               name=None, jobs=None):
    """Runs meson tests (all, or those of `suites` but not of `without`, or `tests` by name) and
    returns {suite: Counts}. A suite that was asked for or `expected` and ran nothing is a failure."""
    label = name or build.name
    if SOAK:
        timeout_factor *= 30
    base = f'{label}-testlog'
    command = ['meson', 'test', '-C', build.folder, '--no-rebuild', '--print-errorlogs',
               '--logbase', base]
    if _in_background.get():
        timeout_factor += BACKGROUND_PATIENCE
        # Meson gives each test a session of its own, and the log the wrapper's name.
        command += ['--wrapper', shlex.join(processes.in_background([], NICE))]
        base += f'-{processes.BACKGROUND.name}'
    command += ['-t', str(timeout_factor)]
    if jobs:
        command += ['--num-processes', str(jobs)]
    for suite in suites:
        command += ['--suite', suite]
    for suite in without:
        command += ['--no-suite', suite]
    command += tests
    log = build.folder / 'meson-logs' / f'{base}.json'
    log.unlink(missing_ok=True)
    # The first SIGINT only makes meson end the longest of its tests.
    status = run(command, log_file(f'{label}-test'), env, quiet=False, end_with=signal.SIGTERM)
    results = count_log(log)
    if status != 0 and not any(c.failed for c in results.values()):
        results.setdefault(label, Counts()).add(failure(f'meson test ended with status {status}'))
    for suite in (*expected, *(suite for suite in suites if suite != REAL_TIME)):
        if results.get(suite, Counts()).total == 0:
            results.setdefault(suite, Counts()).add(failure(f'suite {suite} ran no test'))
    return results


def build_gcc(needed=None):
    """Builds all with gcc, for every stage that needs it; what failed, or nothing."""
    compiled = compile_cleanly(GCC, needed=needed)
    return {} if compiled else {'build': build_failure(GCC, 'build with gcc')}


def build_gcc_programs():
    """Of that tree what the real-time part of a stage that begins early needs."""
    return build_gcc(lambda: real_time_programs(GCC))


def main_real_time():
    processors = len(os.sched_getaffinity(0))
    # With more guests at once they stand still for longer than stock programs wait for an address.
    results = run_suites(GCC, ['interop'], name='gcc-interop', jobs=processors)
    # These wait for timers, and for each other, most of the time.
    results.update(run_suites(GCC, [REAL_TIME], without=['interop'], name='gcc-real-time',
                              expected=('unit', 'programs', 'live'), jobs=2 * processors))
    return results


def main_others():
    return run_suites(GCC, without=[REAL_TIME], env=KEEP_MEMORY, expected=(
        'unit', 'wire', 'sim', 'judge', 'conformance', 'fuzz', 'layers', 'scripts', 'wireshark'))


def quick():
    # Everything that is needed is in the tree of gcc, and no more of it is built.
    if not compile_cleanly(GCC, needed=lambda: test_programs(GCC, suites=QUICK_SUITES)):
        return {'build': build_failure(GCC, 'build with gcc')}
    env = {} if 'ROCKHOPPER_SEEDS' in os.environ else {'ROCKHOPPER_SEEDS': '10%'}
    return run_suites(GCC, QUICK_SUITES, env={**env, **KEEP_MEMORY}, name='gcc-quick')


def format_check():
    return {'format': one_test('format', [sys.executable, ROOT / 'scripts/lint', '--format-only'],
                               'format (scripts/lint --fix)')}


def install():
    return {'install': one_test('install', [sys.executable, ROOT / 'tests/install/check.py',
                                            GCC.folder])}


def sanitizer_env(compiler, runtime, **seeds):
    """`runtime` of `compiler` is preloaded into programs that are built without. Fewer seeds than the
    plain build runs, unless the caller chose a number."""
    found = subprocess.run([compiler, f'-print-file-name={runtime}'], check=True, text=True,
                           capture_output=True).stdout.strip()
    if not os.path.exists(found):
        say(f'  {compiler} has no {runtime}: stock programs will not find it')
    env = {'ROCKHOPPER_SANITIZER': os.path.realpath(found),
           'UBSAN_OPTIONS': 'print_stacktrace=1',
           # A child of fork() may open a device, which starts a thread.
           'TSAN_OPTIONS': f'suppressions={ROOT}/tests/thread.supp:die_after_fork=0',
           'LSAN_OPTIONS': f'suppressions={ROOT}/tests/leak.supp:print_suppressions=0'}
    if not SOAK and 'ROCKHOPPER_SEEDS' not in os.environ:
        env.update({key: str(value) for key, value in seeds.items()})
    return env


def asan():
    suites = ('unit', 'wire', 'sim', 'conformance', 'fuzz')
    if not compile_cleanly(ASAN, needed=lambda: test_programs(ASAN, VERBS_TESTS, suites)):
        return {'asan': build_failure(ASAN, 'build with clang, ASan and UBSan')}
    env = sanitizer_env('clang', f'libclang_rt.asan-{platform.machine()}.so', ROCKHOPPER_SEEDS='20%')
    results = run_suites(ASAN, suites, timeout_factor=6, env=env)
    results.update(run_suites(ASAN, tests=VERBS_TESTS, timeout_factor=6, env=env,
                              expected=('verbs',), name='asan-verbs'))
    return results


def tsan():
    # rh-run only sets an environment, so it needs no sanitizer, and building it with one takes as long
    # as all else in this stage.
    rh_run = 'apps/rh-run'
    if not compile_cleanly(GCC, [rh_run]):
        return {'tsan': build_failure(GCC, 'build with gcc')}
    if not compile_cleanly(TSAN, needed=lambda: [
            program for program in test_programs(TSAN, tests=TSAN_TESTS) if program != rh_run]):
        return {'tsan': build_failure(TSAN, 'build with clang and TSan')}
    shutil.copy2(GCC.folder / rh_run, TSAN.folder / rh_run)
    # Clang's runtime cannot be preloaded; that of GCC has the same interface.
    return run_suites(TSAN, tests=TSAN_TESTS, timeout_factor=10, expected=('unit', 'verbs'),
                      env=sanitizer_env('gcc', 'libtsan.so', ROCKHOPPER_SEEDS=50))


def fuzzers():
    """The executables fuzz-NAME that libFuzzer drives."""
    folder = ASAN.folder / 'tests/fuzz'
    return sorted(path for path in folder.glob('fuzz-*')
                  if path.is_file() and path.name not in ('fuzz-corpus', 'fuzz-regression'))


def run_fuzzer(fuzzer, corpus, seconds):
    seed = int.from_bytes(os.urandom(4), 'big') or 1
    found = BUILD / 'fuzz' / fuzzer.name
    grown = found / 'corpus'
    grown.mkdir(parents=True, exist_ok=True)
    say(f'  {fuzzer.name} -seed={seed} for {seconds} s')
    counts = one_test(fuzzer.name, [
        fuzzer, f'-seed={seed}', f'-max_total_time={seconds}', '-timeout=10', '-rss_limit_mb=4096',
        f'-artifact_prefix={found}/', grown, corpus],
        f'{fuzzer.name} -seed={seed}: the input is in {found.relative_to(ROOT)}')
    if not counts.failed:
        say(f'  {fuzzer.name}: ' + last_line(read_log(log_file(fuzzer.name))))
    return counts


def fuzz():
    if not compile_cleanly(ASAN, needed=lambda: fuzz_programs(ASAN)):
        return {'fuzz': build_failure(ASAN, 'build of the fuzzers')}
    seconds = os.environ.get('ROCKHOPPER_FUZZ_SECONDS', '600' if SOAK else '10')
    corpus = BUILD / 'fuzz/captures'
    made = one_test('fuzz-corpus', [ASAN.folder / 'tests/fuzz/fuzz-corpus', corpus])
    if made.failed:
        return {'fuzz': made}

    background = contextvars.copy_context()

    def run_from_captures(fuzzer):
        seeds = corpus / fuzzer.name.removeprefix('fuzz-')
        seeds.mkdir(exist_ok=True)
        return run_fuzzer(fuzzer, seeds, seconds)

    counts = Counts()
    with processes.thread_pool(os.cpu_count()) as pool:
        for result in pool.map(lambda one: background.copy().run(run_from_captures, one),
                               fuzzers()):
            counts.add(result)
    if counts.total == 0:
        counts.add(failure('no fuzzer was built'))
    return {'fuzz': counts}


def share_of_this_commit(parts):
    """Another part for each commit, the same one for each run of it."""
    done = subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=ROOT, capture_output=True, text=True)
    return f'{int(done.stdout or "0", 16) % parts}/{parts}'


def counted(name, command):
    """Counts of a program that closes with how many cases passed and failed."""
    log = log_file(name)
    status = run(command, log, quiet=False)
    counts = count_plain(read_log(log)) or Counts()
    if status != 0 and counts.failed == 0:
        counts.add(failure(f'{name} ended with status {status}'))
    if counts.failed and not counts.excerpts:
        counts.excerpts.append((name, excerpt(read_log(log))))
    return {name: counts}


def mutations():
    command = [sys.executable, ROOT / 'tests/mutations/run.py', '--build', GCC.folder]
    if SOAK:
        command.append('--all')
    elif os.environ.get('ROCKHOPPER_MUTATIONS') != 'all':
        command += ['--share', share_of_this_commit(10)]
    return counted('mutations', command)


def alone():
    command = [sys.executable, ROOT / 'tests/each_alone.py', '--build', GCC.folder]
    if not SOAK:
        command += ['--share', share_of_this_commit(20)]
    return counted('alone', command)


def bench():
    folder = BUILD / 'bench-quick'
    shutil.rmtree(folder, ignore_errors=True)
    counts = one_test('bench-quick', [ROOT / 'scripts/bench', '--quick', '--no-setup', '--build',
                                      GCC.folder, '--folder', folder], 'scripts/bench --quick')
    if not counts.failed and not json.loads((folder / 'bench.json').read_text())['lines']:
        return {'bench': failure('scripts/bench --quick measured nothing')}
    return {'bench': counts}


@dataclasses.dataclass(frozen=True)
class Stage:
    """What it says in the list; its part that looks at the clock, and the other one: functions that
    return {suite: Counts}. Those that need the tree of gcc find it built; the part that looks at the
    clock finds no more than build_gcc_programs() makes if the stage begins early."""
    says: str
    real_time: object = None
    others: object = None
    needs_gcc: bool = False
    begins_early: bool = False


# In the order of a run, in the foreground and in the background: quick answers first.
STAGES = {
    'format': Stage('clang-format finds nothing to change.', None, format_check),
    'main': Stage('Every suite, built with gcc.', main_real_time, main_others, True,
                  begins_early=True),
    'install': Stage('A program outside the tree builds against an installed prefix, with pkg-config '
                     'alone.', None, install, True),
    'asan': Stage('Unit, wire, simulator and conformance suites and the verbs engine, also behind stock '
                  'programs, under AddressSanitizer and UBSan, built with clang.', None, asan),
    'fuzz': Stage('Each fuzzer for a short time from a new seed, starting at the captures of real '
                  'traffic.', None, fuzz),
    'tsan': Stage("The tests of the library's threads (worker, telemetry, verbs) and stock programs "
                  "of verbs under ThreadSanitizer.", None, tsan),
    'mutations': Stage('A build that leaves one protection out must fail the test that proves the '
                       'protection. A tenth of them, another one for each commit, unless '
                       'ROCKHOPPER_MUTATIONS is `all`.', None, mutations, True),
    'alone': Stage('Sources that are compiled together compile each by itself too. A twentieth of them, '
                   'another one for each commit.', None, alone, True),
    # Its programs poll, and have time limits: in the background they would starve.
    'bench': Stage('One short round of scripts/bench: that every measurement works, not what it '
                   'finds.', bench, None, True),
}
# What scripts/test --quick runs: the loop of work.
QUICK_SUITES = ('unit', 'wire', 'sim', 'conformance', 'layers')
QUICK_STAGES = {
    'format': STAGES['format'],
    'quick': Stage(f'{", ".join(QUICK_SUITES)}: a tenth of the seeds, built with gcc.', quick),
}
