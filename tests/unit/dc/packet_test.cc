// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What packets of dynamic connections share with those of every other service: an ICRC without
// which nothing is believed, a UDP source port for each flow, and a number that names a shard. The
// packets are handed from one engine to the other here, so that the test sees each of them.
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "roce/qpn_steering.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/packets.h"
#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test {
namespace {

using roce::DropReason;
using roce::PostResult;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::Each;
using ::testing::SizeIs;

/// Offsets into a frame of IPv4 without a VLAN tag.
constexpr std::size_t kUdp = 14 + 20;
constexpr std::size_t kBth = kUdp + 8;
constexpr std::size_t kBthEnd = kBth + 12;

std::uint16_t source_port(const Bytes& frame) {
  return static_cast<std::uint16_t>(frame[kUdp] << 8 | frame[kUdp + 1]);
}

std::uint32_t destination(const Bytes& frame) {
  return std::uint32_t{frame[kBth + 5]} << 16 | std::uint32_t{frame[kBth + 6]} << 8 |
         frame[kBth + 7];
}

class DcPackets : public ::testing::Test {
 protected:
  /// What an engine sends in one turn, but for the ARP with which its host announces itself.
  std::vector<Bytes> sent_by(unsigned node) {
    constexpr std::uint16_t kBurst = 32;
    std::array<rte_mbuf*, kBurst> packets{};
    const std::uint16_t count =
        pair_.network().node(node).host().transmit(packets.data(), kBurst, pair_.now_ns());
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < count; ++i) {
      Bytes frame = bytes_of(packets[i]);
      rte_pktmbuf_free(packets[i]);
      if (frame[12] == 0x08 && frame[13] == 0x00) frames.push_back(std::move(frame));
    }
    return frames;
  }
  void give_to(unsigned node, const Bytes& frame) {
    rte_mbuf* packet = make_packet(sim::pools().arriving(), frame);
    ASSERT_NE(packet, nullptr);
    pair_.network().node(node).host().receive(&packet, 1, pair_.now_ns());
  }
  [[nodiscard]] std::uint64_t drops(DropReason reason) {
    return pair_.engine(1).counters().drops[static_cast<std::size_t>(reason)].value();
  }
  [[nodiscard]] std::uint64_t all_drops() {
    std::uint64_t sum = 0;
    for (const auto& drop : pair_.engine(1).counters().drops) {
      sum += drop.value();
    }
    return sum;
  }

  DcPair pair_;
};

/// WIRE-1: of a message of 0xD8 and of a WRITE behind it, whichever bit is flipped that the ICRC
/// covers, the packet is dropped and counted, and nothing comes of it. Two bytes of the UDP header
/// are among them; what becomes of a damaged IP header is the host's affair.
TEST_F(DcPackets, OneFlippedBitIsDroppedAndCounted) {
  dc::Dci& dci = pair_.make_dci([](auto& init) {
    init.handshake = dc::Handshake::half;
    init.connect_with_data = false;
  });
  const dc::Dct& dct = pair_.make_dct();
  pair_.write(dci, dct, 64);
  std::vector<Bytes> good;
  for (unsigned turn = 0; turn < 4; ++turn) {
    for (Bytes& frame : sent_by(0)) {
      good.push_back(std::move(frame));
    }
  }
  ASSERT_THAT(good, SizeIs(2));
  EXPECT_EQ(good[0][kBth], 0xd8);
  EXPECT_EQ(good[1][kBth], 0xca);
  std::uint64_t flipped = 0;
  std::uint64_t behind_the_bth = 0;
  for (const Bytes& packet : good) {
    for (std::size_t byte = kUdp; byte < packet.size(); ++byte) {
      const bool covered = byte < kUdp + 2 || (byte >= kBth && byte != kBth + 4);
      for (unsigned bit = 0; covered && bit < 8; ++bit) {
        Bytes damaged = packet;
        damaged[byte] ^= static_cast<std::uint8_t>(1u << bit);
        give_to(1, damaged);
        ++flipped;
        behind_the_bth += byte >= kBthEnd ? 1u : 0u;
        ASSERT_EQ(all_drops(), flipped) << "byte " << byte << ", bit " << bit;
      }
    }
  }
  EXPECT_GE(drops(DropReason::bad_icrc), behind_the_bth) << "in the BTH other checks may be first";
  EXPECT_THAT(sent_by(1), SizeIs(0));
  EXPECT_EQ(pair_.endpoint(1).session_count(), 0u);
  EXPECT_EQ(pair_.received().rx_connect.value(), 0u);
  EXPECT_EQ(pair_.word(1, 64), 0u);
  for (const Bytes& packet : good) {
    give_to(1, packet);
  }
  EXPECT_EQ(all_drops(), flipped);
  EXPECT_EQ(pair_.word(1, 64), pair_.word(0, 64));
}

/// WIRE-6: 64 initiators visit 64 targets, each of them twice, the second time by another address
/// handle. Every packet from one to the other, connects and acknowledgements included, has the same
/// UDP source port; and these are spread, as networks choose paths and queues by them.
TEST_F(DcPackets, OneSourcePortFromEachEndToEachOther) {
  constexpr unsigned kEnds = 64;
  roce::AddressHandle* other =
      sim::must(pair_.engine(0).create_ah(pair_.dci_init().pd, pair_.ah()->address_vector()));
  std::vector<dc::Dci*> dcis;
  std::vector<dc::Dct*> dcts;
  for (unsigned i = 0; i < kEnds; ++i) {
    dcis.push_back(&pair_.make_dci());
    dcts.push_back(&pair_.make_dct());
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::uint16_t>> ports;
  std::size_t packets = 0;
  const auto note = [&](wire::Qpn from, const Bytes& frame) {
    ports[{from.value, destination(frame)}].insert(source_port(frame));
    ++packets;
  };
  /// Both ends of `dci` and `dct` exchange packets until none is left.
  const auto exchange = [&](dc::Dci& dci, dc::Dct& dct) {
    for (std::size_t before = packets + 1; before != packets;) {
      before = packets;
      for (const Bytes& frame : sent_by(0)) {
        note(dci.number(), frame);
        give_to(1, frame);
      }
      for (const Bytes& frame : sent_by(1)) {
        ASSERT_EQ(destination(frame), dci.number().value);
        note(dct.number(), frame);
        give_to(0, frame);
      }
    }
    ASSERT_EQ(dci.send_queue_depth(), 0u);
  };
  for (roce::AddressHandle* ah : {pair_.ah(), other}) {
    for (unsigned i = 0; i < kEnds * kEnds; ++i) {
      dc::Dci& dci = *dcis[i % kEnds];
      dc::Dct& dct = *dcts[(i + i / kEnds) % kEnds];
      ASSERT_EQ(pair_.post(dci, dct, WrOpcode::rdma_write, 8, 0, 0, [ah](auto& wr) { wr.ah = ah; }),
                PostResult::ok);
      exchange(dci, dct);
      const std::vector<roce::Completion> completions = pair_.send_completions();
      ASSERT_THAT(completions, SizeIs(1));
      ASSERT_EQ(completions[0].status, WcStatus::success);
    }
  }
  EXPECT_EQ(ports.size(), 2 * kEnds * kEnds);
  EXPECT_GT(packets, 3 * ports.size()) << "a port that is used once has not been kept";
  std::set<std::uint16_t> all;
  for (const auto& [flow, used] : ports) {
    EXPECT_THAT(used, SizeIs(1)) << std::hex << flow.first << " to " << flow.second;
    all.insert(used.begin(), used.end());
  }
  EXPECT_GT(all.size(), kEnds * kEnds / 2);
}

/// WIRE-6: all packets to an end of a dynamic connection lead to the shard that it was made on,
/// whatever their UDP source port, and so to one lcore.
TEST(DcSharding, PacketsLeadToTheShardOfTheirEnd) {
  constexpr std::uint16_t kShards = 4;
  constexpr std::uint32_t kEachKind = 100;
  rte_mempool* pool = sim::pools().node(0);
  const roce::QpnSteering steering(kShards);
  roce::SeededRandom random(6);
  const auto shard_of = [&](wire::Qpn to) {
    Bytes frame = roce_frame(0xca, static_cast<std::uint32_t>(random.below(1u << 24)), Bytes(32));
    frame[kUdp] |= static_cast<std::uint8_t>(random.below(64));
    frame[kUdp + 1] = static_cast<std::uint8_t>(random.below(256));
    frame[kBth + 5] = static_cast<std::uint8_t>(to.value >> 16);
    frame[kBth + 6] = static_cast<std::uint8_t>(to.value >> 8);
    frame[kBth + 7] = static_cast<std::uint8_t>(to.value);
    rte_mbuf* packet = make_packet(pool, frame);
    const std::uint16_t shard = steering.shard_of(packet);
    rte_pktmbuf_free(packet);
    return shard;
  };
  const auto cq = sim::must(roce::CompletionQueue::create(16));
  const auto node = sim::must(Node::open({.port = NoPort{.mac = stack::sim::Network::mac_of(0)},
                                          .shards = kShards,
                                          .engine = {.random = &random, .max_qp = 16},
                                          .dc = dc::EndpointConfig{},
                                          .packet_pool = pool}));
  for (std::uint16_t shard = 0; shard < kShards; ++shard) {
    roce::Engine& engine = node->shard(shard).engine();
    dc::Endpoint& endpoint = *node->shard(shard).dc();
    const roce::ProtectionDomain pd = engine.allocate_pd();
    roce::SharedReceiveQueue* srq =
        sim::must(engine.create_srq({.pd = pd, .attributes = {.max_wr = 64}}));
    std::vector<std::uint16_t> shards;
    for (std::uint32_t i = 0; i < kEachKind; ++i) {
      dc::DciInit dci;
      dci.pd = pd;
      dci.send_cq = cq.get();
      shards.push_back(shard_of(sim::must(endpoint.create_dci(dci))->number()));
      dc::DctInit dct;
      dct.pd = pd;
      dct.srq = srq;
      dct.recv_cq = cq.get();
      shards.push_back(shard_of(sim::must(endpoint.create_dct(dct))->number()));
    }
    EXPECT_THAT(shards, Each(shard));
  }
}

}  // namespace
}  // namespace rockhopper::test
