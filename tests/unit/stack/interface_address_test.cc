// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/interface_address.h"

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

TEST(InterfaceAddress, IsAnAddressWithPrefixLength) {
  const auto ipv4 = InterfaceAddress::parse("10.1.2.3/8");
  ASSERT_TRUE(ipv4);
  EXPECT_EQ(ipv4->address.to_string(), "10.1.2.3");
  EXPECT_EQ(ipv4->prefix_length, 8);
  const auto ipv6 = InterfaceAddress::parse("fd00::9/64");
  ASSERT_TRUE(ipv6);
  EXPECT_EQ(ipv6->address.to_string(), "fd00::9");
  EXPECT_EQ(ipv6->prefix_length, 64);
}

TEST(InterfaceAddress, MayBeWrittenAsInTablesOfGids) {
  const auto mapped = InterfaceAddress::parse("::ffff:10.1.2.3/120");
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->address.to_string(), "10.1.2.3");
  EXPECT_EQ(mapped->prefix_length, 24);
}

TEST(InterfaceAddress, RefusesAllElse) {
  for (const char* text : {"", "10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/8x",
                           "fd00::1/129", "10.0.0/8", "::ffff:10.0.0.1/24", "::ffff:10.0.0.1/129",
                           "host/24", "0.0.0.0/0", "224.0.0.1/4", "ff02::1/64", "/24",
                           "127.0.0.1/8", "::1/128", "255.255.255.255/32", "::/0"}) {
    EXPECT_FALSE(InterfaceAddress::parse(text)) << text;
  }
}

}  // namespace
}  // namespace rockhopper::stack
