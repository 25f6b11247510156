// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/congestion/dcqcn.h"

#include <algorithm>

namespace rockhopper::roce {

Dcqcn::Dcqcn(const DcqcnParameters& parameters) : parameters_(at_line_rate(parameters, 0)) {
  reset();
}

void Dcqcn::reset() {
  limited_ = false;
  current_ = target_ = static_cast<double>(parameters_.rpg_max_rate);
  alpha_ = parameters_.initial_alpha_value;
  bytes_ = 0;
  byte_increases_ = time_increases_ = 0;
  ignores_cnps_until_ns_ = 0;
}

void Dcqcn::on_loss(bool by_timeout, std::uint64_t now_ns) {
  if (!by_timeout) ignores_cnps_until_ns_ = now_ns + parameters_.nak_cnp_period_ns;
}

void Dcqcn::on_cnp(std::uint64_t now_ns) {
  if (now_ns < ignores_cnps_until_ns_) return;
  advance(now_ns);
  if (limited_ && now_ns < last_reduction_ns_ + parameters_.rate_reduce_monitor_period_ns) return;
  limited_ = true;
  last_reduction_ns_ = now_ns;
  target_ = current_;
  current_ = std::max(current_ * (1 - alpha_ / 2), static_cast<double>(parameters_.rpg_min_rate));
  alpha_ = (1 - parameters_.dce_tcp_g) * alpha_ + parameters_.dce_tcp_g;
  bytes_ = 0;
  byte_increases_ = time_increases_ = 0;
  next_increase_ns_ = now_ns + parameters_.rpg_time_reset_ns;
  next_alpha_ns_ = now_ns + parameters_.dce_tcp_rtt_ns;
}

void Dcqcn::on_sent(std::uint64_t bytes, std::uint64_t now_ns) {
  advance(now_ns);
  if (!limited_) return;
  bytes_ += bytes;
  while (limited_ && bytes_ >= parameters_.rpg_byte_reset) {
    bytes_ -= parameters_.rpg_byte_reset;
    ++byte_increases_;
    increase();
  }
}

std::uint64_t Dcqcn::rate(std::uint64_t now_ns) {
  advance(now_ns);
  return limited_ ? static_cast<std::uint64_t>(current_) : kUnlimited;
}

/// What the two timers have done since the last call, in the order of their times.
void Dcqcn::advance(std::uint64_t now_ns) {
  while (limited_ && std::min(next_increase_ns_, next_alpha_ns_) <= now_ns) {
    if (next_alpha_ns_ <= next_increase_ns_) {
      next_alpha_ns_ += parameters_.dce_tcp_rtt_ns;
      alpha_ *= 1 - parameters_.dce_tcp_g;
    } else {
      next_increase_ns_ += parameters_.rpg_time_reset_ns;
      ++time_increases_;
      increase();
    }
  }
}

void Dcqcn::increase() {
  const std::uint32_t threshold = parameters_.rpg_threshold;
  const auto [least, most] = std::minmax(byte_increases_, time_increases_);
  if (least > threshold) {
    // Hyper increase: by a step more each time.
    target_ += static_cast<double>(parameters_.rpg_hai_rate) * (least - threshold);
  } else if (most >= threshold) {
    target_ += static_cast<double>(parameters_.rpg_ai_rate);
  }  // else fast recovery: halfway back to where it was
  const auto line = static_cast<double>(parameters_.rpg_max_rate);
  target_ = std::min(target_, line);
  current_ = (current_ + target_) / 2;
  // Halving the distance would never end.
  if (current_ >= line * 0.999) reset();
}

}  // namespace rockhopper::roce
