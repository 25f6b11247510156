# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Reads a script: its head, and its steps from top to bottom. Knows words, not their meaning."""

import dataclasses
import pathlib
import re

_UNITS = {"": 1, "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|)$")
_HEAD = re.compile(r"# (clause|rule|deviation ([\w.-]+) \[(.+?)\]|skip ([\w.-]+)): (.*)$")
_COLUMNS = 100
ACTIONS = {  # number of words that are no KEY=VALUE: at least, at most
    "<": (1, 1), ">": (1, 1), ">?": (1, 1), "post": (2, 8), "refused": (2, 8), "recv": (2, 2),
    "done": (2, 2), "pending": (1, 1), "memory": (2, 2), "state": (1, 1), "modify": (1, 1),
    "deregister": (1, 1), "event": (1, 1), "quiet": (0, 0),
}  # fmt: skip


# Among the mismatches of a deviation: the device does not always deviate.
MAY_PASS = "none"


class ScriptError(Exception):
    """A script that cannot be understood: file, line and reason."""


@dataclasses.dataclass
class Step:
    """One line that happens at a time: `least_ns` to `most_ns` after the step before it."""

    line: int
    text: str
    least_ns: int
    most_ns: int
    action: str
    words: list[str]
    fields: dict[str, str]


@dataclasses.dataclass
class Deviation:
    """What a device is known to do, and what the runner says when it does: one of several."""

    text: str
    mismatches: list[str]  # parts of it


@dataclasses.dataclass
class Script:
    path: pathlib.Path
    name: str  # relative to the folder of all scripts, without suffix
    clauses: list[str] = dataclasses.field(default_factory=list)
    rule: str = ""
    deviations: dict[str, Deviation] = dataclasses.field(default_factory=dict)
    skips: dict[str, str] = dataclasses.field(default_factory=dict)
    qp: dict[str, str] = dataclasses.field(default_factory=lambda: {"type": "rc"})
    regions: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    windows: dict[str, str] = dataclasses.field(default_factory=dict)  # name -> type
    steps: list[Step] = dataclasses.field(default_factory=list)


def parse_time(text: str) -> int:
    match = _TIME.match(text)
    if not match:
        raise ValueError(f"'{text}' is no time: write 0, 10us, 4.1ms or 1s")
    return round(float(match.group(1)) * _UNITS[match.group(2)])


def _fields(words: list[str]) -> tuple[list[str], dict[str, str]]:
    plain, fields = [], {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            plain.append(word)
        elif not value or key in fields:
            raise ValueError(f"'{word}': a field is KEY=VALUE, and each key comes once")
        else:
            fields[key] = value
    return plain, fields


def _step(number: int, text: str) -> Step:
    time, *words = text.split()
    least, _, most = time[1:].partition("..")
    least_ns = parse_time(least)
    most_ns = parse_time(most) if most else least_ns
    if most_ns < least_ns:
        raise ValueError(f"'{time}' ends before it begins")
    if not words or words[0] not in ACTIONS:
        raise ValueError(f"no such action; there are {' '.join(ACTIONS)}")
    plain, fields = _fields(words[1:])
    low, high = ACTIONS[words[0]]
    if not low <= len(plain) <= high:
        raise ValueError(f"{words[0]} takes {low} to {high} words besides KEY=VALUE")
    if most and words[0] not in (">", ">?", "done"):
        raise ValueError("only what is expected has a range of time")
    return Step(number, text, least_ns, most_ns, words[0], plain, fields)


def _declaration(script: Script, text: str) -> None:
    words, fields = _fields(text.split())
    if script.steps:
        raise ValueError(f"{words[0]} comes before the first step")
    if words[0] == "qp" and len(words) == 2:
        script.qp = {"type": words[1], **fields}
    elif words[0] == "mr" and len(words) == 3 and words[1] not in script.regions:
        script.regions[words[1]] = {"length": words[2], **fields}
    elif words[0] == "mw" and len(words) == 2 and set(fields) == {"type"}:
        script.windows[words[1]] = fields["type"]
    else:
        raise ValueError("expected: qp TYPE KEY=VALUE..., mr NAME LENGTH KEY=VALUE..., "
                         "mw NAME type=1|2 or a step")


def _head(script: Script, text: str) -> None:
    match = _HEAD.match(text)
    if not match:
        raise ValueError("the head has clause, rule, deviation DEVICE [MISMATCH], "
                         "skip DEVICE; a MISMATCH may be several, with 'or' between them")
    key, deviates, mismatch, skips, value = match.groups()
    if key == "clause":
        script.clauses += [clause.strip() for clause in value.split(";")]
    elif key == "rule":
        script.rule = value
    elif deviates:
        script.deviations[deviates] = Deviation(value, mismatch.split(" or "))
    else:
        script.skips[skips] = value


def _lines(path: pathlib.Path) -> list[tuple[int, str]]:
    """Numbers and texts; a comment that is indented goes on with the one before it."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > _COLUMNS:
            raise ScriptError(f"{path}:{number}: longer than {_COLUMNS} columns")
        if line.startswith("#  ") and lines:
            lines[-1] = lines[-1][0], f"{lines[-1][1]} {line[1:].strip()}"
        else:
            lines.append((number, line))
    return lines


def parse(path: pathlib.Path, folder: pathlib.Path) -> Script:
    """Raises ScriptError."""
    script = Script(path, str(path.relative_to(folder).with_suffix("")))
    for number, line in _lines(path):
        text = line.split(" # ")[0].strip()
        try:
            if text.startswith("#"):
                _head(script, text)
            elif text.startswith("+"):
                script.steps.append(_step(number, text))
            elif text:
                _declaration(script, text)
        except ValueError as error:
            raise ScriptError(f"{path}:{number}: {text}\n  {error}") from None
    for what, there in (("clause", script.clauses), ("rule", script.rule), ("steps", script.steps)):
        if not there:
            raise ScriptError(f"{path}: has no {what}")
    script.regions = script.regions or {"data": {"length": "8192"}}
    return script


def find(folder: pathlib.Path, patterns: list[str]) -> list[Script]:
    """The scripts below `folder` whose names begin with one of the patterns; all without any."""
    found = []
    for path in sorted(folder.rglob("*.pkt")):
        name = str(path.relative_to(folder).with_suffix(""))
        if not patterns or any(name.startswith(pattern) for pattern in patterns):
            found.append(parse(path, folder))
    return found
