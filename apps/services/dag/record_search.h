// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "apps/services/dag/entry.h"
#include "apps/services/dag/record.h"

namespace rockhopper::dag {

/// The way of an operation to its record: the entries that may lead there, of which several are
/// READ together, as there is room for them (DG-7), and how often that was in vain.
class RecordSearch {
 public:
  /// Records that are READ together for one key.
  static constexpr std::size_t kCandidatesMax = 8;

  /// A READ of a batch.
  struct Read {
    const Entry* entry = nullptr;
    std::uint32_t length = 0;
    std::size_t offset = 0;  ///< in the room for all of them
  };

  /// Returns the one that has been found, or is the only one that may be the record.
  [[nodiscard]] const Entry& entry() const { return entry_; }
  /// All candidates have been READ.
  [[nodiscard]] bool is_exhausted() const { return next_ + batch_ >= count_; }
  /// Returns the candidate that the READ number `index` of the batch is of.
  [[nodiscard]] const Entry& of_batch(std::size_t index) const {
    assert(index < batch_);
    return candidates_[next_ + index];
  }

  /// Nothing is known.
  void reset() { *this = {}; }
  /// `fill(room)` writes candidates, and returns how many. Returns false if there is none.
  template <typename Fill>
  [[nodiscard]] bool look_up(const Fill& fill) {
    count_ = fill(std::span<Entry>(candidates_));
    next_ = batch_ = 0;
    return count_ > 0;
  }
  /// There is one candidate.
  void set_only(const Entry& entry) {
    entry_ = candidates_[0] = entry;
    count_ = 1;
    next_ = batch_ = 0;
  }
  /// It is this one, and changes while it is READ.
  void set_torn(const Entry& entry) { entry_ = entry; }
  /// It is this one, whatever the others are. Returns true if the client's own map has led there:
  /// neither has the server been asked, nor is it found once more.
  bool set_found(const Entry& entry) {
    entry_ = entry;
    return !std::exchange(is_known_, true);
  }
  /// Begins the next batch, of as many READs as fit into `room` bytes; at least one. Calls
  /// `add(read)` for each. Only the heads of records are READ if `heads` is true, and of one that
  /// is too long for the room: it decides whether that matters. Requires that there is one left.
  template <typename Add>
  void next_batch(std::size_t room, bool heads, const Add& add);
  /// What is known to be the record is to be READ again.
  void repeat() { set_only(Entry(entry_)); }
  /// The same, as it was torn. Returns how often that has happened.
  std::uint16_t on_torn() {
    repeat();
    return ++torn_;
  }
  /// The server is asked for the entry. Returns how often that has happened.
  std::uint8_t on_asked() {
    is_known_ = true;
    return ++lookups_;
  }

 private:
  std::array<Entry, kCandidatesMax> candidates_{};
  Entry entry_{};
  std::size_t count_ = 0;  ///< of candidates_
  std::size_t next_ = 0;   ///< candidates before it have been READ; <= count_
  std::size_t batch_ = 0;  ///< from there on, being READ
  bool is_known_ = false;  ///< it was found, or the server has been asked
  std::uint8_t lookups_ = 0;
  std::uint16_t torn_ = 0;
};

template <typename Add>
void RecordSearch::next_batch(std::size_t room, bool heads, const Add& add) {
  next_ += batch_;
  batch_ = 0;
  assert(next_ < count_ && room >= kHeadBytes);
  std::size_t offset = 0;
  for (std::size_t i = next_; i < count_; ++i) {
    const Entry& entry = candidates_[i];
    std::size_t length = entry.length;
    if (heads || length > room) length = std::min<std::size_t>(length, kHeadBytes);
    if (length > room - offset) break;
    add(Read{.entry = &entry, .length = static_cast<std::uint32_t>(length), .offset = offset});
    offset = std::min<std::size_t>(offset + aligned_8(length), room);
    ++batch_;
  }
  assert(batch_ > 0);
}

}  // namespace rockhopper::dag
