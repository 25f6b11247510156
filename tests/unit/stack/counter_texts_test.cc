// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Each counter has a text, and each text a counter, where the two are written apart.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stack/fault_injector.h"
#include "stack/host_counters.h"
#include "stack/link.h"
#include "stack/net/learning_switch.h"
#include "stack/port.h"
#include "stack/shard_link.h"
#include "stack/steering.h"
#include "stack/switched_link.h"
#include "stack/telemetry.h"

namespace rockhopper::stack::counter_texts_test {
namespace {

using Names = std::vector<std::string>;
using ::testing::ElementsAreArray;
using ::testing::IsSubsetOf;

void add_counter(void* names, const char* name, std::uint64_t /*value*/) {
  static_cast<Names*>(names)->emplace_back(name);
}

void add_text(void* names, const char* name, const char* text) {
  EXPECT_STRNE(text, "") << name;
  static_cast<Names*>(names)->emplace_back(name);
}

template <typename Owner>
Names counters_of(const Owner& owner) {
  Names names;
  owner.visit_counters(&add_counter, &names);
  return names;
}

Names described(CounterGroup::Describe describe) {
  Names names;
  describe(&add_text, &names);
  return names;
}

class IdleLink final : public Link {
 public:
  std::uint16_t rx_burst(rte_mbuf**, std::uint16_t, std::uint64_t) override { return 0; }
  std::uint16_t tx_burst(rte_mbuf**, std::uint16_t, std::uint64_t) override { return 0; }
  [[nodiscard]] rte_ether_addr mac() const override { return {}; }
  [[nodiscard]] std::uint16_t mtu() const override { return 1500; }
};

class OneShard final : public Steering {
 public:
  [[nodiscard]] std::uint16_t shard_of(const rte_mbuf*) const override { return 0; }
};

TEST(CounterTexts, OfHost) {
  Names names;
  HostCounters().visit(&add_counter, &names);
  EXPECT_EQ(described(&HostCounters::describe), names);
}

TEST(CounterTexts, OfFaults) {
  IdleLink link;
  const FaultInjector faults(link, nullptr, {});
  EXPECT_EQ(described(&FaultInjector::describe_counters), counters_of(faults));
}

TEST(CounterTexts, OfSwitches) {
  const net::LearningSwitch joined({.ports = 2});
  Names ports;
  joined.visit_port_counters(1, &add_counter, &ports);
  EXPECT_EQ(described(&net::LearningSwitch::describe_port_counters), ports);
  Names macs;
  joined.visit_mac_counters(&add_counter, &macs);
  EXPECT_EQ(described(&net::LearningSwitch::describe_mac_counters), macs);

  IdleLink link;
  const SwitchedLink switched({.ports = {{&link, [] { return true; }}}});
  EXPECT_EQ(described(&SwitchedLink::describe_counters), counters_of(switched));
}

TEST(CounterTexts, OfShards) {
  const auto rings = ShardRings::create(2);
  ASSERT_TRUE(rings.has_value());
  IdleLink link;
  const OneShard steering;
  const ShardLink shard(link, **rings, steering, 0);
  EXPECT_EQ(described(&ShardLink::describe_counters), counters_of(shard));
}

TEST(CounterTexts, OfPorts) {
  const auto port = Port::open({.devargs = "net_ring_texts", .mtu = 1500});
  ASSERT_TRUE(port.has_value()) << port.error().message;
  const Names texts = described(&Port::describe_counters);
  EXPECT_THAT(counters_of(**port), IsSubsetOf(texts));
  // Those that this one lacks are memif's.
  Names others;
  for (const std::string& name : texts) {
    if (!name.starts_with("memif_")) others.push_back(name);
  }
  EXPECT_THAT(counters_of(**port), ElementsAreArray(others));
}

}  // namespace
}  // namespace rockhopper::stack::counter_texts_test
