// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Requests as they leave: opcodes, headers, PSNs, windows, fences, local errors.
#include <algorithm>
#include <cstring>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::requester_send_test {
namespace {

using roce::QpState;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x001000;
constexpr std::uint32_t kMtu = 256;

struct Segmentation {
  const char* name;
  WrOpcode opcode;
  Opcode first, middle, last, only;
};

class Segments : public ::testing::TestWithParam<Segmentation> {};

TEST_P(Segments, Clause9_7_3_MessageIsCutIntoPathMtuPackets) {
  const Segmentation& row = GetParam();
  for (const std::uint32_t length : {0u, 1u, kMtu, kMtu + 1, 2 * kMtu, 4 * kMtu - 1, 4 * kMtu}) {
    Rig rig;
    rig.post_send(1, row.opcode, length, 100);
    const auto sent = rig.sent();
    const std::uint32_t count = length == 0 ? 1 : (length + kMtu - 1) / kMtu;
    ASSERT_EQ(sent.size(), count) << length;
    Payload all;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Opcode expected = count == 1       ? row.only
                              : i == 0         ? row.first
                              : i + 1 == count ? row.last
                                               : row.middle;
      EXPECT_EQ(sent[i].opcode(), expected) << length << " packet " << i;
      EXPECT_EQ(sent[i].psn(), kPsn + i);
      EXPECT_EQ(sent[i].headers.bth.ack_request, i + 1 == count);
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
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Segments,
    ::testing::Values(Segmentation{"Send", WrOpcode::send, Opcode::rc_send_first,
                                   Opcode::rc_send_middle, Opcode::rc_send_last,
                                   Opcode::rc_send_only},
                      Segmentation{"SendImmediate", WrOpcode::send_with_imm, Opcode::rc_send_first,
                                   Opcode::rc_send_middle, Opcode::rc_send_last_with_immediate,
                                   Opcode::rc_send_only_with_immediate},
                      Segmentation{"SendInvalidate", WrOpcode::send_with_inv, Opcode::rc_send_first,
                                   Opcode::rc_send_middle, Opcode::rc_send_last_with_invalidate,
                                   Opcode::rc_send_only_with_invalidate},
                      Segmentation{"Write", WrOpcode::rdma_write, Opcode::rc_rdma_write_first,
                                   Opcode::rc_rdma_write_middle, Opcode::rc_rdma_write_last,
                                   Opcode::rc_rdma_write_only},
                      Segmentation{"WriteImmediate", WrOpcode::rdma_write_with_imm,
                                   Opcode::rc_rdma_write_first, Opcode::rc_rdma_write_middle,
                                   Opcode::rc_rdma_write_last_with_immediate,
                                   Opcode::rc_rdma_write_only_with_immediate}),
    [](const auto& row) { return row.param.name; });

TEST(RequesterSend, Clause9_7_3_ReadTakesAsManyPsnsAsItsResponses) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_read, 3 * kMtu + 1);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn),
                                IsPacket(Opcode::rc_rdma_write_only, kPsn + 4)));
  EXPECT_EQ(sent[0].headers.reth,
            (wire::Reth{.va = 0x100000, .rkey = 0xabcdef01, .length = 3 * kMtu + 1}));
  EXPECT_TRUE(sent[0].payload.empty());
}

TEST(RequesterSend, Clause9_7_3_AtomicsCarryTheirOperands) {
  Rig rig;
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
  roce::SendWr wr{.wr_id = 1,
                  .sg_list = list,
                  .opcode = WrOpcode::atomic_cmp_and_swp,
                  .remote_addr = 0x1000,
                  .rkey = roce::MemoryKey{7},
                  .compare_add = 11,
                  .swap = 22};
  ASSERT_EQ(rig.post(wr), roce::PostResult::ok);
  wr.opcode = WrOpcode::atomic_fetch_and_add;
  ASSERT_EQ(rig.post(wr), roce::PostResult::ok);
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_compare_swap, kPsn),
                                IsPacket(Opcode::rc_fetch_add, kPsn + 1)));
  EXPECT_EQ(sent[0].headers.atomic_eth,
            (wire::AtomicEth{.va = 0x1000, .rkey = 7, .swap_add = 22, .compare = 11}));
  EXPECT_EQ(sent[1].headers.atomic_eth,
            (wire::AtomicEth{.va = 0x1000, .rkey = 7, .swap_add = 11, .compare = 0}));
}

TEST(RequesterSend, SolicitedEventOnlyOnTheLastPacketOfWhatTakesAReceive) {
  Rig rig;
  rig.post_send(1, WrOpcode::send, 2 * kMtu, 0, roce::kSendSolicited);
  rig.post_send(2, WrOpcode::rdma_write, 8, 0, roce::kSendSolicited);
  rig.post_send(3, WrOpcode::rdma_write_with_imm, 8, 0, roce::kSendSolicited);
  std::vector<bool> solicited;
  for (const Packet& packet : rig.sent()) {
    solicited.push_back(packet.headers.bth.solicited);
  }
  EXPECT_THAT(solicited, ElementsAre(false, true, false, true));
}

TEST(RequesterSend, GatherListIsReadInOrder) {
  Rig rig;
  const std::array<roce::Sge, 4> list{{{.addr = rig.va(900), .length = 200, .lkey = rig.key()},
                                       {.addr = rig.va(0), .length = 0, .lkey = rig.key()},
                                       {.addr = rig.va(10), .length = 100, .lkey = rig.key()},
                                       {.addr = rig.va(5000), .length = 1, .lkey = rig.key()}}};
  ASSERT_EQ(rig.post({.wr_id = 1, .sg_list = list, .opcode = WrOpcode::send}),
            roce::PostResult::ok);
  Payload all;
  for (const Packet& packet : rig.sent()) {
    all.insert(all.end(), packet.payload.begin(), packet.payload.end());
  }
  Payload expected = rig.memory_at(900, 200);
  for (const auto& [offset, length] : {std::pair{10, 100}, std::pair{5000, 1}}) {
    const Payload part =
        rig.memory_at(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(all, expected);
}

TEST(RequesterSend, InlineDataIsTakenWhenPosted) {
  Rig rig;
  Payload data = pattern(40);
  const Payload original = data;
  const std::array<roce::Sge, 2> list{
      {{.addr = reinterpret_cast<std::uintptr_t>(data.data()), .length = 30, .lkey = {}},
       {.addr = reinterpret_cast<std::uintptr_t>(data.data() + 30), .length = 10, .lkey = {}}}};
  ASSERT_EQ(
      rig.post(
          {.wr_id = 1, .sg_list = list, .opcode = WrOpcode::send, .send_flags = roce::kSendInline}),
      roce::PostResult::ok);
  data.assign(data.size(), 0xee);
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].payload, original);
  // And the same bytes when it is sent again.
  rig.advance(5'000'000);  // past the ACK timeout
  const auto again = rig.sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].payload, original);
}

TEST(RequesterSend, Clause9_7_2_PsnsWrap) {
  Rig rig({.sq_psn = 0xffffff});
  rig.post_send(1, WrOpcode::rdma_write, 3 * kMtu);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_first, 0xffffffu),
                                      IsPacket(Opcode::rc_rdma_write_middle, 0u),
                                      IsPacket(Opcode::rc_rdma_write_last, 1u)));
  rig.inject(ack(1));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

TEST(RequesterSend, NoMorePacketsInFlightThanConfigured) {
  for (const std::uint32_t limit : {1u, 2u, 5u}) {
    Rig rig({}, limit);
    rig.post_send(1, WrOpcode::rdma_write, 8 * kMtu);
    std::uint32_t received = 0;
    while (received < 8) {
      const auto sent = rig.sent();
      ASSERT_FALSE(sent.empty()) << "stopped for good after " << received;
      ASSERT_LE(sent.size(), limit);
      ASSERT_EQ(sent.front().psn(), kPsn + received);
      EXPECT_TRUE(std::any_of(sent.begin(), sent.end(), [](const Packet& p) {
        return p.headers.bth.ack_request;
      })) << "nothing asks for the acknowledgement that would open the window";
      received += static_cast<std::uint32_t>(sent.size());
      rig.inject(ack(sent.back().psn()));
    }
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  }
}

TEST(RequesterSend, Clause9_7_3_NoMoreReadsAndAtomicsOutstandingThanMaxRdAtomic) {
  Rig rig({.max_rd_atomic = 2});
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.post_send(i, WrOpcode::rdma_read, 8, i * 8);
  }
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, kPsn, pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn + 2)));
}

TEST(RequesterSend, Clause10_8_3_FenceWaitsForEarlierReadsAndAtomics) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_read, 2 * kMtu, 4096);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  rig.post_send(3, WrOpcode::send, 8, 4096, roce::kSendFence);
  rig.post_send(4, WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn),
                                      IsPacket(Opcode::rc_rdma_write_only, kPsn + 2)));
  rig.inject(read_response(Opcode::rc_rdma_read_response_first, kPsn, pattern(kMtu, 5)));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(read_response(Opcode::rc_rdma_read_response_last, kPsn + 1, pattern(kMtu, 6)));
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_send_only, kPsn + 3),
                                IsPacket(Opcode::rc_rdma_write_only, kPsn + 4)));
  // The fenced request sends what the READ has brought.
  const Payload read = pattern(kMtu, 5);
  EXPECT_EQ(sent[0].payload, Payload(read.begin(), read.begin() + 8));
}

TEST(RequesterSend, FenceDoesNotWaitForWrites) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_write, 8);
  rig.post_send(2, WrOpcode::send, 8, 0, roce::kSendFence);
  EXPECT_EQ(rig.sent().size(), 2u);
}

TEST(RequesterSend, Clause9_9_2_UnusableLocalMemoryFailsInItsTurn) {
  for (const int kind : {0, 1, 2}) {
    Rig rig;
    rig.post_send(1, WrOpcode::rdma_write, 8);
    auto region = rig.add_region(0, 64, roce::kAccessLocalWrite);
    const std::array<roce::Sge, 1> list{{{.addr = rig.va(kind == 1 ? 60 : 0),
                                          .length = 8,
                                          .lkey = kind == 0 ? roce::MemoryKey{0x99} : region.key}}};
    if (kind == 2) {
      ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
    }
    ASSERT_EQ(rig.post({.wr_id = 2, .sg_list = list, .opcode = WrOpcode::send}),
              roce::PostResult::ok);
    rig.post_send(3, WrOpcode::rdma_write, 8);
    EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kPsn)));
    EXPECT_THAT(rig.send_completions(), IsEmpty()) << "the request before it is still under way";
    rig.inject(ack(kPsn));
    (void)rig.sent();
    EXPECT_THAT(rig.send_completions(),
                ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::loc_prot_err),
                            Completed(3u, WcStatus::wr_flush_err)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
  }
}

TEST(RequesterSend, Clause9_9_2_ReadIntoMemoryWithoutLocalWriteFails) {
  Rig rig;
  const auto region = rig.add_region(4096, 64, 0);
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(4096), .length = 8, .lkey = region.key}}};
  ASSERT_EQ(rig.post({.wr_id = 1, .sg_list = list, .opcode = WrOpcode::rdma_read}),
            roce::PostResult::ok);
  (void)rig.sent();
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, kPsn, pattern(8)));
  (void)rig.sent();
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::loc_prot_err)));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

TEST(RequesterSend, UnsignalledRequestsFreeTheQueueWithoutCompletions) {
  Rig rig({.max_send_wr = 4, .sq_sig_all = false});
  for (std::uint32_t round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      rig.post_send(i, WrOpcode::rdma_write, 8);
    }
    const std::array<roce::Sge, 0> none{};
    EXPECT_EQ(rig.post({.wr_id = 9, .sg_list = none}), roce::PostResult::queue_full);
    (void)rig.sent();
    rig.inject(ack(kPsn + round * 4 + 3));
    EXPECT_EQ(rig.qp().send_queue_depth(), 0u);
  }
  EXPECT_THAT(rig.send_completions(), IsEmpty());
}

TEST(RequesterSend, ErrorsOfUnsignalledRequestsAreReported) {
  Rig rig({.sq_sig_all = false});
  rig.post_send(1, WrOpcode::rdma_write, 8);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  rig.post_send(3, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(nak(kPsn + 1, wire::NakCode::remote_access_error));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(2u, WcStatus::rem_access_err),
                                                  Completed(3u, WcStatus::wr_flush_err)));
}

TEST(RequesterSend, BadRequestsAreRefusedWhenPosted) {
  Rig rig({.max_send_wr = 2, .max_sge = 2, .max_inline = 16});
  const roce::Sge sge{.addr = rig.va(), .length = 8, .lkey = rig.key()};
  const std::array<roce::Sge, 3> three{sge, sge, sge};
  EXPECT_EQ(rig.post({.sg_list = three}), roce::PostResult::too_many_sges);
  const std::array<roce::Sge, 1> one{sge};
  roce::Sge longer = sge;
  longer.length = 17;
  const std::array<roce::Sge, 1> longer_list{longer};
  EXPECT_EQ(rig.post({.sg_list = longer_list, .send_flags = roce::kSendInline}),
            roce::PostResult::inline_too_long);
  EXPECT_EQ(
      rig.post({.sg_list = one, .opcode = WrOpcode::rdma_read, .send_flags = roce::kSendInline}),
      roce::PostResult::invalid_request);
  EXPECT_EQ(rig.post({.sg_list = longer_list, .opcode = WrOpcode::atomic_fetch_and_add}),
            roce::PostResult::invalid_request);
  EXPECT_EQ(rig.post({.sg_list = one, .opcode = static_cast<WrOpcode>(99)}),
            roce::PostResult::invalid_request);
  roce::Sge huge = sge;
  huge.length = 0x80000000;
  const std::array<roce::Sge, 2> too_long{huge, sge};
  EXPECT_EQ(rig.post({.sg_list = too_long}), roce::PostResult::message_too_long);
  EXPECT_EQ(rig.qp().send_queue_depth(), 0u);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

}  // namespace
}  // namespace rockhopper::test::requester_send_test
