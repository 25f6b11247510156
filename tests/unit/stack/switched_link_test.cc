// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/switched_link.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "stack/random.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::switched_link_test {
namespace {

using test::Bytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint8_t kEverybody = 0xff;

Bytes address(std::uint8_t station) {
  if (station == kEverybody) return Bytes(6, 0xff);
  return {2, 0, 0, 0, 0, station};
}

Bytes frame(std::uint8_t to, std::uint8_t from, std::uint8_t content) {
  Bytes bytes = address(to);
  const Bytes source = address(from);
  bytes.insert(bytes.end(), source.begin(), source.end());
  bytes.insert(bytes.end(), {0x88, 0xb5, content});
  return bytes;
}

/// A link whose other end is the test.
class Wire final : public Link {
 public:
  explicit Wire(std::uint8_t station) : station_(station) {}
  ~Wire() override {
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
    if (stuck) return 0;
    for (std::uint16_t i = 0; i < count; ++i) {
      sent.push_back(test::bytes_of(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
    return count;
  }
  [[nodiscard]] std::uint64_t next_deadline_ns() const override { return deadline_ns; }
  [[nodiscard]] rte_ether_addr mac() const override { return {{2, 0, 0, 0, 0, station_}}; }
  [[nodiscard]] std::uint16_t mtu() const override {
    return static_cast<std::uint16_t>(1500 - station_);
  }

  std::deque<rte_mbuf*> arriving;
  std::vector<Bytes> sent;
  bool stuck = false;
  bool up = true;
  std::uint64_t deadline_ns = kNever;

 private:
  std::uint8_t station_;
};

/// Stations 1 to 3 are behind a wire each; the endpoint is station 9.
class SwitchedLinkTest : public ::testing::Test {
 protected:
  static constexpr std::uint8_t kOwn = 9;

  void SetUp() override {
    auto pool = MbufPool::create({.size = 4095, .cache = 0});
    ASSERT_TRUE(pool.has_value()) << pool.error().message;
    pool_ = std::move(*pool);
    SwitchedLink::Config config{.ports = {}, .pool = pool_.get(), .seed = test::seed()};
    for (Wire& wire : wires_) {
      config.ports.push_back({&wire, [&wire] { return wire.up; }});
    }
    link_ = std::make_unique<SwitchedLink>(config);
    // Everybody has been heard.
    send(frame(kEverybody, kOwn, 0));
    for (std::uint8_t station = 1; station <= 3; ++station) {
      arrive(station, frame(kOwn, station, 0));
    }
    EXPECT_EQ(receive().size(), 3u);
    for (Wire& wire : wires_) {
      wire.sent.clear();
    }
  }
  void TearDown() override {
    link_.reset();
    for (Wire& wire : wires_) {
      for (rte_mbuf* packet : wire.arriving) {
        rte_pktmbuf_free(packet);
      }
      wire.arriving.clear();
    }
    EXPECT_EQ(pool_.in_use(), 0u) << "mbufs have leaked";
  }

  Wire& wire(std::uint8_t station) { return wires_[station - 1u]; }
  void arrive(std::uint8_t station, const Bytes& bytes) {
    wire(station).arriving.push_back(test::make_packet(pool_.get(), bytes));
  }
  void send(const Bytes& bytes) {
    rte_mbuf* packet = test::make_packet(pool_.get(), bytes);
    ASSERT_EQ(link_->tx_burst(&packet, 1, 1), 1u);
  }
  /// What the endpoint gets; it writes into every packet, as it may.
  std::vector<Bytes> receive() {
    std::vector<Bytes> got;
    for (;;) {
      std::array<rte_mbuf*, 4> packets;
      const std::uint16_t count =
          link_->rx_burst(packets.data(), static_cast<std::uint16_t>(packets.size()), 1);
      for (std::uint16_t i = 0; i < count; ++i) {
        got.push_back(test::bytes_of(packets[i]));
        *rte_pktmbuf_mtod(packets[i], std::uint8_t*) ^= 0xff;
        rte_pktmbuf_free(packets[i]);
      }
      if (count == 0) return got;
    }
  }

  MbufPool pool_;
  std::array<Wire, 3> wires_{Wire(1), Wire(2), Wire(3)};
  std::unique_ptr<SwitchedLink> link_;
};

TEST_F(SwitchedLinkTest, IsThePlaceOfItsLinks) {
  EXPECT_EQ(link_->mac().addr_bytes[5], 1);
  EXPECT_EQ(link_->mtu(), 1497);
  EXPECT_EQ(link_->next_deadline_ns(), kNever);
  wire(2).deadline_ns = 7;
  EXPECT_EQ(link_->next_deadline_ns(), 7u);
  EXPECT_TRUE(link_->any_up());
  for (Wire& wire : wires_) {
    wire.up = false;
  }
  EXPECT_FALSE(link_->any_up());
}

TEST_F(SwitchedLinkTest, EachStationGetsItsOwn) {
  for (std::uint8_t station = 1; station <= 3; ++station) {
    send(frame(station, kOwn, station));
  }
  for (std::uint8_t station = 1; station <= 3; ++station) {
    EXPECT_THAT(wire(station).sent, ElementsAre(frame(station, kOwn, station)));
  }
  arrive(2, frame(kOwn, 2, 7));
  arrive(3, frame(kOwn, 3, 8));
  EXPECT_THAT(receive(), ElementsAre(frame(kOwn, 2, 7), frame(kOwn, 3, 8)));
}

TEST_F(SwitchedLinkTest, StationsReachEachOtherAndTheEndpointDoesNotHearIt) {
  arrive(1, frame(3, 1, 5));
  EXPECT_THAT(receive(), IsEmpty());
  EXPECT_THAT(wire(3).sent, ElementsAre(frame(3, 1, 5)));
  EXPECT_THAT(wire(2).sent, IsEmpty());
}

TEST_F(SwitchedLinkTest, WhatTheEndpointWritesIntoAnotherStationDoesNotSee) {
  wire(3).stuck = true;
  arrive(1, frame(kEverybody, 1, 6));
  EXPECT_THAT(receive(), ElementsAre(frame(kEverybody, 1, 6)));
  wire(3).stuck = false;
  EXPECT_THAT(receive(), IsEmpty());
  EXPECT_THAT(wire(2).sent, ElementsAre(frame(kEverybody, 1, 6)));
  EXPECT_THAT(wire(3).sent, ElementsAre(frame(kEverybody, 1, 6)));
}

TEST_F(SwitchedLinkTest, AStationThatStandsStillHoldsUpNobody) {
  wire(1).stuck = true;
  constexpr int kPackets = 2000;
  for (int i = 0; i < kPackets; ++i) {
    send(frame(1, kOwn, 1));
    send(frame(2, kOwn, 2));
  }
  EXPECT_EQ(wire(2).sent.size(), static_cast<std::size_t>(kPackets));
  const auto& counters = link_->learning_switch().counters(0);
  EXPECT_GT(counters.tx_dropped_queue_full.value(), 0u);
  wire(1).stuck = false;
  EXPECT_THAT(receive(), IsEmpty());
  EXPECT_EQ(wire(1).sent.size() + counters.tx_dropped_queue_full.value(),
            static_cast<std::size_t>(kPackets));
}

TEST_F(SwitchedLinkTest, AStationThatHasMovedIsReachedWhereItIs) {
  arrive(2, frame(kOwn, 1, 0));
  EXPECT_EQ(receive().size(), 1u);
  send(frame(1, kOwn, 3));
  EXPECT_THAT(wire(1).sent, IsEmpty());
  EXPECT_THAT(wire(2).sent, ElementsAre(frame(1, kOwn, 3)));
}

}  // namespace
}  // namespace rockhopper::stack::switched_link_test
