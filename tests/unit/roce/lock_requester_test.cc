// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks at the initiator: what leaves, what comes of the answers, what may be posted.
#include "roce/lock/request.h"
#include "roce/lock/scope_builder.h"
#include "roce/wire/timer_code.h"
#include "tests/unit/roce/lock_rig.h"

namespace rockhopper::test::lock_requester_test {
namespace {

using roce::PostResult;
using roce::QpState;
using roce::SendWr;
using roce::WcStatus;
using roce::WrOpcode;
using roce::lock::Mode;
using roce::lock::Request;
using roce::lock::ScopeBuilder;
using roce::lock::ScopeResult;
using roce::lock::Word;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using wire::Lketh;
using wire::LockCause;
using wire::LockStatus;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x001000;
constexpr std::uint64_t kTickNs = 1024;
constexpr std::uint64_t kWordAt = 0x7000;
constexpr roce::MemoryKey kFarKey{0x77};

ConnectionOptions with_locks() {
  ConnectionOptions options = LockRig::with_locks();
  options.sq_sig_all = false;
  return options;
}

/// A scope of a WRITE of three packets, a READ of two, and a WRITE of one.
struct Scope {
  explicit Scope(Rig& rig) {
    result.accesses = accesses;
    EXPECT_TRUE(
        builder.write({.addr = rig.va(), .length = 600, .lkey = rig.key()}, 0x100, kFarKey));
    EXPECT_TRUE(
        builder.read({.addr = rig.va(1024), .length = 300, .lkey = rig.key()}, 0x200, kFarKey));
    EXPECT_TRUE(
        builder.write({.addr = rig.va(2048), .length = 8, .lkey = rig.key()}, 0x300, kFarKey));
  }

  ScopeBuilder builder{{.addr = kWordAt, .rkey = kFarKey}};
  std::array<WcStatus, 3> accesses{};
  ScopeResult result;
};

const auto all_of_it = [](std::uint32_t psn) {
  return ElementsAre(
      IsPacket(Opcode::lock_request, psn), IsPacket(Opcode::rc_rdma_write_first, psn + 1),
      IsPacket(Opcode::rc_rdma_write_middle, psn + 2),
      IsPacket(Opcode::rc_rdma_write_last, psn + 3),
      IsPacket(Opcode::rc_rdma_read_request, psn + 4),
      IsPacket(Opcode::rc_rdma_write_only, psn + 6), IsPacket(Opcode::lock_request, psn + 7));
};

/// LK-1, LK-2, LK-3, LK-11: in one turn, before any answer.
TEST(LockRequester, AllOfAScopeLeavesBeforeAnyAnswer) {
  Rig rig(with_locks());
  Scope scope(rig);
  scope.builder.tries(9).wait_us(1234).owner(0x4321).lease_us(555);
  ASSERT_EQ(scope.builder.post(rig.qp(), 42, &scope.result), PostResult::ok);
  const auto sent = rig.sent_in_turn();
  ASSERT_THAT(sent, all_of_it(kPsn));
  const Lketh& acquire = sent.front().headers.lketh;
  EXPECT_EQ(acquire.subtype, Lketh::kAcquireExclusive);
  EXPECT_EQ(acquire.flags, Lketh::kStoreForward | Lketh::kFifo);
  EXPECT_EQ(acquire.rkey, 0x77u);
  EXPECT_EQ(acquire.va, kWordAt);
  EXPECT_EQ(acquire.max_tries, 9u);
  EXPECT_EQ(acquire.wait_us, 1234u);
  EXPECT_EQ(acquire.owner, 0x4321u);
  EXPECT_EQ(acquire.lease_us, 555u);
  EXPECT_EQ(acquire.timeout, 10u);
  EXPECT_EQ(acquire.scope_psns, 7u);
  const Lketh& release = sent.back().headers.lketh;
  EXPECT_EQ(release.subtype, Lketh::kRelease);
  EXPECT_EQ(release.scope_id, acquire.scope_id);
  EXPECT_EQ(release.va, kWordAt);
  EXPECT_TRUE(sent.front().payload.empty());
  EXPECT_EQ(scope.builder.psns(), 7u);
  EXPECT_TRUE(scope.builder.stores_and_forwards());
  // The next one has an id of its own.
  ASSERT_EQ(scope.builder.post(rig.qp(), 43, &scope.result), PostResult::ok);
  EXPECT_NE(rig.sent().front().headers.lketh.scope_id, acquire.scope_id);
}

void post_and_send(Rig& rig, Scope& scope) {
  ASSERT_EQ(scope.builder.post(rig.qp(), 42, &scope.result), PostResult::ok);
  ASSERT_THAT(rig.sent(), all_of_it(kPsn));
}

void answer_read(Rig& rig) {
  rig.inject(read_response(Opcode::rc_rdma_read_response_first, kPsn + 4, pattern(256)));
  rig.inject(read_response(Opcode::rc_rdma_read_response_last, kPsn + 5, pattern(44)));
}

TEST(LockRequester, AScopeThatIsExecuted) {
  Rig rig(with_locks());
  Scope scope(rig);
  post_and_send(rig, scope);
  rig.inject(lock_answer(kPsn, LockStatus::granted, LockCause::none, 77, 0x1234));
  answer_read(rig);
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  rig.inject(lock_answer(kPsn + 7, LockStatus::released, LockCause::none, 77));
  const auto done = rig.send_completions();
  ASSERT_THAT(done, ElementsAre(Completed(42u, WcStatus::success)));
  EXPECT_EQ(done[0].opcode, roce::WcOpcode::lock_release);
  EXPECT_EQ(scope.result.status, WcStatus::success);
  EXPECT_EQ(scope.result.cause, LockCause::none);
  EXPECT_EQ(scope.result.token, 77u);
  EXPECT_EQ(scope.result.previous_word, 0x1234u);
  EXPECT_THAT(scope.accesses, testing::Each(WcStatus::success));
  EXPECT_EQ(rig.memory_at(1024, 256), pattern(256));
  EXPECT_EQ(rig.qp().send_queue_depth(), 0u);
}

/// LK-8, LK-20: what is behind a lock that was not granted completes as flushed, and the queue pair
/// goes on.
TEST(LockRequester, AScopeThatIsNotGranted) {
  Rig rig(with_locks());
  Scope scope(rig);
  post_and_send(rig, scope);
  rig.inject(lock_answer(kPsn, LockStatus::failed, LockCause::tries, 5, 0x99));
  rig.inject(lock_answer(kPsn + 4, LockStatus::flushed));
  rig.inject(lock_answer(kPsn + 7, LockStatus::flushed));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(42u, WcStatus::lock_failed)));
  EXPECT_EQ(scope.result.status, WcStatus::lock_failed);
  EXPECT_EQ(scope.result.cause, LockCause::tries);
  EXPECT_EQ(scope.result.looks, 5u);
  EXPECT_EQ(scope.result.previous_word, 0x99u);
  EXPECT_EQ(scope.result.token, 0u);
  EXPECT_THAT(scope.accesses, testing::Each(WcStatus::lock_flushed));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  rig.post_send(50, WrOpcode::rdma_write, 8, 0, roce::kSendSignaled);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kPsn + 8)));
  rig.inject(ack(kPsn + 8));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(50u, WcStatus::success)));
}

/// Each request's own completion, where all are asked for.
TEST(LockRequester, CompletionsOfAllRequestsOfAFailedScope) {
  ConnectionOptions options = with_locks();
  options.sq_sig_all = true;
  Rig rig(options);
  Scope scope(rig);
  post_and_send(rig, scope);
  rig.inject(lock_answer(kPsn, LockStatus::failed, LockCause::wait));
  rig.inject(ack(kPsn + 3));
  rig.inject(lock_answer(kPsn + 4, LockStatus::flushed));
  rig.inject(lock_answer(kPsn + 7, LockStatus::flushed));
  EXPECT_THAT(
      rig.send_completions(),
      ElementsAre(Completed(42u, WcStatus::lock_failed), Completed(0u, WcStatus::lock_flushed),
                  Completed(0u, WcStatus::lock_flushed), Completed(0u, WcStatus::lock_flushed),
                  Completed(42u, WcStatus::lock_failed)));
}

/// LK-29: the lease has ended before the release: what was executed is not known.
TEST(LockRequester, AScopeThatIsLost) {
  Rig rig(with_locks());
  Scope scope(rig);
  post_and_send(rig, scope);
  rig.inject(lock_answer(kPsn, LockStatus::granted, LockCause::none, 77));
  rig.inject(lock_answer(kPsn + 4, LockStatus::flushed));
  rig.inject(lock_answer(kPsn + 7, LockStatus::failed, LockCause::expired));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(42u, WcStatus::lock_failed)));
  EXPECT_EQ(scope.result.cause, LockCause::expired);
  EXPECT_THAT(scope.accesses, ElementsAre(WcStatus::outcome_unknown, WcStatus::lock_flushed,
                                          WcStatus::lock_flushed));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

/// `accesses` may be short, and the result may be nobody's.
TEST(LockRequester, AResultThatIsNotAskedFor) {
  for (const bool none : {true, false}) {
    Rig rig(with_locks());
    Scope scope(rig);
    std::array<WcStatus, 3> accesses{WcStatus::fatal_err, WcStatus::fatal_err, WcStatus::fatal_err};
    scope.result.accesses = std::span(accesses).first(1);
    ASSERT_EQ(scope.builder.post(rig.qp(), 42, none ? nullptr : &scope.result), PostResult::ok);
    (void)rig.sent();
    rig.inject(lock_answer(kPsn, LockStatus::granted));
    answer_read(rig);
    rig.inject(lock_answer(kPsn + 7, LockStatus::failed, LockCause::not_owner));
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(42u, WcStatus::lock_failed)));
    EXPECT_THAT(accesses, ElementsAre(none ? WcStatus::fatal_err : WcStatus::outcome_unknown,
                                      WcStatus::fatal_err, WcStatus::fatal_err));
  }
}

/// LK-15: as long as the target gives signs of life nothing is sent again, and no retry is used.
TEST(LockRequester, SignsOfLifeRestartTheTimer) {
  ConnectionOptions options = with_locks();
  options.retry_cnt = 1;
  Rig rig(options);
  Scope scope(rig);
  post_and_send(rig, scope);
  const std::uint64_t timeout_ns = wire::local_ack_timeout_ns(10);
  for (int i = 0; i < 20; ++i) {
    rig.advance(timeout_ns - 2 * kTickNs);
    rig.inject(lock_answer(kPsn, LockStatus::waiting));
    ASSERT_THAT(rig.sent(), IsEmpty());
  }
  for (int i = 0; i < 3; ++i) {
    rig.advance(timeout_ns + kTickNs);
    ASSERT_THAT(rig.sent(), all_of_it(kPsn)) << "without them";
    rig.inject(lock_answer(kPsn, LockStatus::waiting));  // gives the retry back
  }
  EXPECT_EQ(rig.counters().local_ack_timeout_err.value(), 3u);
  EXPECT_THAT(rig.send_completions(), IsEmpty());
}

/// A sign of life acknowledges what came before; one that is late means nothing.
TEST(LockRequester, ASignOfLifeAcknowledgesWhatCameBefore) {
  Rig rig(with_locks());
  rig.post_send(1, WrOpcode::rdma_write, 8, 0, roce::kSendSignaled);
  Scope scope(rig);
  ASSERT_EQ(scope.builder.post(rig.qp(), 42, &scope.result), PostResult::ok);
  EXPECT_EQ(rig.sent().size(), 8u);
  rig.inject(lock_answer(kPsn + 1, LockStatus::waiting));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  rig.inject(lock_answer(kPsn + 1, LockStatus::granted));
  rig.inject(lock_answer(kPsn + 1, LockStatus::waiting));
  rig.inject(lock_answer(kPsn + 1, LockStatus::failed, LockCause::tries));
  EXPECT_EQ(scope.result.status, WcStatus::success);
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

/// LK-22: an answer that was lost is asked for again, with the whole scope in one turn: not cut in
/// two by the window, nor by what may be outstanding after a loss.
TEST(LockRequester, ALostAnswerIsAskedForWithAllOfTheScope) {
  for (const bool by_timeout : {true, false}) {
    Rig rig(with_locks(), 2);
    Scope scope(rig);
    ASSERT_EQ(scope.builder.post(rig.qp(), 42, &scope.result), PostResult::ok);
    ASSERT_THAT(rig.sent_in_turn(), all_of_it(kPsn));
    if (by_timeout) {
      rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
    } else {
      rig.inject(lock_answer(kPsn + 7, LockStatus::released, LockCause::none, 77));
    }
    ASSERT_THAT(rig.sent_in_turn(), all_of_it(kPsn));
    rig.inject(lock_answer(kPsn, LockStatus::granted, LockCause::none, 77));
    answer_read(rig);
    rig.inject(lock_answer(kPsn + 7, LockStatus::released, LockCause::none, 77));
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(42u, WcStatus::success)));
    EXPECT_THAT(rig.sent(), IsEmpty());
  }
}

/// Only what has not been answered is sent again.
TEST(LockRequester, ALostReleaseIsSentAlone) {
  Rig rig(with_locks());
  Scope scope(rig);
  post_and_send(rig, scope);
  rig.inject(lock_answer(kPsn, LockStatus::granted));
  answer_read(rig);
  rig.inject(nak(kPsn + 7, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::lock_request, kPsn + 7)));
}

/// LK-16: after the target's RNR timer.
TEST(LockRequester, AnRnrNakIsWaitedForAndAllOfItIsSentAgain) {
  Rig rig(with_locks());
  Scope scope(rig);
  scope.builder.resend(true);
  ASSERT_EQ(scope.builder.post(rig.qp(), 42, &scope.result), PostResult::ok);
  EXPECT_NE(rig.sent().front().headers.lketh.flags & Lketh::kResend, 0);
  for (int i = 0; i < 5; ++i) {
    rig.inject(rnr_nak(kPsn, 14));
    rig.advance(wire::rnr_timer_ns(14) - 1);
    ASSERT_THAT(rig.sent(), IsEmpty());
    rig.advance(1 + kTickNs);
    ASSERT_THAT(rig.sent(), all_of_it(kPsn));
  }
}

/// Answers that the request at that PSN cannot have.
TEST(LockRequester, AnAnswerThatDoesNotFitFailsTheQueuePair) {
  struct Case {
    std::uint32_t at;  ///< answered as they should be up to here
    Packet answer;
  };
  const auto lock = [](std::uint32_t at, LockStatus status) {
    return Case{at, lock_answer(kPsn + at, status)};
  };
  for (const Case& one : {
           lock(0, LockStatus::released),
           lock(0, LockStatus::flushed),
           lock(0, LockStatus::canceled),
           lock(0, LockStatus{0}),
           lock(0, LockStatus{7}),
           Case{0, read_response(Opcode::rc_rdma_read_response_only, kPsn, {})},
           Case{0, atomic_response(kPsn, 1)},
           lock(4, LockStatus::granted),
           lock(4, LockStatus::released),
           lock(4, LockStatus::failed),
           Case{4, lock_answer(kPsn + 5, LockStatus::flushed)},
           lock(7, LockStatus::granted),
           lock(7, LockStatus::canceled),
           Case{7, read_response(Opcode::rc_rdma_read_response_only, kPsn + 7, {})},
       }) {
    Rig rig(with_locks());
    Scope scope(rig);
    post_and_send(rig, scope);
    if (one.at > 0) rig.inject(lock_answer(kPsn, LockStatus::granted));
    if (one.at == 4 && one.answer.psn() == kPsn + 5) {
      // In the middle of a READ that has begun.
      rig.inject(read_response(Opcode::rc_rdma_read_response_first, kPsn + 4, pattern(256)));
    }
    if (one.at > 4) answer_read(rig);
    EXPECT_EQ(rig.qp().state(), QpState::rts);
    rig.inject(one.answer);
    EXPECT_EQ(rig.qp().state(), QpState::err)
        << one.at << " " << static_cast<int>(one.answer.headers.lkaeth.status);
    const auto done = rig.send_completions();
    ASSERT_FALSE(done.empty());
    EXPECT_EQ(done.front().status, WcStatus::bad_resp_err);
    EXPECT_EQ(done.back().wr_id, 42u);
  }
}

/// A READ that is no part of a scope is not flushed.
TEST(LockRequester, OnlyWhatBelongsToAScopeIsFlushed) {
  Rig rig(with_locks());
  rig.post_send(1, WrOpcode::rdma_read, 8);
  (void)rig.sent();
  rig.inject(lock_answer(kPsn, LockStatus::flushed));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::bad_resp_err)));
}

// Locks that are held by themselves (LK-33), and what may be posted.

struct Plain {
  explicit Plain(Rig& its_rig) : rig(its_rig) {}

  SendWr wr(WrOpcode opcode) {
    SendWr one;
    one.wr_id = 9;
    one.opcode = opcode;
    one.send_flags = roce::kSendSignaled;
    one.remote_addr = kWordAt;
    one.rkey = kFarKey;
    one.lock = &request;
    return one;
  }
  PostResult post(WrOpcode opcode) { return rig.post(wr(opcode)); }
  PostResult post_other(WrOpcode opcode, std::uint32_t flags = 0) {
    const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
    return rig.post({.wr_id = 1,
                     .sg_list = list,
                     .opcode = opcode,
                     .send_flags = flags,
                     .remote_addr = 0x100000,
                     .rkey = kFarKey});
  }

  Rig& rig;
  ScopeResult result;
  Request request{.result = &result};
};

TEST(LockRequester, AcquireReleaseAndCancelByThemselves) {
  Rig rig(with_locks());
  Plain plain(rig);
  plain.request.mode = Mode::shared;
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  ASSERT_EQ(plain.post(WrOpcode::lock_cancel), PostResult::ok);
  auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].headers.lketh.subtype, Lketh::kAcquireShared);
  EXPECT_EQ(sent[0].headers.lketh.scope_psns, 0u);
  EXPECT_EQ(sent[1].headers.lketh.subtype, Lketh::kCancel);
  EXPECT_EQ(sent[1].headers.lketh.scope_id, sent[0].headers.lketh.scope_id);
  rig.inject(lock_answer(kPsn, LockStatus::granted, LockCause::none, 5));
  rig.inject(lock_answer(kPsn + 1, LockStatus::failed, LockCause::too_late));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(9u, WcStatus::success), Completed(9u, WcStatus::lock_failed)));
  EXPECT_EQ(plain.result.status, WcStatus::success);
  EXPECT_EQ(plain.result.token, 5u);
  ASSERT_EQ(plain.post_other(WrOpcode::rdma_write), PostResult::ok);
  ASSERT_EQ(plain.post(WrOpcode::lock_release), PostResult::ok);
  sent = rig.sent();
  ASSERT_EQ(sent.size(), 2u);
  rig.inject(lock_answer(kPsn + 3, LockStatus::released));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(9u, WcStatus::success)));
}

TEST(LockRequester, ACancelInTime) {
  Rig rig(with_locks());
  Plain plain(rig);
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  ASSERT_EQ(plain.post(WrOpcode::lock_cancel), PostResult::ok);
  (void)rig.sent();
  rig.inject(lock_answer(kPsn, LockStatus::failed, LockCause::canceled));
  rig.inject(lock_answer(kPsn + 1, LockStatus::canceled));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(9u, WcStatus::lock_failed), Completed(9u, WcStatus::success)));
  EXPECT_EQ(plain.result.cause, LockCause::canceled);
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok) << "it holds nothing";
}

/// LK-33 after a loss: the cancel of what waits is not held back.
TEST(LockRequester, ACancelLeavesWhileTheAcquireWaits) {
  Rig rig(with_locks());
  Plain plain(rig);
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  (void)rig.sent();
  rig.advance(wire::local_ack_timeout_ns(10) + kTickNs);
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.inject(lock_answer(kPsn, LockStatus::waiting));
  ASSERT_EQ(plain.post(WrOpcode::lock_cancel), PostResult::ok);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::lock_request, kPsn + 1)));
}

/// WIRE-4: none to a peer that is not known to serve them.
TEST(LockPosting, NeedsTheCapability) {
  Rig rig;
  Plain plain(rig);
  for (const WrOpcode opcode :
       {WrOpcode::lock_acquire, WrOpcode::lock_release, WrOpcode::lock_cancel}) {
    EXPECT_EQ(plain.post(opcode), PostResult::invalid_request);
  }
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(LockPosting, WhatARequestMustBe) {
  Rig rig(with_locks());
  Plain plain(rig);
  for (const WrOpcode opcode :
       {WrOpcode::lock_acquire, WrOpcode::lock_release, WrOpcode::lock_cancel}) {
    for (const auto change : std::initializer_list<void (*)(SendWr&)>{
             [](SendWr& wr) { wr.lock = nullptr; }, [](SendWr& wr) { wr.remote_addr += 4; },
             [](SendWr& wr) { wr.send_flags |= roce::kSendInline; }}) {
      SendWr wr = plain.wr(opcode);
      change(wr);
      EXPECT_EQ(rig.post(wr), PostResult::invalid_request);
    }
  }
  std::array<Word, 8> more{};
  plain.request.more = more;
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::invalid_request) << "too many";
  plain.request.more = std::span(more).first(7);
  plain.request.mode = Mode::shared;
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::invalid_request)
      << "the first is shared";
  plain.request.mode = Mode::exclusive;
  more[3].addr = 12;
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::invalid_request);
  more[3].addr = 16;
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
}

/// One lock at a time; what may stand in a scope.
TEST(LockPosting, TheOrderOfRequests) {
  Rig rig(with_locks());
  Plain plain(rig);
  plain.request.scope_psns = 2;
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  for (const WrOpcode opcode :
       {WrOpcode::send, WrOpcode::send_with_imm, WrOpcode::rdma_write_with_imm,
        WrOpcode::send_with_inv, WrOpcode::local_inv}) {
    EXPECT_EQ(plain.post_other(opcode), PostResult::invalid_request) << static_cast<int>(opcode);
  }
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::invalid_request);
  EXPECT_EQ(plain.post(WrOpcode::lock_cancel), PostResult::invalid_request);
  ASSERT_EQ(plain.post_other(WrOpcode::rdma_write), PostResult::ok);
  ASSERT_EQ(plain.post(WrOpcode::lock_release), PostResult::ok);
  // Behind the release it is as before.
  EXPECT_EQ(plain.post_other(WrOpcode::send), PostResult::ok);
  EXPECT_EQ(plain.post(WrOpcode::lock_cancel), PostResult::ok);
  plain.request.scope_psns = 0;
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::invalid_request);
  EXPECT_EQ(plain.post_other(WrOpcode::send), PostResult::ok) << "in a lock held by itself";
}

/// A fence would wait for the answer to the acquire, which may wait for the rest of the scope.
TEST(LockPosting, NoFenceInAScope) {
  Rig rig(with_locks());
  Plain plain(rig);
  plain.request.scope_psns = 2;
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  EXPECT_EQ(plain.post_other(WrOpcode::rdma_write, roce::kSendFence), PostResult::invalid_request);
  SendWr release = plain.wr(WrOpcode::lock_release);
  release.send_flags |= roce::kSendFence;
  EXPECT_EQ(rig.post(release), PostResult::invalid_request);
}

/// An acquire that has failed leaves nothing to release; one that was posted after it does.
TEST(LockPosting, AfterAnAcquireThatHasFailed) {
  Rig rig(with_locks());
  Plain plain(rig);
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  ASSERT_EQ(plain.post(WrOpcode::lock_release), PostResult::ok);
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  (void)rig.sent();
  rig.inject(lock_answer(kPsn, LockStatus::failed, LockCause::tries));
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::invalid_request);
  rig.inject(lock_answer(kPsn + 1, LockStatus::failed, LockCause::not_owner));
  rig.inject(lock_answer(kPsn + 2, LockStatus::failed, LockCause::tries));
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
}

TEST(LockPosting, ResetForgetsIt) {
  Rig rig(with_locks());
  Plain plain(rig);
  ASSERT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
  roce::QpAttributes a;
  a.qp_state = QpState::reset;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState));
  rig.bring_up(rig.qp(), with_locks());
  EXPECT_EQ(plain.post(WrOpcode::lock_acquire), PostResult::ok);
}

/// The connection ends while a scope is under way.
TEST(LockRequester, AScopeIsFlushedWithItsQueuePair) {
  Rig rig(with_locks());
  Scope scope(rig);
  post_and_send(rig, scope);
  rig.inject(nak(kPsn, NakCode::remote_access_error));
  const auto done = rig.send_completions();
  ASSERT_FALSE(done.empty());
  EXPECT_THAT(done.front(), Completed(42u, WcStatus::rem_access_err));
  EXPECT_THAT(done.back(), Completed(42u, WcStatus::wr_flush_err));
  EXPECT_NE(scope.result.status, WcStatus::success);
}

/// LK-32: the words behind the first.
TEST(ScopeBuilder, SaysSeveralWords) {
  Rig rig(with_locks());
  ScopeBuilder builder({.addr = kWordAt, .rkey = kFarKey});
  for (std::uint64_t i = 1; i < 8; ++i) {
    ASSERT_TRUE(builder.also({.addr = kWordAt + 8 * i, .rkey = kFarKey, .shared = i % 2 == 0}));
  }
  EXPECT_FALSE(builder.also({.addr = 0x9000, .rkey = kFarKey}));
  ASSERT_EQ(builder.post(rig.qp(), 1, nullptr), PostResult::ok);
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].headers.lketh.subtype, Lketh::kAcquireSeveral);
  std::vector<wire::LockWord> words;
  for (std::uint64_t i = 1; i < 8; ++i) {
    words.push_back({.rkey = 0x77, .shared = i % 2 == 0, .va = kWordAt + 8 * i});
  }
  EXPECT_EQ(sent[0].payload, payload_of(words));
  EXPECT_TRUE(sent[1].payload.empty());
}

/// LK-14: an operation for the acquire and one for the release.
TEST(ScopeBuilder, SaysForeignOperations) {
  for (const Mode mode : {Mode::foreign_swap, Mode::foreign_add}) {
    Rig rig(with_locks());
    const wire::LockOperation take{1, 2, 3, 4};
    const wire::LockOperation give{5, 6, 7, 8};
    ScopeBuilder builder({.addr = kWordAt, .rkey = kFarKey}, mode, take, give);
    ASSERT_EQ(builder.post(rig.qp(), 1, nullptr), PostResult::ok);
    const auto sent = rig.sent();
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[0].headers.lketh.subtype, Lketh::kAcquireForeign);
    EXPECT_EQ(sent[1].headers.lketh.subtype, Lketh::kReleaseForeign);
    for (const Packet& one : sent) {
      EXPECT_EQ((one.headers.lketh.flags & Lketh::kAdd) != 0, mode == Mode::foreign_add);
    }
    EXPECT_EQ(sent[0].payload, payload_of<wire::LockOperation>({take}));
    EXPECT_EQ(sent[1].payload, payload_of<wire::LockOperation>({give}));
  }
}

/// Nothing of a scope is posted that has no room as a whole.
TEST(ScopeBuilder, AllOfItOrNothing) {
  for (std::uint32_t room = 0; room <= 16; ++room) {
    Rig rig(with_locks());
    for (std::uint32_t i = room; i < 16; ++i) {
      rig.post_send(1, WrOpcode::rdma_write, 8);
    }
    (void)rig.sent();
    const std::size_t depth = rig.qp().send_queue_depth();
    Scope scope(rig);
    const PostResult posted = scope.builder.post(rig.qp(), 42, &scope.result);
    EXPECT_EQ(posted, room >= 5 ? PostResult::ok : PostResult::queue_full) << room;
    EXPECT_EQ(rig.qp().send_queue_depth(), depth + (room >= 5 ? 5 : 0));
    EXPECT_EQ(rig.sent().empty(), room < 5);
  }
}

TEST(ScopeBuilder, TheMostAccesses) {
  Rig rig(with_locks());
  ScopeBuilder builder({.addr = kWordAt, .rkey = kFarKey});
  const roce::Sge place{.addr = rig.va(), .length = 8, .lkey = rig.key()};
  for (std::size_t i = 0; i < ScopeBuilder::kMaxAccesses; ++i) {
    ASSERT_TRUE(builder.write(place, 0x100, kFarKey));
  }
  EXPECT_FALSE(builder.write(place, 0x100, kFarKey));
  EXPECT_FALSE(builder.read(place, 0x100, kFarKey));
  ScopeBuilder other({.addr = kWordAt, .rkey = kFarKey});
  EXPECT_FALSE(other.access({.opcode = WrOpcode::send}));
  EXPECT_FALSE(other.access({.opcode = WrOpcode::lock_acquire}));
  const std::array<roce::Sge, 2> two{place, place};
  EXPECT_FALSE(other.access({.sg_list = two, .opcode = WrOpcode::rdma_write}));
  EXPECT_TRUE(other.access({.sg_list = std::span(two).first(1), .opcode = WrOpcode::rdma_write}));
}

PostResult post_writes(std::uint32_t length, ScopeBuilder::Forward how, bool& stores,
                       int reads = 0) {
  Rig rig(with_locks());
  ScopeBuilder builder({.addr = kWordAt, .rkey = kFarKey});
  const roce::Sge place{.addr = rig.va(), .length = length, .lkey = rig.key()};
  EXPECT_TRUE(builder.forward(how).write(place, 0x100, kFarKey));
  for (int i = 0; i < reads; ++i) {
    EXPECT_TRUE(builder.read({.addr = rig.va(), .length = 1, .lkey = rig.key()}, 0x100, kFarKey));
  }
  const PostResult posted = builder.post(rig.qp(), 42, nullptr);
  stores = builder.stores_and_forwards();
  EXPECT_EQ(rig.qp().send_queue_depth() == 0, posted != PostResult::ok);
  return posted;
}

/// LK-29: short scopes are stored by themselves; what cannot be, is not posted as such.
TEST(ScopeBuilder, ChoosesHowItIsForwarded) {
  using Forward = ScopeBuilder::Forward;
  bool stores = false;
  EXPECT_EQ(post_writes(16 * 1024, Forward::automatic, stores), PostResult::ok);
  EXPECT_TRUE(stores);
  EXPECT_EQ(post_writes(16 * 1024 + 1, Forward::automatic, stores), PostResult::ok);
  EXPECT_FALSE(stores);
  EXPECT_EQ(post_writes(16 * 1024 + 1, Forward::store_forward, stores), PostResult::ok);
  EXPECT_TRUE(stores);
  EXPECT_EQ(post_writes(8, Forward::cut_through, stores), PostResult::ok);
  EXPECT_FALSE(stores);
  // 255 PSNs of WRITE and one of release are one too many.
  EXPECT_EQ(post_writes(254 * 256, Forward::store_forward, stores), PostResult::ok);
  EXPECT_EQ(post_writes(255 * 256, Forward::store_forward, stores), PostResult::invalid_request);
  // Acquire, release and 14 READs are as many answers as may be outstanding, 16.
  EXPECT_EQ(post_writes(8, Forward::automatic, stores, 13), PostResult::ok);
  EXPECT_TRUE(stores);
}

/// A scope with more answers than may be outstanding cannot be there as a whole.
TEST(ScopeBuilder, AsManyAnswersAsMayBeOutstanding) {
  for (const std::uint8_t most : std::initializer_list<std::uint8_t>{2, 3, 4}) {
    ConnectionOptions options = with_locks();
    options.max_rd_atomic = most;
    Rig rig(options);
    ScopeBuilder builder({.addr = kWordAt, .rkey = kFarKey});
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(builder.read({.addr = rig.va(), .length = 1, .lkey = rig.key()}, 0x100, kFarKey));
    }
    builder.forward(ScopeBuilder::Forward::store_forward);
    EXPECT_EQ(builder.post(rig.qp(), 1, nullptr),
              most >= 4 ? PostResult::ok : PostResult::invalid_request);
  }
}

TEST(ScopeBuilder, MorePsnsThanTheHeaderCanSay) {
  Rig rig(with_locks());
  ScopeBuilder builder({.addr = kWordAt, .rkey = kFarKey});
  const roce::Sge large{.addr = rig.va(), .length = 65534 * 256, .lkey = rig.key()};
  ASSERT_TRUE(builder.read(large, 0x100, kFarKey));
  const ScopeBuilder::Limits limits{.path_mtu = 256, .max_rd_atomic = 16, .room = 16, .max_sge = 4};
  int posted = 0;
  const auto count = [&posted](SendWr&) {
    ++posted;
    return PostResult::ok;
  };
  EXPECT_EQ(builder.post(count, limits, 1, nullptr), PostResult::ok);
  EXPECT_EQ(builder.psns(), 65535u);
  EXPECT_EQ(posted, 3);
  ASSERT_TRUE(builder.read({.addr = rig.va(), .length = 1, .lkey = rig.key()}, 0x100, kFarKey));
  EXPECT_EQ(builder.post(count, limits, 1, nullptr), PostResult::message_too_long);
  EXPECT_EQ(posted, 3);
}

}  // namespace
}  // namespace rockhopper::test::lock_requester_test
