# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Signals that end a script, by an exception in its main thread."""

import contextlib
import os
import signal
import threading
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.05


@contextlib.contextmanager
def raising(exception):
    """Within the block, the first of SIGNALS raises `exception(number)` in the main thread, which
    has to be the caller, whatever it waits for; later ones do nothing, so that they disturb no
    cleaning up. One that is ignored stays ignored, as nohup wants. Gives a function that tells
    whether one came: an exception in the midst of a lock's own code may have become another.

    The interpreter only notes a signal, and a main thread that goes to sleep just then, or another
    thread that got it, leaves it at that. So a thread sends it again until the exception is raised.
    """
    came = False

    def handle(number, _frame):
        nonlocal came
        if not came:
            came = True
            raise exception(number)

    def send_again():
        while number := os.read(read_end, 1)[0]:
            while not came and number in before:
                signal.pthread_kill(threading.main_thread().ident, number)
                time.sleep(AGAIN_S)

    before = {number: signal.getsignal(number) for number in SIGNALS
              if signal.getsignal(number) != signal.SIG_IGN}
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    sender = threading.Thread(target=send_again, daemon=True)
    sender.start()
    wakeup_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        for number in before:
            signal.signal(number, handle)
        yield lambda: came
    finally:
        signal.set_wakeup_fd(wakeup_before)
        os.write(write_end, bytes(1))  # a forked process may keep the pipe open
        sender.join()
        os.close(write_end)
        os.close(read_end)
        for number, handler in before.items():
            signal.signal(number, handler)
