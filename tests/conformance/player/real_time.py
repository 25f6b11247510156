# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Devices in real time: a Rockhopper process behind a veth, a Soft-RoCE guest, and a verbs program
on Rockhopper's device."""

import contextlib
import ctypes
import json
import os
import pathlib
import queue
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from .device import Device, DeviceError, LineProcess, Unavailable, checked, kinds_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))

from lab.links import segment_memory  # noqa: E402 (needs the path above)
from rxe_guest import errors, links, machine  # noqa: E402
from rxe_guest.guest import Guest  # noqa: E402
from testing.standstill import Standstill  # noqa: E402

_NETWORKS = (("192.0.2.1", 24, "192.0.2.2"), ("2001:db8::1", 64, "2001:db8::2"))
_MTU = 4300
_CLONE_NEWNET = 0x40000000
# Of asm-generic/socket.h, which Python does not name; what comes back is a struct timespec.
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_STAMP_SPACE = socket.CMSG_SPACE(struct.calcsize("@ll"))
_RECEIVE_BUFFER = 16 << 20
_TURNS_OF_THE_GUEST = 3
_CLOCKS_APART_NS = 50_000  # two clocks read further apart than so are read again


class _Frames:
    """What a socket receives, each with the time when it came, whatever the others wait for."""

    def __init__(self):
        self._queue: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()

    def put(self, frame: bytes) -> None:
        self._queue.put((time.monotonic_ns(), frame))

    def take(self, until_ns: int) -> list[tuple[int, bytes]]:
        found = []
        with contextlib.suppress(queue.Empty):
            left_s = (until_ns - time.monotonic_ns()) / 1e9
            found.append(self._queue.get(left_s > 0, max(0, left_s)))
            while True:
                found.append(self._queue.get_nowait())
        return found


class _RealTime(Device):
    """Time is the machine's; `advance` takes frames from a socket."""

    # A busy machine must not fail a script.
    late_ns = 2_000_000_000
    stall_ns = 250_000_000

    def settle(self) -> None:
        while self.advance(self.now_ns() + self.linger_ns):
            pass

    def peer_addresses(self, hello: dict) -> list[str]:
        return [peer for _, _, peer in _NETWORKS]

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def watch(self) -> Standstill:
        return Standstill()


class Live(_RealTime):
    """conformance-live on one end of a veth, this process on the other, both in a network
    namespace that ends with them."""

    kinds = ("live", "rockhopper")
    early_ns = 2_000_000
    linger_ns = 10_000_000

    def __init__(self, program: str, personality: str = ""):
        self.kinds = (*type(self).kinds, *kinds_of(personality))
        if os.geteuid() != 0:
            raise Unavailable("a veth needs root")
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
            raise Unavailable(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            self._make_veth()
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"no veth: {error}") from None
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        self._socket.bind(("peer", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        addresses = [f"--ip={own}/{length}" for own, length, _ in _NETWORKS]
        device = "net_af_packet0,iface=device,blocksz=65536,framesz=8192,framecnt=512"
        played = [f"--personality={personality}"] if personality else []
        self._process = LineProcess([program, f"--device={device}", f"--link-mtu={_MTU}",
                                     *addresses, *played])  # fmt: skip

    def _make_veth(self) -> None:
        ip = ["ip", "link"]
        for command in (
            [*ip, "add", "device", "mtu", str(_MTU), "type", "veth", "peer", "name", "peer", "mtu",
             str(_MTU), "address", self.peer_mac],
            # The kernel is not to answer for either end.
            ["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"],
            [*ip, "set", "device", "up"],
            [*ip, "set", "peer", "up"],
        ):  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)

    def call(self, command: str, **arguments) -> dict:
        return self._process.call(command, arguments)

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        left_s = (until_ns - time.monotonic_ns()) / 1e9
        select.select([self._socket], [], [], max(0, left_s))
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, ancillary, _, address = self._socket.recvmsg(
                    65536, _STAMP_SPACE, socket.MSG_DONTWAIT)
                if address[2] != socket.PACKET_OUTGOING:
                    found.append((_stamped_ns(ancillary), frame))
        return found

    def catch_up(self) -> None:
        # It looks at its port again before it answers.
        self.call("state")

    def close(self) -> None:
        self._process.close()
        self._socket.close()


def _stamped_ns(ancillary) -> int:
    """When the kernel got the frame, by the monotonic clock."""
    ((_, _, stamp),) = ancillary
    seconds, nanoseconds = struct.unpack("@ll", stamp)
    while True:
        before_ns = time.monotonic_ns()
        age_ns = time.time_ns() - (seconds * 1_000_000_000 + nanoseconds)
        if time.monotonic_ns() - before_ns < _CLOCKS_APART_NS:
            return before_ns - age_ns


# Kernels whose rxe has been played against, oldest first.
RXE_VERSIONS = ("6.1", "6.12")


def rxe_kinds(release: str) -> tuple[str, ...]:
    """The names of the rxe of a kernel. One that has not been played against counts as the newest
    before it that has."""
    numbers = [tuple(map(int, version.split("."))) for version in RXE_VERSIONS]
    own = tuple(map(int, release.split("-")[0].split(".")[:2]))
    older = [version for version, number in zip(RXE_VERSIONS, numbers) if number <= own]
    return (f"rxe-{(older or RXE_VERSIONS)[-1 if older else 0]}", "rxe", "verbs")


class SoftRoce(_RealTime):
    """Linux's rxe in a guest: conformance-verbs there, the guest's link here as a unix socket."""

    early_ns = 4_000_000  # the guest's clock and ours, and how late a frame may be seen
    linger_ns = 30_000_000

    def __init__(self, program: str):
        self._guest = self._command = None
        name, self._peer = f"conformance-{os.getpid()}", f"script-{os.getpid()}"
        directory = machine.runtime_directory()
        self._own_path = directory / f"{name}-to-{self._peer}"
        self._guest_path = directory / f"{self._peer}-to-{name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._own_path))
        self._frames = _Frames()
        threading.Thread(target=self._read, daemon=True).start()
        neighbours = "".join(f",ip={own}/{length},neighbour={peer}@{self.peer_mac}"
                             for own, length, peer in _NETWORKS)  # fmt: skip
        link = links.Link.parse(f"guest={self._peer},mtu={_MTU}{neighbours}")
        try:
            self._guest = Guest.start(name, [link], owner=os.getpid())
            self.kinds = rxe_kinds(self._guest.check("uname -r", what="its kernel"))
            self._mac = self._guest.state["devices"][0]["mac"]
            self._guest.push(program, with_libraries=True)
            addresses = " ".join(f"--address {own}" for own, _, _ in _NETWORKS)
            self._command = _GuestLines(
                self._guest, f"{pathlib.Path(program).name} --device rxe0 {addresses}")
            self._sent = self._seen = self._received()
        except errors.Skip as reason:
            self.close()
            raise Unavailable(str(reason)) from None
        except errors.GuestError as error:
            self.close()
            raise DeviceError(str(error)) from None
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._frames.put(self._socket.recv(65536))

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        return self._frames.take(until_ns)

    def call(self, command: str, **arguments) -> dict:
        answer = self._command.call(command, arguments)
        return answer | {"mac": self._mac} if command == "hello" else answer

    def send(self, frame: bytes) -> None:
        self._socket.sendto(frame, str(self._guest_path))
        self._sent += 1

    def _received(self) -> int:
        """Frames that the guest's network device has had of us."""
        return self._command.call("counters", {})["counters"].get("rx_packets", 0)

    def catch_up(self) -> None:
        deadline_ns = self.now_ns() + self.late_ns
        waited = self._seen < self._sent
        while self._seen < self._sent and self.now_ns() < deadline_ns:
            self._seen = self._received()
        self._sent = self._seen  # what was lost on the way does not come
        # The guest's kernel acts on a frame later than its device has it, by its own clock, which a
        # busy machine may stop. It has one processor: while that answers, it has its turn.
        for _ in range(_TURNS_OF_THE_GUEST if waited else 0):
            self._received()

    def close(self) -> None:
        if self._command:
            self._command.close()
        if self._guest:
            self._guest.stop()
        self._socket.close()
        with contextlib.suppress(OSError):
            self._own_path.unlink()


class Front(_RealTime):
    """conformance-verbs under rh-run, and beside it on the same segment the peer that the script is:
    conformance-segment. All members of a segment have one MAC address and the same IP addresses."""

    kinds = ("front", "rockhopper", "verbs")
    early_ns = 2_000_000
    linger_ns = 10_000_000

    def __init__(self, program: str, build: pathlib.Path):
        self._directory = tempfile.TemporaryDirectory(dir=segment_memory())
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._frames = _Frames()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._peer = subprocess.Popen(
            [build / "tests/conformance/conformance-segment", self._directory.name], stdin=theirs)
        theirs.close()
        threading.Thread(target=self._read, daemon=True).start()
        self.peer_mac = self._answer("M").hex(":")
        addresses = [own for own, _, _ in _NETWORKS]
        lengths = ",".join(f"{own}/{length}" for own, length, _ in _NETWORKS)
        self._process = LineProcess(
            [build / "apps/rh-run", "--addresses", lengths, program, "--device", "rh0",
             *(f"--address={own}" for own in addresses)],
            {**os.environ, "ROCKHOPPER_SEGMENT": self._directory.name})  # fmt: skip

    def peer_addresses(self, hello: dict) -> list[str]:
        return hello["addresses"]

    def _read(self) -> None:
        while packet := self._socket.recv(65536):
            if packet[:1] == b"F":
                self._frames.put(packet[1:])
            else:
                self._answers.put(packet)
        self._answers.put(b"")

    def _answer(self, letter: str) -> bytes:
        packet = self._answers.get()
        if packet[:1] != letter.encode():
            raise DeviceError(f"conformance-segment ended with status {self._peer.wait()}")
        return packet[1:]

    def call(self, command: str, **arguments) -> dict:
        if command == "hello":
            return self._process.call(command, arguments) | {"mac": self.peer_mac}
        if command == "open":
            # Before the device takes numbers for itself, and when it has given back its last.
            self._process.call("close", {})
            self._socket.send(b"N" + (arguments["qp"]["peer_qpn"] & 0xFFFF).to_bytes(2, "big"))
            if self._answer("N") != b"\1":
                raise DeviceError("the device has the peer's queue pair number: try another seed")
        return self._process.call(command, arguments)

    def send(self, frame: bytes) -> None:
        self._socket.send(b"F" + frame)

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        return self._frames.take(until_ns)

    def catch_up(self) -> None:
        self._socket.send(b"S")
        self._answer("S")
        # It was taken by a thread that acts on it before others may do anything.
        self.call("state")

    def close(self) -> None:
        self._process.close()
        self._socket.shutdown(socket.SHUT_WR)
        self._peer.wait()
        self._socket.close()
        self._directory.cleanup()


class _GuestLines:
    """A program in the guest to which lines are written and which answers each with one."""

    def __init__(self, guest: Guest, command: str):
        self._ours, theirs = socket.socketpair()
        self._reader = self._ours.makefile("r", encoding="utf-8")
        self._said = bytearray()

        def run():
            try:
                guest.execute(command, stdin=theirs, stdout=theirs.sendall,
                              stderr=self._said.extend, timeout_s=86400)
            except (errors.GuestError, OSError) as error:
                self._said.extend(str(error).encode())
            finally:
                with contextlib.suppress(OSError):
                    theirs.shutdown(socket.SHUT_RDWR)
                theirs.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def call(self, command: str, arguments: dict) -> dict:
        self._ours.sendall((json.dumps({"do": command, **arguments}) + "\n").encode())
        line = self._reader.readline()
        if not line:
            raise DeviceError(f"the guest's program ended: {self._said.decode(errors='replace')}")
        return checked(line)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_WR)
        self._thread.join(30)
        self._reader.close()
        self._ours.close()
