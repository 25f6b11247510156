// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// READs, atomics and the responder resources that keep them for duplicates.
#include <cstring>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::responder_read_atomic_test {
namespace {

using roce::DropReason;
using roce::QpState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kMtu = 256;
constexpr auto kFirst = Opcode::rc_rdma_read_response_first;
constexpr auto kMiddle = Opcode::rc_rdma_read_response_middle;
constexpr auto kLast = Opcode::rc_rdma_read_response_last;
constexpr auto kOnly = Opcode::rc_rdma_read_response_only;

wire::Reth reth(const Rig& rig, std::size_t offset, std::uint32_t length) {
  return {.va = rig.va(offset), .rkey = rig.rkey(), .length = length};
}

std::uint64_t word_at(Rig& rig, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, rig.memory() + offset, sizeof value);
  return value;
}

void set_word(Rig& rig, std::size_t offset, std::uint64_t value) {
  std::memcpy(rig.memory() + offset, &value, sizeof value);
}

TEST(ResponderRead, Clause9_7_4_ReadIsAnsweredInPathMtuPackets) {
  struct Row {
    std::uint32_t length;
    std::vector<Opcode> opcodes;
  };
  for (const Row& row :
       {Row{0, {kOnly}}, Row{1, {kOnly}}, Row{kMtu, {kOnly}}, Row{kMtu + 1, {kFirst, kLast}},
        Row{2 * kMtu, {kFirst, kLast}}, Row{2 * kMtu + 1, {kFirst, kMiddle, kLast}},
        Row{4 * kMtu, {kFirst, kMiddle, kMiddle, kLast}}}) {
    Rig rig;
    rig.inject(read_request(kPsn, reth(rig, 77, row.length)));
    const auto answer = rig.sent();
    ASSERT_EQ(answer.size(), row.opcodes.size()) << row.length;
    Payload all;
    for (std::uint32_t i = 0; i < answer.size(); ++i) {
      EXPECT_EQ(answer[i].opcode(), row.opcodes[i]);
      EXPECT_EQ(answer[i].psn(), kPsn + i);
      if (answer[i].opcode() != kMiddle) {
        EXPECT_EQ(answer[i].headers.aeth.msn, 1u);
        EXPECT_EQ(answer[i].headers.aeth.kind(), wire::AethKind::ack);
      }
      EXPECT_FALSE(answer[i].headers.bth.ack_request);
      all.insert(all.end(), answer[i].payload.begin(), answer[i].payload.end());
    }
    EXPECT_EQ(all, rig.memory_at(77, row.length));
    EXPECT_EQ(rig.qp().query().rq_psn.value, kPsn + row.opcodes.size());
  }
}

TEST(ResponderRead, Clause9_7_5_AnswersLeaveInPsnOrder) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8)));
  rig.inject(read_request(kPsn + 1, reth(rig, 0, 2 * kMtu)));
  rig.inject(fetch_add(kPsn + 3, rig.va(1024), rig.rkey(), 1));
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + 4, reth(rig, 0, 8), pattern(8, 2)));
  rig.inject(read_request(kPsn + 5, reth(rig, 0, 8)));
  const std::uint64_t before = word_at(rig, 1024) - 1;
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kFirst, kPsn + 1), IsPacket(kLast, kPsn + 2),
                                      IsAtomicAck(kPsn + 3, before),
                                      IsResponse(kOnly, kPsn + 5, pattern(8, 2))));
}

TEST(ResponderRead, Clause9_7_5_DuplicateReadIsExecutedAgain) {
  Rig rig;
  const auto read = read_request(kPsn, reth(rig, 0, 2 * kMtu));
  rig.inject(read);
  (void)rig.sent();
  const Payload fresh = pattern(2 * kMtu, 3);
  std::memcpy(rig.memory(), fresh.data(), fresh.size());
  rig.inject(read);
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(kFirst, kPsn, rig.memory_at(0, kMtu)),
                                      IsResponse(kLast, kPsn + 1, rig.memory_at(kMtu, kMtu))));
  EXPECT_EQ(rig.counters().duplicate_request.value(), 1u);
  EXPECT_EQ(rig.qp().query().rq_psn.value, kPsn + 2);
}

TEST(ResponderRead, Clause9_7_5_DuplicateReadMayAskForTheRestOnly) {
  Rig rig;
  rig.inject(read_request(kPsn, reth(rig, 0, 4 * kMtu)));
  (void)rig.sent();
  rig.inject(read_request(kPsn + 2, reth(rig, 2 * kMtu, 2 * kMtu)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(kFirst, kPsn + 2, rig.memory_at(2 * kMtu, kMtu)),
                                      IsResponse(kLast, kPsn + 3, rig.memory_at(3 * kMtu, kMtu))));
  rig.inject(read_request(kPsn + 3, reth(rig, 3 * kMtu, kMtu)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(kOnly, kPsn + 3, rig.memory_at(3 * kMtu, kMtu))));
}

// Requesters that retransmit selectively ask for the packets that they miss (US 10,430,374).
TEST(ResponderRead, DuplicateReadMayAskForWholePacketsOfIt) {
  Rig rig;
  rig.inject(read_request(kPsn, reth(rig, 0, 5 * kMtu + 8)));
  (void)rig.sent();
  rig.inject(read_request(kPsn + 3, reth(rig, 3 * kMtu, kMtu)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(kOnly, kPsn + 3, rig.memory_at(3 * kMtu, kMtu))));
  rig.inject(read_request(kPsn + 1, reth(rig, kMtu, 2 * kMtu)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(kFirst, kPsn + 1, rig.memory_at(kMtu, kMtu)),
                                      IsResponse(kLast, kPsn + 2, rig.memory_at(2 * kMtu, kMtu))));
  // And one further on, and the end after all.
  rig.inject(read_request(kPsn + 4, reth(rig, 4 * kMtu, kMtu + 8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(kFirst, kPsn + 4, rig.memory_at(4 * kMtu, kMtu)),
                                      IsResponse(kLast, kPsn + 5, rig.memory_at(5 * kMtu, 8))));
  EXPECT_EQ(rig.drops(DropReason::duplicate_request), 0u);
}

TEST(ResponderRead, DuplicateReadOutsideTheOriginalIsDropped) {
  for (const int kind : {0, 1, 2, 3, 4, 5}) {
    Rig rig;
    rig.inject(read_request(kPsn, reth(rig, 1024, 2 * kMtu)));
    (void)rig.sent();
    wire::Reth other = reth(rig, 1024, 2 * kMtu);
    std::uint32_t psn = kPsn;
    switch (kind) {
      case 0:
        other.va -= 8;
        break;
      case 1:
        other.length += 4;
        break;
      case 2:
        other.rkey ^= 1;
        break;
      case 3:
        other.length = 100;  // within a packet
        break;
      case 4:
        other.length = 0;
        break;
      default:
        psn = kPsn + 1;  // the rest would begin one packet later
        break;
    }
    rig.inject(read_request(psn, other));
    EXPECT_THAT(rig.sent(), IsEmpty()) << kind;
    EXPECT_EQ(rig.drops(DropReason::duplicate_request), 1u) << kind;
    EXPECT_EQ(rig.qp().state(), QpState::rts) << kind;
  }
}

TEST(ResponderRead, DuplicateReadInTheMiddleOfTheAnswerStartsItAnew) {
  Rig rig;
  const auto read = read_request(kPsn, reth(rig, 0, 40 * kMtu));
  rig.inject(read);
  std::array<rte_mbuf*, 8> burst{};
  const std::uint16_t count = rig.host().transmit(burst.data(), 8, rig.now_ns());
  EXPECT_EQ(count, 8u);
  rte_pktmbuf_free_bulk(burst.data(), count);
  rig.inject(read);
  const auto answer = rig.sent();
  ASSERT_EQ(answer.size(), 40u);
  EXPECT_THAT(answer.front(), IsPacket(kFirst, kPsn));
  EXPECT_THAT(answer.back(), IsPacket(kLast, kPsn + 39));
}

TEST(ResponderRead, AnswerThatARepetitionInterruptsStartsAnew) {
  Rig rig;
  rig.inject(read_request(kPsn, reth(rig, 0, 8)));
  (void)rig.sent();
  rig.inject(read_request(kPsn + 1, reth(rig, 0, 40 * kMtu)));
  std::array<rte_mbuf*, 8> burst{};
  const std::uint16_t count = rig.host().transmit(burst.data(), 8, rig.now_ns());
  EXPECT_EQ(count, 8u);
  rte_pktmbuf_free_bulk(burst.data(), count);
  rig.inject(read_request(kPsn, reth(rig, 0, 8)));
  const auto answer = rig.sent();
  ASSERT_EQ(answer.size(), 41u);
  EXPECT_THAT(answer[0], IsPacket(kOnly, kPsn));
  EXPECT_THAT(answer[1], IsPacket(kFirst, kPsn + 1));
  EXPECT_THAT(answer.back(), IsPacket(kLast, kPsn + 40));
}

TEST(ResponderRead, RepeatedAnswersStillComeBeforeLaterOnes) {
  Rig rig;
  rig.inject(read_request(kPsn, reth(rig, 0, 8)));
  rig.inject(read_request(kPsn + 1, reth(rig, 8, 8)));
  (void)rig.sent();
  rig.inject(read_request(kPsn + 2, reth(rig, 16, 8)));
  rig.inject(read_request(kPsn + 1, reth(rig, 8, 8)));
  rig.inject(read_request(kPsn, reth(rig, 0, 8)));
  const auto answer = rig.sent();
  ASSERT_FALSE(answer.empty());
  EXPECT_THAT(answer.back(), IsResponse(kOnly, kPsn + 2, rig.memory_at(16, 8)));
  for (std::size_t i = 1; i < answer.size(); ++i) {
    EXPECT_GT(answer[i].psn(), answer[i - 1].psn());
  }
}

TEST(ResponderAtomic, Clause9_7_4_CompareAndSwap) {
  Rig rig;
  set_word(rig, 64, 0x1122334455667788);
  rig.inject(compare_swap(kPsn, rig.va(64), rig.rkey(), 0x1122334455667788, 0xaabbccddeeff0011));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, 0x1122334455667788u)));
  EXPECT_EQ(word_at(rig, 64), 0xaabbccddeeff0011u);
  rig.inject(compare_swap(kPsn + 1, rig.va(64), rig.rkey(), 0x1122334455667788, 5));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn + 1, 0xaabbccddeeff0011u)));
  EXPECT_EQ(word_at(rig, 64), 0xaabbccddeeff0011u);
  EXPECT_TRUE(rig.untouched_outside(64, 8));
}

TEST(ResponderAtomic, Clause9_7_4_FetchAndAddWraps) {
  Rig rig;
  set_word(rig, 0, ~std::uint64_t{1});
  rig.inject(fetch_add(kPsn, rig.va(), rig.rkey(), 3));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, ~std::uint64_t{1})));
  EXPECT_EQ(word_at(rig, 0), 1u);
}

TEST(ResponderAtomic, Clause9_7_5_DuplicateIsAnsweredFromTheResourceNotExecuted) {
  Rig rig;
  set_word(rig, 0, 10);
  const auto add = fetch_add(kPsn, rig.va(), rig.rkey(), 1);
  rig.inject(add);
  (void)rig.sent();
  set_word(rig, 0, 500);
  for (int i = 0; i < 3; ++i) {
    rig.inject(add);
    EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, 10u)));
  }
  EXPECT_EQ(word_at(rig, 0), 500u);
  EXPECT_EQ(rig.counters().rx_atomic_requests.value(), 1u);
}

TEST(ResponderAtomic, Clause9_7_5_LastResourcesAreKept) {
  constexpr std::uint8_t kResources = 4;
  Rig rig({.max_dest_rd_atomic = kResources});
  set_word(rig, 0, 0);
  for (std::uint32_t i = 0; i < 20; ++i) {
    rig.inject(fetch_add(kPsn + i, rig.va(), rig.rkey(), 1));
    (void)rig.sent();
  }
  for (std::uint32_t i = 20 - kResources; i < 20; ++i) {
    rig.inject(fetch_add(kPsn + i, rig.va(), rig.rkey(), 1));
    EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn + i, std::uint64_t{i})));
  }
  // Older ones are forgotten: no answer is better than a wrong one, and no second execution.
  rig.inject(fetch_add(kPsn + 20 - kResources - 1, rig.va(), rig.rkey(), 1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(word_at(rig, 0), 20u);
}

/// A duplicate must not be answered with another request's resource.
TEST(ResponderAtomic, DuplicateOfAnotherKindIsDropped) {
  Rig rig;
  rig.inject(fetch_add(kPsn, rig.va(), rig.rkey(), 1));
  rig.inject(read_request(kPsn + 1, reth(rig, 0, 8)));
  (void)rig.sent();
  rig.inject(read_request(kPsn, reth(rig, 0, 8)));
  rig.inject(fetch_add(kPsn + 1, rig.va(), rig.rkey(), 1));
  rig.inject(fetch_add(kPsn, rig.va(8), rig.rkey(), 1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.drops(DropReason::duplicate_request), 3u);
}

// A plain ACK with the PSN of a READ or atomic would pass for its answer at rxe.
TEST(ResponderAtomic, AckOfADuplicateDoesNotCoverWhatOnlyAResponseAcknowledges) {
  Rig rig;
  const auto write = write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8));
  rig.inject(write);
  rig.inject(read_request(kPsn + 1, reth(rig, 0, 2 * kMtu)));
  rig.inject(fetch_add(kPsn + 3, rig.va(1024), rig.rkey(), 1));
  ASSERT_EQ(rig.sent().size(), 3u);
  rig.inject(write);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_acknowledge, kPsn)));
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + 4, reth(rig, 0, 8), pattern(8)));
  ASSERT_EQ(rig.sent().size(), 1u);
  rig.inject(write);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_acknowledge, kPsn + 4)));
}

TEST(ResponderAtomic, NoAckFollowsTheResponseThatImpliesIt) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8)));
  rig.inject(fetch_add(kPsn + 1, rig.va(), rig.rkey(), 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_atomic_acknowledge, kPsn + 1)));
}

TEST(ResponderAtomic, CreditsAreNotAnnouncedWithAnOlderPsnThanThatOfAResponse) {
  Rig rig;
  const auto write = write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8));
  rig.inject(write);
  ASSERT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_acknowledge, kPsn)));
  rig.inject(fetch_add(kPsn + 1, rig.va(), rig.rkey(), 1));
  ASSERT_EQ(rig.sent().size(), 1u);
  rig.post_recv(1, 8);
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(write);
  const auto repeated = rig.sent();
  ASSERT_THAT(repeated, ElementsAre(IsPacket(Opcode::rc_acknowledge, kPsn)));
  EXPECT_EQ(repeated[0].headers.aeth.credit(), wire::credit_code(1));
}

class Resources : public ::testing::TestWithParam<std::uint8_t> {};

TEST_P(Resources, Clause9_7_4_MoreThanMaxDestRdAtomicIsInvalid) {
  const std::uint8_t count = GetParam();
  Rig rig({.max_dest_rd_atomic = count});
  for (std::uint32_t i = 0; i < count; ++i) {
    rig.inject(i % 2 == 0 ? read_request(kPsn + i, reth(rig, 0, 8))
                          : fetch_add(kPsn + i, rig.va(), rig.rkey(), 1));
    ASSERT_EQ(rig.qp().state(), QpState::rts);
  }
  rig.inject(read_request(kPsn + count, reth(rig, 0, 8)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  const auto answer = rig.sent();
  ASSERT_FALSE(answer.empty());
  EXPECT_THAT(answer.back(), IsNak(kPsn + count, NakCode::invalid_request));
}

TEST_P(Resources, AnsweredOnesMakeRoom) {
  Rig rig({.max_dest_rd_atomic = GetParam()});
  if (GetParam() == 0) return;
  for (std::uint32_t i = 0; i < 3u * GetParam(); ++i) {
    rig.inject(read_request(kPsn + i, reth(rig, 0, 8)));
    EXPECT_EQ(rig.sent().size(), 1u);
  }
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

INSTANTIATE_TEST_SUITE_P(Counts, Resources, ::testing::Values(0, 1, 2, 16, 128));

TEST(ResponderAtomic, WordsOfARegionWithItsOwnIova) {
  Rig rig;
  const auto region = rig.engine().register_memory_iova(rig.pd(), rig.memory() + 1024, 4096,
                                                        roce::kAccessAll, 0x10000);
  ASSERT_TRUE(region.has_value());
  set_word(rig, 1024 + 16, 41);
  rig.inject(fetch_add(kPsn, 0x10010, static_cast<std::uint32_t>(region->key), 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, 41u)));
  EXPECT_EQ(word_at(rig, 1024 + 16), 42u);
}

/// An aligned iova of unaligned memory cannot be served atomically.
TEST(ResponderAtomic, AlignedIovaOfUnalignedMemoryIsInvalid) {
  Rig rig;
  const auto region = rig.engine().register_memory_iova(rig.pd(), rig.memory() + 1025, 4096,
                                                        roce::kAccessAll, 0x10000);
  ASSERT_TRUE(region.has_value());
  rig.inject(fetch_add(kPsn, 0x10010, static_cast<std::uint32_t>(region->key), 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

}  // namespace
}  // namespace rockhopper::test::responder_read_atomic_test
