// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Peers that an application waits for although they owe it nothing: that they are gone is found out
// and told once (AM-22).
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::ami::watches_test {
namespace {

using sim::must;

constexpr EndpointId kPeer = 1;
constexpr EndpointId kNobody = 2;
constexpr std::uint64_t kProbeNs = 1'000'000;

class Watcher final : public Context::Service {
 public:
  std::size_t advance() override { return 0; }
  void on_peer_failed(EndpointId id) override { failed.push_back(id); }
  void on_closed() override { ++closed; }

  std::vector<EndpointId> failed;
  unsigned closed = 0;
};

class WatchedPeers : public testing::Test {
 protected:
  WatchedPeers() : network_({.seed = 1, .pools = &sim::pools()}) {
    std::array<roce::QueuePair*, 2> qps{};
    for (unsigned i = 0; i < 2; ++i) {
      roce::Engine& engine = network_.node(i).engine();
      AdapterConfig config;
      config.probe_ns = kProbeNs;
      adapters_[i] = must(Adapter::create(engine, nullptr, config));
      LaneConfig lane;
      lane.self = static_cast<EndpointId>(i);
      lanes_[i] = must(adapters_[i]->add_lane(lane));
      qps[i] = must(engine.create_qp(adapters_[i]->qp_init(*lanes_[i])));
    }
    roce::QpAttributes attributes;
    attributes.path_mtu = roce::PathMtu::mtu_1024;
    attributes.timeout = 9;
    attributes.retry_cnt = 2;
    network_.connect(qps, attributes);
    for (unsigned i = 0; i < 2; ++i) {
      must(adapters_[i]->add_peer(*lanes_[i], static_cast<EndpointId>(1 - i), *qps[i]));
      must(adapters_[i]->open(*lanes_[i]));
    }
    context_ = std::make_unique<Context>(*lanes_[0]);
    context_->attach(watcher_);
  }

  void pass(std::uint64_t time_ns) {
    const std::uint64_t limit_ns = network_.now_ns() + time_ns;
    while (network_.now_ns() < limit_ns) {
      bool moved = network_.poll();
      for (const auto& adapter : adapters_) {
        moved = adapter->progress(network_.now_ns()) || moved;
      }
      (void)context_->advance();
      if (moved) continue;
      const std::uint64_t next_ns = std::min(limit_ns, adapters_[0]->next_deadline_ns());
      const std::uint64_t until_ns = std::max(next_ns, network_.now_ns() + 1'000);
      if (!network_.advance(until_ns)) network_.advance_to(until_ns);
    }
  }
  [[nodiscard]] std::uint64_t probes() const { return adapters_[0]->counters().tx_probes.value(); }

  sim::SimNetwork network_;
  std::array<std::unique_ptr<Adapter>, 2> adapters_;
  std::array<Lane*, 2> lanes_{};
  std::unique_ptr<Context> context_;
  Watcher watcher_;
};

TEST_F(WatchedPeers, AreAskedWhileTheyAreSilentAndWatched) {
  pass(20 * kProbeNs);
  EXPECT_EQ(probes(), 0u);
  context_->watch(kPeer);
  context_->watch(kPeer);
  pass(20 * kProbeNs);
  EXPECT_GT(probes(), 10u);
  EXPECT_LE(probes(), 20u);
  context_->unwatch(kPeer);
  const std::uint64_t before = probes();
  pass(5 * kProbeNs);
  EXPECT_GT(probes(), before) << "somebody else watches it";
  context_->unwatch(kPeer);
  const std::uint64_t last = probes();
  pass(20 * kProbeNs);
  EXPECT_EQ(probes(), last);
  EXPECT_TRUE(watcher_.failed.empty());
  EXPECT_EQ(adapters_[0]->next_deadline_ns(), UINT64_MAX);
}

TEST_F(WatchedPeers, OneThatIsGoneIsToldOnce) {
  context_->watch(kPeer);
  network_.node(1).cut(true);
  pass(100 * kProbeNs);
  EXPECT_EQ(watcher_.failed, std::vector<EndpointId>{kPeer});
  EXPECT_TRUE(context_->failed(kPeer));
  EXPECT_EQ(context_->counters().peers_failed.value(), 1u);
}

TEST_F(WatchedPeers, OneThatThereIsNotIsToldOnce) {
  context_->watch(kNobody);
  pass(20 * kProbeNs);
  EXPECT_EQ(watcher_.failed, std::vector<EndpointId>{kNobody});
  EXPECT_FALSE(context_->failed(kPeer));
}

/// Replies of others that are awaited now and then put nothing off.
TEST_F(WatchedPeers, OneThatThereIsNotIsToldAmidTraffic) {
  Context peer(*lanes_[1]);
  peer.set_handler(1, [](const Message&) {});
  context_->watch(kNobody);
  for (unsigned i = 0; i < 40; ++i) {
    ASSERT_EQ(context_->send(kPeer, 1, {}, std::span<const std::byte>{}, {.level = Level::handled}),
              Injected::yes);
    pass(kProbeNs / 4);
    (void)peer.advance();
    pass(kProbeNs / 4);
  }
  EXPECT_EQ(adapters_[0]->counters().rx_replies.value(), 40u);
  EXPECT_EQ(watcher_.failed, std::vector<EndpointId>{kNobody});
}

TEST_F(WatchedPeers, AClosedLaneIsToldOnce) {
  adapters_[0]->close(*lanes_[0]);
  adapters_[0]->close(*lanes_[0]);
  pass(kProbeNs);
  EXPECT_EQ(watcher_.closed, 1u);
}

}  // namespace
}  // namespace rockhopper::ami::watches_test
