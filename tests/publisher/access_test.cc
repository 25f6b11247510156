// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Who reads what: a key for each subscriber and store, that serves nobody and nothing else (PB-1,
// PB-9, PB-10, PB-12, PB-16, PB-19, PB-25, PB-26, PB-30).
#include <algorithm>
#include <cstdio>
#include <map>
#include <variant>

#include <gtest/gtest.h>

#include "apps/services/publisher/conflated_store.h"
#include "tests/publisher/judge.h"
#include "tests/publisher/raw_subscriber.h"
#include "tests/publisher/wire.h"
#include "tests/publisher/world.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/capture.h"
#include "tests/support/seed.h"

namespace rockhopper::sim::access_test {
namespace {

using publisher::Start;
using roce::MemoryKey;
using roce::WcStatus;
using test::content;
using test::Judge;

constexpr std::uint64_t kRing = 16384;
constexpr std::uint32_t kLongest = 1000;

WorldConfig config_of(bool dynamic_connections = false, const std::string& capture = "") {
  WorldConfig config{.network = {.seed = 1, .pools = &pools(), .capture = capture}};
  config.dynamic_connections = dynamic_connections;
  return config;
}

/// Two stores with high-entropy content.
struct TwoStores : World {
  explicit TwoStores(bool dynamic_connections = false, const std::string& capture = "")
      : World(config_of(dynamic_connections, capture)),
        seed(test::seed()),
        a(add_store("a", kRing, 5, kLongest)),
        b(add_store("b", kRing, 6, kLongest)) {
    publish(300);
  }
  void publish(std::uint64_t count) {
    for (; count > 0; --count) {
      for (TestStore* store : {&a, &b}) {
        publish(*store);
      }
    }
  }
  void publish(TestStore& store) {
    EXPECT_EQ(
        store.store->publish(content_of(store, store.store->next_sequence()), 0, network.now_ns()),
        publisher::Published::yes);
  }
  [[nodiscard]] std::vector<std::byte> content_of(const TestStore& store,
                                                  std::uint64_t sequence) const {
    return content(seed + store.store->epoch(), sequence, kLongest);
  }
  /// All messages that are in the store.
  [[nodiscard]] test::Secrets secrets_of(const TestStore& store) const {
    test::Secrets secrets;
    for (std::uint64_t sequence = store.store->oldest_sequence();
         sequence < store.store->next_sequence(); ++sequence) {
      secrets.add(content_of(store, sequence));
    }
    return secrets;
  }
  [[nodiscard]] Judge judge() const { return {seed, kLongest}; }

  std::uint64_t seed;
  TestStore& a;
  TestStore& b;
};

bool is_store(const RawSubscriber::Read& read, TestStore& store, std::uint64_t addr) {
  const auto bytes = store.memory.bytes().subspan(addr, read.bytes.size());
  return read.status == WcStatus::success &&
         std::equal(bytes.begin(), bytes.end(), read.bytes.begin());
}

/// Refused, and not one byte of anything came.
void expect_nothing(const RawSubscriber::Read& read) {
  EXPECT_EQ(read.status, WcStatus::rem_access_err);
  EXPECT_TRUE(std::all_of(read.bytes.begin(), read.bytes.end(),
                          [](std::byte byte) { return byte == RawSubscriber::kUntouched; }));
}

struct OverBoth : ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Transports, OverBoth, ::testing::Values(false, true),
                         [](const auto& tested) { return tested.param ? "Dc" : "Rc"; });

// PB-12, PB-16: a grant is an address and a key, and READs are all that is needed from then on.
TEST(Access, GrantedStoreIsReadWithVerbsAlone) {
  TwoStores world;
  world.policy.allowed = {{"one", "a"}};
  RawSubscriber one(world, "one");
  const auto answer = one.ask(publisher::SubscribeRequest{.tag = 9, .store = "a"});
  ASSERT_TRUE(answer.has_value());
  const auto* grant = std::get_if<publisher::GrantMessage>(&*answer);
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(grant->tag, 9u);
  EXPECT_EQ(grant->store.name, "a");
  EXPECT_EQ(grant->store.ring_bytes, kRing);
  EXPECT_EQ(grant->store.message_max, kLongest);
  EXPECT_EQ(grant->store.layout, publisher::layout_of(publisher::StoreKind::log));
  EXPECT_TRUE(is_store(one.read(grant->rkey, 0, 64), world.a, 0));
  EXPECT_TRUE(is_store(one.read(grant->rkey, 64, kRing), world.a, 64));
  EXPECT_EQ(world.publisher->counters().rx_messages.value(), 1u) << "READs are no requests";
}

// PB-1: the store is all that its key reaches; nothing of the canaries around it is on the wire.
TEST_P(OverBoth, KeyEndsWithTheStore) {
  const test::CaptureFile capture;
  auto made = std::make_unique<TwoStores>(GetParam(), capture.path());
  TwoStores& world = *made;
  world.policy.allow_all = true;
  auto one = std::make_unique<RawSubscriber>(world, "one");
  const auto bytes = static_cast<std::uint32_t>(world.a.memory.bytes().size());
  const struct {
    std::uint64_t addr;
    std::uint32_t length;
  } beyond[] = {{bytes, 1},
                {bytes - 1, 2},
                {0, bytes + 1},
                {UINT64_MAX, 1},
                {UINT64_MAX - 63, 64},
                {reinterpret_cast<std::uintptr_t>(world.a.memory.bytes().data()), 64},
                {reinterpret_cast<std::uintptr_t>(world.b.memory.bytes().data()), 64}};
  for (const auto& place : beyond) {
    const MemoryKey key = one->subscribe("a");
    ASSERT_NE(key, MemoryKey{});
    EXPECT_TRUE(is_store(one->read(key, bytes - 1, 1), world.a, bytes - 1));
    expect_nothing(one->read(key, place.addr, place.length));
    EXPECT_TRUE(one->broken());
  }
  one.reset();
  made.reset();
  test::Secrets canaries;
  canaries.add(std::vector<std::byte>(8, test::GuardedMemory::kCanary));
  test::for_each_frame(capture.path(), [&](const test::CapturedFrame& frame) {
    EXPECT_FALSE(canaries.are_in(frame.bytes));
  });
}

// PB-9: who may read one store does not get the other one, by no message.
TEST_P(OverBoth, PolicyIsAskedForEachStore) {
  TwoStores world(GetParam());
  world.policy.allowed = {{"one", "a"}, {"two", "b"}, {"both", "a"}, {"both", "b"}};
  for (const std::string name : {"one", "two", "both", "none"}) {
    RawSubscriber subscriber(world, name);
    for (const std::string store : {"a", "b"}) {
      const bool allowed = world.policy.allowed.count({name, store}) != 0;
      EXPECT_EQ(subscriber.subscribe(store) != MemoryKey{}, allowed) << name << " " << store;
    }
  }
  EXPECT_EQ(world.publisher->counters().refused_policy.value(), 4u);
}

// PB-9, PB-26: another subscriber's key, and that of a connection that has ended, are worth
// nothing.
TEST_P(OverBoth, KeyServesItsOwnerOnly) {
  TwoStores world(GetParam());
  world.policy.allow_all = true;
  RawSubscriber one(world, "one");
  RawSubscriber two(world, "two");
  const MemoryKey theirs = two.subscribe("b");
  ASSERT_NE(theirs, MemoryKey{});
  expect_nothing(one.read(theirs, 0, 4096));
  EXPECT_TRUE(is_store(two.read(theirs, 0, 4096), world.b, 0)) << "the owner is not disturbed";
  const MemoryKey old = two.subscribe("a");
  two.reconnect();
  expect_nothing(two.read(old, 0, 64));
}

// PB-9, PB-26: who has a key for one store finds none for the other by trying, whatever the number
// of tries. Each is counted, not one byte of the other store is on the wire, and nobody else
// notices.
TEST_P(OverBoth, GuessedKeysAreRefused) {
  const std::uint64_t guesses = number_or("ROCKHOPPER_GUESSED_KEYS", 300);
  const test::CaptureFile capture;
  auto made = std::make_unique<TwoStores>(GetParam(), capture.path());
  TwoStores& world = *made;
  const test::Secrets secrets = world.secrets_of(world.b);
  ASSERT_GT(secrets.size(), 1000u);
  world.policy.allowed = {{"one", "a"}, {"two", "b"}, {"three", "a"}};
  Client& three = world.add_client("three");
  world.connect(three);
  Judge judge = world.judge();
  (void)must(three.subscriber->subscribe("a", {}, judge));
  auto one = std::make_unique<RawSubscriber>(world, "one");
  auto two = std::make_unique<RawSubscriber>(world, "two");
  const MemoryKey theirs = two->subscribe("b");
  ASSERT_NE(theirs, MemoryKey{});
  const auto& refused = world.network.node(0).engine().counters().drops[static_cast<std::size_t>(
      roce::DropReason::refused_request)];
  const std::uint64_t refused_before = refused.value();
  Rng rng(world.seed);
  std::uint64_t tried = 0;
  MemoryKey mine{};
  for (std::uint64_t i = 0; i < guesses && !HasFailure(); ++i) {
    // Over a queue pair each refusal ends the connection, and with it the key.
    if (one->broken() || i == 0) {
      one->recover();
      mine = one->subscribe("a");
      ASSERT_NE(mine, MemoryKey{});
    }
    MemoryKey guess = theirs;
    if (i > 0 && rng.chance(50)) guess = MemoryKey{static_cast<std::uint32_t>(rng.next())};
    if (i > 0 && guess == theirs) {
      guess = MemoryKey{static_cast<std::uint32_t>(theirs) ^ (1u << rng.between(0, 31)) ^
                        (1u << rng.between(0, 31))};
    }
    if (guess == mine) continue;
    expect_nothing(one->read(guess, 64, 2048));
    ++tried;
    if (i % 64 == 0) world.publish(world.a);
  }
  EXPECT_EQ(refused.value() - refused_before, tried);
  ASSERT_TRUE(world.run_until([&] { return judge.next == world.a.store->next_sequence(); }));
  EXPECT_TRUE(judge.good());
  EXPECT_TRUE(judge.lost.empty());
  EXPECT_EQ(three.disconnected + three.revoked, 0u);
  // The owner of the key reads as ever; that shows that the search finds what there is.
  const std::uint64_t end_ns = world.network.now_ns();
  EXPECT_TRUE(is_store(two->read(theirs, 64, 2048), world.b, 64));
  one.reset();
  two.reset();
  made.reset();
  std::uint64_t leaked = 0;
  std::uint64_t read = 0;
  test::for_each_frame(capture.path(), [&](const test::CapturedFrame& frame) {
    if (secrets.are_in(frame.bytes)) ++(frame.time_ns < end_ns ? leaked : read);
  });
  EXPECT_EQ(leaked, 0u);
  EXPECT_GT(read, 0u);
  std::printf("%zu keys tried\n", static_cast<std::size_t>(tried));
}

// PB-26: with dynamic connections a subscriber's key is of use at its own target only, which nobody
// reaches without its access key.
TEST(Access, TargetOfAnotherSubscriberIsOutOfReach) {
  TwoStores world(true);
  world.policy.allow_all = true;
  RawSubscriber one(world, "one");
  RawSubscriber two(world, "two");
  const MemoryKey theirs = two.subscribe("b");
  Rng rng(world.seed);
  for (int i = 0; i < 100; ++i) {
    dc::TargetAddress address = two.publisher_address();
    address.access_key = i == 0 ? one.publisher_address().access_key : rng.next();
    const auto read = one.read_at(address, theirs, 64, 2048);
    EXPECT_NE(read.status, WcStatus::success);
    EXPECT_TRUE(std::all_of(read.bytes.begin(), read.bytes.end(),
                            [](std::byte byte) { return byte == RawSubscriber::kUntouched; }));
  }
  EXPECT_TRUE(is_store(two.read(theirs, 64, 2048), world.b, 64)) << "the owner is not disturbed";
}

// PB-25: a grant that is taken back is worth nothing with the next READ, and nobody else notices.
TEST_P(OverBoth, RevocationTakesEffectAtOnce) {
  TwoStores world(GetParam());
  world.policy.allow_all = true;
  RawSubscriber one(world, "one");
  RawSubscriber two(world, "two");
  const MemoryKey mine = one.subscribe("a");
  const MemoryKey theirs = two.subscribe("a");
  ASSERT_TRUE(is_store(one.read(mine, 0, 4096), world.a, 0));
  EXPECT_TRUE(world.publisher->revoke(one.id(), world.a.store->id()));
  EXPECT_FALSE(world.publisher->revoke(one.id(), world.a.store->id())) << "twice";
  expect_nothing(one.read(mine, 0, 4096));
  EXPECT_TRUE(is_store(two.read(theirs, 0, 4096), world.a, 0));
}

// PB-25: the policy has changed; those whose grants are still right are not touched.
TEST(Access, PolicyIsAppliedAtRunTime) {
  TwoStores world;
  world.policy.allowed = {{"one", "a"}, {"one", "b"}, {"two", "a"}};
  RawSubscriber one(world, "one");
  RawSubscriber two(world, "two");
  const MemoryKey one_a = one.subscribe("a");
  const MemoryKey one_b = one.subscribe("b");
  const MemoryKey two_a = two.subscribe("a");
  world.publisher->apply_policy();
  EXPECT_EQ(world.publisher->grant_count(), 3u);
  world.policy.allowed.erase({"one", "a"});
  world.publisher->apply_policy();
  EXPECT_EQ(world.publisher->grant_count(), 2u);
  const auto notice = one.receive();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(*notice, publisher::ControlMessage(publisher::Revoke{world.a.store->id()}));
  EXPECT_TRUE(is_store(one.read(one_b, 0, 64), world.b, 0));
  EXPECT_TRUE(is_store(two.read(two_a, 0, 64), world.a, 0));
  expect_nothing(one.read(one_a, 0, 64));
}

// PB-25: a grant that is taken back before its window is bound ends alone, and its connection
// stays.
TEST(Access, RevocationMayFollowTheGrantAtOnce) {
  TwoStores world;
  world.policy.allow_all = true;
  Client& one = world.add_client("one");
  world.connect(one);
  std::array<Judge, 2> judges{world.judge(), world.judge()};
  const publisher::Subscriber::Options options{.reader = {.start = {.at = Start::At::oldest}}};
  (void)must(one.subscriber->subscribe("b", options, judges[1]));
  ASSERT_TRUE(world.run_until([&] { return judges[1].next == world.b.store->next_sequence(); }));
  (void)must(one.subscriber->subscribe("a", options, judges[0]));
  ASSERT_TRUE(world.run_until([&] { return world.publisher->grant_count() == 2; }));
  ASSERT_TRUE(world.publisher->revoke(one.id, world.a.store->id()));
  ASSERT_TRUE(world.run_until([&] { return one.revoked == 1 || one.disconnected > 0; }));
  world.publish(5);
  EXPECT_TRUE(world.run_until([&] { return judges[1].next == world.b.store->next_sequence(); }));
  EXPECT_EQ(one.disconnected, 0u);
  EXPECT_EQ(judges[0].messages, 0u);
  const auto& counters = world.network.node(0).engine().counters();
  EXPECT_EQ(counters.memory_request_errors.value(), 0u);
}

// PB-1: from the removal of a store on nobody reads its memory.
TEST_P(OverBoth, RemovedStoreIsGone) {
  TwoStores world(GetParam());
  world.policy.allow_all = true;
  RawSubscriber one(world, "one");
  const MemoryKey key = one.subscribe("a");
  ASSERT_TRUE(world.publisher->remove_store(world.a.store->id()).has_value());
  EXPECT_FALSE(world.publisher->remove_store(world.a.store->id()).has_value());
  expect_nothing(one.read(key, 0, 64));
  EXPECT_EQ(one.subscribe("a"), MemoryKey{});
}

// PB-30: the directory shows what the policy lets be seen, in as many messages as it takes, and
// gives no access.
TEST(Access, DirectoryShowsStores) {
  World world(config_of());
  for (int i = 0; i < 20; ++i) {
    world.add_store("store " + std::to_string(i), 4096, 1);
  }
  world.policy.hidden = {"store 3"};
  Client& client = world.add_client("one");
  world.connect(client);
  ASSERT_TRUE(client.subscriber->request_directory().has_value());
  ASSERT_TRUE(world.run_until([&] { return client.directories > 0; }));
  EXPECT_EQ(client.directory.size(), 19u);
  for (const auto& info : client.directory) {
    EXPECT_NE(info.name, "store 3");
  }
  EXPECT_EQ(world.publisher->grant_count(), 0u);
  Judge judge(1, 1);
  (void)must(client.subscriber->subscribe("store 3", {}, judge));
  (void)must(client.subscriber->subscribe("store 4", {}, judge));
  ASSERT_TRUE(world.run_until([&] { return client.refused.size() == 2; }));
  EXPECT_EQ(client.refused[0], "store store 3: there is no such store");
  EXPECT_EQ(client.refused[1], "store store 4: not authorised");
}

// PB-30: the publisher refuses who reads another version of the layout.
TEST(Access, OtherLayoutIsRefused) {
  TwoStores world;
  world.policy.allow_all = true;
  RawSubscriber one(world, "one");
  const auto answer = one.ask(publisher::SubscribeRequest{
      .tag = 1, .version = publisher::kLayoutVersion + 1, .store = "a"});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(*answer, publisher::ControlMessage(
                         publisher::RefusedMessage{.tag = 1, .why = publisher::Refusal::layout}));
}

// Messages that are none, and such as no subscriber sends: counted, and the next one is answered.
TEST(Access, BadMessagesAreCounted) {
  TwoStores world;
  world.policy.allow_all = true;
  RawSubscriber one(world, "one");
  Rng rng(world.seed);
  for (int i = 0; i < 50; ++i) {
    std::vector<std::byte> bytes(rng.between(1, publisher::kControlMessageMax));
    rng.fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    one.send(bytes);
  }
  std::array<std::byte, publisher::kControlMessageMax> bytes;
  one.send(std::span(bytes).first(publisher::emit_control(publisher::Revoke{1}, bytes)));
  EXPECT_NE(one.subscribe("a"), MemoryKey{});
  EXPECT_EQ(world.publisher->counters().rx_malformed.value(), 50u);
  EXPECT_EQ(world.publisher->counters().rx_unexpected.value(), 1u);
}

// PB-10, PB-25, over both transports: of two that read the same store one is stopped at run time.
TEST_P(OverBoth, RevokedSubscriberStopsAndTheOtherGoesOn) {
  TwoStores world(GetParam());
  world.policy.allow_all = true;
  Client& one = world.add_client("one");
  Client& two = world.add_client("two");
  std::array<Judge, 2> judges{world.judge(), world.judge()};
  const publisher::Subscriber::Options options{.reader = {.start = {.at = Start::At::oldest}}};
  for (Client* client : {&one, &two}) {
    world.connect(*client);
    (void)must(client->subscriber->subscribe("a", options, judges[client == &one ? 0 : 1]));
  }
  const auto both_read = [&] {
    return judges[0].next == world.a.store->next_sequence() && judges[1].next == judges[0].next;
  };
  ASSERT_TRUE(world.run_until(both_read));
  ASSERT_TRUE(world.publisher->revoke(one.id, world.a.store->id()));
  const std::uint64_t had = judges[0].messages;
  world.publish(20);
  ASSERT_TRUE(world.run_until([&] { return judges[1].next == world.a.store->next_sequence(); }));
  world.run_for(5'000'000);
  EXPECT_EQ(judges[0].messages, had);
  EXPECT_EQ(two.revoked + two.disconnected, 0u);
  EXPECT_GT(one.revoked + one.disconnected, 0u);
  EXPECT_TRUE(judges[1].good());
  EXPECT_TRUE(judges[1].lost.empty());
}

// PB-25: from the moment of the revocation on no READ response leaves for the one who has lost the
// access, though its READs are on their way and half answered; the other's stream has no gap.
TEST(Access, RevocationStopsResponsesAtOnce) {
  constexpr std::uint64_t kDelayNs = 1'000'000;
  const test::CaptureFile capture;
  WorldConfig config = config_of(false, capture.path());
  config.network.delay_ns = kDelayNs;
  config.timeout = 14;
  auto world = std::make_unique<World>(config);
  world->policy.allow_all = true;
  TestStore& store = world->add_store("a", 1 << 20, 5, kLongest);
  const std::uint64_t seed = test::seed();
  std::array<std::uint32_t, 2> numbers{};  // of the subscribers' queue pairs
  std::array<Judge, 2> judges{Judge(seed, kLongest), Judge(seed, kLongest)};
  for (unsigned i = 0; i < 2; ++i) {
    Client& client = world->add_client(i == 0 ? "one" : "two");
    world->connect(client);
    numbers[i] = client.qps[1]->number().value;
    (void)must(client.subscriber->subscribe(
        "a", {.reader = {.start = {.at = Start::At::oldest}, .poll_max_ns = 0}}, judges[i]));
  }
  const auto publish_for = [&](std::uint64_t duration_ns) {
    const std::uint64_t end_ns = world->network.now_ns() + duration_ns;
    std::uint64_t next_ns = 0;
    while (world->network.now_ns() < end_ns) {
      if (world->network.now_ns() >= next_ns) {
        next_ns = world->network.now_ns() + 10'000;
        EXPECT_EQ(store.store->publish(content(seed + 5, store.store->next_sequence(), kLongest), 0,
                                       world->network.now_ns()),
                  publisher::Published::yes);
      }
      if (!world->turn()) world->pass_time(std::min(next_ns, end_ns));
    }
  };
  publish_for(50 * kDelayNs);
  // In the midst of an answer.
  const auto& sent = world->network.node(0).engine().counters().sent_pkts;
  const std::uint64_t before = sent.value();
  ASSERT_TRUE(world->run_until([&] { return sent.value() > before; }));
  ASSERT_TRUE(world->publisher->revoke(world->clients[0]->id, store.store->id()));
  const std::uint64_t revoked_ns = world->network.now_ns();
  const std::uint64_t messages = judges[0].messages;
  publish_for(50 * kDelayNs);
  ASSERT_TRUE(world->run_until([&] { return judges[1].next == store.store->next_sequence(); }));
  EXPECT_GT(messages, 0u);
  EXPECT_TRUE(judges[1].good());
  EXPECT_EQ(judges[1].first, 0u);
  EXPECT_TRUE(judges[1].lost.empty());
  world.reset();
  std::array<std::array<std::uint64_t, 2>, 2> responses{};  // of each: before and after
  test::for_each_frame(capture.path(), [&](const test::CapturedFrame& frame) {
    const auto packet = test::roce_packet(frame.bytes);
    if (!packet) return;
    const auto bth = packet->transport();
    const std::uint32_t number = std::uint32_t{bth[5]} << 16 | bth[6] << 8 | bth[7];
    const bool is_response = bth[0] >= 0x0d && bth[0] <= 0x10;
    for (unsigned i = 0; i < 2; ++i) {
      if (is_response && number == numbers[i]) ++responses[i][frame.time_ns > revoked_ns];
    }
  });
  EXPECT_GT(responses[0][0], 100u);
  EXPECT_EQ(responses[0][1], 0u);
  EXPECT_GT(responses[1][1], 100u);
}

/// The latest message of each key.
struct LatestListener final : publisher::Listener {
  void on_message(const publisher::Message& message) override {
    latest[message.key] = {message.payload.begin(), message.payload.end()};
  }
  void on_lost(std::uint64_t, std::uint64_t) override { ++lost; }
  std::map<std::uint64_t, std::vector<std::byte>> latest;
  unsigned lost = 0;
};

// A conflated store beside the others (PB-2), to several at their own pace (PB-11).
TEST_P(OverBoth, ConflatedStoreGivesTheLatest) {
  const publisher::ConflatedStore::Config config{
      .id = 9, .epoch = 3, .keys = 50, .message_max = 300};
  test::GuardedMemory memory(publisher::ConflatedStore::bytes_for(config));
  auto store = must(publisher::ConflatedStore::create(memory.bytes(), config));
  TwoStores world(GetParam());
  world.policy.allow_all = true;
  must(world.publisher->add_store("latest", *store));
  std::array<LatestListener, 2> listeners;
  std::array<publisher::SubscriptionId, 2> ids{};
  for (unsigned i = 0; i < 2; ++i) {
    Client& client = world.add_client(i == 0 ? "one" : "two");
    world.connect(client);
    ids[i] = must(client.subscriber->subscribe(
        "latest", {.reader = {.start = {.at = Start::At::oldest}}}, listeners[i]));
  }
  Rng rng(world.seed);
  std::map<std::uint64_t, std::vector<std::byte>> model;
  for (std::uint64_t change = 0; change < 3000; ++change) {
    const std::uint64_t key = rng.between(0, config.keys - 1);
    model[key] = content(world.seed, change, config.message_max);
    ASSERT_EQ(store->publish(key, model[key], 0, 0), publisher::Published::yes);
    world.clients[1]->subscriber->pause(ids[1], rng.chance(80));
    if (!world.turn()) world.pass_time(world.network.now_ns() + 10'000);
  }
  world.clients[1]->subscriber->pause(ids[1], false);
  EXPECT_TRUE(world.run_until(
      [&] { return listeners[0].latest == model && listeners[1].latest == model; }));
  EXPECT_EQ(listeners[0].lost + listeners[1].lost, 0u);
  EXPECT_TRUE(memory.intact());
  must(world.publisher->remove_store(config.id));
}

// PB-19, PB-27: a publisher that is gone, and one that comes back.
TEST_P(OverBoth, SilentPublisherIsDead) {
  TwoStores world(GetParam());
  world.policy.allow_all = true;
  Client& one = world.add_client("one");
  world.connect(one);
  Judge judge = world.judge();
  const auto id =
      must(one.subscriber->subscribe("a", {.reader = {.start = {.at = Start::At::oldest}}}, judge));
  ASSERT_TRUE(world.run_until([&] { return judge.next == world.a.store->next_sequence(); }));
  world.run_for(100 * world.config.publisher.heartbeat_ns);
  EXPECT_EQ(one.subscriber->reader(id)->counters().deaths.value(), 0u);
  world.network.cut(true);
  ASSERT_TRUE(world.run_until([&] { return one.disconnected > 0; }));
  EXPECT_FALSE(one.subscriber->connected());
}

}  // namespace
}  // namespace rockhopper::sim::access_test
