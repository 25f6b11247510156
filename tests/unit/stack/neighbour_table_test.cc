// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Each edge of the state machine of RFC 4861, section 7.3 and appendix C.
#include "stack/neighbour_table.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack/random.h"
#include "tests/support/seed.h"

namespace rockhopper::stack {
namespace {

using State = NeighbourTable::State;

constexpr std::uint64_t kOneSecondNs = 1'000'000'000;

rte_ether_addr mac_of(std::uint8_t last) { return {{2, 0, 0, 0, 0, last}}; }
IpAddress peer(std::uint32_t number) { return IpAddress::from_ipv4(0x0a000000 + number); }

class NeighbourTableTest : public ::testing::Test, public NeighbourSolicitor {
 protected:
  struct Question {
    IpAddress target;
    bool unicast;
  };

  void solicit(const IpAddress& target, const rte_ether_addr* probed) override {
    questions_.push_back({target, probed != nullptr});
  }
  /// Lets time pass, timer by timer.
  void pass(std::uint64_t span_ns) {
    const std::uint64_t until_ns = now_ns_ + span_ns;
    while (timers_.next_deadline_ns() <= until_ns) {
      now_ns_ = std::max(now_ns_, timers_.next_deadline_ns());
      timers_.advance(now_ns_);
    }
    now_ns_ = until_ns;
  }
  Resolution use() {
    rte_ether_addr mac{};
    const Resolution resolution = table_.use(kPeer, now_ns_, mac);
    last_byte_ = mac.addr_bytes[5];
    return resolution;
  }
  void advertise(std::optional<std::uint8_t> mac, bool solicited, bool override_mac) {
    std::optional<rte_ether_addr> address;
    if (mac) address = mac_of(*mac);
    table_.advertise(kPeer, address, solicited, override_mac, now_ns_);
  }
  void learn(std::uint8_t mac) { table_.learn(kPeer, mac_of(mac), true, now_ns_); }

  /// Brings a fresh table's neighbour with MAC 1 into `state`.
  void enter(State state) {
    switch (state) {
      case State::incomplete:
        (void)use();
        break;
      case State::reachable:
        (void)use();
        advertise(1, true, true);
        break;
      case State::stale:
        learn(1);
        break;
      case State::delay:
        learn(1);
        (void)use();
        break;
      case State::probe:
        enter(State::delay);
        pass(NeighbourTable::kDelayFirstProbeNs + kOneSecondNs / 100);
        break;
      case State::failed:
        (void)use();
        pass(4 * kOneSecondNs);
        break;
      case State::permanent:
        ASSERT_TRUE(table_.add_permanent(kPeer, mac_of(1)));
        break;
    }
    ASSERT_EQ(table_.state(kPeer), state);
    questions_.clear();
  }

  const IpAddress kPeer = peer(1);
  TimingWheel timers_{1 << 20};
  HostCounters counters_;
  NeighbourTable table_{8, test::seed(), timers_, *this, counters_};
  std::vector<Question> questions_;
  std::uint64_t now_ns_ = 5 * kOneSecondNs;
  std::uint8_t last_byte_ = 0;
};

/// An event in a state, and the state and MAC (its last byte) that follow.
struct Edge {
  State from;
  const char* event;
  State to;
  std::uint8_t mac;
};

std::ostream& operator<<(std::ostream& out, const Edge& edge) {
  return out << edge.event << " in state " << static_cast<int>(edge.from);
}

class NeighbourEdges : public NeighbourTableTest, public ::testing::WithParamInterface<Edge> {};

TEST_P(NeighbourEdges, Rfc4861AppendixC) {
  enter(GetParam().from);
  const std::string event = GetParam().event;
  // Advertisements: MAC 1 is the known one; S and O are the flags.
  if (event == "NA S O same") advertise(1, true, true);
  if (event == "NA S O other") advertise(2, true, true);
  if (event == "NA S other") advertise(2, true, false);
  if (event == "NA S same") advertise(1, true, false);
  if (event == "NA S none") advertise({}, true, false);
  if (event == "NA O same") advertise(1, false, true);
  if (event == "NA O other") advertise(2, false, true);
  if (event == "NA other") advertise(2, false, false);
  if (event == "NA none") advertise({}, false, false);
  if (event == "NS same") learn(1);
  if (event == "NS other") learn(2);
  ASSERT_EQ(table_.state(kPeer), GetParam().to);
  if (GetParam().to == State::incomplete || GetParam().to == State::failed) return;
  EXPECT_EQ(use(), Resolution::ready);
  EXPECT_EQ(last_byte_, GetParam().mac);
}

INSTANTIATE_TEST_SUITE_P(
    All, NeighbourEdges,
    ::testing::Values(Edge{State::incomplete, "NA S O same", State::reachable, 1},
                      Edge{State::incomplete, "NA S other", State::reachable, 2},
                      Edge{State::incomplete, "NA O other", State::stale, 2},
                      Edge{State::incomplete, "NA other", State::stale, 2},
                      Edge{State::incomplete, "NA S none", State::incomplete, 0},
                      Edge{State::incomplete, "NS other", State::stale, 2},
                      Edge{State::reachable, "NA S O other", State::stale, 2},
                      Edge{State::reachable, "NA S other", State::stale, 1},
                      Edge{State::reachable, "NA other", State::stale, 1},
                      Edge{State::reachable, "NA O other", State::stale, 2},
                      Edge{State::reachable, "NA O same", State::reachable, 1},
                      Edge{State::reachable, "NA none", State::reachable, 1},
                      Edge{State::reachable, "NS same", State::reachable, 1},
                      Edge{State::reachable, "NS other", State::stale, 2},
                      Edge{State::stale, "NA O other", State::stale, 2},
                      Edge{State::stale, "NA other", State::stale, 1},
                      Edge{State::stale, "NA S none", State::stale, 1},
                      Edge{State::stale, "NS other", State::stale, 2},
                      Edge{State::delay, "NA O other", State::stale, 2},
                      Edge{State::delay, "NA S other", State::delay, 1},
                      Edge{State::delay, "NS same", State::delay, 1},
                      Edge{State::probe, "NA S none", State::reachable, 1},
                      Edge{State::probe, "NA S same", State::reachable, 1},
                      Edge{State::probe, "NA S O other", State::reachable, 2},
                      Edge{State::probe, "NA S other", State::probe, 1},
                      Edge{State::probe, "NA O same", State::probe, 1},
                      Edge{State::probe, "NA O other", State::stale, 2},
                      Edge{State::probe, "NS other", State::stale, 2},
                      Edge{State::failed, "NA S O other", State::stale, 2},
                      Edge{State::failed, "NA S none", State::failed, 0},
                      Edge{State::failed, "NS other", State::stale, 2},
                      Edge{State::permanent, "NA S O other", State::permanent, 1},
                      Edge{State::permanent, "NS other", State::permanent, 1}));

TEST_F(NeighbourTableTest, TimersLeadFromStateToState) {
  enter(State::reachable);
  pass(NeighbourTable::kReachableNs / 2 - 1);
  EXPECT_EQ(table_.state(kPeer), State::reachable);
  pass(NeighbourTable::kReachableNs + kOneSecondNs / 100);
  EXPECT_EQ(table_.state(kPeer), State::stale);
  EXPECT_EQ(use(), Resolution::ready);
  EXPECT_EQ(table_.state(kPeer), State::delay);
  pass(NeighbourTable::kDelayFirstProbeNs - 1);
  EXPECT_TRUE(questions_.empty());
  pass(kOneSecondNs / 100);
  EXPECT_EQ(table_.state(kPeer), State::probe);
  ASSERT_EQ(questions_.size(), 1u);
  EXPECT_TRUE(questions_[0].unicast);
  pass(4 * kOneSecondNs);
  EXPECT_EQ(table_.state(kPeer), State::incomplete);
  ASSERT_EQ(questions_.size(), 4u);
  EXPECT_FALSE(questions_[3].unicast);
  EXPECT_EQ(use(), Resolution::pending);
  pass(4 * kOneSecondNs);
  EXPECT_EQ(table_.state(kPeer), State::failed);
  EXPECT_EQ(questions_.size(), 6u);
  pass(NeighbourTable::kHoldDownNs);
  EXPECT_EQ(table_.state(kPeer), std::nullopt);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(NeighbourTableTest, JitterComesFromTheSeed) {
  const auto time_of_retry = [&](std::uint64_t seed) {
    TimingWheel timers(1);
    NeighbourTable table(8, seed, timers, *this, counters_);
    questions_.clear();
    rte_ether_addr mac{};
    (void)table.use(kPeer, 0, mac);
    std::uint64_t time_ns = 0;
    while (questions_.size() < 2) {
      time_ns = timers.next_deadline_ns();
      timers.advance(time_ns);
    }
    return time_ns;
  };
  EXPECT_EQ(time_of_retry(7), time_of_retry(7));
  EXPECT_NE(time_of_retry(7), time_of_retry(8));
}

TEST_F(NeighbourTableTest, APermanentNeighbourCannotBeEvicted) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(table_.add_permanent(peer(i), mac_of(3)));
  }
  EXPECT_FALSE(table_.add_permanent(peer(9), mac_of(3)));
  table_.learn(peer(10), mac_of(4), true, now_ns_);
  rte_ether_addr mac{};
  EXPECT_EQ(table_.use(peer(11), now_ns_, mac), Resolution::unreachable);
  EXPECT_EQ(counters_.value(HostEvent::neighbour_table_full), 3u);
  EXPECT_EQ(table_.size(), 8u);
  // An old one may change.
  EXPECT_TRUE(table_.add_permanent(peer(0), mac_of(5)));
}

/// What was found stays right as long as the generation stays: the promise that flows rely on.
TEST_F(NeighbourTableTest, AnUnchangedGenerationMeansAnUnchangedAnswer) {
  Random random(test::seed());
  struct Cached {
    std::uint64_t generation = 0;
    rte_ether_addr mac{};
  };
  std::map<std::uint32_t, Cached> cache;
  for (int step = 0; step < 200'000; ++step) {
    const auto number = static_cast<std::uint32_t>(random.below(12));
    const rte_ether_addr mac = mac_of(static_cast<std::uint8_t>(1 + random.below(3)));
    switch (random.below(6)) {
      case 0:
        table_.learn(peer(number), mac, random.below(2) == 0, now_ns_);
        break;
      case 1:
        table_.advertise(peer(number), mac, random.below(2) == 0, random.below(2) == 0, now_ns_);
        break;
      case 2:
        pass(random.next() >> (28 + random.below(20)));
        break;
      default: {
        Cached& cached = cache[number];
        const bool unchanged = cached.generation == table_.generation();
        rte_ether_addr found{};
        const Resolution resolution = table_.use(peer(number), now_ns_, found);
        if (unchanged) {
          ASSERT_EQ(resolution, Resolution::ready);
          ASSERT_TRUE(rte_is_same_ether_addr(&found, &cached.mac) != 0);
        }
        cached.generation = resolution == Resolution::ready ? table_.generation() : 0;
        cached.mac = found;
      }
    }
    ASSERT_LE(table_.size(), 8u);
  }
  EXPECT_GT(counters_.value(HostEvent::neighbours_evicted), 0u);
  EXPECT_GT(counters_.value(HostEvent::neighbour_mac_changes), 0u);
}

}  // namespace
}  // namespace rockhopper::stack
