# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Tests of wireshark/rockhopper.lua: what tshark makes of packets that were encoded from
docs/wire.md, of what is wrong with them, and of all other packets, which must not change."""

import collections
import dataclasses
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import encoder  # noqa: E402
import tshark  # noqa: E402
from encoder import RESERVED, packets  # noqa: E402  (tests/judge: frames and ICRC)

SEED = int(os.environ.get('ROCKHOPPER_SEED') or random.getrandbits(32))
RANDOM_PACKETS = 10_000
UDP, BTH, ICRC = 8, 12, 4
OURS = frozenset({0xC0 + operation for operation in encoder.OPERATIONS}
                 | {0xD5, 0xD8, 0xD9, 0xDA, 0xDB, 0xDE})
LUA_ERROR = '_ws.lua.error'
# Wireshark tries several protocols on the payload of RC; none takes this one.
GUESSED_AT_BY_NONE = bytes(range(32))
# By field: the names of its values.
NAMES = {
    'dc.form': {0: 'Nonce', 1: 'Session'},
    'dc.subtype': {1: 'CONNECT', 2: 'ACCEPT', 3: 'CNAK', 4: 'DISCONNECT', 5: 'KEEPALIVE'},
    'dc.mtu': {code: str(128 << code) for code in range(1, 6)},
    'dc.reason': {1: 'No context free', 2: 'No such DCT', 3: 'Draining', 4: 'Stale session',
                  5: 'Incompatible', 6: 'Quota'},
    'xaeth.subtype': {1: 'Masked CmpSwap', 2: 'Masked FetchAdd'},
    'feth.selectivity': {0: 'Memory Region Range', 1: 'Memory Region'},
    'feth.placement': {1: 'Global Visibility', 2: 'Persistence',
                       3: 'Global Visibility and Persistence'},
    'lock.subtype': {1: 'Acquire Exclusive', 2: 'Acquire Shared', 3: 'Release', 5: 'Cancel',
                     6: 'Acquire Several', 7: 'Acquire Foreign', 8: 'Release Foreign'},
    'lock.status': {1: 'Granted', 2: 'Waiting', 3: 'Failed', 4: 'Released', 5: 'Flushed',
                    6: 'Canceled'},
    'lock.cause': {1: 'Tries', 2: 'Wait', 3: 'Canceled', 4: 'Too big', 5: 'Not the owner',
                   6: 'Lease expired', 7: 'Too late to cancel'},
    'lock.timeout': {0: 'none', 1: '0.008192 ms', 14: '67.1089 ms'},
}  # fmt: skip


def setUpModule():
    if not tshark.is_installed():
        raise unittest.SkipTest('tshark is not installed')
    print(f'ROCKHOPPER_SEED={SEED}', file=sys.stderr)


def split(name, value, layout):
    """What the parts of a field are, by name."""
    data = value.to_bytes(encoder.size_of(layout), 'big')
    return {part: int.from_bytes(data[first:end], 'big')
            for part, first, end in encoder.places(layout)}


def derived(sample):
    """What is shown of a sample's fields beyond themselves: name -> value."""
    found = {}
    for name, _ in sample.layout:
        value = sample.values.get(name)
        if name == 'dc.session':
            found |= split(name, value, encoder.SESSION)
        elif name == 'feth.placement':
            found['feth.reserved'] = 0
        elif name == 'dc.flags':
            names = encoder.FLAGS.get(sample.values['dc.subtype'], ())
            found |= {flag: value >> bit & 1 for bit, flag in enumerate(names)}
        elif name == 'lock.flags':
            found |= {flag: value >> bit & 1 for bit, flag in enumerate(encoder.LOCK_FLAGS)}
        elif name == 'aeth.syndrome':
            code = {0: 'credit_count', 1: 'timer', 3: 'error_code'}[value >> 5]
            found |= {f'{name}.reserved': 0, f'{name}.opcode': value >> 5,
                      f'{name}.{code}': value & 0x1F}
    return found


def held_psns(sample):
    """By the document: bit b of byte i is the packet with PSN + 1 + 8 i + b."""
    bitmap = sample.values['saeth.bitmap'].to_bytes(32, 'big')
    return [(sample.bth['psn'] + 1 + 8 * i + b) % (1 << 24)
            for i in range(32) for b in range(8) if bitmap[i] >> b & 1]


def trees(sample):
    """The headers that a sample has trees of: name -> bytes."""
    if sample.opcode == encoder.CONTROL:
        return {'dc': len(sample.headers)}
    session = ('dc', 48) if sample.opcode == encoder.CONNECT_DATA else ('dcsh', 12)
    lock = ('lketh', 40) if sample.opcode == encoder.LOCK_REQUEST else ('lkaeth', 24)
    sizes = {'dc': session, 'reth': ('reth', 16), 'aeth': ('aeth', 4), 'feth': ('feth', 4),
             'atomiceth': ('atomiceth', 28), 'atomicacketh': ('atomicacketh', 8),
             'saeth': ('saeth', 32), 'xaeth': ('xaeth', 48), 'lock': lock}
    names = {name.partition('.')[0] for name, _ in sample.layout if '.' in name}
    if 'atomiceth' in names:
        names.remove('reth')  # whose fields it has
    found = dict(sizes[name] for name in names)
    fields = dict(sample.layout)
    if 'lock.shared' in fields:
        found['lock.word'] = 16
    if 'lock.compare' in fields:
        found['lock.operation'] = 32
    return found


FLAGS = {'False': 0, 'True': 1}


def number(text):
    """Bytes count as one big-endian number; Wireshark 4.4 has words for a flag."""
    if text in FLAGS:
        return FLAGS[text]
    return int(text.replace(':', ''), 16) if ':' in text else int(text, 0)


class Dissection(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix='rockhopper-')
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.tshark = tshark.Tshark(cls.folder)
        cls.names = sorted(cls.tshark.filter_names())

    def setUp(self):
        self.rng = random.Random(f'{SEED} {self.id()}')

    def capture(self, frames, sizes=None):
        return tshark.save(self.folder / f'{self.id().rpartition(".")[2]}.pcap', frames, sizes)

    def fields(self, frames, *options, sizes=None, names=()):
        """What each frame has of all our fields and of Lua errors, without "rockhopper."."""
        columns = [*self.names, LUA_ERROR, *names]
        rows = self.tshark.fields(self.capture(frames, sizes), columns, *options)
        self.assertEqual([row[LUA_ERROR] for row in rows if LUA_ERROR in row], [])
        return [{name.removeprefix('rockhopper.'): values for name, values in row.items()}
                for row in rows]


class Headers(Dissection):
    def check_sample(self, sample, items):
        """All fields are there once, with their values, where they lie; nothing else is."""
        found = {item.name.removeprefix('rockhopper.'): item for item in items}
        each = collections.defaultdict(list)
        for item in items:
            each[item.name.removeprefix('rockhopper.')].append(item)
        for name, first, end in encoder.places(sample.layout):
            item = each[name].pop(0)
            self.assertEqual(number(item.value), sample.values[name], name)
            if not name.startswith('feth.'):  # shown as bits of the whole word
                place = (item.position - sample.offset, item.position + item.size - sample.offset)
                self.assertEqual(place, (first, end), name)
        for name, size in trees(sample).items():
            self.assertEqual(found[name].size, size, name)
        for name, value in derived(sample).items():
            self.assertEqual(number(found[name].value), value, name)
        expected = collections.Counter(
            ['opcode', 'icrc', *trees(sample), *derived(sample)]
            + [name for name, bits in sample.layout if name != RESERVED or bits % 8 == 0])
        if sample.payload:
            expected.update(['payload'] + ['pad'] * (len(sample.payload) % 4 != 0))
        if sample.opcode == encoder.SELECTIVE_ACK:
            expected.update(['saeth.missing', 'saeth.count', 'saeth.held'])
            expected.update(['saeth.psn'] * len(held_psns(sample)))
        self.assertEqual(collections.Counter(item.name.removeprefix('rockhopper.')
                                             for item in items), expected)

    def test_every_opcode_and_message(self):
        samples = encoder.samples(self.rng)
        self.assertEqual({sample.opcode for sample in samples}, OURS)
        capture = self.capture([sample.frame() for sample in samples])
        for sample, items in zip(samples, self.tshark.items(capture), strict=True):
            with self.subTest(opcode=hex(sample.opcode), values=sample.values):
                self.check_sample(sample, items)

    def test_payload_padding_and_icrc(self):
        samples = [encoder.dc_sample(self.rng, 0x04, 1) for _ in range(5)]
        for size, sample in enumerate(samples):
            sample.payload = self.rng.randbytes(size)
        frames = [sample.frame() for sample in samples]
        for sample, frame, row in zip(samples, frames, self.fields(frames), strict=True):
            self.assertEqual(row.get('payload', ['']), [sample.payload.hex()])
            self.assertEqual(row.get('pad', ['']), [bytes(-len(sample.payload) % 4).hex()])
            self.assertEqual(number(row['icrc'][0]), struct.unpack('<I', frame[-4:])[0])

    def test_the_captures_are_right(self):
        """The independent checker finds nothing wrong with checksums, lengths and ICRC."""
        capture = self.capture([sample.frame() for sample in encoder.samples(self.rng)])
        checker = ROOT / 'tests/judge/check_capture.py'
        done = subprocess.run([sys.executable, checker, '--strict', '--manufacturer-opcodes', capture],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_names_of_values(self):
        samples = []
        for field, names in NAMES.items():
            for value in names:
                sample = next(s for s in encoder.samples(self.rng) if field in dict(s.layout))
                if field == 'dc.form':
                    sample = encoder.dc_sample(self.rng, 0, value)
                elif field == 'dc.subtype':
                    sample = encoder.message_sample(self.rng, value)
                elif field == 'xaeth.subtype':
                    sample = encoder.masked_atomic_sample(self.rng, value)
                elif field == 'lock.subtype':
                    sample = encoder.lock_request_sample(self.rng, value)
                elif field == 'lock.status':
                    sample = encoder.lock_response_sample(self.rng, value)
                else:
                    sample.values[field] = value
                samples.append((field, names[value], sample))
        capture = self.capture([sample.frame() for _, _, sample in samples])
        for (field, name, sample), items in zip(samples, self.tshark.items(capture), strict=True):
            [text] = [item.text for item in items if item.name == f'rockhopper.{field}']
            self.assertRegex(text, rf': {name} \({sample.values[field]}\)$')

    def test_names_of_syndromes(self):
        """RNR timers and NAK codes of vol. 1, 9.7.5.2.8 and 9.7.5.2.4."""
        timers = {0: '655.36', 1: '0.01', 2: '0.02', 3: '0.03', 7: '0.12', 14: '1.28', 19: '7.68',
                  31: '491.52'}
        naks = ('PSN Sequence Error', 'Invalid Request', 'Remote Access Error',
                'Remote Operational Error', 'Invalid RD Request')
        expected = {0x20 + code: ('timer', f'{time} ms') for code, time in timers.items()}
        expected |= {0x60 + code: ('error_code', name) for code, name in enumerate(naks)}
        frames = []
        for syndrome in expected:
            sample = encoder.dc_sample(self.rng, packets.ACK, 1)
            frames.append(sample.with_values(aeth_syndrome=syndrome).frame())
        for (field, name), items in zip(expected.values(),
                                        self.tshark.items(self.capture(frames)), strict=True):
            [text] = [item.text for item in items if item.name.endswith(f'syndrome.{field}')]
            self.assertIn(f': {name} (', text)

    def test_headers_of_rc_are_as_wireshark_has_them(self):
        """A packet of RC with the same low five bits and headers: Wireshark's values have the same
        names and are the same."""
        pairs = []
        for operation, (layout, _) in encoder.OPERATIONS.items():
            if operation >= 0x1C:  # unknown to Wireshark 4.0
                continue
            ours = encoder.dc_sample(self.rng, operation, 1)
            ours.payload = GUESSED_AT_BY_NONE
            size = encoder.size_of(encoder.DCSH[1])
            theirs = dataclasses.replace(ours.packet(), opcode=operation,
                                         headers=ours.headers[size:])
            pairs.append((ours.frame(), theirs.to_bytes()))
        mine = self.tshark.items(self.capture([ours for ours, _ in pairs]))
        other = self.tshark.items(self.capture([theirs for _, theirs in pairs]), 'infiniband')
        compared = 0
        for ours, theirs in zip(mine, other, strict=True):
            values = {item.name.partition('.')[2]: item for item in theirs}
            for item in ours:
                name = item.name.partition('.')[2]
                if name == 'opcode':
                    text = values['bth.opcode'].text
                    text = text.replace('Reliable Connection (RC)', 'Dynamic Connection (DC)')
                    self.assertEqual(item.text.partition(' (0x')[0], text.rpartition(' (')[0])
                elif name in values and item.value and name != 'reserved':
                    self.assertEqual(number(item.value), number(values[name].value), name)
                    compared += 1
        self.assertGreater(compared, 40)

    def test_selective_acknowledge_lists_the_packets_held(self):
        bitmaps = [1, 1 << 255, (1 << 256) - 1, 0b1011101, self.rng.randrange(1, 1 << 256)]
        first_psns = [0, 0xFFFFFF, 0xFFFFF0, self.rng.getrandbits(24)]
        samples = [encoder.selective_ack_sample(self.rng, psn, bitmap)
                   for bitmap in bitmaps for psn in first_psns]
        rows = self.fields([sample.frame() for sample in samples])
        for sample, row in zip(samples, rows, strict=True):
            psns = held_psns(sample)
            self.assertEqual([int(text) for text in row['saeth.psn']], psns)
            self.assertEqual(int(row['saeth.count'][0]), len(psns))
            self.assertEqual(int(row['saeth.missing'][0]), sample.bth['psn'])
            self.assertEqual(row['saeth.bitmap'], [f'{sample.values["saeth.bitmap"]:064x}'])
            listed = []
            for run in row['saeth.held'][0].split(', '):
                first, _, last = run.partition('-')
                count = (int(last or first) - int(first)) % (1 << 24) + 1
                listed += [(int(first) + i) % (1 << 24) for i in range(count)]
            self.assertEqual(listed, psns)

    def test_runs_of_packets_held(self):
        sample = encoder.selective_ack_sample(self.rng, 0xFFFFFC, 0b1_0111_1010)
        capture = self.capture([sample.frame()])
        self.assertIn(' [PSNs held: 16777214, 0-3, 5]\n', self.tshark.run('-r', capture, '-V'))

    def test_all_words_of_a_lock_request(self):
        """1 to 7 of them behind that of the header, in order, each in a tree of its own."""
        samples, expected = [], []
        for count in range(1, 8):
            one = encoder.lock_request_sample(self.rng, 6, count % 2 == 0)
            words = [encoder.some_values(self.rng, encoder.LOCK_WORD) for _ in range(count)]
            one.payload = b''.join(encoder.encode(encoder.LOCK_WORD, word) for word in words[1:])
            header = one.layout[:-len(encoder.LOCK_WORD)]
            first = encoder.encode(encoder.LOCK_WORD, words[0])
            frame = dataclasses.replace(one.packet(), headers=encoder.encode(header, one.values),
                                        payload=first + one.payload)
            samples.append(frame.to_bytes())
            expected.append([one.values, *words])
        for row, words in zip(self.fields(samples), expected, strict=True):
            for name in ('lock.va', 'lock.r_key', 'lock.shared'):
                self.assertEqual([number(value) for value in row[name]],
                                 [word[name] for word in words[name == 'lock.shared':]])
            self.assertNotIn('payload', row)
        for items, words in zip(self.tshark.items(self.capture(samples)), expected, strict=True):
            names = [item.name for item in items]
            self.assertEqual(names.count('rockhopper.lock.word'), len(words) - 1)

    def test_limits_that_are_none(self):
        """0xFFFF tries, 0xFFFFFFFF microseconds, a lease and a scope of 0."""
        sample = encoder.lock_request_sample(self.rng, 1)
        special = sample.with_values(lock_tries=0xFFFF, lock_wait=0xFFFFFFFF, lock_lease=0,
                                     lock_scope_psns=0)
        plain = sample.with_values(lock_tries=0xFFFE, lock_wait=0xFFFFFFFE, lock_lease=1,
                                   lock_scope_psns=1)
        with_text, without = self.tshark.items(self.capture([special.frame(), plain.frame()]))
        for name, text in {'tries': 'no limit', 'wait': 'no limit', 'lease': "the target's",
                           'scope_psns': 'no scope follows'}.items():
            [item] = [item for item in with_text if item.name == f'rockhopper.lock.{name}']
            self.assertTrue(item.text.endswith(f', {text}'), item)
            [item] = [item for item in without if item.name == f'rockhopper.lock.{name}']
            self.assertRegex(item.text, r': \d+$')

    def test_what_a_refusal_does_not_know(self):
        samples = [encoder.message_sample(self.rng, encoder.CNAK).with_values(dc_flags=flags)
                   for flags in (0, 1)]
        capture = self.capture([sample.frame() for sample in samples])
        texts = [item.text for items in self.tshark.items(capture) for item in items
                 if item.name == 'rockhopper.dc.expected_psn']
        self.assertEqual(['not known' in text for text in texts], [True, False])


class Columns(Dissection):
    def info(self, frames):
        rows = self.tshark.columns(self.capture(frames))
        self.assertEqual({protocol for protocol, _ in rows}, {'RRoCE'})
        return [info for _, info in rows]

    def test_operations_are_named_as_wireshark_names_them(self):
        known = [operation for operation in encoder.OPERATIONS if operation < 0x1C]
        ours = [encoder.dc_sample(self.rng, operation, 1) for operation in known]
        for sample in ours:
            sample.payload = GUESSED_AT_BY_NONE
            if 'aeth.syndrome' in sample.values:
                sample.values['aeth.syndrome'] = 0x1F
        theirs = [packets.Packet('192.0.2.1', '192.0.2.2', operation, sample.bth['dqpn'], 0,
                                 sample.headers[12:], sample.payload)
                  for operation, sample in zip(known, ours)]
        texts = self.info([packet.to_bytes() for packet in theirs])
        mine = self.info([sample.frame() for sample in ours])
        for sample, mine, text in zip(ours, mine, texts, strict=True):
            values = sample.values
            session = f'Source=0x{values["dc.source"]:06x} Session=0x{values["dc.session"]:016x}'
            self.assertEqual(mine, f'{text.replace("RC ", "DC ", 1)} {session}')

    def test_others(self):
        def text(sample, form):
            values = {name.replace('.', '_'): value for name, value in sample.values.items()}
            return form.format(qp=f'QP=0x{sample.bth["dqpn"]:06x}', **values)

        def message(subtype, **values):
            return encoder.message_sample(self.rng, subtype).with_values(**values)

        def dc(operation, form=1, **values):
            return encoder.dc_sample(self.rng, operation, form).with_values(**values)

        place = 'Source=0x{dc_source:06x} Session=0x{dc_session:016x}'
        expected = [
            (dc(0x1C), 'DC Flush {qp} ' + place),
            (dc(0x1D), 'DC Atomic Write {qp} ' + place),
            (dc(0x04, 0),
             'DC Send Only {qp} Source=0x{dc_source:06x} Nonce=0x{dc_nonce:08x}'),
            (dc(0x11, aeth_syndrome=0x60),
             'DC Acknowledge {qp} ' + place + ' [PSN Sequence Error]'),
            (message(1), 'DC CONNECT {qp} DCI=0x{dc_dci:06x} Nonce=0x{dc_nonce:08x}'),
            (message(2), 'DC ACCEPT {qp} Nonce=0x{dc_nonce:08x} Session=0x{dc_session:016x}'),
            (message(3, dc_reason=4),
             'DC CNAK {qp} [Stale session] Nonce=0x{dc_nonce:08x} Session=0x{dc_session:016x}'),
            (message(4), 'DC DISCONNECT {qp} Session=0x{dc_session:016x}'),
            (message(5, dc_flags=0), 'DC KEEPALIVE {qp} Session=0x{dc_session:016x}'),
            (message(5, dc_flags=1), 'DC KEEPALIVE {qp} [Answer] Session=0x{dc_session:016x}'),
            (encoder.connect_data_sample(self.rng, 0x0B),
             'DC CONNECT, RDMA Write Only Immediate {qp} DCI=0x{dc_dci:06x} Nonce=0x{dc_nonce:08x}'),
            (encoder.masked_atomic_sample(self.rng, 1), 'RC Masked Compare Swap {qp}'),
            (encoder.masked_atomic_sample(self.rng, 2), 'RC Masked Fetch Add {qp}'),
            (encoder.lock_request_sample(self.rng, 1),
             'RC Lock Acquire Exclusive {qp} Scope={lock_scope} Word=0x{lock_va:016x}'),
            (encoder.lock_request_sample(self.rng, 3, True),
             f'DC Lock Release {{qp}} {place} Scope={{lock_scope}} Word=0x{{lock_va:016x}}'),
            (encoder.lock_request_sample(self.rng, 8).with_values(lock_subtype=8),
             'RC Lock Release Foreign {qp} Scope={lock_scope} Word=0x{lock_va:016x}'),
            (encoder.lock_response_sample(self.rng, 1),
             'RC Lock Granted {qp} Scope={lock_scope} Token={lock_token}'),
            (encoder.lock_response_sample(self.rng, 3, True).with_values(lock_cause=5),
             f'DC Lock Failed {{qp}} {place} [Not the owner] Scope={{lock_scope}}'),
            (encoder.lock_response_sample(self.rng, 5), 'RC Lock Flushed {qp} Scope={lock_scope}'),
            (encoder.selective_ack_sample(self.rng, 77, 0b101),
             'RC Selective Acknowledge {qp} Missing=77 Held=2'),
        ]  # fmt: skip
        self.assertEqual(self.info([sample.frame() for sample, _ in expected]),
                         [text(sample, form) for sample, form in expected])


class Filters(Dissection):
    def frames(self, capture, expression):
        rows = self.tshark.fields(capture, ['frame.number'], '-Y', expression)
        return [int(row['frame.number'][0]) - 1 for row in rows]

    def test_each_field_finds_its_packets(self):
        samples = encoder.samples(self.rng)
        capture = self.capture([sample.frame() for sample in samples])
        for name in ('dc.session', 'dc.nonce', 'dc.access_key', 'dc.source', 'dc.lease',
                     'dc.stream', 'dc.reason', 'reth.va', 'saeth.bitmap', 'xaeth.mask',
                     'feth.placement', 'lock.va', 'lock.scope', 'lock.token', 'lock.compare'):
            chosen = self.rng.choice([s for s in samples if name in dict(s.layout)])
            value = chosen.values[name]
            text = value.to_bytes(32, 'big').hex(':') if name == 'saeth.bitmap' else hex(value)
            expected = [i for i, s in enumerate(samples) if s.values.get(name) == value
                        and name in dict(s.layout)]
            self.assertEqual(self.frames(capture, f'rockhopper.{name} == {text}'), expected, name)
        every = range(len(samples))
        self.assertEqual(self.frames(capture, 'rockhopper'), [*every])
        self.assertEqual(self.frames(capture, 'rockhopper.opcode == 0xd8'),
                         [i for i in every if samples[i].opcode == 0xD8])
        sack = next(i for i in every if samples[i].opcode == 0xD5)
        psn = self.rng.choice(held_psns(samples[sack]))
        self.assertEqual(self.frames(capture, f'rockhopper.saeth.psn == {psn}'), [sack])

    def test_the_document_names_them_all(self):
        text = (ROOT / 'docs/wireshark.md').read_text(encoding='utf-8')
        rows = re.findall(r'^\| (`[^|]*`) \|', text, re.MULTILINE)
        documented = [name for row in rows for name in re.findall(r'`([\w.]+)`', row)]
        self.assertEqual(sorted(f'rockhopper.{name}' for name in documented), self.names)


class Document(unittest.TestCase):
    """The layouts that the packets are made from are those of docs/wire.md."""

    def setUp(self):
        text = (ROOT / 'docs/wire.md').read_text(encoding='utf-8')
        self.rows = [[cell.strip() for cell in line.strip('|').split('|')]
                     for line in text.splitlines() if line.startswith('|')]

    def row(self, *beginning):
        [row] = [row for row in self.rows if row[:len(beginning)] == [*map(str, beginning)]]
        return row

    def check(self, cell, layout, name):
        """The numbers behind the names in a cell are the bits of the fields."""
        cell = re.sub(r' \([^)]*\)', '', cell)
        bits = [int(number) for number in re.findall(r' (\d+)(?=[,.]|$)', cell)]
        self.assertEqual(bits, [bits for _, bits in layout], name)

    def test_headers(self):
        for name, layout in {
            'RETH': encoder.RETH, 'AETH': encoder.AETH, 'AtomicETH': encoder.ATOMIC_ETH,
            'AtomicAckETH': encoder.ATOMIC_ACK_ETH, 'ImmDt': encoder.IMM_DT, 'IETH': encoder.IETH,
            'FETH': encoder.FETH, 'XAETH': encoder.XAETH, 'LKETH': encoder.LKETH,
            'LKAETH': encoder.lkaeth_layout(1),
        }.items():  # fmt: skip
            self.check(self.row(name, encoder.size_of(layout))[2], layout, name)

    def test_session_header(self):
        common, nonce, session = re.split(r'[01]: ', self.row('DCSH', 12)[2])
        self.check(common.replace('then by form.', '') + nonce, encoder.DCSH[0], 'form 0')
        self.check(common.replace('then by form.', '') + session, encoder.DCSH[1], 'form 1')

    def test_payloads_of_lock_requests(self):
        rows = [row for row in self.rows if len(row) == 3 and row[0] in map(str, range(1, 9))]
        cells = {int(row[0]): row[2] for row in rows if row[1].startswith(('acq', 'rel', 'can'))}
        self.assertEqual(set(cells), set(encoder.LOCK_PAYLOADS))
        for subtype, layout in encoder.LOCK_PAYLOADS.items():
            cell = cells[subtype]
            if cell == 'none':
                self.assertEqual(layout, ())
                continue
            cell = cells[int(cell.removeprefix('as '))] if cell.startswith('as ') else cell
            size, cell = cell.split(': ')
            self.assertEqual(int(size.split()[0]), encoder.size_of(layout))
            self.check(cell, layout, subtype)

    def test_messages(self):
        closing = self.row(encoder.DISCONNECT, 'DISCONNECT')[4]
        for subtype, name in NAMES['dc.subtype'].items():
            layout = encoder.message_layout(subtype)
            *_, size, cell = self.row(subtype, name)
            self.assertEqual(int(size), encoder.size_of(layout), name)
            self.check(closing if cell == 'as DISCONNECT' else cell, layout[5:], name)


class Complaints(Dissection):
    EXPERTS = frozenset(('short', 'cut', 'bad_magic', 'bad_version', 'bad_value', 'bad_number',
                         'bad_size', 'bad_use', 'reserved_set'))

    def experts(self, frames, **more):
        return [self.EXPERTS & set(row) for row in self.fields(frames, **more)]

    def test_valid_packets_have_none(self):
        samples = [sample for _ in range(20) for sample in encoder.samples(self.rng)]
        found = self.experts([sample.frame() for sample in samples])
        for sample, experts in zip(samples, found, strict=True):
            self.assertEqual(experts, set(), sample)

    def test_what_is_wrong_is_told(self):
        rng = self.rng
        connect, accept, cnak, *_, keepalive = (encoder.message_sample(rng, s) for s in range(1, 6))
        ack, send = encoder.dc_sample(rng, 0x11, 1), encoder.dc_sample(rng, 0x04, 1)
        flush, write = encoder.dc_sample(rng, 0x1C, 1), encoder.dc_sample(rng, 0x1D, 1)
        sack, add = encoder.selective_ack_sample(rng), encoder.masked_atomic_sample(rng, 2)
        both = encoder.connect_data_sample(rng, 0x0A).with_values(dc_mtu=1)
        lock, several, foreign = (encoder.lock_request_sample(rng, s) for s in (1, 6, 7))
        granted, failed = (encoder.lock_response_sample(rng, s) for s in (1, 3))
        in_session = encoder.lock_response_sample(rng, 1, in_session=True)

        def bth(sample, **fields):
            return dataclasses.replace(sample, bth=sample.bth | fields)

        def payload(sample, data):
            return dataclasses.replace(sample, payload=data)

        cases = [
            (connect.with_values(dc_magic=encoder.MAGIC ^ 1), {'bad_magic'}),
            (connect.with_values(dc_version=2), {'bad_version'}),
            (connect.with_values(dc_version=0), {'bad_version'}),
            (connect.with_values(dc_version=2, dc_subtype=9, dc_flags=0xFF), {'bad_version'}),
            (keepalive.with_values(dc_subtype=0), {'bad_value'}),
            (keepalive.with_values(dc_subtype=6), {'bad_value'}),
            (connect.with_values(dc_mtu=0), {'bad_value'}),
            (accept.with_values(dc_mtu=6), {'bad_value'}),
            (cnak.with_values(dc_reason=0), {'bad_value'}),
            (cnak.with_values(dc_reason=7), {'bad_value'}),
            (connect.with_values(dc_stream=127), set()),
            (connect.with_values(dc_stream=128), {'bad_value'}),
            (connect.with_values(dc_stream=255), {'bad_value'}),
            (send.with_values(dc_stream=127), set()),
            (keepalive.with_values(dc_value=1), {'reserved_set'}),
            (keepalive.with_values(dc_flags=2), {'reserved_set'}),
            (connect.with_values(dc_flags=4), {'reserved_set'}),
            (accept.with_values(dc_flags=1), {'reserved_set'}),
            (connect.with_values(reserved=1), {'reserved_set'}),
            (connect.with_values(dc_dci=0xCFFFFF), {'bad_number'}),
            (connect.with_values(dc_dci=0xE00000), {'bad_number'}),
            (send.with_values(dc_source=0x11), {'bad_number'}),
            (encoder.dc_sample(rng, 0x04, 0).with_values(reserved=1), {'reserved_set'}),
            (bth(send, dqpn=0x11), {'bad_number'}),
            (bth(connect, dqpn=0xE00000), {'bad_number'}),
            (bth(connect, psn=1), {'bad_use'}),
            (bth(connect, ack_request=True), {'bad_use'}),
            (bth(connect, pad=b'', pad_count=1), {'bad_use', 'short'}),
            (payload(connect, bytes(4)), {'bad_size'}),
            (payload(connect.with_values(dc_magic=0), bytes(4)), {'bad_magic'}),
            (payload(ack, bytes(4)), {'bad_size'}),
            (payload(write, bytes(12)), {'bad_size'}),
            (payload(write, bytes(4)), {'short'}),
            (bth(payload(send, b''), pad=b'', pad_count=2), {'short'}),
            (encoder.dc_sample(rng, 0x0E, 0), {'bad_use'}),
            (encoder.dc_sample(rng, 0x0C, 0), set()),
            (ack.with_values(aeth_syndrome=0x40), {'bad_value'}),
            (ack.with_values(aeth_syndrome=0x65), {'bad_value'}),
            (ack.with_values(aeth_syndrome=0x80), {'reserved_set'}),
            (flush.with_values(feth_placement=0), {'bad_value'}),
            (flush.with_values(feth_placement=4), {'bad_value'}),
            (flush.with_values(feth_selectivity=2), {'bad_value'}),
            (flush.with_values(reserved=1), {'reserved_set'}),
            (sack.with_values(saeth_bitmap=0), {'bad_use'}),
            (sack.with_values(aeth_syndrome=0x60), {'bad_use'}),
            (payload(sack, bytes(4)), {'bad_size'}),
            (add.with_values(xaeth_subtype=0), {'bad_value'}),
            (add.with_values(xaeth_subtype=3), {'bad_value'}),
            (add.with_values(xaeth_compare=1), {'bad_use'}),
            (add.with_values(xaeth_compare_mask=1 << 63), {'bad_use'}),
            (add.with_values(reserved=1), {'reserved_set'}),
            (payload(add, bytes(4)), {'bad_size'}),
            (both.with_values(dc_magic=encoder.MAGIC ^ 1), {'bad_magic'}),
            (both.with_values(dc_subtype=2), {'bad_value'}),
            (both.with_values(dc_operation=0xCC), {'bad_value'}),
            (both.with_values(dc_operation=0x04), {'bad_value'}),
            (both.with_values(dc_operation=0xC4), set()),
            (both.with_values(dc_flags=1), {'bad_use'}),
            (bth(both, psn=both.bth['psn'] ^ 1), {'bad_use'}),
            (payload(both, bytes(256 - 36)), set()),
            (payload(both, bytes(256 - 35)), {'bad_size'}),
            (both.with_values(reserved=1), {'reserved_set'}),
            (lock.with_values(lock_subtype=0), {'bad_value'}),
            (lock.with_values(lock_subtype=4), {'bad_value'}),
            (lock.with_values(lock_subtype=9), {'bad_value'}),
            (payload(lock.with_values(lock_subtype=4), bytes(16)), {'bad_value'}),
            (lock.with_values(lock_subtype=6), {'short'}),
            (lock.with_values(lock_subtype=7), {'short'}),
            (lock.with_values(lock_flags=7), set()),
            (lock.with_values(lock_flags=0x17), {'reserved_set'}),
            (lock.with_values(lock_flags=8), {'bad_use'}),
            (foreign.with_values(lock_flags=8), set()),
            (lock.with_values(lock_timeout=32), {'bad_value'}),
            (lock.with_values(reserved=1), {'reserved_set'}),
            (payload(lock, bytes(4)), {'bad_size'}),
            (several.with_values(lock_shared=2), {'bad_value'}),
            (payload(several, bytes(6 * 16)), set()),
            (payload(several, bytes(7 * 16)), {'bad_size'}),
            (payload(several, bytes(12)), {'short'}),
            (payload(several, bytes(14)), {'short'}),
            (payload(foreign, bytes(4)), {'bad_size'}),
            (granted.with_values(lock_status=0), {'bad_value'}),
            (granted.with_values(lock_status=7), {'bad_value'}),
            (granted.with_values(lock_cause=1), {'bad_use'}),
            (failed.with_values(lock_cause=0), {'bad_use'}),
            (failed.with_values(lock_cause=8), {'bad_value'}),
            (failed.with_values(reserved=1), {'reserved_set'}),
            (payload(failed, bytes(4)), {'bad_size'}),
            # Read as one with a session header: 8 bytes of that are the previous word.
            (bth(granted.with_values(lock_scope=0, lock_msn=0, lock_previous=1 << 24, lock_token=0),
                 dqpn=0xD00000), {'short', 'bad_number', 'bad_use'}),
            (in_session.with_values(dc_form=0, dc_session=1), {'bad_use', 'reserved_set'}),
            (in_session.with_values(dc_source=0x11), {'bad_number'}),
        ]  # fmt: skip
        found = self.experts([sample.frame() for sample, _ in cases])
        for (sample, expected), experts in zip(cases, found, strict=True):
            self.assertEqual(experts, expected, sample)


    def test_every_reserved_field_is_looked_at(self):
        samples = [sample.with_values(reserved=1) for sample in encoder.samples(self.rng)
                   if RESERVED in dict(sample.layout)]
        rows = self.fields([sample.frame() for sample in samples])
        for sample, row in zip(samples, rows, strict=True):
            count = sum(name == RESERVED for name, _ in sample.layout)
            self.assertEqual(len(row['reserved_set']), count, sample)


def shortened(sample, size):
    """The frame with only `size` bytes of UDP payload; lengths, checksum and ICRC are right, if
    there is room for them."""
    if size >= BTH + ICRC:
        body = (sample.headers + sample.payload)[:size - BTH - ICRC]
        changes = {'headers': body, 'payload': b'', 'pad': b'', 'pad_count': 0}
        return dataclasses.replace(sample.packet(), **changes).to_bytes()
    start = sample.offset - BTH
    frame = bytearray(sample.frame()[:start + size])
    struct.pack_into('>H', frame, start - 4, UDP + size)
    if ':' in sample.ends[0]:
        struct.pack_into('>H', frame, start - UDP - 36, UDP + size)
    else:
        struct.pack_into('>H', frame, start - UDP - 18, 20 + UDP + size)
    return bytes(frame)


class Truncation(Dissection):
    """Packets that are too short, and packets of which the capture has not all, at every length."""

    def check(self, sample, row, size):
        """`size` bytes of what is between BTH and ICRC are there: the fields in them are shown, the
        others are not."""
        shown = {name for name, _, end in encoder.places(sample.layout) if end <= size}
        beyond = {name for name, _ in sample.layout} - shown - {RESERVED}
        self.assertLessEqual(shown, set(row))
        self.assertEqual(beyond & set(row), set())

    def test_packets_too_short(self):
        cases = []
        for sample in encoder.samples(self.rng):
            needed = len(sample.headers) + (8 if sample.opcode == 0xDD else 0)
            whole = len(sample.headers) + len(sample.payload)
            cases += [(sample, size, needed) for size in range(BTH + ICRC + whole)]
        rows = self.fields([shortened(sample, size) for sample, size, _ in cases])
        for (sample, size, needed), row in zip(cases, rows, strict=True):
            with self.subTest(opcode=hex(sample.opcode), size=size):
                if size < BTH:
                    self.assertEqual(set(row), set())
                    continue
                self.assertIn('opcode', row)
                self.check(sample, row, size - BTH - ICRC)
                self.assertEqual('short' in row, size - BTH - ICRC < needed)
                self.assertNotIn('cut', row)
                self.assertEqual('icrc' in row, size >= BTH + ICRC)

    def test_packets_captured_in_part(self):
        cases = []
        for sample in encoder.samples(self.rng):
            frame = sample.frame()
            cases += [(sample, frame, size) for size in range(14, len(frame) + 1)]
        rows = self.fields([frame[:size] for _, frame, size in cases],
                           sizes=[len(frame) for _, frame, _ in cases])
        for (sample, frame, size), row in zip(cases, rows, strict=True):
            with self.subTest(opcode=hex(sample.opcode), size=size):
                self.assertEqual('opcode' in row, size >= sample.offset)
                self.check(sample, row, size - sample.offset)
                self.assertNotIn('short', row)
                self.assertEqual('cut' in row, sample.offset <= size < len(frame) - ICRC)
                self.assertEqual('icrc' in row, size == len(frame))


class Anything(Dissection):
    def random_packet(self, samples):
        """Random bytes behind an opcode of ours, or a valid packet with random changes."""
        rng = self.rng
        sample = rng.choice(samples)
        if rng.random() < 0.5:
            packet = dataclasses.replace(
                sample.packet(), opcode=rng.choice(sorted(OURS)), dqpn=rng.getrandbits(24),
                psn=rng.getrandbits(24), headers=rng.randbytes(rng.randrange(120)), payload=b'',
                pad=b'', pad_count=rng.randrange(4), ack_request=rng.random() < 0.5)
            return packet.to_bytes()
        frame = bytearray(sample.frame())
        for _ in range(rng.randrange(1, 4)):
            frame[rng.randrange(sample.offset - BTH, len(frame) - ICRC)] = rng.getrandbits(8)
        if sample.vlan is None:
            packets.mend(frame)
        if rng.random() < 0.2:  # lengths that lie
            frame[sample.offset - BTH - 4 + rng.randrange(2)] = rng.getrandbits(8)
        return bytes(frame)

    def test_random_packets_draw_no_lua_error(self):
        samples = encoder.samples(self.rng)
        frames = [self.random_packet(samples) for _ in range(RANDOM_PACKETS)]
        sizes = [len(frame) for frame in frames]
        frames = [frame[:self.rng.randrange(14, len(frame))] if self.rng.random() < 0.2 else frame
                  for frame in frames]
        rows = self.fields(frames, sizes=sizes)
        self.assertEqual(len(rows), RANDOM_PACKETS)
        self.assertGreater(sum('opcode' in row for row in rows), RANDOM_PACKETS / 2)
        self.assertNotIn('Lua', self.tshark.run('-r', self.capture(frames, sizes), '-V'))

    def test_an_error_would_be_seen(self):
        """In every way in which these tests look for one."""
        text = tshark.SCRIPT.read_text(encoding='utf-8')
        broken = self.folder / 'broken.lua'
        place = 'SHOW["dc.nonce"] = function(packet, tree, range)\n'
        self.assertIn(place, text)
        broken.write_text(text.replace(place, place + '  error("deliberate")\n'), encoding='utf-8')
        capture = self.capture([encoder.dc_sample(self.rng, 0, 0).frame()])
        [row] = self.tshark.fields(capture, [LUA_ERROR], scripts=[broken])
        self.assertIn(LUA_ERROR, row)
        self.assertIn('Lua', self.tshark.run('-r', capture, '-V', scripts=[broken]))
        broken.write_text('no Lua', encoding='utf-8')
        with self.assertRaisesRegex(AssertionError, 'syntax error'):
            self.tshark.run('-r', capture, scripts=[broken])

    def test_may_be_loaded_twice(self):
        capture = self.capture([encoder.dc_sample(self.rng, 0, 0).frame()])
        output = self.tshark.run('-r', capture, '-V', scripts=[self.tshark.script] * 2)
        self.assertEqual(output, self.tshark.run('-r', capture, '-V'))


class Others(Dissection):
    """What Wireshark dissects itself stays as it is."""

    def dissections(self, capture, scripts):
        """Text with columns, and JSON without the empty, hidden item of Wireshark's Lua engine."""
        parsed = json.loads(self.tshark.run('-r', capture, '-T', 'json', '--no-duplicate-keys',
                                            scripts=scripts))
        for packet in parsed:
            packet['_source']['layers'].pop('_ws.lua.fake', None)
        return self.tshark.run('-r', capture, '-P', '-V', scripts=scripts), parsed

    def check_unchanged(self, capture):
        text, parsed = self.dissections(capture, [])
        text_with, parsed_with = self.dissections(capture, [self.tshark.script])
        for line, line_with in zip(text.splitlines(), text_with.splitlines()):
            self.assertEqual(line_with, line)  # a difference of whole dissections takes minutes
        self.assertTrue(text_with == text)
        self.assertTrue(parsed_with == parsed)
        self.assertNotEqual(parsed, [])

    def test_captures_of_soft_roce(self):
        captures = sorted((ROOT / 'tests/data/captures').glob('*.pcap'))
        self.assertGreater(len(captures), 30)
        # Together: tshark takes longer to start than to read one of them.
        together = self.folder / 'soft_roce.pcap'
        subprocess.run(['mergecap', '-a', '-F', 'pcap', '-w', together, *captures], check=True)
        self.check_unchanged(together)

    def test_all_other_opcodes(self):
        frames = [packets.Packet('192.0.2.1', '192.0.2.2', opcode, 0xD00005, 7,
                                 self.rng.randbytes(self.rng.randrange(80))).to_bytes()
                  for opcode in range(256) if opcode not in OURS for _ in range(4)]
        self.check_unchanged(self.capture(frames))

    def test_other_udp_ports(self):
        frame = bytearray(encoder.dc_sample(self.rng, 4, 1).frame())
        frame[36:38] = struct.pack('>H', 4792)
        frame[34:36] = struct.pack('>H', 50000)
        self.check_unchanged(self.capture([bytes(frame)]))

    def test_a_port_decoded_as_infiniband(self):
        frame = bytearray(encoder.dc_sample(self.rng, 4, 1).frame())
        frame[36:38] = struct.pack('>H', 5000)
        [row] = self.fields([bytes(frame)], '-d', 'udp.port==5000,infiniband')
        self.assertIn('dc.session', row)

    def test_ours_do_change(self):
        capture = self.capture([encoder.dc_sample(self.rng, 4, 1).frame()])
        without, with_script = (self.dissections(capture, s) for s in ([], [self.tshark.script]))
        self.assertNotEqual(with_script[0], without[0])
        self.assertNotEqual(with_script[1], without[1])
        [packet] = with_script[1]
        del packet['_source']['layers']['rockhopper']
        self.assertEqual([packet], without[1])  # a tree more, nothing else

    def test_an_icmp_error_keeps_its_info(self):
        """The packet that it quotes is dissected all the same."""
        quoted = encoder.dc_sample(self.rng, 4, 1).frame()[14:]
        icmp = bytes((3, 4, 0, 0)) + struct.pack('>HH', 0, 1500) + quoted
        ip = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(icmp), 1, 0, 64, 1, 0) + bytes(range(1, 9))
        capture = self.capture([bytes(12) + b'\x08\x00' + ip + icmp])
        [row] = self.tshark.fields(capture, ['rockhopper.dc.session'])
        self.assertIn('rockhopper.dc.session', row)
        self.assertEqual(self.tshark.columns(capture), self.tshark.columns(capture, scripts=[]))


if __name__ == '__main__':
    unittest.main(verbosity=2)
