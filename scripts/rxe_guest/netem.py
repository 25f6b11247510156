# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Impairments of a guest's network device with netem (man tc-netem), on the way out and in."""

import dataclasses

_LIMIT_PACKETS = 20000  # netem's default queue of 1000 would drop a deep window by itself


@dataclasses.dataclass
class Impairment:
    """Percentages 0 to 100; times in milliseconds.  Reordering needs a delay to jump over."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0

    def arguments(self):
        """What follows "netem" on tc's command line."""
        words = [f"limit {_LIMIT_PACKETS}"]
        delay_ms = self.delay_ms or (0.5 if self.reorder else 0.0)
        if delay_ms:
            words.append(f"delay {delay_ms}ms" + (f" {self.jitter_ms}ms" if self.jitter_ms else ""))
        for name in ("loss", "duplicate", "corrupt", "reorder"):
            if value := getattr(self, name):
                words.append(f"{name} {value}%")
        return " ".join(words)


def commands(device, impairment, direction="both"):
    """Shell commands that impair `device` anew; direction is "out", "in" or "both"."""
    ifb = "ifb-" + device
    result = clear_commands(device)
    if direction in ("out", "both"):
        result.append(f"tc qdisc add dev {device} root netem {impairment.arguments()}")
    if direction in ("in", "both"):
        # Only outgoing traffic has a queue: what comes in is first turned round through an ifb.
        result += [
            f"ip link add {ifb} type ifb",
            f"ip link set {ifb} mtu 9000 up",
            f"tc qdisc add dev {ifb} root netem {impairment.arguments()}",
            f"tc qdisc add dev {device} clsact",
            f"tc filter add dev {device} ingress matchall action mirred egress redirect dev {ifb}",
        ]
    return result


def clear_commands(device):
    """Shell commands that take every impairment of `device` away."""
    return [f"tc qdisc del dev {device} {kind} 2>/dev/null || true" for kind in ("root", "clsact")] + [
        f"ip link del ifb-{device} 2>/dev/null || true"]
