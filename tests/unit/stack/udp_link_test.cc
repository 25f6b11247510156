// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "stack/descriptor.h"
#include "stack/ethernet.h"
#include "stack/ip_header.h"
#include "stack/plain_pool.h"
#include "stack/random.h"
#include "stack/roce_locator.h"
#include "tests/support/loopback_address.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack {
namespace {

using test::Bytes;
using test::loopback_address;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::uint16_t kMtu = 4300;
constexpr std::size_t kIpAt = sizeof(rte_ether_hdr);

/// What a host above the link sends.
Bytes frame_of(const UdpLink& link, const IpAddress& from, const IpAddress& to,
               const Bytes& payload, std::uint8_t traffic_class = 0x6a,
               std::uint8_t hop_limit = 33) {
  const KernelSocket end = link.socket_end();
  Bytes frame(200);
  IpHeader ip;
  ip.source = from;
  ip.destination = to;
  ip.protocol = IPPROTO_UDP;
  ip.traffic_class = traffic_class;
  ip.hop_limit = hop_limit;
  const auto length = static_cast<std::uint16_t>(sizeof(rte_udp_hdr) + payload.size());
  ip.payload_length = length;
  std::size_t at = emit_ethernet(frame.data(), end.mac, link.mac(), std::nullopt,
                                 from.is_ipv4() ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
  at += emit_ip(ip, &frame[at]);
  const rte_udp_hdr udp{rte_cpu_to_be_16(end.source_port), rte_cpu_to_be_16(kRoceUdpPort),
                        rte_cpu_to_be_16(length), 0};
  std::memcpy(&frame[at], &udp, sizeof udp);
  frame.resize(at + sizeof udp);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

/// As it arrives: the same, but from the kernel.
Bytes arrived(Bytes frame) {
  std::swap_ranges(frame.begin(), frame.begin() + RTE_ETHER_ADDR_LEN,
                   frame.begin() + RTE_ETHER_ADDR_LEN);
  return frame;
}

class UdpLinkTest : public ::testing::Test {
 protected:
  struct End {
    std::unique_ptr<PlainPool> pool;
    std::unique_ptr<UdpLink> link;

    std::uint16_t send(const std::vector<Bytes>& frames, std::size_t segment = 0) {
      std::vector<rte_mbuf*> packets;
      for (const Bytes& frame : frames) {
        packets.push_back(test::make_packet(pool->get(), frame, segment));
      }
      const auto count = static_cast<std::uint16_t>(packets.size());
      const std::uint16_t taken = link->tx_burst(packets.data(), count, 0);
      rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
      return taken;
    }
    /// What the kernel has: on the loopback device it is there when send() returns.
    std::vector<Bytes> receive(std::uint16_t burst = 32) {
      std::vector<Bytes> frames;
      std::vector<rte_mbuf*> packets(burst);
      for (;;) {
        const std::uint16_t count = link->rx_burst(packets.data(), burst, 0);
        for (std::uint16_t i = 0; i < count; ++i) {
          frames.push_back(test::bytes_of(packets[i]));
          rte_pktmbuf_free(packets[i]);
        }
        if (count == 0) return frames;
      }
    }
    [[nodiscard]] const UdpSenderCounters& sent() const { return link->sent(); }
    [[nodiscard]] const UdpReceiverCounters& received() const { return link->received(); }
  };

  static Expected<std::unique_ptr<UdpLink>> try_open(PlainPool& pool,
                                                     std::vector<IpAddress> addresses,
                                                     std::uint16_t mtu = kMtu) {
    return UdpLink::open({.addresses = std::move(addresses), .pool = pool.get(), .mtu = mtu});
  }
  static End open(std::vector<IpAddress> addresses, std::uint16_t mtu = kMtu,
                  const IdentificationRules* identification = nullptr, std::uint32_t mbufs = 256) {
    End end;
    end.pool = std::move(*PlainPool::create({.size = mbufs, .data_room = 4400}));
    auto link = UdpLink::open({.addresses = std::move(addresses),
                               .pool = end.pool->get(),
                               .mtu = mtu,
                               .identification = identification});
    EXPECT_TRUE(link.has_value()) << (link ? "" : link.error().message);
    if (link) end.link = std::move(*link);
    return end;
  }

  static bool joins_again(End& end, const IpAddress& own);

  Random random_{test::seed()};
};

TEST_F(UdpLinkTest, FramesArriveAsTheyWere) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a});
  End to = open({b});
  std::vector<Bytes> frames;
  std::vector<Bytes> expected;
  for (const std::size_t size : {16u, 17u, 1024u, 4096u, kMtu - 28u}) {
    frames.push_back(frame_of(*from.link, a, b, test::random_bytes(random_, size)));
    expected.push_back(arrived(frames.back()));
  }
  EXPECT_EQ(from.send(frames), 5);
  EXPECT_EQ(to.receive(), expected);
  EXPECT_EQ(from.send(frames, 100), 5) << "in mbufs of 100 bytes";
  EXPECT_EQ(to.receive(2), expected);
  EXPECT_EQ(from.sent().tx_packets.value(), 10u);
  EXPECT_EQ(to.received().rx_packets.value(), 10u);
  EXPECT_EQ(from.sent().tx_bytes.value(), to.received().rx_bytes.value());
  EXPECT_EQ(from.sent().tx_refused.value(), 0u);
}

TEST_F(UdpLinkTest, SendsFromAPortOfRnics) {
  for (int i = 0; i < 20; ++i) {
    const End end = open({loopback_address(), loopback_address()});
    EXPECT_GE(end.link->socket_end().source_port, 0xc000);
  }
}

TEST_F(UdpLinkTest, BothFamiliesInOneBurst) {
  const IpAddress ipv4 = loopback_address();
  const IpAddress ipv6 = *IpAddress::parse("::1");
  auto pool = std::move(*PlainPool::create({.size = 256, .data_room = 4400}));
  auto link = try_open(*pool, {ipv4, ipv6});
  if (!link) {
    GTEST_SKIP() << link.error().message;  // the only loopback address of IPv6
  }
  End end{std::move(pool), std::move(*link)};
  const Bytes first = frame_of(*end.link, ipv4, ipv4, Bytes(20, 1), 0x02, 64);
  const Bytes second = frame_of(*end.link, ipv6, ipv6, Bytes(20, 2), 0xb9, 7);
  EXPECT_EQ(end.send({first, first, second, first, second}), 5);
  EXPECT_THAT(end.receive(),
              ::testing::UnorderedElementsAre(arrived(first), arrived(first), arrived(second),
                                              arrived(first), arrived(second)));
}

TEST_F(UdpLinkTest, WhatIsNoDatagramOfItsOwnIsCounted) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a});
  End to = open({b});
  const Bytes good = frame_of(*from.link, a, b, Bytes(16));
  Bytes arp = good;
  arp[12] = 0x08;
  arp[13] = 0x06;
  Bytes other_port = good;
  ++other_port[kIpAt + 20 + 3];
  Bytes icmp = good;
  icmp[kIpAt + 9] = IPPROTO_ICMP;
  const Bytes foreign = frame_of(*from.link, loopback_address(), b, Bytes(16));
  Bytes long_one = frame_of(*from.link, a, b, Bytes(kMtu - 27));
  EXPECT_EQ(from.send({arp, good, Bytes(10), other_port, icmp, good, foreign, long_one, good}), 9);
  EXPECT_EQ(to.receive(), std::vector<Bytes>(3, arrived(good)));
  EXPECT_EQ(from.sent().tx_not_roce.value(), 4u);
  EXPECT_EQ(from.sent().tx_not_own.value(), 1u);
  EXPECT_EQ(from.sent().tx_too_long.value(), 1u);
  EXPECT_EQ(from.pool->in_use(), 0u);
}

TEST_F(UdpLinkTest, WhatTheKernelRefusesHoldsUpNothing) {
  const IpAddress a = loopback_address();
  End end = open({a});
  // From the loopback device there is no way to other hosts.
  const Bytes lost = frame_of(*end.link, a, *IpAddress::parse("192.0.2.1"), Bytes(16));
  const Bytes good = frame_of(*end.link, a, a, Bytes(16));
  EXPECT_EQ(end.send({lost, good, lost, lost, good, lost}), 6);
  EXPECT_THAT(end.receive(), SizeIs(2));
  EXPECT_EQ(end.sent().tx_refused.value(), 4u);
  EXPECT_EQ(end.sent().tx_packets.value(), 2u);
}

TEST_F(UdpLinkTest, LongDatagramsAreDropped) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a});
  End to = open({b}, 1500);
  EXPECT_EQ(
      from.send({frame_of(*from.link, a, b, Bytes(1473)), frame_of(*from.link, a, b, Bytes(1472))}),
      2);
  EXPECT_THAT(to.receive(), ElementsAre(SizeIs(14 + 1500)));
  EXPECT_EQ(to.received().rx_too_long.value(), 1u);
}

TEST_F(UdpLinkTest, ReceivesNoMoreThanIsAskedForAndMbufsAllow) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a});
  End to = open({b}, kMtu, nullptr, 8);
  EXPECT_EQ(from.send(std::vector<Bytes>(20, frame_of(*from.link, a, b, Bytes(16)))), 20);
  std::array<rte_mbuf*, 16> packets{};
  EXPECT_EQ(to.link->rx_burst(packets.data(), 3, 0), 3);
  EXPECT_EQ(to.link->rx_burst(packets.data() + 3, 13, 0), 5) << "all mbufs";
  EXPECT_EQ(to.link->rx_burst(packets.data() + 8, 8, 0), 0);
  EXPECT_EQ(to.received().rx_no_mbuf.value(), 1u);
  rte_pktmbuf_free_bulk(packets.data(), 8);
  EXPECT_THAT(to.receive(4), SizeIs(12)) << "nothing is lost";
}

TEST_F(UdpLinkTest, CountsWhatTheKernelDropped) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a});
  End to = open({b});
  const Bytes frame = frame_of(*from.link, a, b, Bytes(4000));
  // More than the largest buffer that net.core.rmem_max usually allows.
  for (int burst = 0; burst < 1000; ++burst) {
    ASSERT_EQ(from.send(std::vector<Bytes>(32, frame)), 32);
  }
  std::size_t received = to.receive().size();
  // A datagram tells of those before it.
  ASSERT_EQ(from.send({frame}), 1);
  received += to.receive().size();
  EXPECT_GT(to.received().rx_overflows.value(), 0u);
  EXPECT_EQ(received + to.received().rx_overflows.value(), 32'001u);
}

/// Rules that are easy to follow, in place of those of an ICRC: the last four bytes are kTrailer,
/// and change by what the length and the identification are.
constexpr std::uint32_t kTrailer = 0xa5a5a5a5;
constexpr std::size_t kPsnAt = 10;  ///< its lower two bytes
// Opcodes of a reliable connection (IBTA vol. 1, 9.2.1).
constexpr std::uint8_t kWriteMiddle = 0x07;
constexpr std::uint8_t kReadResponseMiddle = 0x0e;

std::uint32_t trailer_of(std::span<const std::uint8_t> packet) {
  std::uint32_t trailer = 0;
  std::memcpy(&trailer, packet.last<4>().data(), sizeof trailer);
  return rte_le_to_cpu_32(trailer);
}

constexpr IdentificationRules kRules{
    .factor = [](std::size_t length) { return static_cast<std::uint32_t>(length); },
    .change = [](std::uint32_t factor,
                 std::uint16_t identification) { return factor << 16 | identification; },
    .find =
        [](std::span<const std::uint8_t> packet, std::uint32_t, std::uint16_t) {
          // It is asked about the whole packet, headers included.
          const std::uint32_t change = trailer_of(packet) ^ kTrailer;
          return static_cast<std::uint16_t>(packet[0] == 0x45 && packet[4] == 0 && packet[5] == 0 &&
                                                    change >> 16 == packet.size()
                                                ? change & 0xffff
                                                : 0);
        }};

/// `size` bytes that have the PSN, and end as a packet of that identification does, by kRules.
Bytes payload_of(std::size_t size, std::uint16_t psn = 0, std::uint16_t identification = 0) {
  Bytes payload(size, static_cast<std::uint8_t>(size));
  payload[0] = kWriteMiddle;
  payload[kPsnAt] = static_cast<std::uint8_t>(psn >> 8);
  payload[kPsnAt + 1] = static_cast<std::uint8_t>(psn);
  const std::uint32_t change =
      identification == 0 ? 0
                          : kRules.change(static_cast<std::uint32_t>(28 + size), identification);
  const std::uint32_t trailer = rte_cpu_to_le_32(kTrailer ^ change);
  std::memcpy(&payload[size - sizeof trailer], &trailer, sizeof trailer);
  return payload;
}

/// As it arrives if the kernel gave it that identification.
Bytes arrived_as(Bytes frame, std::uint16_t identification) {
  frame = arrived(std::move(frame));
  rte_ipv4_hdr ip;
  std::memcpy(&ip, &frame[kIpAt], sizeof ip);
  ip.packet_id = rte_cpu_to_be_16(identification);
  ip.hdr_checksum = 0;
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  std::memcpy(&frame[kIpAt], &ip, sizeof ip);
  return frame;
}

TEST_F(UdpLinkTest, TheIdentificationIsPutIntoTheHeader) {
  const IpAddress a = loopback_address();
  End end = open({a}, kMtu, &kRules);
  EXPECT_EQ(end.send({frame_of(*end.link, a, a, payload_of(16, 0, 0x1234)),
                      frame_of(*end.link, a, a, payload_of(17))}),
            2);
  const auto frames = end.receive();
  ASSERT_THAT(frames, SizeIs(2));
  rte_ipv4_hdr ip;
  std::memcpy(&ip, &frames[0][kIpAt], sizeof ip);
  EXPECT_EQ(rte_be_to_cpu_16(ip.packet_id), 0x1234);
  IpHeader parsed;
  EXPECT_EQ(parse_ipv4(std::span(frames[0]).subspan(kIpAt),
                       static_cast<std::uint32_t>(frames[0].size() - kIpAt), false, parsed),
            HostDrop::none)
      << "the checksum is right";
  EXPECT_EQ(frames[1], arrived(frame_of(*end.link, a, a, payload_of(17))));
  EXPECT_EQ(end.received().rx_identified.value(), 1u);
}

/// Sizes of datagrams that go to the kernel together, as those of long messages do, and of some
/// more.
const std::vector<std::vector<std::size_t>> kTogether{
    {4128, 4112}, std::vector<std::size_t>(14, 4112), {4128, 4112}, {100, 100, 60}, {61}};

TEST_F(UdpLinkTest, EqualOnesInARowGoTogether) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a}, kMtu, &kRules);
  End to = open({b}, kMtu, &kRules);
  std::uint16_t psn = 0;
  for (const std::size_t segment : {0, 2000}) {
    std::vector<Bytes> frames;
    std::vector<Bytes> expected;
    for (const auto& sizes : kTogether) {
      std::uint16_t identification = 0;
      for (const std::size_t size : sizes) {
        ++psn;
        frames.push_back(frame_of(*from.link, a, b, payload_of(size, psn)));
        expected.push_back(arrived_as(
            frame_of(*from.link, a, b, payload_of(size, psn, identification)), identification));
        ++identification;
      }
    }
    ASSERT_EQ(from.send(frames, segment), 22);
    EXPECT_TRUE(to.receive(segment == 0 ? 32 : 3) == expected) << "in mbufs of " << segment;
  }
  EXPECT_EQ(from.sent().tx_packets.value(), 44u);
  EXPECT_EQ(from.sent().tx_segmented.value(), 42u);
  EXPECT_EQ(to.received().rx_joined.value(), 42u);
  EXPECT_EQ(to.received().rx_packets.value(), 44u);
  EXPECT_EQ(from.sent().tx_bytes.value(), to.received().rx_bytes.value());
}

TEST_F(UdpLinkTest, EqualOnesGoTogetherOverIpv6) {
  const IpAddress a = *IpAddress::parse("::1");
  auto pool = std::move(*PlainPool::create({.size = 256, .data_room = 4400}));
  auto link = try_open(*pool, {a});
  if (!link) {
    GTEST_SKIP() << link.error().message;  // the only loopback address of IPv6
  }
  End end{std::move(pool), std::move(*link)};
  std::vector<Bytes> frames;
  std::vector<Bytes> expected;
  std::uint16_t psn = 0;
  for (const auto& sizes : kTogether) {
    for (const std::size_t size : sizes) {
      frames.push_back(frame_of(*end.link, a, a, payload_of(size, ++psn)));
      expected.push_back(arrived(frames.back()));
    }
  }
  ASSERT_EQ(end.send(frames), 22);
  EXPECT_TRUE(end.receive() == expected);
  EXPECT_EQ(end.sent().tx_segmented.value(), 21u);
}

TEST_F(UdpLinkTest, OnlyWhatIsAlikeGoesTogether) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  const IpAddress c = loopback_address();
  End from = open({a}, kMtu, &kRules);
  End to = open({b, c}, kMtu, &kRules);
  const Bytes payload = payload_of(500);
  const std::vector<Bytes> frames{
      frame_of(*from.link, a, b, payload), frame_of(*from.link, a, b, payload, 0x6a, 34),
      frame_of(*from.link, a, b, payload, 0x62, 34), frame_of(*from.link, a, c, payload, 0x62, 34)};
  ASSERT_EQ(from.send(frames), 4);
  std::vector<Bytes> expected;
  for (const Bytes& frame : frames) {
    expected.push_back(arrived(frame));
  }
  EXPECT_THAT(to.receive(), ::testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(from.sent().tx_segmented.value(), 0u);
}

/// Over IPv4 they would get identifications that their ICRCs do not fit.
TEST_F(UdpLinkTest, WithoutRulesEachGoesByItself) {
  const IpAddress a = loopback_address();
  End end = open({a});
  const Bytes frame = frame_of(*end.link, a, a, payload_of(500));
  ASSERT_EQ(end.send({frame, frame, frame}), 3);
  EXPECT_EQ(end.receive(), std::vector<Bytes>(3, arrived(frame)));
  EXPECT_EQ(end.sent().tx_segmented.value(), 0u);
}

TEST_F(UdpLinkTest, WhatCameTogetherWaitsForMbufs) {
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a}, kMtu, &kRules);
  End to = open({b}, kMtu, &kRules, 8);
  std::vector<Bytes> frames;
  for (std::uint16_t psn = 0; psn < 20; ++psn) {
    frames.push_back(frame_of(*from.link, a, b, payload_of(64, psn)));
  }
  ASSERT_EQ(from.send(frames), 20);
  ASSERT_EQ(from.sent().tx_segmented.value(), 20u);
  std::array<rte_mbuf*, 32> packets{};
  EXPECT_EQ(to.link->rx_burst(packets.data(), 3, 0), 3);
  EXPECT_EQ(to.link->rx_burst(packets.data() + 3, 29, 0), 5) << "all mbufs";
  EXPECT_EQ(to.link->rx_burst(packets.data() + 8, 24, 0), 0);
  EXPECT_GT(to.received().rx_no_mbuf.value(), 0u);
  rte_pktmbuf_free_bulk(packets.data(), 8);
  EXPECT_THAT(to.receive(4), SizeIs(12)) << "nothing is lost";
}

/// Sends until frames go together again.
bool UdpLinkTest::joins_again(End& end, const IpAddress& own) {
  const std::uint64_t before = end.sent().tx_segmented.value();
  std::uint16_t psn = 20;
  for (int burst = 0; burst < 1000 && end.sent().tx_segmented.value() == before; ++burst) {
    std::vector<Bytes> frames;
    for (int i = 0; i < 32; ++i) {
      frames.push_back(frame_of(*end.link, own, own, payload_of(1000, psn++)));
    }
    EXPECT_EQ(end.send(frames), 32);
    EXPECT_THAT(end.receive(), SizeIs(32));
  }
  return end.sent().tx_segmented.value() > before;
}

/// In a thread with a loopback device of its own, of an MTU of 1500.
void with_short_loopback(const std::function<void()>& run) {
  std::string problem;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      problem = std::strerror(errno);
      return;
    }
    const Descriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_mtu = 1500;
    ASSERT_EQ(::ioctl(any.fd(), SIOCSIFMTU, &loopback), 0);
    loopback.ifr_flags = IFF_UP;
    ASSERT_EQ(::ioctl(any.fd(), SIOCSIFFLAGS, &loopback), 0);
    run();
  }).join();
  if (!problem.empty()) {
    GTEST_SKIP() << "needs root to make a network namespace: " << problem;
  }
}

TEST_F(UdpLinkTest, WhatTheKernelDoesNotCutGoesOneByOne) {
  with_short_loopback([] {
    const IpAddress a = loopback_address();
    End end = open({a}, kMtu, &kRules);
    // Each of them is too long, and the kernel says so.
    ASSERT_EQ(end.send(std::vector<Bytes>(3, frame_of(*end.link, a, a, payload_of(2000)))), 3);
    EXPECT_EQ(end.sent().tx_not_segmented.value(), 1u);
    EXPECT_EQ(end.sent().tx_refused.value(), 3u);
    const Bytes good = frame_of(*end.link, a, a, payload_of(1000));
    ASSERT_EQ(end.send(std::vector<Bytes>(3, good)), 3);
    EXPECT_EQ(end.receive(), std::vector<Bytes>(3, arrived(good)));
    EXPECT_EQ(end.sent().tx_segmented.value(), 0u);
    EXPECT_TRUE(joins_again(end, a));
    EXPECT_EQ(end.sent().tx_not_segmented.value(), 1u);
  });
}

TEST_F(UdpLinkTest, ARepeatOfWhatWentTogetherGoesByItself) {
  const IpAddress a = loopback_address();
  End end = open({a}, kMtu, &kRules);
  const auto frames = [&](std::initializer_list<std::uint16_t> psns,
                          std::uint8_t opcode = kWriteMiddle) {
    std::vector<Bytes> made;
    for (const std::uint16_t psn : psns) {
      Bytes payload = payload_of(1000, psn);
      payload[0] = opcode;
      made.push_back(frame_of(*end.link, a, a, payload));
    }
    return made;
  };
  ASSERT_EQ(end.send(frames({10, 11, 12})), 3);
  ASSERT_EQ(end.send(frames({13, 14})), 2);
  // Responses have numbers of their own.
  ASSERT_EQ(end.send(frames({5, 6}, kReadResponseMiddle)), 2);
  ASSERT_EQ(end.send(frames({15, 16})), 2);
  EXPECT_EQ(end.sent().tx_segmented.value(), 9u);
  EXPECT_EQ(end.sent().tx_repeats.value(), 0u);
  ASSERT_EQ(end.send(frames({11, 12, 13, 14, 15})), 5);
  EXPECT_EQ(end.sent().tx_segmented.value(), 9u);
  EXPECT_EQ(end.sent().tx_repeats.value(), 1u);
  EXPECT_THAT(end.receive(), SizeIs(14));
  EXPECT_TRUE(joins_again(end, a));
  EXPECT_EQ(end.sent().tx_repeats.value(), 1u);
}

/// What the kernel puts on the wire has to be what the ICRC was computed over.
TEST_F(UdpLinkTest, PacketsHaveDfAndAnIdentificationOfZero) {
  const Descriptor raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!raw) {
    GTEST_SKIP() << "needs root to see IP headers: " << std::strerror(errno);
  }
  const IpAddress a = loopback_address();
  const IpAddress b = loopback_address();
  End from = open({a});
  End to = open({b});
  const Bytes sent = frame_of(*from.link, a, b, Bytes(100, 3));
  ASSERT_EQ(from.send({sent, sent}), 2);
  int seen = 0;
  Bytes packet(65'536);
  for (ssize_t size = 0; (size = ::recv(raw.fd(), packet.data(), packet.size(), 0)) > 0;) {
    IpHeader ip;
    const auto length = static_cast<std::uint32_t>(size);
    if (parse_ipv4({packet.data(), length}, length, false, ip) != HostDrop::none) continue;
    if (ip.destination != b) continue;
    ++seen;
    EXPECT_EQ(Bytes(packet.begin(), packet.begin() + size),
              Bytes(sent.begin() + kIpAt, sent.end()));
  }
  EXPECT_EQ(seen, 2);
}

TEST_F(UdpLinkTest, ErrorsSayWhatIsWrong) {
  const IpAddress a = loopback_address();
  End first = open({a});
  auto pool = std::move(*PlainPool::create({.size = 8, .data_room = 4400}));
  const auto second = try_open(*pool, {loopback_address(), a});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_THAT(second.error().message, HasSubstr("UDP port 4791 of " + a.to_string()));
  const auto foreign = try_open(*pool, {*IpAddress::parse("192.0.2.1")});
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::not_found);
  EXPECT_THAT(foreign.error().message, HasSubstr("192.0.2.1 is no address of this machine"));
  const auto none = try_open(*pool, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::invalid_argument);
  first.link.reset();
  EXPECT_TRUE(try_open(*pool, {a})) << "the port is free again";
}

}  // namespace
}  // namespace rockhopper::stack
