// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/rate_limiter.h"

namespace rockhopper::apps::publish {

void RateLimiter::take(std::uint64_t now_ns) {
  if (per_s_ <= 0) return;
  if (taken_ == 0 || now_ns > due_ns_ + kPatienceNs) {
    start_ns_ = now_ns;
    taken_ = 0;
  }
  ++taken_;
  due_ns_ = start_ns_ + static_cast<std::uint64_t>(static_cast<double>(taken_) * 1e9 / per_s_);
}

}  // namespace rockhopper::apps::publish
