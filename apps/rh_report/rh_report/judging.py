# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs the capture checker in a process of its own, while this one reads the same capture into columns."""

import multiprocessing
import signal
from dataclasses import dataclass, field

from judge import checker, survey
from judge.capture import CaptureError

_FORK = multiprocessing.get_context('fork')


@dataclass
class Judgement:
    """What the checker says; `problem` when it could not judge."""

    violations: list = field(default_factory=list)
    counts: dict = field(default_factory=dict)
    traits: list = field(default_factory=list)
    flows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    connections: list = field(default_factory=list)
    dynamic: dict = field(default_factory=dict)
    locks: dict = field(default_factory=dict)
    problem: str = ''


class Judge:
    def __init__(self, path, options):
        self._pipe, far = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(target=_judge, args=(path, options, far), daemon=True)
        self._process.start()
        far.close()
        self._early = None

    def _next(self):
        try:
            return self._pipe.recv()
        except EOFError:
            return 'verdict', Judgement(problem='the checker ended before it had judged the capture')

    def pairs(self):
        """What the first pass found out: which flow answers which, and path MTUs. Raises CaptureError."""
        kind, value = self._next()
        if kind == 'verdict':
            self._early = value
            return {}, {}
        if kind == 'error':
            raise CaptureError(value)
        return value

    def verdict(self):
        if self._early is not None:
            return self._early
        kind, value = self._next()
        return Judgement(problem=value) if kind == 'error' else value

    def close(self):
        # It has nothing to put in order, and may not have come to set its signals.
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _judge(path, options, pipe):
    # Who interrupts means the program, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def surveyed(overview):
        if overview.roce == 0:
            return
        mtus = {}
        for key, flow in overview.flows.items():
            other = overview.answers.get(key)
            flows = [flow] if other is None else [flow, overview.flows[other]]
            mtus[key] = survey.path_mtu(flows, options)
        pipe.send(('pairs', (dict(overview.answers), mtus)))

    try:
        verdict = checker.check(path, options, surveyed)
        report = verdict.report
        pipe.send(('verdict', Judgement(
            report.violations, dict(report.counts), list(report.traits.values()), verdict.flows, report.notes,
            verdict.connections, verdict.dynamic, verdict.locks)))
    except CaptureError as error:
        pipe.send(('error', str(error)))
    except OSError as error:
        pipe.send(('error', error.strerror or str(error)))
