// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// PSNs and the order of opcodes, seen by the responder.
#include <algorithm>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::responder_order_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::WcStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;

wire::Reth reth(const Rig& rig, std::size_t offset, std::uint32_t length) {
  return {.va = rig.va(offset), .rkey = rig.rkey(), .length = length};
}

TEST(ResponderOrder, Clause9_7_4_ExpectedPsnIsExecutedAndAcknowledged) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 100, 40), pattern(40)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_EQ(rig.memory_at(100, 40), pattern(40));
  EXPECT_TRUE(rig.untouched_outside(100, 40));
}

TEST(ResponderOrder, Clause9_7_4_NoAnswerWithoutAckReq) {
  Rig rig;
  Packet write = write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8));
  write.headers.bth.ack_request = false;
  rig.inject(write);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.memory_at(0, 8), pattern(8));
}

TEST(ResponderOrder, Clause9_7_5_OneAckCoversSeveralRequests) {
  Rig rig;
  for (std::uint32_t i = 0; i < 5; ++i) {
    rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + i, reth(rig, i * 8, 8), pattern(8)));
  }
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 4, 5u)));
}

TEST(ResponderOrder, Clause9_7_4_PsnAheadIsNotExecutedAndDrawsOneSequenceNak) {
  Rig rig;
  for (const std::uint32_t ahead : {1u, 2u, 3u, 0x7fffffu}) {
    rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + ahead, reth(rig, 0, 8), pattern(8)));
  }
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::psn_sequence_error)));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  EXPECT_EQ(rig.drops(DropReason::out_of_seq_request), 4u);
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

TEST(ResponderOrder, Clause9_7_5_NextGapDrawsItsOwnNak) {
  Rig rig;
  const auto write = [&](std::uint32_t psn) {
    rig.inject(write_packet(Opcode::rc_rdma_write_only, psn, reth(rig, 0, 8), pattern(8)));
  };
  write(kPsn + 1);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::psn_sequence_error)));
  write(kPsn);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  write(kPsn + 2);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::psn_sequence_error)));
}

TEST(ResponderOrder, Clause9_7_5_SequenceNakStillAcknowledgesWhatCameBefore) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8)));
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + 2, reth(rig, 0, 8), pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::psn_sequence_error)));
}

/// The missing packet arrives before the NAK has left: what was executed is acknowledged still.
TEST(ResponderOrder, Clause9_7_5_AcknowledgementIsNotLostWithANakThatBecameNeedless) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8)));
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + 2, reth(rig, 16, 8), pattern(8)));
  Packet late = write_packet(Opcode::rc_rdma_write_only, kPsn + 1, reth(rig, 8, 8), pattern(8));
  late.headers.bth.ack_request = false;
  rig.inject(late);
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].opcode(), Opcode::rc_acknowledge);
  EXPECT_THAT(sent[0].psn(), ::testing::AnyOf(kPsn + 1, kPsn + 2));
}

TEST(ResponderOrder, Clause9_7_5_DuplicateWriteIsAcknowledgedNotExecuted) {
  Rig rig;
  const auto first = write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8, 1));
  rig.inject(first);
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + 1, reth(rig, 0, 8), pattern(8, 2)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 1, 2u)));
  rig.inject(first);
  // The answer may not acknowledge less than what has been executed (9.7.5.1.3).
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 1, 2u)));
  EXPECT_EQ(rig.memory_at(0, 8), pattern(8, 2));
  EXPECT_EQ(rig.counters().duplicate_request.value(), 1u);
  EXPECT_EQ(rig.counters().rx_write_requests.value(), 2u);
}

TEST(ResponderOrder, Clause9_7_5_DuplicateSendTakesNoSecondReceive) {
  Rig rig;
  rig.post_recv(1, 64, 0);
  rig.post_recv(2, 64, 64);
  const auto send = packet(Opcode::rc_send_only, kPsn, pattern(16));
  rig.inject(send);
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  EXPECT_EQ(rig.qp().recv_queue_depth(), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, 16));
}

TEST(ResponderOrder, Clause9_7_5_DuplicatesAreNotCheckedForRights) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 0, 8), pattern(8)));
  (void)rig.sent();
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, {.va = 0, .rkey = 0xdead, .length = 8},
                          pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

class PsnWindow : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(PsnWindow, Clause9_7_2_HalfOfThePsnsAreAheadHalfBehind) {
  const std::uint32_t expected = GetParam();
  const auto at = [expected](std::int32_t distance) {
    return (expected + static_cast<std::uint32_t>(distance)) & wire::kMask24;
  };
  for (const std::int32_t distance : {1, 2, 0x7ffffe, 0x7fffff}) {
    Rig rig({.rq_psn = expected});
    rig.inject(write_packet(Opcode::rc_rdma_write_only, at(distance), reth(rig, 0, 8), pattern(8)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(expected, NakCode::psn_sequence_error))) << distance;
    EXPECT_EQ(rig.counters().duplicate_request.value(), 0u) << distance;
  }
  for (const std::int32_t distance : {-1, -2, -0x7fffff, -0x800000}) {
    Rig rig({.rq_psn = expected});
    rig.inject(write_packet(Opcode::rc_rdma_write_only, at(distance), reth(rig, 0, 8), pattern(8)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsAck(at(-1), 0u))) << distance;
    EXPECT_EQ(rig.counters().duplicate_request.value(), 1u) << distance;
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

INSTANTIATE_TEST_SUITE_P(ExpectedPsns, PsnWindow,
                         ::testing::Values(0u, 1u, 0x7fffffu, 0x800000u, 0xffffffu, 0x020000u));

TEST(ResponderOrder, Clause9_7_2_PsnAndMsnWrap) {
  Rig rig({.rq_psn = 0xfffffe});
  for (std::uint32_t i = 0; i < 4; ++i) {
    rig.inject(write_packet(Opcode::rc_rdma_write_only, (0xfffffe + i) & wire::kMask24,
                            reth(rig, i * 8, 8), pattern(8, static_cast<std::uint8_t>(i))));
    EXPECT_THAT(rig.sent(), ElementsAre(IsAck((0xfffffeu + i) & wire::kMask24, i + 1)));
  }
}

/// Which opcode may follow which; written down from the specification's rules, not from the code.
struct FollowUp {
  const char* name;
  std::vector<Opcode> before;  ///< a message begun, with a full packet each
  std::vector<Opcode> allowed;
};

class OpcodeOrder : public ::testing::TestWithParam<FollowUp> {};

Packet request(const Rig& rig, Opcode opcode, std::uint32_t psn) {
  const wire::OpcodeInfo& info = wire::info(static_cast<std::uint8_t>(opcode));
  const std::uint32_t length = info.ends() ? 8 : 256;
  const bool opens = info.position == wire::Position::first;
  Packet result = write_packet(opcode, psn, reth(rig, 0, opens ? 1024 : length),
                               info.has_payload ? pattern(length) : Payload{});
  result.headers.atomic_eth = {.va = rig.va(), .rkey = rig.rkey(), .swap_add = 0, .compare = 0};
  return result;
}

TEST_P(OpcodeOrder, Clause9_7_4_WrongFollowUpDrawsInvalidRequest) {
  const FollowUp& row = GetParam();
  std::vector<Opcode> requests;
  for (unsigned code = 0; code < 0x15; ++code) {
    if (wire::info(static_cast<std::uint8_t>(code)).is_request) {
      requests.push_back(static_cast<Opcode>(code));
    }
  }
  ASSERT_EQ(requests.size(), 15u);  // 12 SENDs and WRITEs, READ, two atomics
  for (const Opcode opcode : requests) {
    Rig rig;
    rig.post_recv(1, 4096, 8192);
    std::uint32_t psn = kPsn;
    for (const Opcode earlier : row.before) {
      rig.inject(request(rig, earlier, psn++));
    }
    (void)rig.sent();
    rig.inject(request(rig, opcode, psn));
    const bool allowed =
        std::find(row.allowed.begin(), row.allowed.end(), opcode) != row.allowed.end();
    const auto answer = rig.sent();
    const char* name = wire::info(static_cast<std::uint8_t>(opcode)).name;
    if (!allowed) {
      EXPECT_THAT(answer, ElementsAre(IsNak(psn, NakCode::invalid_request))) << name;
      EXPECT_EQ(rig.qp().state(), QpState::err) << name;
    } else {
      EXPECT_EQ(rig.qp().state(), QpState::rts) << name;
    }
  }
}

const std::vector<Opcode> kStarts = {Opcode::rc_send_first,
                                     Opcode::rc_send_only,
                                     Opcode::rc_send_only_with_immediate,
                                     Opcode::rc_rdma_write_first,
                                     Opcode::rc_rdma_write_only,
                                     Opcode::rc_rdma_write_only_with_immediate,
                                     Opcode::rc_rdma_read_request,
                                     Opcode::rc_compare_swap,
                                     Opcode::rc_fetch_add};
const std::vector<Opcode> kSendGoesOn = {Opcode::rc_send_middle, Opcode::rc_send_last,
                                         Opcode::rc_send_last_with_immediate};

INSTANTIATE_TEST_SUITE_P(
    Rows, OpcodeOrder,
    ::testing::Values(
        FollowUp{"Nothing", {}, kStarts}, FollowUp{"SendOnly", {Opcode::rc_send_only}, kStarts},
        FollowUp{"WriteOnly", {Opcode::rc_rdma_write_only}, kStarts},
        FollowUp{"Read", {Opcode::rc_rdma_read_request}, kStarts},
        FollowUp{"SendFirst", {Opcode::rc_send_first}, kSendGoesOn},
        FollowUp{"SendMiddle", {Opcode::rc_send_first, Opcode::rc_send_middle}, kSendGoesOn}),
    [](const auto& row) { return row.param.name; });

/// After a WRITE's first packet a right length matters too, so that its rows stand apart.
TEST(ResponderOrder, Clause9_7_4_OnlyItsOwnPacketsFollowAWriteFirst) {
  for (unsigned code = 0; code < 0x15; ++code) {
    const auto opcode = static_cast<Opcode>(code);
    const wire::OpcodeInfo& info = wire::info(opcode);
    if (!info.is_request) continue;
    Rig rig;
    rig.post_recv(1, 4096, 8192);
    const bool middle = opcode == Opcode::rc_rdma_write_middle;
    const std::uint32_t total = middle ? 1024 : 256 + 8;
    rig.inject(write_packet(Opcode::rc_rdma_write_first, kPsn, reth(rig, 0, total), pattern(256)));
    (void)rig.sent();
    Packet next = request(rig, opcode, kPsn + 1);
    rig.inject(next);
    const bool allowed = middle || opcode == Opcode::rc_rdma_write_last ||
                         opcode == Opcode::rc_rdma_write_last_with_immediate;
    EXPECT_EQ(rig.qp().state(), allowed ? QpState::rts : QpState::err) << info.name;
    if (!allowed) {
      EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::invalid_request))) << info.name;
    } else {
      (void)rig.sent();
    }
  }
}

TEST(ResponderOrder, ResponsesAndUnknownOpcodesDoNotReachTheResponder) {
  Rig rig;
  rig.inject(ack(kPsn));
  rig.inject(packet(Opcode::rc_send_only, kPsn), {.opcode = 0x2c});
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  EXPECT_EQ(rig.qp().query().rq_psn, wire::Psn{kPsn});
}

/// Of RC, what IBTA reserves.
constexpr std::array<std::uint8_t, 7> kReserved = {0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f};

Packet some_write(const Rig& rig, std::uint32_t psn) {
  return write_packet(Opcode::rc_rdma_write_only, psn, reth(rig, 0, 8), pattern(8));
}

TEST(ResponderOrder, Clause9_7_4_1_ReservedOpcodesAreInvalidRequests) {
  for (const std::uint8_t opcode : kReserved) {
    SCOPED_TRACE(unsigned{opcode});
    Rig rig;
    rig.inject(some_write(rig, kPsn), {.opcode = opcode});
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

TEST(ResponderOrder, Clause9_7_4_1_ReservedOpcodesAreFirstPutInOrder) {
  Rig rig;
  rig.inject(some_write(rig, kPsn + 1), {.opcode = 0x1f});
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::psn_sequence_error)));
  rig.inject(some_write(rig, kPsn - 1), {.opcode = 0x1f});
  EXPECT_THAT(rig.sent(), IsEmpty()) << "nothing like it has been executed";
  EXPECT_EQ(rig.drops(DropReason::duplicate_request), 1u);
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

TEST(ResponderOrder, ReservedOpcodesAreCheckedAsOthersAre) {
  Rig rig;
  rig.inject(some_write(rig, kPsn), {.icrc = true, .opcode = 0x1f});
  EXPECT_EQ(rig.drops(DropReason::bad_icrc), 1u);
  rig.inject(some_write(rig, kPsn), {.opcode = 0x1f, .version = 1});
  EXPECT_EQ(rig.drops(DropReason::malformed), 1u);
  rig.inject(some_write(rig, kPsn), {.opcode = 0xbf});
  EXPECT_EQ(rig.drops(DropReason::bad_service), 1u);
  Packet elsewhere = some_write(rig, kPsn);
  elsewhere.headers.bth.destination = wire::Qpn{rig.qp().number().value ^ 1};
  rig.inject(elsewhere, {.opcode = 0x1f});
  EXPECT_EQ(rig.drops(DropReason::unknown_qp), 1u);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

/// A packet of the last connection after a reset must not count as one of the new.
TEST(ResponderOrder, ResetForgetsTheMessageInProgress) {
  const ConnectionOptions options;
  Rig rig(options);
  rig.inject(write_packet(Opcode::rc_rdma_write_first, kPsn, reth(rig, 0, 512), pattern(256)));
  roce::QpAttributes reset;
  reset.qp_state = QpState::reset;
  ASSERT_TRUE(rig.qp().modify(reset, roce::kQpState).has_value());
  rig.bring_up(rig.qp(), options);
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, reth(rig, 512, 8), pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
}

}  // namespace
}  // namespace rockhopper::test::responder_order_test
