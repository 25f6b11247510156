// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/pacing.h"

#include <algorithm>

#include "stack/link.h"
#include "stack/time_units.h"

namespace rockhopper::publisher {
namespace {

/// From which the interval is doubled.
constexpr std::uint64_t kPollFirstNs = 50;
/// READs of a round at most.
constexpr std::uint64_t kRoundReads = 3;

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

}  // namespace

void Pacing::start(std::uint64_t heartbeat_ns, std::uint64_t now_ns) {
  heartbeat_ns_ = heartbeat_ns;
  round_ns_ = now_ns;
}

std::uint64_t Pacing::next_ns() const { return std::max(round_ns_, allowed_ns_); }

void Pacing::on_reads(std::uint64_t count, std::uint64_t now_ns) {
  if (config_.reads_per_second == 0) return;
  allowed_ns_ = saturating_add(now_ns, count * kNsPerSecond / config_.reads_per_second);
}

void Pacing::plan(bool news, bool more, std::uint64_t now_ns) {
  poll_ns_ = news ? config_.poll_min_ns
                  : std::min(std::max(poll_ns_, kPollFirstNs) * 2, config_.poll_max_ns);
  std::uint64_t wait_ns = more ? 0 : poll_ns_;
  if (heartbeat_ns_ != 0) wait_ns = std::min(wait_ns, heartbeat_ns_);
  round_ns_ = saturating_add(now_ns, wait_ns);
}

void Pacing::await_heartbeat(std::uint64_t now_ns) {
  round_ns_ = saturating_add(now_ns, heartbeat_ns_ != 0 ? heartbeat_ns_ : config_.poll_max_ns);
}

void Pacing::await_copies(std::uint64_t now_ns) {
  const std::uint64_t wait_ns =
      heartbeat_ns_ != 0 ? std::min(heartbeat_ns_, config_.poll_max_ns) : config_.poll_max_ns;
  round_ns_ = saturating_add(now_ns, wait_ns);
}

void Pacing::hurry(std::uint64_t now_ns) { round_ns_ = std::min(round_ns_, now_ns); }

std::uint64_t Pacing::slowest_ns() const {
  return config_.reads_per_second == 0 ? 0 : kRoundReads * kNsPerSecond / config_.reads_per_second;
}

void Liveness::start(std::uint64_t patience_ns, std::uint64_t now_ns) {
  patience_ns_ = patience_ns;
  changed_ns_ = now_ns;
  dead_ = false;
}

bool Liveness::on_change(std::uint64_t now_ns) {
  changed_ns_ = now_ns;
  const bool was_dead = dead_;
  dead_ = false;
  return was_dead;
}

bool Liveness::check(std::uint64_t now_ns) {
  if (patience_ns_ == 0 || dead_) return false;
  if (!changed_ns_) changed_ns_ = now_ns;
  // Written so that no sum can wrap.
  dead_ = (now_ns - *changed_ns_) / kMissing >= patience_ns_;
  return dead_;
}

std::uint64_t Liveness::deadline_ns() const {
  if (patience_ns_ == 0 || dead_) return stack::kNever;
  if (!changed_ns_) return 0;
  if (patience_ns_ > UINT64_MAX / kMissing) return stack::kNever;
  return saturating_add(*changed_ns_, kMissing * patience_ns_);
}

}  // namespace rockhopper::publisher
