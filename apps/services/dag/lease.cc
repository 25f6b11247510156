// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/lease.h"

#include <algorithm>
#include <cassert>

#include "apps/services/dag/client_area.h"

namespace rockhopper::dag {

static_assert(kGraceRenewals == 2, "there are as many counts of hold()s");

std::uint64_t Lease::next_deadline_ns() const {
  if (!is_on()) return UINT64_MAX;
  return held_up_ ? ends_ns_ : std::min(ends_ns_, next_ns_);
}

void Lease::begin(std::uint64_t lease_ns, std::uint64_t now_ns) {
  assert(!is_on() && lease_ns > 0);
  // So many more than there have been that nothing which was known in the last connection holds.
  earlier_ += posted_ + kGraceRenewals;
  posted_ = complete_ = 0;
  holds_ = {};
  lease_ns_ = lease_ns;
  ends_ns_ = now_ns + lease_ns;
  next_ns_ = 0;
}

void Lease::on_posted(std::uint64_t now_ns) {
  assert(is_on() && !is_held());
  ++posted_;
  posted_ns_[posted_ % kRenewals] = now_ns;
  held_up_ = false;
  next_ns_ = now_ns + lease_ns_ / kRenewals;
}

void Lease::on_complete(std::uint64_t number) {
  const std::uint64_t since = (posted_ - number) & kNumberMask;
  assert(since <= posted_);
  complete_ = posted_ - since;
  if (since < kRenewals) ends_ns_ = posted_ns_[complete_ % kRenewals] + lease_ns_;
}

bool Lease::hold_up() {
  const bool is_new = !held_up_;
  held_up_ = true;
  return is_new;
}

/// As long as something is held the lease is renewed once at most: there are two counts to hold.
bool Lease::is_recent(std::uint64_t since) const {
  return since <= total() && total() - since < kGraceRenewals;
}

bool Lease::hold(std::uint64_t since) {
  if (!is_on() || !is_recent(since)) return false;
  // What was known before the last renewal holds up the next one: not again and again.
  if (since < total() && held_up_) return false;
  ++holds_[since % holds_.size()];
  return true;
}

void Lease::unhold(std::uint64_t since) {
  std::uint32_t& holds = holds_[since % holds_.size()];
  if (!is_on() || !is_recent(since) || holds == 0) return;
  // A renewal that waits for it is due.
  if (--holds == 0) held_up_ = false;
}

}  // namespace rockhopper::dag
