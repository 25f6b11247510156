// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/bytes.h"

#include <array>

#include <gtest/gtest.h>

namespace rockhopper::wire {
namespace {

constexpr std::array<std::uint8_t, 9> kBytes = {0x00, 0xf1, 0xe2, 0xd3, 0xc4,
                                                0xb5, 0xa6, 0x97, 0x88};

TEST(Bytes, LoadsAreBigEndianAtAnyAlignment) {
  static_assert(load_be16(&kBytes[1]) == 0xf1e2);
  static_assert(load_be24(&kBytes[1]) == 0xf1e2d3);
  static_assert(load_be32(&kBytes[1]) == 0xf1e2d3c4);
  static_assert(load_be64(&kBytes[1]) == 0xf1e2d3c4b5a69788);
  EXPECT_EQ(load_be64(&kBytes[0]), 0x00f1e2d3c4b5a697u);
}

TEST(Bytes, StoresTouchTheirBytesOnly) {
  using Buffer = std::array<std::uint8_t, 10>;
  Buffer two{};
  store_be16(&two[1], 0xf1e2);
  EXPECT_EQ(two, (Buffer{0, 0xf1, 0xe2}));
  Buffer three{};
  store_be24(&three[1], 0x99f1e2d3);
  EXPECT_EQ(three, (Buffer{0, 0xf1, 0xe2, 0xd3}));
  Buffer four{};
  store_be32(&four[1], 0xf1e2d3c4);
  EXPECT_EQ(four, (Buffer{0, 0xf1, 0xe2, 0xd3, 0xc4}));
  Buffer eight{};
  store_be64(&eight[1], 0xf1e2d3c4b5a69788);
  EXPECT_EQ(eight, (Buffer{0, 0xf1, 0xe2, 0xd3, 0xc4, 0xb5, 0xa6, 0x97, 0x88, 0}));
}

}  // namespace
}  // namespace rockhopper::wire
