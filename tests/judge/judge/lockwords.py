# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Lock words of targets: who holds them by what the targets say, and with which fencing tokens.

What is sure wherever the capture was taken: an acquire that was not seen yet is not granted yet,
and from a grant until the release is seen the lock is held. The rules that end with "order" take
the order in which the target's answers were sent for the order in which it decided.
"""

from bisect import bisect_left

from .frame import Frame
from .lockformat import Word
from .locklog import Entry
from .report import Report

_MOST_HOLDS = 256  # that are remembered: those of initiators that died are never released


class _Hold:
    def __init__(self, acquire: Entry, shared: bool, frame: Frame):
        self.acquire, self.shared, self.frame = acquire, shared, frame.number
        # By the rule that it breaks, the first grant to another meanwhile. It does if the lock is
        # released by its owner after all: if not, the lease had ended.
        self.doubts: dict[str, Frame] = {}


class _State:
    """Of one word."""

    def __init__(self) -> None:
        self.holds: list[_Hold] = []
        self.tokens: set[int] = set()
        self.grants: list[int] = []  # frames with grants
        self.highest: list[int] = []  # token up to there


def _release_came(acquire: Entry) -> bool:
    return acquire.release is not None and acquire.release.came


class LockWords:
    def __init__(self, report: Report):
        self._report = report
        self._states: dict[tuple[bytes, int, int], _State] = {}  # target's address, R_Key, address

    def on_granted(self, frame: Frame, acquire: Entry, token: int) -> None:
        """The first answer to an acquire. Of several words the token is the first one's; what a
        foreign word says is not known."""
        words = acquire.lock.words
        if token or not acquire.lock.is_foreign:
            self._check_token(frame, acquire, token, self._state(frame.src, words[0]))
        if acquire.lock.is_foreign:
            return
        for word in words:
            holds = self._state(frame.src, word).holds
            for hold in holds:
                if not (hold.shared and word.shared):
                    is_sure = not (_release_came(hold.acquire) or _release_came(acquire))
                    rule = "lock-owner" if is_sure else "lock-owner-order"
                    hold.doubts.setdefault(rule, frame)
            holds.append(_Hold(acquire, word.shared, frame))
            del holds[:-_MOST_HOLDS]

    def on_release(self, target: bytes, acquire: Entry, was_owner: bool) -> None:
        """The first answer to a release."""
        for word in acquire.lock.words:
            state = self._state(target, word)
            ended = [hold for hold in state.holds if hold.acquire is acquire]
            state.holds = [hold for hold in state.holds if hold.acquire is not acquire]
            for hold in ended:
                for rule, frame in hold.doubts.items() if was_owner else ():
                    self._report.add(
                        rule,
                        frame,
                        f"granted, the lock word {word.va:#x} has an owner (frame {hold.frame}) "
                        "that has released it since",
                    )

    def _check_token(self, frame: Frame, acquire: Entry, token: int, state: _State) -> None:
        before = bisect_left(state.grants, acquire.first_frame)  # grants that were sent before
        sure = state.highest[before - 1] if before else -1
        highest = state.highest[-1] if state.highest else -1
        if token in state.tokens or token <= sure:
            self._report.add("lock-token", frame, f"token {token}, it was {sure} before")
        elif token < highest:
            self._report.add("lock-token-order", frame, f"token {token} after {highest}")
        state.tokens.add(token)
        state.grants.append(frame.number)
        state.highest.append(max(token, highest))

    def _state(self, target: bytes, word: Word) -> _State:
        return self._states.setdefault((target, word.rkey, word.va), _State())
