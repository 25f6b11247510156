# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A running guest: its state directory, its QEMU, and the supervisor that always cleans up.

State directory (one a guest, under $XDG_RUNTIME_DIR/rxe-guest, or /run/user/UID or /tmp/rockhopper-UID):
  lock         held by the supervisor while the guest lives; holds the supervisor's process id
  state.json   what exec and the other commands need
  qmp, console, ready   unix sockets;   console.log, qemu.log   text
"""

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

from . import frozen
from . import links as links_module
from .errors import GuestError, Timeout, UsageError
from .image import find_program

OOB_MAC = "52:54:00:0b:00:01"
AGENT_PORT = 2222
_PR_SET_PDEATHSIG = 1
_FOLDER_CHECK_S = 5.0
_MONITOR_S = 30.0
_MONITOR_LOOK_S = 0.02
# Memory that is a file which others share stays out of the stream.
_WITHOUT_MEMORY = {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}
_UNIX_PATH_MAX = 107


def runtime_directory():
    """Where the state directories are: only this user can enter it. A directory that is not there
    (su, cron, containers) or another user's (sudo -E) is no place for them, whatever
    $XDG_RUNTIME_DIR says."""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"):
        if base and os.path.isdir(base) and os.stat(base).st_uid == os.getuid():
            root = pathlib.Path(base)
            break
    else:
        root = pathlib.Path(f"/tmp/rockhopper-{os.getuid()}")
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise GuestError(f"{root} is not ours alone: remove it or set XDG_RUNTIME_DIR")
    path = root / "rxe-guest"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def state_directory(name):
    """The directory of a guest (which may not exist)."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", name):
        raise UsageError(f"'{name}': a guest's name is 1 to 32 letters, digits, '_', '.', '-'")
    path = runtime_directory() / name
    if len(str(path / "console")) > _UNIX_PATH_MAX:
        raise UsageError(f"{path} is too long for a unix socket: set XDG_RUNTIME_DIR")
    return path


def supervisor_of(directory):
    """The process id of a living guest's supervisor (0: not written yet); None when it is dead."""
    try:
        with open(directory / "lock", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read() or 0)
    except FileNotFoundError:
        pass
    return None


def load_state(name):
    """The state of a running guest; raises GuestError when it does not run."""
    directory = state_directory(name)
    if supervisor_of(directory) is None:
        raise GuestError(f"guest '{name}' does not run")
    try:
        return json.loads((directory / "state.json").read_text())
    except FileNotFoundError:
        raise GuestError(f"guest '{name}' is still starting") from None


def running():
    """Names of the guests that live; what dead ones left (their supervisor was killed) is removed."""
    names = []
    for directory in sorted(runtime_directory().iterdir()):
        if not (directory / "lock").exists():
            continue
        if supervisor_of(directory) is not None:
            names.append(directory.name)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return names


def stop(name, timeout_s=30.0):
    """Ends a guest and waits until nothing of it is left.  False when it did not run."""
    directory = state_directory(name)
    pid = supervisor_of(directory)
    if pid is None:
        shutil.rmtree(directory, ignore_errors=True)
        return False
    if pid == 0:
        raise GuestError(f"guest '{name}' is still starting")
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], timeout_s)[0]:
            raise Timeout(f"guest '{name}' did not stop in {timeout_s:.0f} s")
    finally:
        os.close(descriptor)
    return True


def qmp(name, command, arguments=None, timeout_s=_MONITOR_S):
    """Runs one command of QEMU's monitor protocol and returns its result."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(state_directory(name) / "qmp"))
            stream = connection.makefile("rw")
            stream.readline()  # the greeting
            for request in ({"execute": "qmp_capabilities"},
                            {"execute": command, "arguments": arguments or {}}):
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                answer = _answer(stream)
        except TimeoutError:
            raise Timeout(f"guest '{name}': QEMU did not answer {command} in time") from None
        except OSError as error:
            raise GuestError(f"guest '{name}': QEMU does not take {command}: {error}") from None
    if "error" in answer:
        raise GuestError(f"guest '{name}': QEMU refused {command}: {answer['error']['desc']}")
    return answer["return"]


def _answer(stream):
    """The next line that is no event."""
    for line in stream:
        if "event" not in (answer := json.loads(line)):
            return answer
    raise ConnectionResetError("it ended")


def monitor(name, command):
    """Runs one command of QEMU's human monitor and returns its text."""
    return qmp(name, "human-monitor-command", {"command-line": command})


def forward(name, guest_port):
    """Forwards a free TCP port of 127.0.0.1 to a port of the guest; returns the host's port."""
    before = _forwards(name, guest_port)
    text = monitor(name, f"hostfwd_add oob tcp:127.0.0.1:0-:{guest_port}")
    added = _forwards(name, guest_port) - before
    if len(added) != 1:
        raise GuestError(f"cannot forward to port {guest_port}: {text.strip() or 'no port found'}")
    return added.pop()


def _forwards(name, guest_port):
    # TCP[HOST_FORWARD]  12       127.0.0.1 40001       10.0.2.15  2222     0     0
    pattern = r"TCP\[HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+(\d+)"
    return {int(host) for host, guest in re.findall(pattern, monitor(name, "info usernet"))
            if int(guest) == guest_port}


class Machine:
    """Starts one guest: `start()` returns when its agent answers.

    The first one of its kind boots. When it waits for its token, which makes it this guest, its state
    goes into the cache, from which all later ones go on. Links are added behind that moment.
    """

    def __init__(self, name, kernel, image, cache, *, links=(), cpus=2, memory_mb=512,
                 owner=None, lifetime_s=3600, cpu_model="max"):
        self.name = name
        self.links = links_module.number(list(links))
        self._kernel = kernel
        self._image = image
        self._cpus = cpus
        self._memory_mb = memory_mb
        self._owner = owner
        self._lifetime_s = lifetime_s
        self._cpu_model = cpu_model
        self._directory = state_directory(name)
        self._token = secrets.token_hex(16)
        self._frozen = frozen.Frozen(cache, self._machine_arguments())
        self._thaws = False
        self._memory = -1
        self._may_be_spoilt = False  # what it has gone on from

    def start(self, timeout_s):
        """Boots, or goes on from where one has booted, and returns the state; on any failure nothing
        is left running."""
        deadline = time.monotonic() + timeout_s
        try:
            return self._start(deadline)
        except GuestError as error:
            if not self._may_be_spoilt:
                raise
            self._frozen.forget()
            if isinstance(error, Timeout):
                raise
            print(f"{error}; booting anew", file=sys.stderr)
        return self._start(deadline)

    def _start(self, deadline):
        running()  # removes what a dead guest of this name left
        try:
            self._directory.mkdir(mode=0o700)
        except FileExistsError:
            raise GuestError(f"guest '{self.name}' runs already: stop it or choose another name") from None
        self._thaws = self._may_be_spoilt = self._frozen.exists()
        with socket.socket(socket.AF_UNIX) as listener, self._memory_file() as self._memory:
            alive, supervisors_end = os.pipe()
            listener.bind(str(self._directory / "ready"))
            listener.listen(1)
            self._fork_supervisor(supervisors_end, [listener.fileno(), alive])
            os.close(supervisors_end)
            try:
                self._handshake(listener, alive, deadline)
                port = self._agent_port()
            except BaseException:
                stop(self.name)
                raise
            finally:
                os.close(alive)
        state = {"name": self.name, "token": self._token, "port": port,
                 "devices": [device for link in self.links for device in link.describe(self.name)]}
        temporary = self._directory / "state.tmp"
        temporary.write_text(json.dumps(state))
        temporary.rename(self._directory / "state.json")
        return state

    @contextlib.contextmanager
    def _memory_file(self):
        """The descriptor of the guest's memory."""
        memory = os.memfd_create("rxe-guest")
        try:
            if self._thaws:
                self._fill(memory)
            os.truncate(memory, self._memory_mb << 20)
            yield memory
        finally:
            os.close(memory)

    def _fill(self, memory):
        try:
            self._frozen.fill(memory)
        except OSError as error:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise GuestError(f"guest '{self.name}': its frozen memory cannot be read: {error}") from None

    def _agent_port(self):
        ports = _forwards(self.name, AGENT_PORT)
        if len(ports) != 1:
            raise GuestError("QEMU does not tell the port of the agent")
        return ports.pop()

    def _handshake(self, listener, alive, deadline):
        """Waits for QEMU's and then the guest's side of the serial port."""
        self._wait_for(listener, alive, deadline)
        with listener.accept()[0] as connection:
            if self._thaws:
                self._thaw(alive, deadline)
            else:
                self._expect(b"booted\n", connection, alive, deadline)
                self._freeze()
            self._add_links(deadline)
            qmp(self.name, "cont")
            connection.sendall(f"{self._token} {time.time():.0f}\n".encode())
            self._expect(b"ready\n", connection, alive, deadline)

    def _add_links(self, deadline):
        before, self._may_be_spoilt = self._may_be_spoilt, False
        for link in self.links:
            for command, arguments in link.qemu_commands(self.name, self._directory.parent):
                try:
                    qmp(self.name, command, arguments, max(1, deadline - time.monotonic()))
                except Timeout:
                    # QEMU waits for the other end of vhost-user.
                    raise Timeout(f"guest '{self.name}': nobody was there in time at {link.target}") from None
        self._may_be_spoilt = before

    def _wait_for(self, source, alive, deadline):
        ready, _, _ = select.select([source, alive], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise Timeout(f"guest '{self.name}' did not boot in time; {self._last_words()}")
        if alive in ready:
            raise GuestError(f"guest '{self.name}': {_last_report(alive)}")

    def _expect(self, wanted, connection, alive, deadline):
        """Reads the guest's next line, which says whether it could do what it had to."""
        line = b""
        while not line.endswith(b"\n"):
            self._wait_for(connection, alive, deadline)
            received = b""
            with contextlib.suppress(ConnectionResetError):
                received = connection.recv(4096)
            if not received:
                raise GuestError(f"guest '{self.name}' ended before it was ready: {_last_report(alive)}")
            line += received
        if line != wanted:
            raise GuestError(f"guest '{self.name}': {line.decode(errors='replace').strip()}")

    def _thaw(self, alive, deadline):
        """Goes on from the frozen machine, which then stands still."""
        qmp(self.name, "migrate-set-capabilities", _WITHOUT_MEMORY)
        qmp(self.name, "migrate-incoming", {"uri": f"exec:{self._frozen.reader()}"})
        while qmp(self.name, "query-status")["status"] == "inmigrate":
            if select.select([alive], [], [], _MONITOR_LOOK_S)[0]:
                raise GuestError(f"guest '{self.name}': {_last_report(alive)}")
            if time.monotonic() > deadline:
                raise Timeout(f"guest '{self.name}' did not go on from where it was frozen in time")

    def _freeze(self):
        """Keeps the machine in the cache, unless there is no way to. It stands still then."""
        if not self._frozen.is_wanted():
            return
        qmp(self.name, "stop")
        try:
            with self._frozen.new(self._memory) as command:
                qmp(self.name, "migrate-set-capabilities", _WITHOUT_MEMORY)
                qmp(self.name, "migrate", {"uri": f"exec:{command}"})
                while (status := qmp(self.name, "query-migrate")["status"]) != "completed":
                    if status in ("failed", "cancelled"):
                        raise GuestError(f"migration has {status}")
                    time.sleep(_MONITOR_LOOK_S)
        except GuestError as error:
            print(f"guest '{self.name}' is not kept for others: {error}", file=sys.stderr)

    def _last_words(self):
        for name in ("qemu.log", "console.log"):
            with contextlib.suppress(OSError):
                lines = (self._directory / name).read_text(errors="replace").strip().splitlines()
                if lines:
                    return f"last line of {name}: {lines[-1]}"
        return "it wrote nothing"

    def _machine_arguments(self):
        """What a frozen guest goes on with only where it is the same."""
        return [
            find_program("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-display", "none",
            # Of this one links can be added to the bus while it runs.
            "-no-reboot", "-M", "pc,usb=off,memory-backend=memory",
            # Software emulation always: the same everywhere, and no rights needed.
            "-accel", "tcg,thread=multi", "-cpu", self._cpu_model,
            "-smp", str(self._cpus),
            "-m", str(self._memory_mb),
            "-kernel", str(self._kernel), "-initrd", str(self._image),
            # Emulated processors count one time, but the kernel is not told so: it would turn to the
            # HPET, each reading of which is a device access.
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable",
            # By this the kernel sees that it goes on a second time, and forgets its random numbers.
            "-device", "vmgenid,guid=auto",
        ]

    def _qemu_command(self):
        directory = self._directory
        return self._machine_arguments() + [
            # Shared, so that a vhost-user process can map it.
            "-object", f"memory-backend-file,id=memory,size={self._memory_mb}M,share=on,"
                       f"mem-path=/proc/self/fd/{self._memory}",
            "-serial", f"file:{directory}/console.log",
            "-qmp", f"unix:{directory}/qmp,server=on,wait=off",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=ready,path={directory}/ready",
            "-device", "virtserialport,chardev=ready,name=ready",
            "-chardev", f"socket,id=console,path={directory}/console,server=on,wait=off",
            "-device", "virtconsole,chardev=console",
            "-netdev", f"user,id=oob,hostfwd=tcp:127.0.0.1:0-:{AGENT_PORT}",
            "-device", f"virtio-net-pci,netdev=oob,mac={OOB_MAC},romfile=",
            *(["-incoming", "defer"] if self._thaws else []),
        ]

    def _fork_supervisor(self, alive, foreign):
        """A process of its own session outlives `start`; it holds the lock and ends with the guest."""
        # It gets its name once it is held: without a holder running(), in a process that starts
        # another guest at this moment, would take the guest for dead and remove its folder.
        temporary = self._directory / "lock.tmp"
        lock = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        temporary.rename(self._directory / "lock")
        owner = os.pidfd_open(self._owner) if self._owner else None
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                if os.fork() == 0:
                    for descriptor in foreign:
                        os.close(descriptor)
                    os.set_inheritable(alive, False)
                    os.write(lock, str(os.getpid()).encode())
                    self._supervise(owner, alive)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(lock)
        if owner is not None:
            os.close(owner)

    def _supervise(self, owner, report):
        """Runs QEMU until it ends, is told to stop, its owner ends, or its lifetime is over. Tells why
        in the pipe `report`, which breaks when the supervisor ends."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGTERM, lambda *_: None)
        with open(self._directory / "qemu.log", "ab", buffering=0) as log:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            os.dup2(log.fileno(), 2)
        try:
            with subprocess.Popen(self._qemu_command(), stdin=0, stdout=2, stderr=2, pass_fds=[self._memory],
                                  preexec_fn=_die_with_parent) as qemu:
                ended = os.pidfd_open(qemu.pid)
                self._wait([ended, wake_read] + ([owner] if owner is not None else []))
                why = "the guest was stopped" if qemu.poll() is None else f"QEMU ended ({_status(qemu.returncode)})"
                qemu.kill()
            with contextlib.suppress(BrokenPipeError):
                os.write(report, f"{why}; {self._last_words()}".encode()[:select.PIPE_BUF])
        except OSError as error:
            with contextlib.suppress(BrokenPipeError):
                os.write(report, f"QEMU cannot be run: {error}".encode()[:select.PIPE_BUF])
        finally:
            for link in self.links:
                if socket_path := link.own_socket(self.name, self._directory.parent):
                    with contextlib.suppress(OSError):
                        os.unlink(socket_path)
            shutil.rmtree(self._directory, ignore_errors=True)

    def _wait(self, descriptors):
        """Until one of them is readable, the lifetime is over, or somebody removed our folder."""
        end = time.monotonic() + (self._lifetime_s or float("inf"))
        while self._directory.exists() and (left := end - time.monotonic()) > 0:
            if select.select(descriptors, [], [], min(left, _FOLDER_CHECK_S))[0]:
                return


def _last_report(pipe):
    """What the supervisor tells before it removes the folder, and what QEMU wrote with it."""
    if not select.select([pipe], [], [], 10)[0]:
        return "its supervisor does not say why"
    return os.read(pipe, select.PIPE_BUF).decode(errors="replace") or "its supervisor was killed"


def _status(returncode):
    return f"status {returncode}" if returncode >= 0 else f"signal {signal.Signals(-returncode).name}"


def _die_with_parent():
    """Runs in the child before QEMU: when even the supervisor is killed, the kernel ends QEMU."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
