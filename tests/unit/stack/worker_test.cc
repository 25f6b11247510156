// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/worker.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>

#include <gtest/gtest.h>
#include <rte_lcore.h>

#include "stack/clock.h"
#include "stack/mbuf_pool.h"

namespace rockhopper::stack {
namespace {

/// Takes as many packets as it is told, and keeps them.
class Sink final : public Link {
 public:
  ~Sink() override {
    for (rte_mbuf* packet : taken) {
      rte_pktmbuf_free(packet);
    }
  }
  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t) override {
    std::uint16_t given = 0;
    for (; given < count && !arriving.empty(); ++given) {
      packets[given] = arriving.front();
      arriving.pop_front();
    }
    return given;
  }
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t) override {
    std::uint16_t sent = 0;
    for (; sent < count && room > 0; ++sent, --room) {
      taken.push_back(packets[sent]);
    }
    return sent;
  }
  [[nodiscard]] rte_ether_addr mac() const override { return {{2, 0, 0, 0, 0, 1}}; }
  [[nodiscard]] std::uint16_t mtu() const override { return 1500; }

  std::deque<rte_mbuf*> arriving;
  std::deque<rte_mbuf*> taken;
  unsigned room = 1000;
};

/// Sends what it is given.
class Source final : public Protocol {
 public:
  void receive(rte_mbuf** packets, std::uint16_t count, std::uint64_t) override {
    rte_pktmbuf_free_bulk(packets, count);
    received += count;
  }
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t) override {
    last_room = count;
    received_before_sending = received;
    ++sendings;
    std::uint16_t given = 0;
    for (; given < count && !to_send.empty(); ++given) {
      packets[given] = to_send.front();
      to_send.pop_front();
    }
    return given;
  }
  [[nodiscard]] std::uint64_t next_deadline_ns() const override { return deadline_ns; }

  std::deque<rte_mbuf*> to_send;
  std::uint64_t deadline_ns = kNever;
  unsigned received = 0;
  unsigned received_before_sending = 0;  ///< the last time that it was asked
  unsigned sendings = 0;
  std::uint16_t last_room = 0;
};

/// Ends the worker after some turns.
class Counter final : public Application {
 public:
  std::uint64_t turn(std::uint64_t now_ns) override {
    lcore = rte_lcore_id();
    first_ns = first_ns == 0 ? now_ns : first_ns;
    if (++turns == last) worker->stop();
    return wanted_ns == kNever ? kNever : now_ns + wanted_ns;
  }
  Worker* worker = nullptr;
  unsigned last = 100;
  std::uint64_t wanted_ns = kNever;
  std::atomic<unsigned> turns{0};
  std::atomic<unsigned> lcore{LCORE_ID_ANY};
  std::uint64_t first_ns = 0;
};

class WorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = MbufPool::create({.size = 127, .cache = 0});
    ASSERT_TRUE(pool.has_value());
    pool_ = std::move(*pool);
  }
  void give(unsigned packets) {
    for (unsigned i = 0; i < packets; ++i) {
      rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
      packet->hash.usr = next_++;
      source_.to_send.push_back(packet);
    }
  }
  void arrive(unsigned packets) {
    for (unsigned i = 0; i < packets; ++i) {
      sink_.arriving.push_back(rte_pktmbuf_alloc(pool_.get()));
    }
  }
  static unsigned worker_lcore() { return rte_get_next_lcore(static_cast<unsigned>(-1), 1, 0); }

  MbufPool pool_;
  Sink sink_;
  Source source_;
  unsigned next_ = 0;
};

TEST_F(WorkerTest, WhatTheLinkRefusesIsOfferedAgainFirst) {
  VirtualClock clock(1000);
  Worker worker(sink_, source_, clock);
  sink_.room = 5;
  give(Worker::kBurst + 8);
  EXPECT_TRUE(worker.poll_once());
  EXPECT_TRUE(worker.backlogged());
  EXPECT_EQ(worker.next_deadline_ns(), 1000u) << "now";
  EXPECT_FALSE(worker.poll_once()) << "no room";
  EXPECT_EQ(source_.last_room, 5) << "no more than there is room for";
  sink_.room = 1000;
  while (worker.poll_once()) {
  }
  EXPECT_FALSE(worker.backlogged());
  ASSERT_EQ(sink_.taken.size(), Worker::kBurst + 8u);
  for (unsigned i = 0; i < sink_.taken.size(); ++i) {
    EXPECT_EQ(sink_.taken[i]->hash.usr, i);
  }
  EXPECT_EQ(worker.counters().tx_backpressure.value(), 1u) << "offered twice, and one burst";
}

TEST_F(WorkerTest, AnswersInTheNextTurn) {
  VirtualClock clock(1000);
  Worker worker(sink_, source_, clock);
  (void)worker.poll_once();
  arrive(3);
  EXPECT_TRUE(worker.poll_once());
  EXPECT_EQ(source_.received, 3u);
  EXPECT_EQ(source_.received_before_sending, 0u);
}

/// A timer that runs before would take the pause for silence of a peer that has answered long ago.
TEST_F(WorkerTest, AfterAPauseLooksFirstAtAllThatHasArrived) {
  VirtualClock clock(1000);
  Worker worker(sink_, source_, clock);
  (void)worker.poll_once();
  const unsigned sendings = source_.sendings;
  arrive(2 * Worker::kBurst + 3);
  clock.advance(500'000'000);
  EXPECT_TRUE(worker.poll_once());
  EXPECT_TRUE(worker.poll_once());
  EXPECT_EQ(source_.sendings, sendings) << "more may have arrived";
  EXPECT_TRUE(worker.poll_once());
  EXPECT_EQ(source_.sendings, sendings + 1);
  EXPECT_EQ(source_.received_before_sending, 2u * Worker::kBurst + 3);
}

TEST_F(WorkerTest, SendingAtOnceLooksAtWhatHasArrivedAfterAPauseAlone) {
  VirtualClock clock(1000);
  Worker worker(sink_, source_, clock);
  (void)worker.poll_once();
  const unsigned sendings = source_.sendings;
  arrive(3);
  EXPECT_FALSE(worker.send_now());
  EXPECT_EQ(source_.sendings, sendings + 1);
  EXPECT_EQ(source_.received, 0u);
  clock.advance(500'000'000);
  EXPECT_TRUE(worker.send_now());
  EXPECT_EQ(source_.sendings, sendings + 2);
  EXPECT_EQ(source_.received_before_sending, 3u);
}

TEST_F(WorkerTest, SendsInTheEndWhenBurstsAreAlwaysFull) {
  VirtualClock clock(1'000'000'000);
  Worker worker(sink_, source_, clock);
  for (int i = 0; i < 1000 && source_.sendings == 0; ++i) {
    arrive(Worker::kBurst);
    EXPECT_TRUE(worker.poll_once());
  }
  EXPECT_EQ(source_.sendings, 1u);
}

TEST_F(WorkerTest, FreesWhatIsLeftOver) {
  VirtualClock clock;
  {
    Worker worker(sink_, source_, clock);
    sink_.room = 0;
    give(3);
    EXPECT_FALSE(worker.poll_once());
    EXPECT_EQ(pool_.in_use(), 3u);
  }
  EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(WorkerTest, RunsAnApplicationOnAnLcore) {
  const TscClock clock;
  Worker worker(sink_, source_, clock);
  Counter application;
  application.worker = &worker;
  give(10);
  ASSERT_LT(worker_lcore(), unsigned{RTE_MAX_LCORE}) << "the test needs two lcores";
  EXPECT_FALSE(worker.launched());
  const std::uint64_t before_ns = clock.now_ns();
  ASSERT_TRUE(worker.launch(worker_lcore(), &application).has_value());
  EXPECT_TRUE(worker.launched());
  const auto again = worker.launch(worker_lcore());
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::invalid_state);
  worker.join();
  EXPECT_FALSE(worker.launched());
  EXPECT_EQ(application.turns, application.last);
  EXPECT_EQ(application.lcore, worker_lcore());
  EXPECT_GE(application.first_ns, before_ns);
  EXPECT_EQ(sink_.taken.size(), 10u);
  EXPECT_EQ(worker.counters().rests.value(), 0u) << "the default policy polls on";
}

TEST_F(WorkerTest, RestsAsItsPolicySays) {
  const TscClock clock;
  Worker worker(sink_, source_, clock, {.idle = IdlePolicy::sleep});
  Counter application;
  application.worker = &worker;
  worker.run(&application);
  EXPECT_EQ(application.turns, application.last);
  EXPECT_GT(worker.counters().rests.value(), 0u);
  EXPECT_LT(worker.counters().rests.value(), application.last) << "not before some idle turns";
}

TEST_F(WorkerTest, LcoresThatCannotServeAreRefused) {
  const TscClock clock;
  Worker worker(sink_, source_, clock);
  EXPECT_EQ(worker.launch(rte_get_main_lcore()).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(worker.launch(RTE_MAX_LCORE).error().code, ErrorCode::invalid_argument);
  Worker other(sink_, source_, clock);
  ASSERT_TRUE(other.launch(worker_lcore()).has_value());
  EXPECT_EQ(worker.launch(worker_lcore()).error().code, ErrorCode::busy);
  other.stop();
  other.join();
}

}  // namespace
}  // namespace rockhopper::stack
