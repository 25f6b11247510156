// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <array>

#include <gtest/gtest.h>

#include "roce/wire/aeth.h"
#include "roce/wire/timer_code.h"

namespace rockhopper::wire {
namespace {

TEST(AethSyndrome_9_7_5_2, TakesKindAndValueApart) {
  EXPECT_EQ(Aeth::ack(31, 5).syndrome, 0x1f);
  EXPECT_EQ(Aeth::ack(10, 5).syndrome, 0x0a);
  EXPECT_EQ(Aeth::rnr_nak(12, 5).syndrome, 0x2c);
  EXPECT_EQ(Aeth::nak(NakCode::psn_sequence_error, 5).syndrome, 0x60);
  EXPECT_EQ(Aeth::nak(NakCode::invalid_request, 5).syndrome, 0x61);
  EXPECT_EQ(Aeth::nak(NakCode::remote_access_error, 5).syndrome, 0x62);
  EXPECT_EQ(Aeth::nak(NakCode::remote_operational_error, 5).syndrome, 0x63);
  EXPECT_EQ(Aeth::nak(NakCode::invalid_rd_request, 5).syndrome, 0x64);
  EXPECT_EQ(Aeth::ack(31, 0x1000005).msn, 5u);

  EXPECT_EQ((Aeth{.syndrome = 0x0a, .msn = 0}.kind()), AethKind::ack);
  EXPECT_EQ((Aeth{.syndrome = 0x0a, .msn = 0}.credit()), 10);
  EXPECT_EQ((Aeth{.syndrome = 0x2c, .msn = 0}.kind()), AethKind::rnr_nak);
  EXPECT_EQ((Aeth{.syndrome = 0x2c, .msn = 0}.timer()), 12);
  EXPECT_EQ((Aeth{.syndrome = 0x40, .msn = 0}.kind()), AethKind::reserved);
  EXPECT_EQ((Aeth{.syndrome = 0x62, .msn = 0}.kind()), AethKind::nak);
  EXPECT_EQ((Aeth{.syndrome = 0x62, .msn = 0}.nak_code()), NakCode::remote_access_error);
}

TEST(AethSyndrome_9_7_5_2, BitSevenMakesItReserved) {
  for (unsigned low = 0; low < 0x80; ++low) {
    const Aeth aeth{.syndrome = static_cast<std::uint8_t>(0x80 | low), .msn = 0};
    EXPECT_EQ(aeth.kind(), AethKind::reserved) << low;
  }
}

constexpr std::array<std::uint32_t, 31> kCredits = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

TEST(Credits_9_7_7_2, CodesStandForTheTabledCounts) {
  for (std::uint8_t code = 0; code < kCredits.size(); ++code) {
    EXPECT_EQ(credit_count(code), kCredits[code]) << unsigned{code};
  }
  EXPECT_EQ(credit_count(31), std::nullopt);
  EXPECT_EQ(credit_count(255), std::nullopt);
}

TEST(Credits_9_7_7_2, EncodingNeverPromisesMoreThanThereIs) {
  std::uint8_t expected = 0;
  for (std::uint32_t count = 0; count < 40'000; ++count) {
    while (expected + 1u < kCredits.size() && kCredits[expected + 1] <= count) {
      ++expected;
    }
    ASSERT_EQ(credit_code(count), expected) << count;
  }
  EXPECT_EQ(credit_code(0xffffffff), 30);
}

TEST(RnrTimer_9_7_5_2_8, CodesStandForTheTabledTimes) {
  constexpr std::array<double, 32> kMilliseconds = {
      655.36, 0.01,  0.02,  0.03,  0.04,  0.06,   0.08,   0.12,   0.16,   0.24,  0.32,
      0.48,   0.64,  0.96,  1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24, 15.36,
      20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (std::uint8_t code = 0; code < kMilliseconds.size(); ++code) {
    EXPECT_NEAR(static_cast<double>(rnr_timer_ns(code)), kMilliseconds[code] * 1e6, 0.5)
        << unsigned{code};
  }
  EXPECT_EQ(rnr_timer_ns(32 + 12), rnr_timer_ns(12));
}

TEST(LocalAckTimeout_9_7_6_1_3, IsFourMicrosecondsTimesAPowerOfTwo) {
  EXPECT_EQ(local_ack_timeout_ns(0), 0u);
  EXPECT_EQ(local_ack_timeout_ns(1), 8'192u);
  EXPECT_EQ(local_ack_timeout_ns(14), 67'108'864u);
  EXPECT_EQ(local_ack_timeout_ns(19), 2'147'483'648u);
  EXPECT_EQ(local_ack_timeout_ns(31), 8'796'093'022'208u);
}

}  // namespace
}  // namespace rockhopper::wire
