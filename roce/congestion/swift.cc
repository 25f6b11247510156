// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/congestion/swift.h"

#include <algorithm>
#include <cmath>

namespace rockhopper::roce {

Swift::Swift(const SwiftParameters& parameters) : parameters_(parameters) {
  const double least = 1 / std::sqrt(parameters.fs_max_cwnd);
  const double most = 1 / std::sqrt(parameters.fs_min_cwnd);
  fs_alpha_ = static_cast<double>(parameters.fs_range_ns) / (most - least);
  fs_beta_ = -fs_alpha_ * least;
  reset();
}

void Swift::reset() {
  cwnd_ = parameters_.max_cwnd;
  rtt_ns_ = 0;
  decreased_ = false;
  timeouts_ = 0;
}

double Swift::target_delay_ns() const {
  const double scaling = fs_alpha_ / std::sqrt(cwnd_) + fs_beta_;
  return static_cast<double>(parameters_.base_target_delay_ns) +
         std::clamp(scaling, 0.0, static_cast<double>(parameters_.fs_range_ns));
}

bool Swift::can_decrease(std::uint64_t now_ns) const {
  return !decreased_ || now_ns - last_decrease_ns_ >= rtt_ns_;
}

void Swift::set_cwnd(double packets) {
  cwnd_ = std::clamp(packets, parameters_.min_cwnd, parameters_.max_cwnd);
}

void Swift::decrease(double factor, std::uint64_t now_ns) {
  if (!can_decrease(now_ns)) return;
  set_cwnd(cwnd_ * factor);
  last_decrease_ns_ = now_ns;
  decreased_ = true;
}

void Swift::on_sent(std::uint64_t bytes, std::uint64_t /*now_ns*/) { packet_bytes_ = bytes; }

void Swift::on_ack(std::uint32_t packets, std::uint64_t rtt_ns, std::uint64_t now_ns) {
  timeouts_ = 0;
  if (rtt_ns == 0) return;
  rtt_ns_ = rtt_ns;
  const auto delay_ns = static_cast<double>(rtt_ns);
  const double target_ns = target_delay_ns();
  if (delay_ns < target_ns) {
    const double step = parameters_.ai * packets;
    set_cwnd(cwnd_ + (cwnd_ >= 1 ? step / cwnd_ : step));
    return;
  }
  decrease(
      std::max(1 - parameters_.beta * (delay_ns - target_ns) / delay_ns, 1 - parameters_.max_mdf),
      now_ns);
}

void Swift::on_loss(bool by_timeout, std::uint64_t now_ns) {
  if (by_timeout && ++timeouts_ >= parameters_.retx_reset_threshold) {
    set_cwnd(parameters_.min_cwnd);
    return;
  }
  decrease(1 - parameters_.max_mdf, now_ns);
}

std::uint64_t Swift::rate(std::uint64_t /*now_ns*/) {
  if (cwnd_ >= 1 || rtt_ns_ == 0 || packet_bytes_ == 0) return kUnlimited;
  // A packet each rtt / cwnd.
  const double rate =
      static_cast<double>(packet_bytes_) * 8e9 * cwnd_ / static_cast<double>(rtt_ns_);
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(rate), 1);
}

std::uint32_t Swift::window_packets() const {
  return std::max(static_cast<std::uint32_t>(cwnd_), 1u);
}

}  // namespace rockhopper::roce
