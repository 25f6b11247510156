// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/circular_buffer.hpp>

#include "apps/services/publisher/record.h"

namespace rockhopper::publisher {

/// Copies of records that have come before their turn (PB-17), in the order of their positions,
/// each once. Room for a fixed number: nothing is allocated but by resize().
class HeldCopies {
 public:
  enum class Held : std::uint8_t { yes, already, full };

  /// Forgets all, and has room for `count` of up to `bytes` each from now on. Control path.
  void resize(std::uint32_t count, std::uint32_t bytes);
  [[nodiscard]] std::size_t capacity() const { return copies_.capacity(); }
  [[nodiscard]] std::size_t size() const { return copies_.size(); }
  [[nodiscard]] bool empty() const { return copies_.empty(); }

  /// Keeps the record whose bytes these are; `round` is for drop_beyond().
  [[nodiscard]] Held hold(const Record& record, std::span<const std::byte> bytes,
                          std::uint64_t round);
  /// The one with the lowest position; its payload stays where it is until pop_front(). Requires
  /// that there is one.
  [[nodiscard]] const Record& front() const { return copies_.front().record; }
  /// `index` below size().
  [[nodiscard]] const Record& operator[](std::size_t index) const { return copies_[index].record; }
  [[nodiscard]] const Record& back() const { return copies_.back().record; }
  void pop_front();
  void clear();
  /// Where the last one begins that does not follow the one before: all missing messages are
  /// before it. Requires that there is one.
  [[nodiscard]] std::uint64_t last_hole() const;
  /// Forgets those of rounds before `round` that reach beyond `tail_position`. Returns how many.
  std::size_t drop_beyond(std::uint64_t tail_position, std::uint64_t round);

 private:
  struct Copy {
    Record record;
    std::uint64_t round = 0;
    std::uint32_t slot = 0;
  };

  boost::circular_buffer<Copy> copies_;
  std::vector<std::byte> bytes_;
  std::size_t slot_bytes_ = 0;
  std::vector<std::uint32_t> free_;  ///< slots
};

}  // namespace rockhopper::publisher
