// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/recovery/selective_repeat.h"

#include <algorithm>

namespace rockhopper::roce {
namespace {

/// `a` - `b` of counters modulo 2^32.
std::int32_t later(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b); }

}  // namespace

SelectiveRepeat::SelectiveRepeat(const SelectiveRepeatParameters& parameters,
                                 HeldPacketBudget& budget)
    : parameters_(parameters), requests_(budget), responses_(budget) {}

void SelectiveRepeat::reset() {
  requests_.clear();
  responses_.clear();
  sent_.fill({});
  order_ = newest_ = 0;
  started_ = false;
  held_ = {};
  everything_ = true;
  request_.reset();
  skips_ = 0;
}

void SelectiveRepeat::on_sent(wire::Psn psn, bool again) {
  if (!started_) {
    started_ = true;
    base_ = psn;
  }
  if (request_ == psn) request_.reset();
  sent_[psn.value % kSent] = {.psn = psn, .order = ++order_, .again = again, .valid = true};
}

const SelectiveRepeat::Sent* SelectiveRepeat::find(wire::Psn psn) const {
  const Sent& sent = sent_[psn.value % kSent];
  return sent.valid && sent.psn == psn ? &sent : nullptr;
}

bool SelectiveRepeat::is_held(wire::Psn psn) const {
  const std::int32_t distance = wire::distance(base_, psn);
  return distance > 0 && distance <= static_cast<std::int32_t>(wire::Saeth::kBits) &&
         held_.test(static_cast<std::uint32_t>(distance - 1));
}

bool SelectiveRepeat::is_lost(wire::Psn psn) const {
  const Sent* sent = find(psn);
  return sent != nullptr && wire::distance(base_, psn) >= 0 && !is_held(psn) &&
         later(newest_, sent->order) >= static_cast<std::int32_t>(parameters_.reordering);
}

/// Takes no note of a packet that was sent more than once, as it is unknown which transmission has
/// arrived.
void SelectiveRepeat::note_arrival(wire::Psn psn) {
  const Sent* sent = find(psn);
  if (sent != nullptr && !sent->again && later(sent->order, newest_) > 0) newest_ = sent->order;
}

void SelectiveRepeat::on_received_before(wire::Psn psn) {
  const std::int32_t distance = wire::distance(base_, psn);
  if (!started_ || distance < 0) return;
  const auto count = static_cast<std::uint32_t>(distance);
  for (std::uint32_t i = 0; i < std::min(count, kSent); ++i) {
    note_arrival(base_ + i);
  }
  if (count > 0) {
    held_.shift(count);
    base_ = psn;
  }
}

bool SelectiveRepeat::on_selective_ack(wire::Psn psn, const wire::Saeth& held) {
  on_received_before(psn);
  if (!(base_ == psn)) return false;  // an old one
  const std::uint32_t length = held.length();
  for (std::uint32_t bit = 0; bit < length; ++bit) {
    if (held.test(bit) && !held_.test(bit)) {
      held_.set(bit);
      note_arrival(psn + (bit + 1));
    }
  }
  const std::uint32_t known = held_.length();
  for (std::uint32_t i = 0; i < known; ++i) {
    if (is_lost(psn + i)) return true;
  }
  return false;
}

bool SelectiveRepeat::on_response_skipped(wire::Psn psn) {
  skips_ = skips_ != 0 && skipped_ == psn ? skips_ + 1 : 1;
  skipped_ = psn;
  return skips_ >= parameters_.reordering;
}

void SelectiveRepeat::on_going_back(Reason reason, wire::Psn unacked) {
  switch (reason) {
    case Reason::everything:
      // A packet whose turn came and that found no receive request is no longer held.
      on_received_before(unacked);
      everything_ = true;
      newest_ = order_ + parameters_.reordering;
      break;
    case Reason::response:
      everything_ = false;
      request_ = unacked;
      break;
    case Reason::lost:
      everything_ = false;
      break;
  }
}

bool SelectiveRepeat::passes(wire::Psn psn) const {
  if (everything_) return is_held(psn);
  return request_ != psn && !is_lost(psn);
}

}  // namespace rockhopper::roce
