// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Requests that take a receive: placement, too small and missing receives, credits.
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::responder_receive_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::WcOpcode;
using roce::WcStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kMtu = 256;

Packet with_immediate(Packet packet, std::uint32_t immediate) {
  packet.headers.imm_dt.data = immediate;
  return packet;
}

TEST(ResponderReceive, SendWithImmediateReports) {
  Rig rig;
  rig.post_recv(9, 100, 0);
  rig.inject(
      with_immediate(packet(Opcode::rc_send_only_with_immediate, kPsn, pattern(33)), 0xa1b2c3d4));
  const auto done = rig.recv_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 9u);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[0].opcode, WcOpcode::recv);
  EXPECT_EQ(done[0].byte_len, 33u);
  EXPECT_EQ(done[0].wc_flags, std::uint32_t{roce::kWcWithImm});
  EXPECT_EQ(done[0].imm_data, 0xa1b2c3d4u);
  EXPECT_EQ(done[0].qp_num, rig.qp().number());
  EXPECT_EQ(rig.memory_at(0, 33), pattern(33));
  EXPECT_TRUE(rig.untouched_outside(0, 33));
}

TEST(ResponderReceive, WriteWithImmediateTakesAReceiveAndLeavesItsBufferAlone) {
  Rig rig;
  rig.post_recv(9, 100, 0);
  rig.inject(with_immediate(
      write_packet(Opcode::rc_rdma_write_only_with_immediate, kPsn,
                   {.va = rig.va(512), .rkey = rig.rkey(), .length = 50}, pattern(50)),
      7));
  const auto done = rig.recv_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, WcOpcode::recv_rdma_with_imm);
  EXPECT_EQ(done[0].byte_len, 50u);
  EXPECT_EQ(done[0].imm_data, 7u);
  EXPECT_EQ(rig.memory_at(512, 50), pattern(50));
  EXPECT_TRUE(rig.untouched_outside(512, 50));
}

TEST(ResponderReceive, MessageIsScatteredOverTheListInOrder) {
  Rig rig;
  const std::array<roce::Sge, 4> list{{{.addr = rig.va(1000), .length = 3, .lkey = rig.key()},
                                       {.addr = rig.va(500), .length = 0, .lkey = rig.key()},
                                       {.addr = rig.va(0), .length = 300, .lkey = rig.key()},
                                       {.addr = rig.va(2000), .length = 400, .lkey = rig.key()}}};
  ASSERT_EQ(rig.qp().post_recv({.wr_id = 1, .sg_list = list}), roce::PostResult::ok);
  const Payload all = pattern(2 * kMtu + 5);
  const auto part = [&](std::size_t from, std::size_t to) {
    return Payload(all.begin() + static_cast<std::ptrdiff_t>(from),
                   all.begin() + static_cast<std::ptrdiff_t>(to));
  };
  rig.inject(packet(Opcode::rc_send_first, kPsn, part(0, kMtu)));
  rig.inject(packet(Opcode::rc_send_middle, kPsn + 1, part(kMtu, 2 * kMtu)));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  rig.inject(packet(Opcode::rc_send_last, kPsn + 2, part(2 * kMtu, all.size())));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  EXPECT_EQ(rig.memory_at(1000, 3), part(0, 3));
  EXPECT_EQ(rig.memory_at(0, 300), part(3, 303));
  EXPECT_EQ(rig.memory_at(2000, 214), part(303, 517));
}

TEST(ResponderReceive, EmptyReceiveTakesAnEmptySend) {
  Rig rig;
  ASSERT_EQ(rig.qp().post_recv({.wr_id = 1, .sg_list = {}}), roce::PostResult::ok);
  rig.inject(packet(Opcode::rc_send_only, kPsn));
  const auto done = rig.recv_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].byte_len, 0u);
}

TEST(ResponderReceive, Clause9_7_4_TooSmallReceiveIsALengthErrorAndInvalidRequest) {
  Rig rig;
  rig.post_recv(1, 32, 0);
  rig.post_recv(2, 64, 64);
  rig.inject(packet(Opcode::rc_send_only, kPsn, pattern(33)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::loc_len_err),
                                                  Completed(2u, WcStatus::wr_flush_err)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_TRUE(rig.untouched_outside(0, 32));
}

TEST(ResponderReceive, Clause9_7_4_TooSmallReceiveIsNoticedInALaterPacket) {
  Rig rig;
  rig.post_recv(1, kMtu + 10, 0);
  rig.inject(packet(Opcode::rc_send_first, kPsn, pattern(kMtu), false));
  rig.inject(packet(Opcode::rc_send_last, kPsn + 1, pattern(11)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::invalid_request)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::loc_len_err)));
  EXPECT_TRUE(rig.untouched_outside(0, kMtu + 10));
}

TEST(ResponderReceive, Clause9_9_3_ReceiveIntoUnusableMemoryIsAnOperationalError) {
  for (const int kind : {0, 1, 2}) {
    Rig rig;
    const auto read_only = rig.add_region(0, 64, 0);
    const std::array<roce::Sge, 1> list{{{.addr = rig.va(kind == 2 ? Rig::kMemoryBytes - 16 : 0),
                                          .length = 64,
                                          .lkey = kind == 0   ? read_only.key
                                                  : kind == 1 ? roce::MemoryKey{0x7777}
                                                              : rig.key()}}};
    ASSERT_EQ(rig.qp().post_recv({.wr_id = 1, .sg_list = list}), roce::PostResult::ok);
    rig.inject(packet(Opcode::rc_send_only, kPsn, pattern(33)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_operational_error)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::loc_prot_err)));
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

TEST(ResponderReceive, Clause9_7_5_NoReceiveDrawsAnRnrNakWithTheTimer) {
  for (const std::uint8_t timer : std::initializer_list<std::uint8_t>{0, 1, 12, 31}) {
    Rig rig({.min_rnr_timer = timer});
    rig.inject(packet(Opcode::rc_send_only, kPsn, pattern(8)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, timer)));
    EXPECT_EQ(rig.counters().send_rnr_err.value(), 1u);
    EXPECT_EQ(rig.qp().state(), QpState::rts);
  }
}

TEST(ResponderReceive, Clause9_7_5_PacketsBehindAnRnrNakAreDroppedSilently) {
  Rig rig;
  rig.inject(packet(Opcode::rc_send_only, kPsn, pattern(8)));
  rig.inject(packet(Opcode::rc_send_only, kPsn + 1, pattern(8)));
  rig.inject(packet(Opcode::rc_send_only, kPsn + 2, pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 12)));
  EXPECT_EQ(rig.drops(DropReason::rnr_dropped_request), 2u);
}

TEST(ResponderReceive, Clause9_7_5_RetryAfterAnRnrNakIsExecutedOnce) {
  Rig rig;
  const auto send = packet(Opcode::rc_send_only, kPsn, pattern(8));
  rig.inject(send);
  rig.inject(send);
  EXPECT_EQ(rig.counters().send_rnr_err.value(), 2u);
  (void)rig.sent();
  rig.post_recv(1, 64, 0);
  (void)rig.sent();
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

TEST(ResponderReceive, Clause9_7_5_WriteWithImmediateWithoutReceiveWritesItsLastPacketLater) {
  Rig rig;
  const wire::Reth reth{.va = rig.va(), .rkey = rig.rkey(), .length = kMtu + 8};
  rig.inject(write_packet(Opcode::rc_rdma_write_first, kPsn, reth, pattern(kMtu)));
  (void)rig.sent();
  const auto last = packet(Opcode::rc_rdma_write_last_with_immediate, kPsn + 1, pattern(8, 9));
  rig.inject(last);
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn + 1, 12)));
  EXPECT_TRUE(rig.untouched_outside(0, kMtu));
  rig.post_recv(1, 0, 0);
  (void)rig.sent();
  rig.inject(last);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 1, 1u)));
  EXPECT_EQ(rig.memory_at(kMtu, 8), pattern(8, 9));
  const auto done = rig.recv_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].byte_len, kMtu + 8);
}

/// An RNR NAK is for the message's first packet; once begun, a SEND keeps its receive.
TEST(ResponderReceive, SendInProgressKeepsItsReceive) {
  Rig rig;
  rig.post_recv(1, 2 * kMtu, 0);
  rig.inject(packet(Opcode::rc_send_first, kPsn, pattern(kMtu)));
  EXPECT_EQ(rig.qp().recv_queue_depth(), 1u);
  rig.inject(packet(Opcode::rc_send_last, kPsn + 1, pattern(8)));
  EXPECT_EQ(rig.qp().recv_queue_depth(), 0u);
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

TEST(ResponderReceive, Clause9_7_7_2_AcksCarryCreditsThatDoNotExceedTheReceives) {
  for (const std::uint32_t receives : {0u, 1u, 2u, 3u, 5u, 7u, 16u}) {
    Rig rig;
    for (std::uint32_t i = 0; i < receives; ++i) {
      rig.post_recv(i, 8, 0);
    }
    rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn,
                            {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8)));
    const auto answer = rig.sent();
    ASSERT_EQ(answer.size(), 1u);
    const auto credits = wire::credit_count(answer[0].headers.aeth.credit());
    ASSERT_TRUE(credits.has_value());
    EXPECT_LE(*credits, receives);
    EXPECT_GE(*credits * 2, receives);  // codes are at most a factor of 1.5 apart
  }
}

TEST(ResponderReceive, Clause9_7_7_2_NewReceiveIsAnnouncedToAPeerWithoutCredits) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn,
                          {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8)));
  (void)rig.sent();
  rig.post_recv(1, 8, 0);
  const auto announcement = rig.sent();
  ASSERT_THAT(announcement, ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_EQ(announcement[0].headers.aeth.credit(), wire::credit_code(1));
  rig.post_recv(2, 8, 0);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(ResponderReceive, CreditsMayBeKeptBack) {
  Rig rig({.credits = {.count = false}});
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn,
                          {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8)));
  const auto answer = rig.sent();
  ASSERT_THAT(answer, ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_EQ(answer[0].headers.aeth.credit(), wire::kCreditCodeUnlimited);
  rig.post_recv(1, 8, 0);
  EXPECT_THAT(rig.sent(), IsEmpty()) << "that is no news";
}

TEST(ResponderReceive, SendWithInvalidateEndsTheKey) {
  Rig rig;
  const auto region = rig.add_region(0, 64, roce::kAccessAll | roce::kAccessRemoteInvalidate);
  rig.post_recv(1, 64, 1024);
  Packet send = packet(Opcode::rc_send_only_with_invalidate, kPsn, pattern(8));
  send.headers.ieth.rkey = static_cast<std::uint32_t>(region.key);
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  const auto done = rig.recv_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wc_flags, std::uint32_t{roce::kWcWithInv});
  EXPECT_EQ(done[0].invalidated_rkey, region.key);
  rig.inject(write_packet(
      Opcode::rc_rdma_write_only, kPsn + 1,
      {.va = rig.va(), .rkey = static_cast<std::uint32_t>(region.key), .length = 8}, pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::remote_access_error)));
  EXPECT_TRUE(rig.untouched_outside(1024, 8));
}

TEST(ResponderReceive, SendWithInvalidateOfAKeyThatAllowsNoneIsRefused) {
  for (const bool known : {true, false}) {
    Rig rig;
    rig.post_recv(1, 64, 1024);
    Packet send = packet(Opcode::rc_send_only_with_invalidate, kPsn, pattern(8));
    send.headers.ieth.rkey = known ? rig.rkey() : 0x12345;
    rig.inject(send);
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_EQ(rig.recv_completions().size(), 1u);
  }
}

}  // namespace
}  // namespace rockhopper::test::responder_receive_test
