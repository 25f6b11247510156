// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Requests of an unreliable connection as they leave and complete.
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::uc_requester_test {
namespace {

using roce::PostResult;
using roce::QpState;
using roce::QpType;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x001000;
constexpr std::uint32_t kMtu = 256;

ConnectionOptions uc() { return {.qp_type = QpType::uc}; }

struct Segmentation {
  const char* name;
  WrOpcode opcode;
  Opcode first, middle, last, only;
  bool takes_receive;
};

class UcSegments : public ::testing::TestWithParam<Segmentation> {};

TEST_P(UcSegments, Clause9_8_2_MessageIsCutIntoPathMtuPackets) {
  const Segmentation& row = GetParam();
  for (const std::uint32_t length : {0u, 1u, kMtu, kMtu + 1, 2 * kMtu, 4 * kMtu - 1, 4 * kMtu}) {
    Rig rig(uc());
    rig.post_send(1, row.opcode, length, 100, roce::kSendSolicited);
    const auto sent = rig.sent();
    const std::uint32_t count = length == 0 ? 1 : (length + kMtu - 1) / kMtu;
    ASSERT_EQ(sent.size(), count) << length;
    Payload all;
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      const Opcode expected = count == 1 ? row.only
                              : i == 0   ? row.first
                              : last     ? row.last
                                         : row.middle;
      EXPECT_EQ(sent[i].opcode(), expected) << length << " packet " << i;
      EXPECT_EQ(sent[i].psn(), kPsn + i);
      EXPECT_FALSE(sent[i].headers.bth.ack_request);
      EXPECT_EQ(sent[i].headers.bth.solicited, last && row.takes_receive);
      EXPECT_EQ(sent[i].headers.bth.pkey, 0xffff);
      EXPECT_TRUE(sent[i].headers.bth.mig_req);
      const wire::OpcodeInfo& info = wire::info(expected);
      if (info.has(wire::Header::reth)) {
        EXPECT_EQ(sent[i].headers.reth,
                  (wire::Reth{.va = 0x100000, .rkey = 0xabcdef01, .length = length}));
      }
      if (info.has(wire::Header::imm_dt)) {
        EXPECT_EQ(sent[i].headers.imm_dt.data, 0x01020304u);
      }
      all.insert(all.end(), sent[i].payload.begin(), sent[i].payload.end());
    }
    EXPECT_EQ(all, rig.memory_at(100, length));
    EXPECT_EQ(rig.qp().query().sq_psn.value, kPsn + count);
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, UcSegments,
    ::testing::Values(Segmentation{"Send", WrOpcode::send, Opcode::uc_send_first,
                                   Opcode::uc_send_middle, Opcode::uc_send_last,
                                   Opcode::uc_send_only, true},
                      Segmentation{"SendImmediate", WrOpcode::send_with_imm, Opcode::uc_send_first,
                                   Opcode::uc_send_middle, Opcode::uc_send_last_with_immediate,
                                   Opcode::uc_send_only_with_immediate, true},
                      Segmentation{"Write", WrOpcode::rdma_write, Opcode::uc_rdma_write_first,
                                   Opcode::uc_rdma_write_middle, Opcode::uc_rdma_write_last,
                                   Opcode::uc_rdma_write_only, false},
                      Segmentation{"WriteImmediate", WrOpcode::rdma_write_with_imm,
                                   Opcode::uc_rdma_write_first, Opcode::uc_rdma_write_middle,
                                   Opcode::uc_rdma_write_last_with_immediate,
                                   Opcode::uc_rdma_write_only_with_immediate, true}),
    [](const auto& row) { return row.param.name; });

TEST(UcRequester, Clause9_8_2_RequestCompletesWithItsLastPacketAndNotBefore) {
  Rig rig(uc());
  rig.post_send(1, WrOpcode::send, 40 * kMtu);
  rig.post_send(2, WrOpcode::send, 8);
  EXPECT_EQ(rig.sent_in_turn().size(), 32u);
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_EQ(rig.qp().send_queue_depth(), 2u);
  EXPECT_EQ(rig.sent_in_turn().size(), 9u);
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  EXPECT_EQ(rig.qp().send_queue_depth(), 0u);
  EXPECT_EQ(rig.counters().rdma_sends.value(), 2u);
}

/// Neither a window nor a timer: nothing comes back, and nothing is sent twice.
TEST(UcRequester, Clause9_8_2_NothingIsAwaitedAndNothingSentAgain) {
  Rig rig({.qp_type = QpType::uc, .max_send_wr = 64}, 1);
  for (std::uint64_t i = 0; i < 50; ++i) {
    rig.post_send(i, WrOpcode::rdma_write, 8);
  }
  EXPECT_EQ(rig.sent().size(), 50u);
  EXPECT_EQ(rig.send_completions().size(), 50u);
  rig.advance(60'000'000'000);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(UcRequester, Clause9_8_2_PsnsWrap) {
  Rig rig({.qp_type = QpType::uc, .sq_psn = 0xffffff});
  rig.post_send(1, WrOpcode::rdma_write, 3 * kMtu);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::uc_rdma_write_first, 0xffffffu),
                                      IsPacket(Opcode::uc_rdma_write_middle, 0u),
                                      IsPacket(Opcode::uc_rdma_write_last, 1u)));
}

TEST(UcRequester, Clause9_1_RequestsThatTheServiceLacksAreRefusedWhenPosted) {
  for (const WrOpcode opcode : {WrOpcode::send_with_inv, WrOpcode::rdma_read,
                                WrOpcode::atomic_cmp_and_swp, WrOpcode::atomic_fetch_and_add}) {
    Rig rig(uc());
    const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
    EXPECT_EQ(rig.post({.sg_list = list, .opcode = opcode}), PostResult::invalid_request);
    EXPECT_EQ(rig.qp().send_queue_depth(), 0u);
  }
}

TEST(UcRequester, Clause10_8_3_FenceHasNoEffect) {
  Rig rig(uc());
  rig.post_send(1, WrOpcode::rdma_write, 8);
  rig.post_send(2, WrOpcode::send, 8, 0, roce::kSendFence);
  EXPECT_EQ(rig.sent().size(), 2u);
}

TEST(UcRequester, InlineDataAndGatherLists) {
  Rig rig(uc());
  Payload data = pattern(40);
  const Payload original = data;
  const std::array<roce::Sge, 1> own{
      {{.addr = reinterpret_cast<std::uintptr_t>(data.data()), .length = 40, .lkey = {}}}};
  ASSERT_EQ(rig.post({.wr_id = 1, .sg_list = own, .send_flags = roce::kSendInline}),
            PostResult::ok);
  data.assign(data.size(), 0xee);
  const std::array<roce::Sge, 2> pieces{{{.addr = rig.va(900), .length = 300, .lkey = rig.key()},
                                         {.addr = rig.va(10), .length = 100, .lkey = rig.key()}}};
  ASSERT_EQ(rig.post({.wr_id = 2, .sg_list = pieces}), PostResult::ok);
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].payload, original);
  Payload all = sent[1].payload;
  all.insert(all.end(), sent[2].payload.begin(), sent[2].payload.end());
  Payload expected = rig.memory_at(900, 300);
  const Payload rest = rig.memory_at(10, 100);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(all, expected);
}

TEST(UcRequester, UnsignalledRequestsFreeTheQueueWithoutCompletions) {
  Rig rig({.qp_type = QpType::uc, .max_send_wr = 4, .sq_sig_all = false});
  for (std::uint32_t round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      rig.post_send(i, WrOpcode::rdma_write, 8);
    }
    EXPECT_EQ(rig.sent().size(), 4u);
  }
  EXPECT_THAT(rig.send_completions(), IsEmpty());
}

TEST(UcRequester, Clause9_9_2_LocalErrorEndsInSqeAndFlushesWhatIsBehind) {
  Rig rig({.qp_type = QpType::uc, .sq_sig_all = false});
  rig.post_recv(9, 64);
  rig.post_send(1, WrOpcode::rdma_write, 8, 0, roce::kSendSignaled);
  // The first of its packets is good.
  const std::array<roce::Sge, 2> list{
      {{.addr = rig.va(), .length = kMtu, .lkey = rig.key()},
       {.addr = rig.va(), .length = kMtu, .lkey = rig.invalid_key()}}};
  ASSERT_EQ(rig.post({.wr_id = 2, .sg_list = list}), PostResult::ok);
  rig.post_send(3, WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::uc_rdma_write_only, kPsn),
                                      IsPacket(Opcode::uc_send_first, kPsn + 1)));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::loc_prot_err),
                          Completed(3u, WcStatus::wr_flush_err)));
  EXPECT_EQ(rig.qp().state(), QpState::sqe);
  EXPECT_EQ(rig.counters().local_errors.value(), 1u);
  EXPECT_EQ(rig.qp().recv_queue_depth(), 1u) << "receiving goes on";
}

TEST(UcRequester, Clause10_3_1_SqeFlushesReceivesOnAndComesBackToRts) {
  Rig rig({.qp_type = QpType::uc, .state = QpState::sqe});
  rig.post_send(1, WrOpcode::send, 8);
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::wr_flush_err)));
  rig.post_recv(2, 64);
  rig.inject(packet(Opcode::uc_send_only, 0x020000, pattern(8)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(2u, 8u)));
  roce::QpAttributes a;
  a.qp_state = QpState::rts;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState).has_value());
  rig.post_send(3, WrOpcode::send, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::uc_send_only, kPsn)));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(3u, WcStatus::success)));
}

TEST(UcRequester, Clause10_3_1_DrainFinishesTheMessageThatHasBegun) {
  Rig rig(uc());
  rig.post_send(1, WrOpcode::send, 40 * kMtu);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  EXPECT_EQ(rig.sent_in_turn().size(), 32u);
  roce::QpAttributes a;
  a.qp_state = QpState::sqd;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState | roce::kQpEnSqdAsyncNotify).has_value());
  EXPECT_TRUE(rig.qp().query().sq_draining);
  EXPECT_THAT(rig.async_events(), IsEmpty());
  EXPECT_EQ(rig.sent().size(), 8u);
  EXPECT_FALSE(rig.qp().query().sq_draining);
  const auto events = rig.async_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, roce::AsyncEventType::sq_drained);
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  a.qp_state = QpState::rts;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState).has_value());
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::uc_rdma_write_only, kPsn + 40)));
}

TEST(UcRequester, Clause10_3_1_ErrorFlushesTheMessageUnderWay) {
  Rig rig(uc());
  rig.post_send(1, WrOpcode::send, 40 * kMtu);
  rig.post_send(2, WrOpcode::send, 8);
  EXPECT_EQ(rig.sent_in_turn().size(), 32u);
  roce::QpAttributes a;
  a.qp_state = QpState::err;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState).has_value());
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::wr_flush_err),
                                                  Completed(2u, WcStatus::wr_flush_err)));
}

/// As if the network had lost it: the service promises no more.
TEST(UcRequester, UnreachablePeerLosesWhatIsSentToIt) {
  Rig rig({.qp_type = QpType::uc, .peer = *stack::IpAddress::parse("192.0.2.1")});
  rig.post_send(1, WrOpcode::send, 3 * kMtu);
  rig.post_send(2, WrOpcode::send, 8);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  EXPECT_EQ(rig.counters().unreachable_pkts.value(), 4u);
  EXPECT_EQ(rig.qp().query().sq_psn.value, kPsn + 4);
}

}  // namespace
}  // namespace rockhopper::test::uc_requester_test
