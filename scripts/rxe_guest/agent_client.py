# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs a command in the guest through its agent (root/agent): two TCP connections a command."""

import dataclasses
import os
import re
import secrets
import selectors
import shlex
import socket
import time

from .errors import GuestError, Timeout

_CHUNK = 1 << 16
# After a command's status, how long its output may stay silent while some process that it left
# behind still holds it open. Output that is on its way may take long too, when the host is busy.
_DRAIN_S = 10.0


@dataclasses.dataclass
class Result:
    """What a command left: exit status (128 + n when signal n killed it) and what it wrote."""

    status: int
    stdout: bytes
    stderr: bytes


def shell_command(command):
    """One argument is a shell's command line, several are quoted to stay as they are."""
    if isinstance(command, str):
        return command
    return command[0] if len(command) == 1 else shlex.join(command)


def escaped(command):
    """A word of which printf's %b makes the command again."""
    return re.sub(r"[\s\\]", lambda found: f"\\0{ord(found[0]):03o}", command, flags=re.ASCII)


def execute(port, token, command, *, stdin=None, stdout=None, stderr=None, timeout_s=600.0):
    """Runs `command` (a string for sh -c, or a list) in the guest whose agent is at 127.0.0.1:port.

    stdin: bytes or a file with fileno(), or None for end of file at once.  stdout, stderr: functions
    that take each chunk; without them it is collected in the result.  When the caller leaves early,
    by Timeout or any other exception, the guest kills the command and its whole process group.
    """
    call = _Call(port, token, time.monotonic() + timeout_s)
    try:
        return call.run(shell_command(command), stdin, stdout, stderr)
    except TimeoutError:
        raise Timeout("the guest's agent did not answer in time") from None
    except ConnectionError as error:
        raise GuestError(f"lost the connection to the guest's agent: {error}") from None
    finally:
        call.close()


class _Call:
    def __init__(self, port, token, deadline):
        self._address = ("127.0.0.1", port)
        self._token = token
        self._deadline = deadline
        self._id = secrets.token_hex(16)
        self._selector = selectors.DefaultSelector()
        self._control = self._data = None

    def run(self, command, stdin, stdout, stderr):
        self._control = self._connect(f"control {self._id}")
        if self._receive_line(self._control) != b"ok\n":
            raise GuestError("the guest's agent refused the command")
        if stdin is None:
            # QEMU's network ends a connection that is half closed and silent for ten minutes.
            command = f"exec </dev/null\n{command}"
        self._data = self._connect(f"run {self._id} {escaped(command)}")
        collected_out, collected_err = bytearray(), bytearray()
        stdout = stdout or collected_out.extend
        status = self._transfer(stdin, stdout, stderr or collected_err.extend)
        self._drain(stdout)
        return Result(status, bytes(collected_out), bytes(collected_err))

    def close(self):
        self._selector.close()
        for connection in (self._data, self._control):
            if connection is not None:
                connection.close()

    def _left(self):
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Timeout("the command did not end in time")
        return left

    def _connect(self, request):
        connection = socket.create_connection(self._address, timeout=self._left())
        connection.sendall(f"{self._token}\n{request}\n".encode())
        return connection

    def _receive_line(self, connection):
        line = b""
        while not line.endswith(b"\n"):
            connection.settimeout(self._left())
            try:
                byte = connection.recv(1)
            except TimeoutError:
                continue
            if not byte:
                break
            line += byte
        return line

    def _transfer(self, stdin, stdout, stderr):
        """Moves bytes until the status line; returns the status."""
        feed = _Feed(self._data, stdin, self._selector)
        for connection in (self._control, self._data):
            connection.setblocking(False)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._data, selectors.EVENT_READ | feed.wanted())
        held = b""  # the end of standard error, which may be the beginning of the status line
        marker = f"{self._id} ".encode()
        while True:
            for key, events in self._selector.select(self._left()):
                if key.fileobj is self._control:
                    chunk = _receive(self._control)
                    if chunk == b"":
                        raise GuestError("the guest's agent closed the connection (guest gone?)")
                    held += chunk or b""
                    head, found, tail = held.partition(marker)
                    if found and tail.endswith(b"\n"):
                        if head:
                            stderr(head)
                        return int(tail)
                    if not found and len(held) > len(marker):
                        stderr(held[: -len(marker)])
                        held = held[-len(marker):]
                elif key.fileobj is self._data:
                    self._serve_data(events, feed, stdout)
                else:
                    feed.read()
                    self._selector.modify(self._data, selectors.EVENT_READ | feed.wanted())

    def _serve_data(self, events, feed, stdout):
        if events & selectors.EVENT_READ:
            chunk = _receive(self._data)
            if chunk == b"":
                self._selector.unregister(self._data)
                return
            if chunk:
                stdout(chunk)
        if events & selectors.EVENT_WRITE:
            feed.write()
        self._selector.modify(self._data, selectors.EVENT_READ | feed.wanted())

    def _drain(self, stdout):
        self._data.settimeout(_DRAIN_S)
        try:
            while chunk := self._data.recv(_CHUNK):
                stdout(chunk)
        except (TimeoutError, ConnectionError):
            pass


class _Feed:
    """Standard input on its way to the guest: bytes at hand, and perhaps a file they come from."""

    def __init__(self, connection, source, selector):
        self._connection = connection
        self._selector = selector
        self._file = source if hasattr(source, "fileno") else None
        self._pending = b"" if self._file or source is None else bytes(source)
        self._open = source is not None
        self._waits_for_file = False
        self._watch_file()

    def wanted(self):
        """EVENT_WRITE while there is something to send, the end of the input included."""
        return selectors.EVENT_WRITE if self._open and not self._waits_for_file else 0

    def read(self):
        """Takes the next bytes of the file, which is watched again once they are sent."""
        if self._waits_for_file:
            self._selector.unregister(self._file)
            self._waits_for_file = False
        self._pending = os.read(self._file.fileno(), _CHUNK)
        if not self._pending:
            self._file = None

    def write(self):
        """Sends what it can; at the end of the input, says so."""
        if not self._pending and self._file:
            self.read()
        try:
            if self._pending:
                self._pending = self._pending[self._connection.send(self._pending):]
                if not self._pending:
                    self._watch_file()
            elif not self._file:
                self._open = False
                self._connection.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:  # the command ended without reading its input
            self._open = False

    def _watch_file(self):
        if self._file:
            try:
                self._selector.register(self._file, selectors.EVENT_READ)
                self._waits_for_file = True
            except PermissionError:  # a regular file is always readable; epoll refuses it
                pass


def _receive(connection):
    try:
        return connection.recv(_CHUNK)
    except BlockingIOError:
        return None
    except ConnectionError:
        return b""
