# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Two processors of a virtual machine that are near each other, or not for now."""

import json
import time

from lab.processes import processors

# A host moves virtual processors between its cores; what they exchange may then take five times as
# long, for seconds or minutes.
FAR = 1.6
PATIENCE_S = 600  # of a whole run
TRIES = 5
LOOKS_FIRST = 10


class Cores:
    """How long a cache line takes between the processors that the measurements use."""

    def __init__(self, lab, program, patient):
        self.lab = lab
        self.program = program
        self.seen_ns = []
        self.repeated = 0
        self.patience_s = PATIENCE_S
        if patient and len(set(processors())) == 2:
            for _ in range(LOOKS_FIRST):
                self._look()
                time.sleep(0.2)

    def while_near(self, run):
        """The result of `run()`, repeated where the processors moved apart meanwhile. When patience
        is at its end it counts as it is: this machine is then no better."""
        if not self.seen_ns:
            return run()
        for attempt in range(1, TRIES + 1):
            self._wait()
            start = time.monotonic()
            result = run()
            if self._near() or self.patience_s <= 0 or attempt == TRIES:
                return result
            self.patience_s -= time.monotonic() - start
            self.repeated += 1

    def _wait(self):
        while self.patience_s > 0 and not self._near():
            time.sleep(0.5)
            self.patience_s -= 0.5

    def _near(self):
        return self._look() <= FAR * min(self.seen_ns)

    def _look(self):
        probe = self.lab.start('core-distance', [self.program, *processors()])
        probe.expect_success(30)
        self.seen_ns.append(json.loads(probe.output())['round_trip_ns'])
        return self.seen_ns[-1]
