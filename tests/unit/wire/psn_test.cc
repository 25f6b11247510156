// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/psn.h"

#include <concepts>
#include <random>

#include <gtest/gtest.h>

#include "roce/wire/qpn.h"
#include "tests/support/seed.h"

namespace rockhopper::wire {
namespace {

static_assert(!std::convertible_to<std::uint32_t, Psn> && !std::convertible_to<Psn, Qpn>);
static_assert(!std::totally_ordered<Psn>, "PSNs live on a circle");

TEST(Psn_9_7_1, WrapsAt24Bits) {
  EXPECT_EQ(Psn::make(0x1000000), Psn{0});
  EXPECT_EQ(Psn{0xffffff} + 1, Psn{0});
  EXPECT_EQ(Psn{0xfffffe} + 5, Psn{3});
  EXPECT_EQ(Psn{0} - 1, Psn{0xffffff});
  EXPECT_EQ(Psn{3} - 5, Psn{0xfffffe});
  EXPECT_EQ(Psn{7} + 0x1000000, Psn{7});
  EXPECT_EQ(Psn{7} + 0xffffffff, Psn{6});
}

TEST(Psn_9_7_1, DistanceIsSignedOnTheCircle) {
  EXPECT_EQ(distance(Psn{5}, Psn{5}), 0);
  EXPECT_EQ(distance(Psn{5}, Psn{9}), 4);
  EXPECT_EQ(distance(Psn{9}, Psn{5}), -4);
  EXPECT_EQ(distance(Psn{0xfffffe}, Psn{2}), 4);
  EXPECT_EQ(distance(Psn{2}, Psn{0xfffffe}), -4);
  EXPECT_EQ(distance(Psn{0}, Psn{0x7fffff}), 0x7fffff);
  EXPECT_EQ(distance(Psn{0}, Psn{0x800000}), -0x800000);
  EXPECT_EQ(distance(Psn{0x800000}, Psn{0}), -0x800000);
}

TEST(Psn_9_7_1, DistanceUndoesAddition) {
  std::mt19937_64 random(test::seed());
  std::uniform_int_distribution<std::uint32_t> psn(0, kMask24);
  std::uniform_int_distribution<std::int32_t> step(-0x800000, 0x7fffff);
  for (int i = 0; i < 100'000; ++i) {
    const Psn from{psn(random)};
    const std::int32_t by = step(random);
    const Psn to =
        by >= 0 ? from + static_cast<std::uint32_t>(by) : from - static_cast<std::uint32_t>(-by);
    ASSERT_EQ(distance(from, to), by) << "from " << from.value << " to " << to.value;
    ASSERT_LE(to.value, kMask24);
  }
}

TEST(Qpn, Has24BitsAndAnOrder) {
  EXPECT_EQ(Qpn::make(0xab123456), Qpn{0x123456});
  EXPECT_LT(Qpn{1}, Qpn{2});
}

}  // namespace
}  // namespace rockhopper::wire
