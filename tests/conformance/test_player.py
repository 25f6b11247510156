# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the runner says of scripts that cannot be understood, and of devices that do otherwise."""

import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import run
from player import script
from player.device import Simulated
from player.play import Mismatch, Player

RUN = pathlib.Path(__file__).resolve().parent / "run.py"
PROGRAM = pathlib.Path(os.environ.get("ROCKHOPPER_BUILD", ""), "tests/conformance/conformance-sim")
HEAD = "# clause: 9.7.2\n# rule: A script of this test.\n"
GOOD = "+0 recv r data[0:10]\n+0 < SEND_ONLY psn=0 payload=x[0:10]\n+0 > ACK psn=0 msn=1\n"
END = "+0 done r success length=10\n+0 memory data[0:10] x[0:10]\n"


class Runs(unittest.TestCase):
    """Runs scripts that are made here, as a user would."""

    def run_script(self, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "one.pkt").write_text(text)
            return subprocess.run([sys.executable, RUN, "--folder", folder, *options], text=True,
                                  capture_output=True, check=False, timeout=120)  # fmt: skip

    def assert_refused(self, text, line, reason):
        result = self.run_script(text)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn(f"one.pkt:{line}: ", result.stderr)
        self.assertIn(reason, result.stderr)

    def assert_fails(self, text, *said):
        result = self.run_script(text)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^0 passed, 1 failed, 0 skipped$")
        for words in said:
            self.assertIn(words, result.stdout)


class Words(Runs):
    def test_good(self):
        result = self.run_script(HEAD + GOOD + END)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, r"(?m)^1 passed, 0 failed, 0 skipped$")

    def test_unknown_action(self):
        self.assert_refused(HEAD + "+0 jump\n", 3, "no such action")

    def test_bad_time(self):
        self.assert_refused(HEAD + "+5min quiet\n", 3, "'5min' is no time")

    def test_range_ends_before_it_begins(self):
        self.assert_refused(HEAD + "+5ms..1ms > ACK psn=0\n", 3, "ends before it begins")

    def test_range_of_an_action(self):
        self.assert_refused(HEAD + "+0..1ms post s SEND empty\n", 3, "only what is expected")

    def test_field_twice(self):
        self.assert_refused(HEAD + "+0 < SEND_ONLY psn=0 psn=1\n", 3, "each key comes once")

    def test_unknown_head(self):
        self.assert_refused("# clauses: 9.7.2\n" + HEAD, 1, "the head has clause, rule")

    def test_declaration_too_late(self):
        self.assert_refused(HEAD + GOOD + "mr data 100\n", 6, "before the first step")

    def test_long_line(self):
        self.assert_refused(HEAD + "+0 recv r data[0:10]" + " " * 100 + "\n", 3, "longer than 100")

    def test_no_rule(self):
        result = self.run_script("# clause: 9.7.2\n" + GOOD)
        self.assertEqual(result.returncode, 2)
        self.assertIn("has no rule", result.stderr)

    def test_unknown_packet(self):
        self.assert_fails(HEAD + "+0 < SEND_SOMETHING psn=0\n", "one.pkt:3:", "no such packet")

    def test_unknown_field(self):
        self.assert_fails(HEAD + GOOD.replace("msn=1", "color=1"), "ACK has no field color")

    def test_outside_of_a_region(self):
        self.assert_fails(HEAD + "+0 recv r data[0:9000]\n", "lies outside of the region")

    def test_unknown_request(self):
        self.assert_fails(HEAD + "+0 done r success\n", "there is no request r")


class Mismatches(Runs):
    def test_field(self):
        self.assert_fails(HEAD + GOOD.replace("msn=1", "msn=2") + END, "one.pkt:5: +0 > ACK",
                          "expected msn=2, came 1", "RC_ACKNOWLEDGE")  # fmt: skip

    def test_no_packet(self):
        self.assert_fails(HEAD + GOOD + "+0 > ACK psn=1\n" + END, "one.pkt:6:", "no packet came")

    def test_packet_too_many(self):
        self.assert_fails(HEAD + GOOD.replace("+0 > ACK psn=0 msn=1\n", "") + END, "at the end, came")

    def test_completion_too_many(self):
        self.assert_fails(HEAD + GOOD + "+0 memory data[0:10] x[0:10]\n", "completed: r success")

    def test_memory(self):
        self.assert_fails(HEAD + GOOD + "+0 done r success\n", "data[0] has changed")

    def test_state(self):
        self.assert_fails(HEAD + GOOD + END + "+0 state err\n", "the queue pair is in rts")

    def test_deviation_that_is_none(self):
        self.assert_fails(HEAD + "# deviation sim [no packet came]: waits\n" + GOOD + END,
                          "does not deviate any more")  # fmt: skip

    def test_other_deviation(self):
        self.assert_fails(HEAD + "# deviation sim [no packet came]: waits\n"
                          + GOOD.replace("msn=1", "msn=2") + END, "expected msn=2")  # fmt: skip

    def test_one_of_two_deviations(self):
        result = self.run_script(HEAD + "# deviation sim [no packet came or expected msn=2]: counts\n"
                                 + GOOD.replace("msn=1", "msn=2") + END)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("1 passed, 0 failed, 0 skipped", result.stdout)

    def test_skip(self):
        result = self.run_script(HEAD + "# skip sim: for a test\n" + GOOD + END)
        self.assertEqual(result.returncode, 0)
        self.assertIn("0 passed, 0 failed, 1 skipped", result.stdout)


class Tardy(Simulated):
    """Nothing that it sends is seen before it has got two packets."""

    linger_ns = 1_000
    packets_seen = 0

    def __init__(self):
        self.held = []
        super().__init__(str(PROGRAM))

    def send(self, frame):
        self.packets_seen += 1
        super().send(frame)

    def advance(self, until_ns):
        self.held += [frame for _, frame in super().advance(until_ns)]
        if self.packets_seen < 2:
            return []
        frames, self.held = self.held, []
        return [(self.now_ns(), frame) for frame in frames]


class LatePackets(unittest.TestCase):
    """What may come at one step, and comes behind it, as from a guest on a busy machine."""

    PERHAPS = "+0 >? ACK psn=0 msn=1\n"
    # A receive that is posted later makes the device tell its credits.
    BEGIN = "+0 recv r data[0:10]\n+0 recv s data[10:20]\n+0 < SEND_ONLY psn=0 payload=x[0:10]\n"
    END = ("+0 < SEND_ONLY psn=1 payload=x[0:10]\n+0 > ACK psn=1 msn=2\n"
           "+0 done r success\n+0 done s success\n+0 memory data[0:10] x[0:10]\n"
           "+0 memory data[10:20] x[0:10]\n")  # fmt: skip

    def play(self, allowed):
        text = HEAD + self.BEGIN + allowed + self.END
        device = Tardy()
        self.addCleanup(device.close)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "one.pkt")
            path.write_text(text)
            Player(script.parse(path, path.parent), device, 1, False).play()

    def test_is_still_allowed(self):
        self.play(self.PERHAPS)

    def test_is_not_another_packet(self):
        with self.assertRaisesRegex(Mismatch, "expected psn=1, came 0"):
            self.play(self.PERHAPS.replace("msn=1", "msn=7"))

    def test_is_not_what_no_step_allowed(self):
        with self.assertRaisesRegex(Mismatch, "expected psn=1, came 0"):
            self.play("")


class Dawdling(Simulated):
    """More time passes than it was told to let pass: the machine is busy."""

    def advance(self, until_ns):
        return super().advance(until_ns + 10_000_000)


class StoodStill(Simulated):
    """Its machine did not run for a while."""

    def watch(self):
        return contextlib.nullcontext(types.SimpleNamespace(longest_s=0.01))


class Repetitions(unittest.TestCase):
    """A failure says nothing where the player's own steps came too late, or nothing ran."""

    TEXT = HEAD + "+1ms recv r data[0:10]\n+1ms < SEND_ONLY psn=0 payload=x[0:10]\n"
    GOOD = "+0..1s > ACK psn=0 msn=1\n+0 done r success\n+0 memory data[0:10] x[0:10]\n"

    def times_played(self, kind, text, word):
        device = kind(str(PROGRAM))
        self.addCleanup(device.close)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "one.pkt")
            path.write_text(self.TEXT + text)
            parsed = script.parse(path, path.parent)
        arguments = argparse.Namespace(seed=1, ipv6=False, pcap=None)
        with mock.patch.object(run, "Player", wraps=Player) as player, \
                contextlib.redirect_stdout(io.StringIO()):
            got, story = run.outcome(parsed, device, arguments)
            self.assertEqual(got, word, story)
        return player.call_count

    def test_a_failure_in_time_counts(self):
        self.assertEqual(self.times_played(Simulated, "+5ms quiet\n", "failed"), 1)

    def test_a_late_failure_is_played_again(self):
        self.assertEqual(self.times_played(Dawdling, "+5ms quiet\n", "failed"), run.ATTEMPTS)

    def test_a_failure_on_a_machine_that_stood_still_is_played_again(self):
        self.assertEqual(self.times_played(StoodStill, "+5ms quiet\n", "failed"), run.ATTEMPTS)

    def test_what_passes_late_has_passed(self):
        self.assertEqual(self.times_played(Dawdling, self.GOOD, "passed"), 1)


if __name__ == "__main__":
    if not os.environ.get("ROCKHOPPER_BUILD"):
        sys.exit("ROCKHOPPER_BUILD names the build folder")
    unittest.main(verbosity=2)
