# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Peers of a memif socket that come and go: they knock, send nonsense, half a handshake or a whole
one, and leave at a random moment; at a server's socket, or as the server of a client.

The messages are those of memif's control channel, packed here by their description, so that nothing
is taken over from what is tested."""

import contextlib
import errno
import heapq
import os
import socket
import struct
import threading
import time

MESSAGE_BYTES = 128
VERSION = 0x200
COOKIE = 0x3E31F20
RING_LOG2 = 4
RING_BYTES = 128 + (16 << RING_LOG2)
CLIENT_TO_SERVER = 1
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
LIFE_S = 0.05
AT_ONCE = 24
# No connection may wait longer to be accepted.
LIMIT_S = 30


def message(kind, layout='', *values):
    return struct.pack('<H' + layout, kind, *values).ljust(MESSAGE_BYTES, b'\0')


def init(identity=0, version=VERSION):
    return message(INIT, 'HIB24s32s', version, identity, 0, b'', b'knock')


def add_region(index, size):
    return message(ADD_REGION, 'HQ', index, size)


def add_ring(direction, index, offset, region=0, log2=RING_LOG2):
    return message(ADD_RING, 'HHHIBH', direction, index, region, offset, log2, 0)


def hello(random):
    """A greeting, good or not."""
    version = random.choice((VERSION, VERSION, 0x100, 0xFFFF))
    return message(HELLO, '32sHHHHHB', b'x' * random.randrange(33), version, version,
                   random.choice((0, 255)), random.choice((0, 254, 0xFFFF)),
                   random.choice((0, 254, 0xFFFF)), random.choice((0, 1, 14, 255)))


class Shared:
    """What a client offers: a region with two rings, and an interrupt descriptor; and what no client
    should offer."""

    def __init__(self):
        self.size = 4096
        self.region = os.memfd_create('region')
        os.ftruncate(self.region, self.size)
        for offset in (0, RING_BYTES):
            os.pwrite(self.region, struct.pack('<I', COOKIE), offset)
        self.without_rings = os.memfd_create('without rings')
        os.ftruncate(self.without_rings, self.size)
        self.event = os.eventfd(0, os.EFD_NONBLOCK)
        self.pipe, self.other_end = os.pipe()

    def close(self):
        for fd in (self.region, self.without_rings, self.event, self.pipe, self.other_end):
            os.close(fd)

    def offer(self):
        """All of a good client, in order."""
        return [(init(), ()), (add_region(0, self.size), (self.region,)),
                (add_ring(CLIENT_TO_SERVER, 0, 0), (self.event,)),
                (add_ring(0, 0, RING_BYTES), (self.event,)),
                (message(CONNECT, '32s', b'knock'), ())]

    def spoilt_offer(self, random):
        """One with something in it that must not reach a driver."""
        parts = self.offer()
        at, part = random.choice((
            (0, (init(identity=random.getrandbits(32) | 1), ())),
            (0, (init(version=0x100), ())),
            (0, (init(), (self.event,) * 20)),
            (1, (add_region(0, self.size), ())),
            (1, (add_region(0, self.size), (self.region,) * 3)),
            (1, (add_region(0, 1 << 40), (self.region,))),
            (1, (add_region(0, (1 << 64) - 1), (self.region,))),
            (1, (add_region(0, 0), (self.region,))),
            (1, (add_region(7, self.size), (self.region,))),
            (1, (add_region(0, self.size), (self.pipe,))),
            (1, (add_region(0, self.size), (self.without_rings,))),
            (2, (add_ring(CLIENT_TO_SERVER, 0, self.size - 64), (self.event,))),
            (2, (add_ring(CLIENT_TO_SERVER, 0, 0xFFFFFF00), (self.event,))),
            (2, (add_ring(CLIENT_TO_SERVER, 0, 0, region=200), (self.event,))),
            (2, (add_ring(CLIENT_TO_SERVER, 0, 0, log2=255), (self.event,))),
            (2, (add_ring(CLIENT_TO_SERVER, 200, 0), (self.event,))),
            (2, (add_ring(CLIENT_TO_SERVER, 0, 0), (self.pipe,))),
            (2, (add_ring(CLIENT_TO_SERVER, 0, 0), ())),
            (3, (message(ACK), (self.event,))),
            (4, (message(CONNECTED), ())),
            (4, (hello(random), ()))))
        parts[at] = part
        return parts


def say(peer, parts):
    for data, descriptors in parts:
        socket.send_fds(peer, [data], list(descriptors))


# What a peer does before it is left alone until its end. Each takes it, a random.Random and Shared.

def nothing(_peer, _random, _shared):
    pass


def garbage(peer, random, _shared):
    for _ in range(random.randrange(1, 4)):
        peer.send(random.randbytes(random.choice((1, 2, 127, 128, 129, random.randrange(1, 4096)))))


def half_a_message(peer, random, _shared):
    peer.send(init()[:random.randrange(1, MESSAGE_BYTES)])


def half_an_offer(peer, random, shared):
    parts = shared.offer()
    say(peer, parts[:random.randrange(1, len(parts))])


def spoilt_offer(peer, random, shared):
    say(peer, shared.spoilt_offer(random))


def many_descriptors(peer, random, shared):
    say(peer, [(init(), ()), (random.randbytes(MESSAGE_BYTES), (shared.event,) * 200)])


def whole_offer(peer, _random, shared):
    """Joins the link, if it is free."""
    say(peer, shared.offer())


def refusal(peer, _random, _shared):
    say(peer, [(message(DISCONNECT, 'I96s', 0, b'x' * 96), ())])


CLIENTS = (nothing, garbage, half_a_message, half_an_offer, spoilt_offer, many_descriptors,
           whole_offer, refusal)


def greeting(peer, random, _shared):
    peer.send(hello(random))


def greeting_and_answers(peer, random, _shared):
    """Acknowledges what has not been said, and more."""
    peer.send(message(HELLO, '32sHHHHHB', b'knock', VERSION, VERSION, 255, 254, 254, 14))
    for _ in range(random.randrange(8)):
        peer.send(message(random.choice((ACK, ACK, CONNECTED, HELLO, ADD_RING))))


SERVERS = (nothing, garbage, half_a_message, greeting, greeting, greeting_and_answers,
           many_descriptors, refusal)


class Storm:
    """`count` connections, AT_ONCE at a time, each of which lasts between 0 and 50 ms."""

    def __init__(self, count, random):
        self.count = count
        self.random = random
        self.shared = Shared()
        self.ends = []  # a heap
        self.made = 0
        self.failure = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.ends:
            heapq.heappop(self.ends)[2].close()
        self.shared.close()

    def run(self):
        deadline = time.monotonic() + LIMIT_S
        while self.made < self.count or self.ends:
            now = time.monotonic()
            while self.ends and self.ends[0][0] <= now:
                heapq.heappop(self.ends)[2].close()
            peer = self.next_peer() if self.made < self.count and len(self.ends) < AT_ONCE else None
            if peer is not None:
                self.let_act(peer, now)
                deadline = now + LIMIT_S
            elif now > deadline:
                raise AssertionError(f'nobody answers after {self.made} connections')
            else:
                time.sleep(0.0005)

    def let_act(self, peer, now):
        act = self.random.choice(self.acts)
        self.made += 1
        heapq.heappush(self.ends, (now + self.random.uniform(0, LIFE_S), self.made, peer))
        peer.setblocking(False)
        # It may have been shown the door already.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
            act(peer, self.random, self.shared)


class ClientStorm(Storm):
    """Clients at a server's socket."""

    acts = CLIENTS

    def __init__(self, path, count, random):
        super().__init__(count, random)
        self.path = str(path)

    def next_peer(self):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.setblocking(False)
        try:
            peer.connect(self.path)
        except OSError as error:
            peer.close()
            if error.errno != errno.EAGAIN:  # its queue is full
                raise
            return None
        return peer


class ServerStorm(Storm):
    """A server whose clients are left alone with it."""

    acts = SERVERS

    def __init__(self, path, count, random):
        super().__init__(count, random)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.setblocking(False)
        self.path = str(path)

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        self.listener.close()
        os.unlink(self.path)

    def next_peer(self):
        try:
            return self.listener.accept()[0]
        except BlockingIOError:
            return None


class InBackground:
    """Runs storms beside the test, which learns of their failures at the end."""

    def __init__(self, *storms):
        self.storms = storms
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=(storm,)) for storm in storms]

    def run(self, storm):
        try:
            storm.run()
        except (AssertionError, OSError) as error:
            self.failures.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            thread.join()
        for storm in self.storms:
            storm.__exit__()
        if self.failures:
            raise self.failures[0]
