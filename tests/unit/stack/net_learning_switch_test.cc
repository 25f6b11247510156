// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack/fault_injector.h"
#include "stack/mbuf_pool.h"
#include "stack/net/forwarder.h"
#include "stack/net/learning_switch.h"
#include "stack/random.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::net::net_learning_switch_test {
namespace {

using test::Bytes;
using Frames = std::vector<Bytes>;

constexpr std::uint8_t kBroadcast = 0xFF;

/// The address of a station; kBroadcast is everybody's.
Bytes mac(std::uint8_t number) {
  if (number == kBroadcast) return Bytes(6, 0xFF);
  return {0x02, 0, 0, 0, 0, number};
}

Bytes frame(std::uint8_t to, std::uint8_t from, const Bytes& payload = {0x88, 0xB5, 1, 2, 3}) {
  Bytes bytes = mac(to);
  const Bytes source = mac(from);
  bytes.insert(bytes.end(), source.begin(), source.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

/// An Ethernet type of no IP packet, whose priority would change the order, and random bytes.
Bytes random_payload(Random& random, std::size_t size) {
  Bytes payload = test::random_bytes(random, size);
  payload[0] = 0x88;
  payload[1] = 0xB5;
  return payload;
}

class LearningSwitchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = MbufPool::create({.size = 4095, .cache = 0});
    ASSERT_TRUE(pool.has_value()) << pool.error().message;
    pool_ = std::move(*pool);
  }
  void TearDown() override {
    switch_.reset();
    EXPECT_EQ(pool_.in_use(), 0u) << "mbufs have leaked";
  }

  void make_switch(const LearningSwitchConfig& config, bool up = true) {
    switch_ = std::make_unique<LearningSwitch>(config);
    for (PortNumber port = 0; port < config.ports; ++port) {
      switch_->set_link(port, up);
    }
  }
  void receive(PortNumber port, const Bytes& bytes, std::uint64_t now_ns = 0,
               std::size_t segment = 0) {
    rte_mbuf* packet = test::make_packet(pool_.get(), bytes, segment);
    ASSERT_NE(packet, nullptr);
    switch_->receive(port, &packet, 1, now_ns);
  }
  /// Takes what waits for a port, as a link that has sent it.
  std::vector<Bytes> take(PortNumber port) {
    std::vector<Bytes> taken;
    rte_mbuf* packet = nullptr;
    while (switch_->output(port, &packet, 1, 0) == 1) {
      taken.push_back(test::bytes_of(packet));
      switch_->sent(port, 1, 0);
      rte_pktmbuf_free(packet);
    }
    return taken;
  }
  std::map<std::string, std::uint64_t> counters(PortNumber port) const {
    std::map<std::string, std::uint64_t> result;
    switch_->visit_port_counters(
        port,
        [](void* context, const char* name, std::uint64_t value) {
          (*static_cast<std::map<std::string, std::uint64_t>*>(context))[name] = value;
        },
        &result);
    return result;
  }

  MbufPool pool_;
  std::unique_ptr<LearningSwitch> switch_;
};

TEST_F(LearningSwitchTest, FloodsToAllButTheIngressUntilItHasLearned) {
  make_switch({.ports = 3});
  const Bytes hello = frame(2, 1);
  receive(0, hello);
  EXPECT_TRUE(take(0).empty());
  EXPECT_EQ(take(1), Frames{hello});
  EXPECT_EQ(take(2), Frames{hello});
  const Bytes answer = frame(1, 2);
  receive(1, answer);
  EXPECT_EQ(take(0), Frames{answer});
  EXPECT_TRUE(take(2).empty());
  receive(0, hello);
  EXPECT_EQ(take(1), Frames{hello});
  EXPECT_TRUE(take(2).empty());
  EXPECT_EQ(counters(0)["rx_flooded"], 1u);
  EXPECT_EQ(counters(0)["rx_forwarded"], 1u);
}

TEST_F(LearningSwitchTest, GroupAddressesAreAlwaysFlooded) {
  make_switch({.ports = 3});
  const Bytes broadcast = frame(kBroadcast, 1);
  Bytes multicast = frame(0, 1);
  multicast[0] = 0x33;
  for (const Bytes& bytes : {broadcast, multicast, broadcast}) {
    receive(2, bytes);
    EXPECT_EQ(take(0), Frames{bytes});
    EXPECT_EQ(take(1), Frames{bytes});
    EXPECT_TRUE(take(2).empty());
  }
}

TEST_F(LearningSwitchTest, VlanTagsPassUnchanged) {
  make_switch({.ports = 2});
  const Bytes tagged = frame(2, 1, {0x81, 0x00, 0x60, 0x07, 0x08, 0x00, 0x45});
  receive(0, tagged);
  EXPECT_EQ(take(1), Frames{tagged});
}

TEST_F(LearningSwitchTest, NothingGoesBackOutTheIngress) {
  make_switch({.ports = 2});
  receive(0, frame(kBroadcast, 1));
  receive(0, frame(kBroadcast, 2));
  (void)take(1);
  receive(0, frame(2, 1));
  EXPECT_TRUE(take(0).empty());
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(counters(0)["rx_dropped_same_port"], 1u);
}

TEST_F(LearningSwitchTest, NobodyTakesTheAddressOfAFixedStation) {
  make_switch({.ports = 3});
  rte_ether_addr station{};
  std::ranges::copy(mac(1), station.addr_bytes);
  switch_->fix_station(station, 1);
  receive(0, frame(2, 1));
  EXPECT_EQ(counters(0)["rx_dropped_moved"], 1u);
  const Bytes for_it = frame(1, 2);
  receive(0, for_it);
  EXPECT_EQ(take(1), Frames{for_it}) << "it has said nothing yet";
  EXPECT_TRUE(take(2).empty());
  const Bytes answer = frame(2, 1);
  receive(1, answer);
  EXPECT_EQ(take(0), Frames{answer});
}

TEST_F(LearningSwitchTest, BadFramesAreDroppedEachWithItsReason) {
  make_switch({.ports = 2});
  receive(0, Bytes(13, 0x02));
  EXPECT_EQ(counters(0)["rx_dropped_runt"], 1u);
  Bytes group_source = frame(2, 1);
  group_source[6] = 0x03;
  receive(0, group_source);
  Bytes zero_source = frame(2, 0);
  zero_source[6] = 0;
  receive(0, zero_source);
  EXPECT_EQ(counters(0)["rx_dropped_source"], 2u);
  Bytes pause = frame(0, 1);
  std::ranges::copy(Bytes{0x01, 0x80, 0xC2, 0x00, 0x00, 0x01}, pause.begin());
  receive(0, pause);
  EXPECT_EQ(counters(0)["rx_dropped_link_local"], 1u);
  EXPECT_TRUE(take(1).empty());
  pause[5] = 0x10;  // the first one that bridges forward
  receive(0, pause);
  EXPECT_EQ(take(1), Frames{pause});
}

TEST_F(LearningSwitchTest, PortsThatAreDownGetNothingAndLoseTheirStations) {
  make_switch({.ports = 3});
  receive(0, frame(kBroadcast, 1));
  receive(1, frame(kBroadcast, 2));
  for (PortNumber port = 0; port < 3; ++port) {
    (void)take(port);
  }
  receive(0, frame(2, 1));
  switch_->set_link(1, false);
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(counters(1)["tx_dropped_link_down"], 1u);
  EXPECT_EQ(switch_->mac_counters().flushed.value(), 1u);
  const Bytes searching = frame(2, 1);
  receive(0, searching);  // nobody knows station 2 any more
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(take(2), Frames{searching});
  switch_->set_link(2, false);
  receive(0, searching);
  EXPECT_EQ(counters(0)["rx_dropped_no_port"], 1u);
  // Whoever is heard is up.
  receive(1, frame(1, 2));
  EXPECT_EQ(take(0).size(), 1u);
  receive(0, searching);
  EXPECT_EQ(take(1), Frames{searching});
}

TEST_F(LearningSwitchTest, AFullQueueDropsForItsPortOnly) {
  make_switch({.ports = 3, .outputs = {{.queue_packets = 2}}});
  for (std::uint8_t i = 0; i < 3; ++i) {
    receive(0, frame(kBroadcast, 1, {0x88, 0xB5, i}));
    EXPECT_EQ(take(2).size(), 1u);
  }
  EXPECT_EQ(counters(1)["tx_dropped_queue_full"], 1u);
  EXPECT_EQ(counters(2)["tx_dropped_queue_full"], 0u);
  EXPECT_EQ(take(1),
            (Frames{frame(kBroadcast, 1, {0x88, 0xB5, 0}), frame(kBroadcast, 1, {0x88, 0xB5, 1})}));
}

TEST_F(LearningSwitchTest, PortsHaveTheirOwnRateQueueAndMarking) {
  make_switch({.ports = 3,
               .outputs = {{},
                           {.rate_bits_per_s = 1'000'000'000},
                           {.queue_bytes = 250, .ecn = {.kmax_bytes = 1, .pmax = 1}}}});
  // IPv4, ECT(0).
  const Bytes capable = [] {
    Bytes payload(86, 0);
    payload[0] = 0x08;
    payload[2] = 0x45;
    payload[3] = 2;
    return payload;
  }();
  for (int i = 0; i < 3; ++i) {
    receive(0, frame(kBroadcast, 1, capable));
  }
  EXPECT_EQ(counters(1)["tx_dropped_queue_full"], 0u);
  EXPECT_EQ(counters(2)["tx_dropped_queue_full"], 1u);
  EXPECT_EQ(counters(2)["tx_ecn_not_marked"], 1u) << "others hold it too";
  // 98 + 24 bytes at 1 Gbit/s: the second leaves 976 ns after the first.
  std::array<rte_mbuf*, 4> packets{};
  ASSERT_EQ(switch_->output(1, packets.data(), 4, 5000), 1);
  switch_->sent(1, 1, 5000);
  rte_pktmbuf_free(packets[0]);
  EXPECT_EQ(switch_->output(1, packets.data(), 4, 5975), 0);
  EXPECT_EQ(switch_->output(1, packets.data(), 4, 5976), 1);
  (void)take(2);
  receive(2, frame(kBroadcast, 3));
  receive(1, frame(3, 1, capable));
  receive(1, frame(3, 1, capable));
  EXPECT_EQ(counters(2)["tx_ecn_marked"], 1u);
}

TEST_F(LearningSwitchTest, AFullMacTableFloods) {
  make_switch({.ports = 3, .mac_table_size = 1});
  receive(0, frame(kBroadcast, 1));
  receive(1, frame(kBroadcast, 2));
  for (PortNumber port = 0; port < 3; ++port) {
    (void)take(port);
  }
  EXPECT_EQ(switch_->mac_counters().full.value(), 1u);
  receive(0, frame(2, 1));
  EXPECT_EQ(take(1).size(), 1u);
  EXPECT_EQ(take(2).size(), 1u);
}

TEST_F(LearningSwitchTest, StationsAgeOut) {
  make_switch({.ports = 3, .mac_ageing_ns = 1000});
  receive(1, frame(kBroadcast, 2), 5);
  for (PortNumber port = 0; port < 3; ++port) {
    (void)take(port);
  }
  receive(0, frame(2, 1), 1004);
  EXPECT_TRUE(take(2).empty());
  receive(0, frame(2, 1), 1005);
  EXPECT_EQ(take(2).size(), 1u);
  EXPECT_EQ(switch_->mac_counters().aged.value(), 1u);
}

TEST_F(LearningSwitchTest, TellsTheObserverOfDrops) {
  struct Observer : DropObserver {
    void on_drop(const rte_mbuf*, const char* reason) override { reasons.emplace_back(reason); }
    std::vector<std::string> reasons;
  } observer;
  make_switch({.ports = 2});
  switch_->set_drop_observer(1, &observer);
  receive(0, Bytes(3, 0));
  receive(1, Bytes(3, 0));
  EXPECT_EQ(observer.reasons, std::vector<std::string>{"rx_dropped_runt"});
}

/// A link whose other end is the test.
class TestLink final : public Link {
 public:
  ~TestLink() override {
    for (rte_mbuf* packet : arriving) {
      rte_pktmbuf_free(packet);
    }
  }
  std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) override {
    std::uint16_t taken = 0;
    for (; taken < count && !arriving.empty(); ++taken) {
      packets[taken] = arriving.front();
      arriving.pop_front();
    }
    return taken;
  }
  std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) override {
    const auto taken = static_cast<std::uint16_t>(std::min<std::size_t>(count, room));
    for (std::uint16_t i = 0; i < taken; ++i) {
      sent.push_back(test::bytes_of(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
    room -= taken;
    return taken;
  }
  rte_ether_addr mac() const override { return {}; }
  std::uint16_t mtu() const override { return 1500; }

  std::deque<rte_mbuf*> arriving;
  std::vector<Bytes> sent;
  std::size_t room = SIZE_MAX;
};

TEST_F(LearningSwitchTest, DamageBehindOnePortLeavesTheCopiesOfOthersWhole) {
  make_switch({.ports = 3});
  FaultConfig faults;
  faults.tx.corrupt = 1;
  faults.tx.duplicate = 1;
  faults.seed = test::seed();
  std::array<TestLink, 3> wires;
  FaultInjector damaged(wires[1], pool_.get(), faults);
  Forwarder forwarder(*switch_, {{&wires[0], [] { return true; }},
                                 {&damaged, [] { return true; }},
                                 {&wires[2], [] { return true; }}});
  Random random(test::seed());
  std::vector<Bytes> originals;
  for (int i = 0; i < 100; ++i) {
    originals.push_back(frame(kBroadcast, 1, random_payload(random, 2 + random.below(300))));
    // In several mbufs: a copy must reach into all of them.
    wires[0].arriving.push_back(test::make_packet(pool_.get(), originals.back(), 40));
  }
  while (forwarder.turn(1)) {
  }
  EXPECT_EQ(wires[2].sent, originals);
  ASSERT_EQ(wires[1].sent.size(), 2 * originals.size());
  EXPECT_EQ(std::ranges::count_if(wires[1].sent,
                                  [&](const Bytes& bytes) {
                                    return std::ranges::find(originals, bytes) != originals.end();
                                  }),
            0);
}

TEST_F(LearningSwitchTest, ForwarderKeepsOrderAndLosesNothingWhenLinksAreSlow) {
  make_switch({.ports = 2, .outputs = {{.queue_packets = 1000}}});
  std::array<TestLink, 2> wires;
  Forwarder forwarder(*switch_,
                      {{&wires[0], [] { return true; }}, {&wires[1], [] { return true; }}});
  Random random(test::seed());
  std::vector<Bytes> originals;
  for (int i = 0; i < 900; ++i) {
    originals.push_back(frame(2, 1, random_payload(random, 20)));
    wires[0].arriving.push_back(test::make_packet(pool_.get(), originals.back()));
  }
  for (int turn = 0; turn < 100000 && wires[1].sent.size() < originals.size(); ++turn) {
    wires[1].room = random.below(40);
    (void)forwarder.turn(1);
  }
  EXPECT_EQ(wires[1].sent, originals);
  EXPECT_EQ(counters(1)["tx_packets"], originals.size());
}

TEST_F(LearningSwitchTest, ForwarderLooksAtTheLinks) {
  make_switch({.ports = 2}, false);
  std::array<TestLink, 2> wires;
  bool up = false;
  Forwarder forwarder(*switch_,
                      {{&wires[0], [] { return true; }}, {&wires[1], [&] { return up; }}});
  wires[0].arriving.push_back(test::make_packet(pool_.get(), frame(2, 1)));
  EXPECT_TRUE(forwarder.turn(1));
  EXPECT_TRUE(wires[1].sent.empty());
  up = true;
  (void)forwarder.turn(1 + Forwarder::kLinkCheckNs);
  wires[0].arriving.push_back(test::make_packet(pool_.get(), frame(2, 1)));
  (void)forwarder.turn(2 + Forwarder::kLinkCheckNs);
  EXPECT_EQ(wires[1].sent.size(), 1u);
}

/// What a switch with these rules does, in the plainest terms.
struct Model {
  struct Heard {
    PortNumber port;
    std::uint64_t time_ns;
  };
  LearningSwitchConfig config;
  std::map<std::uint8_t, Heard> stations{};
  std::vector<bool> up{};
  std::vector<std::deque<Bytes>> queues{};

  void enqueue(PortNumber port, const Bytes& bytes) {
    if (queues[port].size() < config.outputs[0].queue_packets) queues[port].push_back(bytes);
  }
  void receive(PortNumber ingress, std::uint8_t to, std::uint8_t from, const Bytes& bytes,
               std::uint64_t now_ns) {
    std::erase_if(stations,
                  [&](const auto& s) { return now_ns - s.second.time_ns >= config.mac_ageing_ns; });
    up[ingress] = true;
    if (stations.contains(from) || stations.size() < config.mac_table_size) {
      stations[from] = {ingress, now_ns};
    }
    if (to != kBroadcast && stations.contains(to)) {
      if (stations[to].port != ingress) enqueue(stations[to].port, bytes);
      return;
    }
    for (PortNumber port = 0; port < config.ports; ++port) {
      if (port != ingress && up[port]) enqueue(port, bytes);
    }
  }
  void set_link(PortNumber port, bool is_up) {
    if (up[port] && !is_up) {
      queues[port].clear();
      std::erase_if(stations, [&](const auto& s) { return s.second.port == port; });
    }
    up[port] = is_up;
  }
};

TEST_F(LearningSwitchTest, AgreesWithAModelAndAccountsForEveryPacket) {
  Random random(test::seed());
  for (int round = 0; round < 30; ++round) {
    const LearningSwitchConfig config{.ports = static_cast<PortNumber>(2 + random.below(5)),
                                      .mac_table_size = 1 + random.below(12),
                                      .mac_ageing_ns = 1 + random.below(500),
                                      .outputs = {{.queue_packets = 1 + random.below(8)}},
                                      .seed = random.next()};
    make_switch(config);
    Model model{config};
    model.up.assign(config.ports, true);
    model.queues.resize(config.ports);
    std::uint64_t now_ns = 0;
    for (int step = 0; step < 2000; ++step) {
      now_ns += random.below(10);
      const auto port = static_cast<PortNumber>(random.below(config.ports));
      if (random.chance(0.02)) {
        const bool up = random.chance(0.5);
        switch_->set_link(port, up);
        model.set_link(port, up);
      } else if (random.chance(0.3)) {
        const std::vector<Bytes> wanted(model.queues[port].begin(), model.queues[port].end());
        ASSERT_EQ(take(port), wanted);
        model.queues[port].clear();
      } else {
        const auto from = static_cast<std::uint8_t>(1 + random.below(15));
        const auto to =
            random.chance(0.1) ? kBroadcast : static_cast<std::uint8_t>(1 + random.below(15));
        const Bytes bytes = frame(to, from, random_payload(random, 2 + random.below(60)));
        receive(port, bytes, now_ns, random.chance(0.3) ? 5 : 0);
        model.receive(port, to, from, bytes, now_ns);
      }
    }
    for (PortNumber port = 0; port < config.ports; ++port) {
      auto count = counters(port);
      std::uint64_t dropped = 0;
      for (const auto& [name, value] : count) {
        if (name.starts_with("rx_dropped_")) dropped += value;
      }
      EXPECT_EQ(count["rx_packets"], count["rx_forwarded"] + count["rx_flooded"] + dropped);
      EXPECT_EQ(count["tx_enqueued"],
                count["tx_packets"] + count["tx_dropped_link_down"] + model.queues[port].size());
    }
  }
}

}  // namespace
}  // namespace rockhopper::stack::net::net_learning_switch_test
