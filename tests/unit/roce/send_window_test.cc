// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which PSNs are outstanding, and the cursor over the requests: without an engine.
#include "roce/rc/send_window.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::test::send_window_test {
namespace {

using roce::SendQueue;
using roce::SendWqe;
using roce::WrOpcode;
using roce::rc::SendWindow;
using wire::Psn;

constexpr std::uint32_t kHalf = 1u << 23;
constexpr Psn kFirst{0x001000};

/// A window and the send queue that it stands over.
class SendWindowTest : public ::testing::Test {
 protected:
  SendWindowTest() { window_.reset(queue_, kFirst); }

  SendWqe& post(WrOpcode opcode = WrOpcode::rdma_write) {
    SendWqe& request = queue_.next();
    request = SendWqe{};
    request.opcode = opcode;
    request.flags = SendWqe::flags_of(opcode);
    queue_.push();
    return request;
  }
  /// Numbers the request at the cursor and sends `packets` packets of it.
  SendWqe& send(std::uint32_t psns, std::uint32_t packets) {
    SendWqe& request = at_cursor();
    window_.number(queue_, request, psns);
    send_on(packets);
    return request;
  }
  void send_on(std::uint32_t packets) {
    for (std::uint32_t i = 0; i < packets; ++i) {
      window_.advance(at_cursor(), window_.psns_of_packet(at_cursor()));
    }
  }
  SendWqe& at_cursor() { return queue_.at(window_.cursor()); }
  void retire() {
    queue_.pop();
    window_.on_retired(queue_);
  }

  SendQueue queue_{16, 1, 0};
  SendWindow window_;
};

TEST_F(SendWindowTest, EmptyAfterReset) {
  EXPECT_EQ(window_.next_psn(), kFirst);
  EXPECT_EQ(window_.unacked_psn(), kFirst);
  EXPECT_EQ(window_.cursor_psn(), kFirst);
  EXPECT_EQ(window_.sent_ahead(), 0u);
  EXPECT_EQ(window_.cursor_ahead(), 0u);
  EXPECT_TRUE(window_.is_at_end(queue_));
  EXPECT_TRUE(window_.is_at_new());
  EXPECT_TRUE(window_.is_drained(queue_));
  EXPECT_FALSE(window_.is_going_over());
}

TEST_F(SendWindowTest, Clause9_7_1_NumbersRequestsOneBehindTheOther) {
  SendWqe& first = post();
  SendWqe& second = post();
  window_.number(queue_, first, 3);
  EXPECT_EQ(first.first_psn, kFirst);
  EXPECT_EQ(first.psn_count, 3u);
  EXPECT_EQ(window_.next_psn(), kFirst + 3);
  EXPECT_FALSE(window_.is_at_new());
  EXPECT_FALSE(window_.is_drained(queue_));
  EXPECT_EQ(window_.sent_ahead(), 0u) << "numbered is not sent";
  send_on(3);
  EXPECT_TRUE(window_.is_at_new());
  window_.number(queue_, second, 1);
  EXPECT_EQ(second.first_psn, kFirst + 3);
}

TEST_F(SendWindowTest, CursorMovesPacketByPacket) {
  post();
  const SendWqe& request = send(3, 2);
  EXPECT_EQ(window_.cursor(), queue_.head());
  EXPECT_EQ(window_.packet_of(request), 2u);
  EXPECT_EQ(window_.cursor_psn(), kFirst + 2);
  EXPECT_EQ(window_.sent_ahead(), 2u);
  send_on(1);
  EXPECT_EQ(window_.cursor(), queue_.head() + 1);
  EXPECT_EQ(window_.sent_ahead(), 3u);
}

TEST_F(SendWindowTest, Clause9_7_3_ReadTakesThePsnsOfItsResponsesWithOnePacket) {
  post(WrOpcode::rdma_read);
  post();
  const SendWqe& read = send(5, 1);
  EXPECT_EQ(window_.cursor(), queue_.head() + 1);
  EXPECT_EQ(window_.sent_ahead(), 5u);
  window_.acknowledge(2);
  window_.go_back(queue_);
  EXPECT_EQ(window_.packet_of(read), 2u) << "what has been answered is not asked for again";
  EXPECT_EQ(window_.psns_of_packet(read), 3u);
  EXPECT_EQ(window_.acknowledged_of(read), 2u);
  send_on(1);
  EXPECT_EQ(window_.cursor(), queue_.head() + 1);
}

TEST_F(SendWindowTest, GoesBackToTheOldestUnacknowledgedPsn) {
  post();
  post();
  const SendWqe& first = send(3, 3);
  send(2, 2);
  window_.acknowledge(1);
  window_.go_back(queue_);
  EXPECT_EQ(window_.cursor(), queue_.head());
  EXPECT_EQ(window_.packet_of(first), 1u);
  EXPECT_EQ(window_.cursor_psn(), kFirst + 1);
  EXPECT_TRUE(window_.is_going_over());
  EXPECT_EQ(window_.sent_ahead(), 4u) << "what was sent stays sent";
  EXPECT_EQ(window_.next_psn(), kFirst + 5) << "and has the PSNs that it had";
  send_on(4);
  EXPECT_FALSE(window_.is_going_over());
  EXPECT_TRUE(window_.is_at_new());
}

TEST_F(SendWindowTest, AcknowledgementOvertakesACursorThatHasGoneBack) {
  post();
  post();
  const SendWqe& first = send(4, 4);
  send(1, 1);
  window_.go_back(queue_);
  send_on(1);
  window_.acknowledge(3);
  EXPECT_EQ(window_.packet_of(first), 3u);
  EXPECT_EQ(window_.cursor_ahead(), 0u);
  window_.acknowledge(1);
  retire();
  EXPECT_EQ(window_.cursor(), queue_.head()) << "the request at the cursor has left";
  EXPECT_EQ(window_.cursor_psn(), kFirst + 4);
  EXPECT_TRUE(window_.is_going_over());
}

TEST_F(SendWindowTest, AcknowledgementLeavesACursorThatIsAheadOfIt) {
  post();
  const SendWqe& request = send(4, 3);
  window_.acknowledge(2);
  EXPECT_EQ(window_.packet_of(request), 3u);
  EXPECT_EQ(window_.cursor_ahead(), 1u);
  EXPECT_EQ(window_.sent_ahead(), 1u);
}

TEST_F(SendWindowTest, RetiredRequestsLeaveTheRestAsItIs) {
  post();
  post();
  send(1, 1);
  send(1, 1);
  window_.acknowledge(1);
  retire();
  EXPECT_EQ(window_.cursor(), queue_.head() + 1);
  EXPECT_FALSE(window_.is_drained(queue_));
  window_.acknowledge(1);
  retire();
  EXPECT_TRUE(window_.is_drained(queue_));
  EXPECT_TRUE(window_.is_at_end(queue_));
}

TEST_F(SendWindowTest, LocalRequestsTakeNoPsn) {
  post();
  SendWqe& local = post(WrOpcode::local_inv);
  SendWqe& last = post();
  send(2, 2);
  window_.number_local(queue_, local);
  EXPECT_EQ(window_.cursor(), queue_.head() + 1);
  window_.skip_local(queue_);
  EXPECT_EQ(window_.cursor(), queue_.head() + 2);
  EXPECT_TRUE(window_.is_at_new());
  window_.number(queue_, last, 1);
  EXPECT_EQ(last.first_psn, kFirst + 2);
}

TEST_F(SendWindowTest, Clause9_7_2_HalfOfAllPsnsMayBeOutstandingAndNoMore) {
  post(WrOpcode::rdma_read);
  EXPECT_TRUE(window_.has_room(kHalf));
  EXPECT_FALSE(window_.has_room(kHalf + 1));
  const SendWqe& read = send(kHalf, 1);
  EXPECT_TRUE(window_.is_at_new());
  EXPECT_EQ(window_.sent_ahead(), kHalf);
  EXPECT_EQ(window_.next_psn(), kFirst + kHalf);
  EXPECT_FALSE(window_.has_room(1));
  window_.acknowledge(kHalf - 1);
  EXPECT_EQ(window_.acknowledged_of(read), kHalf - 1);
  EXPECT_TRUE(window_.has_room(kHalf - 1));
  EXPECT_FALSE(window_.has_room(kHalf));
  window_.go_back(queue_);
  EXPECT_EQ(window_.packet_of(read), kHalf - 1);
  EXPECT_EQ(window_.psns_of_packet(read), 1u);
}

TEST_F(SendWindowTest, PsnsBeforeTheOldestOneAreFartherThanAnythingSent) {
  post(WrOpcode::rdma_read);
  send(kHalf, 1);
  EXPECT_EQ(window_.ahead(kFirst), 0u);
  EXPECT_EQ(window_.ahead(kFirst + (kHalf - 1)), kHalf - 1);
  EXPECT_GE(window_.ahead(kFirst - 1), window_.sent_ahead());
  EXPECT_GE(window_.ahead(kFirst + kHalf), window_.sent_ahead());
}

TEST_F(SendWindowTest, Clause9_7_1_PsnsWrap) {
  window_.reset(queue_, Psn{0xfffffe});
  post();
  post();
  const SendWqe& first = send(3, 3);
  SendWqe& second = at_cursor();
  window_.number(queue_, second, 2);
  EXPECT_EQ(second.first_psn, Psn{1});
  EXPECT_EQ(window_.next_psn(), Psn{3});
  EXPECT_EQ(window_.ahead(Psn{0}), 2u);
  window_.acknowledge(1);
  window_.go_back(queue_);
  EXPECT_EQ(window_.packet_of(first), 1u);
  send_on(1);
  EXPECT_EQ(window_.packet_of(first), 2u);
  EXPECT_EQ(window_.cursor_psn(), Psn{0});
  send_on(1);
  EXPECT_EQ(window_.packet_of(second), 0u);
}

TEST_F(SendWindowTest, LimitStopsTheCursor) {
  post();
  post();
  window_.set_limit(queue_.head() + 1);
  EXPECT_FALSE(window_.is_at_end(queue_));
  send(1, 1);
  EXPECT_TRUE(window_.is_at_end(queue_));
  window_.set_limit(queue_.head() + 2);
  EXPECT_FALSE(window_.is_at_end(queue_));
}

TEST_F(SendWindowTest, StopForgetsWhatIsOutstandingButNoPsn) {
  post();
  post();
  send(3, 2);
  window_.stop(queue_);
  EXPECT_EQ(window_.sent_ahead(), 0u);
  EXPECT_EQ(window_.next_psn(), kFirst + 3);
  EXPECT_TRUE(window_.is_at_end(queue_)) << "what is queued is not sent";
  SendWqe& later = post();
  EXPECT_EQ(&at_cursor(), &later);
}

TEST_F(SendWindowTest, RestartNumbersAllThatIsNotSettledAnew) {
  post().flags |= SendWqe::kSettled;
  SendWqe& second = post();
  post().flags |= SendWqe::kSettled;
  window_.restart(queue_, Psn{77});
  EXPECT_EQ(window_.cursor(), queue_.head() + 1) << "the settled one at the head is passed";
  EXPECT_TRUE(window_.is_at_new());
  EXPECT_EQ(window_.sent_ahead(), 0u);
  window_.number(queue_, second, 2);
  EXPECT_EQ(second.first_psn, Psn{77});
}

/// Against a model that counts PSNs with 64 bits and keeps the requests' places in a list.
TEST(SendWindowModel, RandomWalk) {
  struct Request {
    std::uint64_t first;
    std::uint32_t count;
  };
  std::mt19937_64 random(seed());
  SendQueue queue(8, 1, 0);
  SendWindow window;
  const std::uint64_t base = 0xff0000;
  window.reset(queue, Psn::make(base));
  std::deque<Request> requests;  // numbered
  std::uint64_t unacked = base, cursor = base, highest = base, next = base;
  for (int step = 0; step < 200'000; ++step) {
    switch (random() % 5) {
      case 0:
        if (!queue.full()) {
          queue.next() = SendWqe{};
          if (random() % 3 == 0) queue.next().flags = SendWqe::flags_of(WrOpcode::rdma_read);
          queue.push();
        }
        break;
      case 1:
      case 2: {
        if (window.is_at_end(queue)) break;
        SendWqe& wqe = queue.at(window.cursor());
        if (cursor == next) {
          const auto count = static_cast<std::uint32_t>(1 + random() % 40'000);
          window.number(queue, wqe, count);
          requests.push_back({next, count});
          next += count;
        }
        const auto request = std::ranges::find_if(
            requests, [&](const Request& r) { return cursor < r.first + r.count; });
        ASSERT_EQ(window.packet_of(wqe), cursor - request->first);
        const std::uint64_t psns =
            wqe.has_response() ? request->first + request->count - cursor : 1;
        ASSERT_EQ(window.psns_of_packet(wqe), psns);
        window.advance(wqe, window.psns_of_packet(wqe));
        cursor += psns;
        highest = std::max(highest, cursor);
        break;
      }
      case 3: {
        if (highest == unacked) break;
        const std::uint64_t most = requests.front().first + requests.front().count - unacked;
        const std::uint64_t count = 1 + random() % std::min(most, highest - unacked);
        window.acknowledge(static_cast<std::uint32_t>(count));
        unacked += count;
        cursor = std::max(cursor, unacked);
        if (count == most) {
          requests.pop_front();
          queue.pop();
          window.on_retired(queue);
        }
        break;
      }
      case 4:
        if (random() % 8 == 0) {
          window.go_back(queue);
          cursor = unacked;
        }
        break;
    }
    ASSERT_TRUE(window.is_consistent(queue)) << step;
    ASSERT_EQ(window.unacked_psn(), Psn::make(static_cast<std::uint32_t>(unacked)));
    ASSERT_EQ(window.next_psn(), Psn::make(static_cast<std::uint32_t>(next)));
    ASSERT_EQ(window.cursor_psn(), Psn::make(static_cast<std::uint32_t>(cursor)));
    ASSERT_EQ(window.cursor_ahead(), cursor - unacked);
    ASSERT_EQ(window.sent_ahead(), highest - unacked);
    ASSERT_EQ(window.is_going_over(), cursor < highest);
    ASSERT_EQ(window.is_drained(queue), requests.empty());
  }
}

TEST_F(SendWindowTest, RequestsDoNotLeaveTheQueueUnseen) {
  post();
  send(1, 1);
  window_.go_back(queue_);
  EXPECT_TRUE(window_.is_consistent(queue_));
  queue_.pop();
  EXPECT_FALSE(window_.is_consistent(queue_));
  window_.on_retired(queue_);
  EXPECT_FALSE(window_.is_consistent(queue_)) << "it was not acknowledged";
  window_.acknowledge(1);
  EXPECT_TRUE(window_.is_consistent(queue_));
}

#ifndef NDEBUG
using SendWindowDeathTest = SendWindowTest;

TEST_F(SendWindowDeathTest, WhatWasNotSentCannotBeAcknowledged) {
  post();
  send(3, 2);
  EXPECT_DEATH(window_.acknowledge(3), "sent_ahead_");
}

TEST_F(SendWindowDeathTest, RequestsAreNumberedOnce) {
  SendWqe& request = post();
  window_.number(queue_, request, 2);
  EXPECT_DEATH(window_.number(queue_, request, 2), "is_at_new");
}

TEST_F(SendWindowDeathTest, NothingIsSentBehindTheLastRequestWithPsns) {
  post();
  const SendWqe& request = send(2, 2);
  EXPECT_DEATH(window_.advance(request, 1), "numbered_");
}

TEST_F(SendWindowDeathTest, RequestsWithoutPsnsAreNotRetired) {
  post();
  post();
  window_.number(queue_, at_cursor(), 1);
  queue_.pop();
  queue_.pop();
  EXPECT_DEATH(window_.on_retired(queue_), "numbered_");
}
#endif

}  // namespace
}  // namespace rockhopper::test::send_window_test
