// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The multicast of a publisher as a member of the group sees it: what is sent is what the log has
// (PB-13), what is lost is repaired by READs in two round trips while newer copies come (PB-14 to
// PB-17), and what others send there is of no use.
#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/layout.h"
#include "tests/publisher/judge.h"
#include "tests/publisher/world.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/seed.h"

namespace rockhopper::sim::multicast_test {
namespace {

using publisher::ControlBlock;
using publisher::load_le;
using test::content;

constexpr std::uint32_t kLongest = 900;
constexpr std::uint64_t kRing = 1 << 22;
constexpr std::uint64_t kDelayNs = 20'000;
constexpr std::uint64_t kRoundTripNs = 2 * kDelayNs;

/// A queue pair at node 1 that is a member of the group and keeps all that comes, with the time.
class Tap {
 public:
  struct Datagram {
    std::uint64_t time_ns = 0;
    std::uint32_t imm_data = 0;
    std::vector<std::byte> bytes;
    [[nodiscard]] std::uint64_t position() const { return load_le<std::uint64_t>(bytes.data()); }
    [[nodiscard]] std::uint64_t sequence() const {
      return load_le<std::uint64_t>(bytes.data() + 8);
    }
  };

  explicit Tap(World& world)
      : world_(world), engine_(world.network.node(1).engine()), pd_(engine_.allocate_pd()) {
    const publisher::MulticastGroup& group = world.publisher->multicast()->group();
    cq_ = must(roce::CompletionQueue::create(kBuffers));
    memory_.resize(kBuffers * kBufferBytes);
    key_ =
        must(engine_.register_memory(pd_, memory_.data(), memory_.size(), roce::kAccessLocalWrite))
            .key;
    qp_ = must(engine_.create_qp({.qp_type = roce::QpType::ud,
                                  .pd = pd_,
                                  .send_cq = cq_.get(),
                                  .recv_cq = cq_.get(),
                                  .max_recv_wr = kBuffers}));
    roce::QpAttributes attributes;
    attributes.qkey = group.qkey;
    must(qp_->bring_up(attributes, roce::QpState::rtr));
    for (std::uint32_t i = 0; i < kBuffers; ++i) {
      post(i);
    }
    must(engine_.attach_multicast(*qp_, group.group));
  }
  ~Tap() {
    engine_.destroy_qp(qp_);
    must(engine_.deregister_memory(key_));
    must(engine_.deallocate_pd(pd_));
  }
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  void poll() {
    std::array<roce::Completion, 16> completions;
    while (const std::size_t count = cq_->poll(completions)) {
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(completions[i].status, roce::WcStatus::success);
        const std::byte* from = memory_.data() + completions[i].wr_id * kBufferBytes;
        datagrams.push_back({.time_ns = world_.network.now_ns(),
                             .imm_data = completions[i].imm_data,
                             .bytes = {from + roce::kGrhBytes, from + completions[i].byte_len}});
        post(static_cast<std::uint32_t>(completions[i].wr_id));
      }
    }
  }
  std::vector<Datagram> datagrams;

 private:
  static constexpr std::uint32_t kBuffers = 512;
  static constexpr std::size_t kBufferBytes = roce::kGrhBytes + 4096;

  void post(std::uint32_t buffer) {
    const roce::Sge to{reinterpret_cast<std::uintptr_t>(memory_.data() + buffer * kBufferBytes),
                       kBufferBytes, key_};
    ASSERT_EQ(qp_->post_recv({.wr_id = buffer, .sg_list = {&to, 1}}), roce::PostResult::ok);
  }

  World& world_;
  roce::Engine& engine_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::vector<std::byte> memory_;
  roce::MemoryKey key_{};
  roce::QueuePair* qp_ = nullptr;
};

/// When each message was delivered.
class Times final : public publisher::Listener {
 public:
  Times(World& world, std::uint64_t seed) : world_(world), seed_(seed) {}
  void on_message(const publisher::Message& message) override {
    EXPECT_EQ(message.sequence, delivered_ns.size());
    const auto expected = content(seed_, message.sequence, kLongest);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), message.payload.begin(),
                           message.payload.end()));
    delivered_ns.push_back(world_.network.now_ns());
  }
  void on_lost(std::uint64_t first, std::uint64_t last) override {
    ADD_FAILURE() << "lost " << first << " to " << last;
  }
  std::vector<std::uint64_t> delivered_ns;

 private:
  World& world_;
  std::uint64_t seed_;
};

WorldConfig world_config(std::uint64_t seed, const NetworkFaults& faults = {}) {
  WorldConfig config{.network = {.seed = seed, .pools = &pools(), .faults = faults}};
  config.network.delay_ns = kDelayNs;
  config.multicast = true;
  config.publisher.heartbeat_ns = 5'000'000;
  return config;
}

// PB-13, PB-7: each message once, byte for byte as it lies in the log, headers included, though
// nobody has subscribed; the immediate is the store's id.
TEST(PublisherMulticast, CopiesAreWhatTheLogHas) {
  const std::uint64_t seed = test::seed();
  World world(world_config(seed));
  TestStore& store = world.add_store("a", kRing, 7, kLongest);
  Tap tap(world);
  constexpr std::uint64_t kMessages = 2000;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(store.store->publish(content(seed, i, kLongest), 0, i), publisher::Published::yes);
    if (i % 10 == 0) {
      (void)world.run_until([&] { return tap.poll(), tap.datagrams.size() > i; });
    }
  }
  ASSERT_TRUE(world.run_until([&] { return tap.poll(), tap.datagrams.size() >= kMessages; }));
  ASSERT_EQ(tap.datagrams.size(), kMessages);
  const auto log = store.memory.bytes().subspan(sizeof(ControlBlock));
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const Tap::Datagram& copy = tap.datagrams[i];
    EXPECT_EQ(copy.imm_data, store.store->id());
    ASSERT_EQ(copy.position(), end) << "message " << i;
    EXPECT_EQ(copy.sequence(), i);
    ASSERT_TRUE(std::equal(copy.bytes.begin(), copy.bytes.end(),
                           log.begin() + static_cast<std::ptrdiff_t>(end)));
    end += copy.bytes.size();
  }
  EXPECT_EQ(end, test::control_of(store.memory.bytes()).tail_pos);
}

// PB-14 to PB-17, PB-23: of each message whose copy was lost, with the first copy behind it a READ
// goes out, or with the end of the round that is on its way, and it is there two round trips later
// at most. Meanwhile newer copies come.
TEST(PublisherMulticast, EachLossIsRepairedWithinTwoRoundTrips) {
  const std::uint64_t seed = test::seed();
  World world(world_config(
      seed,
      {.dropped_opcodes = {static_cast<std::uint8_t>(wire::Opcode::ud_send_only_with_immediate)},
       .dropped_percent = 5}));
  TestStore& store = world.add_store("a", kRing, 7, kLongest);
  Client& client = world.add_client("ann");
  world.policy.allow_all = true;
  world.connect(client);
  Times times(world, seed);
  const auto id = must(client.subscriber->subscribe("a", {}, times));
  ASSERT_TRUE(world.run_until([&] { return client.subscriber->copy_counters(id) != nullptr; }));
  world.run_for(1'000'000);
  Tap tap(world);
  constexpr std::uint64_t kMessages = 3000;
  constexpr std::uint64_t kIntervalNs = 3'000;
  const auto enough = [&] { return tap.poll(), times.delivered_ns.size() >= kMessages; };
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(store.store->publish(content(seed, i, kLongest), 0, i), publisher::Published::yes);
    (void)world.run_until(enough, kIntervalNs);
  }
  ASSERT_TRUE(world.run_until(enough));
  std::map<std::uint64_t, std::uint64_t> arrived_ns;
  for (const Tap::Datagram& copy : tap.datagrams) {
    arrived_ns[copy.sequence()] = copy.time_ns;
  }
  std::uint64_t repaired = 0;
  std::uint64_t during = 0;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    if (arrived_ns.count(i) != 0) continue;
    const auto noticed = arrived_ns.upper_bound(i);
    if (noticed == arrived_ns.end()) continue;  // the last ones, found by looking
    ++repaired;
    // Turns of the simulation take some of the time.
    EXPECT_LE(times.delivered_ns[i], noticed->second + 2 * kRoundTripNs + kIntervalNs) << i;
    during += static_cast<std::uint64_t>(
        std::count_if(std::next(noticed), arrived_ns.end(), [&](const auto& copy) {
          return copy.second > noticed->second && copy.second < times.delivered_ns[i];
        }));
  }
  EXPECT_GT(repaired, kMessages / 100);
  EXPECT_GT(during, repaired) << "no newer copies have come during repairs";
  EXPECT_GE(client.subscriber->copy_counters(id)->repaired.value(), repaired);
  EXPECT_GT(client.subscriber->copy_counters(id)->taken.value(), kMessages * 8 / 10);
}

// Anybody can send to a group. What has another Q_Key does not arrive, and what does not come from
// the publisher's queue pair is dropped, even if it is what the reader waits for.
TEST(PublisherMulticast, OthersAreNotBelieved) {
  const std::uint64_t seed = test::seed();
  World world(world_config(seed));
  TestStore& store = world.add_store("a", kRing, 7, kLongest);
  Client& client = world.add_client("ann");
  world.policy.allow_all = true;
  world.connect(client);
  Times times(world, seed);
  const auto id = must(client.subscriber->subscribe("a", {}, times));
  world.run_for(1'000'000);
  const publisher::MulticastGroup group = world.publisher->multicast()->group();
  roce::Engine& engine = world.network.node(0).engine();
  const roce::ProtectionDomain pd = engine.allocate_pd();
  const auto cq = must(roce::CompletionQueue::create(16));
  roce::QueuePair* qp = must(engine.create_qp({.qp_type = roce::QpType::ud,
                                               .pd = pd,
                                               .send_cq = cq.get(),
                                               .recv_cq = cq.get(),
                                               .max_inline_data = 256}));
  roce::AddressHandle* ah =
      must(engine.create_ah(pd, {.source = group.source, .destination = group.group}));
  must(qp->bring_up({}, roce::QpState::rts));
  const std::vector<std::byte> payload(10, std::byte{0x66});
  std::vector<std::byte> forged(publisher::Record::size_of(payload.size()));
  publisher::emit_record(forged.data(), {.position = 0, .sequence = 0, .epoch = 7}, payload);
  for (const std::uint32_t qkey : {group.qkey, group.qkey ^ 1}) {
    const roce::Sge from{reinterpret_cast<std::uintptr_t>(forged.data()),
                         static_cast<std::uint32_t>(forged.size()),
                         {}};
    ASSERT_EQ(qp->post_send({.sg_list = {&from, 1},
                             .opcode = roce::WrOpcode::send_with_imm,
                             .send_flags = roce::kSendInline | roce::kSendSignaled,
                             .imm_data = store.store->id(),
                             .ah = ah,
                             .remote_qpn = wire::kMulticastQpn,
                             .remote_qkey = qkey}),
              roce::PostResult::ok);
  }
  world.run_for(1'000'000);
  EXPECT_TRUE(times.delivered_ns.empty());
  EXPECT_EQ(client.subscriber->counters().multicast_foreign.value(), 1u);
  EXPECT_EQ(client.subscriber->copy_counters(id)->received.value(), 0u);
  ASSERT_EQ(store.store->publish(content(seed, 0, kLongest), 0, 0), publisher::Published::yes);
  EXPECT_TRUE(world.run_until([&] { return times.delivered_ns.size() == 1; }));
  engine.destroy_qp(qp);
  engine.destroy_ah(ah);
  must(engine.deallocate_pd(pd));
}

// A subscriber that wants none, and one that is told of a group that it cannot join, READ all.
TEST(PublisherMulticast, WithoutItAllIsRead) {
  const std::uint64_t seed = test::seed();
  World world(world_config(seed));
  TestStore& store = world.add_store("a", kRing, 7, kLongest);
  Client& client = world.add_client("ann", {.multicast_buffers = 0});
  world.policy.allow_all = true;
  world.connect(client);
  Times times(world, seed);
  const auto id = must(client.subscriber->subscribe("a", {}, times));
  world.run_for(1'000'000);
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(store.store->publish(content(seed, i, kLongest), 0, i), publisher::Published::yes);
  }
  ASSERT_TRUE(world.run_until([&] { return times.delivered_ns.size() == 100; }));
  EXPECT_EQ(client.subscriber->counters().multicast_received.value(), 0u);
  EXPECT_EQ(client.subscriber->copy_counters(id)->received.value(), 0u);
  EXPECT_EQ(world.publisher->multicast()->counters().copies_sent.value(), 100u);
}

}  // namespace
}  // namespace rockhopper::sim::multicast_test
