// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What is checked before a packet may change anything; numbers that peers must not guess.
#include <algorithm>
#include <set>
#include <tuple>

#include "roce/packet_builder.h"
#include "stack/without_icrc.h"
#include "tests/support/exact_packet.h"
#include "tests/support/packets.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::admission_test {
namespace {

using roce::DropReason;
using roce::QpState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;

Packet good_write(const Rig& rig) {
  return write_packet(Opcode::rc_rdma_write_only, kPsn,
                      {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8));
}

/// The packet is dropped for `reason`, changes nothing, and the right one is taken afterwards.
void expect_dropped(Rig& rig, const Packet& packet, const Damage& damage, DropReason reason) {
  rig.inject(packet, damage);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.drops(reason), 1u) << to_string(reason);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  rig.inject(good_write(rig));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
}

/// WIRE-1.
TEST(Admission, BadIcrc) {
  Rig rig;
  expect_dropped(rig, good_write(rig), {.icrc = true}, DropReason::bad_icrc);
}

TEST(Admission, NoIcrcIsLookedForWhereItHasBeenLeftOut) {
  for (const std::uint32_t length : {8u, 200u}) {  // the second one is too long for a plain packet
    Rig rig;
    Packet write =
        write_packet(Opcode::rc_rdma_write_only, kPsn,
                     {.va = rig.va(), .rkey = rig.rkey(), .length = length}, pattern(length));
    write.headers.bth.destination = rig.qp().number();
    for (const std::uint64_t flag : {std::uint64_t{0}, stack::kWithoutIcrc}) {
      rte_mbuf* packet = rig.build(write, {.icrc = true});
      packet->ol_flags |= flag;
      rig.host().receive(&packet, 1, rig.now_ns());
      EXPECT_EQ(rig.drops(DropReason::bad_icrc), 1u);
    }
    EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
    EXPECT_EQ(rig.memory_at(0, length), pattern(length));
  }
}

TEST(Admission, TheIcrcThatHasBeenLeftOutCanBeAdded) {
  Rig rig;
  for (const bool as_ipv6 : {false, true}) {
    for (const std::uint32_t length : {0u, 1u, 100u, 256u}) {
      Packet write = packet(Opcode::rc_send_only, kPsn, pattern(length));
      write.headers.bth.destination = rig.qp().number();
      rte_mbuf* right = rig.build(write, {.as_ipv6 = as_ipv6});
      rte_mbuf* without = rig.build(write, {.as_ipv6 = as_ipv6});
      std::ignore = rte_pktmbuf_append(without, 3);  // padding of the frame
      auto* icrc = rte_pktmbuf_mtod_offset(without, std::uint8_t*, right->data_len - 4);
      std::fill_n(icrc, 4, std::uint8_t{0});
      without->ol_flags |= stack::kWithoutIcrc;
      roce::add_icrc(without);
      EXPECT_FALSE(stack::is_without_icrc(without));
      Bytes made = bytes_of(without);
      made.resize(right->data_len);
      EXPECT_EQ(made, bytes_of(right)) << as_ipv6 << " " << length;
      rte_pktmbuf_free(right);
      rte_pktmbuf_free(without);
    }
  }
}

TEST(Admission, WhatIsNoWholePacketGetsNoIcrc) {
  Rig rig;
  Packet send = packet(Opcode::rc_send_only, kPsn, pattern(16));
  send.headers.bth.destination = rig.qp().number();
  rte_mbuf* whole = rig.build(send);
  const std::uint16_t length = whole->data_len;
  for (std::uint16_t cut = 1; cut <= length; ++cut) {
    Bytes bytes = bytes_of(whole);
    bytes.resize(length - cut);
    const std::size_t size = bytes.size();
    rte_mbuf* part = make_exact_packet(whole->pool, bytes, {&size, 1});
    part->ol_flags |= stack::kWithoutIcrc;
    roce::add_icrc(part);
    EXPECT_EQ(bytes_of(part), bytes) << cut;
    rte_pktmbuf_free(part);
  }
  rte_pktmbuf_free(whole);
}

TEST(Admission, Clause9_6_PkeyOfAnotherPartition) {
  for (const std::uint16_t pkey : std::initializer_list<std::uint16_t>{0x7ffe, 0x8001, 0, 0xfffe}) {
    Rig rig;
    expect_dropped(rig, good_write(rig), {.pkey = pkey}, DropReason::bad_pkey);
  }
}

TEST(Admission, Clause9_6_HeaderVersion) {
  Rig rig;
  expect_dropped(rig, good_write(rig), {.version = 1}, DropReason::malformed);
}

TEST(Admission, AcknowledgementsHaveNoPadding) {
  Rig rig;
  rig.post_send(1, roce::WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(ack(ConnectionOptions{}.sq_psn), {.pad_count = 2});
  EXPECT_EQ(rig.drops(DropReason::ack_bad_pad), 1u);
  EXPECT_THAT(rig.send_completions(), IsEmpty());
}

/// By choice: some RNICs send probes with opcodes of their own.
TEST(Admission, ReservedOpcodesMayBeDropped) {
  Rig rig({.nak_reserved_opcodes = false});
  expect_dropped(rig, good_write(rig), {.opcode = 0x1f}, DropReason::unknown_opcode);
}

TEST(Admission, UndefinedOpcode) {
  for (const std::uint8_t opcode : std::initializer_list<std::uint8_t>{0x2c, 0x5f, 0x7f, 0xff}) {
    Rig rig;
    rig.inject(good_write(rig), {.opcode = opcode});
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_TRUE(rig.untouched_outside(0, 0));
    EXPECT_EQ(rig.drops(DropReason::unknown_opcode), 1u) << unsigned{opcode};
  }
}

TEST(Admission, UnknownQueuePair) {
  for (const std::uint32_t change : {0x000001u, 0x010000u, 0x800000u}) {
    Rig rig;
    Packet write = good_write(rig);
    write.headers.bth.destination = wire::Qpn{rig.qp().number().value ^ change};
    expect_dropped(rig, write, {}, DropReason::unknown_qp);
  }
}

TEST(Admission, Clause9_6_OtherServices) {
  for (const Opcode opcode : {Opcode::uc_rdma_write_only, Opcode::uc_send_only,
                              Opcode::ud_send_only, Opcode::xrc_send_only}) {
    Rig rig;
    rig.post_recv(1, 64);
    Packet other = packet(opcode, kPsn, pattern(8));
    other.headers.reth = {.va = rig.va(), .rkey = rig.rkey(), .length = 8};
    expect_dropped(rig, other, {}, DropReason::bad_service);
  }
}

TEST(Admission, AddressesThatAreNotTheConnections) {
  {
    Rig rig;
    expect_dropped(rig, good_write(rig), {.source_address = true}, DropReason::bad_address);
  }
  {
    Rig rig;
    expect_dropped(rig, good_write(rig), {.as_ipv6 = true}, DropReason::bad_address);
  }
}

TEST(Admission, Clause10_9_LimitedMembersOfTheDefaultPartition) {
  Rig rig;
  rig.inject(good_write(rig), {.pkey = std::uint16_t{0x7fff}});
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
}

/// What one packet of a burst has shown of its queue pair holds for the next only where the same
/// headers name the same queue pair.
TEST(Admission, TheNextPacketOfABurstNeedsTheSameChecks) {
  for (const Damage& damage :
       {Damage{.icrc = true}, Damage{.source_address = true}, Damage{.as_ipv6 = true},
        Damage{.version = 1}, Damage{.pkey = std::uint16_t{0x8001}}}) {
    Rig rig;
    Packet second = good_write(rig);
    second.headers.bth.destination = rig.qp().number();
    second.headers.bth.psn = wire::Psn{kPsn + 1};
    Packet first = good_write(rig);
    first.headers.bth.destination = rig.qp().number();
    std::array<rte_mbuf*, 2> burst{rig.build(first), rig.build(second, damage)};
    rig.host().receive(burst.data(), burst.size(), rig.now_ns());
    EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
    EXPECT_EQ(rig.qp().query().rq_psn.value, kPsn + 1);
  }
  Rig rig;
  Packet first = good_write(rig);
  first.headers.bth.destination = rig.qp().number();
  Packet other = first;
  other.headers.bth.psn = wire::Psn{kPsn + 1};
  other.headers.bth.destination.value ^= 0x010000;
  std::array<rte_mbuf*, 2> burst{rig.build(first), rig.build(other)};
  rig.host().receive(burst.data(), burst.size(), rig.now_ns());
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_EQ(rig.drops(DropReason::unknown_qp), 1u);
}

TEST(Admission, ResponsesNeedTheSameChecks) {
  for (const Damage& damage : {Damage{.icrc = true}, Damage{.source_address = true},
                               Damage{.pkey = std::uint16_t{0x8001}}}) {
    Rig rig;
    rig.post_send(1, roce::WrOpcode::rdma_write, 8);
    (void)rig.sent();
    rig.inject(ack(0x001000), damage);
    EXPECT_THAT(rig.send_completions(), IsEmpty());
  }
}

TEST(Admission, TruncatedAndLengthenedPackets) {
  for (std::int32_t change = -44; change <= 12; ++change) {
    if (change == 0) continue;
    Rig rig;
    rig.inject(good_write(rig), {.extra_bytes = change});
    EXPECT_THAT(rig.sent(), IsEmpty()) << change;
    EXPECT_TRUE(rig.untouched_outside(0, 0)) << change;
    EXPECT_EQ(rig.qp().query().rq_psn.value, kPsn) << change;
  }
}

/// SYS-2: every packet received is executed, answered or counted as dropped with its reason.
TEST(Admission, SumOfDropsAccountsForEveryPacket) {
  Rig rig;
  rig.inject(good_write(rig), {.icrc = true});
  rig.inject(good_write(rig), {.version = 3});
  rig.inject(good_write(rig), {.pkey = std::uint16_t{1}});
  rig.inject(good_write(rig));
  std::uint64_t dropped = 0;
  for (const stack::Counter& counter : rig.counters().drops) {
    dropped += counter.value();
  }
  EXPECT_EQ(dropped, 3u);
  EXPECT_EQ(rig.counters().rcvd_pkts.value(), 4u);
}

/// SYS-2: each counter is exported, under a name of its own.
TEST(Admission, CountersAreAllVisited) {
  Rig rig;
  rig.inject(good_write(rig), {.icrc = true});
  std::set<std::string> names;
  struct Context {
    std::set<std::string>* names;
    std::uint64_t bad_icrc = 0;
  } context{&names};
  rig.engine().visit_counters(
      [](void* opaque, const char* name, std::uint64_t value) {
        auto* c = static_cast<Context*>(opaque);
        EXPECT_TRUE(c->names->insert(name).second) << name;
        if (std::string(name) == "drop_bad_icrc") c->bad_icrc = value;
      },
      &context);
  EXPECT_GT(names.size(), static_cast<std::size_t>(DropReason::count));
  EXPECT_EQ(context.bad_icrc, 1u);
}

TEST(Numbers, QpnsAreDistinctAndOutsideTheReservedWindow) {
  Rig rig;
  std::set<std::uint32_t> numbers{rig.qp().number().value};
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t number = rig.make_qp({.max_send_wr = 1, .max_recv_wr = 0}).number().value;
    EXPECT_TRUE(numbers.insert(number).second);
    EXPECT_GT(number, 1u);
    EXPECT_LT(number, 0xffffffu);
    EXPECT_FALSE(number >= 0xD00000u && number <= 0xDFFFFFu);
  }
}

/// Successive numbers of one place must not be told from one another.
TEST(Numbers, QpnsKeysAndPsnsFollowTheGeneratorOnly) {
  Rig rig;
  std::set<std::uint32_t> qpns;
  std::set<std::uint32_t> psns;
  for (int i = 0; i < 200; ++i) {
    roce::QueuePair& qp = rig.make_qp({.max_send_wr = 1, .max_recv_wr = 0});
    qpns.insert(qp.number().value);
    rig.engine().destroy_qp(&qp);
    psns.insert(rig.engine().random_psn().value);
  }
  EXPECT_GT(qpns.size(), 195u);
  EXPECT_GT(psns.size(), 195u);
}

TEST(Numbers, LimitOfQueuePairs) {
  Rig rig;
  for (int i = 1; i < 1024; ++i) {
    (void)rig.make_qp({.max_send_wr = 1, .max_recv_wr = 0});
  }
  const auto beyond = rig.engine().create_qp(
      {.pd = rig.pd(), .send_cq = &rig.send_cq(), .recv_cq = &rig.recv_cq()});
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().code, ErrorCode::exhausted);
}

/// With many queue pairs packets are looked at before they are checked.
TEST(Admission, AmongManyQueuePairsNoPacketIsTooShort) {
  Rig rig;
  for (int i = 0; i < 300; ++i) {
    (void)rig.make_qp({.max_send_wr = 1, .max_recv_wr = 0});
  }
  for (const bool as_ipv6 : {false, true}) {
    for (std::uint16_t length = 0; length < 80; ++length) {
      rte_mbuf* packet = rig.build(good_write(rig), {.as_ipv6 = as_ipv6});
      ASSERT_EQ(rte_pktmbuf_trim(packet, static_cast<std::uint16_t>(packet->pkt_len - length)), 0);
      rig.host().receive(&packet, 1, rig.now_ns());
      EXPECT_TRUE(rig.untouched_outside(0, 0)) << length;
    }
  }
  rig.inject(good_write(rig));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
}

}  // namespace
}  // namespace rockhopper::test::admission_test
