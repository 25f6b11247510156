// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/node_config.h"

#include <gtest/gtest.h>

#include "stack/sim/network.h"

namespace rockhopper {
namespace {

TEST(NodeConfig, TheMtuFollowsFromThePort) {
  NodeConfig config;
  EXPECT_EQ(mtu_of(config), kMemifMtu);
  config.port = DevicePort{"net_null0"};
  EXPECT_EQ(mtu_of(config), 1500);
  config.port = NoPort{.mac = {}, .mtu = 2000};
  EXPECT_EQ(mtu_of(config), 2000);
  stack::sim::Network network;
  const auto first = network.add_host();
  network.add_link(first, network.add_host(), {});
  ASSERT_TRUE(network.build().has_value());
  config.port = LinkPort{{&network.nic(first)}};
  EXPECT_EQ(mtu_of(config), network.nic(first).mtu());
  config.mtu = 1234;
  EXPECT_EQ(mtu_of(config), 1234);
}

TEST(NodeConfig, MoreLinksAndShardsNeedMoreMemory) {
  NodeConfig config;
  const unsigned one = memory_mb(config);
  EXPECT_GE(one, 2u * 8 * kMemifMtu / 1000) << "two pools of eight thousand frames";
  config.port = MemifPort{.memif = {}, .links = 4};
  EXPECT_GT(memory_mb(config), one);
  config.port = MemifPort{};
  config.shards = 4;
  EXPECT_GT(memory_mb(config), 2 * one);
}

}  // namespace
}  // namespace rockhopper
