// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "stack/time_units.h"

namespace rockhopper::stack {

/// The queue in front of a link of limited rate: when each packet has left it. Packets leave in
/// order, and no more wait than there is room for. No allocation after its making.
class RateQueue {
 public:
  /// Without a rate it is not to be used.
  RateQueue(std::uint64_t bits_per_s, std::uint32_t packets)
      : bits_per_s_(bits_per_s), departures_(bits_per_s == 0 ? 0 : std::max(packets, 1u)) {}

  /// Puts a packet into it. Returns when it has been sent; nothing if there is no room.
  [[nodiscard]] std::optional<std::uint64_t> pass(std::uint32_t bytes, std::uint64_t now_ns) {
    const auto capacity = static_cast<std::uint32_t>(departures_.size());
    while (size_ > 0 && departures_[head_] <= now_ns) {
      head_ = (head_ + 1) % capacity;
      --size_;
    }
    if (size_ == capacity) return std::nullopt;
    free_ns_ = std::max(free_ns_, now_ns) + std::uint64_t{bytes} * 8 * kNsPerSecond / bits_per_s_;
    departures_[(head_ + size_) % capacity] = free_ns_;
    ++size_;
    return free_ns_;
  }

 private:
  std::uint64_t bits_per_s_;
  std::vector<std::uint64_t> departures_;  ///< a ring
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;
  std::uint64_t free_ns_ = 0;  ///< when the link has sent all
};

}  // namespace rockhopper::stack
