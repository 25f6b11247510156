# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Collects violations, and lets through only those which the options ask for."""

from collections import Counter
from typing import NamedTuple

from .frame import Frame, address
from .options import Options
from .rules import RULES

_MAX_STORED = 10_000  # all are counted; a broken device would fill the memory


class Violation(NamedTuple):
    frame: int
    time_ns: int
    rule: str
    source: str
    destination: str
    qpn: int  # destination QPN of the frame
    message: str


class Trait(NamedTuple):
    """What is unusual about a flow, and breaks no rule."""

    frame: int  # the first
    trait: str  # a rule that is one
    source: str
    destination: str
    qpn: int
    message: str


class Report:
    """The findings in one capture."""

    def __init__(self, options: Options):
        self._options = options
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self.traits: dict[tuple[str, bytes, bytes, int], Trait] = {}

    def add(self, rule_id: str, frame: Frame, message: str) -> None:
        """Records that the sender of `frame` broke a rule with it."""
        self._add(rule_id, frame, frame.src, frame.dst, frame.dqpn, message)

    def add_omission(self, rule_id: str, frame: Frame, message: str) -> None:
        """Records that the receiver of `frame` broke a rule by not answering it."""
        self._add(rule_id, frame, frame.dst, frame.src, frame.dqpn, message)

    def _add(
        self, rule_id: str, frame: Frame, offender: bytes, other: bytes, qpn: int, message: str
    ) -> None:
        options = self._options
        if rule_id in options.ignore or not options.judges(offender):
            return
        rule = RULES[rule_id]
        if rule.needs_view and not options.sees_all_of(offender):
            return
        if rule.is_trait and not options.strict:
            key = rule_id, offender, other, qpn
            if key not in self.traits:
                self.traits[key] = Trait(
                    frame.number, rule_id, address(offender), address(other), qpn, message
                )
            return
        self.counts[rule_id] += 1
        if len(self.violations) < _MAX_STORED:
            self.violations.append(
                Violation(
                    frame.number, frame.time_ns, rule_id, address(offender), address(other), qpn,
                    message,
                )  # fmt: skip
            )

    @property
    def total(self) -> int:
        return sum(self.counts.values())
