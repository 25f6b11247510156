// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a personality changes, as its peer, an ordinary endpoint, sees it on the wire.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/node/node.h"
#include "apps/node/personality/roce_frame.h"
#include "stack/cable.h"
#include "stack/checksum.h"
#include "tests/support/must.h"

namespace rockhopper::test::personality_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::Opcode;

constexpr std::uint64_t kUs = 1000;
constexpr std::size_t kBytes = 16384;
constexpr std::uint32_t kMtu = 256;

/// A packet as it is on the wire.
struct Seen {
  std::vector<std::uint8_t> bytes;
  wire::Bth bth{};
  wire::Aeth aeth{};
  wire::Reth reth{};
  const wire::OpcodeInfo* info = nullptr;
  bool sent = false;  ///< by the end with the personality
  std::uint64_t time_ns = 0;

  [[nodiscard]] Opcode opcode() const { return static_cast<Opcode>(bth.opcode); }
  [[nodiscard]] std::uint8_t ip(std::size_t at) const { return bytes[14 + at]; }
  [[nodiscard]] std::uint16_t udp(std::size_t at) const {
    return wire::load_be16(bytes.data() + 34 + at);
  }
};

/// The wire at the end with the personality: remembers what passes, and loses what it is told to.
class Tap final : public stack::Link {
 public:
  explicit Tap(stack::Link& inner) : inner_(inner) {}

  std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) override {
    return keep(packets, inner_.rx_burst(packets, count, now_ns), false, now_ns);
  }
  std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) override {
    std::array<rte_mbuf*, 64> kept{};
    std::copy_n(packets, count, kept.begin());
    const std::uint16_t left = keep(kept.data(), count, true, now_ns);
    EXPECT_EQ(inner_.tx_burst(kept.data(), left, now_ns), left);
    return count;
  }
  [[nodiscard]] rte_ether_addr mac() const override { return inner_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return inner_.mtu(); }

  std::vector<Seen> seen;
  std::function<bool(const Seen&)> loses = [](const Seen&) { return false; };

 private:
  std::uint16_t keep(rte_mbuf** packets, std::uint16_t count, bool sent, std::uint64_t now_ns) {
    std::uint16_t left = 0;
    for (std::uint16_t i = 0; i < count; ++i) {
      Seen one{.sent = sent, .time_ns = now_ns};
      std::vector<std::uint8_t> all(packets[i]->pkt_len);
      const void* from = rte_pktmbuf_read(packets[i], 0, packets[i]->pkt_len, all.data());
      one.bytes.assign(static_cast<const std::uint8_t*>(from),
                       static_cast<const std::uint8_t*>(from) + all.size());
      const std::size_t tag = one.bytes[12] == 0x81 ? 4 : 0;
      const std::size_t bth = 14 + tag + 20 + 8;
      if (one.bytes[12 + tag] == 0x08 && one.bytes[13 + tag] == 0x00 && all.size() > bth + 12) {
        one.bth = wire::Bth::parse(std::span<const std::uint8_t, 12>(&one.bytes[bth], 12));
        wire::Headers headers;
        (void)wire::parse_headers(std::span(one.bytes).subspan(bth), all.size() - bth, headers);
        one.info = &wire::info(one.bth.opcode);
        one.aeth = headers.aeth;
        one.reth = headers.reth;
        seen.push_back(one);
        if (loses(one)) {
          rte_pktmbuf_free(packets[i]);
          continue;
        }
      }
      packets[left++] = packets[i];
    }
    return left;
  }

  stack::Link& inner_;
};

struct End {
  End(NodeConfig config, std::uint8_t seed)
      : cq(must(roce::CompletionQueue::create(256))), node(must(Node::open(std::move(config)))) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      memory[i] = static_cast<std::uint8_t>(i * 7 + i / 256 + seed);
    }
    pd = node->engine().allocate_pd();
    region =
        must(node->engine().register_memory(pd, memory.data(), memory.size(), roce::kAccessAll));
    qp = must(node->engine().create_qp({.pd = pd,
                                        .send_cq = cq.get(),
                                        .recv_cq = cq.get(),
                                        .max_recv_wr = 64,
                                        .sq_sig_all = true}));
  }
  [[nodiscard]] std::vector<roce::WcStatus> completed() const {
    std::array<roce::Completion, 64> all;
    std::vector<roce::WcStatus> statuses;
    for (const auto& one : std::span(all).first(cq->poll(all))) {
      statuses.push_back(one.status);
    }
    return statuses;
  }

  alignas(64) std::array<std::uint8_t, kBytes> memory{};
  std::unique_ptr<roce::CompletionQueue> cq;
  std::unique_ptr<Node> node;
  roce::ProtectionDomain pd;
  roce::MemoryRegion region;
  roce::QueuePair* qp = nullptr;
};

/// `device` has the personality, `peer` is an ordinary endpoint.
class PersonalityTest : public ::testing::Test {
 protected:
  /// `knobs`: as "mig_req=no credits=static:2".
  void start(const std::string& knobs) {
    Personality personality;
    for (std::size_t at = 0; at < knobs.size();) {
      const std::size_t end = std::min(knobs.find(' ', at), knobs.size());
      const std::string item = knobs.substr(at, end - at);
      const std::size_t equals = item.find('=');
      must(set_knob(personality, item.substr(0, equals), item.substr(equals + 1)));
      at = end + 1;
    }
    tap_ = std::make_unique<Tap>(cable_->end(0));
    device_ = std::make_unique<End>(config(*tap_, 0, personality), std::uint8_t{0});
    peer_ = std::make_unique<End>(config(cable_->end(1), 1, {}), std::uint8_t{100});
    connect(*device_, *peer_);
    connect(*peer_, *device_);
    run(10 * kUs);
    tap_->seen.clear();
  }

  void run(std::uint64_t ns) {
    for (std::uint64_t end = clock_.now_ns() + ns; clock_.now_ns() < end; clock_.advance(kUs)) {
      device_->node->turn();
      peer_->node->turn();
    }
  }

  static void post(End& from, const End& to, roce::WrOpcode opcode, std::uint32_t length,
                   std::uint64_t offset = 0) {
    const roce::Sge sge{from.region.iova + offset, length, from.region.key};
    ASSERT_EQ(from.qp->post_send({.sg_list = {&sge, length > 0 ? 1u : 0u},
                                  .opcode = opcode,
                                  .remote_addr = to.region.iova + offset,
                                  .rkey = to.region.key}),
              roce::PostResult::ok);
  }
  static void post_recv(End& end) {
    const roce::Sge sge{end.region.iova, 256, end.region.key};
    ASSERT_EQ(end.qp->post_recv({.sg_list = {&sge, 1}}), roce::PostResult::ok);
  }

  [[nodiscard]] std::vector<Seen> sent(std::optional<Opcode> opcode = {}) const {
    std::vector<Seen> result;
    for (const Seen& one : tap_->seen) {
      if (one.sent && (!opcode || one.opcode() == *opcode)) result.push_back(one);
    }
    return result;
  }
  [[nodiscard]] std::uint64_t counter(const End& end, const std::string& name) const {
    std::uint64_t found = UINT64_MAX;
    end.node->visit_counters([&](const char* group, const char* counted, std::uint64_t value) {
      if (std::string(group) + " " + counted == name) found = value;
    });
    return found;
  }
  /// The peer's path, and everything it counts as wrong.
  void expect_clean_peer() const {
    peer_->node->visit_counters([](const char* group, const char* name, std::uint64_t value) {
      if (std::string_view(name).starts_with("drop_")) {
        EXPECT_EQ(value, 0u) << group << name;
      }
    });
  }
  /// The first packet of that opcode from the device, or to it, is lost.
  void lose_one(Opcode opcode, bool sent, unsigned behind = 0) {
    tap_->loses = [opcode, sent, behind, count = 0u](const Seen& one) mutable {
      return one.opcode() == opcode && one.sent == sent && count++ == behind;
    };
  }

  End& device() { return *device_; }
  End& peer() { return *peer_; }
  Tap& tap() { return *tap_; }

 private:
  NodeConfig config(stack::Link& link, unsigned index, std::optional<Personality> personality) {
    constexpr std::array kAddresses = {"10.0.0.1/24", "10.0.0.2/24"};
    NodeConfig node{.port = LinkPort{{&link}},
                    .addresses = {must(InterfaceAddress::parse(kAddresses[index]))},
                    .neighbours = {{stack::IpAddress::from_ipv4(0x0a000002 - index),
                                    cable_->end(1 - index).mac()}},
                    .personality = std::move(personality),
                    .clock = &clock_};
    node.host.priority_tags = false;
    return node;
  }
  static void connect(End& end, const End& to) {
    roce::QpAttributes a;
    a.qp_access_flags = roce::kAccessAll;
    a.path_mtu = roce::PathMtu::mtu_256;
    a.dest_qp_num = to.qp->number();
    a.max_rd_atomic = a.max_dest_rd_atomic = 16;
    a.timeout = 12;  // 16.8 ms
    a.ah_attr = {
        .source = end.node->address(), .destination = to.node->address(), .traffic_class = 26 << 2};
    must(end.qp->bring_up(a, roce::QpState::rts));
  }

  stack::VirtualClock clock_;
  std::unique_ptr<stack::Cable> cable_ = must(stack::Cable::create());
  std::unique_ptr<Tap> tap_;
  std::unique_ptr<End> device_;
  std::unique_ptr<End> peer_;
};

constexpr auto kSuccess = roce::WcStatus::success;

TEST_F(PersonalityTest, HeadersHaveAnotherLookAndAreStillRight) {
  start(
      "mig_req=no source_mac=zero udp_checksum=right ip_id=counter traffic_class=106 ttl=33 "
      "source_port=qpn bth_reserved=85");
  post(device(), peer(), roce::WrOpcode::rdma_write, 1000);
  post(device(), peer(), roce::WrOpcode::rdma_read, 1000, 4096);
  run(100 * kUs);
  EXPECT_THAT(device().completed(), ElementsAre(kSuccess, kSuccess));
  post(peer(), device(), roce::WrOpcode::rdma_read, 1000, 8192);
  run(100 * kUs);
  EXPECT_THAT(peer().completed(), ElementsAre(kSuccess));
  expect_clean_peer();
  const auto packets = sent();
  ASSERT_GE(packets.size(), 9u);
  std::set<unsigned> identifications;
  for (const Seen& packet : packets) {
    EXPECT_FALSE(packet.bth.mig_req);
    EXPECT_EQ(packet.bth.reserved7, 85);
    EXPECT_THAT(std::span(packet.bytes).subspan(6, 6), Each(0));
    EXPECT_EQ(packet.ip(1), 106);
    EXPECT_EQ(packet.ip(8), 33);
    EXPECT_EQ(packet.udp(0), peer().qp->number().value & 0xffff);
    EXPECT_NE(packet.udp(6), 0) << "and the peer's host found it right";
    identifications.insert(packet.ip(4) * 256u + packet.ip(5));
  }
  EXPECT_EQ(identifications.size(), packets.size());
}

TEST_F(PersonalityTest, WithoutKnobsNothingChanges) {
  start("");
  post(device(), peer(), roce::WrOpcode::rdma_write, 10);
  run(100 * kUs);
  EXPECT_THAT(device().completed(), ElementsAre(kSuccess));
  expect_clean_peer();
  const auto packets = sent();
  ASSERT_THAT(packets, SizeIs(1));
  EXPECT_TRUE(packets[0].bth.mig_req);
  EXPECT_EQ(packets[0].ip(1), 26 << 2);
  EXPECT_EQ(packets[0].ip(8), 64);
  EXPECT_GE(packets[0].udp(0), 0xc000);
}

TEST_F(PersonalityTest, DatagramsMayHaveATagOfVlanZero) {
  start("vlan=vid0");
  post(device(), peer(), roce::WrOpcode::rdma_write, 10);
  run(100 * kUs);
  EXPECT_THAT(device().completed(), ElementsAre(kSuccess));
  const auto packets = sent();
  ASSERT_THAT(packets, SizeIs(1));
  EXPECT_EQ(packets[0].bytes[12] << 8 | packets[0].bytes[13], 0x8100);
  EXPECT_EQ((packets[0].bytes[14] << 8 | packets[0].bytes[15]) & 0xfff, 0);
}

TEST_F(PersonalityTest, StaticCreditsAreToldWhateverThereIs) {
  start("credits=static:2");
  for (int i = 0; i < 16; ++i) {
    post_recv(device());
  }
  for (int i = 0; i < 6; ++i) {
    post(peer(), device(), roce::WrOpcode::send, 8);
  }
  run(500 * kUs);
  EXPECT_THAT(peer().completed(),
              ElementsAre(kSuccess, kSuccess, kSuccess, kSuccess, kSuccess, kSuccess));
  for (const Seen& ack : sent(Opcode::rc_acknowledge)) {
    EXPECT_EQ(ack.aeth.syndrome, 2) << "two credits";
  }
  EXPECT_EQ(counter(peer(), "engine local_ack_timeout_err"), 0u);
}

TEST_F(PersonalityTest, AcknowledgementsMayWaitForNewerOnes) {
  start("ack_delay=50us");
  for (int i = 0; i < 5; ++i) {
    post(peer(), device(), roce::WrOpcode::rdma_write, 8);
    run(5 * kUs);
  }
  EXPECT_THAT(sent(), IsEmpty());
  run(100 * kUs);
  EXPECT_THAT(sent(Opcode::rc_acknowledge), SizeIs(1));
  EXPECT_THAT(peer().completed(), SizeIs(5));
  EXPECT_EQ(counter(device(), "personality replaced_acks"), 4u);
}

TEST_F(PersonalityTest, NaksComeLateWithACnp) {
  start("nak_delay=100us nak_draws_cnp=yes cnp_dscp=46 cnp_ecn=2 cnp_source_port=0 cnp_ttl=32");
  lose_one(Opcode::rc_rdma_write_only, false);
  for (int i = 0; i < 3; ++i) {
    post(peer(), device(), roce::WrOpcode::rdma_write, 8);
  }
  run(90 * kUs);
  EXPECT_THAT(sent(), IsEmpty());
  run(50 * kUs);
  const auto cnps = sent(Opcode::cnp);
  ASSERT_THAT(cnps, SizeIs(1));
  EXPECT_EQ(cnps[0].ip(1), 46 << 2 | 2);
  EXPECT_EQ(cnps[0].udp(0), 0);
  EXPECT_EQ(cnps[0].ip(8), 32);
  EXPECT_EQ(cnps[0].bth.psn.value, 0u);
  EXPECT_TRUE(cnps[0].bth.becn);
  run(100 * kUs);
  EXPECT_THAT(peer().completed(), SizeIs(3));
  expect_clean_peer();
  EXPECT_EQ(counter(peer(), "engine rp_cnp_ignored"), 1u);
  EXPECT_EQ(counter(peer(), "engine local_ack_timeout_err"), 0u);
}

/// What the device sends with its own NAKs it may take for what it is from others, too.
TEST_F(PersonalityTest, ACnpBehindANakMayCountForNothing) {
  for (const bool counts : {true, false}) {
    start(counts ? "" : "nak_cnp_period=20us");
    must(device().qp->set_congestion_control({.algorithm = roce::CongestionAlgorithm::dcqcn}));
    EXPECT_EQ(device().qp->congestion_control().dcqcn.nak_cnp_period_ns, counts ? 0u : 20 * kUs);
  }
}

TEST_F(PersonalityTest, EachPacketBehindAGapMayDrawANak) {
  start("nak_repeat=yes nak_delay=20us");
  post(peer(), device(), roce::WrOpcode::rdma_read, 3 * kMtu);
  run(50 * kUs);
  lose_one(Opcode::rc_rdma_write_only, false);
  for (int i = 0; i < 10; ++i) {
    post(peer(), device(), roce::WrOpcode::rdma_write, 8);
  }
  run(500 * kUs);
  const auto naks = sent(Opcode::rc_acknowledge);
  EXPECT_EQ(std::count_if(naks.begin(), naks.end(),
                          [](const Seen& one) { return one.aeth.kind() == wire::AethKind::nak; }),
            9);
  EXPECT_EQ(peer().completed(), std::vector<roce::WcStatus>(11, kSuccess));
}

TEST_F(PersonalityTest, OnlyWhatANakNamesIsSentAgainWithOneMore) {
  start("write_retry=named_plus_one");
  lose_one(Opcode::rc_rdma_write_middle, true, 2);
  post(device(), peer(), roce::WrOpcode::rdma_write, 16 * kMtu);
  run(200 * kUs);
  EXPECT_THAT(device().completed(), ElementsAre(kSuccess));
  EXPECT_TRUE(std::equal(peer().memory.begin(), peer().memory.begin() + 16 * kMtu,
                         device().memory.begin()));
  // The peer drops all that is behind the gap, so that each NAK brings one packet and the last.
  EXPECT_GT(counter(device(), "personality unsent_repetitions"), 50u);
  EXPECT_EQ(counter(device(), "engine local_ack_timeout_err"), 0u);
}

TEST_F(PersonalityTest, OnlyTheGapOfAReadIsAskedForAgain) {
  start("read_retry=part");
  lose_one(Opcode::rc_rdma_read_response_middle, false, 3);
  post(device(), peer(), roce::WrOpcode::rdma_read, 20 * kMtu + 10);
  run(200 * kUs);
  EXPECT_THAT(device().completed(), ElementsAre(kSuccess));
  EXPECT_TRUE(std::equal(peer().memory.begin(), peer().memory.begin() + 20 * kMtu + 10,
                         device().memory.begin()));
  const auto requests = sent(Opcode::rc_rdma_read_request);
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[1].bth.psn, requests[0].bth.psn + 4);
  EXPECT_EQ(requests[1].reth.va, requests[0].reth.va + 4 * kMtu);
  EXPECT_EQ(requests[1].reth.length, kMtu);
  EXPECT_EQ(counter(device(), "engine local_ack_timeout_err"), 0u);
  expect_clean_peer();
}

TEST_F(PersonalityTest, AReadWhosePartIsLostTooIsAskedForByTheTimer) {
  start("read_retry=part");
  tap().loses = [count = 0](const Seen& one) mutable {
    const bool response = !one.sent && one.info->operation == wire::Operation::rdma_read_response;
    return response && (++count == 4 || one.opcode() == Opcode::rc_rdma_read_response_only);
  };
  post(device(), peer(), roce::WrOpcode::rdma_read, 20 * kMtu);
  run(60'000 * kUs);
  EXPECT_THAT(device().completed(), ElementsAre(kSuccess));
  EXPECT_TRUE(std::equal(peer().memory.begin(), peer().memory.begin() + 20 * kMtu,
                         device().memory.begin()));
}

TEST_F(PersonalityTest, AReadMayBeAskedForAgainLate) {
  start("read_retry_delay=5ms");
  lose_one(Opcode::rc_rdma_read_response_middle, false, 1);
  post(device(), peer(), roce::WrOpcode::rdma_read, 8 * kMtu);
  run(20'000 * kUs);
  EXPECT_THAT(device().completed(), ElementsAre(kSuccess));
  const auto requests = sent(Opcode::rc_rdma_read_request);
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_GE(requests[1].time_ns - requests[0].time_ns, 5000 * kUs);
}

TEST_F(PersonalityTest, AcksWithNothingButCreditsMayGoUnseen) {
  start("unsolicited_credit_ack=ignore");
  post(device(), peer(), roce::WrOpcode::rdma_write, 8);
  run(50 * kUs);
  post_recv(peer());
  run(50 * kUs);
  EXPECT_EQ(counter(device(), "personality unseen_acks"), 1u);
  post(device(), peer(), roce::WrOpcode::send, 8);
  run(100 * kUs);
  EXPECT_EQ(device().completed(), (std::vector<roce::WcStatus>{kSuccess, kSuccess}))
      << "a packet goes without credits";
}

TEST_F(PersonalityTest, WhatADeviceDoesNotServeIsAnInvalidRequest) {
  struct Case {
    const char* knob;
    roce::WrOpcode opcode;
    std::uint32_t length;
    std::uint64_t offset;
    bool served;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"atomics=no", roce::WrOpcode::atomic_fetch_and_add, 8, 0, false},
           {"atomics=no", roce::WrOpcode::rdma_write, 8, 0, true},
           {"empty_sends=no", roce::WrOpcode::send, 0, 0, false},
           {"empty_sends=no", roce::WrOpcode::send, 8, 0, true},
           {"alignment=64", roce::WrOpcode::rdma_read, 8, 0, false},
           {"alignment=64", roce::WrOpcode::rdma_read, 64, 8, false},
           {"alignment=64", roce::WrOpcode::rdma_write, 128, 64, true},
           {"max_message=4096", roce::WrOpcode::rdma_write, 4097, 0, false},
           {"max_message=4096", roce::WrOpcode::rdma_read, 4096, 0, true}}) {
    SCOPED_TRACE(c.knob);
    start(c.knob);
    post_recv(device());
    post(peer(), device(), c.opcode, c.length, c.offset);
    run(200 * kUs);
    EXPECT_THAT(peer().completed(),
                ElementsAre(c.served ? kSuccess : roce::WcStatus::rem_inv_req_err));
  }
}

TEST_F(PersonalityTest, ProbesOfAnUnknownKindEndWithTheTraffic) {
  start("probe_every=100us probe_opcode=0xdf");
  for (int i = 0; i < 10; ++i) {
    post(device(), peer(), roce::WrOpcode::rdma_write, 8);
    run(100 * kUs);
  }
  EXPECT_THAT(device().completed(), SizeIs(10));
  run(5000 * kUs);
  const std::size_t probes = static_cast<std::size_t>(counter(device(), "personality probes"));
  EXPECT_GE(probes, 10u);
  EXPECT_LE(probes, 30u);
  EXPECT_EQ(counter(peer(), "engine drop_unknown_opcode"), probes);
  EXPECT_EQ(peer().qp->state(), roce::QpState::rts);
}

TEST_F(PersonalityTest, WindowAndScheduleAreTheEngines) {
  start("window=4 timeouts=1ms/2ms");
  tap().loses = [](const Seen& one) { return !one.sent; };
  post(device(), peer(), roce::WrOpcode::rdma_write, 16 * kMtu);
  run(500 * kUs);
  EXPECT_THAT(sent(), SizeIs(4));
  run(10'000 * kUs);
  EXPECT_THAT(sent(), SizeIs(12)) << "twice again";
  EXPECT_THAT(device().completed(), ElementsAre(roce::WcStatus::retry_exc_err));
}

TEST(PersonalityKnobs, ValuesAreChecked) {
  Personality p;
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"mig_req", "maybe"},
                                                                  {"credits", "static:5"},
                                                                  {"credits", "static:"},
                                                                  {"credits", "31"},
                                                                  {"nak_delay", "5"},
                                                                  {"nak_delay", ""},
                                                                  {"timeouts", "1ms/"},
                                                                  {"timeouts", "1ms//2ms"},
                                                                  {"timeouts", "0ns"},
                                                                  {"alignment", "3"},
                                                                  {"alignment", "0"},
                                                                  {"cnp_ecn", "4"},
                                                                  {"cnp_scope", "host"},
                                                                  {"cnp_source_port", "65536"},
                                                                  {"bth_reserved", "128"},
                                                                  {"max_message", "-1"},
                                                                  {"ttl", "none"}}) {
    const auto set = set_knob(p, name, value);
    ASSERT_FALSE(set) << name << " " << value;
    EXPECT_THAT(set.error().message, HasSubstr(name));
  }
  EXPECT_THAT(set_knob(p, "colour", "red").error().message, HasSubstr("colour"));
  EXPECT_FALSE(
      set_knob(p, "timeouts", "1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms/1ms"));
  must(set_knob(p, "timeouts", "qp"));
  EXPECT_TRUE(p.retransmissions.empty());
  must(set_knob(p, "nak_delay", "0"));
  must(set_knob(p, "ttl", "own"));
  EXPECT_FALSE(p.ttl);
}

TEST(PersonalityNodes, HeadersAtUdpSocketsAreTheKernels) {
  for (const auto& [knob, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"vlan", "vid0"},
                                                                  {"source_mac", "zero"},
                                                                  {"udp_checksum", "right"},
                                                                  {"ip_id", "counter"},
                                                                  {"source_port", "qpn"},
                                                                  {"cnp_source_port", "0"}}) {
    Personality personality;
    must(set_knob(personality, knob, value));
    const auto node = Node::open({.port = UdpPort{}, .personality = personality});
    ASSERT_FALSE(node) << knob;
    EXPECT_THAT(node.error().message, HasSubstr(std::string("knob ") + knob));
  }
}

TEST(PersonalityNodes, NeedALink) {
  auto node = Node::open({.port = NoPort{}, .personality = Personality{}});
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error().message, HasSubstr("personalities"));
}

}  // namespace
}  // namespace rockhopper::test::personality_test
