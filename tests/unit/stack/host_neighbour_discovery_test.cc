// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>

#include <netinet/in.h>

#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_neighbour_discovery_test {
namespace {

using namespace frames;

constexpr std::uint16_t kIpv6 = 0x86dd;
constexpr std::uint8_t kSolicitation = 135;
constexpr std::uint8_t kAdvertisement = 136;
constexpr std::uint8_t kSolicitedFlag = 0x40;
constexpr std::uint8_t kOverrideFlag = 0x20;
constexpr std::uint8_t kSourceOption = 1;
constexpr std::uint8_t kTargetOption = 2;
constexpr const char* kUs = "2001:db8::1";
constexpr const char* kOurLinkLocal = "fe80::11:22ff:fe33:4455";
constexpr const char* kOurGroup = "ff02::1:ff00:1";
constexpr const char* kPeer = "2001:db8::2";
constexpr const char* kPeerGroup = "ff02::1:ff00:2";
constexpr const char* kAllNodes = "ff02::1";
constexpr Mac kOurGroupMac{0x33, 0x33, 0xff, 0x00, 0x00, 0x01};
constexpr Mac kPeerGroupMac{0x33, 0x33, 0xff, 0x00, 0x00, 0x02};
constexpr Mac kAllNodesMac{0x33, 0x33, 0x00, 0x00, 0x00, 0x01};

/// A whole neighbour discovery frame; every part can be made wrong.
struct Message {
  Mac to = kOurMac;
  Mac from = kPeerMac;
  std::string source = kPeer;
  std::string destination = kUs;
  std::uint8_t type = kSolicitation;
  std::uint8_t code = 0;
  std::uint8_t flags = 0;
  std::string target = kUs;
  Bytes options = {};
  std::uint8_t hop_limit = 255;

  [[nodiscard]] Bytes frame() const {
    return ethernet(
        to, from, kIpv6,
        ip_packet(source, destination, IPPROTO_ICMPV6,
                  icmpv6(source, destination, type, code, neighbour(flags, target, options)),
                  {.hop_limit = hop_limit}));
  }
};

/// Our question for a target.
Message our_solicitation(const std::string& target, const std::string& group,
                         const Mac& group_mac) {
  return {.to = group_mac,
          .from = kOurMac,
          .source = kUs,
          .destination = group,
          .target = target,
          .options = link_option(kSourceOption, kOurMac)};
}

Message our_advertisement(const Mac& to, const std::string& destination, std::uint8_t flags) {
  return {.to = to,
          .from = kOurMac,
          .source = kUs,
          .destination = destination,
          .type = kAdvertisement,
          .flags = flags,
          .options = link_option(kTargetOption, kOurMac)};
}

Message answer(const Mac& mac, std::uint8_t flags) {
  return {.type = kAdvertisement,
          .flags = flags,
          .target = kPeer,
          .options = link_option(kTargetOption, mac)};
}

class HostNeighbourDiscovery : public HostFixture {
 protected:
  [[nodiscard]] Mac next_mac(const Flow& flow) {
    const Bytes frame = encapsulated(flow, {1});
    Mac mac;
    std::copy_n(frame.begin(), mac.size(), mac.begin());
    return mac;
  }
  /// A flow to the peer, asked for and answered.
  [[nodiscard]] Flow resolved_flow() {
    Flow flow = flow_to(kPeer);
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
    (void)sent();
    receive(answer(kPeerMac, kSolicitedFlag | kOverrideFlag).frame());
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
    return flow;
  }
};

TEST_F(HostNeighbourDiscovery, TheLinkLocalAddressOfTheMacIsThere) {
  EXPECT_TRUE(host_->owns(address(kOurLinkLocal)));
  HostConfig config = default_config();
  auto ipv4_only = Host::create(config);
  ASSERT_TRUE((*ipv4_only)->add_address(address("192.0.2.9"), 24));
  EXPECT_FALSE((*ipv4_only)->owns(address(kOurLinkLocal)));
  // Given by name first, it is not there twice.
  ASSERT_TRUE((*ipv4_only)->add_address(address(kOurLinkLocal), 64));
  EXPECT_FALSE((*ipv4_only)->add_address(address(kOurLinkLocal), 64));
}

TEST_F(HostNeighbourDiscovery, AnswersASolicitationByteForByte) {
  receive({
      0x33, 0x33, 0xff, 0x00, 0x00, 0x01, 0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x86, 0xdd, 0x60,
      0x00, 0x00, 0x00, 0x00, 0x20, 0x3a, 0xff,  // IPv6, 32 bytes of ICMPv6, 255 hops
      0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
      2,  // source
      0xff, 0x02, 0,    0,    0,    0,    0,    0,    0,    0,    0,    1,    0xff, 0,    0,
      1,                                            // solicited-node group
      135,  0,    0x81, 0xc3, 0,    0,    0,    0,  // solicitation, checksum
      0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
      1,                                               // target
      1,    1,    0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,  // source link-layer address
  });
  const Bytes expected{
      0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x86, 0xdd, 0x60,
      0x00, 0x00, 0x00, 0x00, 0x20, 0x3a, 0xff, 0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0,
      0,    0,    0,    0,    0,    0,    0,
      1,  // source
      0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
      2,                                            // destination
      136,  0,    0x23, 0xdb, 0x60, 0,    0,    0,  // advertisement, checksum, S and O
      0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
      1,                                               // target
      2,    1,    0x02, 0x11, 0x22, 0x33, 0x44, 0x55,  // target link-layer address
  };
  EXPECT_EQ(sent(), std::vector<Bytes>{expected});
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kPeerMac);
}

TEST_F(HostNeighbourDiscovery, Rfc4861Section724AProbeOfOurAddressIsAnsweredToAll) {
  receive(Message{.to = kOurGroupMac, .source = "::", .destination = kOurGroup}.frame());
  EXPECT_EQ(sent(),
            std::vector<Bytes>{our_advertisement(kAllNodesMac, kAllNodes, kOverrideFlag).frame()});
}

TEST_F(HostNeighbourDiscovery, AUnicastProbeWithoutItsMacIsAnsweredToWhereItCameFrom) {
  receive(Message{}.frame());
  EXPECT_EQ(sent(),
            std::vector<Bytes>{
                our_advertisement(kPeerMac, kPeer, kSolicitedFlag | kOverrideFlag).frame()});
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
}

TEST_F(HostNeighbourDiscovery, AsksTheSolicitedNodeGroupAndLearnsFromTheAnswer) {
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(sent(), std::vector<Bytes>{our_solicitation(kPeer, kPeerGroup, kPeerGroupMac).frame()});
  receive(answer(kPeerMac, kSolicitedFlag | kOverrideFlag).frame());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kPeerMac);
}

TEST_F(HostNeighbourDiscovery, ALinkLocalNeighbourIsAskedFromOurLinkLocalAddress) {
  Flow flow = flow_to("fe80::2");
  flow.config.source = address(kOurLinkLocal);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  Message expected = our_solicitation("fe80::2", kPeerGroup, kPeerGroupMac);
  expected.source = kOurLinkLocal;
  EXPECT_EQ(sent(), std::vector<Bytes>{expected.frame()});
}

TEST_F(HostNeighbourDiscovery, RetriesFailAndAreHeldDown) {
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(run_until(now_ns_ + 4 * kSecondNs).size(), 3u);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
}

TEST_F(HostNeighbourDiscovery, AUsedNeighbourIsProbedByUnicast) {
  Flow flow = resolved_flow();
  EXPECT_TRUE(run_until(now_ns_ + 46 * kSecondNs).empty());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  const auto frames = run_until(now_ns_ + 5'100'000'000);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, our_solicitation(kPeer, kPeer, kPeerMac).frame());
  // Section 7.2.5: an answer without MAC confirms the one we have.
  Message confirmation = answer(kPeerMac, kSolicitedFlag);
  confirmation.options = {};
  receive(confirmation.frame());
  EXPECT_TRUE(run_until(now_ns_ + 10 * kSecondNs).empty());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
}

TEST_F(HostNeighbourDiscovery, Rfc4861Section725OnlyAnOverrideMovesANeighbour) {
  Flow flow = resolved_flow();
  receive(answer(kOtherMac, 0).frame());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kPeerMac);
  receive(answer(kOtherMac, kOverrideFlag).frame());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kOtherMac);
}

TEST_F(HostNeighbourDiscovery, Rfc4861Section725AnAnswerWithoutMacResolvesNothing) {
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  Message message = answer(kPeerMac, kSolicitedFlag | kOverrideFlag);
  message.options = {};
  receive(message.frame());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
}

TEST_F(HostNeighbourDiscovery, AnUnaskedAdvertisementMakesNoNeighbour) {
  receive(answer(kPeerMac, kSolicitedFlag | kOverrideFlag).frame());
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
}

TEST_F(HostNeighbourDiscovery, AClaimToOurAddressIsCountedAndAnsweredOnceInTenSeconds) {
  Message claim = answer(kPeerMac, kOverrideFlag);
  claim.target = kUs;
  receive(claim.frame());
  EXPECT_EQ(sent().size(), 1u);
  expect_drop(claim.frame(), "duplicate_address");
}

TEST_F(HostNeighbourDiscovery, Rfc4861Section711ValidatesSolicitations) {
  expect_drop(Message{.hop_limit = 254}.frame(), "nd_bad_hop_limit");
  expect_drop(Message{.code = 1}.frame(), "nd_bad_code");
  expect_drop(Message{.target = "ff02::1"}.frame(), "nd_bad_target");
  expect_drop(Message{.target = "::"}.frame(), "nd_bad_target");
  expect_drop(Message{.target = "2001:db8::77"}.frame(), "nd_not_ours");
  expect_drop(Message{.source = "::"}.frame(), "nd_bad_destination");
  expect_drop(Message{.to = kAllNodesMac, .source = "::", .destination = kAllNodes}.frame(),
              "nd_bad_destination");
  expect_drop(Message{.to = kOurGroupMac,
                      .source = "::",
                      .destination = kOurGroup,
                      .options = link_option(kSourceOption, kPeerMac)}
                  .frame(),
              "nd_bad_option");
  Bytes bad_checksum = Message{}.frame();
  bad_checksum.back() ^= 1;
  expect_drop(bad_checksum, "icmp_bad_checksum");
  expect_drop(Message{.options = Bytes(1288)}.frame(), "nd_bad_length");
}

TEST_F(HostNeighbourDiscovery, Rfc4861Section712ValidatesAdvertisements) {
  (void)resolved_flow();
  Message message = answer(kPeerMac, kSolicitedFlag);
  message.hop_limit = 64;
  expect_drop(message.frame(), "nd_bad_hop_limit");
  message = answer(kPeerMac, kSolicitedFlag);
  message.to = kAllNodesMac;
  message.destination = kAllNodes;
  expect_drop(message.frame(), "nd_bad_destination");
  message = answer(kPeerMac, 0);
  message.source = "::";
  expect_drop(message.frame(), "nd_bad_source");
  message = answer(kPeerMac, 0);
  message.target = "ff02::2";
  expect_drop(message.frame(), "nd_bad_target");
}

TEST_F(HostNeighbourDiscovery, RefusesMalformedOptionsAndSkipsUnknownOnes) {
  const std::vector<Bytes> bad_options{
      {1},                                               // no length
      {1, 0, 2, 3, 4, 5, 6, 7},                          // length 0
      {1, 2, 2, 3, 4, 5, 6, 7},                          // longer than the message
      {1, 1, 2, 3, 4, 5, 6},                             // shorter than its length
      {1, 2, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0},  // no Ethernet address
      link_option(1, kBroadcast),
      link_option(1, {}),
      join({link_option(1, kPeerMac), {14, 0}}),
      join({{14, 1, 0, 0, 0, 0, 0, 0}, {1, 255, 0, 0, 0, 0, 0, 0}}),
  };
  for (const Bytes& options : bad_options) {
    expect_drop(Message{.options = options}.frame(), "nd_bad_option");
  }
  // A nonce (RFC 3971) before the address.
  receive(Message{.options = join({{14, 1, 1, 2, 3, 4, 5, 6}, link_option(1, kOtherMac)})}.frame());
  EXPECT_EQ(sent().size(), 1u);
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kOtherMac);
}

TEST_F(HostNeighbourDiscovery, TruncatedAtEveryLengthIsRefused) {
  const Bytes options = link_option(kSourceOption, kPeerMac);
  const Bytes rest = neighbour(0, kUs, options);
  for (std::size_t size = 0; size < rest.size(); ++size) {
    if (size == 20) continue;  // complete, without its option
    Bytes part = rest;
    part.resize(size);
    drops_.clear();
    receive(ethernet(kOurMac, kPeerMac, kIpv6,
                     ip_packet(kPeer, kUs, IPPROTO_ICMPV6,
                               icmpv6(kPeer, kUs, kSolicitation, 0, part), {.hop_limit = 255})));
    EXPECT_EQ(drops_, std::vector<std::string>{size < 20 ? "nd_bad_length" : "nd_bad_option"})
        << size;
  }
}

TEST_F(HostNeighbourDiscovery, RefusesOtherGroups) {
  expect_drop(Message{.to = {0x33, 0x33, 0xff, 0, 0, 9}, .destination = "ff02::1:ff00:9"}.frame(),
              "ip_group_not_joined");
}

TEST_F(HostNeighbourDiscovery, AnnouncesANewAddressToAllNodes) {
  ASSERT_TRUE(host_->add_address(address("2001:db8:1::7"), 64));
  auto frames = run_until(now_ns_ + 20 * kSecondNs);
  // Beside them are the reports of its group.
  std::erase_if(frames, [](const auto& frame) { return frame.second[54] == 58; });
  ASSERT_EQ(frames.size(), 2u);
  Message expected = our_advertisement(kAllNodesMac, kAllNodes, kOverrideFlag);
  expected.source = "2001:db8:1::7";
  expected.target = "2001:db8:1::7";
  EXPECT_EQ(frames[0].second, expected.frame());
  EXPECT_EQ(frames[1].second, expected.frame());
}

}  // namespace
}  // namespace rockhopper::stack::host_neighbour_discovery_test
