// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/successor_releases.h"

#include <algorithm>
#include <cassert>

namespace rockhopper::dag {

void SuccessorReleases::begin(std::span<const NodeLink> successors) {
  successors_ = successors;
  due_.clear();
  later_.clear();
  directed_.clear();
  told_ = batch_ = 0;
  for (std::uint32_t i = 0; i < successors.size(); ++i) {
    (successors[i].constraints.not_before_ns > 0 ? later_ : due_).push_back(i);
  }
  std::sort(later_.begin(), later_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return link(a).constraints.not_before_ns > link(b).constraints.not_before_ns;
  });
}

std::span<const std::uint32_t> SuccessorReleases::next() const {
  if (batch_ > 0) return {};
  return std::span(due_).subspan(told_, std::min(kBatch, due_.size() - told_));
}

std::optional<std::uint64_t> SuccessorReleases::next_delay_ns() const {
  if (later_.empty()) return std::nullopt;
  return link(later_.back()).constraints.not_before_ns;
}

void SuccessorReleases::on_time(std::uint64_t passed_ns) {
  assert(is_idle());
  due_.clear();
  told_ = 0;
  while (!later_.empty() && link(later_.back()).constraints.not_before_ns <= passed_ns) {
    due_.push_back(later_.back());
    later_.pop_back();
  }
}

}  // namespace rockhopper::dag
