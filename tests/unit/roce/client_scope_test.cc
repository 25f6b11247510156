// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the requests of a lock scope complete with: without an engine.
#include "roce/rc/client_scope.h"

#include <array>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::test::client_scope_test {
namespace {

using roce::SendWqe;
using roce::WcStatus;
using roce::WrOpcode;
using roce::lock::ScopeResult;
using roce::rc::ClientScope;
using ::testing::ElementsAre;
using wire::LockCause;
using wire::LockStatus;

SendWqe request(WrOpcode opcode, std::uint32_t flags = SendWqe::kInScope) {
  SendWqe wqe{};
  wqe.opcode = opcode;
  wqe.flags = SendWqe::flags_of(opcode) | flags;
  return wqe;
}
const SendWqe kWrite = request(WrOpcode::rdma_write);
const SendWqe kRelease = request(WrOpcode::lock_release);

class ClientScopeTest : public ::testing::Test {
 protected:
  ClientScopeTest() { result_.accesses = accesses_; }

  void begin(LockStatus status = LockStatus::granted) {
    wire::Lkaeth answer{};
    answer.status = status;
    answer.cause = LockCause::none;
    answer.previous_word = 17;
    answer.value = 42;
    scope_.begin(&result_, answer);
  }
  WcStatus complete(const SendWqe& wqe, WcStatus status = WcStatus::success) {
    return scope_.complete(wqe, &result_, status);
  }

  std::array<WcStatus, 2> accesses_{WcStatus::wr_flush_err, WcStatus::wr_flush_err};
  ScopeResult result_;
  ClientScope scope_;
};

TEST_F(ClientScopeTest, GrantedLockHasItsToken) {
  begin();
  EXPECT_FALSE(scope_.is_failed());
  EXPECT_EQ(result_.status, WcStatus::success);
  EXPECT_EQ(result_.token, 42u);
  EXPECT_EQ(result_.looks, 0u);
  EXPECT_EQ(result_.previous_word, 17u);
}

TEST_F(ClientScopeTest, RefusedLockTellsHowOftenItWasLookedAt) {
  begin(LockStatus::failed);
  EXPECT_TRUE(scope_.is_failed());
  EXPECT_EQ(result_.status, WcStatus::lock_failed);
  EXPECT_EQ(result_.looks, 42u);
  EXPECT_EQ(result_.token, 0u);
}

TEST_F(ClientScopeTest, AccessesAreToldInTheirOrder) {
  begin();
  EXPECT_EQ(complete(kWrite), WcStatus::success);
  EXPECT_EQ(complete(kWrite, WcStatus::lock_flushed), WcStatus::lock_flushed);
  EXPECT_THAT(accesses_, ElementsAre(WcStatus::success, WcStatus::lock_flushed));
  EXPECT_TRUE(scope_.is_failed()) << "what is behind a flushed one is flushed";
  EXPECT_EQ(complete(kWrite), WcStatus::lock_flushed);
  EXPECT_EQ(scope_.accesses(), 3u) << "more than the caller has room for";
}

TEST_F(ClientScopeTest, NothingOfARefusedScopeWasExecuted) {
  begin(LockStatus::failed);
  EXPECT_EQ(complete(kWrite), WcStatus::lock_flushed);
  EXPECT_EQ(complete(kRelease), WcStatus::lock_failed);
  EXPECT_EQ(result_.status, WcStatus::lock_failed);
}

TEST_F(ClientScopeTest, ReleaseEndsIt) {
  begin();
  EXPECT_EQ(complete(kWrite), WcStatus::success);
  EXPECT_EQ(complete(kRelease), WcStatus::success);
  EXPECT_EQ(result_.status, WcStatus::success);
  EXPECT_EQ(scope_.accesses(), 0u);
  EXPECT_FALSE(scope_.is_failed());
  EXPECT_EQ(complete(kWrite), WcStatus::success);
  EXPECT_THAT(accesses_, ElementsAre(WcStatus::success, WcStatus::wr_flush_err))
      << "the caller's memory is left alone";
}

TEST_F(ClientScopeTest, LostLockLeavesAccessesUnknown) {
  begin();
  EXPECT_EQ(complete(kWrite), WcStatus::success);
  scope_.lose(LockCause::expired);
  EXPECT_EQ(result_.cause, LockCause::expired);
  EXPECT_THAT(accesses_, ElementsAre(WcStatus::outcome_unknown, WcStatus::wr_flush_err));
}

TEST_F(ClientScopeTest, SettledAcquireFailsItsScope) {
  const SendWqe acquire = request(WrOpcode::lock_acquire, SendWqe::kInScope | SendWqe::kSettled);
  EXPECT_EQ(complete(acquire, WcStatus::outcome_unknown), WcStatus::outcome_unknown);
  EXPECT_EQ(result_.status, WcStatus::outcome_unknown);
  EXPECT_TRUE(scope_.is_failed());
  EXPECT_EQ(complete(kRelease, WcStatus::outcome_unknown), WcStatus::outcome_unknown);
  EXPECT_EQ(result_.status, WcStatus::outcome_unknown);
  EXPECT_FALSE(scope_.is_failed());
}

TEST_F(ClientScopeTest, ConnectionEndsWithALockRequest) {
  ClientScope::fail(&result_, WcStatus::retry_exc_err);
  EXPECT_EQ(result_.status, WcStatus::retry_exc_err);
  ClientScope::fail(nullptr, WcStatus::retry_exc_err);
}

TEST_F(ClientScopeTest, CallerWithoutAResult) {
  scope_.begin(nullptr, wire::Lkaeth{.status = LockStatus::granted});
  scope_.lose(LockCause::expired);
  EXPECT_EQ(scope_.complete(kWrite, nullptr, WcStatus::success), WcStatus::success);
  EXPECT_EQ(scope_.complete(kRelease, nullptr, WcStatus::success), WcStatus::success);
}

}  // namespace
}  // namespace rockhopper::test::client_scope_test
