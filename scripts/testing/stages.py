# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The stages of scripts/test: each builds something, runs it, and returns counts."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from testing.results import Counts, count_log, count_plain, failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
GCC = Build('gcc', ('gcc', 'g++'), ('-Dcpp_args=-g1',))
ASAN = Build('asan', ('clang', 'clang++'), (
    '-Db_sanitize=address,undefined', '-Db_lundef=false', '-Dfuzzing=true', '-Doptimization=1',
    '-Dcpp_args=-g1'))
TSAN = Build('tsan', ('clang', 'clang++'), (
    '-Db_sanitize=thread', '-Db_lundef=false', '-Doptimization=1', '-Dcpp_args=-g1'))
# The tests that start threads of the library.
TSAN_TESTS = ('unit-stack', 'ami-threads', 'ami-threads-delayed')


def say(text):
    print(text, flush=True)


def run(command, log, env=None, quiet=True):
    """Runs `command` with its output in the file `log`; on the terminal too unless `quiet`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open('w', encoding='utf-8', errors='replace') as out:
        process = subprocess.Popen(
            [str(c) for c in command], cwd=ROOT, env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors='replace')
        for line in process.stdout:
            out.write(line)
            out.flush()
            if not quiet and line.strip():
                say('  ' + line.rstrip())
        status = process.wait()
    if status != 0 and quiet:
        tail = log.read_text(encoding='utf-8', errors='replace').splitlines()[-40:]
        say('\n'.join('  | ' + line for line in tail))
        say(f'  exit status {status}; the whole output: {log.relative_to(ROOT)}')
    return status


def log_file(name):
    return BUILD / 'logs' / f'{name}.log'


def configure(build, env):
    """Sets the build folder up, anew if its options are others than last time."""
    stamp = build.folder / 'rockhopper-options'
    wanted = json.dumps([env, build.options])
    if build.folder.exists() and (not stamp.exists() or stamp.read_text() != wanted):
        shutil.rmtree(build.folder)
    if not stamp.exists():
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
           'CCACHE_NOHASHDIR': '1',  # so that another clone's results serve too
           'CCACHE_SLOPPINESS': 'pch_defines,time_macros'}  # as precompiled headers want
    start = time.monotonic()
    if not configure(build, env):
        return False
    targets = needed() if needed else targets
    jobs = str(len(os.sched_getaffinity(0)))
    if run(['ninja', '-j', jobs, '-C', build.folder, *targets], log_file(f'{build.name}-build'),
           env) != 0:
        return False
    say(f'  built {build.folder.relative_to(ROOT)} in {time.monotonic() - start:.0f} s')
    return True


def run_suites(build, suites=(), tests=(), env=None, timeout_factor=1, expected=()):
    """Runs meson tests (all, or those of `suites`, or `tests` by name) and returns
    {suite: Counts}. A suite that was asked for or `expected` and ran nothing is a failure."""
    label = build.name
    if SOAK:
        timeout_factor *= 30
    command = ['meson', 'test', '-C', build.folder, '--no-rebuild', '--print-errorlogs',
               '--logbase', f'{label}-testlog', '-t', str(timeout_factor)]
    for suite in suites:
        command += ['--suite', suite]
    command += tests
    log = build.folder / 'meson-logs' / f'{label}-testlog.json'
    log.unlink(missing_ok=True)
    status = run(command, log_file(f'{label}-test'), env, quiet=False)
    results = count_log(log)
    if status != 0 and not any(c.failed for c in results.values()):
        results.setdefault(label, Counts()).add(failure(f'meson test ended with status {status}'))
    for suite in (*suites, *expected):
        if results.get(suite, Counts()).total == 0:
            results.setdefault(suite, Counts()).add(failure(f'suite {suite} ran no test'))
    return results


def stage_main():
    """Every suite, built with gcc."""
    if not compile_tree(GCC):
        return {'build': failure('build with gcc')}
    return run_suites(GCC, expected=('unit', 'wire', 'sim', 'judge', 'conformance', 'fuzz', 'programs',
                                     'interop', 'live', 'layers', 'scripts', 'wireshark'))


def stage_format():
    """clang-format finds nothing to change."""
    status = run([sys.executable, ROOT / 'scripts/lint', '--format-only'], log_file('format'))
    return {'format': Counts(passed=1) if status == 0 else failure('format (scripts/lint --fix)')}


def stage_install():
    """A program outside the tree builds against an installed prefix, with pkg-config alone."""
    if not compile_tree(GCC):
        return {'install': failure('build with gcc')}
    status = run([sys.executable, ROOT / 'tests/install/check.py', GCC.folder],
                 log_file('install'))
    return {'install': Counts(passed=1) if status == 0 else failure('install')}


def sanitizer_env(**seeds):
    """Fewer seeds than the plain build runs, unless the caller chose a number."""
    env = {'UBSAN_OPTIONS': 'print_stacktrace=1',
           'TSAN_OPTIONS': f'suppressions={ROOT}/tests/thread.supp',
           'LSAN_OPTIONS': f'suppressions={ROOT}/tests/leak.supp:print_suppressions=0'}
    if not SOAK and 'ROCKHOPPER_SEEDS' not in os.environ:
        env.update({key: str(value) for key, value in seeds.items()})
    return env


def stage_asan():
    """Unit, wire, simulator and conformance suites under AddressSanitizer and UBSan, built with clang."""
    suites = ('unit', 'wire', 'sim', 'conformance', 'fuzz')
    if not compile_tree(ASAN, needed=lambda: test_programs(ASAN, suites=suites)):
        return {'asan': failure('build with clang, ASan and UBSan')}
    return run_suites(ASAN, suites, timeout_factor=6, env=sanitizer_env(ROCKHOPPER_SEEDS='20%'))


def stage_tsan():
    """The tests of the library's threads (worker, telemetry) under ThreadSanitizer."""
    if not compile_tree(TSAN, needed=lambda: test_programs(TSAN, tests=TSAN_TESTS)):
        return {'tsan': failure('build with clang and TSan')}
    return run_suites(TSAN, tests=TSAN_TESTS, timeout_factor=10, expected=('unit',),
                      env=sanitizer_env(ROCKHOPPER_SEEDS=50))


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
    log = log_file(fuzzer.name)
    status = run([fuzzer, f'-seed={seed}', f'-max_total_time={seconds}', '-timeout=10',
                  '-rss_limit_mb=4096', f'-artifact_prefix={found}/', grown, corpus], log)
    if status != 0:
        return failure(f'{fuzzer.name} -seed={seed}: the input is in {found.relative_to(ROOT)}')
    say(f'  {fuzzer.name}: ' + log.read_text(errors='replace').strip().splitlines()[-1])
    return Counts(passed=1)


def stage_fuzz():
    """Each fuzzer for a short time from a new seed, starting at the captures of real traffic."""
    if not compile_tree(ASAN, needed=lambda: fuzz_programs(ASAN)):
        return {'fuzz': failure('build of the fuzzers')}
    seconds = os.environ.get('ROCKHOPPER_FUZZ_SECONDS', '600' if SOAK else '10')
    corpus = BUILD / 'fuzz/captures'
    if run([ASAN.folder / 'tests/fuzz/fuzz-corpus', corpus], log_file('fuzz-corpus')) != 0:
        return {'fuzz': failure('fuzz-corpus')}

    def run_from_captures(fuzzer):
        seeds = corpus / fuzzer.name.removeprefix('fuzz-')
        seeds.mkdir(exist_ok=True)
        return run_fuzzer(fuzzer, seeds, seconds)

    counts = Counts()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(run_from_captures, fuzzers()):
            counts.add(result)
    if counts.total == 0:
        counts.add(failure('no fuzzer was built'))
    return {'fuzz': counts}


def share_of_this_commit(parts):
    """Another part for each commit, the same one for each run of it."""
    done = subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=ROOT, capture_output=True, text=True)
    return f'{int(done.stdout or "0", 16) % parts}/{parts}'


def stage_mutations():
    """A build that leaves one protection out must fail the test that proves the protection. A
    tenth of them, another one for each commit, unless ROCKHOPPER_MUTATIONS is `all`."""
    log = log_file('mutations')
    if not compile_tree(GCC):
        return {'mutations': failure('build with gcc')}
    command = [sys.executable, ROOT / 'tests/mutations/run.py', '--build', GCC.folder]
    if SOAK:
        command.append('--all')
    elif os.environ.get('ROCKHOPPER_MUTATIONS') != 'all':
        command += ['--share', share_of_this_commit(10)]
    status = run(command, log, quiet=False)
    counts = count_plain(log.read_text(encoding='utf-8')) or Counts()
    if status != 0 and counts.failed == 0:
        counts.add(failure(f'mutations ended with status {status}'))
    return {'mutations': counts}


def stage_bench():
    """One short round of scripts/bench: that every measurement works, not what it finds."""
    folder = BUILD / 'bench-quick'
    shutil.rmtree(folder, ignore_errors=True)
    status = run([ROOT / 'scripts/bench', '--quick', '--no-setup', '--folder', folder],
                 log_file('bench-quick'))
    if status != 0 or not json.loads((folder / 'bench.json').read_text())['lines']:
        return {'bench': failure('scripts/bench --quick')}
    return {'bench': Counts(passed=1)}


# In the order of a run: quick answers first.
STAGES = {
    'format': stage_format,
    'main': stage_main,
    'install': stage_install,
    'bench': stage_bench,
    'asan': stage_asan,
    'fuzz': stage_fuzz,
    'tsan': stage_tsan,
    'mutations': stage_mutations,
}
