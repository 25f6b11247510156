// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The lock that a connection asks for or holds at its target (LK-4, LK-9, LK-15, LK-20, LK-21,
// LK-23, LK-29): without an engine.
#include "roce/rc/target_scope.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/lock/lock_word.h"
#include "roce/wire/timer_code.h"
#include "stack/timing_wheel.h"
#include "tests/support/seed.h"
#include "tests/unit/roce/received_packet.h"

namespace rockhopper::test::target_scope_test {
namespace {

using roce::HeldPacketBudget;
using roce::lock::LockWord;
using roce::lock::Region;
using roce::lock::Service;
using roce::rc::state_after;
using roce::rc::TargetScope;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Lketh;
using wire::LockCause;
using wire::LockStatus;
using wire::Opcode;
using wire::Psn;
using Event = TargetScope::Event;
using State = TargetScope::State;

constexpr std::uint32_t kMtu = 256;
constexpr std::uint64_t kTickNs = 1024;
constexpr std::uint64_t kUs = 1000;
constexpr std::uint32_t kRetryUs = 50;
constexpr std::uint32_t kLeaseUs = 1000;
constexpr std::uint32_t kMaxScopeReads = 8192;
constexpr Psn kAcquire{0xfffffe};  // so that PSNs wrap

/// Some connections' scopes at one engine's lock service, and what the test, as their responder, is
/// told.
struct Target {
  Target() { service.table.attach(region); }
  ~Target() {
    for (auto& party : parties) {
      party->scope.abort();
    }
    EXPECT_TRUE(service.table.detach(region));
  }

  struct Party {
    explicit Party(Service& service)
        : scope(
              service,
              [](void* self, LockCause cause, std::uint64_t) {
                auto& party = *static_cast<Party*>(self);
                party.answers.push_back(party.scope.decide(cause));
              },
              [](void* self, std::uint64_t timer_ns) {
                auto& party = *static_cast<Party*>(self);
                if (const auto cause = party.scope.on_timer(timer_ns)) {
                  party.answers.push_back(party.scope.decide(*cause));
                }
              },
              this) {}

    TargetScope scope;
    std::vector<TargetScope::Answer> answers;  ///< to acquires
  };

  Party& party() {
    parties.push_back(std::make_unique<Party>(service));
    return *parties.back();
  }
  [[nodiscard]] roce::lock::Claim claim(std::size_t word = 0) {
    return {.word = &words[word], .region = &region, .leased = true, .owner = 0x51};
  }
  [[nodiscard]] bool is_free(std::size_t word = 0) const {
    return LockWord::from(words[word]).state == LockWord::State::free;
  }
  void pass(std::uint64_t ns) {
    now_ns += ns;
    timers.advance(now_ns);
    service.table.run();
  }

  std::uint64_t now_ns = 1'000'000;
  std::array<std::uint64_t, 64> words{};
  Region region{
      words.data(), sizeof words, {.first_token = 100, .lease_us = kLeaseUs, .retry_us = kRetryUs}};
  stack::TimingWheel timers{kTickNs};
  HeldPacketBudget budget{.limit = 64};
  Service service{
      {.max_parked_scopes = 2, .max_scope_reads = kMaxScopeReads}, timers, now_ns, budget};
  std::vector<std::unique_ptr<Party>> parties;
};

Lketh acquire(std::uint16_t psns = 0, std::uint8_t flags = Lketh::kFifo) {
  Lketh request{};
  request.subtype = Lketh::kAcquireExclusive;
  request.flags = flags;
  request.scope_id = 7;
  request.max_tries = Lketh::kTriesUnlimited;
  request.wait_us = Lketh::kWaitUnlimited;
  request.scope_psns = psns;
  return request;
}

Lketh request_of(std::uint8_t subtype, std::uint16_t id = 7) {
  Lketh request{};
  request.subtype = subtype;
  request.scope_id = id;
  return request;
}

wire::Headers headers_of(Opcode opcode) {
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  headers.opcode = &wire::info(opcode);
  headers.reth = {.va = 0, .rkey = 0, .length = 0};
  return headers;
}

wire::Headers lock_headers(const Lketh& request) {
  wire::Headers headers = headers_of(Opcode::lock_request);
  headers.opcode = &wire::info(headers);
  headers.lketh = request;
  return headers;
}

MATCHER_P(IsAnswer, status, "") { return arg.status == status; }
MATCHER_P(IsFailure, cause, "") { return arg.status == LockStatus::failed && arg.cause == cause; }

class TargetScopeTest : public ::testing::Test {
 protected:
  /// The acquire comes, and is decided at once or waits.
  void ask(Target::Party& party, const Lketh& request, std::size_t word = 0) {
    TargetScope& scope = party.scope;
    scope.prepare(request);
    ASSERT_TRUE(scope.add(target_.claim(word)));
    scope.begin(request, kAcquire);
    if (const auto cause = scope.look(false)) {
      party.answers.push_back(scope.decide(*cause));
    } else {
      ASSERT_TRUE(scope.wait());
    }
  }
  void ask(const Lketh& request) { ask(own_, request); }
  /// A scope that is stored and forwarded comes; what follows is still to come.
  void gather(std::uint16_t psns) {
    const Lketh request = acquire(psns, Lketh::kFifo | Lketh::kStoreForward);
    scope_.prepare(request);
    ASSERT_TRUE(scope_.add(target_.claim()));
    scope_.begin(request, kAcquire);
    ASSERT_TRUE(request.is_stored());
    ASSERT_TRUE(scope_.gather());
  }
  [[nodiscard]] bool park(std::uint32_t behind, Opcode opcode = Opcode::rc_rdma_write_only) {
    wire::Headers headers = headers_of(opcode);
    headers.bth.psn = kAcquire + behind;
    return scope_.parked().hold(ReceivedPacket(headers).rx(), kMtu);
  }
  /// Somebody else holds the word, for as long as the region allows.
  Target::Party& hold_elsewhere() {
    Target::Party& other = target_.party();
    Lketh request = acquire();
    request.lease_us = Region::Config{}.max_lease_us;
    ask(other, request);
    return other;
  }
  static TargetScope::Answer release(Target::Party& party, std::uint16_t id = 7) {
    return party.scope.release(request_of(Lketh::kRelease, id), {});
  }

  Target target_;
  Target::Party& own_ = target_.party();
  TargetScope& scope_ = own_.scope;
};

TEST_F(TargetScopeTest, HasNothingAtFirst) {
  EXPECT_EQ(scope_.state(), State::none);
  EXPECT_FALSE(scope_.stalls());
  EXPECT_FALSE(scope_.owes_sign());
  EXPECT_FALSE(scope_.keeps_reads());
  EXPECT_TRUE(scope_.is_consistent());
}

/// The table of docs/locks.md, edge by edge: what is not named cannot happen.
TEST(TargetScopeTable, IsThePictureOfTheDocumentation) {
  struct Edge {
    State from;
    Event event;
    State with_scope;
    State without;
  };
  const std::vector<Edge> edges = {
      {State::none, Event::gather, State::gathering, State::gathering},
      {State::none, Event::wait, State::waiting, State::waiting},
      {State::none, Event::grant, State::open, State::open},
      {State::none, Event::refuse, State::failed, State::none},
      {State::gathering, Event::wait, State::waiting, State::waiting},
      {State::gathering, Event::grant, State::open, State::open},
      {State::gathering, Event::refuse, State::failed, State::none},
      {State::waiting, Event::grant, State::open, State::open},
      {State::waiting, Event::refuse, State::failed, State::none},
      {State::open, Event::release, State::none, State::none},
      {State::open, Event::lose, State::failed, State::none},
      {State::failed, Event::finish, State::none, State::none},
  };
  for (const State state :
       {State::none, State::gathering, State::waiting, State::open, State::failed}) {
    for (const Event event : {Event::gather, Event::wait, Event::grant, Event::refuse, Event::lose,
                              Event::release, Event::finish}) {
      std::optional<State> with_scope;
      std::optional<State> without;
      for (const Edge& edge : edges) {
        if (edge.from == state && edge.event == event) {
          with_scope = edge.with_scope;
          without = edge.without;
        }
      }
      EXPECT_EQ(state_after(state, event, true), with_scope)
          << static_cast<int>(state) << " " << static_cast<int>(event);
      EXPECT_EQ(state_after(state, event, false), without)
          << static_cast<int>(state) << " " << static_cast<int>(event);
    }
  }
}

TEST_F(TargetScopeTest, FreeWordIsTakenAtOnce) {
  ask(acquire());
  ASSERT_THAT(own_.answers, ElementsAre(IsAnswer(LockStatus::granted)));
  EXPECT_EQ(own_.answers[0].value, 100u) << "the region's first token";
  EXPECT_EQ(own_.answers[0].scope_id, 7);
  EXPECT_EQ(scope_.state(), State::open);
  EXPECT_FALSE(target_.is_free());
  EXPECT_TRUE(scope_.holds(7));
  EXPECT_FALSE(scope_.holds(8));
}

TEST_F(TargetScopeTest, ReleaseFreesTheWord) {
  ask(acquire());
  const auto answer = release(own_);
  EXPECT_EQ(answer.status, LockStatus::released);
  EXPECT_EQ(answer.value, 100u);
  EXPECT_EQ(scope_.state(), State::none);
  EXPECT_TRUE(target_.is_free());
  EXPECT_TRUE(target_.timers.empty()) << "there is no lease any more";
}

TEST_F(TargetScopeTest, Lk21_ReleaseOfAnotherLockChangesNothing) {
  ask(acquire());
  EXPECT_THAT(release(own_, 8), IsFailure(LockCause::not_owner));
  EXPECT_EQ(scope_.state(), State::open);
  EXPECT_FALSE(target_.is_free());
}

TEST_F(TargetScopeTest, Lk21_WordThatSomebodyHasOverwrittenIsLeftAlone) {
  ask(acquire());
  target_.words[0] = 0;
  EXPECT_THAT(release(own_), IsFailure(LockCause::not_owner));
  EXPECT_EQ(target_.words[0], 0u);
  EXPECT_EQ(target_.region.statistics().foreign_releases.load(), 1u);
}

TEST_F(TargetScopeTest, WaitsWhileSomebodyElseHoldsTheLock) {
  Target::Party& other = hold_elsewhere();
  ask(acquire());
  EXPECT_EQ(scope_.state(), State::waiting);
  EXPECT_TRUE(scope_.stalls());
  EXPECT_EQ(scope_.parked().psns(), 1u);
  EXPECT_THAT(own_.answers, IsEmpty());
  EXPECT_EQ(release(other).status, LockStatus::released);
  target_.service.table.run();
  EXPECT_THAT(own_.answers, ElementsAre(IsAnswer(LockStatus::granted)));
  EXPECT_EQ(scope_.parked().psns(), 0u);
}

TEST_F(TargetScopeTest, WaitIsOverAtItsLimit) {
  hold_elsewhere();
  Lketh request = acquire();
  request.wait_us = 100;
  ask(request);
  target_.pass(100 * kUs - 1);
  EXPECT_THAT(own_.answers, IsEmpty());
  target_.pass(kTickNs);
  EXPECT_THAT(own_.answers, ElementsAre(IsFailure(LockCause::wait)));
  EXPECT_EQ(scope_.state(), State::none) << "it has no scope that could fail";
}

TEST_F(TargetScopeTest, Lk9_AnswerTellsHowOftenItWasLookedAt) {
  hold_elsewhere();
  Lketh request = acquire();
  request.max_tries = 3;
  ask(request);
  target_.pass(kRetryUs * kUs + kTickNs);
  target_.pass(kRetryUs * kUs + kTickNs);
  ASSERT_THAT(own_.answers, ElementsAre(IsFailure(LockCause::tries)));
  EXPECT_EQ(own_.answers[0].value, 3u);
}

TEST_F(TargetScopeTest, Lk20_BehindALockThatIsNotHadTheScopeFails) {
  hold_elsewhere();
  Lketh request = acquire(3);
  request.wait_us = 0;
  ask(request);
  EXPECT_THAT(own_.answers, ElementsAre(IsFailure(LockCause::wait)));
  EXPECT_EQ(scope_.state(), State::failed);
  EXPECT_EQ(scope_.flushed().status, LockStatus::flushed);
  EXPECT_EQ(scope_.finish().status, LockStatus::flushed);
  EXPECT_EQ(scope_.state(), State::none);
}

TEST_F(TargetScopeTest, LeaseEndsAndFreesTheLock) {
  ask(acquire(3));
  target_.pass(kLeaseUs * kUs + kTickNs);
  EXPECT_EQ(scope_.state(), State::failed);
  EXPECT_TRUE(target_.is_free());
  const auto answer = scope_.finish();
  EXPECT_THAT(answer, IsFailure(LockCause::expired)) << "what had been granted is not flushed";
}

TEST_F(TargetScopeTest, ReleaseBehindTheLeaseLearnsOfIt) {
  ask(acquire());
  target_.pass(kLeaseUs * kUs + kTickNs);
  EXPECT_EQ(scope_.state(), State::none);
  EXPECT_THAT(release(own_), IsFailure(LockCause::expired));
}

TEST_F(TargetScopeTest, LeaseIsAsLongAsAskedForUpToTheRegionsLimit) {
  Lketh request = acquire();
  request.lease_us = 3 * kLeaseUs;
  ask(request);
  target_.pass(2 * kLeaseUs * kUs);
  EXPECT_EQ(scope_.state(), State::open);
  target_.pass(kLeaseUs * kUs + kTickNs);
  EXPECT_EQ(scope_.state(), State::none);
}

TEST_F(TargetScopeTest, Lk29_StoredScopeIsLookedAtWhenItIsWhole) {
  gather(2);
  EXPECT_TRUE(target_.is_free()) << "nothing is taken";
  ASSERT_TRUE(park(1));
  EXPECT_FALSE(scope_.is_gathered());
  ASSERT_TRUE(park(2));
  ASSERT_TRUE(scope_.is_gathered());
  EXPECT_EQ(scope_.end_gathering(), LockCause::none);
  EXPECT_EQ(scope_.decide(LockCause::none).status, LockStatus::granted);
  EXPECT_EQ(scope_.parked().psns(), 2u) << "they are to be executed now";
}

TEST_F(TargetScopeTest, Lk29_StoredScopeThatIsNeverWholeTakesNothing) {
  gather(2);
  target_.pass(Region::Config{}.max_lease_us * kUs + kTickNs);
  EXPECT_THAT(own_.answers, ElementsAre(IsFailure(LockCause::wait)));
  EXPECT_EQ(scope_.state(), State::failed);
  EXPECT_TRUE(target_.is_free());
}

TEST_F(TargetScopeTest, StoredScopeWaitsForALockThatIsNotFree) {
  Target::Party& other = hold_elsewhere();
  gather(1);
  ASSERT_TRUE(park(1));
  EXPECT_EQ(scope_.end_gathering(), std::nullopt);
  EXPECT_EQ(scope_.state(), State::waiting);
  EXPECT_EQ(scope_.parked().psns(), 2u) << "the acquire counts once";
  (void)release(other);
  target_.service.table.run();
  EXPECT_THAT(own_.answers, ElementsAre(IsAnswer(LockStatus::granted)));
}

TEST_F(TargetScopeTest, NoRoomToWait) {
  Target::Party& third = target_.party();
  hold_elsewhere();
  ask(third, acquire());
  Target::Party& fourth = target_.party();
  ask(fourth, acquire());  // two can be parked
  const Lketh request = acquire();
  scope_.prepare(request);
  ASSERT_TRUE(scope_.add(target_.claim()));
  scope_.begin(request, kAcquire);
  ASSERT_EQ(scope_.look(false), std::nullopt);
  EXPECT_FALSE(scope_.wait());
  EXPECT_EQ(scope_.state(), State::none);
  scope_.ask_again();
  EXPECT_TRUE(scope_.has_asked_for(request));
  EXPECT_FALSE(scope_.has_asked_for(acquire(1)));
}

TEST_F(TargetScopeTest, AcquireThatComesAgainGoesOnCounting) {
  hold_elsewhere();
  Lketh request = acquire(0, Lketh::kResend);
  request.max_tries = 2;
  scope_.prepare(request);
  ASSERT_TRUE(scope_.add(target_.claim()));
  scope_.begin(request, kAcquire);
  ASSERT_EQ(scope_.look(false), std::nullopt);
  scope_.ask_again();
  scope_.prepare(request);
  ASSERT_TRUE(scope_.add(target_.claim()));
  EXPECT_EQ(scope_.look(true), LockCause::tries) << "the second look was the last";
  EXPECT_EQ(scope_.decide(LockCause::tries).value, 2u);
}

TEST_F(TargetScopeTest, CancelEndsTheWait) {
  Target::Party& other = hold_elsewhere();
  ask(acquire());
  EXPECT_TRUE(scope_.is_canceled_by(request_of(Lketh::kCancel)));
  EXPECT_FALSE(scope_.is_canceled_by(request_of(Lketh::kCancel, 8)));
  EXPECT_FALSE(scope_.is_canceled_by(request_of(Lketh::kRelease)));
  scope_.cancel();
  EXPECT_THAT(scope_.decide(LockCause::canceled), IsFailure(LockCause::canceled));
  EXPECT_EQ(scope_.answer_to_cancel(7).status, LockStatus::canceled);
  (void)release(other);
  target_.service.table.run();
  EXPECT_TRUE(target_.is_free()) << "nobody waits any more";
}

TEST_F(TargetScopeTest, CancelOfWhatIsGrantedIsTooLate) {
  ask(acquire());
  EXPECT_FALSE(scope_.is_canceled_by(request_of(Lketh::kCancel)));
  EXPECT_THAT(scope_.answer_to_cancel(7), IsFailure(LockCause::too_late));
  EXPECT_EQ(scope_.state(), State::open);
}

TEST_F(TargetScopeTest, Lk15_SignsOfLifeComeTwiceInATimeout) {
  hold_elsewhere();
  Lketh request = acquire();
  request.timeout = 10;
  const std::uint64_t half_ns = wire::local_ack_timeout_ns(10) / 2;
  ask(request);
  ASSERT_TRUE(scope_.owes_sign()) << "one at once";
  EXPECT_EQ(scope_.sign().status, LockStatus::waiting);
  EXPECT_EQ(scope_.sign().value, 1u) << "looks so far";
  scope_.on_sign_sent();
  target_.pass(half_ns - kTickNs);
  EXPECT_FALSE(scope_.owes_sign());
  target_.pass(2 * kTickNs);
  EXPECT_TRUE(scope_.owes_sign());
}

TEST_F(TargetScopeTest, WithoutATimeoutOneSignOfLife) {
  hold_elsewhere();
  ask(acquire());
  ASSERT_TRUE(scope_.owes_sign());
  scope_.on_sign_sent();
  target_.pass(1'000'000 * kUs);
  EXPECT_EQ(scope_.state(), State::waiting);
  EXPECT_FALSE(scope_.owes_sign());
}

TEST_F(TargetScopeTest, Lk4_ScopeIsAccessesAndItsRelease) {
  ask(acquire(4));
  EXPECT_TRUE(scope_.admits(headers_of(Opcode::rc_rdma_write_only), kAcquire + 1, kMtu));
  EXPECT_TRUE(scope_.admits(headers_of(Opcode::rc_fetch_add), kAcquire + 1, kMtu));
  EXPECT_FALSE(scope_.admits(headers_of(Opcode::rc_send_only), kAcquire + 1, kMtu));
  EXPECT_FALSE(
      scope_.admits(headers_of(Opcode::rc_rdma_write_only_with_immediate), kAcquire + 1, kMtu));
  wire::Headers read = headers_of(Opcode::rc_rdma_read_request);
  read.reth.length = 3 * kMtu;
  EXPECT_TRUE(scope_.admits(read, kAcquire + 1, kMtu));
  EXPECT_FALSE(scope_.admits(read, kAcquire + 2, kMtu)) << "it would go beyond the release";
  const wire::Headers end = lock_headers(request_of(Lketh::kRelease));
  EXPECT_FALSE(scope_.admits(end, kAcquire + 3, kMtu));
  EXPECT_TRUE(scope_.admits(end, kAcquire + 4, kMtu));
  EXPECT_FALSE(scope_.admits(lock_headers(request_of(Lketh::kRelease, 8)), kAcquire + 4, kMtu));
  EXPECT_FALSE(scope_.admits(lock_headers(acquire()), kAcquire + 4, kMtu));
}

TEST_F(TargetScopeTest, LockByItselfAllowsAllButAnother) {
  ask(acquire());
  EXPECT_TRUE(scope_.admits(headers_of(Opcode::rc_send_only), kAcquire + 1, kMtu));
  EXPECT_TRUE(scope_.admits(lock_headers(request_of(Lketh::kRelease)), kAcquire + 9, kMtu));
  EXPECT_TRUE(scope_.admits(lock_headers(request_of(Lketh::kCancel)), kAcquire + 1, kMtu));
  EXPECT_FALSE(scope_.admits(lock_headers(acquire()), kAcquire + 1, kMtu));
  EXPECT_FALSE(scope_.keeps_reads());
}

TEST_F(TargetScopeTest, Lk23_ReadsOfAScopeAreKept) {
  ask(acquire(2));
  ASSERT_TRUE(scope_.keeps_reads());
  const std::array<std::byte, 16> data{std::byte{1}, std::byte{2}};
  const auto kept = scope_.keep(data.data(), data.size());
  ASSERT_TRUE(kept.exists());
  EXPECT_EQ(target_.service.snapshots.at(kept, 0)[1], std::byte{2});
  target_.service.snapshots.release(kept);
}

TEST_F(TargetScopeTest, Lk23_TooMuchToKeepCostsTheLock) {
  ask(acquire(3));
  const std::vector<std::byte> data(kMaxScopeReads);
  const auto most = scope_.keep(data.data(), kMaxScopeReads);
  ASSERT_TRUE(most.exists());
  EXPECT_FALSE(scope_.keep(data.data(), 1).exists());
  EXPECT_EQ(scope_.state(), State::failed);
  EXPECT_TRUE(target_.is_free());
  EXPECT_THAT(scope_.finish(), IsFailure(LockCause::too_big));
  target_.service.snapshots.release(most);
}

TEST_F(TargetScopeTest, AbortFreesWhatIsHeld) {
  ask(acquire(2));
  scope_.abort();
  EXPECT_EQ(scope_.state(), State::none);
  EXPECT_TRUE(target_.is_free());
  EXPECT_EQ(target_.region.statistics().aborts.load(), 1u);
  EXPECT_TRUE(target_.timers.empty());
}

TEST_F(TargetScopeTest, AbortLeavesTheLine) {
  Target::Party& other = hold_elsewhere();
  ask(acquire(2));
  ASSERT_TRUE(park(1));
  scope_.abort();
  EXPECT_FALSE(scope_.owes_sign());
  EXPECT_EQ(target_.budget.used, 0u);
  EXPECT_EQ(scope_.parked().psns(), 0u);
  (void)release(other);
  target_.service.table.run();
  EXPECT_TRUE(target_.is_free());
  EXPECT_THAT(own_.answers, IsEmpty());
}

TEST_F(TargetScopeTest, SameWordTwiceIsRefused) {
  scope_.prepare(acquire());
  EXPECT_TRUE(scope_.add(target_.claim()));
  EXPECT_FALSE(scope_.add(target_.claim()));
  EXPECT_TRUE(scope_.add(target_.claim(1)));
}

/// Connections that ask for two words, hold them, lose them and fail, in any order: at each step
/// every scope is consistent, and in the end all words are free.
TEST_F(TargetScopeTest, StaysConsistentWhateverComesInWhateverOrder) {
  std::mt19937_64 random(seed());
  target_.party();
  for (int step = 0; step < 20'000; ++step) {
    Target::Party& party = *target_.parties[random() % target_.parties.size()];
    TargetScope& scope = party.scope;
    switch (random() % 6) {
      case 0:
        if (scope.state() == State::none) {
          Lketh request = acquire(static_cast<std::uint16_t>(random() % 2 * 3));
          request.wait_us = static_cast<std::uint32_t>(random() % 200);
          request.max_tries = static_cast<std::uint16_t>(1 + random() % 4);
          request.timeout = static_cast<std::uint8_t>(random() % 2 * 4);
          ask(party, request, random() % 2);
        }
        break;
      case 1:
        (void)release(party, static_cast<std::uint16_t>(7 + random() % 4 / 3));
        break;
      case 2:
        if (scope.stalls() && random() % 2 == 0) {
          scope.cancel();
          (void)scope.decide(LockCause::canceled);
        }
        break;
      case 3:
        if (scope.state() == State::failed) (void)scope.finish();
        break;
      case 4:
        if (random() % 8 == 0) scope.abort();
        if (scope.owes_sign()) scope.on_sign_sent();
        break;
      default:
        target_.pass(random() % (kLeaseUs * kUs));
        break;
    }
    for (const auto& one : target_.parties) {
      ASSERT_TRUE(one->scope.is_consistent()) << step;
    }
  }
  for (const auto& one : target_.parties) {
    one->scope.abort();
  }
  EXPECT_TRUE(target_.is_free(0));
  EXPECT_TRUE(target_.is_free(1));
}

#ifndef NDEBUG
using TargetScopeDeathTest = TargetScopeTest;

TEST_F(TargetScopeDeathTest, OneLockAtATime) {
  ask(acquire());
  EXPECT_DEATH(scope_.prepare(acquire()), "none");
}

TEST_F(TargetScopeDeathTest, NothingIsFinishedThatHasNotFailed) {
  ask(acquire(3));
  EXPECT_DEATH((void)scope_.finish(), "has_value");
}

TEST_F(TargetScopeDeathTest, SignsOfLifeAreOfWhatWaits) {
  EXPECT_DEATH(scope_.owe_sign(), "waiting");
}
#endif

}  // namespace
}  // namespace rockhopper::test::target_scope_test
