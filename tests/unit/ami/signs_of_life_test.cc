// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Who is asked for a sign of life, and when: without an engine.
#include "apps/services/ami/signs_of_life.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/ami/fake_route.h"

namespace rockhopper::ami {
namespace {

constexpr std::uint64_t kProbeNs = 1'000'000;
constexpr std::uint64_t kStart = 50'000'000;

class SignsOfLifeTest : public ::testing::Test {
 protected:
  SignsOfLifeTest() {
    parts_.ports.push_back(std::make_unique<LanePort>(LaneConfig{.max_endpoints = 4}, 0));
    for (EndpointId id = 0; id < 2; ++id) {
      parts_.peers.push_back(std::make_unique<Peer>(port(), id, id));
      port().peers[id] = parts_.peers.back().get();
      peer(id).route = std::make_unique<test::FakeRoute>();
    }
    parts_.now_ns = kStart;
  }
  LanePort& port() { return *parts_.ports[0]; }
  Peer& peer(EndpointId id) { return *parts_.peers[id]; }
  test::FakeRoute& route(EndpointId id) { return static_cast<test::FakeRoute&>(*peer(id).route); }
  /// A turn at that time; how often the peer has been asked so far.
  std::size_t asked_at(std::uint64_t now_ns, EndpointId id = 0) {
    parts_.now_ns = now_ns;
    signs_.ask([this](Peer& peer) { failed_.push_back(peer.id); });
    return route(id).requests.size();
  }

  AdapterParts parts_{.config = {.probe_ns = kProbeNs}};
  SignsOfLife signs_{parts_};
  std::vector<EndpointId> failed_;
};

TEST_F(SignsOfLifeTest, NobodyIsAskedWithoutNeed) {
  EXPECT_EQ(signs_.next_ns(), UINT64_MAX);
  EXPECT_EQ(asked_at(kStart + 10 * kProbeNs), 0u);
}

TEST_F(SignsOfLifeTest, WhoOwesAReplyAndIsSilentIsAsked) {
  signs_.watch(peer(0));
  EXPECT_EQ(signs_.next_ns(), kStart + kProbeNs);
  EXPECT_EQ(asked_at(kStart + kProbeNs - 1), 0u);
  EXPECT_EQ(asked_at(kStart + kProbeNs), 1u);
  EXPECT_EQ(route(0).requests[0].wr.opcode, roce::WrOpcode::rdma_write);
  EXPECT_EQ(route(1).requests.size(), 0u);
  EXPECT_EQ(asked_at(kStart + 5 * kProbeNs), 1u) << "once, until that is complete";
  SignsOfLife::on_asked(peer(0));
  EXPECT_EQ(asked_at(kStart + 6 * kProbeNs), 2u);
  signs_.forget(peer(0));
}

TEST_F(SignsOfLifeTest, WhoIsHeardIsNotAsked) {
  signs_.watch(peer(0));
  parts_.now_ns = kStart + kProbeNs / 2;
  signs_.on_heard(peer(0));
  EXPECT_EQ(asked_at(kStart + kProbeNs), 0u);
  EXPECT_EQ(asked_at(kStart + kProbeNs + kProbeNs / 2), 1u);
  signs_.forget(peer(0));
  EXPECT_EQ(signs_.next_ns(), UINT64_MAX);
}

TEST_F(SignsOfLifeTest, WhoIsWatchedIsAskedWithoutOwingAnything) {
  port().lane.watches.add(1);
  EXPECT_EQ(asked_at(kStart, 1), 0u) << "its silence begins now";
  EXPECT_EQ(asked_at(kStart + kProbeNs, 1), 1u);
  port().lane.watches.remove(1);
  EXPECT_EQ(signs_.next_ns(), UINT64_MAX);
}

TEST_F(SignsOfLifeTest, WhoIsWatchedAndIsNotThereHasFailed) {
  port().lane.watches.add(3);
  (void)asked_at(kStart);
  (void)asked_at(kStart + kProbeNs);
  Arrival arrival;
  ASSERT_TRUE(port().lane.arrivals.pop(arrival));
  EXPECT_EQ(arrival.kind, Arrival::Kind::peer_failed);
  EXPECT_EQ(arrival.source, 3u);
  EXPECT_FALSE(port().lane.arrivals.pop(arrival)) << "it is told once";
}

TEST_F(SignsOfLifeTest, WhoCannotBeAskedHasFailed) {
  signs_.watch(peer(0));
  signs_.watch(peer(1));
  route(0).says = Posted::broken;
  route(1).says = Posted::full;
  (void)asked_at(kStart + kProbeNs);
  EXPECT_EQ(failed_, std::vector<EndpointId>{0}) << "another time may do for the other one";
  signs_.forget(peer(0));
  signs_.forget(peer(1));
}

}  // namespace
}  // namespace rockhopper::ami
