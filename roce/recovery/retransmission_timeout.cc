// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/recovery/retransmission_timeout.h"

#include <algorithm>

namespace rockhopper::roce {
namespace {

/// After so many doublings any timeout is above any limit (8.8 * 10^12 ns).
constexpr std::uint32_t kExpiriesMax = 40;

}  // namespace

void RetransmissionTimeout::reset() {
  timing_ = false;
  smoothed_ns_ = variation_ns_ = 0;
  expiries_ = 0;
}

void RetransmissionTimeout::on_sent(wire::Psn psn, bool again, std::uint64_t now_ns) {
  if (again && timing_ && psn == timed_) timing_ = false;
  if (!again && !timing_) {
    timing_ = true;
    timed_ = psn;
    timed_at_ns_ = now_ns;
  }
}

void RetransmissionTimeout::on_acknowledged(wire::Psn psn, std::uint64_t now_ns) {
  if (timing_ && wire::distance(timed_, psn) >= 0) {
    timing_ = false;
    // RFC 6298, section 5: not before, or a longer round trip would never be seen.
    expiries_ = 0;
    take_sample(std::max<std::uint64_t>(1, now_ns - timed_at_ns_));
  }
}

/// RFC 6298, 2.2 and 2.3.
void RetransmissionTimeout::take_sample(std::uint64_t rtt_ns) {
  if (smoothed_ns_ == 0) {
    smoothed_ns_ = rtt_ns;
    variation_ns_ = rtt_ns / 2;
    return;
  }
  const std::uint64_t error_ns =
      rtt_ns > smoothed_ns_ ? rtt_ns - smoothed_ns_ : smoothed_ns_ - rtt_ns;
  variation_ns_ = (3 * variation_ns_ + error_ns) / 4;
  smoothed_ns_ = (7 * smoothed_ns_ + rtt_ns) / 8;
}

std::uint64_t RetransmissionTimeout::value_ns(std::uint64_t limit_ns) const {
  if (smoothed_ns_ == 0) return limit_ns;
  const std::uint64_t first_ns = std::max(smoothed_ns_ + 4 * variation_ns_, parameters_.min_ns);
  return first_ns >= limit_ns >> expiries_ ? limit_ns : first_ns << expiries_;
}

bool RetransmissionTimeout::on_expired(std::uint64_t limit_ns) {
  const bool retry = value_ns(limit_ns) >= limit_ns;
  expiries_ = std::min(expiries_ + 1, kExpiriesMax);
  return retry;
}

}  // namespace rockhopper::roce
