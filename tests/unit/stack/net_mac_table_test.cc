// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <map>

#include <gtest/gtest.h>

#include "stack/net/mac_table.h"
#include "stack/random.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::net::net_mac_table_test {
namespace {

using Learned = MacTable::Learned;

rte_ether_addr station(std::uint8_t number) { return {{0x02, 0x5a, 0x00, 0x00, 0x00, number}}; }

TEST(MacTable, ForgetsWhatWasNotHeardForTheAgeingTime) {
  MacTable table(8, 100, 1);
  EXPECT_EQ(table.learn(station(1), 0, 1000), Learned::added);
  EXPECT_EQ(table.learn(station(2), 1, 1050), Learned::added);
  EXPECT_EQ(table.expire(1099), 0u);
  EXPECT_EQ(table.expire(1100), 1u);
  EXPECT_FALSE(table.find(station(1)));
  EXPECT_EQ(table.find(station(2)), PortNumber{1});
  EXPECT_EQ(table.learn(station(2), 1, 1149), Learned::known);  // heard again in time
  EXPECT_EQ(table.expire(1200), 0u);
  EXPECT_EQ(table.expire(1249), 1u);
  EXPECT_EQ(table.size(), 0u);
}

TEST(MacTable, AFullTableKeepsWhomItKnows) {
  MacTable table(2, 100, 1);
  EXPECT_EQ(table.learn(station(1), 0, 0), Learned::added);
  EXPECT_EQ(table.learn(station(2), 0, 0), Learned::added);
  EXPECT_EQ(table.learn(station(3), 0, 0), Learned::full);
  EXPECT_EQ(table.learn(station(2), 1, 0), Learned::moved);  // needs no room
  EXPECT_EQ(table.find(station(1)), PortNumber{0});
  EXPECT_EQ(table.find(station(2)), PortNumber{1});
  EXPECT_FALSE(table.find(station(3)));
  EXPECT_EQ(table.forget_port(0), 1u);
  EXPECT_EQ(table.learn(station(3), 0, 0), Learned::added);
}

/// The same by the simplest means.
class Model {
 public:
  Model(std::size_t capacity, std::uint64_t ageing_ns)
      : capacity_(capacity), ageing_ns_(ageing_ns) {}

  Learned learn(int number, PortNumber port, std::uint64_t now_ns) {
    const auto found = stations_.find(number);
    if (found == stations_.end()) {
      if (stations_.size() == capacity_) return Learned::full;
      stations_[number] = {port, now_ns};
      return Learned::added;
    }
    const bool moved = found->second.port != port;
    found->second = {port, now_ns};
    return moved ? Learned::moved : Learned::known;
  }
  std::optional<PortNumber> find(int number) const {
    const auto found = stations_.find(number);
    if (found == stations_.end()) return std::nullopt;
    return found->second.port;
  }
  std::size_t expire(std::uint64_t now_ns) {
    return std::erase_if(stations_,
                         [&](const auto& s) { return s.second.heard_ns + ageing_ns_ <= now_ns; });
  }
  std::size_t forget_port(PortNumber port) {
    return std::erase_if(stations_, [&](const auto& s) { return s.second.port == port; });
  }
  std::size_t size() const { return stations_.size(); }

 private:
  struct Heard {
    PortNumber port;
    std::uint64_t heard_ns;
  };
  std::size_t capacity_;
  std::uint64_t ageing_ns_;
  std::map<int, Heard> stations_;
};

TEST(MacTable, AgreesWithAModel) {
  Random random(test::seed());
  for (int round = 0; round < 50; ++round) {
    const std::size_t capacity = 1 + random.below(20);
    const std::uint64_t ageing_ns = 1 + random.below(1000);
    MacTable table(capacity, ageing_ns, random.next());
    Model model(capacity, ageing_ns);
    std::uint64_t now_ns = random.below(1000);
    for (int step = 0; step < 2000; ++step) {
      now_ns += random.below(20);
      const auto number = static_cast<std::uint8_t>(random.below(30));
      const auto port = static_cast<PortNumber>(random.below(4));
      if (random.chance(0.01)) {
        ASSERT_EQ(table.forget_port(port), model.forget_port(port));
      } else if (random.chance(0.3)) {
        ASSERT_EQ(table.expire(now_ns), model.expire(now_ns));
      } else if (random.chance(0.5)) {
        ASSERT_EQ(table.learn(station(number), port, now_ns), model.learn(number, port, now_ns));
      } else {
        ASSERT_EQ(table.find(station(number)), model.find(number));
      }
      ASSERT_EQ(table.size(), model.size());
    }
  }
}

}  // namespace
}  // namespace rockhopper::stack::net::net_mac_table_test
