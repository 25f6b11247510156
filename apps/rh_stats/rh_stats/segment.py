# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What programs of libibverbs under rh-run have of the device, read from the segment that they share.

The segment's files are those of stack/segment and apps/verbs/node/resource_record.h.
"""

import collections
import datetime
import fcntl
import ipaddress
import os
import re
import stat
import struct
import zlib

from .failures import Failure, note
from .telemetry import entries

SEGMENT_MAGIC = b'Regment6'
SLOTS_MAX, SLOT_BYTES, SLOTS_AT, TABLE_BYTES = 128, 128, 64, 409664
RECORD = struct.Struct('=I4B2I12I')
RECORDS_MAX = 1 << 16
RECORD_VERSION = 1
RESOURCES = ('dev', 'process', 'ctx', 'pd', 'cq', 'qp', 'mr', 'srq', 'all')
# How often a record that is just being written is read anew.
READINGS = 50
KINDS = ('none', 'process', 'address', 'ctx', 'pd', 'cq', 'qp', 'mr', 'srq')
# As enum ibv_qp_type and enum ibv_qp_state have them.
QP_TYPES = {2: 'RC', 3: 'UC', 4: 'UD', 8: 'RAW_PACKET', 9: 'XRC_INI', 10: 'XRC_TGT'}
QP_STATES = ('RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR')
HAS_UPLINK, RECEIVES = 1, 2
# Of struct flock, on machines of 64 bits; and what Python has no name for.
FLOCK = struct.Struct('=hhxxxxqqixxxx')
F_OFD_GETLK = 36


def is_own_directory(path):
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def runtime_directory():
    """Where this user's sockets are, as stack/segment/reader/runtime_path.h has it."""
    for base in (os.environ.get('XDG_RUNTIME_DIR'), f'/run/user/{os.getuid()}'):
        if base and is_own_directory(base):
            return f'{base}/rockhopper'
    return f'/tmp/rockhopper-{os.getuid()}'


def segment_path():
    """Where the processes of this user and network namespace meet, as stack/segment/reader has it."""
    if given := os.environ.get('ROCKHOPPER_SEGMENT'):
        return given
    name = f'segment-{os.stat("/proc/self/ns/net").st_ino}'
    if os.access('/dev/shm', os.W_OK | os.X_OK):
        return f'/dev/shm/rockhopper-{os.getuid()}/{name}'
    return f'{runtime_directory()}/{name}'


def printable(text):
    """What another process has written, for a terminal."""
    return ''.join(c if c.isprintable() else '?' for c in text.decode('utf-8', 'replace'))


class Segment:
    """The table that the processes share, and the files in which they say what they have. All of
    that may be anything: it is read with read(), which no other process can make fail, and checked."""

    def __init__(self):
        self.path = segment_path()
        try:
            self.table = os.open(f'{self.path}/table', os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise Failure(f'no program under rh-run has been here: {self.path}/table: '
                          f'{error.strerror}') from error
        if os.fstat(self.table).st_size != TABLE_BYTES or os.pread(self.table, 8, 0) != SEGMENT_MAGIC:
            raise Failure(f'{self.path}/table is not a table of this version')

    def is_held(self, slot):
        """Whether a process holds the slot's lock, which the kernel takes from it when it ends."""
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0)
        return FLOCK.unpack(fcntl.fcntl(self.table, F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK

    def generation(self, slot):
        return struct.unpack('=I', os.pread(self.table, 4, SLOTS_AT + slot * SLOT_BYTES))[0]

    def files(self):
        """The slots of those that are alive and say what they have, and in which file."""
        for name in entries(self.path):
            match = re.fullmatch(r'resources-(\d{1,3})-(\d{1,10})', name)
            slot, generation = (int(part) for part in match.groups()) if match else (SLOTS_MAX, 0)
            if slot < SLOTS_MAX and self.is_held(slot) and self.generation(slot) == generation:
                yield slot, f'{self.path}/{name}'

    def fingerprint(self):
        """Checksums of all files, by path: far cheaper than what is in them."""
        return {path: checksum_of(path) for _, path in self.files()}

    def processes(self, tell=note):
        """Those that are alive and say what they have, by slot. `tell` is told of those that are damaged."""
        found = []
        for slot, path in self.files():
            try:
                found.append((slot, Process(path)))
            except (Failure, OSError) as failure:
                tell(failure)
        return [process for _, process in sorted(found, key=lambda one: one[0])]


def open_records(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Failure(f'{path}: is no file')
    return descriptor


def checksum_of(path):
    """Of all that a process says, written or not; None where it cannot be read."""
    try:
        descriptor = open_records(path)
    except (Failure, OSError):
        return None
    try:
        return zlib.crc32(os.pread(descriptor, RECORDS_MAX * RECORD.size, 0))
    finally:
        os.close(descriptor)


def read_records(path):
    """(kind, type, state, context, id, values) of each record that is whole and of this version."""
    descriptor = open_records(path)
    try:
        places = min(-(-os.fstat(descriptor).st_size // RECORD.size), RECORDS_MAX)
        data = os.pread(descriptor, places * RECORD.size, 0)
        for place in range(places):
            record = data[place * RECORD.size:(place + 1) * RECORD.size]
            for _ in range(READINGS):
                if len(record) < RECORD.size or not any(record):
                    break  # at the end, or never written
                checksum, kind, qp_type, state, version, context, number, *values = RECORD.unpack(record)
                if zlib.crc32(record[4:]) == checksum:
                    if version != RECORD_VERSION:
                        raise Failure(f'{path}: is of another version')
                    if 0 < kind < len(KINDS):
                        yield KINDS[kind], qp_type, state, context, number, values
                    break
                record = os.pread(descriptor, RECORD.size, place * RECORD.size)
            else:
                raise Failure(f'{path}: a record is damaged')
    finally:
        os.close(descriptor)


def text_of(values):
    """The text of a record, which stands in front of its last two values."""
    return printable(struct.pack('=10I', *values[:10]).split(b'\0')[0])


def wide(values, at):
    return values[at] | values[at + 1] << 32


class Process:
    """What one process has; `resources` is, by kind, a list of members as --json has them."""

    def __init__(self, path):
        records = list(read_records(path))
        if not records or records[0][0] != 'process':
            raise Failure(f'{path}: does not begin with its process')
        _, _, state, _, self.pid, values = records[0]
        self.comm, self.since_ns = text_of(values), wide(values, 10)
        self.has_uplink, self.receives = bool(state & HAS_UPLINK), bool(state & RECEIVES)
        devices = {context: text_of(values) for kind, _, _, context, _, values in records
                   if kind == 'ctx'}
        self.addresses, self.devices = [], sorted(set(devices.values()))
        self.resources = {kind: [] for kind in ('ctx', 'pd', 'cq', 'qp', 'mr', 'srq')}
        self.owner = {'pid': self.pid, 'comm': self.comm}
        for kind, qp_type, state, context, number, values in records:
            if kind == 'address':
                self.addresses.append(self.address(values, qp_type))
            elif kind in self.resources and context in devices:
                members = getattr(self, f'describe_{kind}')(qp_type, state, number, values)
                self.resources[kind].append({'ifname': devices[context], 'ctxn': context} | members)
        self.count_users()
        for listed in self.resources.values():
            listed[:] = [one | self.owner for one in listed]

    @staticmethod
    def address(values, length):
        address = ipaddress.IPv6Address(struct.pack('=4I', *values[:4]))
        mapped = address.ipv4_mapped
        return f'{mapped or address}/{length}'

    @staticmethod
    def describe_ctx(_type, _state, _number, _values):
        return {}

    @staticmethod
    def describe_pd(_type, _state, number, _values):
        return {'pdn': number}

    @staticmethod
    def describe_cq(_type, _state, number, values):
        return {'cqn': number, 'cqe': values[0]}

    @staticmethod
    def describe_qp(qp_type, state, _number, values):
        pd, own, peer, send_psn, receive_psn, send_cq, receive_cq, srq = values[:8]
        members = {'port': 1, 'lqpn': own, 'rqpn': peer,
                   'type': QP_TYPES.get(qp_type, str(qp_type)),
                   'state': QP_STATES[state] if state < len(QP_STATES) else str(state),
                   'sq-psn': send_psn, 'rq-psn': receive_psn}
        if members['type'] == 'UD':
            del members['rqpn']
        numbers = {'pdn': pd, 'send-cqn': send_cq, 'recv-cqn': receive_cq, 'srqn': srq}
        return members | {name: number for name, number in numbers.items() if number}

    @staticmethod
    def describe_mr(_type, _state, number, values):
        return {'mrn': number, 'rkey': f'{values[2]:#x}', 'lkey': f'{values[1]:#x}',
                'iova': f'{wide(values, 4):#x}', 'mrlen': wide(values, 6), 'pdn': values[0]}

    @staticmethod
    def describe_srq(_type, _state, number, values):
        return {'srqn': number, 'max-wr': values[1], 'pdn': values[0]}

    def count_users(self):
        """Of queues and domains: what is listed that uses them."""
        uses = collections.Counter(
            (one['ctxn'], name, one[member]) for kind in ('qp', 'mr', 'srq')
            for one in self.resources[kind]
            for member, name in (('pdn', 'pdn'), ('send-cqn', 'cqn'), ('recv-cqn', 'cqn'))
            if member in one)
        for kind, name in (('pd', 'pdn'), ('cq', 'cqn')):
            for one in self.resources[kind]:
                one['users'] = uses[one['ctxn'], name, one[name]]

    def summary(self):
        since = datetime.datetime.fromtimestamp(min(self.since_ns // 10**9, 2**32), datetime.timezone.utc)
        return (self.owner | {'since': since.strftime('%Y-%m-%dT%H:%M:%SZ'), 'devices': self.devices} |
                {kind: len(found) for kind, found in self.resources.items()} |
                ({'uplink': 'receives' if self.receives else 'sends'} if self.has_uplink else {}))


def devices_of(segment, processes):
    """Each device that some process has opened."""
    names = sorted({name for process in processes for name in process.devices})
    listed = []
    for name in names:
        users = [process for process in processes if name in process.devices]
        device = {'ifname': name, 'state': 'ACTIVE', 'segment': segment.path,
                  'processes': len(users),
                  'addresses': list(dict.fromkeys(a for user in users for a in user.addresses))}
        receivers = [user.pid for user in users if user.receives]
        listed.append(device | ({'uplink-receiver': receivers[0]} if receivers else {}))
    return listed
