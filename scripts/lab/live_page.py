# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-perf with and without rh-stats --web, at whose live page somebody looks."""

import contextlib
import os
import re
import socket
import threading
import time

from lab.processes import LabError, wait_until

INTERVAL_S = 1


class LivePage:
    """The server, and a client that takes its updates."""

    def __init__(self, lab, programs):
        self.lab, self.programs = lab, programs

    @contextlib.contextmanager
    def watching(self):
        """Gives a function that says how much of a processor the server has used since."""
        server = self.lab.start('rh-stats-web', [self.programs / 'rh-stats', '--web', 0, '--watch', INTERVAL_S])
        try:
            port = wait_until(lambda: listening_port(server), 20, 'rh-stats --web listens')
            with socket.create_connection(('127.0.0.1', port), 20) as stream:
                stream.sendall(b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
                taker = threading.Thread(target=take_all, args=(stream,))
                taker.start()
                began_s, used_s = time.monotonic(), processor_time_s(server.child.pid)
                try:
                    yield lambda: ((processor_time_s(server.child.pid) - used_s) / (time.monotonic() - began_s))
                finally:
                    with contextlib.suppress(OSError):
                        stream.shutdown(socket.SHUT_RDWR)
                    taker.join()
        finally:
            server.end()


def take_all(stream):
    with contextlib.suppress(OSError):
        while stream.recv(65536):
            pass


def listening_port(server):
    if server.has_ended():
        raise LabError(server.last_words())
    found = re.search(r'listening on TCP port (\d+)', server.messages())
    return found and int(found[1])


def processor_time_s(pid):
    """User and system time that a process has had."""
    with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
        fields = file.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
