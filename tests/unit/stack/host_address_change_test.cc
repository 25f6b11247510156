// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Addresses that come and go while the host runs, and what routers say of datagrams' size.
#include <algorithm>
#include <map>
#include <optional>

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
  EXPECT_EQ(run_until(now_ns_ + 5 * kSecondNs).size(), 2u) << "announcements";
  ASSERT_TRUE(host_->remove_address(address(kNew4)));
  EXPECT_THAT(told_.take(), ElementsAre("change"));
  EXPECT_EQ(state(kNew4), std::nullopt);
  EXPECT_FALSE(host_->remove_address(address(kNew4)));
  EXPECT_THAT(told_.take(), IsEmpty());
}

TEST_F(HostAddressChange, Rfc5227_1_1_AnnouncementsOfEachAreTwoSecondsApart) {
  ASSERT_TRUE(host_->add_address(address(kNew4), 24));
  auto out = run_until(now_ns_ + kSecondNs / 20);
  ASSERT_TRUE(host_->add_address(address("192.0.2.78"), 24));
  for (auto& each : run_until(now_ns_ + 5 * kSecondNs)) {
    out.push_back(std::move(each));
  }
  std::map<Bytes, std::vector<std::uint64_t>> times;  // by the address
  for (const auto& [time_ns, frame] : out) {
    times[Bytes(frame.begin() + 28, frame.begin() + 32)].push_back(time_ns);
  }
  ASSERT_EQ(times.size(), 2u);
  for (const auto& [announced, at_ns] : times) {
    ASSERT_EQ(at_ns.size(), 2u);
    EXPECT_GE(at_ns[1] - at_ns[0], 2 * kSecondNs);
  }
}

TEST_F(HostAddressChange, Rfc5227_ProbesComeFirst) {
  probe(kNew4);
  EXPECT_EQ(state(kNew4), AddressState::tentative);
  EXPECT_FALSE(host_->owns(address(kNew4)));
  EXPECT_THAT(told_.take(), IsEmpty());
  const std::uint64_t start_ns = now_ns_;
  const auto out = run_until(now_ns_ + 12 * kSecondNs);
  ASSERT_EQ(out.size(), 5u) << "three probes, two announcements";
  EXPECT_EQ(counter("address_probes_sent"), 3u);
  EXPECT_LE(out[0].first - start_ns, kSecondNs);
  for (std::size_t i : {1u, 2u}) {
    EXPECT_GE(out[i].first - out[i - 1].first, kSecondNs);
    EXPECT_LE(out[i].first - out[i - 1].first, 2 * kSecondNs + kSecondNs / 100);
  }
  EXPECT_GE(out[3].first - out[2].first, 2 * kSecondNs) << "ANNOUNCE_WAIT";
  const Bytes sender(out[0].second.begin() + 28, out[0].second.begin() + 32);
  EXPECT_EQ(sender, Bytes(4, 0)) << "a probe does not claim the address";
  EXPECT_EQ(state(kNew4), AddressState::preferred);
  EXPECT_THAT(told_.take(), ElementsAre("change"));
}

TEST_F(HostAddressChange, Rfc4862_OneSolicitationAndASecond) {
  probe(kNew6);
  auto out = run_until(now_ns_ + 8 * kSecondNs);
  EXPECT_EQ(counter("address_probes_sent"), 1u);
  // MLD's reports have an extension header.
  std::erase_if(out, [](const auto& each) { return each.second.at(20) != IPPROTO_ICMPV6; });
  ASSERT_EQ(out.size(), 3u);
  EXPECT_GE(out[1].first - out[0].first, kSecondNs);
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
    (void)run_until(now_ns_ + kSecondNs);
    expect_drop(
        also_probes
            ? ethernet(kBroadcast, kPeerMac, 0x0806, arp(1, kPeerMac, "0.0.0.0", Mac{}, kNew4))
            : ethernet(kOurMac, kPeerMac, 0x0806, arp(2, kPeerMac, kNew4, kOurMac, "0.0.0.0")),
        "duplicate_address");
    EXPECT_EQ(state(kNew4), AddressState::duplicate);
    EXPECT_THAT(told_.take(), ElementsAre(std::string("duplicate ") + kNew4));
    EXPECT_THAT(run_until(now_ns_ + 20 * kSecondNs), IsEmpty());
    EXPECT_FALSE(host_->owns(address(kNew4)));
    EXPECT_FALSE(host_->add_address(address(kNew4), 24)) << "it is there, as a duplicate";
    // Its owner is a neighbour like any other.
    Flow flow = flow_to(kNew4);
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
    receive(ethernet(kOurMac, kPeerMac, 0x0806, arp(2, kPeerMac, kNew4, kOurMac, "192.0.2.1")));
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
    (void)sent();
    receive(ethernet(kBroadcast, kPeerMac, 0x0806, arp(1, kPeerMac, kNew4, Mac{}, "192.0.2.1")));
    EXPECT_EQ(sent().size(), 1u) << "an answer";
    ASSERT_TRUE(host_->remove_address(address(kNew4)));
    EXPECT_THAT(told_.take(), IsEmpty());
  }
}

TEST_F(HostAddressChange, IndexesStay) {
  ASSERT_TRUE(host_->add_address(address(kNew4), 24));
  const IpAddress old = address("192.0.2.1");
  std::uint16_t index = 0;
  while (host_->address_at(index) != old) {
    ++index;
  }
  std::uint16_t index_of_new = 0;
  while (host_->address_at(index_of_new) != address(kNew4)) {
    ++index_of_new;
  }
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
  (void)run_until(now_ns_ + kSecondNs);
  expect_drop(ethernet(all_nodes, kPeerMac, 0x86dd,
                       ip_packet(kNew6, kAllNodes, IPPROTO_ICMPV6,
                                 icmpv6(kNew6, kAllNodes, 136, 0,
                                        neighbour(0x20, kNew6, link_option(2, kPeerMac))),
                                 {.hop_limit = 255})),
              "duplicate_address");
  EXPECT_EQ(state(kNew6), AddressState::duplicate);
  EXPECT_THAT(told_.take(), ElementsAre(std::string("duplicate ") + kNew6));
  EXPECT_THAT(run_until(now_ns_ + 20 * kSecondNs), IsEmpty());
}

TEST_F(HostAddressChange, AGatewayNeedsAnAddressOnItsLink) {
  ASSERT_TRUE(host_->add_address(address("198.51.100.1"), 24));
  ASSERT_TRUE(host_->set_gateway(address("198.51.100.254")));
  Flow flow = flow_to("203.0.113.9");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  ASSERT_TRUE(host_->remove_address(address("198.51.100.1")));
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
}

TEST_F(HostAddressChange, RemovedWhileItIsProbedItIsForgotten) {
  for (const char* text : {kNew4, kNew6}) {
    probe(text);
    (void)run_until(now_ns_ + kSecondNs);
    ASSERT_TRUE(host_->remove_address(address(text)));
    EXPECT_EQ(state(text), std::nullopt);
    const std::uint64_t probes = counter("address_probes_sent");
    (void)run_until(now_ns_ + 20 * kSecondNs);
    EXPECT_EQ(counter("address_probes_sent"), probes);
    EXPECT_THAT(told_.take(), IsEmpty());
    EXPECT_FALSE(host_->is_member(solicited_node_group(address(kNew6))));
    // Anew: all of it again.
    probe(text);
    (void)run_until(now_ns_ + 8 * kSecondNs);
    EXPECT_EQ(counter("address_probes_sent"), probes + (text == std::string(kNew4) ? 3 : 1));
    EXPECT_EQ(state(text), AddressState::preferred);
    EXPECT_THAT(told_.take(), ElementsAre("change"));
  }
}

TEST_F(HostAddressChange, OneGoesTheOtherIsProbedOn) {
  probe(kNew4);
  probe(kNew6);
  (void)run_until(now_ns_ + kSecondNs / 2);
  ASSERT_TRUE(host_->remove_address(address(kNew6)));
  (void)run_until(now_ns_ + 8 * kSecondNs);
  EXPECT_EQ(state(kNew4), AddressState::preferred);
  EXPECT_THAT(told_.take(), ElementsAre("change"));
}

TEST_F(HostAddressChange, AddressesAreLimited) {
  std::size_t added = 0;
  Expected<void> result;
  // Two, and the link-local one, are there.
  for (std::uint32_t i = 0; result && i < 2 * AddressTable::kLimit; ++i) {
    result =
        host_->add_address(IpAddress::from_ipv4(0xc0000300 + i + 1), 24, AddressUse::after_probing);
    added += result.has_value();
  }
  EXPECT_EQ(added, AddressTable::kLimit - 3);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::exhausted);
  (void)run_until(now_ns_ + 8 * kSecondNs);
  EXPECT_EQ(counter("address_probes_sent"), 3 * added);
  EXPECT_EQ(told_.take().size(), added);
  EXPECT_EQ(counter("tx_queue_full"), 0u);
}

TEST_F(HostAddressChange, Rfc5227_2_1_1_AfterTenConflictsOneProbingAMinute) {
  for (int i = 0; i < 10; ++i) {
    probe(kNew4);
    (void)run_until(now_ns_ + kSecondNs + kSecondNs / 2);
    receive(ethernet(kOurMac, kPeerMac, 0x0806, arp(2, kPeerMac, kNew4, kOurMac, "0.0.0.0")));
    ASSERT_EQ(state(kNew4), AddressState::duplicate);
    ASSERT_TRUE(host_->remove_address(address(kNew4)));
  }
  EXPECT_EQ(counter("addresses_given_up"), 10u);
  const std::uint64_t probes = counter("address_probes_sent");
  probe(kNew4);
  (void)run_until(now_ns_ + 30 * kSecondNs);
  // What has not begun costs the next one no time.
  ASSERT_TRUE(host_->remove_address(address(kNew4)));
  probe(kNew4);
  (void)run_until(now_ns_ + 27 * kSecondNs);
  EXPECT_EQ(counter("address_probes_sent"), probes);
  (void)run_until(now_ns_ + 10 * kSecondNs);
  EXPECT_EQ(counter("address_probes_sent"), probes + 3);
  EXPECT_EQ(state(kNew4), AddressState::preferred);
}

TEST_F(HostAddressChange, Rfc5227_2_4_AnAddressInUseIsKeptAndDefendedOnceInTenSeconds) {
  ASSERT_TRUE(host_->add_address(address(kNew4), 24));
  (void)run_until(now_ns_ + 5 * kSecondNs);
  (void)told_.take();
  const auto claim = [&](const char* text) {
    receive(ethernet(kBroadcast, kPeerMac, 0x0806, arp(1, kPeerMac, text, Mac{}, text)));
  };
  for (int i = 0; i < 100; ++i) {
    claim(kNew4);
  }
  claim("192.0.2.1");
  EXPECT_THAT(told_.take(), ElementsAre(std::string("duplicate ") + kNew4, "duplicate 192.0.2.1"))
      << "each address has its own time";
  EXPECT_EQ(sent().size(), 2u);
  EXPECT_EQ(counter("addresses_defended"), 2u);
  EXPECT_TRUE(host_->owns(address(kNew4)));
  receive(ethernet(kOurMac, kPeerMac, 0x0800,
                   ip_packet("192.0.2.2", kNew4, IPPROTO_UDP, udp(9, kPort, Bytes(8)))));
  EXPECT_EQ(datagrams_.size(), 1u) << "it goes on";
}

TEST_F(HostAddressChange, AnIpv6AddressInUseIsDefendedToo) {
  constexpr const char* kUs = "2001:db8::1";
  const Mac all_nodes{0x33, 0x33, 0, 0, 0, 1};
  const auto advertisement = [&](std::uint8_t hop_limit) {
    return ethernet(
        all_nodes, kPeerMac, 0x86dd,
        ip_packet(kUs, "ff02::1", IPPROTO_ICMPV6,
                  icmpv6(kUs, "ff02::1", 136, 0, neighbour(0x20, kUs, link_option(2, kPeerMac))),
                  {.hop_limit = hop_limit}));
  };
  // From beyond a router it is a forgery, and no reason to tell anybody.
  expect_drop(advertisement(254), "ip_own_source");
  EXPECT_THAT(told_.take(), IsEmpty());
  receive(advertisement(255));
  EXPECT_EQ(counter("duplicate_address"), 1u);
  EXPECT_THAT(told_.take(), ElementsAre(std::string("duplicate ") + kUs));
  EXPECT_EQ(sent().size(), 1u) << "an advertisement";
  EXPECT_TRUE(host_->owns(address(kUs)));
}

TEST_F(HostAddressChange, WhatComesBackOfOursIsNoConflict) {
  probe(kNew4);
  (void)run_until(now_ns_ + kSecondNs);
  expect_drop(ethernet(kOurMac, kPeerMac, 0x0806, arp(1, kOurMac, "0.0.0.0", Mac{}, kNew4)),
              "ethernet_own_source");
  EXPECT_EQ(state(kNew4), AddressState::tentative);
}

/// A router's complaint, by default of a right datagram, a byte of which can be made another.
struct TooBig {
  const char* source = "192.0.2.1";
  std::uint32_t mtu = 1400;
  std::uint16_t port = 4791;
  std::size_t payload = 1440;
  std::size_t quoted = 28;
  std::size_t changed = SIZE_MAX;  ///< offset in the quote
  std::uint8_t value = 0;

  [[nodiscard]] Bytes message() const {
    const std::string source_text = source;
    const bool v4 = source_text.find(':') == std::string::npos;
    Bytes quote = ip_packet(source, v4 ? "198.51.100.9" : "2001:db8:5::9", IPPROTO_UDP,
                            udp(0xc123, port, Bytes(payload, 7)));
    if (changed < quote.size()) quote[changed] = value;
    quote.resize(std::min(quote.size(), v4 ? quoted : quoted + 20));
    const Bytes mtu_bytes{static_cast<std::uint8_t>(mtu >> 24),
                          static_cast<std::uint8_t>(mtu >> 16), static_cast<std::uint8_t>(mtu >> 8),
                          static_cast<std::uint8_t>(mtu)};
    return join({mtu_bytes, quote});
  }
  [[nodiscard]] Bytes frame4() const {
    return ethernet(kOurMac, kPeerMac, 0x0800,
                    ip_packet("203.0.113.1", "192.0.2.1", IPPROTO_ICMP, icmp(3, 4, message())));
  }
  [[nodiscard]] Bytes frame6() const {
    return ethernet(kOurMac, kPeerMac, 0x86dd,
                    ip_packet("2001:db8:9::1", "2001:db8::1", IPPROTO_ICMPV6,
                              icmpv6("2001:db8:9::1", "2001:db8::1", 2, 0, message())));
  }
};

TEST_F(HostAddressChange, RoutersSayThatADatagramIsTooBig) {
  receive(TooBig{}.frame4());
  EXPECT_THAT(told_.take(), ElementsAre("too big 198.51.100.9 1400"));
  now_ns_ += 2 * kSecondNs;
  receive(TooBig{.source = "2001:db8::1", .mtu = 1280}.frame6());
  EXPECT_THAT(told_.take(), ElementsAre("too big 2001:db8:5::9 1280"));
  now_ns_ += 2 * kSecondNs;
  receive(TooBig{.mtu = 0}.frame4());
  EXPECT_THAT(told_.take(), ElementsAre("too big 198.51.100.9 0")) << "a router before RFC 1191";
  EXPECT_EQ(counter("packets_too_big"), 3u);
  EXPECT_THAT(drops_, IsEmpty());
}

TEST_F(HostAddressChange, TheyAreCountedAndToldOnceASecond) {
  for (int i = 0; i < 1000; ++i) {
    receive(TooBig{}.frame4());
  }
  EXPECT_EQ(counter("packets_too_big"), 1000u);
  EXPECT_EQ(told_.take().size(), 1u);
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(HostAddressChange, Rfc5927_OnlyComplaintsOfOurDatagramsAreHeard) {
  // Of another host; to a port of no protocol of ours; longer than we can send.
  expect_drop(TooBig{.source = "192.0.2.9"}.frame4(), "icmp_quote_not_ours");
  expect_drop(TooBig{.port = 53}.frame4(), "icmp_quote_not_ours");
  expect_drop(TooBig{.payload = 1473}.frame4(), "icmp_quote_not_ours");
  expect_drop(TooBig{.source = "2001:db8::9"}.frame6(), "icmp_quote_not_ours");
  // To and "from" a group that everybody is in.
  expect_drop(ethernet({0x33, 0x33, 0, 0, 0, 1}, kPeerMac, 0x86dd,
                       ip_packet("2001:db8:9::1", "ff02::1", IPPROTO_ICMPV6,
                                 icmpv6("2001:db8:9::1", "ff02::1", 2, 0,
                                        TooBig{.source = "ff02::1"}.message()))),
              "icmp_quote_not_ours");
  // Of another of our addresses than it is sent to.
  ASSERT_TRUE(host_->add_address(address(kNew4), 24));
  (void)run_until(now_ns_ + 5 * kSecondNs);
  expect_drop(TooBig{.source = kNew4}.frame4(), "icmp_quote_not_ours");
  EXPECT_EQ(counter("packets_too_big"), 0u);
  EXPECT_THAT(told_.take(), ElementsAre("change"));
}

TEST_F(HostAddressChange, Rfc5927_QuotesThatAreNoDatagramsOfOursAreRefused) {
  // Version, options, a length that is not UDP's, no DF, more fragments, an offset, TCP.
  const std::pair<std::size_t, std::uint8_t> changes[] = {{0, 0x65}, {0, 0x46}, {3, 1}, {6, 0},
                                                          {6, 0x60}, {7, 1},    {9, 6}};
  for (const auto& [offset, value] : changes) {
    expect_drop(TooBig{.changed = offset, .value = value}.frame4(), "icmp_bad_quote");
  }
  // Version, a length that is not UDP's, TCP, a fragment.
  const std::pair<std::size_t, std::uint8_t> changes6[] = {{0, 0x45}, {5, 1}, {6, 6}, {6, 44}};
  for (const auto& [offset, value] : changes6) {
    expect_drop(TooBig{.source = "2001:db8::1", .changed = offset, .value = value}.frame6(),
                "icmp_bad_quote");
  }
  for (std::size_t quoted = 0; quoted < 28; ++quoted) {
    expect_drop(TooBig{.quoted = quoted}.frame4(), "icmp_truncated");
  }
  for (std::size_t quoted = 0; quoted < 28; ++quoted) {
    expect_drop(TooBig{.source = "2001:db8::1", .quoted = quoted}.frame6(), "icmp_truncated");
  }
  EXPECT_EQ(counter("packets_too_big"), 0u);
  EXPECT_THAT(told_.take(), IsEmpty());
}

TEST_F(HostAddressChange, Rfc8201_AnMtuThatCannotBeIsRefused) {
  const std::uint32_t length = 20 + 8 + 1440;
  for (const std::uint32_t mtu : {1u, 67u, length, 9000u}) {
    expect_drop(TooBig{.mtu = mtu}.frame4(), "icmp_bad_mtu");
  }
  for (const std::uint32_t mtu : {0u, 68u, 1279u, length + 20, UINT32_MAX}) {
    expect_drop(TooBig{.source = "2001:db8::1", .mtu = mtu}.frame6(), "icmp_bad_mtu");
  }
  EXPECT_THAT(told_.take(), IsEmpty());
}

}  // namespace
}  // namespace rockhopper::stack
