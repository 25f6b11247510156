// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/udp_source.h"

#include <gmock/gmock.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/support/seed.h"
#include "tests/unit/publish/source_helpers.h"

namespace rockhopper::apps::publish {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void send_to(std::uint16_t port, std::string_view datagram) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::sendto(socket.get(), datagram.data(), datagram.size(), 0,
                     reinterpret_cast<const sockaddr*>(&to), sizeof to),
            static_cast<ssize_t>(datagram.size()));
}

TEST(UdpSource, EachDatagramIsAMessage) {
  roce::SeededRandom random(test::seed());
  auto source = UdpSource::open("127.0.0.1:0", 65'507);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE(take_all(**source).messages.empty());
  std::vector<std::string> sent;
  for (const std::size_t length : {0u, 1u, 1472u, 9000u, 60'000u}) {
    sent.push_back(random_message(random, length, true));
    send_to((*source)->port(), sent.back());
  }
  const Taken taken = take_all(**source);
  EXPECT_EQ(taken.messages, sent);
  EXPECT_FALSE(taken.ended);
}

// PB-31
TEST(UdpSource, WhatIsTooLongIsCountedAndTheRestGoesOn) {
  auto source = UdpSource::open("127.0.0.1:0", 4);
  ASSERT_TRUE(source);
  for (const char* datagram : {"1234", "12345", "6"}) {
    send_to((*source)->port(), datagram);
  }
  EXPECT_THAT(take_all(**source).messages, ElementsAre("1234", "6"));
  EXPECT_EQ((*source)->too_long(), 1u);
  EXPECT_EQ(counters_of(**source)["too_long"], 1u);
}

/// Sends to a group of this host alone.
void send_to_group(std::uint16_t port, std::string_view datagram) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
  const ip_mreqn interface {
    .imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = static_cast<int>(::if_nametoindex("lo"))
  };
  ASSERT_EQ(::setsockopt(socket.get(), IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface),
            0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(0xefff0101);  // 239.255.1.1
  EXPECT_EQ(::sendto(socket.get(), datagram.data(), datagram.size(), 0,
                     reinterpret_cast<const sockaddr*>(&to), sizeof to),
            static_cast<ssize_t>(datagram.size()));
}

// Each who listens to a group of a host gets all of it.
TEST(UdpSource, AGroupIsShared) {
  auto first = UdpSource::open("239.255.1.1:0@lo", 100);
  ASSERT_TRUE(first) << first.error().message;
  auto second = UdpSource::open(fmt::format("239.255.1.1:{}@lo", (*first)->port()), 100);
  ASSERT_TRUE(second) << second.error().message;
  send_to_group((*first)->port(), "to all");
  EXPECT_THAT(take_all(**first).messages, ElementsAre("to all"));
  EXPECT_THAT(take_all(**second).messages, ElementsAre("to all"));
  // Anything else is one listener's.
  auto own = UdpSource::open("127.0.0.1:0", 100);
  ASSERT_TRUE(own);
  EXPECT_FALSE(UdpSource::open(fmt::format("127.0.0.1:{}", (*own)->port()), 100));
}

TEST(UdpSource, TheInterfaceOfAGroupIsThere) {
  EXPECT_THAT(UdpSource::open("239.255.1.1:0@no-such", 100).error().message,
              HasSubstr("there is no interface no-such"));
  EXPECT_TRUE(UdpSource::open("[ff01::1:2]:0@lo", 100));
}

TEST(UdpSource, AddressesThatAreNoneAreErrorsThatSayWhatIsExpected) {
  for (const char* where :
       {"", ":1", "x", "1:2:3", "::1:5", "70000", "127.0.0.1:70000", "-1", "localhost:5", "[::1]",
        "127.0.0.1:", "127.0.0.1:5@lo", "5@lo", "239.255.1.1:5@"}) {
    const auto source = UdpSource::open(where, 100);
    ASSERT_FALSE(source) << where;
    EXPECT_THAT(source.error().message, HasSubstr("PORT")) << where;
  }
}

TEST(UdpSource, AnAddressThatIsNotOursIsAnError) {
  const auto source = UdpSource::open("192.0.2.1:0", 100);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr("192.0.2.1:0 cannot be listened to"));
}

}  // namespace
}  // namespace rockhopper::apps::publish
