# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs programs with their output in a log, and ends them when the script is interrupted."""

import concurrent.futures
import contextlib
import os
import pathlib
import selectors
import signal
import subprocess
import threading

from lab import interrupts

ROOT = pathlib.Path(__file__).resolve().parents[2]
BACKGROUND = pathlib.Path(__file__).with_name('background')
INTERRUPTED = 130  # exit status of a script that ^C has ended
TICK_S = 1.0
# How long an interrupted program may take to end its own children and to remove its files.
END_S = 15.0

_lock = threading.Lock()
_running = set()  # of (process, the signal that ends it)
_ended = False


def run(command, log, env=None, on_line=None, on_tick=None, nice=0, end_with=signal.SIGINT):
    """Runs `command` with its output in the file `log`; returns its exit status, which is negative
    when a signal ended it. `on_line` gets each line, `on_tick` is called once a second meanwhile.
    An interrupt ends it by the signal `end_with`."""
    command = [str(word) for word in command]
    if nice:
        command = in_background(command, nice)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open('wb') as out, _start(command, env, end_with) as process:
        for line in _lines(process.stdout, on_tick):
            out.write(line)
            out.flush()
            if on_line:
                on_line(line.decode(errors='replace').rstrip('\n'))
        return process.wait()


def in_background(command, nice):
    """The command that is it with a low priority, in the first process of a session."""
    return [str(BACKGROUND), str(nice), *command]


def end_all():
    """Ends all that runs, whichever thread waits for it; nothing starts any more."""
    global _ended
    with _lock:
        _ended = True
        processes = list(_running)
    _end(processes)


def all_ended():
    return _ended


def interruptible(main):
    """Calls `main()` and returns its exit status: after ^C, SIGTERM or SIGHUP no program is left
    behind, and one line says so."""
    with interrupts.raising(KeyboardInterrupt) as interrupted:
        try:
            return main()
        except BaseException:
            if not interrupted():
                raise
            end_all()
            print('interrupted', flush=True)
            return INTERRUPTED


@contextlib.contextmanager
def thread_pool(size):
    """Threads that run programs. An exception in the block ends all programs, as the pool waits for
    its threads."""
    pool = concurrent.futures.ThreadPoolExecutor(size)
    try:
        yield pool
    except BaseException:
        end_all()
        raise
    finally:
        pool.shutdown()


def _end(processes):
    """Asks all, then waits for each; one that does not end in time is killed with its children."""
    for process, number in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
    for process, _ in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def _start(command, env, end_with):
    """The process, in a session of its own: ^C on the terminal ends it through us alone, so that it
    gets one signal, and the right one."""
    with _lock:
        if _ended:
            raise KeyboardInterrupt
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        entry = (process, end_with)
        _running.add(entry)
    try:
        yield process
    except BaseException:
        _end([entry])
        raise
    finally:
        with _lock:
            _running.discard(entry)
        process.stdout.close()


def _lines(pipe, on_tick):
    """The lines of a pipe until its end, the last one perhaps without its line feed."""
    held = b''
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(TICK_S if on_tick else None):
                on_tick()
                continue
            chunk = os.read(pipe.fileno(), 1 << 16)
            if not chunk:
                break
            *lines, held = (held + chunk).split(b'\n')
            for line in lines:
                yield line + b'\n'
    if held:
        yield held
