// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/host_counters.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

std::map<std::string, std::uint64_t> all(const HostCounters& counters) {
  std::map<std::string, std::uint64_t> values;
  counters.visit(
      [](void* context, const char* name, std::uint64_t value) {
        auto& map = *static_cast<std::map<std::string, std::uint64_t>*>(context);
        EXPECT_TRUE(map.emplace(name, value).second) << name << " is there twice";
      },
      &values);
  return values;
}

TEST(HostCounters, EachReasonAndEventHasANameOfItsOwn) {
  HostCounters counters;
  constexpr auto kDrops = static_cast<std::size_t>(HostDrop::none);
  constexpr auto kEvents = static_cast<std::size_t>(HostEvent::count);
  EXPECT_EQ(all(counters).size(), kDrops + kEvents);
  for (std::size_t i = 0; i < kDrops; ++i) {
    const auto reason = static_cast<HostDrop>(i);
    counters.add(reason);
    EXPECT_EQ(all(counters).at(to_string(reason)), 1u);
  }
  counters.add(HostEvent::rx_packets, 7);
  EXPECT_EQ(all(counters).at("rx_packets"), 7u);
}

TEST(HostCounters, EachIsInTheDocumentation) {
  const auto page = std::filesystem::path(ROCKHOPPER_TEST_DATA) / "../../docs/ip-host.md";
  std::ifstream file(page);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(text.empty()) << page;
  for (const auto& [name, value] : all(HostCounters())) {
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace rockhopper::stack
