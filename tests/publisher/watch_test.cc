// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Subscribers that have the publisher tell when there is something new, in place of looking (PB-19,
// PB-25, PB-27, PB-29).
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/conflated_store.h"
#include "tests/publisher/judge.h"
#include "tests/publisher/raw_subscriber.h"
#include "tests/publisher/world.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/seed.h"

namespace rockhopper::sim::watch_test {
namespace {

using publisher::Changed;
using publisher::ControlMessage;
using publisher::Published;
using publisher::ReaderState;
using publisher::Start;
using publisher::StoreTail;
using publisher::Watch;
using test::content;
using test::Judge;

constexpr std::uint64_t kRing = 16384;
constexpr std::uint32_t kLongest = 1000;
constexpr std::uint64_t kHeartbeatNs = 10'000'000;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
/// What the ends may take besides the way.
constexpr std::uint64_t kProcessingNs = 50'000;

WorldConfig config_of(bool dynamic_connections, std::uint64_t delay_ns = 1000) {
  WorldConfig config{.network = {.seed = 1, .pools = &pools()}};
  config.network.delay_ns = delay_ns;
  config.dynamic_connections = dynamic_connections;
  config.publisher.timeout = 12;
  config.publisher.heartbeat_ns = kHeartbeatNs;
  return config;
}

/// Takes anything of a conflated store, and knows the last.
struct Latest final : publisher::Listener {
  void on_message(const publisher::Message& message) override { change = message.sequence; }
  void on_lost(std::uint64_t, std::uint64_t) override {}
  std::uint64_t change = UINT64_MAX;
};

/// A store of each kind, and who watches both.
struct Watched : World {
  explicit Watched(bool dynamic_connections, std::uint64_t delay_ns = 1000, bool watch = true)
      : World(config_of(dynamic_connections, delay_ns)),
        seed(test::seed()),
        rng(seed),
        log(add_store("log", kRing, 5, kLongest)),
        judge(seed, kLongest),
        client(add_client("one")) {
    policy.allow_all = true;
    conflated = must(publisher::ConflatedStore::create(conflated_memory.bytes(), kConflated));
    must(publisher->add_store("latest", *conflated));
    connect(client);
    options.reader = {.start = {.at = Start::At::oldest}, .watch = watch};
    log_id = must(client.subscriber->subscribe("log", options, judge));
    latest_id = must(client.subscriber->subscribe("latest", options, latest));
  }
  ~Watched() override { (void)publisher->remove_store(kConflated.id); }

  void publish(std::uint64_t count = 1) {
    for (; count > 0; --count) {
      const auto bytes = content(seed + log.store->epoch(), log.store->next_sequence(), kLongest);
      EXPECT_EQ(log.store->publish(bytes, 0, network.now_ns()), Published::yes);
    }
  }
  void change() {
    EXPECT_EQ(conflated->publish(rng.between(0, kConflated.keys - 1), {}, 0, 0), Published::yes);
  }
  [[nodiscard]] bool all_read() const {
    return judge.next.value_or(0) == log.store->next_sequence() &&
           latest.change == conflated->next_sequence() - 1;
  }
  /// Until it has read all and waits.
  [[nodiscard]] bool rests() {
    return run_until([&] { return all_read() && publisher->watch_count() == 2; });
  }
  /// READs that have reached the publisher.
  [[nodiscard]] std::uint64_t reads() {
    return network.node(0).engine().counters().rx_read_requests.value();
  }
  [[nodiscard]] const publisher::StoreReader& reader() const {
    return *client.subscriber->reader(log_id);
  }
  [[nodiscard]] StoreTail log_tail() const { return log.store->tail(); }

  static constexpr publisher::ConflatedStore::Config kConflated{
      .id = 9, .epoch = 3, .keys = 20, .message_max = 100};
  std::uint64_t seed;
  Rng rng;
  TestStore& log;
  test::GuardedMemory conflated_memory{publisher::ConflatedStore::bytes_for(kConflated)};
  std::unique_ptr<publisher::ConflatedStore> conflated;
  publisher::Subscriber::Options options;
  Judge judge;
  Latest latest;
  Client& client;
  publisher::SubscriptionId log_id{};
  publisher::SubscriptionId latest_id{};
};

struct Watching : ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Transports, Watching, ::testing::Values(false, true),
                         [](const auto& tested) { return tested.param ? "Dc" : "Rc"; });

// PB-29, PB-19: no READ while nothing comes, and no false alarm.
TEST_P(Watching, NothingIsReadWhileNothingComes) {
  Watched world(GetParam());
  world.publish(5);
  world.change();
  ASSERT_TRUE(world.rests());
  const std::uint64_t reads = world.reads();
  const std::uint64_t answers = world.publisher->counters().watch_answers.value();
  world.run_for(10 * kSecondNs);
  EXPECT_EQ(world.reads(), reads);
  EXPECT_EQ(world.reader().state(), ReaderState::live);
  EXPECT_EQ(world.reader().counters().deaths.value(), 0u);
  // One answer a heart-beat for each store, as a sign of life.
  const std::uint64_t beats = 10 * kSecondNs / kHeartbeatNs;
  const std::uint64_t signs = world.publisher->counters().watch_answers.value() - answers;
  EXPECT_GE(signs, 2 * (beats - 2));
  EXPECT_LE(signs, 2 * (beats + 2));
}

// PB-29: what is published wakes a subscriber that waits within a round trip, and is there a round
// trip later.
TEST_P(Watching, WakesUpWithinARoundTrip) {
  for (const std::uint64_t delay_ns : {1'000ull, 20'000ull, 500'000ull}) {
    Watched world(GetParam(), delay_ns);
    world.publish();
    world.change();
    for (int i = 0; i < 50; ++i) {
      world.run_for(world.rng.between(0, 2 * kHeartbeatNs));
      ASSERT_TRUE(world.rests());
      const std::uint64_t woken = world.reader().counters().wake_ups.value();
      const std::uint64_t began_ns = world.network.now_ns();
      world.publish(world.rng.between(1, 3));
      ASSERT_TRUE(
          world.run_until([&] { return world.reader().counters().wake_ups.value() > woken; },
                          2 * delay_ns + kProcessingNs));
      ASSERT_TRUE(
          world.run_until([&] { return world.all_read(); },
                          began_ns + 4 * delay_ns + 2 * kProcessingNs - world.network.now_ns()));
    }
  }
}

// PB-29: no change is missed, whatever is on its way when it happens: else it would be noticed with
// the next heart-beat only.
TEST_P(Watching, NoChangeIsMissed) {
  constexpr std::uint64_t kDelayNs = 20'000;
  Watched world(GetParam(), kDelayNs);
  world.publish();
  world.change();
  ASSERT_TRUE(world.rests());
  for (int i = 0; i < 400; ++i) {
    world.run_for(world.rng.between(0, 8 * kDelayNs));
    if (world.rng.chance(50)) {
      world.publish();
    } else {
      world.change();
    }
    ASSERT_TRUE(world.run_until([&] { return world.all_read(); }, 8 * kDelayNs + 2 * kProcessingNs))
        << "change " << i;
  }
  EXPECT_TRUE(world.judge.good());
  EXPECT_TRUE(world.judge.lost.empty());
}

// PB-19: a publisher that stands still is dead after three heart-beats, and alive when it goes on,
// for those that watch as for those that poll; and both have the same then.
TEST_P(Watching, PublisherThatStandsStillIsDead) {
  for (const bool watch : {false, true}) {
    Watched world(GetParam(), 1000, watch);
    world.publish();
    world.change();
    ASSERT_TRUE(world.run_until([&] { return world.all_read(); }));
    world.run_for(world.rng.between(kHeartbeatNs, 3 * kHeartbeatNs));
    world.publisher_stopped = true;
    const std::uint64_t began_ns = world.network.now_ns();
    const auto dead = [&] { return world.reader().state() == ReaderState::publisher_dead; };
    ASSERT_TRUE(world.run_until(dead, 4 * kHeartbeatNs));
    EXPECT_GE(world.network.now_ns() - began_ns, 2 * kHeartbeatNs);
    EXPECT_EQ(world.client.disconnected, 0u);
    world.publisher_stopped = false;
    world.publish();
    ASSERT_TRUE(world.run_until([&] { return world.all_read() && !dead(); }, 3 * kHeartbeatNs));
    EXPECT_EQ(world.reader().counters().revivals.value(), 1u);
    EXPECT_TRUE(world.judge.good() && world.judge.lost.empty());
    if (watch) {
      EXPECT_TRUE(world.rests());
    }
  }
}

// PB-19: nothing is on its way that would be missed when the publisher has vanished; that it is so
// is found out all the same.
TEST_P(Watching, VanishedPublisherIsNoticed) {
  Watched world(GetParam());
  world.publish();
  world.change();
  ASSERT_TRUE(world.rests());
  // Nothing that it has sent waits for its acknowledgement.
  world.run_for(kHeartbeatNs / 10);
  ASSERT_EQ(world.publisher->watch_count(), 2u);
  world.network.cut(true);
  ASSERT_TRUE(world.run_until([&] { return world.client.disconnected > 0; }));
}

// PB-25: whatever ends a grant ends its watch.
TEST_P(Watching, EndsWithItsGrant) {
  Watched world(GetParam());
  world.publish();
  world.change();
  ASSERT_TRUE(world.rests());
  ASSERT_TRUE(world.publisher->revoke(world.client.id, world.log.store->id()));
  EXPECT_EQ(world.publisher->watch_count(), 1u);
  ASSERT_TRUE(world.run_until([&] { return world.client.revoked == 1; }));
  const std::uint64_t had = world.judge.messages;
  world.publish();
  world.run_for(3 * kHeartbeatNs);
  EXPECT_EQ(world.judge.messages, had);
  world.client.subscriber->leave(world.latest_id);
  ASSERT_TRUE(world.run_until([&] { return world.publisher->grant_count() == 0; }));
  EXPECT_EQ(world.publisher->watch_count(), 0u);
  world.change();
  world.run_for(3 * kHeartbeatNs);
  EXPECT_EQ(world.client.disconnected, 0u);

  // The same subscriber, of the same store.
  Judge again(world.seed, kLongest);
  (void)must(world.client.subscriber->subscribe("log", world.options, again));
  ASSERT_TRUE(world.run_until([&] { return world.publisher->watch_count() == 1; }));
  EXPECT_EQ(again.next, world.log.store->next_sequence());
  must(world.publisher->remove_store(world.log.store->id()));
  EXPECT_EQ(world.publisher->watch_count(), 0u);
  world.run_for(3 * kHeartbeatNs);
}

// PB-29: who comes back watches again, and has missed nothing.
TEST_P(Watching, GoesOnAfterADisconnection) {
  Watched world(GetParam());
  world.publish();
  world.change();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(world.rests());
    world.disconnect(world.client);
    EXPECT_EQ(world.publisher->watch_count(), 0u);
    world.publish();
    if (GetParam()) {
      // What it sends is answered by nobody any more.
      ASSERT_TRUE(world.run_until([&] { return !world.client.subscriber->connected(); }));
    }
    world.connect(world.client);
  }
  ASSERT_TRUE(world.rests());
  EXPECT_TRUE(world.judge.good() && world.judge.lost.empty());
}

// PB-27, PB-29: another incarnation while it waits.
TEST(Watches, NoticesAnotherEpoch) {
  for (const bool recover : {false, true}) {
    Watched world(false);
    world.publish(3);
    must(world.publisher->remove_store(Watched::kConflated.id));
    const auto rests = [&] {
      return world.judge.next.value_or(0) == world.log.store->next_sequence() &&
             world.publisher->watch_count() == 1;
    };
    ASSERT_TRUE(world.run_until(rests));
    world.restart(recover, 6);
    world.publish(4);
    ASSERT_TRUE(world.run_until(rests));
    EXPECT_EQ(world.judge.restarts, recover ? 0u : 1u);
    EXPECT_TRUE(world.judge.good() && world.judge.lost.empty());
  }
}

// PB-29: who pauses neither reads nor watches, and goes on where it was.
TEST_P(Watching, PauseIsKept) {
  Watched world(GetParam());
  world.publish();
  world.change();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(world.rests());
    world.client.subscriber->pause(world.log_id, true);
    const bool comes = world.rng.chance(50);
    if (comes) world.publish();
    world.run_for(world.rng.between(0, 8 * kHeartbeatNs));
    EXPECT_EQ(world.all_read(), !comes);
    world.client.subscriber->pause(world.log_id, false);
  }
  ASSERT_TRUE(world.rests());
  EXPECT_EQ(world.reader().counters().deaths.value(), 0u);
  EXPECT_TRUE(world.judge.good() && world.judge.lost.empty());
}

// PB-29: it can be changed while there is a connection.
TEST_P(Watching, CanBeSwitched) {
  Watched world(GetParam());
  world.publish();
  world.change();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(world.rests());
    world.client.subscriber->set_watch(world.log_id, false);
    const std::uint64_t reads = world.reads();
    world.publish();
    world.run_for(3 * kHeartbeatNs);
    EXPECT_TRUE(world.all_read());
    EXPECT_GT(world.reads(), reads + 5) << "it polls";
    world.client.subscriber->set_watch(world.log_id, true);
  }
}

/// Takes the subscriber away, without a word to the publisher.
void vanish(World& world, Client& client) {
  if (client.qps[1] != nullptr) world.network.node(1).engine().destroy_qp(client.qps[1]);
  client.qps[1] = nullptr;
  client.subscriber.reset();
}

// PB-24, PB-29: a subscriber that has vanished while it waited is noticed by the heart-beat, and
// what it had is free.
TEST_P(Watching, VanishedSubscriberIsForgotten) {
  Watched world(GetParam());
  world.publish();
  world.change();
  Client& other = world.add_client("other");
  world.connect(other);
  Judge judge(world.seed, kLongest);
  (void)must(other.subscriber->subscribe("log", world.options, judge));
  ASSERT_TRUE(world.run_until([&] { return world.publisher->watch_count() == 3; }));
  vanish(world, other);
  ASSERT_TRUE(world.run_until([&] { return world.gone.count(other.id) == 1; }, 60 * kSecondNs));
  EXPECT_EQ(world.publisher->grant_count(), 2u);
  world.publish();
  EXPECT_TRUE(world.rests()) << "the others notice nothing";
}

// PB-24: likewise one that polls, to which nothing is sent but probes; those that are there answer
// them by their engine alone.
TEST_P(Watching, VanishedSubscriberIsFoundByProbes) {
  WorldConfig config = config_of(GetParam());
  config.publisher.probe_ns = 20 * kHeartbeatNs;
  World world(config);
  world.policy.allow_all = true;
  const std::uint64_t seed = test::seed();
  world.add_store("log", kRing, 5, kLongest);
  std::vector<std::unique_ptr<Judge>> judges;
  for (const char* name : {"one", "stopped", "vanished"}) {
    Client& client = world.add_client(name);
    world.connect(client);
    judges.push_back(std::make_unique<Judge>(seed, kLongest));
    (void)must(client.subscriber->subscribe("log", {}, *judges.back()));
  }
  ASSERT_TRUE(world.run_until([&] { return world.publisher->grant_count() == 3; }));
  world.run_for(kSecondNs);
  EXPECT_TRUE(world.gone.empty());
  EXPECT_GE(world.clients[0]->subscriber->counters().probes.value(), 3u);
  world.clients[1]->stopped = true;
  const publisher::SubscriberId id = world.clients[2]->id;
  vanish(world, *world.clients[2]);
  ASSERT_TRUE(world.run_until([&] { return world.gone.count(id) == 1; }, 60 * kSecondNs));
  EXPECT_EQ(world.publisher->grant_count(), 2u);
  world.run_for(kSecondNs);
  EXPECT_EQ(world.gone.size(), 1u);
}

// PB-9, PB-29: who may not read a store does not learn either when something is published in it.
TEST(Watches, NeedsAGrant) {
  Watched world(false);
  world.publish();
  RawSubscriber stranger(world, "stranger");
  std::array<std::byte, publisher::kControlMessageMax> bytes;
  for (const std::uint16_t id : {world.log.store->id(), std::uint16_t{77}}) {
    for (const StoreTail& known : {world.log_tail(), StoreTail{}}) {
      stranger.send(
          std::span(bytes).first(emit_control(Watch{.store_id = id, .known = known}, bytes)));
    }
  }
  world.publish();
  EXPECT_EQ(stranger.receive(), std::nullopt);
  EXPECT_EQ(world.publisher->counters().refused_watch.value(), 4u);
}

// PB-29: one watch for each grant, and one answer for each watch.
TEST(Watches, RepeatedWatchesAreOne) {
  Watched world(false);
  world.publish();
  world.change();
  ASSERT_TRUE(world.rests());
  RawSubscriber raw(world, "raw");
  ASSERT_NE(raw.subscribe("log"), roce::MemoryKey{});
  std::array<std::byte, publisher::kControlMessageMax> bytes;
  const StoreTail known = world.log_tail();
  // All within one heart-beat, which would be answered, too.
  const auto& heartbeats = world.publisher->counters().heartbeats;
  const std::uint64_t before = heartbeats.value();
  ASSERT_TRUE(world.run_until([&] { return heartbeats.value() > before; }));
  const std::uint64_t beats = heartbeats.value();
  for (int i = 0; i < 50; ++i) {
    raw.send(std::span(bytes).first(
        emit_control(Watch{.store_id = world.log.store->id(), .known = known}, bytes)));
    ASSERT_LE(world.publisher->watch_count(), 3u);
  }
  ASSERT_EQ(heartbeats.value(), beats) << "too slow for this test";
  world.publish();
  const ControlMessage expected =
      Changed{.store_id = world.log.store->id(), .tail = world.log_tail()};
  EXPECT_EQ(raw.receive(), expected);
  EXPECT_EQ(raw.receive(), std::nullopt);
}

// PB-7, PB-24, PB-29: a subscriber that asks all the time and takes no answer holds up nobody, and
// no more waits for it than its connection has room for.
TEST(Watches, SlowSubscriberHoldsUpNobody) {
  Watched world(false);
  world.publish();
  world.change();
  ASSERT_TRUE(world.rests());
  RawSubscriber raw(world, "raw");
  ASSERT_NE(raw.subscribe("log"), roce::MemoryKey{});
  std::array<std::byte, publisher::kControlMessageMax> bytes;
  const std::uint64_t answers = world.publisher->counters().watch_answers.value();
  const std::uint64_t others = world.client.subscriber->counters().watch_answers.value();
  for (int i = 0; i < 200; ++i) {
    raw.send(std::span(bytes).first(
        emit_control(Watch{.store_id = world.log.store->id(), .known = {}}, bytes)));
    world.publish();
    ASSERT_TRUE(world.run_until([&] { return world.all_read(); }, 8'000 + 2 * kProcessingNs));
  }
  const std::uint64_t sent = world.publisher->counters().watch_answers.value() - answers;
  const std::uint64_t taken = world.client.subscriber->counters().watch_answers.value() - others;
  // Its receives, the publisher's requests to send, and what the other one has on its way.
  EXPECT_LE(sent, taken + 8 + 32 + 2);
}

}  // namespace
}  // namespace rockhopper::sim::watch_test
