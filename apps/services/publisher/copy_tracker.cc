// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/copy_tracker.h"

namespace rockhopper::publisher {

void CopyTracker::expect(std::uint32_t count, std::uint32_t bytes) {
  held_.resize(count, bytes);
  if (count == 0) forget();
}

void CopyTracker::forget() {
  held_.clear();
  missed_ = round_missed_ = repairing_ = do_come_ = awaited_ = false;
  missed_end_ = 0;
}

bool CopyTracker::hold(const Record& copy, std::span<const std::byte> bytes) {
  // One that follows the last one, or comes late, shows nothing that is not known.
  const bool shows_gap = held_.empty() || copy.sequence > held_.back().sequence + 1;
  switch (held_.hold(copy, bytes, round_)) {
    case HeldCopies::Held::yes:
      counters_.held.add();
      if (shows_gap) counters_.gaps.add();
      return shows_gap;
    case HeldCopies::Held::already:
      counters_.duplicates.add();
      return false;
    case HeldCopies::Held::full:
      counters_.dropped.add();
      miss();
      return true;
  }
  return false;
}

void CopyTracker::begin_round(std::uint64_t position) {
  ++round_;
  repairing_ = is_gap(position);
  round_missed_ = std::exchange(missed_, false);
  good_before_ = good_;
  awaited_ = false;
}

void CopyTracker::end_round(std::uint64_t tail_position, bool has_read) {
  if (round_missed_) missed_end_ = tail_position;
  // A copy is sent when its record is there, and what is READ later has it before the tail.
  counters_.beyond_tail.add(held_.drop_beyond(tail_position, round_));
  // Something was new, and no copy has come: they do not reach us, or are too long.
  if (has_read && !repairing_ && good_ == good_before_) do_come_ = false;
}

}  // namespace rockhopper::publisher
