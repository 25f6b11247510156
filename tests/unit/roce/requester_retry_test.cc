// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Timeouts, sequence errors and RNR: when the requester sends again, and when it gives up.
#include "roce/wire/timer_code.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::requester_retry_test {
namespace {

using roce::QpState;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x001000;
constexpr std::uint32_t kMtu = 256;
constexpr auto kWrite = Opcode::rc_rdma_write_only;
/// Timers fire up to one tick of the wheel late.
constexpr std::uint64_t kTickNs = 1024;

void post_and_send(Rig& rig, std::uint32_t count, WrOpcode opcode = WrOpcode::rdma_write) {
  for (std::uint32_t i = 0; i < count; ++i) {
    rig.post_send(i + 1, opcode, 8);
  }
  (void)rig.sent();
}

TEST(RequesterTimeout, Clause9_7_6_UnansweredRequestIsSentAgainAfterTheTimeout) {
  for (const std::uint8_t code : std::initializer_list<std::uint8_t>{1, 8, 14, 20}) {
    Rig rig({.timeout = code});
    const std::uint64_t timeout_ns = wire::local_ack_timeout_ns(code);
    post_and_send(rig, 2);
    rig.advance(timeout_ns - 1);
    EXPECT_THAT(rig.sent(), IsEmpty()) << unsigned{code};
    // IBTA allows up to four times the value.
    rig.advance(1 + kTickNs);
    EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, kPsn), IsPacket(kWrite, kPsn + 1)));
    EXPECT_EQ(rig.counters().local_ack_timeout_err.value(), 1u);
    EXPECT_EQ(rig.counters().retransmitted_pkts.value(), 2u);
  }
}

/// As RNICs with adaptive retransmission have it: waits that grow, and a number of retries of their
/// own.
TEST(RequesterTimeout, AScheduleStandsForTimeoutAndRetryCount) {
  constexpr std::array<std::uint64_t, 3> kWaitsNs = {5'600'000, 4'100'000, 16'700'000};
  ConnectionOptions options{.timeout = 1, .retry_cnt = 1};
  options.retransmissions.set(kWaitsNs);
  Rig rig(options);
  post_and_send(rig, 1);
  for (const std::uint64_t wait_ns : kWaitsNs) {
    rig.advance(wait_ns - 1);
    EXPECT_THAT(rig.sent(), IsEmpty()) << wait_ns;
    rig.advance(1 + kTickNs);
    EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, kPsn))) << wait_ns;
  }
  rig.advance(kWaitsNs[2] + kTickNs);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::retry_exc_err)));
}

TEST(RequesterTimeout, ProgressBeginsTheScheduleAnew) {
  constexpr std::array<std::uint64_t, 2> kWaitsNs = {1'000'000, 9'000'000};
  ConnectionOptions options;
  options.retransmissions.set(kWaitsNs);
  Rig rig(options);
  post_and_send(rig, 2);
  rig.advance(kWaitsNs[0] + kTickNs);
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.inject(ack(kPsn));
  rig.advance(kWaitsNs[0] + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, kPsn + 1)));
}

TEST(RequesterTimeout, Clause9_7_6_TimeoutCodeZeroNeverExpires) {
  Rig rig({.timeout = 0});
  post_and_send(rig, 1);
  rig.advance(3'600'000'000'000);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

TEST(RequesterTimeout, Clause9_7_6_ProgressRestartsTheTimer) {
  Rig rig({.timeout = 10});
  const std::uint64_t timeout_ns = wire::local_ack_timeout_ns(10);
  post_and_send(rig, 2);
  rig.advance(timeout_ns - 1000);
  rig.inject(ack(kPsn));
  rig.advance(timeout_ns - 1000);
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(1000 + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, kPsn + 1)));
}

TEST(RequesterTimeout, IdleQueuePairHasNoTimer) {
  Rig rig;
  post_and_send(rig, 1);
  EXPECT_LE(rig.host().next_deadline_ns(), rig.now_ns() + wire::local_ack_timeout_ns(10) + kTickNs);
  rig.inject(ack(kPsn));
  (void)rig.sent();
  rig.advance(10'000'000'000);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counters().local_ack_timeout_err.value(), 0u);
}

TEST(RequesterTimeout, Clause9_9_2_RetryCountIsUsedUp) {
  for (const std::uint8_t retries : std::initializer_list<std::uint8_t>{0, 1, 7}) {
    Rig rig({.retry_cnt = retries});
    post_and_send(rig, 2);
    rig.post_recv(30, 8);
    for (unsigned i = 0; i < retries; ++i) {
      rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
      EXPECT_EQ(rig.sent().size(), 2u);
      EXPECT_THAT(rig.send_completions(), IsEmpty());
    }
    rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::retry_exc_err),
                                                    Completed(2u, WcStatus::wr_flush_err)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(30u, WcStatus::wr_flush_err)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_EQ(rig.counters().retry_exceeded_err.value(), 1u);
    EXPECT_EQ(rig.counters().local_ack_timeout_err.value(), retries + 1u);
  }
}

TEST(RequesterTimeout, Clause9_7_6_ProgressRestoresTheRetryCount) {
  Rig rig({.retry_cnt = 1});
  post_and_send(rig, 5);
  for (std::uint32_t i = 0; i < 4; ++i) {
    rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
    EXPECT_EQ(rig.sent().size(), 5 - i);
    rig.inject(ack(kPsn + i));
  }
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

TEST(RequesterTimeout, LongMessageIsSentAgainFromTheOldestUnacknowledgedPacket) {
  Rig rig;
  rig.post_send(1, WrOpcode::send, 4 * kMtu);
  (void)rig.sent();
  rig.inject(ack(kPsn + 1));
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_send_middle, kPsn + 2),
                                      IsPacket(Opcode::rc_send_last, kPsn + 3)));
}

TEST(RequesterTimeout, AckDuringTheRetransmissionMovesItOn) {
  Rig rig({}, 2);
  rig.post_send(1, WrOpcode::send, 6 * kMtu);
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.inject(ack(kPsn + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_send_middle, kPsn + 2),
                                      IsPacket(Opcode::rc_send_middle, kPsn + 3)));
}

TEST(RequesterSequenceNak, Clause9_7_6_GoesBackToTheNamedPsn) {
  Rig rig;
  post_and_send(rig, 4);
  rig.inject(nak(kPsn + 2, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, kPsn + 2), IsPacket(kWrite, kPsn + 3)));
  EXPECT_EQ(rig.counters().rcvd_seq_err.value(), 1u);
}

TEST(RequesterSequenceNak, Clause9_9_2_CountsAsARetry) {
  Rig rig({.retry_cnt = 2});
  post_and_send(rig, 1);
  rig.inject(nak(kPsn, NakCode::psn_sequence_error));
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.inject(nak(kPsn, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::retry_exc_err)));
}

// Some RNICs send one for each packet that comes too early.
TEST(RequesterSequenceNak, RepetitionsAreOneUntilThereIsProgress) {
  Rig rig({.retry_cnt = 2});
  post_and_send(rig, 4);
  for (unsigned i = 0; i < 10; ++i) {
    rig.inject(nak(kPsn + 1, NakCode::psn_sequence_error));
    EXPECT_EQ(rig.sent().size(), i == 0 ? 3u : 0u);
  }
  rig.inject(nak(kPsn + 2, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, kPsn + 2), IsPacket(kWrite, kPsn + 3)))
      << "another packet is missing";
  EXPECT_EQ(rig.counters().rcvd_seq_err.value(), 11u);
  rig.inject(ack(kPsn + 3));
  EXPECT_EQ(rig.send_completions().size(), 4u);
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

// What is sent after the wait may be lost, whatever was lost before it.
TEST(RequesterSequenceNak, IsObeyedAgainAfterAnRnrNak) {
  Rig rig;
  post_and_send(rig, 2, WrOpcode::send);
  rig.inject(nak(kPsn, NakCode::psn_sequence_error));
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.inject(rnr_nak(kPsn, 1));
  rig.advance(wire::rnr_timer_ns(1) + kTickNs);
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.inject(nak(kPsn, NakCode::psn_sequence_error));
  EXPECT_EQ(rig.sent().size(), 2u);
}

TEST(RequesterSequenceNak, SkippingAReadIsAnImpliedNakFirst) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_read, 8);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  rig.post_send(3, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(nak(kPsn + 2, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn),
                                      IsPacket(kWrite, kPsn + 1), IsPacket(kWrite, kPsn + 2)));
}

TEST(RequesterRnr, Clause9_7_5_WaitsAtLeastTheTimeOfTheNak) {
  for (const std::uint8_t code : std::initializer_list<std::uint8_t>{1, 5, 12, 31, 0}) {
    Rig rig;
    post_and_send(rig, 2, WrOpcode::send);
    rig.inject(rnr_nak(kPsn, code));
    EXPECT_THAT(rig.sent(), IsEmpty());
    rig.advance(wire::rnr_timer_ns(code) - 1);
    EXPECT_THAT(rig.sent(), IsEmpty()) << unsigned{code};
    rig.advance(1 + kTickNs);
    EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_send_only, kPsn),
                                        IsPacket(Opcode::rc_send_only, kPsn + 1)));
    EXPECT_EQ(rig.counters().rcvd_rnr_err.value(), 1u);
    EXPECT_EQ(rig.counters().local_ack_timeout_err.value(), 0u);
  }
}

TEST(RequesterRnr, Clause9_7_5_AcknowledgesWhatCameBefore) {
  Rig rig;
  post_and_send(rig, 3, WrOpcode::send);
  rig.inject(rnr_nak(kPsn + 2, 12));
  EXPECT_EQ(rig.send_completions().size(), 2u);
  rig.advance(wire::rnr_timer_ns(12) + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_send_only, kPsn + 2)));
}

TEST(RequesterRnr, NothingNewIsSentDuringTheWait) {
  Rig rig;
  post_and_send(rig, 1, WrOpcode::send);
  rig.inject(rnr_nak(kPsn, 12));
  rig.post_send(2, WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent(), IsEmpty());
  // Other responders NAK the packets behind; that must not shorten the wait.
  rig.inject(nak(kPsn, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(wire::rnr_timer_ns(12) + kTickNs);
  EXPECT_EQ(rig.sent().size(), 2u);
}

TEST(RequesterRnr, Clause9_9_2_RnrRetryIsUsedUp) {
  for (const std::uint8_t retries : std::initializer_list<std::uint8_t>{0, 1, 6}) {
    Rig rig({.rnr_retry = retries});
    post_and_send(rig, 2, WrOpcode::send);
    for (unsigned i = 0; i < retries; ++i) {
      rig.inject(rnr_nak(kPsn, 1));
      rig.advance(wire::rnr_timer_ns(1) + kTickNs);
      EXPECT_EQ(rig.sent().size(), 2u);
    }
    rig.inject(rnr_nak(kPsn, 1));
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::rnr_retry_exc_err),
                                                    Completed(2u, WcStatus::wr_flush_err)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_EQ(rig.counters().retry_rnr_exceeded_err.value(), 1u);
  }
}

TEST(RequesterRnr, Clause9_9_2_RnrRetrySevenNeverEnds) {
  Rig rig({.rnr_retry = 7});
  post_and_send(rig, 1, WrOpcode::send);
  for (unsigned i = 0; i < 1000; ++i) {
    rig.inject(rnr_nak(kPsn, 1));
    rig.advance(wire::rnr_timer_ns(1) + kTickNs);
    ASSERT_EQ(rig.sent().size(), 1u);
  }
  rig.inject(ack(kPsn));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

TEST(RequesterRnr, RnrDoesNotUseUpRetries) {
  Rig rig({.retry_cnt = 0});
  post_and_send(rig, 1, WrOpcode::send);
  for (unsigned i = 0; i < 3; ++i) {
    rig.inject(rnr_nak(kPsn, 1));
    rig.advance(wire::rnr_timer_ns(1) + kTickNs);
    EXPECT_EQ(rig.sent().size(), 1u);
  }
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

TEST(RequesterRetry, ReadIsRepeatedFromWhereItStopped) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_read, 4 * kMtu);
  (void)rig.sent();
  rig.inject(read_response(Opcode::rc_rdma_read_response_first, kPsn, pattern(kMtu)));
  rig.inject(read_response(Opcode::rc_rdma_read_response_middle, kPsn + 1, pattern(kMtu)));
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn + 2)));
  EXPECT_EQ(sent[0].headers.reth.va, 0x100000 + 2 * kMtu);
  EXPECT_EQ(sent[0].headers.reth.length, 2 * kMtu);
  rig.inject(read_response(Opcode::rc_rdma_read_response_first, kPsn + 2, pattern(kMtu)));
  rig.inject(read_response(Opcode::rc_rdma_read_response_last, kPsn + 3, pattern(kMtu)));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

// A slow peer works on all that it was ever asked: asking for all of it again would bury it.
TEST(RequesterRetry, AfterATimeoutReadsAreAskedForOneThenTwoThenAll) {
  Rig rig({.max_rd_atomic = 6, .timeout = 10});
  for (std::uint8_t i = 0; i < 6; ++i) {
    rig.post_send(i, WrOpcode::rdma_read, 8);
  }
  const auto read = [](std::uint32_t n) {
    return IsPacket(Opcode::rc_rdma_read_request, kPsn + n);
  };
  const auto answer = [&rig](std::uint32_t n) {
    rig.inject(read_response(Opcode::rc_rdma_read_response_only, kPsn + n, pattern(8)));
  };
  EXPECT_THAT(rig.sent(), SizeIs(6));
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(read(0)));
  // Late answers to what was asked for before: neither a loss nor a retry.
  for (std::uint32_t n = 1; n < 6; ++n) {
    answer(n);
  }
  EXPECT_THAT(rig.sent(), IsEmpty());
  answer(0);
  EXPECT_THAT(rig.sent(), ElementsAre(read(1), read(2)));
  answer(1);
  answer(2);
  EXPECT_THAT(rig.sent(), ElementsAre(read(3), read(4), read(5)));
  for (std::uint32_t n = 3; n < 6; ++n) {
    answer(n);
  }
  EXPECT_THAT(rig.send_completions(), SizeIs(6));
  EXPECT_EQ(rig.counters().retransmitted_pkts.value(), 6u);
}

TEST(RequesterRetry, RetransmissionKeepsToMaxRdAtomicAndFences) {
  Rig rig({.max_rd_atomic = 1});
  rig.post_send(1, WrOpcode::rdma_read, 8);
  rig.post_send(2, WrOpcode::rdma_read, 8);
  rig.post_send(3, WrOpcode::send, 8, 0, roce::kSendFence);
  EXPECT_EQ(rig.sent().size(), 1u);
  for (int i = 0; i < 2; ++i) {
    rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
    EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn)));
  }
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, kPsn, pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, kPsn + 1)));
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, kPsn + 1, pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_send_only, kPsn + 2)));
}

/// Memory that is taken away after the first transmission must not be read by the second.
TEST(RequesterRetry, RetransmissionFromADeregisteredRegionFails) {
  Rig rig;
  const auto region = rig.add_region(0, 64, 0);
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = region.key}}};
  ASSERT_EQ(rig.post({.wr_id = 1, .sg_list = list, .opcode = WrOpcode::send}),
            roce::PostResult::ok);
  EXPECT_EQ(rig.sent().size(), 1u);
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::loc_prot_err)));
}

}  // namespace
}  // namespace rockhopper::test::requester_retry_test
