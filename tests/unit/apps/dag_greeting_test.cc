// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/rh_dag/greeting.h"

namespace rockhopper::apps::dag_node {
namespace {

Welcome welcome() {
  return {.gid = *stack::IpAddress::parse("fd00::7"),
          .grant = {.client = 5,
                    .target = wire::Qpn::make(0x123456),
                    .access_key = 0xfedcba9876543210,
                    .records_key = roce::MemoryKey{0xffffffff},
                    .records_bytes = 1ull << 40,
                    .area_key = roce::MemoryKey{7},
                    .application_key = roce::MemoryKey{8},
                    .application_bytes = 9,
                    .lease_ns = 1,
                    .capacity_max = 1u << 30,
                    .hash_bits = 64}};
}

TEST(DagGreeting, ComesAcrossAsItWas) {
  const Hello hello{.path_mtu = 4096,
                    .gid = *stack::IpAddress::parse("10.0.0.1"),
                    .target = wire::Qpn::make(0xabcdef),
                    .access_key = UINT64_MAX};
  const auto offer = fields_from_json<Offer>(fields_to_json(Offer{.path_mtu = 4096}));
  ASSERT_TRUE(offer);
  const auto heard = hello_from_json(fields_to_json(hello), *offer);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->gid, hello.gid);
  EXPECT_EQ(heard->target, hello.target);
  EXPECT_EQ(heard->access_key, hello.access_key);
  EXPECT_FALSE(hello_from_json(fields_to_json(hello), Offer{.path_mtu = 1024}));

  const auto granted = fields_from_json<Welcome>(fields_to_json(welcome()));
  ASSERT_TRUE(granted);
  EXPECT_EQ(fields_to_json(*granted), fields_to_json(welcome()));
  EXPECT_EQ(granted->grant.records_key, welcome().grant.records_key);
  EXPECT_EQ(granted->grant.application_bytes, 9u);
}

TEST(DagGreeting, EachMemberIsNeeded) {
  const auto whole = fields_to_json(welcome());
  for (const auto& [name, value] : whole["grant"].items()) {
    auto less = whole;
    less["grant"].erase(name);
    EXPECT_FALSE(fields_from_json<Welcome>(less)) << name;
    less["grant"][name] = "text";
    EXPECT_FALSE(fields_from_json<Welcome>(less)) << name;
    less["grant"][name] = -1;
    EXPECT_FALSE(fields_from_json<Welcome>(less)) << name;
  }
  for (const char* gid : {"", "::", "ff02::1", "0.0.0.0", "here"}) {
    auto other = whole;
    other["gid"] = gid;
    EXPECT_FALSE(fields_from_json<Welcome>(other)) << gid;
  }
  EXPECT_FALSE(fields_from_json<Welcome>(nlohmann::json::array()));
  EXPECT_FALSE(fields_from_json<Offer>(
      nlohmann::json{{"version", kGreetingVersion + 1}, {"path_mtu", 1024}}));
  EXPECT_FALSE(
      fields_from_json<Offer>(nlohmann::json{{"version", kGreetingVersion}, {"path_mtu", 1000}}));
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
