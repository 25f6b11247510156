// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/watch.h"

#include <utility>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps {
namespace {

constexpr std::uint64_t kCheckIntervalNs = 20 * kNsPerMs;

}  // namespace

Watch::Watch(std::function<Expected<void>()> check, std::uint64_t timeout_ns)
    : check_(std::move(check)), timeout_ns_(timeout_ns) {}

void Watch::set_impatient(bool impatient) {
  impatient_ = impatient;
  last_progress_ns_ = steady_now_ns();
}

Expected<void> Watch::look() {
  if (stop_requested()) return tl::make_unexpected(interrupted());
  const std::uint64_t now_ns = steady_now_ns();
  if (std::exchange(progress_, false)) last_progress_ns_ = now_ns;
  if (impatient_ && now_ns - last_progress_ns_ > timeout_ns_) {
    return fail(ErrorCode::timeout, "no request has completed for {} s (--timeout)",
                static_cast<double>(timeout_ns_) * 1e-9);
  }
  if (now_ns < next_check_ns_) return {};
  next_check_ns_ = now_ns + kCheckIntervalNs;
  return check_();
}

}  // namespace rockhopper::apps
