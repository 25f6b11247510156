# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Scripts that must fail: each is a good one with a single expectation changed.

A script whose every wrong variant fails on a device that passes the right one does look at what it
names. Variants whose change only takes away a fault (a wrong ICRC, a foreign P_Key) show that
silence was expected because of that fault.
"""

import copy
import re
from typing import Iterator

from .script import Script, Step

_FAULTS = ("icrc", "tver", "pkey", "dqpn", "src", "cut", "qkey")
_LATER_NS = 1_000_000


def variants(script: Script) -> Iterator[tuple[str, Script]]:
    """(what was changed, the changed script)."""
    if script.qp.get("state") == "init":
        variant = copy.deepcopy(script)
        variant.qp["state"] = "rts"
        yield "in RTS", variant
    for index, step in enumerate(script.steps):
        if step.action == ">" and step.most_ns == 0 and not _comes_again(step, script):
            variant = copy.deepcopy(script)
            del variant.steps[index]
            yield f"line {step.line} ({step.text}): not expected", variant
        following = script.steps[index + 1].action if index + 1 < len(script.steps) else ""
        for what, changed in [*_changes(step), *_mended(step, script.qp["type"], following)]:
            variant = copy.deepcopy(script)
            if changed is None:
                del variant.steps[index]
            else:
                variant.steps[index] = changed
            yield f"line {step.line} ({step.text}): {what}", variant


def _changes(step: Step) -> Iterator[tuple[str, Step | None]]:
    if step.action == ">" and step.least_ns > 0:
        yield "expected later", _with(step, least_ns=step.most_ns + _LATER_NS,
                                      most_ns=step.most_ns + 2 * _LATER_NS)  # fmt: skip
    if step.action in (">", "done"):
        for key, text in step.fields.items():
            if text != "*":
                fields = step.fields | {key: _other(key, text)}
                yield f"{key}={fields[key]}", _with(step, fields=fields)
    if step.action == "done":
        status = "loc_qp_op_err" if "success" in step.words[1] else "success"
        yield status, _with(step, words=[step.words[0], status])
    if step.action == "memory":
        other = _other("payload", step.words[1])
        yield other, _with(step, words=[step.words[0], other])
    if step.action in ("state", "event"):
        other = {"rts": "err"}.get(step.words[0], "rts")
        yield other, _with(step, words=[other])
    if step.action in ("post", "modify"):
        yield "not done", None
    if step.action == "refused":
        yield "not refused", _with(step, action="post")


def _comes_again(step: Step, script: Script) -> bool:
    """Without the expectation, the script may be the dialogue of a device that sent it once."""
    return any(other is not step and other.action in (">", ">?") and other.words == step.words
               and other.fields.get("psn") == step.fields.get("psn")
               for other in script.steps)  # fmt: skip


def _mended(step: Step, service: str, following: str) -> Iterator[tuple[str, Step]]:
    """A packet that is to be dropped for its fault, without the fault."""
    faults = [key for key in _FAULTS if key in step.fields and (key != "qkey" or service == "ud")
              and not (key == "dqpn" and step.fields.get("dst") == "group")]  # as it must be there
    if step.action == "<" and faults and following in ("quiet", "pending"):
        fields = {key: text for key, text in step.fields.items() if key not in faults}
        yield "without its fault", _with(step, fields=fields)


def _with(step: Step, **changes) -> Step:
    changed = copy.deepcopy(step)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _other(key: str, text: str) -> str:
    """A value that is certainly not meant by `text`."""
    if key == "payload":
        return _other_content(text)
    if key == "kind":
        return "nak" if text != "nak" else "ack"
    if key == "code":
        return "rd"
    if key == "opcode":
        return "send" if text != "send" else "recv"
    if text in ("none", "peer") or not text.split("|")[0].lstrip("-")[0].isdigit():
        return "1" if text == "none" else "0"
    return "|".join(hex(int(choice, 0) + 1) for choice in text.split("|"))


def _other_content(text: str) -> str:
    if text == "empty":
        return "zeros:4"
    if text == "grh":
        return "zeros:40"
    if text.startswith("u64:"):
        return f"u64:{int(text[4:], 0) ^ 1}"
    return re.sub(r"(\w+\[)", r"~\1", text)
