// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/held_copies.h"

#include <algorithm>
#include <cstring>

namespace rockhopper::publisher {

void HeldCopies::resize(std::uint32_t count, std::uint32_t bytes) {
  copies_.clear();
  copies_.set_capacity(count);
  slot_bytes_ = bytes;
  bytes_.assign(std::size_t{count} * bytes, std::byte{0});
  free_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    free_[i] = i;
  }
}

HeldCopies::Held HeldCopies::hold(const Record& record, std::span<const std::byte> bytes,
                                  std::uint64_t round) {
  // Most come behind all others.
  auto at = copies_.end();
  if (!copies_.empty() && record.position <= back().position) {
    at = std::lower_bound(
        copies_.begin(), copies_.end(), record.position,
        [](const Copy& copy, std::uint64_t position) { return copy.record.position < position; });
    if (at->record.position == record.position) return Held::already;
  }
  if (free_.empty() || bytes.size() > slot_bytes_) return Held::full;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  std::byte* to = bytes_.data() + slot * slot_bytes_;
  std::memcpy(to, bytes.data(), bytes.size());
  Copy copy{.record = record, .round = round, .slot = slot};
  copy.record.payload = {to + (record.payload.data() - bytes.data()), record.payload.size()};
  copies_.insert(at, copy);
  return Held::yes;
}

void HeldCopies::pop_front() {
  free_.push_back(copies_.front().slot);
  copies_.pop_front();
}

void HeldCopies::clear() {
  while (!empty()) {
    pop_front();
  }
}

std::uint64_t HeldCopies::last_hole() const {
  auto at = copies_.end() - 1;
  while (at != copies_.begin() && (at - 1)->record.sequence + 1 == at->record.sequence) {
    --at;
  }
  return at->record.position;
}

std::size_t HeldCopies::drop_beyond(std::uint64_t tail_position, std::uint64_t round) {
  const std::size_t before = size();
  if (empty() || back().end() <= tail_position) return 0;
  const auto kept = std::remove_if(copies_.begin(), copies_.end(), [&](const Copy& copy) {
    const bool beyond = copy.round < round && copy.record.end() > tail_position;
    if (beyond) free_.push_back(copy.slot);
    return beyond;
  });
  copies_.erase(kept, copies_.end());
  return before - size();
}

}  // namespace rockhopper::publisher
