// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "stack/ip_header.h"
#include "stack/mbuf_pool.h"
#include "stack/random.h"
#include "stack/sim/event_queue.h"
#include "stack/sim/network.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::sim {
namespace {

using test::Bytes;

struct Note final : Event {
  Note(std::vector<int>& to, int of) : notes(to), number(of) {}
  void run(std::uint64_t /*now_ns*/) override { notes.push_back(number); }
  std::vector<int>& notes;
  int number;
};

TEST(EventQueue, RunsInTheOrderOfTimesThenOfScheduling) {
  EventQueue queue;
  std::vector<int> notes;
  Note a(notes, 1), b(notes, 2), c(notes, 3), d(notes, 4);
  queue.schedule(a, 20);
  queue.schedule(b, 10);
  queue.schedule(c, 20);
  queue.schedule(d, 5);
  queue.schedule(d, 30);     // moved
  queue.schedule_by(a, 25);  // is earlier already
  queue.cancel(b);
  {
    Note gone(notes, 5);
    queue.schedule(gone, 1);
  }
  EXPECT_EQ(queue.next_ns(), 20u);
  while (queue.next_ns() != kNever) {
    queue.run_next();
  }
  EXPECT_EQ(notes, (std::vector<int>{1, 3, 4}));
  EXPECT_FALSE(a.scheduled());
}

TEST(EventQueue, AgreesWithASortedModel) {
  Random random(test::seed());
  EventQueue queue;
  std::vector<int> notes;
  std::vector<std::unique_ptr<Note>> events;
  std::map<int, std::pair<std::uint64_t, std::uint64_t>> model;  // number: time, order
  for (int i = 0; i < 60; ++i) {
    events.push_back(std::make_unique<Note>(notes, i));
  }
  std::uint64_t order = 0;
  for (int step = 0; step < 20'000; ++step) {
    const int number = static_cast<int>(random.below(events.size()));
    if (random.chance(0.5)) {
      const std::uint64_t time_ns = random.below(50);
      queue.schedule(*events[static_cast<std::size_t>(number)], time_ns);
      model[number] = {time_ns, order++};
    } else if (random.chance(0.3)) {
      queue.cancel(*events[static_cast<std::size_t>(number)]);
      model.erase(number);
    } else if (!model.empty()) {
      const auto first = std::min_element(model.begin(), model.end(),
                                          [](auto& a, auto& b) { return a.second < b.second; });
      ASSERT_EQ(queue.next_ns(), first->second.first);
      queue.run_next();
      ASSERT_EQ(notes.back(), first->first);
      model.erase(first);
    }
  }
}

/// Keeps what arrives, with its time.
struct Sink final : NicListener {
  explicit Sink(Nic& at) : nic(at) { nic.set_listener(this); }
  ~Sink() override {
    nic.set_listener(nullptr);
    for (rte_mbuf* packet : packets) {
      rte_pktmbuf_free(packet);
    }
  }
  void on_packets(std::uint64_t now_ns) override {
    std::array<rte_mbuf*, 32> some;
    const std::uint16_t count = nic.rx_burst(some.data(), 32, now_ns);
    for (std::uint16_t i = 0; i < count; ++i) {
      packets.push_back(some[i]);
      times_ns.push_back(now_ns);
    }
  }
  void on_room(std::uint64_t /*now_ns*/) override { ++rooms; }
  Nic& nic;
  std::vector<rte_mbuf*> packets;
  std::vector<std::uint64_t> times_ns;
  int rooms = 0;
};

class NetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = MbufPool::create({.size = 8191, .cache = 0});
    ASSERT_TRUE(pool.has_value()) << pool.error().message;
    pool_ = std::move(*pool);
  }
  void TearDown() override {
    sinks_.clear();
    network_.reset();
    EXPECT_EQ(pool_.in_use(), 0u) << "mbufs have leaked";
  }
  void start() {
    const auto built = network_->build();
    ASSERT_TRUE(built.has_value()) << built.error().message;
  }
  Sink& sink(NodeIndex host) {
    sinks_.push_back(std::make_unique<Sink>(network_->nic(host)));
    return *sinks_.back();
  }
  /// A frame of an IPv4/UDP packet from one station to another.
  rte_mbuf* frame(NodeIndex from, NodeIndex to, std::size_t size, std::uint16_t port = 0,
                  std::uint8_t traffic_class = 0) {
    Bytes bytes(size, 0);
    const rte_ether_addr destination = Network::mac_of(to);
    const rte_ether_addr source = Network::mac_of(from);
    std::copy_n(destination.addr_bytes, 6, bytes.begin());
    std::copy_n(source.addr_bytes, 6, bytes.begin() + 6);
    bytes[12] = 0x08;
    IpHeader ip;
    ip.protocol = 17;
    ip.traffic_class = traffic_class;
    ip.source = IpAddress::from_ipv4(0x0a000001u + from);
    ip.destination = IpAddress::from_ipv4(0x0a000001u + to);
    ip.payload_length = static_cast<std::uint16_t>(size - 34);
    emit_ip(ip, bytes.data() + 14);
    bytes[34] = static_cast<std::uint8_t>(port >> 8);
    bytes[35] = static_cast<std::uint8_t>(port);
    return test::make_packet(pool_.get(), bytes);
  }
  std::uint16_t send(NodeIndex from, rte_mbuf* packet) {
    return network_->nic(from).tx_burst(&packet, 1, network_->now_ns());
  }

  MbufPool pool_;
  std::unique_ptr<Network> network_ = std::make_unique<Network>(0);
  std::vector<std::unique_ptr<Sink>> sinks_;
};

TEST_F(NetworkTest, APacketTakesItsTransmissionAndDelayOnEachLink) {
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  const NodeIndex s = network_->add_switch({});
  network_->add_link(a, s, {.rate_bits_per_s = 1'000'000'000, .delay_ns = 100});
  network_->add_link(s, b, {.rate_bits_per_s = 8'000'000'000, .delay_ns = 10});
  start();
  Sink& at = sink(b);
  ASSERT_EQ(send(a, frame(a, b, 101)), 1);
  EXPECT_TRUE(network_->run_until(kNever));
  // 125 bytes: 1000 ns and 125 ns.
  EXPECT_EQ(at.times_ns, (std::vector<std::uint64_t>{1000 + 100 + 125 + 10}));
}

TEST_F(NetworkTest, AFullQueueDropsTheTail) {
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  const NodeIndex s = network_->add_switch({});
  network_->add_link(a, s, {.rate_bits_per_s = 10'000'000'000});
  network_->add_link(s, b,
                     {.rate_bits_per_s = 1'000'000'000, .switch_output = {.queue_bytes = 3000}});
  start();
  Sink& at = sink(b);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(send(a, frame(a, b, 1000)), 1);
  }
  network_->run_until(kNever);
  // Ten times as fast as they leave: beside the three that wait, two or three have left.
  EXPECT_GE(at.packets.size(), 4u);
  EXPECT_LE(at.packets.size(), 6u);
  EXPECT_EQ(at.packets.size() + network_->switch_at(s).counters().dropped_queue_full.value(), 20u);
}

TEST_F(NetworkTest, AFullNicTakesNoMoreAndSaysWhenItDoes) {
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  network_->add_link(a, b, {.rate_bits_per_s = 1'000'000'000, .nic_queue_bytes = 4000});
  start();
  Sink& sender = sink(a);
  Sink& at = sink(b);
  std::size_t sent = 0;
  for (rte_mbuf* packet = frame(a, b, 1000);; packet = frame(a, b, 1000)) {
    if (send(a, packet) == 0) {
      rte_pktmbuf_free(packet);
      break;
    }
    ++sent;
  }
  EXPECT_EQ(sent, 5u) << "one leaves, four wait";
  EXPECT_EQ(sender.rooms, 0);
  network_->run_until(kNever);
  EXPECT_GT(sender.rooms, 0);
  EXPECT_EQ(at.packets.size(), sent);
}

TEST_F(NetworkTest, PauseFramesKeepEveryPacket) {
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  const NodeIndex s = network_->add_switch(
      {.pfc = PfcThresholds{.xoff_bytes = 4000, .xon_bytes = 2000}, .pool = pool_.get()});
  network_->add_link(a, s, {.rate_bits_per_s = 10'000'000'000});
  network_->add_link(s, b,
                     {.rate_bits_per_s = 1'000'000'000, .switch_output = {.queue_bytes = 12'000}});
  start();
  Sink& at = sink(b);
  Sink& sender = sink(a);
  std::size_t sent = 0;
  for (int turn = 0; turn < 2000 && sent < 200; ++turn) {
    rte_mbuf* packet = frame(a, b, 1000);
    if (send(a, packet) == 1) {
      ++sent;
    } else {
      rte_pktmbuf_free(packet);
    }
    network_->run_until(network_->now_ns() + 1000);
  }
  network_->run_until(kNever);
  const SwitchCounters& counters = network_->switch_at(s).counters();
  EXPECT_EQ(sent, 200u);
  EXPECT_EQ(at.packets.size(), sent);
  EXPECT_EQ(counters.dropped_queue_full.value(), 0u);
  EXPECT_GT(counters.pfc_sent.value(), 10u);
  EXPECT_EQ(network_->nic(a).counters().pfc_received.value(), counters.pfc_sent.value());
  EXPECT_TRUE(sender.packets.empty()) << "the host sees no pause frames";
}

TEST_F(NetworkTest, PausesAreProlongedWhileTheQueueStands) {
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  const NodeIndex s = network_->add_switch(
      {.pfc = PfcThresholds{.xoff_bytes = 500, .xon_bytes = 0}, .pool = pool_.get()});
  network_->add_link(a, s, {.rate_bits_per_s = 100'000'000'000});
  network_->add_link(s, b, {.rate_bits_per_s = 1'000'000});
  start();
  Sink& at = sink(b);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(send(a, frame(a, b, 1000)), 1);
  }
  network_->run_until(kNever);
  // Two wait for 8.2 ms each; a pause lasts 335 us and is prolonged when half of it is over.
  EXPECT_EQ(at.packets.size(), 3u);
  EXPECT_GT(network_->switch_at(s).counters().pfc_sent.value(), 80u);
}

/// The copies of a flooded packet are counted each at the port where it came in, whatever other
/// switches do with theirs: else a pause would never end.
TEST_F(NetworkTest, PausesEndAfterPacketsForGroups) {
  const SwitchConfig config{.pfc = PfcThresholds{.xoff_bytes = 500, .xon_bytes = 0},
                            .pool = pool_.get()};
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  const NodeIndex c = network_->add_host();
  const NodeIndex first = network_->add_switch(config);
  const NodeIndex second = network_->add_switch(config);
  // The link between the switches is at another place of the first than that of the host.
  network_->add_link(first, second, {.rate_bits_per_s = 1'000'000'000});
  network_->add_link(first, b, {.rate_bits_per_s = 1'000'000});
  network_->add_link(first, a, {.rate_bits_per_s = 1'000'000'000});
  network_->add_link(second, c, {.rate_bits_per_s = 1'000'000'000});
  start();
  for (const NodeIndex host : {a, b, c}) {
    sink(host);
  }
  for (int i = 0; i < 2; ++i) {
    rte_mbuf* packet = frame(a, b, 1000);
    std::fill_n(rte_pktmbuf_mtod(packet, std::uint8_t*), 6, std::uint8_t{0xff});
    ASSERT_EQ(send(a, packet), 1);
  }
  EXPECT_TRUE(network_->run_until(1'000'000'000)) << "a pause is prolonged";
  EXPECT_EQ(sinks_[1]->packets.size(), 2u);
  EXPECT_EQ(sinks_[2]->packets.size(), 2u);
  EXPECT_GT(network_->switch_at(first).counters().pfc_sent.value(), 0u);
}

TEST_F(NetworkTest, FlowsSpreadOverEqualPathsAndStayInOrder) {
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  std::vector<NodeIndex> spines;
  const NodeIndex left = network_->add_switch({.seed = test::seed()});
  const NodeIndex right = network_->add_switch({.seed = test::seed() + 1});
  network_->add_link(a, left, {});
  network_->add_link(b, right, {});
  for (int i = 0; i < 4; ++i) {
    spines.push_back(network_->add_switch({}));
    // Of different lengths in time: packets of one flow on two of them would overtake.
    network_->add_link(left, spines.back(), {.delay_ns = 1000u * (1u + static_cast<unsigned>(i))});
    network_->add_link(spines.back(), right, {});
  }
  start();
  Sink& at = sink(b);
  for (std::uint16_t round = 0; round < 10; ++round) {
    for (std::uint16_t port = 0; port < 64; ++port) {
      rte_mbuf* packet = frame(a, b, 100, port);
      *rte_pktmbuf_mtod_offset(packet, std::uint8_t*, 99) = static_cast<std::uint8_t>(round);
      ASSERT_EQ(send(a, packet), 1);
    }
  }
  network_->run_until(kNever);
  ASSERT_EQ(at.packets.size(), 640u);
  std::map<unsigned, unsigned> next;
  for (const rte_mbuf* packet : at.packets) {
    const Bytes bytes = test::bytes_of(packet);
    ASSERT_EQ(bytes[99], next[bytes[35]]++) << "flow " << unsigned{bytes[35]};
  }
  for (const NodeIndex spine : spines) {
    EXPECT_GT(network_->switch_at(spine).counters().forwarded.value(), 20u);
  }
}

TEST_F(NetworkTest, GroupsReachEachHostOnce) {
  std::vector<NodeIndex> hosts;
  std::vector<NodeIndex> switches;
  for (int i = 0; i < 3; ++i) {
    switches.push_back(network_->add_switch({}));
  }
  for (int i = 0; i < 6; ++i) {
    hosts.push_back(network_->add_host());
    network_->add_link(hosts.back(), switches[static_cast<std::size_t>(i) % 3], {});
  }
  for (std::size_t i = 0; i < 3; ++i) {
    network_->add_link(switches[i], switches[(i + 1) % 3], {});
  }
  start();
  for (const NodeIndex host : hosts) {
    sink(host);
  }
  rte_mbuf* packet = frame(hosts[0], hosts[1], 100);
  std::fill_n(rte_pktmbuf_mtod(packet, std::uint8_t*), 6, std::uint8_t{0xff});
  ASSERT_EQ(send(hosts[0], packet), 1);
  EXPECT_TRUE(network_->run_until(1'000'000'000)) << "a loop of switches";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_EQ(sinks_[i]->packets.size(), i == 0 ? 0u : 1u) << i;
  }
}

TEST_F(NetworkTest, RefusesHostsThatCannotBe) {
  const NodeIndex a = network_->add_host();
  const NodeIndex b = network_->add_host();
  EXPECT_FALSE(network_->build().has_value()) << "without links";
  network_ = std::make_unique<Network>();
  const NodeIndex c = network_->add_host();
  const NodeIndex d = network_->add_host();
  const NodeIndex e = network_->add_host();
  network_->add_link(c, d, {});
  network_->add_link(d, e, {});
  EXPECT_FALSE(network_->build().has_value()) << "a host with two links";
  (void)a;
  (void)b;
}

}  // namespace
}  // namespace rockhopper::stack::sim
