// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Addresses that come and go while the host runs, and what routers say of datagrams' size.
#include <gmock/gmock.h>
#include <netinet/in.h>

#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack {
namespace {

using namespace frames;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kNew4 = "192.0.2.77";
constexpr const char* kNew6 = "2001:db8::77";

/// What the host has told, a line each.
class Told final : public HostObserver {
 public:
  void on_address_change() override { lines.emplace_back("change"); }
  void on_duplicate_address(const IpAddress& address) override {
    lines.push_back("duplicate " + address.to_string());
  }
  void on_packet_too_big(const IpAddress& destination, std::uint32_t mtu) override {
    lines.push_back("too big " + destination.to_string() + " " + std::to_string(mtu));
  }
  std::vector<std::string> take() { return std::exchange(lines, {}); }
  std::vector<std::string> lines;
};

class HostAddressChange : public HostFixture {
 protected:
  void SetUp() override {
    HostFixture::SetUp();
    host_->set_observer(&told_);
  }
  /// The host begins to probe; what is about `address` later comes from kPeerMac.
  void probe(const char* text) {
    ASSERT_TRUE(host_->add_address(address(text), text == std::string(kNew4) ? 24 : 64,
                                   AddressUse::after_probing));
  }
  [[nodiscard]] std::optional<AddressState> state(const char* text) const {
    return host_->address_state(address(text));
  }
  Told told_;
};

TEST_F(HostAddressChange, AtOnceIsUsedAnnouncedAndTold) {
  ASSERT_TRUE(host_->add_address(address(kNew4), 24));
  EXPECT_THAT(told_.take(), ElementsAre("change"));
  EXPECT_EQ(state(kNew4), AddressState::preferred);
  EXPECT_TRUE(host_->owns(address(kNew4)));
  EXPECT_EQ(run_until(now_ns_ + 5 * kSecond_ns).size(), 2u) << "announcements";
  ASSERT_TRUE(host_->remove_address(address(kNew4)));
  EXPECT_THAT(told_.take(), ElementsAre("change"));
  EXPECT_EQ(state(kNew4), std::nullopt);
  EXPECT_FALSE(host_->remove_address(address(kNew4)));
  EXPECT_THAT(told_.take(), IsEmpty());
}

TEST_F(HostAddressChange, Rfc5227_ProbesComeFirst) {
  probe(kNew4);
  EXPECT_EQ(state(kNew4), AddressState::tentative);
  EXPECT_FALSE(host_->owns(address(kNew4)));
  EXPECT_THAT(told_.take(), IsEmpty());
  const std::uint64_t start_ns = now_ns_;
  const auto out = run_until(now_ns_ + 12 * kSecond_ns);
  ASSERT_EQ(out.size(), 5u) << "three probes, two announcements";
  EXPECT_EQ(counter("address_probes_sent"), 3u);
  EXPECT_LE(out[0].first - start_ns, kSecond_ns);
  for (std::size_t i : {1u, 2u}) {
    EXPECT_GE(out[i].first - out[i - 1].first, kSecond_ns);
    EXPECT_LE(out[i].first - out[i - 1].first, 2 * kSecond_ns + kSecond_ns / 100);
  }
  EXPECT_GE(out[3].first - out[2].first, 2 * kSecond_ns) << "ANNOUNCE_WAIT";
  const Bytes sender(out[0].second.begin() + 28, out[0].second.begin() + 32);
  EXPECT_EQ(sender, Bytes(4, 0)) << "a probe does not claim the address";
  EXPECT_EQ(state(kNew4), AddressState::preferred);
  EXPECT_THAT(told_.take(), ElementsAre("change"));
}

TEST_F(HostAddressChange, Rfc4862_OneSolicitationAndASecond) {
  probe(kNew6);
  const auto out = run_until(now_ns_ + 8 * kSecond_ns);
  EXPECT_EQ(counter("address_probes_sent"), 1u);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_GE(out[1].first - out[0].first, kSecond_ns);
  const Bytes source(out[0].second.begin() + 22, out[0].second.begin() + 38);
  EXPECT_EQ(source, Bytes(16, 0)) << "from the unspecified address";
  EXPECT_THAT(told_.take(), ElementsAre("change"));
}

TEST_F(HostAddressChange, Rfc5227_ADuplicateIsNeverUsed) {
  // Another station answers, or probes for the same address.
  for (const bool also_probes : {false, true}) {
    create(default_config());
    host_->set_observer(&told_);
    probe(kNew4);
    static_cast<void>(run_until(now_ns_ + kSecond_ns));
    expect_drop(
        also_probes
            ? ethernet(kBroadcast, kPeerMac, 0x0806, arp(1, kPeerMac, "0.0.0.0", Mac{}, kNew4))
            : ethernet(kOurMac, kPeerMac, 0x0806, arp(2, kPeerMac, kNew4, kOurMac, "0.0.0.0")),
        "duplicate_address");
    EXPECT_EQ(state(kNew4), AddressState::duplicate);
    EXPECT_THAT(told_.take(), ElementsAre(std::string("duplicate ") + kNew4));
    EXPECT_THAT(run_until(now_ns_ + 20 * kSecond_ns), IsEmpty());
    EXPECT_FALSE(host_->owns(address(kNew4)));
    EXPECT_FALSE(host_->add_address(address(kNew4), 24)) << "it is there, as a duplicate";
    ASSERT_TRUE(host_->remove_address(address(kNew4)));
    EXPECT_THAT(told_.take(), IsEmpty());
  }
}

TEST_F(HostAddressChange, IndexesStay) {
  ASSERT_TRUE(host_->add_address(address(kNew4), 24));
  const IpAddress old = address("192.0.2.1");
  std::uint16_t index = 0;
  while (host_->address_at(index) != old) ++index;
  std::uint16_t index_of_new = 0;
  while (host_->address_at(index_of_new) != address(kNew4)) ++index_of_new;
  ASSERT_TRUE(host_->remove_address(old));
  EXPECT_EQ(host_->address_at(index), std::nullopt);
  EXPECT_EQ(host_->address_at(index_of_new), address(kNew4));
  ASSERT_TRUE(host_->add_address(old, 24));
  EXPECT_EQ(host_->address_at(index), old);
}

TEST_F(HostAddressChange, Rfc4862_ADuplicateIsNeverUsed) {
  constexpr const char* kAllNodes = "ff02::1";
  const Mac all_nodes{0x33, 0x33, 0, 0, 0, 1};
  probe(kNew6);
  static_cast<void>(run_until(now_ns_ + kSecond_ns));
  expect_drop(ethernet(all_nodes, kPeerMac, 0x86dd,
                       ip_packet(kNew6, kAllNodes, IPPROTO_ICMPV6,
                                 icmpv6(kNew6, kAllNodes, 136, 0,
                                        neighbour(0x20, kNew6, link_option(2, kPeerMac))),
                                 {.hop_limit = 255})),
              "duplicate_address");
  EXPECT_EQ(state(kNew6), AddressState::duplicate);
  EXPECT_THAT(told_.take(), ElementsAre(std::string("duplicate ") + kNew6));
  EXPECT_THAT(run_until(now_ns_ + 20 * kSecond_ns), IsEmpty());
}

TEST_F(HostAddressChange, AGatewayNeedsAnAddressOnItsLink) {
  ASSERT_TRUE(host_->add_address(address("198.51.100.1"), 24));
  ASSERT_TRUE(host_->set_gateway(address("198.51.100.254")));
  Flow flow = flow_to("203.0.113.9");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  ASSERT_TRUE(host_->remove_address(address("198.51.100.1")));
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
}

/// What a router says of a datagram of `source` to `port`.
Bytes too_big(std::uint16_t mtu, std::uint16_t port, const char* source = "192.0.2.1") {
  const Bytes quote =
      ip_packet(source, "198.51.100.9", IPPROTO_UDP, udp(0xc123, port, Bytes(20, 7)));
  const Bytes unused_and_mtu{0, 0, static_cast<std::uint8_t>(mtu >> 8),
                             static_cast<std::uint8_t>(mtu)};
  return ethernet(
      kOurMac, kPeerMac, 0x0800,
      ip_packet("192.0.2.2", "192.0.2.1", IPPROTO_ICMP, icmp(3, 4, join({unused_and_mtu, quote}))));
}

Bytes too_big_ipv6(std::uint16_t mtu, std::uint16_t port) {
  const Bytes quote =
      ip_packet("2001:db8::1", "2001:db8:5::9", IPPROTO_UDP, udp(0xc123, port, Bytes(20, 7)));
  const Bytes mtu_bytes{0, 0, static_cast<std::uint8_t>(mtu >> 8), static_cast<std::uint8_t>(mtu)};
  return ethernet(kOurMac, kPeerMac, 0x86dd,
                  ip_packet("2001:db8::2", "2001:db8::1", IPPROTO_ICMPV6,
                            icmpv6("2001:db8::2", "2001:db8::1", 2, 0, join({mtu_bytes, quote}))));
}

TEST_F(HostAddressChange, RoutersSayThatADatagramIsTooBig) {
  receive(too_big(1400, kPort));
  EXPECT_THAT(told_.take(), ElementsAre("too big 198.51.100.9 1400"));
  now_ns_ += 2 * kSecond_ns;
  receive(too_big_ipv6(1280, kPort));
  EXPECT_THAT(told_.take(), ElementsAre("too big 2001:db8:5::9 1280"));
  EXPECT_EQ(counter("packets_too_big"), 2u);
  EXPECT_THAT(drops_, IsEmpty());
}

TEST_F(HostAddressChange, TheyAreCountedAndToldOnceASecond) {
  for (int i = 0; i < 1000; ++i) receive(too_big(1400, kPort));
  EXPECT_EQ(counter("packets_too_big"), 1000u);
  EXPECT_EQ(told_.take().size(), 1u);
}

TEST_F(HostAddressChange, OnlyDatagramsOfOursAreBelieved) {
  expect_drop(too_big(1400, kPort, "192.0.2.9"), "icmp_unsupported");
  expect_drop(too_big(1400, 53), "icmp_unsupported");
  EXPECT_THAT(told_.take(), IsEmpty());
  // Cut at any place behind its first four bytes.
  for (std::size_t length = 4; length < 8 + 28; ++length) {
    Bytes rest(length - 4, 0x45);
    receive(ethernet(kOurMac, kPeerMac, 0x0800,
                     ip_packet("192.0.2.2", "192.0.2.1", IPPROTO_ICMP, icmp(3, 4, rest))));
  }
  EXPECT_THAT(told_.take(), IsEmpty());
}

}  // namespace
}  // namespace rockhopper::stack
