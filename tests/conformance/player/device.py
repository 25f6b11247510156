# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What a script is played against. A device takes commands, frames and time; the kinds differ in
where these go, and in how exact time is."""

import contextlib
import json
import pathlib
import random
import subprocess
import types

PERSONALITIES = pathlib.Path(__file__).resolve().parents[3] / "apps/common/personalities"


class DeviceError(Exception):
    """The device refused a command, or is gone."""


class Unavailable(Exception):
    """This machine cannot run the device; the text says why."""


class Device:
    """The commands that every kind has are those of tests/conformance/device.h.

    `kinds` are the names that deviations and skips of scripts may use. `early_ns` and `late_ns` are
    how far the time of a packet may be off for reasons that are not the device's; `stall_ns` how
    much too early it may seem behind another packet of the device, which was sent late. `linger_ns`
    is how long to look for what may come at once, or must not.
    """

    kinds: tuple[str, ...] = ()
    early_ns = 0
    late_ns = 0
    stall_ns = 0
    linger_ns = 0
    peer_mac = "02:52:48:00:00:02"

    def peer_addresses(self, hello: dict) -> list[str]:
        """The peer's address for each of the device's."""
        raise NotImplementedError

    def call(self, command: str, **arguments) -> dict:
        raise NotImplementedError

    def now_ns(self) -> int:
        raise NotImplementedError

    def send(self, frame: bytes) -> None:
        """A frame from the peer."""
        raise NotImplementedError

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        """Lets time pass until then, or until frames come: these, each with its time."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """Comes back when the device has acted on all that it was sent, if that can be known."""

    def settle(self) -> None:
        """Forgets frames that are still under way from a script before."""

    def watch(self) -> contextlib.AbstractContextManager:
        """What tells as `longest_s`, behind the block, how long the machine stood still in it. In
        virtual time that is of no matter."""
        return contextlib.nullcontext(types.SimpleNamespace(longest_s=0.0))

    def leaks(self) -> str:
        """What a closed queue pair has left behind, if that can be known."""
        return ""

    def close(self) -> None:
        raise NotImplementedError


class LineProcess:
    """A device program: a command is a line of JSON, and so is its answer."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None):
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env=environment, text=True)  # fmt: skip

    def call(self, command: str, arguments: dict) -> dict:
        try:
            self._child.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise DeviceError(f"the device ended with status {self._child.wait()}")
        return checked(line)

    def close(self) -> None:
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()


def checked(line: str) -> dict:
    """The answer in a line; DeviceError if it is a refusal."""
    answer = json.loads(line)
    if "error" in answer:
        raise DeviceError(answer["error"])
    return answer


def knobs_of(personality: str) -> dict[str, str]:
    """{knob: value} of "NAME,KNOB=VALUE"; later ones win."""
    knobs: dict[str, str] = {}
    for item in personality.split(",") if personality else ():
        if "=" in item:
            knobs.update([item.split("=")])
        else:
            told = json.loads((PERSONALITIES / f"{item}.json").read_text(encoding="utf-8"))["knobs"]
            knobs.update((knob, entry["value"]) for knob, entry in told.items())
    return knobs


def kinds_of(personality: str) -> list[str]:
    """What scripts call a device with that personality: "KNOB-VALUE" for each of its knobs, and "KNOB"
    alone where the value is not the ordinary one."""
    knobs = knobs_of(personality)
    named = [f"{knob}-{value}".replace(":", "-") for knob, value in knobs.items()]
    return named + [knob for knob, value in knobs.items() if value not in ("0", "qp", "own")]


class Simulated(Device):
    """Rockhopper's engine in virtual time, by the program conformance-sim."""

    kinds = ("sim", "rockhopper")
    late_ns = 20_000  # a tick of its timers

    def __init__(self, program: str, segments: random.Random | None = None, personality: str = ""):
        """`segments` cuts what arrives into chains of buffers, as some drivers give them."""
        self._process = LineProcess([program, *([personality] if personality else [])])
        self.kinds = (*type(self).kinds, *kinds_of(personality))
        self._segments = segments
        self._now_ns = 0
        self._frames: list[tuple[int, bytes]] = []
        self.advance(0)

    def peer_addresses(self, hello: dict) -> list[str]:
        return ["192.0.2.2", "2001:db8::2"]

    def call(self, command: str, **arguments) -> dict:
        return self._process.call(command, arguments)

    def now_ns(self) -> int:
        return self._now_ns

    def send(self, frame: bytes) -> None:
        ends = {len(frame)}
        if self._segments:
            ends |= {self._segments.randrange(1, len(frame)) for _ in range(4)}
        self._take(self.call("packet", frame=frame.hex(), segments_end=sorted(ends)))

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        if not self._frames:
            self._take(self.call("run", until_ns=until_ns))
        frames, self._frames = self._frames, []
        return frames

    def settle(self) -> None:
        """Forgets frames that are still under way from a script before."""

    def leaks(self) -> str:
        mbufs = self.call("mbufs")["mbufs"]
        return f"{mbufs} mbufs" if mbufs else ""

    def close(self) -> None:
        self._process.close()

    def _take(self, answer: dict) -> None:
        self._now_ns = answer["now_ns"]
        self._frames += [(self._now_ns, bytes.fromhex(frame)) for frame in answer["frames"]]
