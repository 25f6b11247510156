# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Plays one script: does its steps in order, compares what comes with what is expected."""

import dataclasses

from . import packet
from .device import Device, DeviceError
from .script import Script, Step
from .telling import Teller
from .values import ANYTHING, Values, access, number

QP_DEFAULTS = {
    "state": "rts", "access": "all", "path_mtu": "256", "qkey": "0x11223344", "timeout": "0",
    "retry_cnt": "7", "rnr_retry": "7", "min_rnr_timer": "12", "max_rd_atomic": "4",
    "max_dest_rd_atomic": "4", "srq": "0", "srq_limit": "0", "group": "0", "initiator": "0",
}  # fmt: skip
_QP_TEXT = ("type", "state")
_QP_ACCESS_MASK = 0xFFFF  # a queue pair grants no invalidation
_SHORT = {"ACK": "ack", "NAK": "nak", "RNR_NAK": "rnr"}
_OPCODES = {
    "RDMA_WRITE": 0, "RDMA_WRITE_WITH_IMM": 1, "SEND": 2, "SEND_WITH_IMM": 3, "RDMA_READ": 4,
    "ATOMIC_CMP_AND_SWP": 5, "ATOMIC_FETCH_AND_ADD": 6, "SEND_WITH_INV": 7, "LOCAL_INV": 8,
    "BIND_MW": 9,
}  # fmt: skip
_POST_FIELDS = {"imm": "imm", "inv": "inv", "va": "va", "rkey": "rkey", "compare": "compare_add",
                "add": "compare_add", "swap": "swap", "qkey": "qkey", "dqpn": "dqpn",
                "srq": "srq"}  # fmt: skip
_POST_FLAGS = ("fence", "solicited", "inline", "unsignaled", "bad_lkey", "to_group", "other_qp")
_COMMANDS = ("post", "refused", "recv", "modify", "deregister", "memory")
_END_NS = 50_000_000  # so long a script must stay quiet behind its end


class Mismatch(Exception):
    """The device did something else than the script expects: what, and the whole story."""

    def __init__(self, problem: str, story: str = ""):
        super().__init__(story or problem)
        self.problem = problem


@dataclasses.dataclass
class Received:
    time_ns: int
    decoded: packet.Decoded


class Player:
    """One run of one script."""

    def __init__(self, script: Script, device: Device, seed: int, ipv6: bool):
        self._script = script
        self._device = device
        self._values = Values(f"{seed}/{script.name}")
        self._inbox: list[Received] = []
        self._still_allowed: list[Step] = []  # packets that might have come and have not
        self._completions: dict[bool, list[dict]] = {False: [], True: []}
        self._events: list[str] = []
        self._wr_names: list[str] = []  # index: wr_id
        self._is_receive: dict[str, bool] = {}
        self._memory: dict[str, bytearray] = {}
        self._state = ""
        self._time_ns = 0
        self._may_seem_early_ns = device.early_ns
        self._start_ns = 0
        self.late_ns = 0  # the most that an own step came behind its time
        hello = device.call("hello")
        ends = [pair for pair in zip(hello["addresses"], device.peer_addresses(hello), strict=True)
                if (":" in pair[0]) == ipv6]  # fmt: skip
        if not ends:
            raise DeviceError("the device has no address of that family")
        self._path = packet.Path(ends[0][0], hello["mac"], ends[0][1], device.peer_mac)
        self.dialogue: list[tuple[int, bytes, str]] = []

    def play(self) -> None:
        """Raises Mismatch with the whole story, or ValueError for words without a meaning."""
        step = None
        self._open()
        try:
            for step in self._script.steps:
                self._do(step)
            step = None
            self._finish()
        except (Mismatch, DeviceError) as mismatch:
            raise Mismatch(str(mismatch), self._story(step, str(mismatch))) from None
        except ValueError as error:
            raise ValueError(f"{self._script.path}:{step.line}: {step.text}\n  {error}") from None
        finally:
            self._device.call("close")
        if leaks := self._device.leaks():
            raise Mismatch(f"left behind: {leaks}")

    def save(self, path) -> None:
        """The packets of both directions, as a pcap file."""
        packet.builder.save(path, [(time_ns - self._start_ns, frame)
                                   for time_ns, frame, _ in self.dialogue])  # fmt: skip

    # Setting up

    def _open(self) -> None:
        given = self._script.qp
        unknown = set(given) - set(QP_DEFAULTS) - {"type", "sq_psn", "rq_psn"}
        if unknown:
            raise ValueError(f"{self._script.path}: qp has no {', '.join(sorted(unknown))}")
        fields = QP_DEFAULTS | given
        for key in ("sq_psn", "rq_psn"):
            if key in given:
                setattr(self._values, key, number(given[key]))
        qp = {key: value if key in _QP_TEXT else number(value)
              for key, value in fields.items() if key != "access"}  # fmt: skip
        qp |= {
            "access": access(fields["access"]) & _QP_ACCESS_MASK, "sq_psn": self._values.sq_psn,
            "rq_psn": self._values.rq_psn, "peer_address": self._path.peer_address,
            "peer_mac": self._path.peer_mac, "peer_qpn": self._values.peer_qpn,
            "group": self._path.group if qp["group"] else "",
        }  # fmt: skip
        regions = [self._region(name, spec) for name, spec in self._script.regions.items()]
        self._device.settle()
        windows = [{"name": name, "type": number(kind)}
                   for name, kind in self._script.windows.items()]  # fmt: skip
        opened = self._device.call("open", qp=qp, regions=regions, windows=windows)
        self._qpn = opened["qpn"]
        self._qp = qp
        self._values.regions = opened["regions"]
        self._values.srqs = opened["srqs"]
        self._state = qp["state"]
        self._counters = device_counters(self._device)
        self._discard_frames()
        self._time_ns = self._start_ns = self._device.now_ns()
        self._teller = Teller(self._values, self._path, qp["path_mtu"], self._start_ns)

    def _region(self, name: str, spec: dict[str, str]) -> dict:
        if set(spec) - {"length", "access", "pd"}:
            raise ValueError(f"{self._script.path}: mr {name}: only length, access and pd")
        content = self._values.region_content(name, number(spec["length"]))
        self._memory[name] = bytearray(content)
        return {"name": name, "access": access(spec.get("access", "all")),
                "other_pd": spec.get("pd") == "other", "content": content.hex()}  # fmt: skip

    def _discard_frames(self) -> None:
        """What a device says of itself when it gets a queue pair: ARP and the like."""
        for _, frame in self._device.advance(self._device.now_ns()):
            if packet.decode(frame, self._path, self._qp["path_mtu"]):
                raise Mismatch("a packet came before the first step")

    # Steps

    def _do(self, step: Step) -> None:
        handler = {
            "<": self._inject, ">": self._expect, ">?": self._expect_perhaps, "post": self._post,
            "refused": self._post_refused, "recv": self._recv, "done": self._done,
            "pending": self._pending, "memory": self._check_memory, "state": self._check_state,
            "modify": self._modify, "deregister": self._deregister, "event": self._event,
            "quiet": self._quiet,
        }[step.action]  # fmt: skip
        if step.action in _COMMANDS:
            # They go another way than packets, and would overtake them.
            self._catch_up()
        if step.action not in (">", ">?", "done"):
            due_ns = self._time_ns + step.least_ns
            self._wait_until(due_ns)
            self._time_ns = self._device.now_ns()
            self.late_ns = max(self.late_ns, self._time_ns - due_ns)
            self._may_seem_early_ns = self._device.early_ns
        handler(step)
        self._take_frames(self._device.now_ns())

    def _wait_until(self, time_ns: int) -> None:
        while self._device.now_ns() < time_ns:
            self._take_frames(time_ns)

    def _take_frames(self, until_ns: int) -> None:
        for time_ns, frame in self._device.advance(until_ns):
            decoded = packet.decode(frame, self._path, self._qp["path_mtu"])
            if decoded:
                self.dialogue.append((time_ns, frame, ">"))
                self._inbox.append(Received(time_ns, decoded))

    def _catch_up(self) -> None:
        self._device.catch_up()
        self._take_frames(self._device.now_ns())

    def _inject(self, step: Step) -> None:
        name = step.words[0]
        fields = dict(step.fields)
        if name in _SHORT:
            values = {"kind": _SHORT[name]}
            name = "ACKNOWLEDGE"
        else:
            values = {}
        opcode = packet.opcode_of(name, self._qp["type"])
        response = packet.is_response(opcode)
        fields.setdefault("psn", "0")
        for key, text in fields.items():
            if key == "dqpn" and text.startswith("qp"):
                values[key] = self._qpn + number(text[2:] or "0") & 0xFFFFFF
            else:
                values[key] = self._values.field(key, text, response)
        values.setdefault("dqpn", self._qpn)
        if self._qp["type"] == "ud":
            values.setdefault("qkey", self._qp["qkey"])
            values.setdefault("sqpn", self._values.peer_qpn)
        if self._values.srqs and not response:
            values.setdefault("srq", self._values.srqs.get("first", 0))
        frame = packet.encode(self._path, opcode, values)
        self._values.grh = frame[14:34] if frame[12:14] == b"\x08\x00" else frame[14:54]
        self.dialogue.append((self._time_ns, frame, "<"))
        self._device.send(frame)

    def _next_packet(self, latest_ns: int) -> Received | None:
        while not self._inbox and self._device.now_ns() < latest_ns:
            self._take_frames(latest_ns)
        if not self._inbox:
            self._catch_up()
        return self._inbox[0] if self._inbox else None

    def _expect(self, step: Step) -> None:
        latest_ns = self._time_ns + step.most_ns + self._device.late_ns
        received = self._next_packet(latest_ns)
        while received and (problems := self._differences(step, received)):
            if not self._is_allowed_late(received):
                came = "came " + self._teller.packet(received.decoded, received.time_ns)
                raise Mismatch("\n  ".join([*problems, came]))
            self._inbox.pop(0)
            received = self._next_packet(latest_ns)
        if received is None:
            raise Mismatch("no packet came")
        self._take(received)

    def _take(self, received: Received) -> None:
        self._inbox.pop(0)
        self._time_ns = received.time_ns
        self._may_seem_early_ns = max(self._device.early_ns, self._device.stall_ns)

    def _expect_perhaps(self, step: Step) -> None:
        latest_ns = self._time_ns + step.most_ns + self._device.linger_ns
        received = self._next_packet(latest_ns)
        early_is_fine = dataclasses.replace(step, least_ns=-(10**12))
        if received is not None and not self._differences(early_is_fine, received):
            self._take(received)
        elif self._device.linger_ns:
            self._still_allowed.append(early_is_fine)

    def _is_allowed_late(self, received: Received) -> bool:
        """Whether a step allowed the packet that had stopped looking for it: a busy machine's device
        may act after that. Once."""
        for step in self._still_allowed:
            if not self._differences(step, received):
                self._still_allowed.remove(step)
                return True
        return False

    def _drop_allowed(self) -> None:
        while self._inbox and self._is_allowed_late(self._inbox[0]):
            self._inbox.pop(0)

    def _differences(self, step: Step, received: Received) -> list[str]:
        values, problems = received.decoded.values, list(received.decoded.defects)
        name, fields = step.words[0], dict(step.fields)
        kind = _SHORT.get(name)
        opcode = packet.opcode_of("ACKNOWLEDGE" if kind else name, self._qp["type"])
        if received.decoded.opcode != opcode or (kind and values.get("kind") != kind):
            return [*problems, f"expected {name}"]
        after_ns = received.time_ns - self._time_ns
        if after_ns < step.least_ns - self._may_seem_early_ns:
            problems.append(f"came {after_ns / 1e6:.3f} ms after the last step, too early")
        if after_ns > step.most_ns + self._device.late_ns:
            problems.append(f"came {after_ns / 1e6:.3f} ms after the last step, too late")
        fields.setdefault("dqpn", "peer")
        fields.setdefault("se", "0")
        response = not packet.is_response(opcode)  # whose PSNs are those of our requests
        for key, text in fields.items():
            if key not in values:
                raise ValueError(f"{name} has no field {key}")
            choices = [self._values.field(key, choice, response) for choice in text.split("|")]
            if not any(choice in (ANYTHING, values[key]) for choice in choices):
                problems.append(f"expected {key}={text}, came {self._teller.field(key, values, response)}")
        return problems

    def _post(self, step: Step) -> None:
        if not self._post_request(step):
            raise Mismatch("the device refused the request")

    def _post_refused(self, step: Step) -> None:
        if self._post_request(step):
            raise Mismatch("the device took the request")

    def _post_request(self, step: Step) -> bool:
        name, opcode, *rest = step.words
        if opcode not in _OPCODES:
            raise ValueError(f"no such request: {opcode}")
        lists = [word for word in rest if word not in _POST_FLAGS]
        if len(lists) > 1:
            raise ValueError(f"flags are {', '.join(_POST_FLAGS)}")
        request = {"imm": 0, "inv": 0, "va": 0, "rkey": 0, "compare_add": 0, "swap": 0,
                   "qkey": self._qp["qkey"], "dqpn": None, "srq": 0}  # fmt: skip
        if opcode == "BIND_MW":
            request["bind"] = self._bind(lists.pop(), step.fields)
        for key, text in step.fields.items():
            if opcode == "BIND_MW" and key in ("of", "access"):
                continue
            if key not in _POST_FIELDS:
                raise ValueError(f"a request has no {key}")
            request[_POST_FIELDS[key]] = self._values.field(key, text)
        request |= {
            "wr_id": self._new_wr_id(name, receive=False), "opcode": _OPCODES[opcode],
            "elements": self._values.elements(lists[0] if lists else "empty", "bad_lkey" in rest),
            "fence": "fence" in rest, "solicited": "solicited" in rest, "inline": "inline" in rest,
            "signaled": "unsignaled" not in rest, "to_group": "to_group" in rest,
            "other_qp": "other_qp" in rest,
        }  # fmt: skip
        posted = self._device.call("post_send", **request)
        if "bind" in request:
            self._values.bound(request["bind"], posted["rkey"])
        return posted["ok"]

    def _bind(self, window: str, fields: dict[str, str]) -> dict:
        """`post b BIND_MW w of=data[100:200] access=write+read`; the key that w had is w_old then."""
        if window not in self._script.windows or "of" not in fields:
            raise ValueError("a bind is: post NAME BIND_MW WINDOW of=REGION[A:B] access=RIGHTS")
        (element,) = self._values.elements(fields["of"])
        return {"window": window, "region": element["region"], "offset": element["offset"],
                "length": element["length"],
                "access": access(fields.get("access", "write+read+atomic")) & ~1}  # fmt: skip

    def _recv(self, step: Step) -> None:
        name, elements = step.words
        bad_lkey = step.fields.pop("lkey", "") == "bad"
        posted = self._device.call("post_recv", wr_id=self._new_wr_id(name, receive=True),
                                   elements=self._values.elements(elements, bad_lkey),
                                   srq=step.fields.pop("srq", ""))  # fmt: skip
        if not posted["ok"]:
            raise Mismatch("the device refused the receive request")

    def _new_wr_id(self, name: str, receive: bool) -> int:
        if name in self._is_receive:
            raise ValueError(f"there is a request {name} already")
        self._is_receive[name] = receive
        self._wr_names.append(name)
        return len(self._wr_names) - 1

    def _poll(self) -> None:
        answer = self._device.call("poll")
        for completion in answer["completions"]:
            self._completions[completion["receive"]].append(completion)
        self._events += answer["events"]

    def _until(self, condition, latest_ns: int) -> bool:
        """Polls until `condition()` holds; False if it does not by then."""
        while True:
            self._take_frames(self._device.now_ns())
            self._poll()
            if condition():
                return True
            now_ns = self._device.now_ns()
            if now_ns >= latest_ns:
                return False
            self._take_frames(min(latest_ns, now_ns + max(1, (latest_ns - now_ns) // 8)))

    def _done(self, step: Step) -> None:
        name, status = step.words
        queue = self._completions[self._receives(name)]
        if not self._until(lambda: queue, self._time_ns + step.most_ns + self._device.late_ns):
            raise Mismatch(f"{name} did not complete")
        completion = queue[0]
        came = self._wr_names[completion["wr_id"]]
        if came != name:
            raise Mismatch(f"expected the completion of {name}, came that of {came}: {completion}")
        problems = []
        if completion["status"] not in status.split("|"):
            problems.append(f"expected status {status}, came {completion['status']}")
        for key, text in step.fields.items():
            value = completion.get(key, "none")
            is_word = key == "opcode" or text == "none"
            wanted = text if is_word else self._values.field(key, text)
            if value != wanted:
                problems.append(f"expected {key}={text}, came {value}")
        if problems:
            raise Mismatch("\n  ".join(problems))
        queue.pop(0)

    def _receives(self, name: str) -> bool:
        if name not in self._is_receive:
            raise ValueError(f"there is no request {name}")
        return self._is_receive[name]

    def _pending(self, step: Step) -> None:
        name = step.words[0]
        queue = self._completions[self._receives(name)]
        if self._until(lambda: queue, self._device.now_ns() + self._device.linger_ns):
            raise Mismatch(f"expected no completion, came {self._name_completion(queue[0])}")
        self._time_ns = self._device.now_ns()

    def _name_completion(self, completion: dict) -> str:
        return f"{self._wr_names[completion['wr_id']]} {completion['status']}"

    def _check_memory(self, step: Step) -> None:
        piece, text = step.words
        (element,) = self._values.elements(piece)
        region, start = element["region"], element["offset"]
        wanted, mask = self._values.bytes_of(text)
        if len(wanted) != element["length"]:
            raise ValueError(f"{piece} has {element['length']} bytes, {text} has {len(wanted)}")
        content = bytes.fromhex(self._device.call("memory", region=region)["content"])
        came = content[start : start + len(wanted)]
        for index, (one, other, counts) in enumerate(zip(wanted, came, mask, strict=True)):
            if (one ^ other) & counts:
                raise Mismatch(f"{region}[{start + index}] is 0x{other:02x}, expected 0x{one:02x}")
        self._memory[region][start : start + len(wanted)] = came

    def _check_state(self, step: Step) -> None:
        (self._state,) = step.words
        latest_ns = self._time_ns + self._device.late_ns
        if not self._until(lambda: self._state_now() == self._state, latest_ns):
            raise Mismatch(f"the queue pair is in {self._state_now()}")

    def _state_now(self) -> str:
        return self._device.call("state")["state"]

    def _modify(self, step: Step) -> None:
        (self._state,) = step.words
        self._device.call("modify", state=self._state)

    def _deregister(self, step: Step) -> None:
        self._device.call("deregister", region=step.words[0])

    def _event(self, step: Step) -> None:
        name = step.words[0]
        if not self._until(lambda: name in self._events, self._time_ns + self._device.late_ns):
            raise Mismatch(f"no event {name}; came {self._events}")
        self._events.remove(name)

    def _linger(self, least_ns: int = 0) -> None:
        self._wait_until(self._device.now_ns() + max(least_ns, self._device.linger_ns))
        self._catch_up()

    def _quiet(self, _step: Step) -> None:
        self._linger()
        self._time_ns = self._device.now_ns()
        self._drop_allowed()
        if self._inbox:
            raise Mismatch("came " + self._tell_next())

    def _finish(self) -> None:
        """What holds at the end of each script without being said."""
        self._linger(_END_NS)
        self._drop_allowed()
        if self._inbox:
            raise Mismatch("at the end, came " + self._tell_next())
        self._poll()
        for queue in self._completions.values():
            if queue:
                raise Mismatch("at the end, completed: " + self._name_completion(queue[0]))
        if (state := self._state_now()) != self._state:
            raise Mismatch(f"at the end, the queue pair is in {state}")
        for region, wanted in self._memory.items():
            came = bytes.fromhex(self._device.call("memory", region=region)["content"])
            for index, (one, other) in enumerate(zip(wanted, came, strict=True)):
                if one != other:
                    raise Mismatch(f"at the end, {region}[{index}] has changed")

    def _tell_next(self) -> str:
        return self._teller.packet(self._inbox[0].decoded, self._inbox[0].time_ns)

    def _story(self, step: Step | None, problem: str) -> str:
        where = f"{self._script.path}:{step.line}: {step.text}" if step else f"{self._script.path}"
        lines = [where, "  " + problem, *self._teller.dialogue(self.dialogue)]
        counted = " ".join(f"{name}={value - self._counters.get(name, 0)}"
                           for name, value in device_counters(self._device).items()
                           if value != self._counters.get(name, 0))  # fmt: skip
        return "\n".join([*lines, f"  counters: {counted or 'none'}"])


def device_counters(device: Device) -> dict[str, int]:
    return device.call("counters")["counters"]
