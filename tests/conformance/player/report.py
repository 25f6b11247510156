# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Which clause is held by which code and proved by which scripts: checks it, and writes it down."""

import json
import pathlib
import re

from .script import Deviation, Script

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLAUSES = ROOT / "tests/conformance/clauses.json"
PAGE = ROOT / "docs/conformance.md"
_BEGIN, _END = "<!-- written by tests/conformance/run.py --write-docs -->", "<!-- end -->"


def problems(scripts: list[Script]) -> list[str]:
    """What does not fit together between scripts, clauses.json, the code and the page."""
    rows = json.loads(CLAUSES.read_text())
    names = [row["clause"] for row in rows]
    found = [f"clauses.json has {name} twice" for name in set(names) if names.count(name) > 1]
    used = {clause for script in scripts for clause in script.clauses}
    for script in scripts:
        found += [f"{script.name}: clauses.json has no clause {clause}"
                  for clause in script.clauses if clause not in names]  # fmt: skip
    for row in rows:
        found += _row_problems(row, row["clause"] in used)
    if not found and PAGE.read_text() != page(scripts):
        found.append("docs/conformance.md is not up to date: tests/conformance/run.py --write-docs")
    return found


def _row_problems(row: dict, used: bool) -> list[str]:
    name = row["clause"]
    if "left_out" in row:
        return [f"{name} is left out, and a script names it"] if used else []
    found = [] if used else [f"no script names {name}"]
    for place in row["code"]:
        file, _, symbol = place.partition(" ")
        path = ROOT / file
        if not path.exists() or not re.search(rf"\b{symbol}\b", path.read_text()):
            found.append(f"{name}: there is no {place}")
    return found


def page(scripts: list[Script]) -> str:
    """The page with its tables as they should be."""
    text = PAGE.read_text()
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n\n{_tables(scripts)}\n{_END}{tail}"


def write(scripts: list[Script]) -> None:
    PAGE.write_text(page(scripts))


def _tables(scripts: list[Script]) -> str:
    rows = json.loads(CLAUSES.read_text())
    lines = [f"{len(scripts)} scripts.", ""]
    lines += ["| clause | subject | code | scripts |", "|---|---|---|---|"]
    for row in rows:
        if "left_out" not in row:
            proofs = [script.name for script in scripts if row["clause"] in script.clauses]
            code = ", ".join(f"`{place.replace(' ', '` ')}" + ("" if " " in place else "`")
                             for place in row["code"])  # fmt: skip
            lines.append(f"| {row['clause']} | {row['title']} | {code} | {_grouped(proofs)} |")
    lines += ["", "### Left out", "", "| clause | subject | why |", "|---|---|---|"]
    lines += [f"| {row['clause']} | {row['title']} | {row['left_out']} |" for row in rows
              if "left_out" in row]  # fmt: skip
    lines += ["", "### Deviations", ""]
    lines += ["| device | script | what it does | seen as |", "|---|---|---|---|"]
    lines += sorted(f"| {device} | {script.name} | {known.text} | {_seen_as(known)} |"
                    for script in scripts for device, known in script.deviations.items())  # fmt: skip
    lines += ["", "### Not played", "", "| device | script | why |", "|---|---|---|"]
    lines += sorted(f"| {device} | {script.name} | {text} |"
                    for script in scripts for device, text in script.skips.items())  # fmt: skip
    return "\n".join(lines) + "\n"


def _seen_as(known: Deviation) -> str:
    return " or ".join(f"`{part}`" for part in known.mismatches)


def _grouped(names: list[str]) -> str:
    """`responder/send/: only, empty; header/: icrc`."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folder, _, last = name.rpartition("/")
        folders.setdefault(folder, []).append(last)
    return "; ".join(f"{folder}/ {', '.join(lasts)}" for folder, lasts in folders.items())
