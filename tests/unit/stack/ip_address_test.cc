// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/ip_address.h"

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

using namespace std::string_view_literals;

IpAddress parsed(std::string_view text) {
  const auto address = IpAddress::parse(text);
  EXPECT_TRUE(address.has_value()) << text;
  return address.value_or(IpAddress{});
}

TEST(IpAddress, Ipv4HasTheFormOfAGid) {
  const IpAddress expected{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 2, 1}};
  EXPECT_EQ(IpAddress::from_ipv4(0x0a000201), expected);
  EXPECT_EQ(parsed("10.0.2.1"), expected);
  EXPECT_EQ(parsed("::ffff:10.0.2.1"), expected);
  EXPECT_TRUE(expected.is_ipv4());
  EXPECT_EQ(expected.ipv4(), 0x0a000201u);
  EXPECT_EQ(expected.to_string(), "10.0.2.1");
}

TEST(IpAddress, Ipv6) {
  const IpAddress expected{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x2a}};
  EXPECT_EQ(parsed("2001:db8::2a"), expected);
  EXPECT_FALSE(expected.is_ipv4());
  EXPECT_EQ(expected.to_string(), "2001:db8::2a");
}

TEST(IpAddress, RefusesWhatIsNoAddress) {
  for (const auto text :
       {""sv, "10.0.0"sv, "10.0.0.256"sv, "010.0.0.1.2"sv, "10.0.0.1/24"sv, "fe80::1%eth0"sv,
        "::g"sv, "host"sv, " 10.0.0.1"sv, "10.0.0.1 "sv, "10.0.0.1\0x"sv, "1:2:3:4:5:6:7:8:9"sv}) {
    EXPECT_FALSE(IpAddress::parse(text).has_value()) << text;
  }
}

TEST(IpAddress, Classes) {
  EXPECT_TRUE(parsed("::").is_unspecified());
  EXPECT_TRUE(parsed("0.0.0.0").is_unspecified());
  EXPECT_FALSE(parsed("::1").is_unspecified());
  EXPECT_FALSE(parsed("0.0.0.1").is_unspecified());
  EXPECT_TRUE(parsed("224.0.0.1").is_multicast());
  EXPECT_TRUE(parsed("239.255.255.255").is_multicast());
  EXPECT_FALSE(parsed("223.255.255.255").is_multicast());
  EXPECT_FALSE(parsed("240.0.0.1").is_multicast());
  EXPECT_TRUE(parsed("ff02::1").is_multicast());
  EXPECT_FALSE(parsed("fe80::1").is_multicast());
  EXPECT_TRUE(parsed("fe80::1").is_link_local());
  EXPECT_TRUE(parsed("febf::1").is_link_local());
  EXPECT_FALSE(parsed("fec0::1").is_link_local());
  EXPECT_TRUE(parsed("169.254.1.1").is_link_local());
  EXPECT_FALSE(parsed("169.253.1.1").is_link_local());
}

}  // namespace
}  // namespace rockhopper::stack
