// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Any bytes, cut anywhere, cut into any chain. Run under AddressSanitizer this proves that nothing
// is read beyond a segment.
#include <algorithm>
#include <array>
#include <map>

#include <netinet/in.h>

#include "stack/random.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"
#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_robustness_test {
namespace {

using namespace frames;

constexpr const char* kUs4 = "192.0.2.1";
constexpr const char* kPeer4 = "192.0.2.2";
constexpr const char* kUs6 = "2001:db8::1";
constexpr const char* kPeer6 = "2001:db8::2";
constexpr std::uint16_t kArp = 0x0806;
constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;

/// One frame of each kind that the host accepts.
std::vector<Bytes> good_frames(Random& random) {
  const Bytes payload = test::random_bytes(random, random.below(200));
  const Bytes echo = test::random_bytes(random, 4 + random.below(200));
  const Bytes solicitation = neighbour(0, kUs6, link_option(1, kPeerMac));
  const Bytes advertisement = neighbour(0x60, kPeer6, link_option(2, kPeerMac));
  const auto ipv6 = [&](const Bytes& message) {
    return ethernet(kOurMac, kPeerMac, kIpv6,
                    ip_packet(kPeer6, kUs6, IPPROTO_ICMPV6, message, {.hop_limit = 255}));
  };
  return {
      ethernet(kBroadcast, kPeerMac, kArp, arp(1, kPeerMac, kPeer4, {}, kUs4)),
      ethernet(kOurMac, kPeerMac, kArp, arp(2, kPeerMac, kPeer4, kOurMac, kUs4)),
      ethernet(kOurMac, kPeerMac, kIpv4,
               ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp(9, 4791, payload))),
      ethernet_tagged(
          kOurMac, kPeerMac, 0xe000, kIpv4,
          ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp_checked(kPeer4, kUs4, 9, 4791, payload))),
      ethernet(kOurMac, kPeerMac, kIpv6,
               ip_packet(kPeer6, kUs6, IPPROTO_UDP, udp(9, 4791, payload))),
      ethernet_tagged(
          kOurMac, kPeerMac, 0, kIpv6,
          ip_packet(kPeer6, kUs6, IPPROTO_UDP, udp_checked(kPeer6, kUs6, 9, 4791, payload))),
      ethernet(kOurMac, kPeerMac, kIpv4, ip_packet(kPeer4, kUs4, IPPROTO_ICMP, icmp(8, 0, echo))),
      ipv6(icmpv6(kPeer6, kUs6, 128, 0, echo)),
      ipv6(icmpv6(kPeer6, kUs6, 135, 0, solicitation)),
      ipv6(icmpv6(kPeer6, kUs6, 136, 0, advertisement)),
  };
}

std::vector<std::size_t> random_cuts(Random& random, std::size_t size) {
  std::vector<std::size_t> lengths;
  const std::size_t longest = 1 + random.below(random.below(2) == 0 ? 20 : 300);
  while (size > 0) {
    const std::size_t length = std::min<std::size_t>(size, random.below(longest + 1));
    lengths.push_back(length);
    size -= length;
  }
  if (lengths.empty()) lengths.push_back(0);
  return lengths;
}

class HostRobustness : public HostFixture {
 protected:
  struct Outcome {
    std::vector<ReceivedDatagram> datagrams;
    std::vector<std::string> drops;
    std::vector<Bytes> sent;
    std::map<std::string, std::uint64_t> counters;

    friend bool operator==(const Outcome&, const Outcome&) = default;
  };

  /// What a fresh host does with a frame; one that has received `before` if that is given.
  Outcome outcome(const Bytes& frame, const std::vector<std::size_t>& lengths,
                  const Bytes& before = {}) {
    create(default_config());
    if (!before.empty()) {
      receive(before);
      (void)sent();
    }
    datagrams_.clear();
    drops_.clear();
    now_ns_ = 1'000'000'000'000'000;
    receive(frame, lengths);
    Outcome result{datagrams_, drops_, sent(), {}};
    host_->visit_counters(
        [](void* context, const char* name, std::uint64_t value) {
          static_cast<Outcome*>(context)->counters[name] = value;
        },
        &result);
    return result;
  }
};

TEST_F(HostRobustness, ChainsAreTreatedAsContiguousPackets) {
  Random random(test::seed());
  for (int round = 0; round < 60; ++round) {
    for (const Bytes& frame : good_frames(random)) {
      const Outcome contiguous = outcome(frame, {});
      EXPECT_TRUE(contiguous.drops.empty()) << contiguous.drops.front();
      const auto lengths = random_cuts(random, frame.size());
      ASSERT_EQ(outcome(frame, lengths), contiguous)
          << ::testing::PrintToString(frame) << " cut into " << ::testing::PrintToString(lengths);
    }
  }
}

TEST_F(HostRobustness, TruncatedAtEveryLengthIsDroppedOnce) {
  Random random(test::seed());
  for (const Bytes& frame : good_frames(random)) {
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const Bytes part(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
      const Outcome result = outcome(part, {});
      EXPECT_EQ(result.drops.size(), 1u) << size;
      EXPECT_TRUE(result.datagrams.empty());
      EXPECT_TRUE(result.sent.empty());
    }
  }
}

TEST_F(HostRobustness, DamagedFramesInChainsAreHandledLikeContiguousOnes) {
  Random random(test::seed());
  for (int round = 0; round < 300; ++round) {
    for (Bytes frame : good_frames(random)) {
      for (std::uint64_t i = random.below(4); i < 4; ++i) {
        frame[random.below(std::min<std::size_t>(frame.size(), 80))] ^=
            static_cast<std::uint8_t>(1u << random.below(8));
      }
      frame.resize(frame.size() - random.below(random.below(2) == 0 ? 1 : frame.size()));
      const auto lengths = random_cuts(random, frame.size());
      const Outcome contiguous = outcome(frame, {});
      EXPECT_LE(contiguous.drops.size(), 1u);
      ASSERT_EQ(outcome(frame, lengths), contiguous) << ::testing::PrintToString(frame);
    }
  }
}

// The host compares a datagram with the last good one before it checks in full.
TEST_F(HostRobustness, AKnownStationsDatagramsPassIfAndOnlyIfAStrangersWould) {
  Random random(test::seed());
  std::map<bool, int> delivered;
  for (int round = 0; round < 1000; ++round) {
    for (const Bytes& good : good_frames(random)) {
      Bytes frame = good;
      for (std::uint64_t i = random.below(3); i < 3; ++i) {
        frame[random.below(std::min<std::size_t>(frame.size(), 70))] ^=
            static_cast<std::uint8_t>(1u << random.below(8));
      }
      frame.resize(frame.size() - random.below(random.below(4) == 0 ? frame.size() : 1));
      if (random.below(8) == 0) frame.push_back(0);  // padding of the link
      const auto lengths =
          random.below(4) == 0 ? random_cuts(random, frame.size()) : std::vector<std::size_t>{};
      const Outcome stranger = outcome(frame, lengths);
      const Outcome known = outcome(frame, lengths, good);
      ASSERT_EQ(known.datagrams, stranger.datagrams) << ::testing::PrintToString(frame);
      ASSERT_EQ(known.drops, stranger.drops) << ::testing::PrintToString(frame);
      ++delivered[!known.datagrams.empty()];
    }
  }
  EXPECT_GT(delivered[true], 100);
  EXPECT_GT(delivered[false], 100);
}

TEST_F(HostRobustness, AddressesAndBindingsThatWentAreNotKnownAnyMore) {
  const Bytes frame = ethernet(kOurMac, kPeerMac, kIpv4,
                               ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp(9, 4791, Bytes(8))));
  for (int i = 0; i < 2; ++i) {
    receive(frame);
  }
  EXPECT_EQ(datagrams_.size(), 2u);
  host_->bind_udp(4791, nullptr);
  receive(frame);
  EXPECT_EQ(drops_.back(), "udp_no_listener");
  host_->bind_udp(4791, this);
  for (int i = 0; i < 2; ++i) {
    receive(frame);
  }
  EXPECT_EQ(datagrams_.size(), 4u);
  ASSERT_TRUE(host_->remove_address(address(kUs4)).has_value());
  receive(frame);
  EXPECT_EQ(drops_.back(), "ip_not_ours");
  ASSERT_TRUE(host_->add_address(address(kUs4), 24).has_value());
  for (int i = 0; i < 2; ++i) {
    receive(frame);
  }
  ASSERT_TRUE(host_->add_address(address(kPeer4), 24).has_value());
  receive(frame);
  EXPECT_EQ(drops_.back(), "ip_own_source") << "the peer's address became ours";
  EXPECT_EQ(datagrams_.size(), 6u);
}

TEST_F(HostRobustness, EveryFrameIsDeliveredAnsweredOrDropped) {
  Random random(test::seed());
  for (int round = 0; round < 20'000; ++round) {
    Bytes frame = test::random_bytes(random, random.below(120));
    if (frame.size() >= 14) {
      std::copy(kOurMac.begin(), kOurMac.end(), frame.begin());
      frame[6] &= 0xfe;
      const std::uint16_t type = std::array{kArp, kIpv4, kIpv6}[random.below(3)];
      frame[12] = static_cast<std::uint8_t>(type >> 8);
      frame[13] = static_cast<std::uint8_t>(type);
    }
    drops_.clear();
    receive(frame, random_cuts(random, frame.size()));
    EXPECT_EQ(drops_.size(), 1u) << ::testing::PrintToString(frame);
    (void)sent();
  }
}

}  // namespace
}  // namespace rockhopper::stack::host_robustness_test
