// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/node.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "roce/wire/icrc.h"
#include "stack/cable.h"
#include "stack/sim/network.h"
#include "tests/support/capture.h"
#include "tests/support/child_process.h"
#include "tests/support/must.h"
#include "tests/support/taken_numbers.h"

namespace rockhopper::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kAddresses[] = {"10.0.0.1/24", "10.0.0.2/24"};

NodeConfig config_on(stack::Link& link, unsigned index) {
  return {.port = LinkPort{{&link}},
          .addresses = {must(InterfaceAddress::parse(kAddresses[index]))}};
}

/// A node with a queue pair and memory of which all is registered.
struct End {
  explicit End(NodeConfig config)
      : cq(must(roce::CompletionQueue::create(64))), node(must(Node::open(std::move(config)))) {
    pd = node->engine().allocate_pd();
    region =
        must(node->engine().register_memory(pd, memory.data(), memory.size(), roce::kAccessAll));
    qp = must(node->engine().create_qp({.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get()}));
  }
  void connect(const End& peer) {
    roce::QpAttributes attributes;
    attributes.qp_access_flags = roce::kAccessAll;
    attributes.path_mtu = roce::PathMtu::mtu_256;
    attributes.dest_qp_num = peer.qp->number();
    attributes.ah_attr = {.source = node->address(), .destination = peer.node->address()};
    must(qp->bring_up(attributes, roce::QpState::rts));
  }
  void write_all(const End& peer) {
    const roce::Sge sge{region.iova, static_cast<std::uint32_t>(memory.size()), region.key};
    EXPECT_EQ(qp->post_send({.sg_list = {&sge, 1},
                             .opcode = roce::WrOpcode::rdma_write,
                             .send_flags = roce::kSendSignaled,
                             .remote_addr = peer.region.iova,
                             .rkey = peer.region.key}),
              roce::PostResult::ok);
  }
  [[nodiscard]] std::map<std::string, std::uint64_t> counters() const {
    std::map<std::string, std::uint64_t> all;
    node->visit_counters([&](const char* group, const char* name, std::uint64_t value) {
      all[std::string(group) + " " + name] = value;
    });
    return all;
  }

  std::array<std::uint8_t, 4096> memory{};
  std::unique_ptr<roce::CompletionQueue> cq;
  std::unique_ptr<Node> node;
  roce::ProtectionDomain pd;
  roce::MemoryRegion region;
  roce::QueuePair* qp = nullptr;
};

/// Connects both, and writes the memory of the first into that of the second.
void begin(End& near, End& far) {
  for (std::size_t i = 0; i < near.memory.size(); ++i) {
    near.memory[i] = static_cast<std::uint8_t>(i * 7 + 1);
  }
  near.connect(far);
  far.connect(near);
  near.write_all(far);
}

/// As begin(), and waits until the memory has been written.
void write_in_real_time(End& near, End& far) {
  begin(near, far);
  std::optional<roce::Completion> done;
  const std::uint64_t end_ns = near.node->now_ns() + 10'000'000'000;
  while (!done && near.node->now_ns() < end_ns) {
    near.node->turn();
    far.node->turn();
    roce::Completion completion;
    if (near.cq->poll({&completion, 1}) == 1) done = completion;
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, roce::WcStatus::success);
  EXPECT_EQ(far.memory, near.memory);
}

bool group_is_taken(const std::string& name) {
  return !stack::CounterGroup::add(
              name, [](stack::CounterVisitor, void*) {}, [](stack::CounterTextVisitor, void*) {})
              .has_value();
}

class NodesOnACable : public ::testing::Test {
 protected:
  std::unique_ptr<stack::Cable> cable_ = must(stack::Cable::create());
};

TEST_F(NodesOnACable, AWriteArrivesInRealTime) {
  End near(config_on(cable_->end(0), 0));
  End far(config_on(cable_->end(1), 1));
  EXPECT_EQ(near.node->shards(), 1);
  must(near.node->wait_for_link());
  EXPECT_TRUE(near.node->check_link());
  ASSERT_NO_FATAL_FAILURE(write_in_real_time(near, far));
  const auto counters = far.counters();
  EXPECT_GE(counters.at("engine rcvd_pkts"), far.memory.size() / 256);
  EXPECT_GT(counters.at("host rx_packets"), counters.at("engine rcvd_pkts")) << "ARP too";
  EXPECT_EQ(counters.count("port rx_packets"), 0u);
}

TEST(NodesAtASegment, AreOnePortWithQueuePairsOfManyProcesses) {
  const TemporaryDirectory directory;
  const auto config = [&](const char* name) {
    return NodeConfig{.port = SegmentPort{directory.path()},
                      .addresses = {must(InterfaceAddress::parse(kAddresses[0]))},
                      .name = name};
  };
  End near(config("near"));
  End far(config("far"));
  EXPECT_TRUE(near.node->check_link());
  const rte_ether_addr mac = near.node->mac();
  const rte_ether_addr far_mac = far.node->mac();
  EXPECT_EQ(rte_is_same_ether_addr(&mac, &far_mac), 1);
  ASSERT_NO_FATAL_FAILURE(write_in_real_time(near, far));
  EXPECT_EQ(far.counters().at("segment rx_frames"), far.counters().at("engine rcvd_pkts"));
  EXPECT_EQ(near.counters().at("segment tx_no_owner"), 0u);
}

/// Writes from one node at a segment to another, of which the first is configured so. Returns how
/// many frames the other has had without an ICRC: all or none.
std::uint64_t written_at_a_segment(const NodeConfig& of_near, const char* name,
                                   std::map<std::string, std::uint64_t>& near_counters) {
  NodeConfig of_far = of_near;
  of_far.pcap = {};
  of_far.name = std::string(name) + "-far";
  NodeConfig config = of_near;
  config.name = name;
  End near(std::move(config));
  End far(std::move(of_far));
  write_in_real_time(near, far);
  near_counters = near.counters();
  const auto counters = far.counters();
  EXPECT_EQ(counters.at("engine drop_bad_icrc") + near_counters.at("engine drop_bad_icrc"), 0u);
  EXPECT_GT(counters.at("segment rx_frames"), 0u);
  EXPECT_GT(near_counters.at("segment rx_frames"), 0u);
  const std::uint64_t without = counters.at("segment rx_without_icrc");
  EXPECT_TRUE(without == 0 || without == counters.at("segment rx_frames"));
  return without;
}

std::size_t frames_with_a_wrong_icrc(const std::string& capture) {
  const auto packets = read_roce_packets(capture);
  EXPECT_GT(packets.size(), 4096u / 256);
  return static_cast<std::size_t>(std::ranges::count_if(packets, [](const RocePacket& packet) {
    const auto rest = std::span(packet.bytes).subspan(packet.l3().size());
    const auto icrc = rest.last<wire::Icrc::kSize>();
    return wire::icrc_over(packet.l3(), rest.first(rest.size() - icrc.size())) !=
           wire::load_icrc(icrc);
  }));
}

TEST(NodesAtASegment, LeaveTheIcrcOutWhereNobodyLooks) {
  const TemporaryDirectory directory;
  const NodeConfig config{.port = SegmentPort{directory.path()},
                          .addresses = {must(InterfaceAddress::parse(kAddresses[0]))}};
  std::map<std::string, std::uint64_t> near;
  EXPECT_GT(written_at_a_segment(config, "plain", near), 0u);
  EXPECT_GT(near.at("segment rx_without_icrc"), 0u);
  ::setenv("ROCKHOPPER_ICRC", "always", 1);
  EXPECT_EQ(written_at_a_segment(config, "forced", near), 0u);
  EXPECT_EQ(near.at("segment rx_without_icrc"), 0u);
  ::setenv("ROCKHOPPER_ICRC", "never", 1);
  const auto refused = Node::open(config);
  ::unsetenv("ROCKHOPPER_ICRC");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "ROCKHOPPER_ICRC is 'never': auto or always");
}

/// WIRE-1.
TEST(NodesAtASegment, ACaptureHasTheIcrcOfAllFrames) {
  const TemporaryDirectory directory;
  NodeConfig config{.port = SegmentPort{directory.path()},
                    .addresses = {must(InterfaceAddress::parse(kAddresses[0]))}};
  config.pcap.path = directory.path() + "/capture.pcapng";
  std::map<std::string, std::uint64_t> near;
  EXPECT_EQ(written_at_a_segment(config, "captured", near), 0u) << "it is in the capture";
  EXPECT_GT(near.at("segment rx_without_icrc"), 0u) << "who captures nothing leaves it out";
  EXPECT_EQ(frames_with_a_wrong_icrc(config.pcap.path), 0u);
}

TEST(EnginesOfOnePort, LeaveOutTheNumbersOfOthers) {
  TakenNumbers numbers;
  for (std::uint32_t low = 0; low < 1500; ++low) {
    numbers.others.insert(low);  // more than an engine has places at first; QPN 1 among them
  }
  const auto cq = must(roce::CompletionQueue::create(64));
  {
    const auto node = must(Node::open({.port = NoPort{.mac = {{2, 0, 0, 0, 0, 1}}},
                                       .engine = {.qpns = &numbers},
                                       .name = "numbers"}));
    roce::Engine& engine = node->engine();
    const roce::QpInit init{.pd = engine.allocate_pd(), .send_cq = cq.get(), .recv_cq = cq.get()};
    roce::QueuePair* qp = must(engine.create_qp(init));
    EXPECT_GE(qp->number().value & 0xffff, 1500u);
    EXPECT_EQ(engine.find_qp(qp->number()), qp);
    EXPECT_EQ(numbers.own.size(), 1u);
    engine.destroy_qp(qp);
    EXPECT_TRUE(numbers.own.empty());
    roce::QpInit gsi = init;
    gsi.qp_type = roce::QpType::ud;
    EXPECT_EQ(engine.create_gsi_qp(gsi).error().code, ErrorCode::busy);
    numbers.others.erase(1);
    must(engine.create_gsi_qp(gsi));
    must(engine.create_qp(init));
    EXPECT_EQ(numbers.own.size(), 2u);
    for (std::uint32_t low = 0; low < 1u << 16; ++low) {
      numbers.others.insert(low);
    }
    EXPECT_EQ(engine.create_qp(init).error().code, ErrorCode::exhausted);
  }
  EXPECT_TRUE(numbers.own.empty()) << "the engine has given them back";
}

TEST(NodesAtASegment, HaveOneShard) {
  const TemporaryDirectory directory;
  const auto refused = Node::open({.port = SegmentPort{directory.path()}, .shards = 2});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
}

TEST_F(NodesOnACable, HaveAddressesOfEachFamily) {
  NodeConfig config = config_on(cable_->end(0), 0);
  EXPECT_EQ(must(Node::open(config))->address_of_family(false).error().code, ErrorCode::not_found);
  config.addresses.push_back(must(InterfaceAddress::parse("fd00::1/64")));
  const auto node = must(Node::open(config));
  EXPECT_EQ(node->address().to_string(), "10.0.0.1");
  EXPECT_EQ(must(node->address_of_family(false)).to_string(), "fd00::1");
  EXPECT_TRUE(node->host().owns(node->addresses()[1].address));
}

TEST_F(NodesOnACable, AreInTelemetryByTheirNamesAndNotWithoutOne) {
  const auto nameless = must(Node::open(config_on(cable_->end(0), 0)));
  EXPECT_FALSE(group_is_taken("host"));
  NodeConfig config = config_on(cable_->end(1), 1);
  config.name = "far";
  auto node = must(Node::open(config));
  EXPECT_TRUE(group_is_taken("far/host"));
  EXPECT_TRUE(group_is_taken("far/engine"));
  EXPECT_FALSE(group_is_taken("far/dc"));
  must(node->open_dc());
  EXPECT_TRUE(group_is_taken("far/dc"));
  const auto second = Node::open(config);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_THAT(second.error().message, HasSubstr("give each node of the process a name"));
  node.reset();
  EXPECT_FALSE(group_is_taken("far/host"));
}

TEST_F(NodesOnACable, OpenDynamicConnectionsOnce) {
  NodeConfig config = config_on(cable_->end(0), 0);
  const auto later = must(Node::open(config));
  EXPECT_EQ(later->shard(0).dc(), nullptr);
  must(later->open_dc());
  EXPECT_EQ(&later->dc(), later->shard(0).dc());
  EXPECT_EQ(later->open_dc().error().code, ErrorCode::busy);
  config.dc.emplace();
  EXPECT_NE(must(Node::open(config))->shard(0).dc(), nullptr);
}

TEST_F(NodesOnACable, CaptureWhatIsOnTheWire) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("rockhopper-node-test-" + std::to_string(getpid()) + ".pcapng");
  NodeConfig config = config_on(cable_->end(0), 0);
  config.pcap.path = file;
  {
    End near(config);
    End far(config_on(cable_->end(1), 1));
    begin(near, far);
    for (int i = 0; i < 100; ++i) {
      near.node->turn();
      far.node->turn();
    }
    const auto counters = near.counters();
    EXPECT_EQ(counters.at("pcap packets"),
              near.node->shard(0).worker()->counters().tx_packets.value() +
                  counters.at("host rx_packets"));
    EXPECT_EQ(counters.at("pcap lost"), 0u);
  }
  EXPECT_GT(std::filesystem::file_size(file), 4096u) << "the message at least";
  std::filesystem::remove(file);
}

/// The same objects in virtual time, where a seed gives one behaviour.
std::map<std::string, std::uint64_t> run_under_loss(std::uint64_t seed) {
  const auto pool = must(stack::MbufPool::create({.size = 2047, .cache = 0}));
  stack::sim::Network network;
  const auto first = network.add_host();
  const auto second = network.add_host();
  network.add_link(first, second, {.delay_ns = 5'000, .mtu = 1500});
  must(network.build());
  const std::array nodes{first, second};
  std::array<roce::SeededRandom, 2> random{roce::SeededRandom(seed), roce::SeededRandom(seed + 1)};
  std::array<std::unique_ptr<End>, 2> ends;
  for (unsigned i = 0; i < 2; ++i) {
    NodeConfig config = config_on(network.nic(nodes[i]), i);
    config.clock = &network.clock();
    config.packet_pool = pool.get();
    config.host.seed = seed;
    config.engine.random = &random[i];
    config.faults = stack::FaultConfig{.tx = {.loss = 0.2}, .seed = seed + i};
    ends[i] = std::make_unique<End>(std::move(config));
  }
  begin(*ends[0], *ends[1]);
  while (ends[0]->cq->size() == 0 && network.now_ns() < 100'000'000'000) {
    bool moved = false;
    for (const auto& end : ends) {
      moved = end->node->turn() || moved;
    }
    if (!moved) {
      network.advance_to(
          std::max(network.now_ns() + 1,
                   std::min(ends[0]->node->next_deadline_ns(), ends[1]->node->next_deadline_ns())));
    }
  }
  roce::Completion done;
  EXPECT_EQ(ends[0]->cq->poll({&done, 1}), 1u);
  EXPECT_EQ(done.status, roce::WcStatus::success);
  EXPECT_EQ(ends[0]->memory, ends[1]->memory);
  auto counters = ends[0]->counters();
  counters["time"] = network.now_ns();
  for (auto& end : ends) {
    end.reset();
  }
  return counters;
}

TEST(NodesInVirtualTime, BearLossAndRepeatThemselves) {
  std::uint64_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto counters = run_under_loss(seed);
    EXPECT_EQ(counters, run_under_loss(seed)) << seed;
    lost += counters.at("faults tx_lost");
  }
  EXPECT_GT(lost, 0u);
}

TEST(NodeWithoutAPort, LeavesItsPacketsToTheCaller) {
  const auto node = must(Node::open({.port = NoPort{.mac = {{2, 0, 0, 0, 0, 1}}, .mtu = 1500},
                                     .addresses = {must(InterfaceAddress::parse("10.0.0.1/24"))}}));
  EXPECT_FALSE(node->turn());
  EXPECT_EQ(node->next_deadline_ns(), stack::kNever);
  rte_mbuf* packet = nullptr;
  ASSERT_EQ(node->host().transmit(&packet, 1, 1'000'000'000), 1) << "it announces its address";
  rte_pktmbuf_free(packet);
  EXPECT_EQ(node->launch(0, 1).error().code, ErrorCode::unsupported);
  EXPECT_EQ(Node::open({.port = NoPort{}, .faults = stack::FaultConfig{}}).error().code,
            ErrorCode::unsupported);
}

TEST(NodeOnMemif, WaitsForItsServerOnlySoLong) {
  NodeConfig config{.port = MemifPort{.memif = {.role = stack::MemifRole::client,
                                                .socket = "/nonexistent/memif.sock"}},
                    .connect_timeout_ms = 50};
  const auto late = Node::open(config);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::timeout);
  EXPECT_THAT(late.error().message, HasSubstr("/nonexistent/memif.sock"));
  config.connect_timeout_ms = 60'000;
  config.keep_waiting = []() -> Expected<void> { return fail(ErrorCode::busy, "enough"); };
  const auto ended = Node::open(config);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().message, "enough");
}

}  // namespace
}  // namespace rockhopper::test
