// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the requester makes of acknowledgements, NAKs and responses.
#include <cstring>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::requester_response_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::WcOpcode;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x001000;
constexpr std::uint32_t kMtu = 256;
constexpr auto kFirst = Opcode::rc_rdma_read_response_first;
constexpr auto kMiddle = Opcode::rc_rdma_read_response_middle;
constexpr auto kLast = Opcode::rc_rdma_read_response_last;
constexpr auto kOnly = Opcode::rc_rdma_read_response_only;

void post_and_send(Rig& rig, WrOpcode opcode, std::uint32_t count, std::uint32_t length = 8) {
  for (std::uint32_t i = 0; i < count; ++i) {
    rig.post_send(i + 1, opcode, length, i * length);
  }
  (void)rig.sent();
}

TEST(RequesterAck, Clause9_7_6_AckCompletesAllThatItCovers) {
  Rig rig;
  post_and_send(rig, WrOpcode::rdma_write, 4);
  rig.inject(ack(kPsn + 2));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success),
                          Completed(3u, WcStatus::success)));
  EXPECT_EQ(rig.qp().send_queue_depth(), 1u);
}

TEST(RequesterAck, Clause9_7_6_AckInTheMiddleOfAMessageCompletesWhatIsBeforeIt) {
  Rig rig;
  post_and_send(rig, WrOpcode::send, 2, 3 * kMtu);
  rig.inject(ack(kPsn + 4));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  rig.inject(ack(kPsn + 5));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(2u, WcStatus::success)));
}

TEST(RequesterAck, Clause9_7_6_GhostAcknowledgementsAreDropped) {
  Rig rig;
  post_and_send(rig, WrOpcode::rdma_write, 2);
  // Never sent; long past; half the circle away.
  for (const std::uint32_t psn :
       {kPsn + 2, kPsn + 100, kPsn - 2, kPsn - 1000, (kPsn + 0x800000) & wire::kMask24}) {
    rig.inject(ack(psn));
    rig.inject(nak(psn, NakCode::remote_access_error));
    rig.inject(nak(psn, NakCode::psn_sequence_error));
    rig.inject(rnr_nak(psn, 1));
    rig.inject(atomic_response(psn, 7));
    rig.inject(read_response(kOnly, psn, pattern(8)));
  }
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  EXPECT_EQ(rig.drops(DropReason::ghost_acknowledge), 20u);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

TEST(RequesterAck, GhostsOfAnIdleQueuePair) {
  Rig rig;
  for (const std::uint32_t psn : {kPsn - 1, kPsn, kPsn + 1}) {
    rig.inject(ack(psn));
    rig.inject(nak(psn, NakCode::invalid_request));
    rig.inject(rnr_nak(psn, 1));
    rig.inject(read_response(kOnly, psn, {}));
    rig.inject(atomic_response(psn, 0));
  }
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

/// A packet that was numbered but has not been sent yet cannot be acknowledged.
TEST(RequesterAck, AckOfWhatHasNotBeenSentIsAGhost) {
  Rig rig({}, 1);
  rig.post_send(1, WrOpcode::rdma_write, 3 * kMtu);
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.inject(ack(kPsn + 2));
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_EQ(rig.drops(DropReason::ghost_acknowledge), 1u);
}

TEST(RequesterAck, ReservedSyndromesAreDropped) {
  Rig rig;
  post_and_send(rig, WrOpcode::rdma_write, 1);
  for (const unsigned syndrome : {0x40u, 0x5fu, 0x80u, 0xa0u, 0xe0u, 0xffu}) {
    rig.inject(acknowledge(kPsn, {.syndrome = static_cast<std::uint8_t>(syndrome), .msn = 1}));
  }
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  EXPECT_EQ(rig.drops(DropReason::bad_response), 6u);
}

struct NakRow {
  const char* name;
  NakCode code;
  WcStatus status;
};

class FatalNak : public ::testing::TestWithParam<NakRow> {};

TEST_P(FatalNak, Clause9_9_2_NakFailsTheRequestAndFlushesTheRest) {
  for (const WrOpcode opcode : {WrOpcode::send, WrOpcode::rdma_write, WrOpcode::rdma_read,
                                WrOpcode::atomic_fetch_and_add}) {
    Rig rig;
    post_and_send(rig, WrOpcode::rdma_write, 2);
    rig.post_send(3, opcode, 8);
    rig.post_send(4, WrOpcode::send, 8);
    rig.post_recv(20, 8);
    (void)rig.sent();
    rig.inject(nak(kPsn + 2, GetParam().code));
    EXPECT_THAT(
        rig.send_completions(),
        ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success),
                    Completed(3u, GetParam().status), Completed(4u, WcStatus::wr_flush_err)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(20u, WcStatus::wr_flush_err)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_EQ(rig.counters().rcvd_nak.value(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Codes, FatalNak,
    ::testing::Values(
        NakRow{"InvalidRequest", NakCode::invalid_request, WcStatus::rem_inv_req_err},
        NakRow{"RemoteAccess", NakCode::remote_access_error, WcStatus::rem_access_err},
        NakRow{"RemoteOperational", NakCode::remote_operational_error, WcStatus::rem_op_err},
        NakRow{"InvalidRdRequest", NakCode::invalid_rd_request, WcStatus::rem_inv_rd_req_err}),
    [](const auto& row) { return row.param.name; });

TEST(RequesterRead, Clause9_7_6_ResponsesAreScatteredAndCompleteTheRead) {
  Rig rig;
  const std::array<roce::Sge, 3> list{{{.addr = rig.va(1000), .length = 300, .lkey = rig.key()},
                                       {.addr = rig.va(0), .length = 1, .lkey = rig.key()},
                                       {.addr = rig.va(3000), .length = 260, .lkey = rig.key()}}};
  ASSERT_EQ(rig.post({.wr_id = 5, .sg_list = list, .opcode = WrOpcode::rdma_read}),
            roce::PostResult::ok);
  (void)rig.sent();
  const Payload all = pattern(561);
  const auto part = [&](std::size_t from, std::size_t to) {
    return Payload(all.begin() + static_cast<std::ptrdiff_t>(from),
                   all.begin() + static_cast<std::ptrdiff_t>(to));
  };
  rig.inject(read_response(kFirst, kPsn, part(0, kMtu)));
  rig.inject(read_response(kMiddle, kPsn + 1, part(kMtu, 2 * kMtu)));
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  rig.inject(read_response(kLast, kPsn + 2, part(2 * kMtu, 561)));
  const auto done = rig.send_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 5u);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[0].opcode, WcOpcode::rdma_read);
  EXPECT_EQ(done[0].byte_len, 561u);
  EXPECT_EQ(rig.memory_at(1000, 300), part(0, 300));
  EXPECT_EQ(rig.memory_at(0, 1), part(300, 301));
  EXPECT_EQ(rig.memory_at(3000, 260), part(301, 561));
}

TEST(RequesterRead, Clause9_7_6_ResponseAcknowledgesEarlierRequests) {
  Rig rig;
  post_and_send(rig, WrOpcode::rdma_write, 2);
  rig.post_send(3, WrOpcode::rdma_read, 8, 512);
  (void)rig.sent();
  rig.inject(read_response(kOnly, kPsn + 2, pattern(8)));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success),
                          Completed(3u, WcStatus::success)));
}

TEST(RequesterRead, Clause9_7_6_DuplicateResponsesAreDropped) {
  Rig rig;
  post_and_send(rig, WrOpcode::rdma_read, 1, 2 * kMtu);
  rig.inject(read_response(kFirst, kPsn, pattern(kMtu, 1)));
  rig.inject(read_response(kFirst, kPsn, pattern(kMtu, 9)));
  EXPECT_EQ(rig.memory_at(0, kMtu), pattern(kMtu, 1));
  rig.inject(read_response(kLast, kPsn + 1, pattern(kMtu, 2)));
  rig.inject(read_response(kLast, kPsn + 1, pattern(kMtu, 9)));
  EXPECT_EQ(rig.memory_at(kMtu, kMtu), pattern(kMtu, 2));
  EXPECT_EQ(rig.drops(DropReason::duplicate_response), 2u);
  EXPECT_EQ(rig.send_completions().size(), 1u);
}

TEST(RequesterRead, Clause9_7_6_GapInTheResponsesAsksForTheRest) {
  Rig rig;
  post_and_send(rig, WrOpcode::rdma_read, 1, 4 * kMtu);
  rig.inject(read_response(kFirst, kPsn, pattern(kMtu, 1)));
  rig.inject(read_response(kMiddle, kPsn + 2, pattern(kMtu, 3)));
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn + 1)));
  EXPECT_EQ(sent[0].headers.reth,
            (wire::Reth{.va = 0x100000 + kMtu, .rkey = 0xabcdef01, .length = 3 * kMtu}));
  // What else was on its way does not ask again.
  rig.inject(read_response(kLast, kPsn + 3, pattern(kMtu, 4)));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(read_response(kFirst, kPsn + 1, pattern(kMtu, 2)));
  rig.inject(read_response(kMiddle, kPsn + 2, pattern(kMtu, 3)));
  rig.inject(read_response(kLast, kPsn + 3, pattern(kMtu, 4)));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  for (std::uint8_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rig.memory_at(i * kMtu, kMtu), pattern(kMtu, static_cast<std::uint8_t>(i + 1)));
  }
}

TEST(RequesterRead, Clause9_7_6_AckBeyondAReadIsAnImpliedNak) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_read, 2 * kMtu);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(ack(kPsn + 2));
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn),
                                      IsPacket(Opcode::rc_rdma_write_only, kPsn + 2)));
  EXPECT_EQ(rig.counters().implied_nak_seq_err.value(), 1u);
}

TEST(RequesterRead, Clause9_7_6_SkippedAtomicIsAskedForAgainWithItsPsn) {
  Rig rig;
  rig.post_send(1, WrOpcode::atomic_fetch_and_add, 8);
  rig.post_send(2, WrOpcode::rdma_read, 8, 512);
  (void)rig.sent();
  rig.inject(read_response(kOnly, kPsn + 1, pattern(8)));
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_fetch_add, kPsn)));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  rig.inject(atomic_response(kPsn, 7));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn + 1)));
}

struct ResponseRow {
  const char* name;
  std::vector<Packet> responses;  ///< the last one does not fit
};

class BadResponse : public ::testing::TestWithParam<ResponseRow> {};

TEST_P(BadResponse, Clause9_9_2_ResponseThatDoesNotFitIsABadResponse) {
  Rig rig;
  post_and_send(rig, WrOpcode::rdma_read, 1, 3 * kMtu);
  for (const Packet& response : GetParam().responses) {
    ASSERT_EQ(rig.qp().state(), QpState::rts);
    rig.inject(response);
  }
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::bad_resp_err)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_TRUE(rig.untouched_outside(0, 3 * kMtu));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BadResponse,
    ::testing::Values(ResponseRow{"OnlyForALongRead", {read_response(kOnly, kPsn, pattern(kMtu))}},
                      ResponseRow{"FirstTooShort",
                                  {read_response(kFirst, kPsn, pattern(kMtu - 4))}},
                      ResponseRow{"FirstTooLong", {read_response(kFirst, kPsn, pattern(kMtu + 4))}},
                      ResponseRow{"FirstEmpty", {read_response(kFirst, kPsn, {})}},
                      ResponseRow{"MiddleTooShort",
                                  {read_response(kFirst, kPsn, pattern(kMtu)),
                                   read_response(kMiddle, kPsn + 1, pattern(4))}},
                      ResponseRow{"LastTooEarly",
                                  {read_response(kFirst, kPsn, pattern(kMtu)),
                                   read_response(kLast, kPsn + 1, pattern(kMtu))}},
                      ResponseRow{"MiddleInsteadOfLast",
                                  {read_response(kFirst, kPsn, pattern(kMtu)),
                                   read_response(kMiddle, kPsn + 1, pattern(kMtu)),
                                   read_response(kMiddle, kPsn + 2, pattern(kMtu))}},
                      ResponseRow{"LastTooShort",
                                  {read_response(kFirst, kPsn, pattern(kMtu)),
                                   read_response(kMiddle, kPsn + 1, pattern(kMtu)),
                                   read_response(kLast, kPsn + 2, pattern(kMtu - 1))}},
                      ResponseRow{"LastTooLong",
                                  {read_response(kFirst, kPsn, pattern(kMtu)),
                                   read_response(kMiddle, kPsn + 1, pattern(kMtu)),
                                   read_response(kLast, kPsn + 2, pattern(kMtu + 1))}},
                      ResponseRow{"AtomicForARead", {atomic_response(kPsn, 1)}}),
    [](const auto& row) { return row.param.name; });

TEST(RequesterRead, Clause9_9_2_ReadResponseForAnotherRequestIsABadResponse) {
  for (const WrOpcode opcode : {WrOpcode::rdma_write, WrOpcode::atomic_fetch_and_add}) {
    Rig rig;
    post_and_send(rig, opcode, 1);
    rig.inject(read_response(kOnly, kPsn, pattern(8)));
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::bad_resp_err)));
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

TEST(RequesterAtomic, Clause9_7_6_OriginalValueLandsInHostOrder) {
  Rig rig;
  rig.post_send(1, WrOpcode::atomic_fetch_and_add, 8, 64);
  (void)rig.sent();
  rig.inject(atomic_response(kPsn, 0x0102030405060708));
  const auto done = rig.send_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, WcOpcode::fetch_add);
  EXPECT_EQ(done[0].byte_len, 8u);
  std::uint64_t value = 0;
  std::memcpy(&value, rig.memory() + 64, 8);
  EXPECT_EQ(value, 0x0102030405060708u);
  EXPECT_TRUE(rig.untouched_outside(64, 8));
}

/// A second answer to an atomic that was asked for twice.
TEST(RequesterAtomic, SecondAnswerChangesNothing) {
  Rig rig;
  post_and_send(rig, WrOpcode::atomic_fetch_and_add, 1);
  rig.advance(5'000'000);  // past the ACK timeout
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.inject(atomic_response(kPsn, 5));
  rig.inject(atomic_response(kPsn, 6));
  EXPECT_EQ(rig.send_completions().size(), 1u);
  std::uint64_t value = 0;
  std::memcpy(&value, rig.memory(), 8);
  EXPECT_EQ(value, 5u);
}

TEST(RequesterRead, DeregistrationStopsAReadInProgress) {
  Rig rig;
  const auto region = rig.add_region(0, 4096, roce::kAccessLocalWrite);
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 2 * kMtu, .lkey = region.key}}};
  ASSERT_EQ(rig.post({.wr_id = 1, .sg_list = list, .opcode = WrOpcode::rdma_read}),
            roce::PostResult::ok);
  (void)rig.sent();
  rig.inject(read_response(kFirst, kPsn, pattern(kMtu)));
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  rig.inject(read_response(kLast, kPsn + 1, pattern(kMtu)));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::loc_prot_err)));
  EXPECT_TRUE(rig.untouched_outside(0, kMtu));
}

// End-to-end flow control.

TEST(RequesterCredits, Clause9_7_7_2_WithoutCreditsOnePacketGoesAndAsksForAnAck) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(acknowledge(kPsn, wire::Aeth::ack(0, 1)));
  rig.post_send(2, WrOpcode::send, 3 * kMtu);
  const auto probe = rig.sent();
  ASSERT_THAT(probe, ElementsAre(IsPacket(Opcode::rc_send_first, kPsn + 1)));
  EXPECT_TRUE(probe[0].headers.bth.ack_request);
  // The peer took it: the message has its receive, and the rest may go.
  rig.inject(acknowledge(kPsn + 1, wire::Aeth::ack(1, 1)));
  EXPECT_EQ(rig.sent().size(), 2u);
}

/// The window may end in the middle of a message, whose packets so far ask for no acknowledgement.
TEST(RequesterCredits, Clause9_7_7_2_MessageThatHasBegunGoesOnWhenCreditsEnd) {
  Rig rig({}, 3);
  rig.post_send(1, WrOpcode::rdma_write, 8);
  rig.post_send(2, WrOpcode::rdma_write_with_imm, 4 * kMtu);
  EXPECT_EQ(rig.sent().size(), 3u);
  rig.inject(acknowledge(kPsn, wire::Aeth::ack(0, 1)));
  const auto more = rig.sent();
  ASSERT_THAT(more, ElementsAre(IsPacket(Opcode::rc_rdma_write_middle, kPsn + 3)));
  EXPECT_TRUE(more[0].headers.bth.ack_request);
}

TEST(RequesterCredits, Clause9_7_7_2_CreditsLimitSendsButNotWrites) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(acknowledge(kPsn, wire::Aeth::ack(wire::credit_code(2), 1)));
  for (std::uint64_t i = 2; i < 7; ++i) {
    rig.post_send(i, WrOpcode::send, 8);
  }
  EXPECT_EQ(rig.sent().size(), 2u);
  // An unsolicited acknowledgement of what is acknowledged already brings more.
  rig.inject(acknowledge(kPsn, wire::Aeth::ack(wire::credit_code(4), 1)));
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.inject(acknowledge(kPsn + 4, wire::Aeth::ack(wire::kCreditCodeUnlimited, 5)));
  EXPECT_EQ(rig.sent().size(), 1u);
  Rig other;
  other.post_send(1, WrOpcode::rdma_write, 8);
  (void)other.sent();
  other.inject(acknowledge(kPsn, wire::Aeth::ack(0, 1)));
  for (std::uint64_t i = 2; i < 7; ++i) {
    other.post_send(i, WrOpcode::rdma_write, 8);
  }
  EXPECT_EQ(other.sent().size(), 5u);
}

/// By choice, for peers whose credits are of no use: RNR NAKs do the rest.
TEST(RequesterCredits, MayBeIgnored) {
  Rig rig({.credits = {.obey = false}});
  rig.post_send(1, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(acknowledge(kPsn, wire::Aeth::ack(0, 1)));
  for (std::uint64_t i = 2; i < 7; ++i) {
    rig.post_send(i, WrOpcode::send, 8);
  }
  EXPECT_EQ(rig.sent().size(), 5u);
}

TEST(RequesterCredits, AQueuePairMayDoOtherwiseThanItsEngine) {
  Rig rig({.credits = {.obey = false, .count = false}});
  roce::QpInit init = rig.qp().init();
  EXPECT_FALSE(rig.qp().credits().obey);
  init.credits = roce::EndToEndCredits{};
  const auto qp = rig.engine().create_qp(init);
  ASSERT_TRUE(qp.has_value());
  EXPECT_TRUE((*qp)->credits().obey);
  EXPECT_TRUE((*qp)->credits().count);
}

}  // namespace
}  // namespace rockhopper::test::requester_response_test
