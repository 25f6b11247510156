// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace rockhopper::dag {

/// How many nodes a worker has in hand, and how far they are. Each has one place at a time.
class Window {
 public:
  enum class Place : std::uint8_t {
    none,     ///< it is not in hand
    ahead,    ///< it is on its way to the executor
    inside,   ///< it counts in the window, and is not on its way to the executor
    waiting,  ///< it only waits for time, and does not count
  };
  /// As many may be Place::waiting.
  static constexpr std::size_t kWaitingMax = 4096;

  [[nodiscard]] std::size_t ahead() const { return at(Place::ahead); }
  /// Counts those that the window is taken up by.
  [[nodiscard]] std::size_t active() const { return at(Place::ahead) + at(Place::inside); }
  [[nodiscard]] std::size_t in_hand() const { return active() + at(Place::waiting); }
  [[nodiscard]] bool has_room_to_wait() const { return at(Place::waiting) < kWaitingMax; }

  /// Moves one whose place is `place`.
  void move(Place& place, Place to) {
    count(place, -1);
    count(to, 1);
    place = to;
  }

 private:
  [[nodiscard]] std::size_t at(Place place) const {
    return counts_[static_cast<std::size_t>(place)];
  }
  void count(Place place, int change) {
    if (place == Place::none) return;
    std::size_t& count = counts_[static_cast<std::size_t>(place)];
    assert(change > 0 || count > 0);
    count += static_cast<std::size_t>(change);
  }

  std::array<std::size_t, 4> counts_{};  ///< by place; that of Place::none stays 0
};

}  // namespace rockhopper::dag
