// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Connects that nobody asked for, in great numbers: they cost no state, few answers, and nobody
// who is connected anything.
#include <gtest/gtest.h>
#include <malloc.h>

#include "dc/message_packet.h"
#include "tests/sim/seeded_runs.h"
#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test::flood_test {
namespace {

using roce::WcStatus;
using ::testing::ElementsAre;

constexpr std::uint32_t kCnaksPerSecond = 1000;
constexpr std::uint32_t kAllCnaksPerSecond = 20000;
constexpr std::uint32_t kCnakBurst = 64;
constexpr std::uint64_t kNsPerMs = 1'000'000;

/// A target with one session, and connects that node 1 gets from anywhere.
class DcFlood : public ::testing::Test {
 protected:
  DcFlood() {
    stack::HostConfig config{
        .mac = stack::sim::Network::mac_of(0), .mtu = 1500, .packet_pool = sim::pools().node(0)};
    attacker_ = sim::must(stack::Host::create(config));
    for (std::uint32_t i = 0; i < 60; ++i) {
      own_.push_back(stack::IpAddress::from_ipv4(0x0a2a0064 + i));
      sim::must(attacker_->add_address(own_.back(), 24));
    }
    sim::must(attacker_->add_static_neighbour(pair_.network().node(1).address(),
                                              stack::sim::Network::mac_of(1)));
    write();
    EXPECT_EQ(pair_.received().sessions_opened.value(), 1u);
  }

  /// As if `source` had sent it: one of own_, or the initiators' node.
  void inject(const stack::IpAddress& source, wire::Qpn target, std::uint64_t access_key,
              std::uint32_t number = 0) {
    stack::Host& host = source == first_ ? pair_.network().node(0).host() : *attacker_;
    stack::Flow flow;
    flow.config =
        roce::flow_config({.source = source, .destination = pair_.network().node(1).address()}, 1);
    ASSERT_EQ(host.resolve(flow, pair_.now_ns()), stack::Resolution::ready);
    rte_mbuf* packet = dc::build_message(
        dc::Connect{.full = (number & 1) != 0,
                    .data_follows = (number & 1) == 0,
                    .mtu_code = 3,
                    .initiator = wire::Qpn{0xd00000u + number % 65536},
                    .first_psn = {},
                    .nonce = number,
                    .lease_us = 1'000'000,
                    .access_key = access_key,
                    .incarnation = number,
                    .stream = 0,
                    .responder_resources = 16},
        target, [&](wire::Headers& headers, std::uint32_t length) {
          return roce::PacketBuilder(sim::pools().node(0), host, flow, headers, length);
        });
    ASSERT_NE(packet, nullptr);
    pair_.network().node(1).host().receive(&packet, 1, pair_.now_ns());
  }

  /// A request of the session, which takes a round trip whatever else comes.
  void write() {
    const std::uint64_t start_ns = pair_.now_ns();
    pair_.write(dci_, dct_);
    EXPECT_THAT(pair_.statuses(1), ElementsAre(WcStatus::success));
    EXPECT_LT(pair_.now_ns() - start_ns, 2 * kDelayNs + 100'000);
  }
  [[nodiscard]] std::uint64_t sent_packets() {
    return pair_.engine(1).counters().sent_pkts.value();
  }
  /// A number that no target has.
  [[nodiscard]] wire::Qpn nobody() const { return wire::Qpn{dct_.number().value ^ 0x10000}; }

  DcPair pair_{{.cnaks_per_second = kCnaksPerSecond, .all_cnaks_per_second = kAllCnaksPerSecond}};
  dc::Dci& dci_ = pair_.make_dci();
  const dc::Dct& dct_ = pair_.make_dct();
  std::unique_ptr<stack::Host> attacker_;
  std::vector<stack::IpAddress> own_;
  stack::IpAddress first_ = pair_.network().node(0).address();
};

/// DC-20: 2^20 access keys at random: no session, no answer, each is counted.
TEST_F(DcFlood, RandomAccessKeys) {
  constexpr std::uint32_t kConnects = 1u << 20;
  roce::SeededRandom random(20);
  pair_.run_for(kDelayNs);
  const std::uint64_t sent_before = sent_packets();
  for (std::uint32_t i = 0; i < kConnects; ++i) {
    std::uint64_t access_key = random.next();
    access_key += access_key == dct_.access_key() ? 1 : 0;
    inject(first_, dct_.number(), access_key, i);
  }
  pair_.run_for(kDelayNs);
  EXPECT_EQ(sent_packets(), sent_before);
  EXPECT_EQ(dct_.violations(), kConnects);
  EXPECT_EQ(pair_.received().access_key_violations.value(), kConnects);
  EXPECT_EQ(pair_.received().rx_connect.value(), 1u);
  EXPECT_EQ(pair_.received().sessions_opened.value(), 1u);
  EXPECT_EQ(pair_.endpoint(1).session_count(), 1u);
  write();
}

/// DC-32: however many connects a source sends in a second, it gets so many CNAKs and no more, and
/// another source gets its own.
TEST_F(DcFlood, CnaksAreLimitedBySource) {
  const stack::IpAddress second = own_.front();
  ASSERT_TRUE(
      pair_.network().node(1).host().add_static_neighbour(second, stack::sim::Network::mac_of(0)));
  const std::uint64_t cnaks = pair_.received().tx_cnak_no_such_dct.value();
  constexpr unsigned kMilliseconds = 1000;
  constexpr unsigned kEach = 100;
  for (unsigned ms = 0; ms < kMilliseconds; ++ms) {
    for (unsigned i = 0; i < kEach; ++i) {
      inject(first_, nobody(), 0, ms * kEach + i);
    }
    pair_.run_for(kNsPerMs);
  }
  const std::uint64_t sent = pair_.received().tx_cnak_no_such_dct.value() - cnaks;
  EXPECT_GE(sent, kCnaksPerSecond);
  EXPECT_LE(sent, kCnaksPerSecond + kCnakBurst + 1);
  EXPECT_EQ(sent + pair_.received().cnaks_suppressed.value(), kMilliseconds * kEach);
  for (unsigned i = 0; i < 10; ++i) {
    inject(first_, nobody(), 0, i);
    inject(second, nobody(), 0, i);
    inject(first_, nobody(), 0, i);
  }
  pair_.run_for(kNsPerMs);
  EXPECT_GE(pair_.received().tx_cnak_no_such_dct.value() - cnaks - sent, 10u);
  EXPECT_LE(pair_.received().tx_cnak_no_such_dct.value() - cnaks - sent, 13u);
}

/// DC-32: nor do many sources get more together than what all may.
TEST_F(DcFlood, CnaksAreLimitedInAll) {
  const std::uint64_t cnaks = pair_.received().tx_cnak_no_such_dct.value();
  constexpr unsigned kMilliseconds = 1000;
  for (unsigned ms = 0; ms < kMilliseconds; ++ms) {
    for (unsigned i = 0; i < own_.size(); ++i) {
      inject(own_[i], nobody(), 0, ms);
    }
    pair_.run_for(kNsPerMs);
  }
  const std::uint64_t sent = pair_.received().tx_cnak_no_such_dct.value() - cnaks;
  EXPECT_GE(sent, kAllCnaksPerSecond);
  EXPECT_LE(sent, kAllCnaksPerSecond + kCnakBurst + 1);
  write();
}

/// DC-32: a flood from 60 sources, with wrong keys and to targets that do not exist, allocates
/// nothing, opens nothing, and the session goes on as ever.
TEST_F(DcFlood, CostsNoMemoryAndNobodyAnything) {
  constexpr std::uint32_t kRounds = 60;
  constexpr std::uint32_t kConnects = 4096;
  std::size_t allocated = 0;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::uint32_t i = 0; i < kConnects; ++i) {
      inject(own_[i % own_.size()], i % 2 == 0 ? nobody() : dct_.number(), dct_.access_key() ^ 1,
             i);
    }
    write();
    pair_.run_for(kNsPerMs);
    if (round == kRounds / 2) allocated = mallinfo2().uordblks;
  }
  EXPECT_EQ(mallinfo2().uordblks, allocated);
  EXPECT_EQ(pair_.endpoint(1).session_count(), 1u);
  EXPECT_EQ(pair_.received().sessions_opened.value(), 1u);
  EXPECT_EQ(dct_.violations(), kRounds * kConnects / 2);
}

}  // namespace
}  // namespace rockhopper::test::flood_test
