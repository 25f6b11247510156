// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>

#include "apps/services/publisher/record.h"

namespace rockhopper::publisher {

/// Where a reader of a log stands in the ring, and what it knows of the record there.
class LogCursor {
 public:
  enum class Known : std::uint8_t {
    nothing,   ///< not even the position: the control block has to be read first
    position,  ///< it is the oldest or the newest, and has the number that it says
    sequence,  ///< it comes behind the last one that has been read
  };

  [[nodiscard]] bool is_known() const { return known_ != Known::nothing; }
  /// Returns the position of the next record.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  /// Counts the bytes from there, or from `position`, to the ring's end.
  [[nodiscard]] std::uint64_t to_ring_end() const { return to_ring_end(position_); }
  [[nodiscard]] std::uint64_t to_ring_end(std::uint64_t position) const {
    return ring_bytes_ - (position & (ring_bytes_ - 1));
  }
  /// Returns what is known of the record there.
  [[nodiscard]] ExpectedRecord expected(std::uint64_t epoch, std::uint32_t message_max) const {
    return {.position = position_,
            .epoch = static_cast<std::uint32_t>(epoch),
            .sequence = known_ == Known::sequence ? sequence_ : 0,
            .any_sequence = known_ == Known::position,
            .message_max = message_max};
  }
  /// Nothing is missing before the copy (PB-15): its number is the next one, and so is its place,
  /// here or, if it had no room here, where the ring begins again.
  [[nodiscard]] bool is_next(const Record& copy) const {
    if (known_ == Known::position) return copy.position == position_;
    const std::uint64_t to_end = to_ring_end();
    return copy.sequence == sequence_ &&
           copy.position == (copy.size > to_end ? position_ + to_end : position_);
  }
  /// The copy can be in this ring, and there is room for all messages between here and it.
  [[nodiscard]] bool is_plausible(const Record& copy) const {
    if (copy.size > to_ring_end(copy.position)) return false;
    if (known_ != Known::sequence) return true;
    if (copy.sequence == sequence_) return is_next(copy);
    return copy.sequence > sequence_ &&
           copy.sequence - sequence_ <= (copy.position - position_) / Record::kSizeMin;
  }

  /// The ring has so many bytes, a power of two. Where it stands stays.
  void set_ring(std::uint64_t bytes) {
    assert(bytes != 0 && (bytes & (bytes - 1)) == 0);
    ring_bytes_ = bytes;
  }
  /// Goes to a position of which nothing else is known.
  void move_to(std::uint64_t position) {
    position_ = position;
    known_ = Known::position;
  }
  /// Passes over so many bytes, which are no record: at the ring's end.
  void pass(std::uint64_t bytes) {
    assert(bytes <= to_ring_end());
    position_ += bytes;
  }
  /// The next record is this one, here or ahead.
  void advance(const Record& record) {
    position_ = record.end();
    sequence_ = record.sequence + (record.is_padding() ? 0 : 1);
    known_ = Known::sequence;
  }

 private:
  std::uint64_t ring_bytes_ = 1;
  std::uint64_t position_ = 0;  ///< of the next record
  std::uint64_t sequence_ = 0;  ///< its number, with Known::sequence
  Known known_ = Known::nothing;
};

}  // namespace rockhopper::publisher
