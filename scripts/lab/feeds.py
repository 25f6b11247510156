# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""One publisher and many subscribers of this machine: message stores, and ZeroMQ's PUB and SUB."""

import json
import os
import statistics

from lab.links import Memif
from lab.pairs import CLIENT_IP, PREFIX_LENGTH, SERVER_IP, free_port, parse
from lab.processes import LabError, Unavailable, processors, wait_until

ZEROMQ_TRANSPORTS = ('ipc', 'tcp')
LIMIT_S = 60
# Bytes of the READs of all subscribers together, and of each.
READS, READ_MIN, READ_MAX = 512 << 10, 32 << 10, 256 << 10


class Feeds:
    """`benches` has publisher-feed and zeromq-feed; each measurement takes `seconds`."""

    def __init__(self, lab, benches, seconds):
        self.lab = lab
        self.ours = benches / 'publisher-feed'
        self.theirs = benches / 'zeromq-feed'
        self.seconds = seconds
        self.limit_s = LIMIT_S + 10 * seconds

    def stores(self, subscribers, publish=(), subscribe=()):
        """A publisher with a processor, all subscribers with another one."""
        cpus = processors()
        polls = ['--idle', 'poll']
        publisher, link, port = self._publisher(cpus[0], [*polls, *publish])
        reader = self._subscriber(link, port, cpus[1], subscribers, [*polls, *subscribe])
        try:
            reader.expect_success(self.limit_s)
            publisher.expect_success(self.limit_s)
        finally:
            reader.end()
            publisher.end()
        return _figures(parse(publisher), parse(reader))

    def fastest_stores(self, subscribers, paces, publish=()):
        """stores() at that of the paces, messages a second of all subscribers together, at which
        most is delivered: a publisher that is much too fast overtakes everybody."""
        return max((self.stores(subscribers, [*publish, '--rate', pace / subscribers])
                    for pace in paces), key=lambda figures: figures['mops'])

    def writer(self, subscribers, stopped, pairs):
        """What the writer, alone on its processor, needs for a message: with such subscribers, and
        before them without any; so many times."""
        writer_cpu, reader_cpu, engine_cpu = _three_processors()
        publisher, link, port = self._publisher(
            engine_cpu, ['--writer-cpu', writer_cpu, '--alone', '--rounds', pairs])
        delivered = 0
        try:
            for done in range(pairs):
                self._wait_for_windows(publisher, 2 * done + 1)
                reader = self._subscriber(link, port, reader_cpu, subscribers,
                                          ['--stop'] if stopped else [])
                self._wait_for_windows(publisher, 2 * done + 2, reader)
                if stopped:
                    reader.child.kill()
                    reader.child.wait()
                else:
                    reader.expect_success(self.limit_s)
                    delivered += parse(reader)['messages']
            publisher.expect_success(self.limit_s)
        finally:
            publisher.end()
        if not stopped and delivered == 0:
            raise LabError('subscribers that should read have received nothing')
        windows = list(map(json.loads, publisher.output().splitlines()))
        if any(window['messages'] == 0 for window in windows):
            raise LabError('the writer did not get to write in one of the windows')
        return paired(windows[0::2], windows[1::2])

    def zeromq(self, transport, subscribers, publish=(), subscribe=()):
        """The same as stores(), over ZeroMQ."""
        if not self.theirs.exists():
            raise Unavailable('ZeroMQ was not there when the benchmarks were built')
        cpus = processors()
        place = (f'ipc://{self.lab.path(self.lab.unique("feed"))}' if transport == 'ipc'
                 else f'tcp://127.0.0.1:{free_port()}')
        same = [place, '--subscribers', subscribers, '--seconds', self.seconds]
        publisher = self.lab.start('zeromq-publish', [self.theirs, 'publish', *same, *publish],
                                   cpus[0])
        reader = self.lab.start('zeromq-subscribe', [self.theirs, 'subscribe', *same, *subscribe],
                                cpus[1])
        try:
            reader.expect_success(self.limit_s)
            publisher.expect_success(self.limit_s)
        finally:
            reader.end()
            publisher.end()
        return _figures(parse(publisher), parse(reader))

    def _wait_for_windows(self, publisher, count, *others):
        """Until the publisher has told of so many, or something has failed."""
        wait_until(lambda: len(publisher.output().splitlines()) >= count or publisher.has_ended()
                   or any(other.has_ended() and other.wait(0) != 0 for other in others),
                   self.limit_s, f'{publisher.name} says nothing of window {count}')

    def _publisher(self, cpu, options):
        link, port = Memif(self.lab), free_port()
        process = self.lab.start('publisher-feed', [
            self.ours, 'publish', *link.program_options('server'), *_address(SERVER_IP), '-p', port,
            '--seconds', self.seconds, *options], cpu)
        wait_until(lambda: link.socket.exists() or process.has_ended(), 20,
                   f'{process.name} did not open its socket')
        if process.has_ended():
            process.expect_success(0)
        return process, link, port

    def _subscriber(self, link, port, cpu, subscribers, options):
        return self.lab.start('subscriber-feed', [
            self.ours, 'subscribe', *link.program_options('client'), *_address(CLIENT_IP),
            '-p', port, '--seconds', self.seconds, '--subscribers', subscribers,
            '--batch', _batch(subscribers), *options, '127.0.0.1'], cpu)


def _batch(subscribers):
    """READs that fit in a processor's cache together, and take all of them less time than a writer
    at full speed needs to come around."""
    return max(READ_MIN, min(READS // subscribers, READ_MAX))


def paired(without, with_subscribers):
    """Nanoseconds of the writer for a message, of windows that follow each other: medians, also of
    the ratios of two that do; `noise` is that of one without subscribers to the next such."""
    alone, beside = ([one['writer_seconds'] / one['messages'] * 1e9 for one in windows]
                     for windows in (without, with_subscribers))
    steps = [max(a, b) / min(a, b) for a, b in zip(alone, alone[1:])]
    return {'alone_ns': statistics.median(alone), 'beside_ns': statistics.median(beside),
            'ratio': statistics.median(b / a for a, b in zip(alone, beside)),
            'noise': statistics.median(steps) if steps else 1}


def _figures(published, received):
    """Millions of messages a second, published and delivered to all subscribers together; the
    publisher's processor time for each that was published; microseconds to delivery."""
    if published['messages'] == 0 or received['messages'] == 0:
        raise LabError('nothing was published, or nothing delivered')
    latency = received.get('latency_us', {})
    return {'mops': received['messages'] / received['seconds'] * 1e-6,
            'published_mops': published['messages'] / published['seconds'] * 1e-6,
            'lost': received['lost'] / (received['lost'] + received['messages']),
            'writer_ns': published['writer_seconds'] / published['messages'] * 1e9,
            'engine_ns': published['engine_seconds'] / published['messages'] * 1e9,
            **{f'{part}_usec': value for part, value in latency.items()}}


def _address(ip):
    return ['--ip', f'{ip[4]}/{PREFIX_LENGTH[4]}']


def _three_processors():
    """One for a writer that nobody disturbs; of two, subscribers and engine share the other."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[1 if len(allowed) > 2 else -1], allowed[-1]
