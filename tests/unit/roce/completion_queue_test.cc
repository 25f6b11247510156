// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Completion queues: capacity, overrun, events.
#include <algorithm>
#include <array>
#include <thread>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::completion_queue_test {
namespace {

using roce::AsyncEventType;
using roce::CompletionQueue;
using roce::Notify;
using roce::QpState;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
/// The queue pairs of an overrun queue fail at the next tick of the timers.
constexpr std::uint64_t kTickNs = 1024;

class CountingHandler final : public roce::CompletionHandler {
 public:
  void on_completion_event(CompletionQueue& /*cq*/) override { ++count; }
  int count = 0;
};

void receive_send(Rig& rig, std::uint32_t psn, bool solicited) {
  Packet send = packet(Opcode::rc_send_only, psn, pattern(8));
  send.headers.bth.solicited = solicited;
  rig.inject(send);
}

TEST(CompletionQueues, WhatIsDiscardedIsOfOneQueuePair) {
  const auto cq = CompletionQueue::create(8);
  ASSERT_TRUE(cq.has_value());
  std::array<roce::Completion, 8> taken;
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE((*cq)->push({.wr_id = i}, false));
  }
  ASSERT_EQ((*cq)->poll(taken), 5u);
  for (std::uint64_t i = 0; i < 8; ++i) {  // around the ring's end
    ASSERT_TRUE((*cq)->push({.wr_id = i, .qp_num = wire::Qpn{i % 3 == 0 ? 7u : 8u}}, false));
  }
  (*cq)->discard(wire::Qpn{7});
  ASSERT_EQ((*cq)->poll(taken), 5u);
  std::array<std::uint64_t, 5> ids;
  std::ranges::transform(taken.begin(), taken.begin() + 5, ids.begin(), &roce::Completion::wr_id);
  EXPECT_THAT(ids, ElementsAre(1, 2, 4, 5, 7));
  EXPECT_EQ((*cq)->size(), 0u);
}

TEST(CompletionQueues, AnotherThreadMayPoll) {
  constexpr std::uint64_t kCount = 100'000;
  const auto cq = CompletionQueue::create(64);
  ASSERT_TRUE(cq.has_value());
  std::thread engine([&cq] {
    for (std::uint64_t i = 0; i < kCount;) {
      if ((*cq)->size() == (*cq)->capacity()) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_TRUE((*cq)->push({.wr_id = i, .byte_len = static_cast<std::uint32_t>(~i)}, false));
      ++i;
    }
  });
  std::array<roce::Completion, 16> taken;
  for (std::uint64_t next = 0; next < kCount;) {
    const std::size_t count = (*cq)->poll(taken);
    for (std::size_t i = 0; i < count; ++i, ++next) {
      ASSERT_EQ(taken[i].wr_id, next);
      ASSERT_EQ(taken[i].byte_len, static_cast<std::uint32_t>(~next));
    }
    if (count == 0) std::this_thread::yield();
  }
  engine.join();
  EXPECT_EQ((*cq)->size(), 0u);
}

TEST(CompletionQueues, CapacityIsRoundedUp) {
  EXPECT_FALSE(CompletionQueue::create(0).has_value());
  EXPECT_FALSE(CompletionQueue::create((1u << 22) + 1).has_value());
  const auto cq = CompletionQueue::create(5);
  ASSERT_TRUE(cq.has_value());
  EXPECT_GE((*cq)->capacity(), 5u);
}

TEST(CompletionQueues, PollTakesTheOldestFirstInAnyPortion) {
  Rig rig;
  for (std::uint64_t i = 0; i < 5; ++i) {
    rig.post_send(i, WrOpcode::rdma_write, 8);
  }
  (void)rig.sent();
  rig.inject(ack(0x001004));
  std::array<roce::Completion, 2> two;
  std::vector<std::uint64_t> order;
  while (const std::size_t count = rig.send_cq().poll(two)) {
    for (std::size_t i = 0; i < count; ++i) {
      order.push_back(two[i].wr_id);
    }
  }
  EXPECT_THAT(order, ElementsAre(0u, 1u, 2u, 3u, 4u));
}

TEST(CompletionQueues, ResizingKeepsWhatIsThereInOrder) {
  Rig rig({.cq_capacity = 4});
  std::uint32_t psn = kPsn;
  std::uint64_t polled = 0;
  const auto receive = [&](int count) {
    for (int i = 0; i < count; ++i, ++psn) {
      rig.post_recv(psn - kPsn, 8);
      receive_send(rig, psn, false);
    }
  };
  const auto poll = [&](int count) {
    for (int i = 0; i < count; ++i, ++polled) {
      std::array<roce::Completion, 1> one;
      ASSERT_EQ(rig.recv_cq().poll(one), 1u);
      EXPECT_EQ(one[0].wr_id, polled);
    }
  };
  receive(3);
  poll(2);
  receive(3);  // the ring has wrapped and is full
  ASSERT_TRUE(rig.recv_cq().resize(16));
  EXPECT_EQ(rig.recv_cq().capacity(), 16u);
  receive(12);
  poll(9);
  ASSERT_FALSE(rig.recv_cq().resize(6)) << "7 are there";
  EXPECT_EQ(rig.recv_cq().capacity(), 16u);
  ASSERT_TRUE(rig.recv_cq().resize(7));
  poll(7);
  EXPECT_FALSE(rig.recv_cq().overrun());
  EXPECT_FALSE(rig.recv_cq().resize(0));
  EXPECT_FALSE(rig.recv_cq().resize(roce::CompletionQueue::kMaxCapacity + 1));
}

TEST(CompletionQueues, Clause11_4_2_NextCompletionRaisesOneEvent) {
  Rig rig;
  CountingHandler handler;
  rig.recv_cq().request_notify(Notify::next, &handler);
  for (std::uint32_t i = 0; i < 3; ++i) {
    rig.post_recv(i, 8);
    receive_send(rig, kPsn + i, false);
  }
  EXPECT_EQ(handler.count, 1);
  rig.recv_cq().request_notify(Notify::next, &handler);
  EXPECT_EQ(handler.count, 1) << "what is there already raises no event";
  rig.post_recv(9, 8);
  receive_send(rig, kPsn + 3, false);
  EXPECT_EQ(handler.count, 2);
}

TEST(CompletionQueues, Clause11_4_2_SolicitedOnlyWaitsForTheBit) {
  Rig rig;
  CountingHandler handler;
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.post_recv(i, 8);
  }
  rig.recv_cq().request_notify(Notify::solicited_only, &handler);
  receive_send(rig, kPsn, false);
  EXPECT_EQ(handler.count, 0);
  receive_send(rig, kPsn + 1, true);
  EXPECT_EQ(handler.count, 1);
  receive_send(rig, kPsn + 2, true);
  EXPECT_EQ(handler.count, 1);
}

TEST(CompletionQueues, Clause11_4_2_ErrorsCountAsSolicited) {
  Rig rig;
  CountingHandler handler;
  rig.post_recv(1, 8);
  rig.recv_cq().request_notify(Notify::solicited_only, &handler);
  roce::QpAttributes error;
  error.qp_state = QpState::err;
  ASSERT_TRUE(rig.qp().modify(error, roce::kQpState).has_value());
  EXPECT_EQ(handler.count, 1);
}

TEST(CompletionQueues, SendCompletionsAreNotSolicited) {
  Rig rig;
  CountingHandler handler;
  rig.send_cq().request_notify(Notify::solicited_only, &handler);
  rig.post_send(1, WrOpcode::send, 8, 0, roce::kSendSolicited);
  (void)rig.sent();
  rig.inject(ack(0x001000));
  EXPECT_EQ(rig.send_completions().size(), 1u);
  EXPECT_EQ(handler.count, 0);
}

TEST(CompletionQueues, HandlerCanBeTakenAway) {
  Rig rig;
  CountingHandler handler;
  rig.recv_cq().request_notify(Notify::next, &handler);
  rig.recv_cq().request_notify(Notify::next, nullptr);
  rig.post_recv(1, 8);
  receive_send(rig, kPsn, true);
  EXPECT_EQ(handler.count, 0);
}

/// Posts the next request from inside the event, as an event-driven application does.
class PostingHandler final : public roce::CompletionHandler {
 public:
  explicit PostingHandler(Rig& rig) : rig_(rig) {}
  void on_completion_event(CompletionQueue& cq) override {
    taken += rig_.completions(cq).size();
    if (posted < 5) rig_.post_send(++posted, WrOpcode::rdma_write, 8);
    cq.request_notify(Notify::next, this);
  }
  std::uint64_t posted = 0;
  std::size_t taken = 0;

 private:
  Rig& rig_;
};

TEST(CompletionQueues, HandlerMayPollPostAndRearm) {
  Rig rig;
  PostingHandler handler(rig);
  rig.send_cq().request_notify(Notify::next, &handler);
  rig.post_send(++handler.posted, WrOpcode::rdma_write, 8);
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(rig.sent().size(), 1u);
    rig.inject(ack(0x001000 + i));
  }
  EXPECT_EQ(handler.posted, 5u);
  EXPECT_EQ(handler.taken + rig.send_completions().size(), 5u);
}

TEST(CompletionQueues, Clause10_10_OverrunFailsTheQueuePairs) {
  Rig rig({.cq_capacity = 2});
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.post_send(i, WrOpcode::rdma_write, 8);
  }
  (void)rig.sent();
  rig.inject(ack(0x001003));
  EXPECT_TRUE(rig.send_cq().overrun());
  rig.advance(kTickNs);
  (void)rig.sent();
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_GE(rig.counters().cq_overrun.value(), 1u);
  const auto events = rig.async_events();
  const auto is_cq_error = [](const roce::AsyncEvent& event) {
    return event.type == AsyncEventType::cq_err;
  };
  EXPECT_EQ(std::count_if(events.begin(), events.end(), is_cq_error), 1);
  // What was there before can still be polled, in order; the rest is lost.
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(0u, WcStatus::success), Completed(1u, WcStatus::success)));
  EXPECT_EQ(rig.send_cq().size(), 0u);
}

TEST(CompletionQueues, OverrunWhileFlushing) {
  Rig rig({.cq_capacity = 1});
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.post_recv(i, 8);
    rig.post_send(i, WrOpcode::rdma_write, 8);
  }
  roce::QpAttributes error;
  error.qp_state = QpState::err;
  ASSERT_TRUE(rig.qp().modify(error, roce::kQpState).has_value());
  (void)rig.sent();
  EXPECT_TRUE(rig.send_cq().overrun());
  EXPECT_TRUE(rig.recv_cq().overrun());
  EXPECT_EQ(rig.qp().recv_queue_depth(), 0u);
}

TEST(CompletionQueues, OverrunOfAReceiveQueueStopsExecution) {
  Rig rig({.cq_capacity = 1});
  for (std::uint64_t i = 0; i < 3; ++i) {
    rig.post_recv(i, 8, i * 8);
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    receive_send(rig, kPsn + i, false);
    rig.advance(kTickNs);
    (void)rig.sent();
  }
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_EQ(rig.recv_cq().size(), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, 16)) << "the third message came after the error";
}

}  // namespace
}  // namespace rockhopper::test::completion_queue_test
