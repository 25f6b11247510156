# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Help in the form that all programs of the project have, from which manual pages are made."""

import argparse
import textwrap
from typing import NoReturn

_WIDTH = 80


class Parser(argparse.ArgumentParser):
    """Its help has an option's names and argument on one line, and what it does below."""

    def __init__(self, program: str, summary: str, sections: dict[str, str]):
        super().__init__(prog=program, description=summary)
        self._sections = sections

    def error(self, message: str) -> NoReturn:
        """A mistake is one line that says how to go on, as in the other programs."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def format_help(self) -> str:
        options = [action for action in self._actions if action.option_strings]
        positionals = [action for action in self._actions if not action.option_strings]
        names = "".join(f" {_positional(action)}" for action in positionals)
        parts = [
            textwrap.fill(self.description or "", _WIDTH) + "\n",
            f"USAGE\n  {self.prog} [options]{names}\n",
        ]
        for title, actions in (("Positionals", positionals), ("Options", options)):
            if actions:
                parts.append(title + "\n" + "".join(_entry(action) for action in actions))
        parts += [f"{title}\n{text}" for title, text in self._sections.items()]
        return "\n".join(parts)


def _positional(action: argparse.Action) -> str:
    name = action.metavar or action.dest
    return f"{name}..." if action.nargs in ("*", "+") else str(name)


def _entry(action: argparse.Action) -> str:
    if action.option_strings:
        head = ", ".join(action.option_strings)
        if action.nargs != 0:
            head += " " + str(action.metavar or ("N" if action.type is int else "NAME"))
    else:
        head = _positional(action)
    text = action.help or ""
    if action.choices is not None:
        # The default, if any, stands in the same parentheses behind the values.
        values = "{" + ",".join(str(choice) for choice in action.choices) + "}"
        before, bracket, default = text.rpartition(" (default ")
        text = f"{before} ({values}; default {default}" if bracket else f"{text} ({values})"
    lines = textwrap.fill(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6,
                          break_on_hyphens=False)  # fmt: skip
    return f"  {head}\n{lines}\n"
