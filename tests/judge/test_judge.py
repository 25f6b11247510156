# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Tests of the checker: clean captures pass, and each kind of damage is found by its rule."""

import contextlib
import dataclasses
import gzip
import io
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import dc_scenarios  # noqa: E402  (its scenarios join the others)
import lock_scenarios  # noqa: E402  (likewise)
import packets as p  # noqa: E402
import scenarios  # noqa: E402
import simulate  # noqa: E402
import simulate_locks  # noqa: E402
from judge import capture, cli, frame, survey  # noqa: E402
from judge.rules import RULES  # noqa: E402

CAPTURES = HERE.parent / "data" / "captures"

# What Soft-RoCE of Linux 6.1 does against the rules.
DEVIATIONS = {
    # Packets that were under way when it refused one with RNR draw a NAK for a sequence error.
    "ipv4-rc-rnr-mtu1024.pcap": {"nak-after-rnr"},
}


class JudgeCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, data: bytes, name: str = "test.pcap") -> str:
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def judge(self, path: str, *options: str) -> tuple[int, dict]:
        """Exit status and the JSON answer for one file."""
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = cli.main(["--json", *options, str(path)])
        return status, json.loads(output.getvalue())["files"][0]

    def rules(self, packets: list[p.Packet], *options: str) -> set[str]:
        """The rules that a capture of these packets breaks, traits among them."""
        status, answer = self.judge(self.write(p.pcapng(packets)), "--strict", *options)
        found = set(answer["violations_by_rule"])
        self.assertEqual(status, 1 if found else 0)
        return found


class RealCaptures(JudgeCase):
    """Soft-RoCE to Soft-RoCE: nothing but the deviations listed above."""

    def test_captures(self):
        files = sorted(CAPTURES.glob("*.pcap"))
        self.assertGreater(len(files), 30)
        for file in files:
            with self.subTest(file.name):
                _, answer = self.judge(file)
                self.assertEqual(
                    set(answer["violations_by_rule"]), DEVIATIONS.get(file.name, set()), answer
                )
                self.assertEqual(answer["notes"], [])

    def test_a_destroyed_queue_pair_owes_an_acknowledgement(self):
        _, answer = self.judge(
            CAPTURES / "ipv4-rc-retry-exceeded-mtu1024.pcap", "--settle-ms", "50"
        )
        self.assertEqual(answer["violations_by_rule"], {"ack-owed": 1})

    def test_connections_are_found(self):
        _, answer = self.judge(CAPTURES / "cm-ucmatose.pcap")
        pairs = {(c["requester_qpn"], c["responder_qpn"]) for c in answer["connections"]}
        self.assertEqual(len(answer["connections"]), 4)
        self.assertEqual(pairs, {(one, other) for other, one in pairs})


class DamagedCaptures(JudgeCase):
    """Real captures, edited; checksums and ICRC are mended where they are not the point."""

    def damaged(self, name: str, edit) -> dict[str, int]:
        frames = p.load(CAPTURES / name)
        edit(frames)
        path = os.path.join(self.folder, "damaged.pcap")
        p.save(path, frames)
        return self.judge(path, "--settle-ms", "0")[1]["violations_by_rule"]

    def edited(self, name: str, number: int, offset: int, value: bytes) -> dict[str, int]:
        """With `value` written at an offset from the BTH of a frame, counted from 1."""

        def edit(frames):
            data = frames[number - 1][1]
            data[42 + offset : 42 + offset + len(value)] = value
            p.mend(data)

        return self.damaged(name, edit)

    def test_every_bit_counts(self):
        """WIRE-1, the checker's part: a flipped bit is found wherever it is, except where a network
        element may flip it."""
        for name, first, free in (
            ("ipv4-rc-send-small-mtu1024.pcap", 34, set()),
            ("ipv6-rc-write-mtu1024.pcap", 54, {15, 16, 17, 21}),
        ):
            time_ns, good = p.load(CAPTURES / name)[4]  # AckReq, padding, some bytes of payload
            bth = first + 8
            missed = set()
            for bit in range(12 * 8, len(good) * 8):
                data = bytearray(good)
                data[bit // 8] ^= 0x80 >> bit % 8
                path = os.path.join(self.folder, "bit.pcap")
                p.save(path, [(time_ns, data)])
                if self.judge(path, "--strict")[0] == 0:
                    missed.add(bit)
            allowed = {byte * 8 + bit for byte in free for bit in range(8)}
            if first == 54:
                allowed |= {14 * 8 + bit for bit in range(4, 8)}
            allowed |= {(bth + 4) * 8, (bth + 4) * 8 + 1}  # FECN and BECN
            self.assertEqual(missed, allowed, name)

    def test_wrong_psn(self):
        found = self.edited("ipv4-rc-send-burst-mtu1024.pcap", 21, 9, b"\x00\x07\x00")
        self.assertIn("psn-advance", found)

    def test_missing_middle_packet(self):
        found = self.damaged("ipv4-rc-big-mtu1024.pcap", lambda frames: frames.pop(20))
        self.assertIn("psn-advance", found)

    def test_missing_read_response(self):
        found = self.damaged("ipv4-rc-read-pipelined-mtu1024.pcap", lambda frames: frames.pop(5))
        self.assertEqual(set(found), {"read-response-sequence"})

    def test_missing_acknowledgement(self):
        found = self.damaged("ipv4-rc-write-mtu1024.pcap", lambda frames: frames.pop())
        self.assertEqual(set(found), {"ack-owed"})

    def test_msn_backwards(self):
        found = self.edited("ipv4-rc-write-mtu1024.pcap", 25, 13, b"\x00\x00\x01")
        self.assertEqual(set(found), {"msn-backwards", "msn-count"})

    def test_ack_of_what_was_not_sent(self):
        found = self.edited("ipv4-rc-send-small-mtu1024.pcap", 4, 9, b"\x00\x01\x20")
        self.assertIn("ack-psn", found)

    def test_nak_with_wrong_psn(self):
        found = self.edited("ipv4-rc-rnr-mtu1024.pcap", 4, 9, b"\x00\x01\x01")
        self.assertEqual(
            set(found), {"nak-sequence-psn", "nak-after-rnr", "retransmit-acknowledged"}
        )

    def test_other_bytes_in_a_retransmission(self):
        found = self.edited("ipv4-rc-rnr-mtu1024.pcap", 7, 50, b"\xee")
        self.assertEqual(set(found), {"retransmit-content", "nak-after-rnr"})

    def test_read_response_of_wrong_kind(self):
        # LAST becomes MIDDLE: the AETH is taken for payload.
        found = self.edited("ipv4-rc-read-pipelined-mtu1024.pcap", 7, 0, b"\x0e")
        self.assertIn("read-response-sequence", found)

    def test_shorter_rdma_write(self):
        def edit(frames):
            for _, data in frames:
                if data[42] == 0x06:
                    data[42 + 27] ^= 1  # lowest byte of the DMA length
                    p.mend(data)

        self.assertEqual(
            set(self.damaged("ipv4-rc-write-mtu1024.pcap", edit)), {"reth-length"}
        )

    def test_atomic_answered_for_wrong_psn(self):
        found = self.edited("ipv4-rc-atomic-mtu1024.pcap", 4, 9, b"\x00\x01\x00")
        self.assertIn("response-order", found)


class ManyFlows(unittest.TestCase):
    def test_those_near_a_psn(self):
        """The ones found by stretches are those that asking every flow would find."""
        chance = random.Random(3)
        for _ in range(10):
            flows, found = [], survey.FlowsOfHosts()
            for number in range(40):
                flows.append(survey.Flow((b"a", b"b", 0, number), 1))
            psns = [chance.randrange(1 << 24) for _ in flows]
            for number in range(1, 1500):
                at = chance.randrange(len(flows))
                psns[at] = (psns[at] + chance.choice((0, 1, 1, 5, 300, 100_000, -3))) % (1 << 24)
                packet = p.Packet(
                    "10.0.0.1", "10.0.0.2", chance.choice((p.SEND_ONLY, p.READ)), at, psns[at],
                    p.reth(chance.choice((8, 4096, 1 << 20, 1 << 31))),
                )  # fmt: skip
                data = packet.to_bytes()
                record = capture.Record(number, 0, 1, data, len(data), "", "")
                flows[at].on_request(frame.parse(record))
                found.on_request(flows[at])
                psn = chance.randrange(1 << 24)
                if chance.random() < 0.5:
                    psn = (psns[at] + chance.randrange(-200_000, 200_000)) % (1 << 24)
                everyone = {flow.key for flow in flows if flow.low >= 0 and flow.vote_of(psn)}
                near = {flow.key for flow in found.near(psn) if flow.vote_of(psn)}
                self.assertEqual(near, everyone)


class EveryRule(JudgeCase):
    """Each rule is broken on purpose, in a dialogue that is clean otherwise."""

    def test_good_dialogues_are_clean(self):
        for name, (build, options) in scenarios.CLEAN.items():
            for service in (0x00, 0xA0):
                with self.subTest(name, service=service):
                    packets = [scenarios.as_service(packet, service) for packet in build()]
                    if service and "locks: " in name:
                        continue  # XRC has no locks
                    self.assertEqual(self.rules(packets, "--settle-ms", "0", *options), set())

    def test_good_dialogues_are_clean_over_ipv6(self):
        for name, (build, options) in scenarios.CLEAN.items():
            with self.subTest(name):
                packets = [scenarios.as_ipv6(packet) for packet in build()]
                self.assertEqual(self.rules(packets, "--settle-ms", "0", *options), set())

    def test_each_breach_is_found(self):
        for breach in scenarios.BREACHES:
            with self.subTest(breach.rule, what=breach.what):
                found = self.rules(breach.build(), "--settle-ms", "0", *breach.options)
                self.assertEqual(found, {breach.rule} | breach.also)

    def test_each_rule_is_broken_at_least_once(self):
        self.assertEqual({breach.rule for breach in scenarios.BREACHES}, set(RULES))

    def test_ignored_rules(self):
        for breach in scenarios.BREACHES:
            with self.subTest(breach.rule, what=breach.what):
                rules = {breach.rule} | breach.also
                ignored = [word for rule in rules for word in ("--ignore", rule)]
                found = self.rules(breach.build(), "--settle-ms", "0", *breach.options, *ignored)
                self.assertEqual(found, set())

    def test_rules_that_need_a_view_are_silent_without_it(self):
        for breach in scenarios.BREACHES:
            rules = {breach.rule} | breach.also
            with self.subTest(breach.rule, what=breach.what):
                found = self.rules(
                    breach.build(), "--settle-ms", "0", "--lossy", "both", *breach.options
                )
                self.assertEqual(found, {rule for rule in rules if not RULES[rule].needs_view})


class Traits(JudgeCase):
    """What some devices do otherwise, and no clause forbids, is told once a flow."""

    def device(self):
        """A dialogue whose requester has vendor's bits in the BTH and low source ports."""
        packets = scenarios.basic()
        for packet in packets:
            if packet.src == packets[0].src:
                packet.src_port, packet.reserved7 = 0x0123, 0x40
        return packets

    def test_a_device_of_its_own_kind_breaks_nothing(self):
        packets = self.device()
        status, answer = self.judge(self.write(p.pcapng(packets)))
        self.assertEqual((status, answer["violations_by_rule"]), (0, {}))
        self.assertEqual(sorted(trait["trait"] for trait in answer["traits"]),
                         ["bth-reserved", "udp-source-port"])
        self.assertEqual({trait["source"] for trait in answer["traits"]}, {packets[0].src})
        self.assertEqual(self.rules(packets), {"bth-reserved", "udp-source-port"})
        ignored = ("--ignore", "bth-reserved", "--ignore", "udp-source-port")
        self.assertEqual(self.judge(self.write(p.pcapng(packets)), *ignored)[1]["traits"], [])

    def test_text(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.assertEqual(cli.main(["--traits", self.write(p.pcapng(self.device()))]), 0)
        lines = output.getvalue().splitlines()
        self.assertEqual(sum("trait from frame 1 on: " in line for line in lines), 2)
        self.assertIn("0 violations, 2 traits", lines[-1])
        self.assertEqual(sum("source port 0x0123 (below 0xC000), dscp " in line for line in lines), 1)

    def test_flows(self):
        """One that has an option for everything, and what it says of each direction."""
        packets = scenarios.basic()
        for packet in packets:
            if packet.src == packets[0].src:
                packet.tos, packet.ttl, packet.mig_req = 26 << 2 | 2, 32, True
        rows = self.judge(self.write(p.pcapng(packets)), "--traits")[1]["flows"]
        one, other = (next(row for row in rows if (row["source"] == packets[0].src) == first)
                      for first in (True, False))
        self.assertEqual((one["dscp"], one["ttl"], one["mig_req"]), ("26 ECT(0)", "32", "1"))
        self.assertEqual((other["dscp"], other["ttl"], other["mig_req"]), ("0 not ECT", "64", "0"))
        self.assertIn(" messages", one["ack_req"])
        self.assertIn("credits", other)
        self.assertEqual(self.judge(self.write(p.pcapng(packets)))[1]["flows"], [])

    def test_a_capture_without_the_icrc(self):
        packets = scenarios.basic()
        for packet in packets:
            packet.icrc = 0
        self.assertEqual(self.rules(packets), {"icrc"})
        self.assertEqual(self.rules(packets, "--ignore", "icrc"), set())
        packets[3].pkey = 0x1111
        self.assertEqual(self.rules(packets, "--ignore", "icrc"), {"bth-pkey"})

    def test_a_right_udp_checksum(self):
        """Some compute it; it is under no other rule."""
        packets = scenarios.basic()
        for packet in packets:
            packet.udp_checksum = p.udp_checksum(packet)
        self.assertEqual(self.rules(packets), set())
        packets[3].udp_checksum ^= 1
        self.assertEqual(self.rules(packets), {"udp-checksum"})


class Endpoints(JudgeCase):
    """--endpoint and --lossy choose who is judged, and by what."""

    def test_only_the_endpoint_is_judged(self):
        packets = scenarios.basic()
        packets[3].pkey = 0x1111  # sent by the responder
        self.assertEqual(self.rules(packets, "--endpoint", "192.0.2.2"), {"bth-pkey"})
        self.assertEqual(self.rules(packets, "--endpoint", "192.0.2.1"), set())

    def test_far_losses_do_not_excuse_the_endpoint(self):
        packets = scenarios.basic()
        del packets[1]  # SEND MIDDLE
        near = ("--endpoint", "192.0.2.1", "--lossy", "near")
        far = ("--endpoint", "192.0.2.1", "--lossy", "far")
        self.assertIn("psn-advance", self.rules(packets, *far))
        self.assertNotIn("psn-advance", self.rules(packets, *near))
        self.assertEqual(self.rules(packets, "--endpoint", "192.0.2.2", "--lossy", "near"), set())

    def test_a_dropped_request_was_not_received(self):
        packets = scenarios.basic()
        packets[2].comment = "drop: icrc"
        path = self.write(p.pcapng(packets))
        self.assertIn("ack-psn", self.judge(path)[1]["violations_by_rule"])
        packets[2].comment = "seen by a probe"
        path = self.write(p.pcapng(packets))
        self.assertEqual(self.judge(path)[0], 0)

    def test_the_first_request_may_overtake_others(self):
        """It was dropped, as it came too early; the expected PSN is that of the first one used."""
        packets = scenarios.overtaken_at_the_start()
        path = self.write(p.pcapng(packets))
        self.assertEqual(self.judge(path, "--endpoint", "192.0.2.2", "--lossy", "far")[0], 0)

    def test_a_dropped_acknowledgement_acknowledges_nothing(self):
        for comment, expected in (("drop: test", set()), ("", {"retransmit-acknowledged"})):
            packets = scenarios.acknowledged_twice()
            packets[3].comment = comment
            answer = self.judge(self.write(p.pcapng(packets)))[1]
            self.assertEqual(set(answer["violations_by_rule"]), expected)

    def test_pair_joins_unclear_flows(self):
        packets = scenarios.two_alike()
        _, answer = self.judge(self.write(p.pcap(packets)))
        self.assertEqual(len(answer["notes"]), 4)
        options = ("--pair", "0x11:0x22", "--pair", "0x12:0x23")
        _, answer = self.judge(self.write(p.pcapng(packets)), *options)
        self.assertEqual(answer["notes"], [])
        self.assertEqual(
            {(c["requester_qpn"], c["responder_qpn"]) for c in answer["connections"]},
            {(0x11, 0x22), (0x12, 0x23)},
        )


class Files(JudgeCase):
    """File formats, damaged files, exit status."""

    def test_formats_agree(self):
        packets = scenarios.basic()
        packets[2].solicited = True
        for index, data in enumerate(
            (
                p.pcap(packets, order="<", nano=True),
                p.pcap(packets, order=">", nano=True),
                p.pcap(packets, order="<", nano=False),
                p.pcap(packets, order=">", nano=False),
                p.pcapng(packets, "<", 9),
                p.pcapng(packets, ">", 9),
                p.pcapng(packets, "<", 6),
            )
        ):
            with self.subTest(index):
                status, answer = self.judge(self.write(data))
                self.assertEqual((status, answer["roce_packets"]), (0, len(packets)))
                self.assertFalse(answer["truncated"])

    def test_times_are_those_of_the_file(self):
        packets = scenarios.basic()
        packets[0].pkey = 1
        seconds, rest = divmod(packets[0].time_ns, 10**9)
        for data in (p.pcap(packets), p.pcapng(packets), p.pcapng(packets, ">")):
            violation = self.judge(self.write(data))[1]["violations"][0]
            self.assertEqual(violation["time_ns"], f"{seconds}.{rest:09d}")
            self.assertEqual(violation["frame"], 1)

    def test_a_wrong_time_stamp_is_not_the_end(self):
        """Behind it each request would be without an answer for too long."""
        packets = scenarios.basic()
        unanswered = next(at for at, packet in enumerate(packets) if packet.src != packets[0].src)
        packets = packets[:unanswered]
        self.assertEqual(self.rules(packets), set())
        strayed = [*packets, dataclasses.replace(packets[-1], time_ns=packets[-1].time_ns + 10**18)]
        self.assertEqual(self.rules(strayed), set())
        later = [dataclasses.replace(packets[-1], time_ns=packets[-1].time_ns + after)
                 for after in (10**12, 10**12 + 1000)]
        self.assertIn("ack-owed", self.rules([*packets, *later]))

    def test_a_file_cut_anywhere_is_read_up_to_there(self):
        packets = scenarios.basic()[:4]
        for data in (p.pcap(packets), p.pcapng(packets)):
            for size in range(len(data)):
                status, answer = self.judge(self.write(data[:size]))
                if status != 2:
                    self.assertEqual(status, 0)
                    self.assertLessEqual(answer["roce_packets"], 4)
                    self.assertTrue(answer["truncated"] or answer["roce_packets"] < 4)

    def test_random_damage_never_raises(self):
        seed = int.from_bytes(os.urandom(4), "big")
        generator = random.Random(seed)
        for data in (p.pcap(scenarios.basic()), p.pcapng(scenarios.basic())):
            for _ in range(300):
                damaged = bytearray(data)
                for _ in range(generator.randrange(1, 8)):
                    damaged[generator.randrange(len(damaged))] = generator.randrange(256)
                with self.subTest(seed=seed):
                    self.assertIn(self.judge(self.write(damaged))[0], (0, 1, 2))

    def damaged(self, packets, generator) -> list:
        frames = []
        for packet in packets:
            data = bytearray(packet.to_bytes())
            if generator.random() < 0.3:
                place = generator.randrange(42, len(data) - 4)
                data[place] = generator.randrange(256)
                p.mend(data)
            frames.append((packet.time_ns, data))
        return frames

    def test_random_damage_of_dynamic_connections_never_raises(self):
        """The ICRC is right, the rest need not be."""
        seed = int.from_bytes(os.urandom(4), "big")
        generator = random.Random(seed)
        for build in dc_scenarios.GOOD:
            for _ in range(50):
                path = os.path.join(self.folder, "damaged.pcap")
                p.save(path, self.damaged(build(), generator))
                with self.subTest(seed=seed):
                    self.assertIn(self.judge(path, *dc_scenarios.OPTIONS)[0], (0, 1))

    def test_random_damage_of_locks_never_raises(self):
        """Likewise; also without the option that a damaged destination would need."""
        seed = int.from_bytes(os.urandom(4), "big")
        generator = random.Random(seed)
        for build, _ in lock_scenarios.GOOD.values():
            for options in (lock_scenarios.OPTIONS, lock_scenarios.DC_OPTIONS):
                for _ in range(10):
                    path = os.path.join(self.folder, "damaged.pcap")
                    p.save(path, self.damaged(build(), generator))
                    with self.subTest(seed=seed):
                        self.assertIn(self.judge(path, *options)[0], (0, 1))

    def test_frames_that_a_mirror_has_cut(self):
        """The file says nothing of it."""
        data = p.pcap(scenarios.basic(), snaplen=80)
        places, at = [], 24
        while at < len(data):
            places.append(at)
            at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        mirrored = bytearray(data)
        for place in places:
            mirrored[place + 12 : place + 16] = data[place + 8 : place + 12]
        status, answer = self.judge(self.write(bytes(mirrored)))
        self.assertEqual((status, answer["judged_packets"]), (0, len(places)))

    def test_snap_length(self):
        data = p.pcap(scenarios.basic(), snaplen=80)
        status, answer = self.judge(self.write(data))
        self.assertEqual(status, 0)
        self.assertEqual(len(answer["notes"]), 1)
        self.assertEqual(self.judge(self.write(p.pcap(scenarios.basic(), snaplen=66)))[0], 2)

    def test_vlan_tag(self):
        packets = scenarios.basic()
        for packet in packets:
            packet.vlan = 42
        self.assertEqual(self.rules(packets), set())
        packets[4].payload = b"\1" + packets[4].payload[1:]
        packets[4].icrc = 1
        self.assertIn("icrc", self.rules(packets))

    def test_what_is_put_around_mirrored_traffic(self):
        """What overlays and mirrors put around it leaves the packet to be judged."""
        outer = bytes.fromhex("02000000000a02000000000b")

        def ipv4(upper, payload):
            head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 7, 0, 64, upper, 0,
                               b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02")
            return outer + b"\x08\x00" + head + payload

        def udp(port, payload):
            return ipv4(17, struct.pack(">HHHH", 50000, port, 8 + len(payload), 0) + payload)

        wrappings = {
            "vxlan": lambda frame: udp(4789, b"\x08\0\0\0\0\0\x2a\0" + frame),
            "geneve": lambda frame: udp(6081, b"\x01\0\x65\x58\0\0\x2a\0" + bytes(4) + frame),
            "gre": lambda frame: ipv4(47, b"\0\0\x08\0" + frame[14:]),
            "gre with a key": lambda frame: ipv4(47, b"\x20\0\x65\x58\0\0\0\x2a" + frame),
            "erspan 1": lambda frame: ipv4(47, b"\0\0\x88\xbe" + frame),
            "erspan 2": lambda frame: ipv4(47, b"\x10\0\x88\xbe\0\0\0\1" + bytes(8) + frame),
            "erspan 3": lambda frame: ipv4(47, b"\x10\0\x22\xeb\0\0\0\1" + b"\x20" + bytes(11) +
                                           frame),
            "erspan 3 with more": lambda frame: ipv4(
                47, b"\x10\0\x22\xeb\0\0\0\1" + b"\x20" + bytes(10) + b"\1" + bytes(8) + frame),
            "ip in ip": lambda frame: ipv4(4, frame[14:]),
            "mpls": lambda frame: outer + b"\x88\x47" + b"\0\1\0\x40" + b"\0\2\1\x40" + frame[14:],
            "pseudowire": lambda frame: outer + b"\x88\x47" + b"\0\2\1\x40" + bytes(4) + frame,
            "vlan stack": lambda frame: frame[:12] + b"\x88\xa8\0\x07\x81\0\0\x08" + frame[12:],
            "vxlan in vxlan": lambda frame: udp(
                4789, bytes(8) + udp(4789, bytes(8) + frame)),
        }
        packets = scenarios.basic()
        broken = scenarios.basic()
        broken[4].icrc = 1
        for name, wrap in wrappings.items():
            with self.subTest(name=name):
                status, answer = self.judge(self.write(p.frames(wrap(packet.to_bytes()) for packet in packets)))
                self.assertEqual((status, answer["judged_packets"]), (0, len(packets)))
                status, answer = self.judge(self.write(p.frames(wrap(packet.to_bytes()) for packet in broken)))
                self.assertEqual(answer["violations_by_rule"]["icrc"], 1)
        endless = packets[0].to_bytes()
        for _ in range(20):
            endless = udp(4789, bytes(8) + endless)
        self.assertEqual(self.judge(self.write(p.frames([endless])))[0], 2)

    def test_another_port(self):
        frames = [bytearray(packet.to_bytes()) for packet in scenarios.basic()]
        for frame in frames:
            self.assertEqual(frame[36:38], (4791).to_bytes(2, "big"))
            frame[36:38] = (1021).to_bytes(2, "big")
        path = self.write(p.frames(frames))
        self.assertIn(f"{len(frames)} x UDP port 1021 (--port 1021 if", self.refused(path))
        # The port is under the ICRC: that it is wrong shows that the packets are judged.
        status, answer = self.judge(path, "--port", "1021")
        self.assertEqual((status, answer["violations_by_rule"]), (1, {"icrc": len(frames)}))
        for bad in ("0", "65536", "x"):
            with self.assertRaises(SystemExit):
                self.judge(path, "--port", bad)

    def refused(self, path, *options):
        """What the checker says of a file that it cannot judge."""
        status, answer = self.judge(path, *options)
        self.assertEqual(status, 2)
        return answer["error"]

    def test_what_there_was_instead(self):
        for frame, said in ((b"\xff" * 12 + b"\x08\x06" + bytes(46), "2 x ARP"),
                            (b"\xff" * 12 + b"\x89\x15" + bytes(46), "2 x RoCEv1"),
                            (b"\xff" * 12 + b"\x12\x34" + bytes(46), "2 x ethertype 0x1234")):
            self.assertIn(f"no RoCEv2 packet in it, but {said}",
                          self.refused(self.write(p.frames([frame, frame]))))
        self.assertIn("2 x link type 197 (ERF)",
                      self.refused(self.write(p.frames([bytes(60), bytes(60)], linktype=197))))

    def test_compressed(self):
        data = p.pcap(scenarios.basic())
        packed = gzip.compress(data)
        self.assertEqual(self.judge(self.write(packed))[0], 0)
        two = gzip.compress(data[:100]) + gzip.compress(data[100:])
        self.assertEqual(self.judge(self.write(two))[0], 0)
        status, answer = self.judge(self.write(packed[:-30]))
        self.assertEqual((status, answer["truncated"]), (0, True))
        damaged = bytearray(packed)
        damaged[30] ^= 0xff
        self.assertEqual(self.judge(self.write(bytes(damaged)))[0], 2)

    def test_other_traffic_is_passed_over(self):
        data = p.pcap(scenarios.basic())
        other = struct.pack("<IIII", 1, 0, 60, 60) + b"\xff" * 12 + b"\x08\x06" + bytes(46)
        status, answer = self.judge(self.write(data + other))
        self.assertEqual((status, answer["frames"] - answer["roce_packets"]), (0, 1))

    def test_bad_input(self):
        for data in (b"", b"hello world", p.pcap([]), b"\x0a\x0d\x0d\x0a" + bytes(40)):
            self.assertEqual(self.judge(self.write(data))[0], 2)
        self.assertEqual(self.judge(os.path.join(self.folder, "missing"))[0], 2)
        path = self.write(p.pcap(scenarios.basic()))
        self.assertEqual(self.judge(path, "--min-packets", "1000")[0], 2)
        self.assertEqual(self.judge(path, "--endpoint", "203.0.113.9")[0], 2)

    def test_program(self):
        good = self.write(p.pcap(scenarios.basic()), "good.pcap")
        packets = scenarios.basic()
        packets[1].psn += 7
        bad = self.write(p.pcap(packets), "bad.pcap")

        def run(*arguments):
            return subprocess.run(
                [sys.executable, str(HERE / "check_capture.py"), *arguments],
                capture_output=True, text=True, check=False,
            )  # fmt: skip

        self.assertEqual(run(good).returncode, 0)
        result = run(good, bad)
        self.assertEqual(result.returncode, 1)
        self.assertIn("bad.pcap: frame 2 at 1700000000.000010000: psn-advance: ", result.stdout)
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("--ignore", "nonsense", good).returncode, 2)
        self.assertEqual(len(run("--list-rules").stdout.splitlines()), len(RULES))


class LockCounts(JudgeCase):
    """What the JSON says of locks; the numbers are counted in the dialogues by hand."""

    def counts(self, build, *options) -> dict:
        path = self.write(p.pcapng(build))
        locks = self.judge(path, *(options or lock_scenarios.OPTIONS))[1]["locks"]
        return {name: value for name, value in locks.items() if value}

    def test_each_dialogue(self):
        granted = {"acquires": 1, "scopes": 1, "granted": 1, "releases": 1, "granted_scopes": 1}
        for dialogue, expected in {
            lock_scenarios.one_round_trip: granted | {
                "pipelined": 1, "packets": 10, "packets_of_granted": 10,
                "packets_per_granted_scope": 10.0},
            lock_scenarios.fails: {
                "acquires": 1, "scopes": 1, "pipelined": 1, "failed_tries": 1, "waiting": 2,
                "flushed": 2, "packets": 10},
            lock_scenarios.lost_answers: granted | {
                "disturbed": 1, "packets": 20, "packets_of_granted": 20,
                "packets_per_granted_scope": 20.0},
            lock_scenarios.plain: {
                "acquires": 2, "granted": 1, "releases": 1, "waiting": 1, "canceled": 1,
                "failed_canceled": 1, "failed_not_owner": 1, "failed_too_late": 1},
            lock_scenarios.resent: granted | {
                "disturbed": 1, "rnr_naks": 1, "resends": 1, "packets": 15,
                "packets_of_granted": 15, "packets_per_granted_scope": 15.0,
                # 10.5 ms and a step of 10 us; code 20 is 10.24 ms.
                "resend_percent_least": 103, "resend_percent_most": 103},
        }.items():  # fmt: skip
            with self.subTest(dialogue.__name__):
                self.assertEqual(self.counts(dialogue(lock_scenarios.OverRc())), expected)
                over_dc = dialogue(lock_scenarios.OverDc())
                self.assertEqual(self.counts(over_dc, *lock_scenarios.DC_OPTIONS), expected)

    def test_pipelined_is_by_the_packets_not_by_time(self):
        """A release behind an answer is none of LK-3, even where the rule lets it pass."""
        packets = lock_scenarios.held_back(lock_scenarios.OverRc())
        counts = self.counts(packets, "--locks", "--memory-changes")
        self.assertNotIn("pipelined", counts)
        self.assertEqual(counts["scopes"], 1)

    def test_an_answer_to_what_was_before_counts_not(self):
        c = lock_scenarios.OverRc()
        c.put(scenarios.psn(0))
        c.lock(lock_scenarios.EXCLUSIVE, scenarios.psn(1), 1)
        c.ack(scenarios.psn(0), 1)
        c.lock(lock_scenarios.RELEASE, scenarios.psn(2))
        c.say(lock_scenarios.GRANTED, scenarios.psn(1), 2, 41)
        c.say(lock_scenarios.RELEASED, scenarios.psn(2), 3, 41)
        counts = self.counts(c.packets)
        self.assertEqual((counts["pipelined"], counts["packets"]), (1, 4))

    def test_causes_and_refusals(self):
        names = ("tries", "wait", "canceled", "too_big")
        for cause, name in enumerate(names, 1):
            c = lock_scenarios.OverRc()
            c.lock(lock_scenarios.EXCLUSIVE, scenarios.psn(0))
            c.say(lock_scenarios.FAILED, scenarios.psn(0), 1, cause=cause)
            self.assertEqual(self.counts(c.packets), {"acquires": 1, f"failed_{name}": 1})
        c = lock_scenarios.OverRc()
        c.lock(lock_scenarios.EXCLUSIVE, scenarios.psn(0))
        c.ack(scenarios.psn(0), 0, p.NAK_ACCESS)
        self.assertEqual(self.counts(c.packets), {"acquires": 1, "refused": 1})

    def test_no_counts_without_the_option(self):
        path = self.write(p.pcapng(scenarios.basic()))
        self.assertEqual(self.judge(path)[1]["locks"], {})

    def test_text(self):
        path = self.write(p.pcapng(lock_scenarios.one_round_trip(lock_scenarios.OverRc())))
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.assertEqual(cli.main(["--locks", path]), 0)
        self.assertIn("locks: acquires 1, scopes 1, pipelined 1, ", output.getvalue())


class RandomDialogues(JudgeCase):
    """Endpoints that keep the rules on a bad network are never blamed, others are.

    JUDGE_DIALOGUES sets how many dialogues are tried, JUDGE_SEED the first seed.
    """

    ADDRESS = {"a": "192.0.2.1", "b": "192.0.2.2"}

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("JUDGE_SEED") or int.from_bytes(os.urandom(4), "big"))
        self.count = int(os.environ.get("JUDGE_DIALOGUES", "40"))
        print(f"{self.id()}: JUDGE_SEED={self.seed}", file=sys.stderr)

    def found(self, packets: list[p.Packet], *options: str) -> dict:
        path = self.write(p.pcapng(packets))
        return self.judge(path, "--settle-ms", "10", *options)[1]

    # A scope may be held back by what is under way already.
    LOCKS = ("--locks", "--ignore", "lock-pipelined")

    def test_no_false_alarm(self):
        self.check_no_false_alarm(simulate.dialogue)

    def test_no_false_alarm_with_locks(self):
        self.check_no_false_alarm(simulate_locks.dialogue, *self.LOCKS)

    def check_no_false_alarm(self, dialogue, *more: str) -> None:
        for seed in range(self.seed, self.seed + self.count):
            loss = (0.0, 0.01, 0.05, 0.2)[seed % 4]
            for tap, address in self.ADDRESS.items():
                packets = dialogue(seed, loss, tap)
                with self.subTest(seed=seed, tap=tap):
                    options = ("--endpoint", address, "--lossy", "far", "--race-us", "0", *more)
                    answer = self.found(packets, *options)
                    self.assertEqual((answer["violations"], answer["notes"]), ([], []))
                    answer = self.found(packets, "--lossy", "both" if loss else "none", *more)
                    self.assertEqual(answer["violations"], [])

    def test_many_connections_of_two_hosts(self):
        packets = []
        expected = set()
        for index in range(8):
            qpns = (0x100 + index, 0x200 + (index * 5) % 8)
            packets += simulate.dialogue(self.seed + index, 0.05, "a", qpns=qpns)
            expected.add(qpns)
        packets.sort(key=lambda packet: packet.time_ns)
        options = ("--endpoint", self.ADDRESS["a"], "--lossy", "far", "--race-us", "0")
        answer = self.found(packets, *options)
        self.assertEqual(answer["violations"], [])
        pairs = {
            (one["requester_qpn"], one["responder_qpn"])
            for one in answer["connections"]
            if one["requester"] == self.ADDRESS["a"] and one["requester_qpn"] is not None
        }
        # Several start with the same PSN, and may stay unclear; none may be joined wrongly.
        self.assertLessEqual(pairs, expected)

    def test_each_bug_is_found(self):
        self.check_bugs(simulate.BUGS, simulate.dialogue)

    def test_each_bug_with_locks_is_found(self):
        self.check_bugs(simulate_locks.BUGS, simulate_locks.dialogue, *self.LOCKS)

    def check_bugs(self, bugs, dialogue, *more: str) -> None:
        for bug, rule in bugs.items():
            for seed in range(self.seed, self.seed + 300):
                packets = dialogue(seed, 0.08, "a", bug)
                options = ("--endpoint", self.ADDRESS["a"], "--lossy", "far", "--race-us", "0")
                options += more
                if rule in self.found(packets, *options)["violations_by_rule"]:
                    break
            else:
                self.fail(f"{bug} does not draw {rule} from seed {self.seed} on")


class Documentation(unittest.TestCase):
    def test_the_page_lists_each_rule(self):
        page = (HERE.parent.parent / "docs" / "capture-checker.md").read_text("utf-8")
        listed = {
            line.split("`")[1] for line in page.splitlines()
            if line.startswith("| `") and line.count("|") == 5
        }  # fmt: skip
        self.assertEqual(listed, set(RULES))


if __name__ == "__main__":
    unittest.main()
