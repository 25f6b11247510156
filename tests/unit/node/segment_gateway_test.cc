// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/segment_gateway.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "stack/plain_pool.h"
#include "stack/time_units.h"
#include "tests/support/child_process.h"
#include "tests/support/packets.h"
#include "tests/unit/stack/frames.h"

namespace rockhopper {
namespace {

namespace frames = test::frames;
using frames::Bytes;
using frames::kBroadcast;
using frames::kOtherMac;
using frames::kPeerMac;
using frames::Mac;
using stack::InterfaceAddress;
using stack::segment::WayOut;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint16_t kPortMtu = 1500;
constexpr std::uint16_t kArpType = 0x0806;
constexpr std::uint16_t kIpv4Type = 0x0800;
constexpr std::uint16_t kIpv6Type = 0x86dd;
constexpr std::uint8_t kUdpProtocol = 17;
constexpr std::uint8_t kIcmpProtocol = 1;
constexpr std::uint8_t kIcmpv6Protocol = 58;
constexpr std::uint8_t kRcSendOnly = 4;
constexpr std::uint16_t kFlowPort = 0xC000;
constexpr std::uint16_t kRoceDestinationPort = 4791;
constexpr frames::IpOptions kNeighbourly{.hop_limit = 255};
const std::string kOurs = "10.0.0.5";
const std::string kOursToo = "fd00::5";
const std::string kPeer = "10.0.0.6";
const std::string kPeerToo = "fd00::6";

std::vector<InterfaceAddress> our_addresses() {
  return {*InterfaceAddress::parse(kOurs + "/24"), *InterfaceAddress::parse(kOursToo + "/64")};
}

/// Of an RC SEND to that queue pair.
Bytes rc_packet(const std::string& source, const std::string& destination, std::uint16_t qpn,
                std::size_t payload = 16) {
  Bytes bth{kRcSendOnly, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1};
  bth[6] = static_cast<std::uint8_t>(qpn >> 8);
  bth[7] = static_cast<std::uint8_t>(qpn);
  bth.resize(bth.size() + payload, 7);
  return frames::ip_packet(source, destination, kUdpProtocol,
                           frames::udp(kFlowPort, kRoceDestinationPort, bth));
}

Mac link_mac(const stack::Link& link) {
  Mac mac;
  const rte_ether_addr address = link.mac();
  std::memcpy(mac.data(), &address, mac.size());
  return mac;
}

std::vector<Bytes> taken_from(stack::Link& link, std::uint64_t now_ns) {
  std::vector<Bytes> taken;
  std::array<rte_mbuf*, 32> packets{};
  while (const auto count = link.rx_burst(packets.data(), packets.size(), now_ns)) {
    for (std::uint16_t i = 0; i < count; ++i) {
      taken.push_back(test::bytes_of(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
  }
  return taken;
}

/// Returns how many were taken.
std::uint16_t given_to(stack::Link& link, rte_mempool* pool, const std::vector<Bytes>& all,
                       std::uint64_t now_ns) {
  std::vector<rte_mbuf*> packets;
  for (const Bytes& frame : all) {
    packets.push_back(test::make_packet(pool, frame));
  }
  const auto count = static_cast<std::uint16_t>(packets.size());
  const std::uint16_t taken = link.tx_burst(packets.data(), count, now_ns);
  rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
  return taken;
}

class SegmentGatewayTest : public ::testing::Test {
 protected:
  [[nodiscard]] Expected<std::unique_ptr<SegmentGateway>> open_gateway(
      std::vector<InterfaceAddress> addresses = our_addresses()) {
    return SegmentGateway::open({.directory = directory_.path(),
                                 .addresses = std::move(addresses),
                                 .mtu = kPortMtu,
                                 .pool = pool_->get()});
  }
  [[nodiscard]] Expected<std::unique_ptr<SegmentEnd>> open_process(
      std::vector<InterfaceAddress> addresses = our_addresses()) {
    return SegmentEnd::open({.directory = directory_.path(),
                             .pool = pool_->get(),
                             .way_out = WayOut::gateway,
                             .addresses = std::move(addresses)});
  }
  /// With a queue pair of that number.
  [[nodiscard]] std::unique_ptr<SegmentEnd> process_with(std::uint16_t qpn) {
    auto process = std::move(*open_process());
    EXPECT_TRUE(process->membership().claim(qpn));
    return process;
  }
  /// The gateway, once it has announced its addresses.
  void start() {
    gateway_ = std::move(*open_gateway());
    for (int i = 0; i < 10; ++i) {
      (void)taken_from(*gateway_, now_ns_);
      now_ns_ += kNsPerSecond;
    }
    ASSERT_THAT(leaving(), IsEmpty());
    mac_ = link_mac(*gateway_);
  }

  void enters(const std::vector<Bytes>& all) {
    ASSERT_EQ(given_to(*gateway_, pool_->get(), all, now_ns_), all.size());
  }
  std::vector<Bytes> leaving() { return taken_from(*gateway_, now_ns_); }
  std::vector<Bytes> received(SegmentEnd& process) { return taken_from(process.link(), now_ns_); }
  std::uint16_t send(SegmentEnd& process, const std::vector<Bytes>& all) {
    return given_to(process.link(), pool_->get(), all, now_ns_);
  }
  [[nodiscard]] Bytes to_queue_pair(std::uint16_t qpn, std::size_t payload = 16) const {
    return frames::ethernet(mac_, kPeerMac, kIpv4Type, rc_packet(kPeer, kOurs, qpn, payload));
  }
  [[nodiscard]] std::uint64_t counter(const std::string& name) const {
    std::pair<std::string, std::uint64_t> sought{name, UINT64_MAX};
    gateway_->visit_counters(
        [](void* to, const char* visited, std::uint64_t value) {
          auto& [wanted, result] = *static_cast<decltype(sought)*>(to);
          if (wanted == visited) result = value;
        },
        &sought);
    return sought.second;
  }

  test::TemporaryDirectory directory_;
  std::unique_ptr<stack::PlainPool> pool_ =
      std::move(*stack::PlainPool::create({.size = 1024, .data_room = 4400}));
  std::uint64_t now_ns_ = kNsPerSecond;
  std::unique_ptr<SegmentGateway> gateway_;
  Mac mac_{};
};

TEST_F(SegmentGatewayTest, FramesGoToWhoHasTheQueuePair) {
  start();
  const auto first = process_with(11);
  const auto second = process_with(12);
  enters({to_queue_pair(12), to_queue_pair(11), to_queue_pair(99), to_queue_pair(12)});
  EXPECT_THAT(received(*first), ElementsAre(to_queue_pair(11)));
  EXPECT_THAT(received(*second), ElementsAre(to_queue_pair(12), to_queue_pair(12)));
  EXPECT_EQ(counter("tx_no_owner"), 1u);
  EXPECT_THAT(leaving(), IsEmpty());
}

TEST_F(SegmentGatewayTest, WhatIsForNobodyHereIsCounted) {
  start();
  const auto process = process_with(11);
  const Bytes packet = rc_packet(kPeer, kOurs, 11);
  enters({Bytes(13, 1), frames::ethernet(kOtherMac, kPeerMac, kIpv4Type, packet), to_queue_pair(11),
          frames::ethernet(mac_, mac_, kIpv4Type, packet),
          frames::ethernet(kBroadcast, mac_, kIpv4Type, packet)});
  EXPECT_THAT(received(*process), ElementsAre(to_queue_pair(11)));
  EXPECT_EQ(counter("in_truncated"), 1u);
  EXPECT_EQ(counter("in_not_ours"), 1u);
  EXPECT_EQ(counter("in_own_source"), 2u);
}

TEST_F(SegmentGatewayTest, FramesToGroupsGoToAllAndDoNotComeBack) {
  start();
  const auto first = process_with(11);
  const auto second = process_with(12);
  const Mac group{0x01, 0x00, 0x5e, 0x01, 0x01, 0x01};
  const Bytes frame =
      frames::ethernet(group, kPeerMac, kIpv4Type, rc_packet(kPeer, "239.1.1.1", 0xffff));
  enters({frame});
  EXPECT_THAT(received(*first), ElementsAre(frame));
  EXPECT_THAT(received(*second), ElementsAre(frame));
  EXPECT_THAT(leaving(), IsEmpty());
  const Bytes own = frames::ethernet(group, mac_, kIpv4Type, rc_packet(kOurs, "239.1.1.1", 0xffff));
  EXPECT_EQ(send(*first, {own}), 1);
  EXPECT_THAT(leaving(), ElementsAre(own));
  EXPECT_THAT(received(*second), ElementsAre(own));
}

TEST_F(SegmentGatewayTest, TheAddressesAreAnsweredForOnce) {
  start();
  const auto process = process_with(11);
  enters({frames::ethernet(kBroadcast, kPeerMac, kArpType,
                           frames::arp(1, kPeerMac, kPeer, {}, kOurs))});
  EXPECT_THAT(leaving(),
              ElementsAre(frames::ethernet(kPeerMac, mac_, kArpType,
                                           frames::arp(2, mac_, kOurs, kPeerMac, kPeer))));
  enters({frames::ethernet(
      mac_, kPeerMac, kIpv6Type,
      frames::ip_packet(
          kPeerToo, kOursToo, kIcmpv6Protocol,
          frames::icmpv6(kPeerToo, kOursToo, 135, 0,
                         frames::neighbour(0, kOursToo, frames::link_option(1, kPeerMac))),
          kNeighbourly))});
  EXPECT_THAT(leaving(), SizeIs(1));
  enters({frames::ethernet(
      mac_, kPeerMac, kIpv4Type,
      frames::ip_packet(kPeer, kOurs, kIcmpProtocol, frames::icmp(8, 0, {0, 1, 0, 1, 9, 9})))});
  EXPECT_THAT(leaving(), SizeIs(1));
  EXPECT_EQ(counter("in_for_host"), 3u);
  EXPECT_EQ(counter("host_arp_replies_sent"), 1u);
  EXPECT_THAT(received(*process), IsEmpty()) << "it need not be woken";
}

TEST_F(SegmentGatewayTest, AllHearOfNeighboursAndPaths) {
  start();
  const auto first = process_with(11);
  const auto second = process_with(12);
  const std::vector<Bytes> told = {
      frames::ethernet(mac_, kPeerMac, kArpType, frames::arp(2, kPeerMac, kPeer, mac_, kOurs)),
      frames::ethernet(kBroadcast, kPeerMac, kArpType, frames::arp(1, kPeerMac, kPeer, {}, kPeer)),
      frames::ethernet(
          mac_, kPeerMac, kIpv6Type,
          frames::ip_packet(
              kPeerToo, kOursToo, kIcmpv6Protocol,
              frames::icmpv6(kPeerToo, kOursToo, 136, 0,
                             frames::neighbour(0x60, kPeerToo, frames::link_option(2, kPeerMac))),
              kNeighbourly)),
      frames::ethernet(mac_, kPeerMac, kIpv4Type,
                       frames::ip_packet(kPeer, kOurs, kIcmpProtocol,
                                         frames::icmp(3, 4, rc_packet(kOurs, kPeer, 11)))),
      frames::ethernet(mac_, kPeerMac, kIpv6Type,
                       frames::ip_packet(kPeerToo, kOursToo, kIcmpv6Protocol,
                                         frames::icmpv6(kPeerToo, kOursToo, 2, 0, Bytes(60, 0))))};
  enters(told);
  EXPECT_EQ(received(*first), told);
  EXPECT_EQ(received(*second), told);
  EXPECT_EQ(counter("in_for_all"), told.size());
  EXPECT_THAT(leaving(), IsEmpty());
}

TEST_F(SegmentGatewayTest, WhatProcessesSendToOthersLeaves) {
  start();
  const auto first = process_with(11);
  const auto second = process_with(12);
  const Bytes out = frames::ethernet(kPeerMac, mac_, kIpv4Type, rc_packet(kOurs, kPeer, 12));
  const Bytes in = frames::ethernet(mac_, mac_, kIpv4Type, rc_packet(kOurs, kOurs, 12));
  const Bytes request =
      frames::ethernet(kBroadcast, mac_, kArpType, frames::arp(1, mac_, kOurs, {}, kPeer));
  EXPECT_EQ(send(*first, {out, in, request}), 3);
  EXPECT_THAT(leaving(), ElementsAre(out, request));
  EXPECT_THAT(received(*second), ElementsAre(in));
}

TEST_F(SegmentGatewayTest, FramesWithOthersAddressesDoNotLeave) {
  start();
  const auto process = process_with(11);
  EXPECT_EQ(
      send(*process,
           {frames::ethernet(kPeerMac, kOtherMac, kIpv4Type, rc_packet(kOurs, kPeer, 12)),
            frames::ethernet(mac_, mac_, kArpType, frames::arp(2, kOtherMac, kPeer, mac_, kOurs))}),
      2);
  EXPECT_THAT(leaving(), IsEmpty());
  EXPECT_EQ(counter("out_foreign_source"), 1u);
  EXPECT_EQ(counter("out_own_destination"), 1u);
}

TEST_F(SegmentGatewayTest, AProcessThatStandsStillHoldsUpNobody) {
  start();
  const auto still = process_with(11);
  const auto other = process_with(12);
  const std::vector<Bytes> many(32, to_queue_pair(11, 1400));
  for (int i = 0; i < 1000 && counter("in_refused") == 0; ++i) {
    enters(many);
  }
  EXPECT_GT(counter("in_refused"), 0u);
  enters({many.front(), to_queue_pair(12), many.front(), to_queue_pair(12)});
  EXPECT_THAT(received(*other), SizeIs(2));
}

TEST_F(SegmentGatewayTest, TheNextOneGoesOn) {
  start();
  const auto process = process_with(11);
  const Bytes out = frames::ethernet(kPeerMac, mac_, kIpv4Type, rc_packet(kOurs, kPeer, 12));
  EXPECT_EQ(send(*process, {out}), 1);
  EXPECT_THAT(leaving(), SizeIs(1));
  gateway_.reset();
  EXPECT_EQ(send(*process, {out, out}), 2);
  EXPECT_EQ(process->link().counters().tx_no_gateway.value(), 2u);
  start();
  EXPECT_EQ(send(*process, {out}), 1);
  EXPECT_THAT(leaving(), ElementsAre(out));
  enters({to_queue_pair(11)});
  EXPECT_THAT(received(*process), SizeIs(1));
}

TEST_F(SegmentGatewayTest, EachCounterHasAText) {
  start();
  std::vector<std::string> names;
  gateway_->visit_counters(
      [](void* to, const char* name, std::uint64_t) {
        static_cast<std::vector<std::string>*>(to)->emplace_back(name);
      },
      &names);
  std::vector<std::string> described;
  SegmentGateway::describe_counters(
      [](void* to, const char* name, const char* text) {
        EXPECT_STRNE(text, "");
        static_cast<std::vector<std::string>*>(to)->emplace_back(name);
      },
      &described);
  EXPECT_EQ(names, described);
}

TEST_F(SegmentGatewayTest, ThereIsOne) {
  start();
  const auto second = open_gateway();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(getpid())));
  gateway_.reset();
  EXPECT_TRUE(open_gateway());
}

TEST_F(SegmentGatewayTest, ProcessesNeedOneWithTheirAddresses) {
  const auto too_early = open_process();
  ASSERT_FALSE(too_early);
  EXPECT_EQ(too_early.error().code, ErrorCode::not_found);
  start();
  const auto others = open_process({*InterfaceAddress::parse("10.0.0.7/24")});
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().code, ErrorCode::invalid_state);
  auto turned = our_addresses();
  std::swap(turned[0], turned[1]);
  const auto process = open_process(turned);
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_EQ((*process)->link().mtu(), kPortMtu);
  gateway_.reset();
  EXPECT_TRUE(open_process()) << "until the next one comes";
  const auto changed = open_gateway({*InterfaceAddress::parse("10.0.0.7/24")});
  ASSERT_FALSE(changed) << "while a process has the old ones";
  EXPECT_EQ(changed.error().code, ErrorCode::invalid_state);
  EXPECT_TRUE(open_gateway());
}

TEST_F(SegmentGatewayTest, OtherAddressesOnceNobodyHasTheOldOnes) {
  start();
  gateway_.reset();
  EXPECT_TRUE(open_gateway({*InterfaceAddress::parse("10.0.0.7/24")}));
}

}  // namespace
}  // namespace rockhopper
