// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the responder of an unreliable connection takes, and what it drops in silence.
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::uc_responder_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::QpType;
using roce::WcOpcode;
using roce::WcStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kMtu = 256;

ConnectionOptions uc() { return {.qp_type = QpType::uc}; }

wire::Reth reth(const Rig& rig, std::size_t offset, std::uint32_t length) {
  return {.va = rig.va(offset), .rkey = rig.rkey(), .length = length};
}

Packet immediate(Packet packet, std::uint32_t data) {
  packet.headers.imm_dt.data = data;
  return packet;
}

/// Nothing is answered, the queue pair lives, and the next message is taken as if nothing had been.
void expect_alive(Rig& rig, std::uint32_t psn) {
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  EXPECT_THAT(rig.async_events(), IsEmpty());
  rig.inject(write_packet(Opcode::uc_rdma_write_only, psn, reth(rig, 60000, 8), pattern(8, 77)));
  EXPECT_EQ(rig.memory_at(60000, 8), pattern(8, 77));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(UcResponder, Clause9_8_2_SendIsReceivedAndNotAnswered) {
  Rig rig(uc());
  rig.post_recv(1, 1024, 4096);
  rig.inject(packet(Opcode::uc_send_first, kPsn, pattern(kMtu, 1)));
  rig.inject(packet(Opcode::uc_send_middle, kPsn + 1, pattern(kMtu, 2)));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  rig.inject(
      immediate(packet(Opcode::uc_send_last_with_immediate, kPsn + 2, pattern(7, 3)), 0xabc));
  const auto done = rig.recv_completions();
  ASSERT_THAT(done, ElementsAre(Received(1u, 2 * kMtu + 7)));
  EXPECT_EQ(done[0].opcode, WcOpcode::recv);
  EXPECT_EQ(done[0].wc_flags, std::uint32_t{roce::kWcWithImm});
  EXPECT_EQ(done[0].imm_data, 0xabcu);
  EXPECT_EQ(rig.memory_at(4096, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(rig.memory_at(4096 + kMtu, kMtu), pattern(kMtu, 2));
  EXPECT_EQ(rig.memory_at(4096 + 2 * kMtu, 7), pattern(7, 3));
  EXPECT_TRUE(rig.untouched_outside(4096, 2 * kMtu + 7));
  EXPECT_THAT(rig.sent(), IsEmpty()) << "also with AckReq set";
  EXPECT_EQ(rig.qp().query().rq_psn.value, kPsn + 3);
}

TEST(UcResponder, Clause9_8_2_WriteWithImmediateTakesAReceive) {
  Rig rig(uc());
  rig.post_recv(1, 0);
  rig.inject(
      write_packet(Opcode::uc_rdma_write_first, kPsn, reth(rig, 100, kMtu + 5), pattern(kMtu, 1)));
  rig.inject(
      immediate(packet(Opcode::uc_rdma_write_last_with_immediate, kPsn + 1, pattern(5, 2)), 7));
  const auto done = rig.recv_completions();
  ASSERT_THAT(done, ElementsAre(Received(1u, kMtu + 5)));
  EXPECT_EQ(done[0].opcode, WcOpcode::recv_rdma_with_imm);
  EXPECT_EQ(done[0].imm_data, 7u);
  EXPECT_EQ(rig.memory_at(100, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(rig.memory_at(100 + kMtu, 5), pattern(5, 2));
  EXPECT_TRUE(rig.untouched_outside(100, kMtu + 5));
  EXPECT_EQ(rig.counters().rx_write_requests.value(), 1u);
}

TEST(UcResponder, Clause9_8_2_GapEndsTheMessageAndItsReceiveServesTheNext) {
  for (const std::uint32_t psn : {kPsn + 2, kPsn + 0x7fffff, kPsn, kPsn - 1}) {
    Rig rig(uc());
    rig.post_recv(1, 1024, 0);
    rig.post_recv(2, 1024, 4096);
    rig.inject(packet(Opcode::uc_send_first, kPsn, pattern(kMtu, 1)));
    rig.inject(packet(Opcode::uc_send_middle, psn, pattern(kMtu, 2)));
    EXPECT_EQ(rig.drops(DropReason::out_of_seq_request), 1u);
    EXPECT_EQ(rig.counters().abandoned_messages.value(), 1u);
    // The rest of the message is not wanted, even where it would fit again.
    rig.inject(packet(Opcode::uc_send_middle, kPsn + 1, pattern(kMtu, 3)));
    rig.inject(packet(Opcode::uc_send_last, psn + 1, pattern(9, 4)));
    EXPECT_EQ(rig.drops(DropReason::dropped_message), 2u);
    EXPECT_THAT(rig.recv_completions(), IsEmpty());
    rig.inject(packet(Opcode::uc_send_only, kPsn + 50, pattern(10, 5)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 10u)));
    EXPECT_EQ(rig.memory_at(0, 10), pattern(10, 5));
    EXPECT_EQ(rig.qp().query().rq_psn.value, kPsn + 51);
    expect_alive(rig, kPsn + 51);
  }
}

TEST(UcResponder, Clause9_8_2_MessageThatBeginsSetsTheExpectedPsn) {
  for (const std::uint32_t psn : {kPsn + 1, kPsn + 0x7fffff, kPsn - 1, kPsn + 0x800000}) {
    Rig rig(uc());
    rig.post_recv(1, 1024, 0);
    rig.inject(packet(Opcode::uc_send_first, psn, pattern(kMtu, 1)));
    rig.inject(packet(Opcode::uc_send_last, psn + 1, pattern(20, 2)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kMtu + 20)));
    EXPECT_EQ(rig.qp().query().rq_psn, wire::Psn::make(psn + 2));
  }
}

TEST(UcResponder, Clause9_8_2_LostEndIsNoticedWhenTheNextMessageBegins) {
  for (const Opcode next : {Opcode::uc_send_only, Opcode::uc_send_only_with_immediate}) {
    for (const std::uint32_t psn : {kPsn + 1, kPsn + 2}) {
      Rig rig(uc());
      rig.post_recv(1, 1024, 0);
      rig.inject(packet(Opcode::uc_send_first, kPsn, pattern(kMtu, 1)));
      rig.inject(packet(next, psn, pattern(10, 2)));
      EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 10u)));
      EXPECT_EQ(rig.memory_at(0, 10), pattern(10, 2));
      EXPECT_EQ(rig.counters().abandoned_messages.value(), 1u);
    }
  }
}

TEST(UcResponder, Clause9_8_2_PsnsWrap) {
  Rig rig({.qp_type = QpType::uc, .rq_psn = 0xffffff});
  rig.post_recv(1, 1024, 0);
  rig.inject(packet(Opcode::uc_send_first, 0xffffff, pattern(kMtu, 1)));
  rig.inject(packet(Opcode::uc_send_middle, 0, pattern(kMtu, 2)));
  rig.inject(packet(Opcode::uc_send_last, 1, pattern(1, 3)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 2 * kMtu + 1)));
}

struct SequenceCase {
  const char* name;
  std::vector<Opcode> opcodes;  ///< only the last one is out of place
};

class UcSequence : public ::testing::TestWithParam<SequenceCase> {};

TEST_P(UcSequence, Clause9_8_2_OpcodeOutOfPlaceEndsTheMessage) {
  Rig rig(uc());
  rig.post_recv(1, 1024, 0);
  std::uint32_t psn = kPsn;
  for (const Opcode opcode : GetParam().opcodes) {
    rig.inject(write_packet(opcode, psn++, reth(rig, 8192, 3 * kMtu), pattern(kMtu)));
  }
  EXPECT_EQ(rig.drops(DropReason::bad_sequence), 1u);
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  expect_alive(rig, psn);
  rig.inject(packet(Opcode::uc_send_only, psn + 1, pattern(10, 9)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 10u)));
  EXPECT_EQ(rig.memory_at(0, 10), pattern(10, 9));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, UcSequence,
    ::testing::Values(
        SequenceCase{"MiddleFirst", {Opcode::uc_send_middle}},
        SequenceCase{"LastFirst", {Opcode::uc_send_last}},
        SequenceCase{"WriteMiddleFirst", {Opcode::uc_rdma_write_middle}},
        SequenceCase{"WriteLastFirst", {Opcode::uc_rdma_write_last_with_immediate}},
        SequenceCase{"WriteBehindSend", {Opcode::uc_send_first, Opcode::uc_rdma_write_middle}},
        SequenceCase{"SendBehindWrite", {Opcode::uc_rdma_write_first, Opcode::uc_send_last}}),
    [](const auto& row) { return row.param.name; });

struct LengthCase {
  const char* name;
  std::vector<std::pair<Opcode, std::uint32_t>> packets;  ///< only the last one is wrong
  std::uint32_t dma_length = 0;                           ///< 0: as much as there is
};

class UcLengths : public ::testing::TestWithParam<LengthCase> {};

TEST_P(UcLengths, Clause9_8_2_LengthThatDoesNotFitDropsTheMessage) {
  const LengthCase& row = GetParam();
  Rig rig(uc());
  rig.post_recv(1, 16384, 0);
  std::uint32_t total = row.dma_length;
  if (total == 0) {
    for (const auto& [opcode, length] : row.packets) {
      total += length;
    }
  }
  std::uint32_t psn = kPsn;
  for (const auto& [opcode, length] : row.packets) {
    EXPECT_EQ(rig.drops(DropReason::bad_length), 0u);
    rig.inject(write_packet(opcode, psn++, reth(rig, 20000, total), pattern(length)));
  }
  EXPECT_EQ(rig.drops(DropReason::bad_length), 1u);
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_EQ(rig.qp().recv_queue_depth(), 1u);
  EXPECT_EQ(rig.counters().rx_write_requests.value(), 0u);
  expect_alive(rig, psn);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, UcLengths,
    ::testing::Values(
        LengthCase{"OnlyTooLong", {{Opcode::uc_send_only, kMtu + 1}}},
        LengthCase{"FirstShort", {{Opcode::uc_send_first, kMtu - 1}}},
        LengthCase{"FirstEmpty", {{Opcode::uc_send_first, 0}}},
        LengthCase{"FirstTooLong", {{Opcode::uc_send_first, kMtu + 4}}},
        LengthCase{"MiddleShort",
                   {{Opcode::uc_send_first, kMtu}, {Opcode::uc_send_middle, kMtu - 4}}},
        LengthCase{"LastEmpty", {{Opcode::uc_send_first, kMtu}, {Opcode::uc_send_last, 0}}},
        LengthCase{"LastTooLong",
                   {{Opcode::uc_send_first, kMtu}, {Opcode::uc_send_last, kMtu + 1}}},
        LengthCase{"WriteOnlyTooLong", {{Opcode::uc_rdma_write_only, kMtu + 1}}},
        LengthCase{"WriteFirstShort", {{Opcode::uc_rdma_write_first, kMtu - 4}}, 2 * kMtu},
        LengthCase{"WriteLessThanTheRethSays", {{Opcode::uc_rdma_write_only, 8}}, 9},
        LengthCase{"WriteMoreThanTheRethSays", {{Opcode::uc_rdma_write_only, 8}}, 7},
        LengthCase{"WriteFirstIsAllOfIt", {{Opcode::uc_rdma_write_first, kMtu}}, kMtu},
        LengthCase{"WriteEndsEarly",
                   {{Opcode::uc_rdma_write_first, kMtu}, {Opcode::uc_rdma_write_last, 8}},
                   kMtu + 9},
        LengthCase{"WriteGoesTooFar",
                   {{Opcode::uc_rdma_write_first, kMtu}, {Opcode::uc_rdma_write_middle, kMtu}},
                   2 * kMtu - 1},
        LengthCase{"WriteBeyondAllMessages", {{Opcode::uc_rdma_write_first, kMtu}}, 0x80000001}),
    [](const auto& row) { return row.param.name; });

class UcAccess : public ::testing::TestWithParam<Opcode> {
 protected:
  static Packet request(const wire::Reth& reth) {
    const bool first = GetParam() == Opcode::uc_rdma_write_first;
    return write_packet(GetParam(), kPsn, reth, pattern(first ? kMtu : reth.length));
  }
  static std::uint32_t length() { return GetParam() == Opcode::uc_rdma_write_first ? kMtu + 8 : 8; }
  static void expect_refused(Rig& rig, const wire::Reth& reth) {
    rig.post_recv(77, 64, 50000);
    rig.inject(request(reth));
    EXPECT_EQ(rig.drops(DropReason::access_denied), 1u);
    EXPECT_TRUE(rig.untouched_outside(0, 0));
    EXPECT_THAT(rig.recv_completions(), IsEmpty());
    if (GetParam() == Opcode::uc_rdma_write_first) {
      rig.inject(packet(Opcode::uc_rdma_write_last, kPsn + 1, pattern(8)));
      EXPECT_EQ(rig.drops(DropReason::dropped_message), 1u);
      EXPECT_TRUE(rig.untouched_outside(0, 0));
    }
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_EQ(rig.qp().state(), QpState::rts);
    EXPECT_THAT(rig.async_events(), IsEmpty());
  }
};

TEST_P(UcAccess, Clause9_8_2_KeyThatIsNotGood) {
  for (const std::uint32_t flip : {0x00000001u, 0x00010000u, 0x80000000u}) {
    Rig rig(uc());
    expect_refused(rig, {.va = rig.va(), .rkey = rig.rkey() ^ flip, .length = length()});
    expect_alive(rig, kPsn + 2);
  }
  Rig rig(uc());
  const auto other = rig.engine().allocate_pd();
  const auto region =
      rig.engine().register_memory(other, rig.memory(), Rig::kMemoryBytes, roce::kAccessAll);
  ASSERT_TRUE(region.has_value());
  expect_refused(
      rig, {.va = rig.va(), .rkey = static_cast<std::uint32_t>(region->key), .length = length()});
}

TEST_P(UcAccess, Clause9_8_2_RegionWithoutTheRight) {
  Rig rig(uc());
  const auto region = rig.add_region(0, 4096, roce::kAccessAll & ~roce::kAccessRemoteWrite);
  expect_refused(
      rig, {.va = rig.va(), .rkey = static_cast<std::uint32_t>(region.key), .length = length()});
  expect_alive(rig, kPsn + 2);
}

TEST_P(UcAccess, Clause9_8_2_QueuePairWithoutTheRight) {
  Rig rig({.qp_type = QpType::uc, .access = roce::kAccessAll & ~roce::kAccessRemoteWrite});
  expect_refused(rig, reth(rig, 0, length()));
}

TEST_P(UcAccess, Clause9_8_2_OutOfBounds) {
  Rig rig(uc());
  const auto region = rig.add_region(4096, 512, roce::kAccessAll);
  expect_refused(rig, {.va = rig.va(4096 + 513) - length(),
                       .rkey = static_cast<std::uint32_t>(region.key),
                       .length = length()});
  expect_alive(rig, kPsn + 2);
}

INSTANTIATE_TEST_SUITE_P(Writes, UcAccess,
                         ::testing::Values(Opcode::uc_rdma_write_first, Opcode::uc_rdma_write_only,
                                           Opcode::uc_rdma_write_only_with_immediate),
                         [](const auto& row) { return std::string(wire::opcode_name(row.param)); });

TEST(UcResponder, Clause9_8_2_RegionThatGoesAwayEndsTheWrite) {
  Rig rig(uc());
  const auto region = rig.add_region(0, 4096, roce::kAccessAll);
  rig.inject(write_packet(
      Opcode::uc_rdma_write_first, kPsn,
      {.va = rig.va(), .rkey = static_cast<std::uint32_t>(region.key), .length = kMtu + 8},
      pattern(kMtu)));
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  rig.inject(packet(Opcode::uc_rdma_write_last, kPsn + 1, pattern(8)));
  EXPECT_EQ(rig.drops(DropReason::access_denied), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, kMtu));
  expect_alive(rig, kPsn + 2);
}

TEST(UcResponder, Clause9_8_2_SendWithoutAReceiveIsDropped) {
  Rig rig(uc());
  rig.inject(packet(Opcode::uc_send_first, kPsn, pattern(kMtu, 1)));
  EXPECT_EQ(rig.drops(DropReason::no_receive), 1u);
  // A receive request that comes later is for later messages.
  rig.post_recv(1, 1024, 0);
  rig.inject(packet(Opcode::uc_send_middle, kPsn + 1, pattern(kMtu, 2)));
  rig.inject(packet(Opcode::uc_send_last, kPsn + 2, pattern(8, 3)));
  EXPECT_EQ(rig.drops(DropReason::dropped_message), 2u);
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  EXPECT_EQ(rig.qp().query().rq_psn.value, kPsn + 3);
  rig.inject(packet(Opcode::uc_send_only, kPsn + 3, pattern(8, 4)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 8u)));
  EXPECT_EQ(rig.counters().out_of_seq_request.value(), 0u);
}

TEST(UcResponder, Clause9_8_2_WriteWithImmediateWithoutAReceiveIsDropped) {
  Rig rig(uc());
  rig.inject(immediate(
      write_packet(Opcode::uc_rdma_write_only_with_immediate, kPsn, reth(rig, 0, 8), pattern(8)),
      1));
  EXPECT_EQ(rig.drops(DropReason::no_receive), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  expect_alive(rig, kPsn + 1);
}

TEST(UcResponder, Clause9_9_3_MessageLongerThanItsReceiveIsALocalError) {
  Rig rig(uc());
  rig.post_recv(1, kMtu + 7, 0);
  rig.post_recv(2, 64, 4096);
  rig.inject(packet(Opcode::uc_send_first, kPsn, pattern(kMtu, 1)));
  rig.inject(packet(Opcode::uc_send_last, kPsn + 1, pattern(8, 2)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::loc_len_err),
                                                  Completed(2u, WcStatus::wr_flush_err)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_EQ(rig.drops(DropReason::short_receive), 1u);
  EXPECT_EQ(rig.counters().local_errors.value(), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, kMtu));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(UcResponder, Clause9_9_3_ReceiveIntoMemoryThatCannotBeUsedIsALocalError) {
  Rig rig(uc());
  const auto region = rig.add_region(0, 64, 0);
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 64, .lkey = region.key}}};
  ASSERT_EQ(rig.qp().post_recv({.wr_id = 1, .sg_list = list}), roce::PostResult::ok);
  rig.inject(packet(Opcode::uc_send_only, kPsn, pattern(8)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::loc_prot_err)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_EQ(rig.drops(DropReason::bad_receive), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

TEST(UcResponder, Clause9_8_2_EmptyMessages) {
  Rig rig(uc());
  rig.post_recv(1, 0);
  rig.inject(packet(Opcode::uc_send_only, kPsn));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 0u)));
  // The key of a WRITE without bytes is not looked at.
  rig.inject(write_packet(Opcode::uc_rdma_write_only, kPsn + 1, {.va = 1, .rkey = 2, .length = 0}));
  EXPECT_EQ(rig.counters().rx_write_requests.value(), 1u);
}

TEST(UcResponder, Clause9_6_OtherServicesAndUnservedOpcodes) {
  for (const Opcode opcode :
       {Opcode::rc_rdma_write_only, Opcode::rc_send_only, Opcode::rc_acknowledge,
        Opcode::rc_rdma_read_request, Opcode::ud_send_only, Opcode::xrc_send_only}) {
    Rig rig(uc());
    rig.post_recv(1, 64);
    const bool empty = !wire::info(opcode).has_payload;
    rig.inject(write_packet(opcode, kPsn, reth(rig, 0, 8), empty ? Payload{} : pattern(8)));
    EXPECT_EQ(rig.drops(DropReason::bad_service), 1u) << wire::opcode_name(opcode);
    EXPECT_TRUE(rig.untouched_outside(0, 0));
    EXPECT_THAT(rig.recv_completions(), IsEmpty());
    expect_alive(rig, kPsn);
  }
}

TEST(UcResponder, PacketsOfOthersChangeNothing) {
  for (const Damage& damage : {Damage{.icrc = true}, Damage{.source_address = true},
                               Damage{.pkey = std::uint16_t{0x8001}}}) {
    Rig rig(uc());
    rig.post_recv(1, 1024, 0);
    rig.inject(packet(Opcode::uc_send_first, kPsn, pattern(kMtu, 1)));
    rig.inject(packet(Opcode::uc_send_only, kPsn + 9, pattern(8, 2)), damage);
    rig.inject(packet(Opcode::uc_send_last, kPsn + 1, pattern(8, 3)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kMtu + 8)));
  }
}

TEST(UcResponder, FirstRequestInRtrRaisesCommunicationEstablished) {
  Rig rig({.qp_type = QpType::uc, .state = QpState::rtr});
  for (std::uint32_t i = 0; i < 2; ++i) {
    rig.inject(write_packet(Opcode::uc_rdma_write_only, kPsn + i, reth(rig, 0, 8), pattern(8)));
  }
  const auto events = rig.async_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, roce::AsyncEventType::comm_est);
}

TEST(UcResponder, ResetForgetsTheMessageInProgress) {
  Rig rig(uc());
  rig.post_recv(1, 1024, 0);
  rig.inject(packet(Opcode::uc_send_first, kPsn, pattern(kMtu, 1)));
  roce::QpAttributes reset;
  reset.qp_state = QpState::reset;
  ASSERT_TRUE(rig.qp().modify(reset, roce::kQpState).has_value());
  rig.bring_up(rig.qp(), uc());
  rig.post_recv(2, 1024, 4096);
  rig.inject(packet(Opcode::uc_send_last, kPsn, pattern(8, 2)));
  EXPECT_EQ(rig.drops(DropReason::bad_sequence), 1u);
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
}

}  // namespace
}  // namespace rockhopper::test::uc_responder_test
