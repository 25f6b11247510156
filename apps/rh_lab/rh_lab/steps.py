# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What is tried: one program here, one at the peer, and who asks whom."""

import dataclasses
import fnmatch

LOSS = 'loss=1%'


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    program: str  # of ours: rh-pingpong, rh-perf or rh-cm
    we_ask: bool  # we are the client
    family: int = 4
    operation: str = ''
    mode: str = 'bw'
    size: int = 4096
    count: int = 1000
    mtu: int = 0  # 0: the largest that fits
    faults: str = ''  # of our link
    more: tuple[str, ...] = ()  # arguments of ours
    purpose: str = ''


def _roles():
    return ((True, 'ask'), (False, 'serve'))


def all_steps():
    steps = []
    for family in (4, 6):
        for we_ask, role in _roles():
            steps.append(Step(f'pingpong-ipv{family}-{role}', 'rh-pingpong', we_ask, family, purpose='data arrives'))
    for mtu in (256, 1024, 4096):
        steps.append(Step(f'pingpong-mtu-{mtu}', 'rh-pingpong', True, mtu=mtu, size=10_000,
                          purpose='packets of another path MTU'))
    for operation in ('send', 'write', 'read'):
        for we_ask, role in _roles():
            steps.append(Step(f'{operation}-bw-{role}', 'rh-perf', we_ask, operation=operation, size=65536,
                              count=300, purpose='a full window'))
        steps.append(Step(f'{operation}-lat-ask', 'rh-perf', True, operation=operation, mode='lat', size=8,
                          count=300, purpose='one at a time'))
    for we_ask, role in _roles():
        steps.append(Step(f'faa-bw-{role}', 'rh-perf', we_ask, operation='faa', size=8, count=300,
                          purpose='atomics'))
    for operation in ('send', 'write', 'read'):
        for we_ask, role in _roles():
            steps.append(Step(f'{operation}-loss-{role}', 'rh-perf', we_ask, operation=operation, size=16384,
                              count=300, faults=LOSS, purpose='recovery from losses'))
    # The class of the packets says "congestion experienced": the peer is to tell us, and we are to slow down.
    steps.append(Step('marked-write', 'rh-perf', True, operation='write', size=65536, count=300,
                      more=('--congestion', 'dcqcn', '--tclass', '3'), purpose='congestion notifications'))
    for we_ask, role in _roles():
        steps.append(Step(f'cm-{role}', 'rh-cm', we_ask, count=20, purpose='the connection manager'))
    return steps


def chosen(patterns):
    """Those that one of the patterns fits; all without any."""
    return [step for step in all_steps()
            if not patterns or any(fnmatch.fnmatch(step.name, pattern) for pattern in patterns)]
