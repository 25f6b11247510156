# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The raw frame rate of a link: DPDK's testpmd, one process sends, another receives."""

import re
import shutil
import statistics

from lab.links import Memif
from lab.processes import LabError, processors, wait_until

RX_RATE = re.compile(r'Rx-pps:\s+(\d+)')
# Seconds measured, after one that is left out.
SAMPLES = 3


def command(lab, name, cpu, vdev, options):
    return ['dpdk-testpmd', '--lcores', f'0@{cpu},1@{cpu}', '--no-huge', '-m', '512', '--no-pci',
            '--no-telemetry', '--file-prefix', lab.unique(name),
            '--vdev', vdev,
            '--', '--stats-period', '1', '--no-mlockall', '--total-num-mbufs', '16384',
            '--mbuf-size', '8448', *options]


def raw_rate(lab, frame_bytes, link=Memif, samples=SAMPLES):
    """Frames of `frame_bytes` a second that a link carries from one process to another: the median
    of so many samples, each of a second."""
    if shutil.which('dpdk-testpmd') is None:
        raise LabError('dpdk-testpmd is not installed: run scripts/setup')
    wire = link(lab)
    sender_cpu, receiver_cpu = processors()
    receiver = lab.start('testpmd-rx', command(
        lab, 'rx', receiver_cpu, wire.testpmd_vdev('server'), ['--forward-mode=rxonly']))
    wait_until(wire.socket.exists, 20, 'testpmd (receiver) did not open its socket')
    sender = lab.start('testpmd-tx', command(
        lab, 'tx', sender_cpu, wire.testpmd_vdev('client'),
        ['--forward-mode=txonly', f'--txpkts={frame_bytes}']))

    def rates():
        found = [int(rate) for rate in RX_RATE.findall(receiver.output()) if int(rate) > 0]
        return found[1:] if len(found) > samples else None

    try:
        return statistics.median(wait_until(rates, 30, 'testpmd received no frames'))
    finally:
        sender.end()
        receiver.end()
