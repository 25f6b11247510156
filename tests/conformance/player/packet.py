# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""RoCEv2 packets as fields with names, and back. Builds on the checker's codec."""

import dataclasses
import struct

import packets as builder
from judge import capture, framing
from judge import frame as frames
from judge.options import Options

_SERVICES = {"rc": 0x00, "uc": 0x20, "rd": 0x40, "ud": 0x60, "xrc": 0xA0}
_OPERATIONS = {
    "SEND_FIRST": 0x00, "SEND_MIDDLE": 0x01, "SEND_LAST": 0x02, "SEND_LAST_WITH_IMMEDIATE": 0x03,
    "SEND_ONLY": 0x04, "SEND_ONLY_WITH_IMMEDIATE": 0x05, "RDMA_WRITE_FIRST": 0x06,
    "RDMA_WRITE_MIDDLE": 0x07, "RDMA_WRITE_LAST": 0x08, "RDMA_WRITE_LAST_WITH_IMMEDIATE": 0x09,
    "RDMA_WRITE_ONLY": 0x0A, "RDMA_WRITE_ONLY_WITH_IMMEDIATE": 0x0B, "RDMA_READ_REQUEST": 0x0C,
    "RDMA_READ_RESPONSE_FIRST": 0x0D, "RDMA_READ_RESPONSE_MIDDLE": 0x0E,
    "RDMA_READ_RESPONSE_LAST": 0x0F, "RDMA_READ_RESPONSE_ONLY": 0x10, "ACKNOWLEDGE": 0x11,
    "ATOMIC_ACKNOWLEDGE": 0x12, "COMPARE_SWAP": 0x13, "FETCH_ADD": 0x14, "RESYNC": 0x15,
    "SEND_LAST_WITH_INVALIDATE": 0x16, "SEND_ONLY_WITH_INVALIDATE": 0x17, "FLUSH": 0x1C,
    "ATOMIC_WRITE": 0x1D,
}  # fmt: skip
_NAMES = {code: name for name, code in _OPERATIONS.items()}
CNP = 0x81
GROUP_QPN = 0xFFFFFF  # of all multicast groups

# Extension headers: names and sizes of their fields in bits, in wire order.
_DETH = (("qkey", 32), ("", 8), ("sqpn", 24))
_RETH = (("va", 64), ("rkey", 32), ("length", 32))
_ATOMIC_ETH = (("va", 64), ("rkey", 32), ("swap", 64), ("compare", 64))
_AETH = (("syndrome", 8), ("msn", 24))
_ATOMIC_ACK_ETH = (("original", 64),)
_IMM_DT = (("imm", 32),)
_IETH = (("inv", 32),)
_XRCETH = (("", 8), ("srq", 24))
_FETH = (("", 26), ("selectivity", 2), ("placement", 4))

NAK_CODES = {"sequence": 0, "invalid": 1, "access": 2, "operational": 3, "rd": 4}
_ENDS_REQUEST = frozenset((0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x13, 0x14, 0x16,
                           0x17))  # fmt: skip
_RESPONSES = frozenset(range(0x0D, 0x13))


def opcode_of(name: str, service: str) -> int:
    """`SEND_ONLY` in the queue pair's service, `UC_SEND_ONLY`, `CNP`, or a number."""
    if name == "CNP":
        return CNP
    if name[0].isdigit():
        return int(name, 0)
    prefix, _, rest = name.partition("_")
    if prefix.lower() in _SERVICES and rest in _OPERATIONS:
        return _SERVICES[prefix.lower()] | _OPERATIONS[rest]
    if name not in _OPERATIONS:
        raise ValueError(f"no such packet: {name}")
    return _SERVICES[service] | _OPERATIONS[name]


def name_of(opcode: int) -> str:
    services = {code: name.upper() for name, code in _SERVICES.items()}
    if opcode & 0xE0 in services and opcode & 0x1F in _NAMES:
        return f"{services[opcode & 0xE0]}_{_NAMES[opcode & 0x1F]}"
    return "CNP" if opcode == CNP else f"opcode 0x{opcode:02X}"


def is_response(opcode: int) -> bool:
    return opcode & 0xE0 in (_SERVICES["rc"], _SERVICES["xrc"]) and opcode & 0x1F in _RESPONSES


def _layout(opcode: int) -> list[tuple[str, int]]:
    operation, fields = opcode & 0x1F, []
    if opcode & 0xE0 == _SERVICES["ud"]:
        fields += _DETH
    if opcode & 0xE0 == _SERVICES["xrc"] and operation not in _RESPONSES:
        fields += _XRCETH
    if operation == 0x1C:
        fields += _FETH
    if operation in (0x06, 0x0A, 0x0B, 0x0C, 0x1C, 0x1D):
        fields += _RETH
    if operation in (0x13, 0x14):
        fields += _ATOMIC_ETH
    if operation in (0x0D, 0x0F, 0x10, 0x11, 0x12):
        fields += _AETH
    if operation == 0x12:
        fields += _ATOMIC_ACK_ETH
    if operation in (0x03, 0x05, 0x09, 0x0B):
        fields += _IMM_DT
    if operation in (0x16, 0x17):
        fields += _IETH
    return fields


def _pack(layout, values) -> bytes:
    bits = total = 0
    for name, size in layout:
        bits = bits << size | values.get(name, 0) & (1 << size) - 1
        total += size
    return bits.to_bytes(total // 8, "big")


def _unpack(layout, data: bytes) -> dict[str, int]:
    bits, values = int.from_bytes(data, "big"), {}
    for name, size in reversed(layout):
        values[name] = bits & (1 << size) - 1
        bits >>= size
    values.pop("", None)
    return values


@dataclasses.dataclass
class Path:
    """Who talks to whom below the transport, as the script's side sees it."""

    device_address: str
    device_mac: str
    peer_address: str
    peer_mac: str
    source_port: int = 0xC0DE

    @property
    def group(self) -> str:
        """A multicast group of the addresses' family."""
        return "ff0e::5248:1" if ":" in self.peer_address else "239.82.72.1"

    @property
    def group_mac(self) -> str:
        return "33:33:52:48:00:01" if ":" in self.peer_address else "01:00:5e:52:48:01"

    def stranger(self) -> str:
        """An address of the peer's network that is nobody's."""
        separator = ":" if ":" in self.peer_address else "."
        return self.peer_address.rpartition(separator)[0] + separator + "77"


def _syndrome(values: dict) -> int:
    kind = values.get("kind", "ack")
    if kind == "nak":
        return 0x60 | values["code"]
    if kind == "rnr":
        return 0x20 | values["timer"]
    return values.get("credits", 31)


def encode(path: Path, opcode: int, values: dict) -> bytes:
    """A frame from the peer to the device. `values` are numbers by field, and `payload`."""
    if opcode == CNP:
        headers = bytes(16)
    else:
        values.setdefault("syndrome", _syndrome(values))
        if opcode & 0x1F == 0x14:
            values.setdefault("swap", values.get("add", 0))
        if "length" not in values and opcode & 0x1F in (0x0A, 0x0B):
            values["length"] = len(values.get("payload", b""))
        headers = _pack(_layout(opcode), values)
    body = headers + values.get("payload", b"")
    if "cut" in values:
        body = body[: -values["cut"]]
    reliable = opcode & 0xE0 in (_SERVICES["rc"], _SERVICES["xrc"])
    ends = reliable and opcode & 0x1F in _ENDS_REQUEST
    padding = bytes([values.get("padbyte", 0)]) * (-len(body) % 4)
    to_group = values.get("dst") == "group"
    packet = builder.Packet(
        path.stranger() if values.get("src") == "stranger" else path.peer_address,
        path.group if to_group else path.device_address, opcode, values["dqpn"], values["psn"], b"", body,
        ack_request=bool(values.get("ackreq", ends)),
        solicited=bool(values.get("se", 0)),
        mig_req=bool(values.get("migreq", 1)),
        src_port=values.get("sport", path.source_port),
        pkey=values.get("pkey", 0xFFFF),
        version=values.get("tver", 0),
        byte4=values.get("fecn", 0) << 7 | values.get("becn", 0) << 6 | values.get("reserved6", 0),
        reserved7=values.get("reserved7", 0),
        tos=values.get("tos", 0), ttl=values.get("ttl", 64),
        pad=padding, pad_count=values.get("pad"),
    )  # fmt: skip
    frame = bytearray(packet.to_bytes())
    station = path.group_mac if to_group else path.device_mac
    frame[0:12] = bytes.fromhex((station + path.peer_mac).replace(":", ""))
    if values.get("icrc") == "bad":
        frame[-1] ^= 0x01
    return bytes(frame) + bytes(values.get("extra", 0))


class _Defects:
    """Takes what the checker's framing rules find."""

    def __init__(self):
        self.found = []

    def add(self, rule, _frame, text):
        self.found.append(f"{rule}: {text}")


@dataclasses.dataclass
class Decoded:
    """A packet of the device: its opcode, its fields, and what is wrong with its framing."""

    opcode: int
    values: dict
    defects: list[str]


def decode(data: bytes, path: Path, pmtu: int) -> Decoded | None:
    """None: no RoCEv2 packet."""
    record = capture.Record(1, 0, capture.LINKTYPE_ETHERNET, data, len(data), "", "")
    frame = frames.parse(record)
    if frame is None:
        return None
    defects = _Defects()
    framing.check(frame, Options(pmtu=pmtu), defects)
    values = {"sport": frame.src_port}
    if frame.opcode >= 0:
        values |= {
            "se": frame.flags >> 7, "migreq": frame.flags >> 6 & 1, "pad": frame.pad,
            "pkey": frame.pkey, "fecn": frame.byte4 >> 7, "becn": frame.byte4 >> 6 & 1,
            "dqpn": frame.dqpn, "ackreq": frame.byte8 >> 7, "psn": frame.psn,
        }  # fmt: skip
        values |= _ip_fields(frame)
    if frame.info is not None and frame.defect is None and frame.opcode != CNP:
        values |= _unpack(_layout(frame.opcode), data[frame.bth + 12 : frame.payload])
        values["payload"] = frame.payload_bytes()
        _explain(frame.opcode, values)
    _check_ends(frame, path, defects)
    return Decoded(frame.opcode, values, defects.found)


def _ip_fields(frame) -> dict:
    if frame.ip_version == 4:
        return {"tos": frame.data[frame.l3 + 1], "ttl": frame.data[frame.l3 + 8]}
    (word,) = struct.unpack_from(">H", frame.data, frame.l3)
    return {"tos": word >> 4 & 0xFF, "ttl": frame.data[frame.l3 + 7]}


def _explain(opcode: int, values: dict) -> None:
    """The parts of a syndrome, and the operand of a FetchAdd by its own name."""
    if "syndrome" in values:
        kind, rest = values["syndrome"] >> 5, values["syndrome"] & 0x1F
        values["kind"] = {0: "ack", 1: "rnr", 3: "nak"}.get(kind, "reserved")
        values |= {0: {"credits": rest}, 1: {"timer": rest}, 3: {"code": rest}}.get(kind, {})
    if opcode & 0x1F == 0x14:
        values["add"] = values.pop("swap")


def _check_ends(frame, path: Path, defects: _Defects) -> None:
    to_group = frame.dqpn == GROUP_QPN
    ends = [
        ("source address", frames.address(frame.src), path.device_address),
        ("destination address", frames.address(frame.dst),
         path.group if to_group else path.peer_address),
        ("destination MAC", frame.data[0:6].hex(":"),
         path.group_mac if to_group else path.peer_mac),
    ]  # fmt: skip
    for what, came, wanted in ends:
        if came != wanted:
            defects.add("path", frame, f"{what} {came}, should be {wanted}")
