// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Subscribers at the end of a long path, and of a bad one, in virtual time: how many round trips a
// gap takes (PB-22, PB-23), and that nobody is taken for dead who is not (PB-19).
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/publisher/judge.h"
#include "tests/publisher/world.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/seed.h"

namespace rockhopper::sim::path_test {
namespace {

using publisher::Start;
using test::content;
using test::Judge;

constexpr std::uint64_t kRing = std::uint64_t{1} << 18;
constexpr std::uint32_t kLongest = 2000;
constexpr std::uint64_t kEpoch = 5;

/// A judge that sees when messages come.
class TimedListener final : public publisher::Listener {
 public:
  TimedListener(std::uint64_t seed, const World& world) : judge(seed, kLongest), world_(world) {}
  void on_message(const publisher::Message& message) override {
    judge.on_message(message);
    const std::uint64_t took_ns = world_.network.now_ns() - asked_ns;
    fastest_ns = std::min(fastest_ns, took_ns);
    slowest_ns = std::max(slowest_ns, took_ns);
  }
  void on_lost(std::uint64_t first, std::uint64_t last) override { judge.on_lost(first, last); }

  Judge judge;
  std::uint64_t asked_ns = 0;  ///< when the READs of this round were posted
  std::uint64_t fastest_ns = UINT64_MAX;
  std::uint64_t slowest_ns = 0;

 private:
  const World& world_;
};

struct Path : ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Transports, Path, ::testing::Values(false, true),
                         [](const auto& tested) { return tested.param ? "Dc" : "Rc"; });

// PB-22, PB-23: whatever a subscriber knows to be missing comes within one round trip of its READs,
// at most two and the one that validates them, while the publisher goes on; and a pause of any
// length is made up for in two, of which the first one says what there is.
TEST_P(Path, GapTakesOneRoundTrip) {
  constexpr std::uint64_t kDelayNs = 10'000'000;
  constexpr std::uint64_t kRoundTripNs = 2 * kDelayNs;
  WorldConfig config{.network = {.seed = 1, .pools = &pools(), .delay_ns = kDelayNs}};
  config.dynamic_connections = GetParam();
  config.timeout = 16;  // 268 ms
  const std::uint64_t seed = test::seed();
  World world(config);
  world.policy.allow_all = true;
  TestStore& store = world.add_store("a", kRing, kEpoch, kLongest);
  Client& client = world.add_client("one");
  world.connect(client);
  TimedListener listener(seed, world);
  const auto id = must(client.subscriber->subscribe(
      "a", {.reader = {.start = {.at = Start::At::sequence}, .poll_max_ns = 0}}, listener));
  ASSERT_TRUE(world.run_until([&] { return client.subscriber->reader(id) != nullptr; }));
  const publisher::ReaderCounters& counters = client.subscriber->reader(id)->counters();
  std::uint64_t reads = 0;
  std::uint64_t most_reads = 0;
  std::uint64_t next_publish_ns = 0;
  const auto run_until = [&](std::uint64_t end_ns, std::uint64_t interval_ns) {
    while (world.network.now_ns() < end_ns) {
      if (world.network.now_ns() >= next_publish_ns) {
        next_publish_ns = world.network.now_ns() + interval_ns;
        const std::uint64_t sequence = store.store->next_sequence();
        ASSERT_EQ(store.store->publish(content(seed + kEpoch, sequence, kLongest), 0, 0),
                  publisher::Published::yes);
      }
      const bool moved = world.turn();
      if (const std::uint64_t posted = counters.reads.value(); posted != reads) {
        most_reads = std::max(most_reads, posted - reads);
        reads = posted;
        listener.asked_ns = world.network.now_ns();
      }
      if (!moved) world.pass_time(std::min(end_ns, next_publish_ns));
    }
  };
  Rng rng(seed);
  for (int gap = 0; gap < 30; ++gap) {
    const std::uint64_t interval_ns = rng.between(40'000, 200'000);
    client.subscriber->pause(id, true);
    run_until(world.network.now_ns() + rng.between(0, 10 * kRoundTripNs), interval_ns);
    const std::uint64_t missing = store.store->next_sequence();
    // The round that was on its way when the pause began ends first.
    run_until(world.network.now_ns() + kRoundTripNs * 11 / 10, interval_ns);
    client.subscriber->pause(id, false);
    run_until(world.network.now_ns() + kRoundTripNs * 24 / 10, interval_ns);
    EXPECT_GE(listener.judge.next.value_or(0), missing);
  }
  EXPECT_GE(listener.fastest_ns, kRoundTripNs);
  EXPECT_LE(listener.slowest_ns, kRoundTripNs * 12 / 10);
  EXPECT_EQ(most_reads, 3u) << "no gap went around the end of the ring";
  EXPECT_GT(counters.lapped.value(), 0u);
  EXPECT_TRUE(listener.judge.good());
  EXPECT_EQ(listener.judge.first, 0u);
}

// PB-19: an hour on a path that loses one packet in a hundred: nobody is dead.
TEST_P(Path, NobodyIsTakenForDead) {
  constexpr std::uint64_t kHourNs = 3'600'000'000'000;
  WorldConfig config{.network = {.seed = test::seed(), .pools = &pools()}};
  config.network.faults.rates.loss = 0.01;
  config.dynamic_connections = GetParam();
  config.publisher.heartbeat_ns = 100'000'000;
  World world(config);
  world.policy.allow_all = true;
  (void)world.add_store("a", kRing, kEpoch, kLongest);
  Client& client = world.add_client("one");
  world.connect(client);
  Judge judge(1, kLongest);
  const auto id =
      must(client.subscriber->subscribe("a", {.reader = {.poll_max_ns = 20'000'000}}, judge));
  world.run_for(kHourNs);
  const auto* reader = client.subscriber->reader(id);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->state(), publisher::ReaderState::live);
  EXPECT_EQ(reader->counters().deaths.value(), 0u);
  EXPECT_GT(reader->counters().rounds.value(), kHourNs / 100'000'000);
  EXPECT_EQ(client.disconnected, 0u);
  EXPECT_GT(world.network.node(0).faults().tx_counters().lost.value(), 1000u);
}

}  // namespace
}  // namespace rockhopper::sim::path_test
