// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What becomes of requests whose connection is lost (DC-27): without an engine.
#include "roce/rc/settlement.h"

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace rockhopper::test::settlement_test {
namespace {

using roce::SendQueue;
using roce::SendWqe;
using roce::WcStatus;
using roce::WrOpcode;
using roce::rc::SendWindow;
using roce::rc::Settlement;
using wire::Psn;

constexpr Psn kFirst{0xfffffe};  // so that PSNs wrap

class SettlementTest : public ::testing::Test {
 protected:
  SettlementTest() { window_.reset(queue_, kFirst); }

  SendWqe& post(WrOpcode opcode, std::uint32_t flags = 0) {
    SendWqe& request = queue_.next();
    request = SendWqe{};
    request.opcode = opcode;
    request.flags = SendWqe::flags_of(opcode) | flags;
    queue_.push();
    return request;
  }
  /// Posts a request of so many PSNs and sends all of it.
  SendWqe& send(WrOpcode opcode, std::uint32_t psns = 1, std::uint32_t flags = 0) {
    SendWqe& request = post(opcode, flags);
    window_.number(queue_, request, psns);
    while (!window_.is_at_new()) {
      window_.advance(request, window_.psns_of_packet(request));
    }
    return request;
  }
  void settle(std::optional<Psn> executed = std::nullopt) {
    Settlement(queue_, window_, executed).settle();
  }

  SendQueue queue_{16, 1, 0};
  SendWindow window_;
};

bool is_settled(const SendWqe& request, WcStatus status) {
  return request.is_settled() && request.failure == status;
}
bool is_repeated(const SendWqe& request) {
  return !request.is_settled() && request.failure == WcStatus::success && request.psn_count == 0;
}

TEST_F(SettlementTest, EmptyQueue) {
  settle();
  settle(kFirst);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(SettlementTest, DC27_WhatMustNotBeDoneTwiceHasAnUnknownOutcome) {
  const SendWqe& message = send(WrOpcode::send);
  const SendWqe& atomic = send(WrOpcode::atomic_fetch_and_add);
  const SendWqe& immediate = send(WrOpcode::rdma_write_with_imm);
  settle();
  EXPECT_TRUE(is_settled(message, WcStatus::outcome_unknown));
  EXPECT_TRUE(is_settled(atomic, WcStatus::outcome_unknown));
  EXPECT_TRUE(is_settled(immediate, WcStatus::outcome_unknown));
}

TEST_F(SettlementTest, DC27_WhatMayBeDoneTwiceIsSentAgain) {
  const SendWqe& write = send(WrOpcode::rdma_write, 3);
  const SendWqe& read = send(WrOpcode::rdma_read, 3);
  const SendWqe& flush = send(WrOpcode::flush);
  settle();
  EXPECT_TRUE(is_repeated(write));
  EXPECT_TRUE(is_repeated(read));
  EXPECT_TRUE(is_repeated(flush));
}

TEST_F(SettlementTest, WhatWasNotSentIsSent) {
  send(WrOpcode::send);
  const SendWqe& later = post(WrOpcode::send);
  settle();
  EXPECT_TRUE(is_repeated(later));
}

TEST_F(SettlementTest, WhatThePeerHasExecutedSucceedsAndTheRestIsSentAgain) {
  const SendWqe& first = send(WrOpcode::send, 3);
  const SendWqe& write = send(WrOpcode::rdma_write, 2);
  const SendWqe& second = send(WrOpcode::send, 2);
  settle(kFirst + 5);
  EXPECT_TRUE(is_settled(first, WcStatus::success));
  EXPECT_TRUE(is_settled(write, WcStatus::success));
  EXPECT_TRUE(is_repeated(second));
}

TEST_F(SettlementTest, MessageThatIsExecutedInPartIsSentAgain) {
  const SendWqe& message = send(WrOpcode::send, 3);
  settle(kFirst + 2);
  EXPECT_TRUE(is_repeated(message));
}

TEST_F(SettlementTest, ExecutedAtomicWhoseValueIsMissingHasAnUnknownOutcome) {
  const SendWqe& atomic = send(WrOpcode::atomic_fetch_and_add);
  const SendWqe& read = send(WrOpcode::rdma_read, 2);
  settle(kFirst + 3);
  EXPECT_TRUE(is_settled(atomic, WcStatus::outcome_unknown));
  EXPECT_TRUE(is_repeated(read));
}

TEST_F(SettlementTest, NobodyCanHaveExecutedWhatWasNotSent) {
  const SendWqe& message = send(WrOpcode::send, 2);
  settle(kFirst + 3);
  EXPECT_TRUE(is_settled(message, WcStatus::outcome_unknown)) << "it is as if nothing was said";
}

TEST_F(SettlementTest, WhatWasAcknowledgedCannotBeTakenBack) {
  const SendWqe& message = send(WrOpcode::send, 3);
  window_.acknowledge(2);
  settle(kFirst + 1);
  EXPECT_TRUE(is_settled(message, WcStatus::outcome_unknown));
}

TEST_F(SettlementTest, RequestThatBeganBeforeTheOldestUnacknowledgedPsnWasSent) {
  const SendWqe& message = send(WrOpcode::send, 3);
  window_.acknowledge(2);
  settle();
  EXPECT_TRUE(is_settled(message, WcStatus::outcome_unknown));
}

TEST_F(SettlementTest, ScopeThatHasBegunIsLostWithItsLock) {
  const SendWqe& acquire = send(WrOpcode::lock_acquire);
  const SendWqe& write = send(WrOpcode::rdma_write, 1, SendWqe::kInScope);
  const SendWqe& release = post(WrOpcode::lock_release, SendWqe::kInScope);
  settle();
  EXPECT_TRUE(is_settled(acquire, WcStatus::outcome_unknown));
  EXPECT_TRUE(is_settled(write, WcStatus::outcome_unknown)) << "though a WRITE could be repeated";
  EXPECT_TRUE(is_settled(release, WcStatus::outcome_unknown)) << "though it was not sent";
}

TEST_F(SettlementTest, ScopeWhoseAcquireIsCompleteIsLostToo) {
  const SendWqe& write = send(WrOpcode::rdma_write, 1, SendWqe::kInScope);
  settle(kFirst);
  EXPECT_TRUE(is_settled(write, WcStatus::outcome_unknown));
}

TEST_F(SettlementTest, ScopeWhoseAcquireWasNotExecutedIsAskedForAgain) {
  const SendWqe& acquire = send(WrOpcode::lock_acquire);
  const SendWqe& write = send(WrOpcode::rdma_write, 1, SendWqe::kInScope);
  settle(kFirst);
  EXPECT_TRUE(is_repeated(acquire));
  EXPECT_TRUE(is_repeated(write));
}

}  // namespace
}  // namespace rockhopper::test::settlement_test
