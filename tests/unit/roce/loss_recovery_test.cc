// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Selective repeat and the adaptive timeout of one engine, packet by packet
// (docs/loss-recovery.md).
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "roce/recovery/selective_repeat.h"
#include "roce/wire/timer_code.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::loss_recovery_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::RecoveryAlgorithm;
using roce::RecoveryConfig;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::NakCode;
using wire::Opcode;
using wire::Psn;

constexpr std::uint32_t kMtu = 256;
constexpr std::uint64_t kUs = 1000;
constexpr std::uint64_t kTickNs = 1024;
constexpr auto kWrite = Opcode::rc_rdma_write_only;
const RecoveryConfig kSelective{.algorithm = RecoveryAlgorithm::selective_repeat};

RecoveryConfig adaptive(std::uint64_t min_ns) {
  return {.adaptive_timeout = true, .timeout = {.min_ns = min_ns}};
}

/// A rig whose queue pair recovers in this way.
struct RecoveryRig : Rig {
  explicit RecoveryRig(const RecoveryConfig& config, ConnectionOptions options = {})
      : Rig(in_reset(options)) {
    EXPECT_TRUE(qp().set_loss_recovery(config).has_value());
    options.state = QpState::rts;
    bring_up(qp(), options);
  }
  static ConnectionOptions in_reset(ConnectionOptions options) {
    options.state = QpState::reset;
    return options;
  }
};

Packet write_only(Rig& rig, std::uint32_t psn, std::size_t at = 0, std::uint8_t seed = 1) {
  return write_packet(kWrite, psn, {.va = rig.va(at), .rkey = rig.rkey(), .length = 4},
                      pattern(4, seed));
}

/// `held`: PSNs behind `missing`.
Packet selective_ack(std::uint32_t missing, std::initializer_list<std::uint32_t> held) {
  Packet result = packet(Opcode::selective_acknowledge, missing, {}, false);
  result.headers.aeth = wire::Aeth::ack(wire::kCreditCodeUnlimited, 0);
  result.headers.saeth = {};
  for (const std::uint32_t psn : held) {
    result.headers.saeth.set((psn - missing - 1) & wire::kMask24);
  }
  return result;
}

MATCHER_P2(IsSelectiveAck, missing, held, "") {
  return arg.opcode() == Opcode::selective_acknowledge && arg.psn() == missing &&
         arg.headers.aeth.kind() == wire::AethKind::ack &&
         arg.headers.saeth == selective_ack(missing, held).headers.saeth;
}
using Psns = std::initializer_list<std::uint32_t>;

void post_writes(Rig& rig, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    rig.post_send(i + 1, WrOpcode::rdma_write, 8);
  }
  ASSERT_THAT(rig.sent(), SizeIs(count));
}

// The choice.

TEST(LossRecoveryChoice, IsMadeBeforeTheQueuePairReceives) {
  Rig rig({.state = QpState::reset});
  EXPECT_EQ(rig.qp().loss_recovery().algorithm, RecoveryAlgorithm::go_back_n);
  EXPECT_TRUE(rig.qp().set_loss_recovery(kSelective).has_value());
  EXPECT_EQ(rig.qp().loss_recovery().algorithm, RecoveryAlgorithm::selective_repeat);
  rig.bring_up(rig.qp(), {.state = QpState::rtr});
  const auto refused = rig.qp().set_loss_recovery({});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_state);
}

TEST(LossRecoveryChoice, BadParametersAndOtherServicesAreRefused) {
  Rig rig({.state = QpState::reset});
  for (const roce::SelectiveRepeatParameters& bad : {roce::SelectiveRepeatParameters{.window = 0},
                                                     {.window = 257},
                                                     {.reordering = 0},
                                                     {.reordering = 256}}) {
    EXPECT_FALSE(rig.qp()
                     .set_loss_recovery({.algorithm = RecoveryAlgorithm::selective_repeat,
                                         .selective_repeat = bad})
                     .has_value());
  }
  EXPECT_FALSE(rig.qp().set_loss_recovery(adaptive(0)).has_value());
  for (const roce::QpType type : {roce::QpType::uc, roce::QpType::ud}) {
    Rig other({.qp_type = type, .state = QpState::reset});
    EXPECT_FALSE(other.qp().set_loss_recovery(kSelective).has_value());
    EXPECT_FALSE(other.qp().set_loss_recovery(adaptive(1000)).has_value());
    EXPECT_TRUE(other.qp().set_loss_recovery({}).has_value());
  }
}

TEST(LossRecoveryChoice, TellsTheParametersThatAreInUse) {
  Rig rig({.state = QpState::reset});
  ASSERT_TRUE(rig.qp().set_loss_recovery({.algorithm = RecoveryAlgorithm::selective_repeat,
                                          .adaptive_timeout = true,
                                          .selective_repeat = {.window = 7, .reordering = 5},
                                          .timeout = {.min_ns = 12345}}));
  const RecoveryConfig both = rig.qp().loss_recovery();
  EXPECT_EQ(both.algorithm, RecoveryAlgorithm::selective_repeat);
  EXPECT_EQ(both.selective_repeat.window, 7u);
  EXPECT_EQ(both.selective_repeat.reordering, 5u);
  EXPECT_TRUE(both.adaptive_timeout);
  EXPECT_EQ(both.timeout.min_ns, 12345u);
  ASSERT_TRUE(rig.qp().set_loss_recovery(adaptive(12345)));
  const RecoveryConfig timeout = rig.qp().loss_recovery();
  EXPECT_EQ(timeout.algorithm, RecoveryAlgorithm::go_back_n);
  EXPECT_TRUE(timeout.adaptive_timeout);
  EXPECT_EQ(timeout.timeout.min_ns, 12345u);
  ASSERT_TRUE(rig.qp().set_loss_recovery({}));
  EXPECT_FALSE(rig.qp().loss_recovery().adaptive_timeout);
}

TEST(LossRecoveryChoice, WithoutItNoSuchPacketIsServed) {
  Rig rig;
  const ConnectionOptions options;
  post_writes(rig, 3);
  rig.inject(selective_ack(options.sq_psn, {options.sq_psn + 1}));
  EXPECT_EQ(rig.drops(DropReason::bad_service), 1u);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

// The responder.

TEST(SelectiveResponder, HoldsWhatComesEarlyAndTellsOfIt) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  rig.inject(write_only(rig, psn));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(psn, 1u)));
  rig.inject(write_only(rig, psn + 2, 8));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSelectiveAck(psn + 1, Psns{psn + 2})));
  rig.inject(write_only(rig, psn + 5, 16));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSelectiveAck(psn + 1, Psns{psn + 2, psn + 5})));
  EXPECT_EQ(rig.counters().rx_write_requests.value(), 1u) << "in order only";
  EXPECT_EQ(rig.counters().held_requests.value(), 2u);
  EXPECT_EQ(rig.counters().send_seq_err.value(), 0u);
  EXPECT_TRUE(rig.untouched_outside(0, 4));
  rig.inject(write_only(rig, psn + 1, 24));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSelectiveAck(psn + 3, Psns{psn + 5})));
  EXPECT_EQ(rig.memory_at(8, 4), pattern(4));
  rig.inject(write_only(rig, psn + 3, 32));
  rig.inject(write_only(rig, psn + 4, 40));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(psn + 5, 6u)));
  EXPECT_EQ(rig.counters().rx_write_requests.value(), 6u);
}

TEST(SelectiveResponder, MessagesOfSeveralPacketsComeTogetherInAnyOrder) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  rig.post_recv(7, 4 * kMtu);
  const Payload whole = pattern(3 * kMtu);
  const auto part = [&](std::size_t i) {
    return Payload(whole.begin() + static_cast<std::ptrdiff_t>(i * kMtu),
                   whole.begin() + static_cast<std::ptrdiff_t>((i + 1) * kMtu));
  };
  rig.inject(packet(Opcode::rc_send_last, psn + 2, part(2)));
  rig.inject(packet(Opcode::rc_send_middle, psn + 1, part(1), false));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  rig.inject(packet(Opcode::rc_send_first, psn, part(0), false));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(7u, 3 * kMtu)));
  EXPECT_EQ(rig.memory_at(0, 3 * kMtu), whole);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(psn + 2, 1u)));
}

TEST(SelectiveResponder, ARepeatedEarlyPacketIsToldOfAgainAndExecutedOnce) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  for (int i = 0; i < 3; ++i) {
    rig.inject(fetch_add(psn + 1, rig.va(64), rig.rkey(), 5));
    EXPECT_THAT(rig.sent(), ElementsAre(IsSelectiveAck(psn, Psns{psn + 1})));
  }
  EXPECT_EQ(rig.counters().duplicate_request.value(), 2u);
  rig.inject(write_only(rig, psn));
  EXPECT_EQ(rig.counters().rx_atomic_requests.value(), 1u);
  ASSERT_THAT(rig.sent(), SizeIs(1)) << "its response acknowledges both";
}

TEST(SelectiveResponder, TheWindowEndsAt256AndIsSaidSoByANak) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  rig.inject(write_only(rig, psn + 256));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSelectiveAck(psn, Psns{psn + 256})));
  rig.inject(write_only(rig, psn + 257));
  EXPECT_EQ(rig.counters().held_pkts_no_room.value(), 1u);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(psn, NakCode::psn_sequence_error),
                                      IsSelectiveAck(psn, Psns{psn + 256})));
  EXPECT_EQ(rig.drops(DropReason::out_of_seq_request), 1u);
}

TEST(SelectiveResponder, TheWindowGoesOnOverTheWrap) {
  RecoveryRig rig(kSelective, {.rq_psn = 0xfffffe});
  rig.inject(write_only(rig, 0xffffff, 8));
  rig.inject(write_only(rig, 1, 16));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSelectiveAck(0xfffffeu, Psns{0xffffff, 1})));
  rig.inject(write_only(rig, 0xfffffe));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSelectiveAck(0u, Psns{1})));
  rig.inject(write_only(rig, 0, 24));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(1u, 4u)));
}

TEST(SelectiveResponder, RnrNakAndWhatIsHeldBehindIt) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  rig.inject(write_only(rig, psn + 1));
  (void)rig.sent();
  rig.inject(packet(Opcode::rc_send_only, psn, pattern(4)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(psn, 12), IsSelectiveAck(psn, Psns{psn + 1})));
  rig.post_recv(1, 4, 128);
  rig.inject(packet(Opcode::rc_send_only, psn, pattern(4)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 4u)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(psn + 1, 2u)));
}

TEST(SelectiveResponder, AHeldMessageWithoutAReceiveDrawsAnRnrNakInItsTurn) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  rig.inject(packet(Opcode::rc_send_only, psn + 1, pattern(4)));
  rig.inject(write_only(rig, psn + 2, 8));
  (void)rig.sent();
  rig.inject(write_only(rig, psn));
  EXPECT_THAT(rig.sent(),
              ElementsAre(IsRnrNak(psn + 1, 12), IsSelectiveAck(psn + 1, Psns{psn + 2})));
}

TEST(SelectiveResponder, AReadBetweenHeldPackets) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  rig.inject(write_only(rig, psn + 3, 8));
  (void)rig.sent();
  rig.inject(read_request(psn, {.va = rig.va(1024), .rkey = rig.rkey(), .length = 3 * kMtu}));
  const auto sent = rig.sent();
  ASSERT_THAT(sent, SizeIs(4));
  EXPECT_THAT(sent[2], IsPacket(Opcode::rc_rdma_read_response_last, psn + 2));
  EXPECT_THAT(sent[3], IsAck(psn + 3, 2u));
  EXPECT_EQ(rig.memory_at(8, 4), pattern(4));
}

/// A peer that does not keep to PSNs: what a READ's responses will take.
TEST(SelectiveResponder, AHeldPacketWithAPsnThatAReadTakesIsForgotten) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.rq_psn;
  rig.inject(write_only(rig, psn + 1, 8));
  rig.inject(read_request(psn, {.va = rig.va(1024), .rkey = rig.rkey(), .length = 3 * kMtu}));
  (void)rig.sent();
  rig.inject(write_only(rig, psn + 3, 16));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(psn + 3, 2u)));
  EXPECT_TRUE(rig.untouched_outside(16, 4));
}

TEST(SelectiveResponder, AnEngineHoldsNoMoreThanItMay) {
  ConnectionOptions options;
  RecoveryRig rig(kSelective, options);
  const std::uint32_t psn = options.rq_psn;
  constexpr std::uint32_t kLimit = 1024;  // EngineConfig::max_held_packets
  const auto make_selective = [&]() -> roce::QueuePair& {
    ConnectionOptions reset = options;
    reset.state = QpState::reset;
    roce::QueuePair& qp = rig.make_qp(reset);
    EXPECT_TRUE(qp.set_loss_recovery(kSelective).has_value());
    rig.bring_up(qp, options);
    return qp;
  };
  const auto try_to_hold = [&](const roce::QueuePair& qp) {
    const auto before = rig.counters().held_requests.value();
    for (std::uint32_t distance = 1; distance <= 256; ++distance) {
      Packet early = write_only(rig, psn + distance);
      early.headers.bth.destination = qp.number();
      rig.inject(early);
    }
    return static_cast<std::uint32_t>(rig.counters().held_requests.value() - before);
  };
  // Each as much as is then left, so that there is always something for the next one.
  std::uint32_t left = kLimit;
  roce::QueuePair* last = nullptr;
  for (int i = 0; i < 6; ++i) {
    last = &make_selective();
    const std::uint32_t held = try_to_hold(*last);
    EXPECT_EQ(held, std::min(256u, left - left / 2)) << i;
    left -= held;
  }
  EXPECT_GT(left, 0u);
  EXPECT_EQ(rig.counters().held_pkts_no_room.value(), 6 * 256 - (kLimit - left));
  roce::QpAttributes error;
  error.qp_state = QpState::err;
  ASSERT_TRUE(last->modify(error, roce::kQpState).has_value());
  EXPECT_GT(try_to_hold(make_selective()), left - left / 2) << "what a failed one held is free";
}

/// It would be refused in its turn, and who holds it has forgotten why.
TEST(SelectiveResponder, AReservedOpcodeIsNotHeld) {
  const ConnectionOptions options;
  RecoveryRig rig(kSelective, options);
  rig.inject(write_only(rig, options.rq_psn + 1), {.opcode = 0x15});
  EXPECT_EQ(rig.counters().held_requests.value(), 0u);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(options.rq_psn, NakCode::psn_sequence_error)));
}

// The requester.

TEST(SelectiveRequester, SendsOnlyWhatIsMissingAgain) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 8);
  rig.inject(selective_ack(psn + 1, {psn + 2, psn + 3, psn + 5}));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(kWrite, psn + 1)));
  EXPECT_TRUE(sent[0].headers.bth.ack_request);
  rig.inject(selective_ack(psn + 1, {psn + 2, psn + 3, psn + 5, psn + 6, psn + 7}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, psn + 4))) << "and not twice";
  EXPECT_EQ(rig.counters().retransmitted_pkts.value(), 2u);
  rig.inject(ack(psn + 7));
  EXPECT_THAT(rig.send_completions(), SizeIs(7));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(SelectiveRequester, ReorderingBelowTheThresholdCausesNothing) {
  RecoveryRig rig(
      {.algorithm = RecoveryAlgorithm::selective_repeat, .selective_repeat = {.reordering = 4}});
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 8);
  rig.inject(selective_ack(psn, {psn + 1, psn + 2, psn + 3}));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(selective_ack(psn, {psn + 4}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, psn)));
}

TEST(SelectiveRequester, ALostRepetitionIsFoundByWhatWasSentAfterIt) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 4);
  rig.inject(selective_ack(psn, {psn + 1, psn + 2, psn + 3}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, psn)));
  for (std::uint32_t i = 0; i < 3; ++i) {
    rig.post_send(10 + i, WrOpcode::rdma_write, 8);
  }
  EXPECT_THAT(rig.sent(), SizeIs(3));
  rig.inject(selective_ack(psn, {psn + 1, psn + 2, psn + 3, psn + 4, psn + 5}));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(selective_ack(psn, {psn + 1, psn + 2, psn + 3, psn + 4, psn + 5, psn + 6}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, psn)));
}

TEST(SelectiveRequester, TheTimerSendsAgainWhatIsNotHeld) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 4);
  rig.inject(selective_ack(psn, {psn + 2}));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, psn), IsPacket(kWrite, psn + 1),
                                      IsPacket(kWrite, psn + 3)));
  EXPECT_EQ(rig.counters().local_ack_timeout_err.value(), 1u);
}

TEST(SelectiveRequester, ASequenceNakSendsAgainWhatIsNotHeld) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 4);
  rig.inject(selective_ack(psn, {psn + 2}));
  rig.inject(nak(psn + 1, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, psn + 1), IsPacket(kWrite, psn + 3)));
}

TEST(SelectiveRequester, AnRnrNakForAHeldPacketSendsItAgain) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 3);
  rig.inject(selective_ack(psn, {psn + 1, psn + 2}));
  rig.inject(rnr_nak(psn + 1, 12));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(wire::rnr_timer_ns(12) + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(kWrite, psn + 1)));
}

TEST(SelectiveRequester, TheRetryCountIsUsedUpAsEver) {
  RecoveryRig rig(kSelective, {.retry_cnt = 2});
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 4);
  for (int i = 0; i < 3; ++i) {
    rig.inject(selective_ack(psn, {psn + 1, psn + 2, psn + 3}));
    rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
    (void)rig.sent();
  }
  EXPECT_EQ(rig.qp().state(), QpState::err);
  const auto completions = rig.send_completions();
  ASSERT_THAT(completions, SizeIs(4));
  EXPECT_EQ(completions[0].status, WcStatus::retry_exc_err);
}

TEST(SelectiveRequester, HostileSelectiveAcksAreCountedAndHarmless) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  post_writes(rig, 4);
  rig.inject(selective_ack(psn + 1, {psn + 4}));  // never sent
  rig.inject(selective_ack(psn, {psn + 256}));
  rig.inject(selective_ack(psn, {}));
  Packet nak_kind = selective_ack(psn, {psn + 1});
  nak_kind.headers.aeth = wire::Aeth::nak(NakCode::psn_sequence_error, 0);
  rig.inject(nak_kind);
  EXPECT_EQ(rig.drops(DropReason::bad_selective_ack), 4u);
  rig.inject(selective_ack(psn + 4, {psn + 5}));
  rig.inject(selective_ack(psn + 1000, {psn + 1001}));
  rig.inject(selective_ack(psn - 5, {psn - 4}));
  EXPECT_EQ(rig.drops(DropReason::ghost_acknowledge), 3u);
  rig.inject(selective_ack(psn, {psn + 1}), {.icrc = true});
  rig.inject(selective_ack(psn, {psn + 1}), {.extra_bytes = -4});
  rig.inject(selective_ack(psn, {psn + 1}), {.extra_bytes = 4});
  EXPECT_EQ(rig.counters().rcvd_selective_ack.value(), 0u);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

TEST(SelectiveRequester, ResponsesThatOvertakeOthersAreKept) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  rig.post_send(1, WrOpcode::rdma_read, 3 * kMtu);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  ASSERT_THAT(rig.sent(), SizeIs(2));
  const Payload whole = pattern(3 * kMtu, 9);
  const auto part = [&](std::size_t i) {
    return Payload(whole.begin() + static_cast<std::ptrdiff_t>(i * kMtu),
                   whole.begin() + static_cast<std::ptrdiff_t>((i + 1) * kMtu));
  };
  rig.inject(read_response(Opcode::rc_rdma_read_response_last, psn + 2, part(2)));
  rig.inject(read_response(Opcode::rc_rdma_read_response_middle, psn + 1, part(1)));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counters().held_responses.value(), 2u);
  rig.inject(read_response(Opcode::rc_rdma_read_response_first, psn, part(0)));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  EXPECT_EQ(rig.memory_at(0, 3 * kMtu), whole);
  rig.inject(ack(psn + 3));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(2u, WcStatus::success)));
}

TEST(SelectiveRequester, ReadsStayWithinWhatCanBeHeld) {
  RecoveryRig rig(kSelective);
  for (std::uint32_t i = 0; i < 3; ++i) {
    rig.post_send(i + 1, WrOpcode::rdma_read, 100 * kMtu);
  }
  EXPECT_THAT(rig.sent(), SizeIs(2)) << "a third one's last responses would not be";
}

TEST(SelectiveRequester, ALostResponseIsAskedForAndNothingElse) {
  RecoveryRig rig(kSelective);
  const std::uint32_t psn = ConnectionOptions{}.sq_psn;
  rig.post_send(1, WrOpcode::rdma_read, 8);
  rig.post_send(2, WrOpcode::rdma_read, 8);
  rig.post_send(3, WrOpcode::rdma_write, 8);
  ASSERT_THAT(rig.sent(), SizeIs(3));
  rig.inject(ack(psn + 2));
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, psn + 1, pattern(8)));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(ack(psn + 2));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_request, psn)));
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, psn, pattern(8)));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
}

TEST(SelectiveRequester, ResetForgetsWhatIsHeld) {
  RecoveryRig rig(kSelective);
  const ConnectionOptions options;
  rig.inject(write_only(rig, options.rq_psn + 1));
  (void)rig.sent();
  roce::QpAttributes reset;
  reset.qp_state = QpState::reset;
  ASSERT_TRUE(rig.qp().modify(reset, roce::kQpState).has_value());
  rig.bring_up(rig.qp(), options);
  EXPECT_EQ(rig.qp().loss_recovery().algorithm, RecoveryAlgorithm::selective_repeat);
  rig.inject(write_only(rig, options.rq_psn, 8));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(options.rq_psn, 1u)));
  EXPECT_TRUE(rig.untouched_outside(8, 4));
}

// The adaptive timeout.

TEST(RetransmissionTimeoutRfc6298, FollowsRoundTripsWithinItsLimits) {
  constexpr std::uint64_t kLimit = 4'000 * kUs;
  roce::RetransmissionTimeout timeout({.min_ns = 50 * kUs});
  EXPECT_EQ(timeout.value_ns(kLimit), kLimit) << "before there is a sample";
  std::uint64_t now_ns = 1'000'000;
  const auto sample = [&](std::uint32_t psn, std::uint64_t rtt_ns) {
    timeout.on_sent(Psn{psn}, false, now_ns);
    now_ns += rtt_ns;
    timeout.on_acknowledged(Psn{psn}, now_ns);
  };
  sample(1, 100 * kUs);
  EXPECT_EQ(timeout.smoothed_rtt_ns(), 100 * kUs);
  EXPECT_EQ(timeout.rtt_variation_ns(), 50 * kUs);
  EXPECT_EQ(timeout.value_ns(kLimit), 300 * kUs);
  sample(2, 180 * kUs);
  EXPECT_EQ(timeout.smoothed_rtt_ns(), 110 * kUs);
  EXPECT_EQ(timeout.rtt_variation_ns(), 57'500u);
  EXPECT_EQ(timeout.value_ns(200 * kUs), 200 * kUs) << "the queue pair's own";
  for (std::uint32_t i = 3; i < 100; ++i) {
    sample(i, 5 * kUs);
  }
  EXPECT_EQ(timeout.value_ns(kLimit), 50 * kUs) << "the least";
}

TEST(RetransmissionTimeoutRfc6298, KarnARepeatedPacketGivesNoSample) {
  roce::RetransmissionTimeout timeout({});
  timeout.on_sent(Psn{7}, false, 1000);
  timeout.on_sent(Psn{7}, true, 900'000);
  timeout.on_acknowledged(Psn{7}, 901'000);
  EXPECT_EQ(timeout.smoothed_rtt_ns(), 0u);
}

/// RFC 6298, section 5: the doubled time stays until a packet was answered before it was repeated.
TEST(RetransmissionTimeoutRfc6298, ALongerRoundTripIsLearned) {
  constexpr std::uint64_t kLimit = 4'000'000 * kUs;
  roce::RetransmissionTimeout timeout({.min_ns = 250 * kUs});
  std::uint64_t now_ns = 1'000'000;
  std::uint32_t psn = 0;
  std::uint32_t expired = 0;
  for (const std::uint64_t rtt_ns : {50 * kUs, 400 * kUs, 2'000 * kUs}) {
    for (int i = 0; i < 50; ++i) {
      ++psn;
      timeout.on_sent(Psn{psn}, false, now_ns);
      const std::uint64_t answered_ns = now_ns + rtt_ns;
      expired = 0;
      while (now_ns + timeout.value_ns(kLimit) < answered_ns) {
        now_ns += timeout.value_ns(kLimit);
        (void)timeout.on_expired(kLimit);
        timeout.on_sent(Psn{psn}, true, now_ns);
        ++expired;
      }
      now_ns = answered_ns;
      timeout.on_acknowledged(Psn{psn}, now_ns);
    }
    EXPECT_EQ(expired, 0u) << rtt_ns;
  }
}

TEST(AdaptiveTimeout, ExpiresEarlyBacksOffAndCountsRetriesAtTheLimit) {
  // 4.19 ms; round trips of 200 us: first 600 us, then 1.2, 2.4, 4.19, 4.19 ...
  RecoveryRig rig(adaptive(50 * kUs), {.timeout = 10, .retry_cnt = 1});
  const std::uint64_t limit_ns = wire::local_ack_timeout_ns(10);
  rig.post_send(1, WrOpcode::rdma_write, 8);
  ASSERT_THAT(rig.sent(), SizeIs(1));
  rig.advance(200 * kUs);
  rig.inject(ack(ConnectionOptions{}.sq_psn));
  rig.post_send(2, WrOpcode::rdma_write, 8);
  ASSERT_THAT(rig.sent(), SizeIs(1));
  for (const std::uint64_t wait_ns : {600 * kUs, 1200 * kUs, 2400 * kUs, limit_ns}) {
    rig.advance(wait_ns - 1);
    EXPECT_THAT(rig.sent(), IsEmpty()) << wait_ns;
    rig.advance(1 + kTickNs);
    EXPECT_THAT(rig.sent(), SizeIs(1)) << wait_ns;
  }
  EXPECT_EQ(rig.qp().state(), QpState::rts) << "one retry has been used";
  rig.advance(limit_ns + kTickNs);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::err);
}

TEST(AdaptiveTimeout, ATimeoutThatNeverExpiresStaysSo) {
  RecoveryRig rig(adaptive(50 * kUs), {.timeout = 0});
  rig.post_send(1, WrOpcode::rdma_write, 8);
  ASSERT_THAT(rig.sent(), SizeIs(1));
  rig.advance(100 * kUs);
  rig.inject(ack(ConnectionOptions{}.sq_psn));
  rig.post_send(2, WrOpcode::rdma_write, 8);
  ASSERT_THAT(rig.sent(), SizeIs(1));
  rig.advance(3'600'000'000'000);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

}  // namespace
}  // namespace rockhopper::test::loss_recovery_test
