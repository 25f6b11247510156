# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the words of a script stand for in one run: numbers, keys, addresses, bytes."""

import random
import re
import sys

from . import packet

_PIECE = re.compile(r"(~?)([A-Za-z_]\w*)\[(\d+):(\d+)\]$")
_PATTERN_BYTES = 1 << 16
_BAD_KEY_BIT = 1 << 31
_BAD_SRQ_BIT = 1 << 23
_ACCESS = {"local": 1 << 0, "write": 1 << 1, "read": 1 << 2, "atomic": 1 << 3,
           "bind": 1 << 4, "zero_based": 1 << 5, "flush_global": 1 << 8, "flush_persistent": 1 << 9, "invalidate": 1 << 16}  # fmt: skip
# What every device knows.
_ALL = ("local", "write", "read", "atomic", "invalidate")
_KEYS = ("rkey", "inv")
ANYTHING = object()


def number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"'{text}' is no number") from None


def access(text: str) -> int:
    """`write+read`, `all`, `none`."""
    if text == "all":
        return sum(_ACCESS[word] for word in _ALL)
    if text == "none":
        return 0
    bits = 0
    for word in text.split("+"):
        if word not in _ACCESS:
            raise ValueError(f"'{word}' is no right: {', '.join(_ACCESS)}, all, none")
        bits |= _ACCESS[word]
    # As verbs demand: who may write from afar may write from near.
    return bits | (1 if bits & (_ACCESS["write"] | _ACCESS["atomic"]) else 0)


class Values:
    """The unpredictable numbers of a run, all drawn from its seed, and those of the device."""

    def __init__(self, seed: str):
        self._seed = seed
        self._random = random.Random(seed)
        self.peer_qpn = self._random.randrange(2, 0xFFFFFF)
        self.sq_psn = self._random.randrange(1 << 24)
        self.rq_psn = self._random.randrange(1 << 24)
        self.regions: dict[str, dict] = {}  # name -> address, key
        self.srqs: dict[str, int] = {}  # name -> number
        self.original: dict[str, bytes] = {}
        self._patterns: dict[str, bytes] = {}
        self.grh = b""

    def pattern(self, name: str, length: int = _PATTERN_BYTES) -> bytes:
        """The bytes of a name: random, but the same wherever it is written."""
        if name not in self._patterns:
            self._patterns[name] = random.Random(f"{self._seed}/{name}").randbytes(_PATTERN_BYTES)
        return self._patterns[name][:length]

    def region_content(self, name: str, length: int) -> bytes:
        if not 1 <= length <= _PATTERN_BYTES:
            raise ValueError(f"a region has 1 to {_PATTERN_BYTES} bytes")
        self.original[name] = self.pattern(name, length)
        return self.original[name]

    def bound(self, bind: dict, rkey: int) -> None:
        """A window has another key and place now, and is a region by its name."""
        name = bind["window"]
        if name in self.regions:
            self.regions[name + "_old"] = self.regions[name]
        zero_based = bind["access"] & _ACCESS["zero_based"]
        address = 0 if zero_based else self.regions[bind["region"]]["address"] + bind["offset"]
        self.regions[name] = {"address": address, "key": rkey}

    def bytes_of(self, text: str) -> tuple[bytes, bytes]:
        """What an expression like `data[0:8],u64:5` says, and a mask of the bytes that count."""
        value = mask = b""
        for piece in text.split(","):
            more, counts = self._piece(piece)
            value, mask = value + more, mask + counts
        return value, mask

    def _piece(self, text: str) -> tuple[bytes, bytes]:
        kind, _, rest = text.partition(":")
        if match := _PIECE.match(text):
            inverted, name = match.group(1, 2)
            start, end = map(int, match.group(3, 4))
            source = self.original.get(name) or self.pattern(name)
            if not start <= end <= len(source):
                raise ValueError(f"'{text}' lies outside of {name}")
            value = source[start:end]
            if inverted:
                value = bytes(byte ^ 0xFF for byte in value)
        elif text == "empty":
            value = b""
        elif text == "grh":
            # Of IPv4 the first 20 bytes are undefined.
            value = self.grh.rjust(40, b"\0")
            return value, (b"\xff" * len(self.grh)).rjust(40, b"\0")
        elif kind == "u64" and rest:
            value = (number(rest) & (1 << 64) - 1).to_bytes(8, sys.byteorder)
        elif kind == "zeros" and rest:
            value = bytes(number(rest))
        else:
            raise ValueError(f"'{text}' is no content: NAME[A:B], u64:N, zeros:N, grh, empty")
        return value, b"\xff" * len(value)

    def elements(self, text: str, bad_lkey: bool = False) -> list[dict]:
        """A scatter/gather list such as `data[0:100],data[200:300]`."""
        found = []
        for piece in [] if text == "empty" else text.split(","):
            match = _PIECE.match(piece)
            if not match or match.group(1) or match.group(2) not in self.regions:
                raise ValueError(f"'{piece}' is no piece of a region: NAME[A:B]")
            name, start, end = match.group(2), *map(int, match.group(3, 4))
            if not start <= end <= len(self.original[name]):
                raise ValueError(f"'{piece}' lies outside of the region")
            found.append({"region": name, "offset": start, "length": end - start,
                          "bad_lkey": bad_lkey})  # fmt: skip
        return found

    def field(self, key: str, text: str, response_psns: bool | None = None):
        """The value of a packet's field. `response_psns`: PSNs count from our side's first one."""
        if text == "*":
            return ANYTHING
        if key == "payload":
            return self.bytes_of(text)[0]
        if key in ("src", "dst", "icrc", "kind"):
            return text
        if key == "psn":
            base = self.sq_psn if response_psns else self.rq_psn
            return base + number(text) & 0xFFFFFF
        if key == "code" and text in packet.NAK_CODES:
            return packet.NAK_CODES[text]
        if key in ("dqpn", "sqpn") and text == "peer":
            return self.peer_qpn
        return self._reference(key, text)

    def _reference(self, key: str, text: str) -> int:
        """A number, or one that belongs to a region: `data`, `data+16`, `none`."""
        if key == "srq" and text in self.srqs:
            return self.srqs[text]
        if key == "srq" and text == "none":
            return self.srqs["first"] ^ _BAD_SRQ_BIT
        name, sign, offset = re.match(r"([A-Za-z_]\w*)?([+-]?)(.*)$", text).groups()
        if name == "none" and key in _KEYS:
            return next(iter(self.regions.values()))["key"] ^ _BAD_KEY_BIT
        if name in self.regions:
            base = self.regions[name]["key" if key in _KEYS else "address"]
            return base + (number(sign + offset) if sign else 0)
        return number(text)
