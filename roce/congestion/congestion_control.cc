// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/congestion/congestion_control.h"

#include <algorithm>

#include "roce/congestion/dcqcn.h"
#include "roce/congestion/swift.h"

namespace rockhopper::roce {
namespace {

constexpr std::uint64_t kRateMax = 10'000'000'000'000;  // products of times and rates fit 64 bits

/// To the line's rate: they are reckoned one by one after a pause.
constexpr std::uint64_t kIncreasesMax = 1'000'000;

bool is_share(double value) { return value > 0 && value <= 1; }

Expected<void> check(const DcqcnParameters& p) {
  if (p.rpg_min_rate == 0 || p.rpg_min_rate > p.rpg_max_rate || p.rpg_max_rate > kRateMax ||
      p.rpg_ai_rate < p.rpg_max_rate / kIncreasesMax || p.rpg_ai_rate > kRateMax ||
      p.rpg_hai_rate > kRateMax) {
    return fail(ErrorCode::invalid_argument,
                "DCQCN: rates are above 0 and up to 10 Tbit/s, rpg_min_rate is not above "
                "rpg_max_rate, and rpg_ai_rate not below a millionth of it");
  }
  if (p.rpg_time_reset_ns == 0 || p.rpg_byte_reset == 0 || p.dce_tcp_rtt_ns == 0) {
    return fail(ErrorCode::invalid_argument,
                "DCQCN: rpg_time_reset, rpg_byte_reset and dce_tcp_rtt are above 0");
  }
  if (!is_share(p.dce_tcp_g) || !is_share(p.initial_alpha_value)) {
    return fail(ErrorCode::invalid_argument,
                "DCQCN: dce_tcp_g and initial_alpha_value are above 0 and not above 1");
  }
  return {};
}

Expected<void> check(const SwiftParameters& p) {
  if (p.base_target_delay_ns == 0 || !(p.fs_min_cwnd > 0) || !(p.fs_max_cwnd > p.fs_min_cwnd)) {
    return fail(ErrorCode::invalid_argument,
                "Swift: base_target_delay and fs_min_cwnd are above 0, fs_max_cwnd above "
                "fs_min_cwnd");
  }
  if (!(p.ai > 0) || !(p.beta > 0) || !(p.max_mdf > 0) || !(p.max_mdf < 1)) {
    return fail(ErrorCode::invalid_argument,
                "Swift: ai and beta are above 0, max_mdf above 0 and below 1");
  }
  if (!(p.min_cwnd > 0) || !(p.max_cwnd >= p.min_cwnd) || !(p.max_cwnd >= 1) ||
      !(p.max_cwnd <= 65536)) {
    return fail(ErrorCode::invalid_argument,
                "Swift: min_cwnd is above 0, max_cwnd is not below it and 1 to 65536");
  }
  return {};
}

}  // namespace

std::string_view to_string(CongestionAlgorithm algorithm) {
  switch (algorithm) {
    case CongestionAlgorithm::none:
      return "none";
    case CongestionAlgorithm::dcqcn:
      return "dcqcn";
    case CongestionAlgorithm::swift:
      return "swift";
    case CongestionAlgorithm::custom:
      return "custom";
  }
  return "?";
}

DcqcnParameters at_line_rate(DcqcnParameters parameters, std::uint64_t line_rate) {
  if (parameters.rpg_max_rate == 0) {
    const std::uint64_t known = std::min(line_rate, kRateMax);
    parameters.rpg_max_rate =
        known == 0 ? kUnknownLineRate : std::max(known, parameters.rpg_min_rate);
  }
  return parameters;
}

Expected<void> check_congestion_config(const CongestionConfig& config) {
  switch (config.algorithm) {
    case CongestionAlgorithm::none:
      return {};
    case CongestionAlgorithm::dcqcn:
      return check(at_line_rate(config.dcqcn, 0));
    case CongestionAlgorithm::swift:
      return check(config.swift);
    case CongestionAlgorithm::custom:
      if (!config.make) {
        return fail(ErrorCode::invalid_argument,
                    "a congestion control of one's own needs a function that makes it");
      }
      return {};
  }
  return fail(ErrorCode::invalid_argument, "no such congestion control");
}

std::unique_ptr<CongestionControl> make_congestion_control(const CongestionConfig& config) {
  switch (config.algorithm) {
    case CongestionAlgorithm::none:
      return nullptr;
    case CongestionAlgorithm::dcqcn:
      return std::make_unique<Dcqcn>(config.dcqcn);
    case CongestionAlgorithm::swift:
      return std::make_unique<Swift>(config.swift);
    case CongestionAlgorithm::custom:
      return config.make();
  }
  return nullptr;
}

}  // namespace rockhopper::roce
