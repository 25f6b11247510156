# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-stats --top: all programs in the terminal, the busiest first, kept up to date.

On a terminal it uses the alternate screen and single keys, and whatever ends it, but SIGKILL, leaves the terminal as
it was. Anywhere else it prints a block for each look.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty

from . import kinds, snapshot
from .failures import Failure
from .sampler import Sampler

ENTER, LEAVE = '\033[?1049h\033[?25l', '\033[?25h\033[?1049l'
BOLD, PLAIN = '\033[1m', '\033[0m'
UNITS = ('', 'k', 'M', 'G', 'T', 'P')
# Name, width, and what is in the column; sorted by each of them but the first.
COLUMNS = (('pid', 8), ('program', 16), ('QPs', 7), ('rx bit/s', 9), ('tx bit/s', 9), ('rx pkt/s', 9), ('tx pkt/s', 9),
           ('drop/s', 8), ('again/s', 8), ('marked/s', 9), ('CNP/s', 8))
DROPS_MAX = 12


def human(value):
    if value is None:
        return '-'
    at = 0
    while abs(value) >= 999.5 and at < len(UNITS) - 1:
        value, at = value / 1000, at + 1
    return f'{value:.0f}' if at == 0 and value >= 99.5 or value == 0 else f'{value:.3g}{UNITS[at]}'


def for_terminal(text):
    """What another process has written: nothing of it may move the cursor."""
    return ''.join(c if c.isprintable() else '?' for c in text)


def times(value, factor):
    return None if value is None else value * factor


def row_of(watched):
    summary = snapshot.summary(watched)
    return (watched.program.pid, watched.program.name, summary['queue_pairs'], times(summary['rx_bytes'], 8),
            times(summary['tx_bytes'], 8), summary['rx_packets'], summary['tx_packets'], summary['drops'],
            summary['retransmitted'], summary['marked'], summary['cnps'])


def line_of(cells):
    shown = []
    for (name, width), cell in zip(COLUMNS, cells):
        text = cell if isinstance(cell, str) else str(cell) if name == 'pid' else human(cell)
        shown.append(f'{for_terminal(text)[:width]:<{width}}' if name == 'program' else f'{text:>{width}}')
    return ' '.join(shown)


def drops_of(watched):
    """(rate, value, group, counter) of each reason that has counted."""
    for group, counters in watched.groups.items():
        for counter, value in counters.items():
            if value and kinds.is_drop(group, counter, watched.text(group, counter)):
                yield watched.rate(group, counter) or 0.0, value, group, counter


def lines_of(sampler, sort):
    """All that is shown, not yet cut to any size; the heading of the table is line 2."""
    watched = list(sampler.programs.values())
    rows = sorted(((row_of(one), one) for one in watched),
                  key=lambda pair: (pair[0][sort] is None, -(pair[0][sort] or 0), pair[0][0]))
    heads = [f'[{name}]' if at == sort else name for at, (name, _) in enumerate(COLUMNS)]
    clock = time.strftime('%H:%M:%S', time.localtime(sampler.wall_s))
    yield f'rh-stats {clock}: {len(rows)} programs, every {sampler.interval_s:g} s, by {COLUMNS[sort][0]}'
    yield ''
    yield line_of(heads)
    for row, _ in rows:
        yield line_of(row)
    if not rows:
        yield '  no Rockhopper program of this user runs'
    for failure in sampler.failures.values():
        yield for_terminal(f'  no answer: {failure}')
    dropped = sorted(((*drop, one) for _, one in rows for drop in drops_of(one)), key=lambda drop: (-drop[0], -drop[1]))
    if dropped:
        yield ''
        yield f'{"pid":>8} {"dropped":>9} {"per s":>8}  reason'
    for rate, value, group, counter, one in dropped[:DROPS_MAX]:
        text = one.text(group, counter)
        yield for_terminal(f'{one.program.pid:>8} {human(value):>9} {human(rate):>8}  {group} {counter}: {text}')
    states = {}
    for one in watched:
        for (_, kind, state), count in one.queue_pairs.states.items():
            states[kind, state] = states.get((kind, state), 0) + count
    if states:
        yield ''
        yield 'queue pairs: ' + ', '.join(for_terminal(f'{count} {kind} {state}')
                                          for (kind, state), count in sorted(states.items()))
    if sampler.verbs is not None and sampler.verbs.processes:
        processes = sampler.verbs.processes
        count = sum(len(process.resources['qp']) for process in processes)
        yield ''
        yield f'under rh-run: {len(processes)} processes, {count} queue pairs'


class Terminal:
    """The terminal while it is ours. Everything that it changes is put back by leave(), at any end."""

    def __init__(self):
        self.input = sys.stdin.fileno() if sys.stdin.isatty() else None
        self.before = None
        self.wake_read, self.wake_write = os.pipe()
        for end in (self.wake_read, self.wake_write):
            os.set_blocking(end, False)

    def enter(self):
        if self.input is not None:
            self.before = termios.tcgetattr(self.input)
            tty.setcbreak(self.input)
        self.write(ENTER)

    def leave(self):
        self.write(PLAIN + LEAVE)
        if self.before is not None:
            termios.tcsetattr(self.input, termios.TCSADRAIN, self.before)
            self.before = None

    @staticmethod
    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    def wake(self, *_):
        with contextlib.suppress(OSError):
            os.write(self.wake_write, b'.')

    def suspend(self, *_):
        """Ctrl-Z: the shell gets its terminal, and we get ours when it comes back."""
        self.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)

    def resume(self, *_):
        signal.signal(signal.SIGTSTP, self.suspend)
        if self.before is None:
            self.enter()
        self.wake()

    @contextlib.contextmanager
    def ours(self):
        handlers = {signal.SIGWINCH: self.wake, signal.SIGTSTP: self.suspend, signal.SIGCONT: self.resume}
        old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        # Signals that end the program wake it too, between any two instructions.
        woken_before = signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        self.enter()
        try:
            yield self
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken_before)
            self.leave()

    def key(self, seconds):
        """A key; '' when there was none until then, or the screen is to be drawn anew."""
        files = [self.wake_read] + ([self.input] if self.input is not None else [])
        ready, _, _ = select.select(files, [], [], max(0.0, seconds))
        if self.wake_read in ready:
            with contextlib.suppress(OSError):
                os.read(self.wake_read, 4096)
        if self.input in ready:
            key = os.read(self.input, 64)
            if not key:
                raise Failure('the terminal has gone')
            return key.decode('latin-1')[:1]
        return ''

    def draw(self, lines):
        size = shutil.get_terminal_size()
        lines = [line[:size.columns] for line in lines][:max(1, size.lines - 1)]
        lines = [BOLD + line + PLAIN if at == 2 else line for at, line in enumerate(lines)]
        hint = 'q ends, s sorts by the next column, S by the one before'[:size.columns]
        # Each line is erased behind its end and not before, so that nothing flickers.
        self.write('\033[H' + ''.join(line + '\033[K\r\n' for line in lines) + hint + '\033[K\033[J')


def next_column(sort, key):
    step = 1 if key == 's' else -1
    return 2 + (sort - 2 + step) % (len(COLUMNS) - 2)


def watch_on(terminal, sampler, count, stop):
    sort, done, next_s = 3, 0, time.monotonic()
    while not stop:
        if time.monotonic() >= next_s:
            sampler.look()
            done += 1
            next_s = max(next_s + sampler.interval_s, time.monotonic())
        terminal.draw(list(lines_of(sampler, sort)))
        if done == count:
            return
        key = terminal.key(next_s - time.monotonic())
        if key in ('q', 'Q', '\x04'):
            return
        if key in ('s', 'S'):
            sort = next_column(sort, key)


def print_blocks(sampler, count, stop):
    done, next_s = 0, time.monotonic()
    while not stop:
        sampler.look()
        sys.stdout.write('\n'.join(lines_of(sampler, 3)) + '\n\n')
        sys.stdout.flush()
        done += 1
        if done == count:
            return
        next_s = max(next_s + sampler.interval_s, time.monotonic())
        while not stop and time.monotonic() < next_s:
            time.sleep(max(0.0, min(next_s - time.monotonic(), 0.1)))


def show_top(options, stop):
    sampler = Sampler(options.watch or 1.0, options.pid, options.file_prefix)
    # One that has lost its terminal ends as if it had been asked to.
    signal.signal(signal.SIGHUP, lambda number, _: stop.append(number))
    try:
        if sys.stdout.isatty() and os.environ.get('TERM', 'dumb') != 'dumb':
            with Terminal().ours() as terminal:
                watch_on(terminal, sampler, options.count, stop)
        else:
            print_blocks(sampler, options.count, stop)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f'the terminal cannot be used: {error.strerror}') from error
    finally:
        sampler.close()
