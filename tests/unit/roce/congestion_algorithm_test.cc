// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The algorithms against values that follow by hand from the published formulas.
#include <algorithm>
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/congestion/dcqcn.h"
#include "roce/congestion/rtt_sampler.h"
#include "roce/congestion/swift.h"

namespace rockhopper::test::congestion_algorithm_test {
namespace {

using roce::CongestionAlgorithm;
using roce::CongestionConfig;
using roce::Dcqcn;
using roce::DcqcnParameters;
using roce::kUnlimited;
using roce::Swift;
using roce::SwiftParameters;
using ::testing::HasSubstr;

constexpr double kGbit = 1e9;
constexpr std::uint64_t kUs = 1000;

TEST(Dcqcn, IsUnlimitedUntilTheFirstCnpWhichHalvesTheLine) {
  Dcqcn dcqcn({});
  dcqcn.on_sent(1 << 30, 5);
  EXPECT_EQ(dcqcn.rate(10), kUnlimited);
  dcqcn.on_cnp(100 * kUs);
  // R_C (1 - alpha / 2) with alpha = 1; then alpha = (1 - g) 1 + g.
  EXPECT_EQ(dcqcn.rate(100 * kUs), 50'000'000'000u);
  EXPECT_DOUBLE_EQ(dcqcn.alpha(), 1);
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 100 * kGbit);
  dcqcn.on_cnp(150 * kUs);
  EXPECT_EQ(dcqcn.rate(150 * kUs), 25'000'000'000u);
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 50 * kGbit);
}

/// Some RNICs send a CNP with each NAK, though nothing was marked.
TEST(Dcqcn, ACnpBehindANakMayBeOfTheLoss) {
  Dcqcn dcqcn({.nak_cnp_period_ns = 10 * kUs});
  dcqcn.on_loss(false, 100 * kUs);
  dcqcn.on_cnp(109 * kUs);
  EXPECT_EQ(dcqcn.rate(109 * kUs), kUnlimited);
  dcqcn.on_cnp(110 * kUs);
  EXPECT_EQ(dcqcn.rate(110 * kUs), 50'000'000'000u);
  Dcqcn timeout({.nak_cnp_period_ns = 10 * kUs});
  timeout.on_loss(true, 100 * kUs);
  timeout.on_cnp(100 * kUs);
  EXPECT_EQ(timeout.rate(100 * kUs), 50'000'000'000u);
}

TEST(Dcqcn, TheLineIsTheLinksUnlessOneIsGiven) {
  const auto line = [](std::uint64_t wanted, std::uint64_t of_link) {
    return roce::at_line_rate({.rpg_max_rate = wanted}, of_link).rpg_max_rate;
  };
  EXPECT_EQ(line(0, 25'000'000'000), 25'000'000'000u);
  EXPECT_EQ(line(0, 0), 100'000'000'000u);
  EXPECT_EQ(line(40'000'000'000, 25'000'000'000), 40'000'000'000u);
  EXPECT_EQ(line(0, 1), 10'000'000u) << "not below rpg_min_rate";
}

TEST(Dcqcn, AlphaFallsWithoutCnpsAndWeighsTheNextOne) {
  Dcqcn dcqcn(
      {.rpg_time_reset_ns = 1'000'000 * kUs, .dce_tcp_g = 0.25, .dce_tcp_rtt_ns = 50 * kUs});
  dcqcn.on_cnp(0);
  EXPECT_EQ(dcqcn.rate(149 * kUs), 50'000'000'000u);
  EXPECT_DOUBLE_EQ(dcqcn.alpha(), 0.75 * 0.75) << "two periods of 50 us";
  EXPECT_EQ(dcqcn.rate(150 * kUs), 50'000'000'000u);
  EXPECT_DOUBLE_EQ(dcqcn.alpha(), 0.421875);
  dcqcn.on_cnp(150 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), 50 * kGbit * (1 - 0.421875 / 2));
  EXPECT_DOUBLE_EQ(dcqcn.alpha(), 0.75 * 0.421875 + 0.25);
}

TEST(Dcqcn, FastRecoveryGoesHalfwayFourTimesThenTheTargetGrows) {
  Dcqcn dcqcn({.rpg_time_reset_ns = 100 * kUs});
  dcqcn.on_cnp(0);
  dcqcn.on_cnp(50 * kUs);
  const double expected[] = {37.5, 43.75, 46.875, 48.4375};
  std::uint64_t now_ns = 50 * kUs;
  for (const double gbit : expected) {
    now_ns += 100 * kUs;
    EXPECT_NEAR(static_cast<double>(dcqcn.rate(now_ns - 1)), dcqcn.current_rate(), 1);
    (void)dcqcn.rate(now_ns);
    EXPECT_DOUBLE_EQ(dcqcn.current_rate(), gbit * kGbit);
    EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 50 * kGbit);
  }
  // F = 5: from the fifth on, R_T += R_AI.
  (void)dcqcn.rate(now_ns + 100 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 50.04 * kGbit);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), (48.4375 + 50.04) / 2 * kGbit);
  // Many at once are the same as one by one.
  (void)dcqcn.rate(now_ns + 300 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 50.12 * kGbit);
}

TEST(Dcqcn, BytesIncreaseTooAndBothTogetherFaster) {
  Dcqcn dcqcn({.rpg_time_reset_ns = 1000 * kUs, .rpg_byte_reset = 1'000'000});
  dcqcn.on_cnp(0);
  dcqcn.on_cnp(50 * kUs);
  dcqcn.on_sent(999'999, 60 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), 25 * kGbit);
  dcqcn.on_sent(1, 60 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), 37.5 * kGbit);
  dcqcn.on_sent(5'000'000, 60 * kUs);  // the sixth by bytes; none by time
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 50.08 * kGbit);
  (void)dcqcn.rate(5050 * kUs);  // five by time: all of them additive
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 50.28 * kGbit);
  (void)dcqcn.rate(6050 * kUs);  // six of both: R_T += R_HAI
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), 50.68 * kGbit);
  dcqcn.on_sent(1'000'000, 6060 * kUs);
  dcqcn.on_sent(0, 7050 * kUs);  // seven of both: the second time
  EXPECT_DOUBLE_EQ(dcqcn.target_rate(), (50.68 + 0.4 + 0.8) * kGbit);
}

TEST(Dcqcn, ACnpBeginsRecoveryAnew) {
  Dcqcn dcqcn({.rpg_time_reset_ns = 100 * kUs,
               .rpg_byte_reset = 1'000'000,
               .dce_tcp_rtt_ns = 1'000'000 * kUs});
  dcqcn.on_cnp(0);
  dcqcn.on_sent(900'000, 10 * kUs);
  dcqcn.on_cnp(90 * kUs);
  dcqcn.on_sent(900'000, 100 * kUs);
  (void)dcqcn.rate(189 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), 25 * kGbit) << "neither timer nor bytes of before count";
  (void)dcqcn.rate(190 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), 37.5 * kGbit);
}

TEST(Dcqcn, StaysBetweenItsLimitsAndIsReleasedAtTheLine) {
  Dcqcn dcqcn({.rpg_min_rate = 1'000'000'000, .rpg_ai_rate = 10'000'000'000});
  for (std::uint64_t i = 0; i < 100; ++i) {
    dcqcn.on_cnp(i * 10 * kUs);
  }
  EXPECT_EQ(dcqcn.rate(990 * kUs), 1'000'000'000u);
  EXPECT_EQ(dcqcn.rate(1'000'000 * kUs), kUnlimited);
  dcqcn.on_cnp(1'000'001 * kUs);
  EXPECT_EQ(dcqcn.rate(1'000'001 * kUs), 50'000'000'000u) << "alpha as at first";
}

TEST(Dcqcn, TwoCnpsAtOnceReduceOnce) {
  Dcqcn dcqcn({.rate_reduce_monitor_period_ns = 4 * kUs});
  dcqcn.on_cnp(0);
  dcqcn.on_cnp(3 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), 50 * kGbit);
  dcqcn.on_cnp(4 * kUs);
  EXPECT_DOUBLE_EQ(dcqcn.current_rate(), 25 * kGbit);
}

TEST(Swift, TheTargetGrowsAsTheWindowShrinks) {
  for (const auto& [cwnd, target_ns] :
       // fs_alpha = 50,000 / (1/sqrt(0.1) - 1/sqrt(100)), fs_beta = -fs_alpha / 10
       {std::pair{100.0, 25'000.0}, {0.1, 75'000.0}, {1.0, 39'694.9}, {25.0, 26'632.8}}) {
    Swift swift({.min_cwnd = cwnd, .max_cwnd = std::max(cwnd, 1.0)});
    if (cwnd < 1) {
      for (std::uint64_t i = 1; i < 20; ++i) {
        swift.on_loss(false, i * 1000 * kUs);
      }
    }
    ASSERT_DOUBLE_EQ(swift.cwnd(), cwnd);
    EXPECT_NEAR(swift.target_delay_ns(), target_ns, 0.1);
  }
  EXPECT_DOUBLE_EQ(Swift({.max_cwnd = 400}).target_delay_ns(), 25'000) << "not below the base";
}

TEST(Swift, GrowsBelowTheTargetAndShrinksAboveItOnceARoundTrip) {
  Swift swift({.max_cwnd = 100});
  // Delay 50 us, target 25: 1 - 0.8 (50 - 25) / 50.
  swift.on_ack(1, 50 * kUs, 1000 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 60);
  swift.on_ack(1, 50 * kUs, 1049 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 60) << "within the round trip";
  // 200 us is far above: at most max_mdf at once.
  swift.on_ack(1, 200 * kUs, 1250 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 30);
  // Below: ai / cwnd for each packet.
  swift.on_ack(3, 10 * kUs, 1251 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 30.1);
  swift.on_ack(5, 0, 1252 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 30.1) << "no round trip known";
  EXPECT_EQ(swift.window_packets(), 30u);
  EXPECT_EQ(swift.rate(1252 * kUs), kUnlimited);
}

TEST(Swift, BelowOnePacketItPaces) {
  Swift swift({.min_cwnd = 0.25, .max_cwnd = 4});
  swift.on_sent(1000, 0);
  swift.on_ack(1, 100 * kUs, 1000 * kUs);
  for (std::uint64_t i = 2; i < 10; ++i) {
    swift.on_loss(false, i * 1000 * kUs);
  }
  ASSERT_DOUBLE_EQ(swift.cwnd(), 0.25);
  EXPECT_EQ(swift.window_packets(), 1u);
  // 1000 bytes each 100 us / 0.25.
  EXPECT_EQ(swift.rate(20'000 * kUs), 20'000'000u);
  // Below one packet, each acknowledged packet adds ai.
  swift.on_ack(1, 10 * kUs, 30'000 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 1.25);
}

TEST(Swift, LossesHalveAndTimeoutsInARowEndAtTheLeast) {
  Swift swift({.min_cwnd = 0.01, .max_cwnd = 64, .retx_reset_threshold = 3});
  swift.on_ack(1, 10 * kUs, 0);
  swift.on_loss(false, 1000 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 32);
  swift.on_loss(true, 2000 * kUs);
  swift.on_loss(true, 3000 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 8);
  swift.on_ack(1, 0, 3500 * kUs);  // progress
  swift.on_loss(true, 4000 * kUs);
  swift.on_loss(true, 5000 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 2);
  swift.on_loss(true, 6000 * kUs);
  EXPECT_DOUBLE_EQ(swift.cwnd(), 0.01);
}

TEST(RttSampler, PacketsSentAgainGiveNone) {
  roce::RttSampler sampler(5);  // eight places
  const auto psn = [](std::uint32_t value) { return wire::Psn::make(value); };
  sampler.on_sent(psn(0xffffff), false, 100);
  sampler.on_sent(psn(0), false, 110);
  sampler.on_sent(psn(1), false, 120);
  sampler.on_sent(psn(1), true, 200);
  EXPECT_EQ(sampler.on_acknowledged(psn(0xffffff), 150), 50u);
  EXPECT_EQ(sampler.on_acknowledged(psn(0xffffff), 160), 0u) << "once";
  EXPECT_EQ(sampler.on_acknowledged(psn(1), 250), 0u);
  EXPECT_EQ(sampler.on_acknowledged(psn(8), 250), 0u) << "another one in the same place";
  EXPECT_EQ(sampler.on_acknowledged(psn(0), 250), 140u);
  roce::RttSampler none(0);
  none.on_sent(psn(1), false, 100);
  EXPECT_EQ(none.on_acknowledged(psn(1), 200), 0u);
}

TEST(CongestionConfig, ImpossibleParametersAreRefused) {
  const auto refusal = [](const CongestionConfig& config) {
    const auto checked = check_congestion_config(config);
    return checked ? std::string() : checked.error().message;
  };
  const auto dcqcn = [&](const DcqcnParameters& parameters) {
    return refusal({.algorithm = CongestionAlgorithm::dcqcn, .dcqcn = parameters});
  };
  const auto swift = [&](const SwiftParameters& parameters) {
    return refusal({.algorithm = CongestionAlgorithm::swift, .swift = parameters});
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(dcqcn({}), "");
  EXPECT_EQ(swift({}), "");
  EXPECT_THAT(dcqcn({.rpg_min_rate = 0}), HasSubstr("rpg_min_rate"));
  EXPECT_THAT(dcqcn({.rpg_max_rate = 5}), HasSubstr("rpg_min_rate"));
  EXPECT_THAT(dcqcn({.rpg_ai_rate = 0}), HasSubstr("rates"));
  EXPECT_THAT(dcqcn({.rpg_time_reset_ns = 0}), HasSubstr("rpg_time_reset"));
  EXPECT_THAT(dcqcn({.dce_tcp_g = 1.5}), HasSubstr("dce_tcp_g"));
  EXPECT_THAT(dcqcn({.initial_alpha_value = std::nan("")}), HasSubstr("alpha"));
  EXPECT_THAT(swift({.base_target_delay_ns = 0}), HasSubstr("base_target_delay"));
  EXPECT_THAT(swift({.fs_max_cwnd = 0.1}), HasSubstr("fs_max_cwnd"));
  EXPECT_THAT(swift({.max_mdf = 1}), HasSubstr("max_mdf"));
  EXPECT_THAT(swift({.max_cwnd = 0.5}), HasSubstr("max_cwnd"));
  EXPECT_THAT(refusal({.algorithm = CongestionAlgorithm::custom}), HasSubstr("that makes it"));
  EXPECT_THAT(refusal({.algorithm = static_cast<CongestionAlgorithm>(9)}), HasSubstr("no such"));
}

}  // namespace
}  // namespace rockhopper::test::congestion_algorithm_test
