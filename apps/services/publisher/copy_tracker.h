// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/held_copies.h"
#include "apps/services/publisher/log_cursor.h"

namespace rockhopper::publisher {

/// What a reader makes of copies of records that come besides (PB-13 to PB-17): holds those whose
/// turn has not come, knows what is missing between and has to be READ, and whether copies come at
/// all.
class CopyTracker {
 public:
  [[nodiscard]] CopyCounters& counters() { return counters_; }
  [[nodiscard]] const CopyCounters& counters() const { return counters_; }
  /// Some may come.
  [[nodiscard]] bool is_expecting() const { return held_.capacity() != 0; }
  /// Copies bring what is new, so that the store itself is looked at with each heart-beat only.
  [[nodiscard]] bool do_come() const { return do_come_; }
  [[nodiscard]] bool empty() const { return held_.empty(); }
  [[nodiscard]] const Record& front() const { return held_.front(); }
  /// Something is missing from `position` on that no copy will bring.
  [[nodiscard]] bool is_gap(std::uint64_t position) const {
    return !held_.empty() || missed_ || position < missed_end_;
  }
  /// To where there is something to be READ, as far as copies say. Requires that one is held.
  [[nodiscard]] std::uint64_t last_hole() const { return held_.last_hole(); }
  /// What a round was to be for may still come.
  [[nodiscard]] bool are_awaited() const { return awaited_; }

  /// So many, of up to so many bytes, can be held from now on; 0: none come any more. Allocates.
  void expect(std::uint32_t count, std::uint32_t bytes);
  /// Those that are held are of another epoch, or of another way to the store.
  void forget();
  /// One has come that may be what it says.
  void on_good() {
    do_come_ = true;
    ++good_;
  }
  /// Keeps the copy, before which something is missing (PB-14). Returns true if that was not known:
  /// it is to be READ soon.
  [[nodiscard]] bool hold(const Record& copy, std::span<const std::byte> bytes);
  /// A copy is not kept. How far there is something to be READ, the control block says: it is to be
  /// believed more than whoever has sent the copy.
  void miss() { missed_ = true; }
  /// Calls `take(copy)`, which is to move the cursor, for those held whose turn it is.
  template <typename Take>
  void take_next(const LogCursor& cursor, const Take& take);
  /// What is before `position` cannot be READ any more: calls `take(copy)` for all of those held,
  /// and what is missing between is lost.
  template <typename Take>
  void take_before(std::uint64_t position, const LogCursor& cursor, const Take& take);
  /// A message has been READ.
  void on_read(const Record& record);

  /// A round of READs begins at `position`.
  void begin_round(std::uint64_t position);
  /// Calls `read(begin, end)` for what is missing before the last one that is held, from
  /// `position` on: each gap by itself, so that nothing is READ that is there; but those near each
  /// other in one piece, and so all that are left when `is_last()`. Requires that one is held.
  template <typename Read, typename IsLast>
  void for_each_gap(std::uint64_t position, const Read& read, const IsLast& is_last) const;
  /// The round has shown where the tail is, and `has_read` records.
  void end_round(std::uint64_t tail_position, bool has_read);
  /// The next round is later, and perhaps not needed.
  void await(bool awaited) { awaited_ = awaited; }

 private:
  /// Bytes between two gaps for which one READ more is not worth while.
  static constexpr std::uint64_t kNear = 1024;

  HeldCopies held_;
  CopyCounters counters_;
  std::uint64_t round_ = 0;  ///< how many have begun
  /// A copy was dropped: what it was of is to be READ, as soon as it is known how far that goes.
  bool missed_ = false;
  bool round_missed_ = false;     ///< the same, when the round began
  std::uint64_t missed_end_ = 0;  ///< so far that goes
  bool repairing_ = false;        ///< the round is for what copies have not brought
  bool do_come_ = false;
  bool awaited_ = false;
  std::uint64_t good_ = 0;
  std::uint64_t good_before_ = 0;  ///< when the round began
};

template <typename Take>
void CopyTracker::take_next(const LogCursor& cursor, const Take& take) {
  for (; !held_.empty(); held_.pop_front()) {
    const Record& copy = held_.front();
    if (copy.position < cursor.position()) continue;
    if (cursor.is_next(copy)) {
      take(copy);
    } else if (cursor.is_plausible(copy)) {
      return;
    } else {
      // It was not what the store has.
      counters_.invalid_sequence.add();
    }
  }
}

template <typename Take>
void CopyTracker::take_before(std::uint64_t position, const LogCursor& cursor, const Take& take) {
  for (; !held_.empty() && held_.front().position < position; held_.pop_front()) {
    const Record& copy = held_.front();
    if (copy.position >= cursor.position() && cursor.is_plausible(copy)) take(copy);
  }
}

template <typename Read, typename IsLast>
void CopyTracker::for_each_gap(std::uint64_t position, const Read& read,
                               const IsLast& is_last) const {
  std::uint64_t begin = position;
  std::uint64_t end = held_.front().position;
  for (std::size_t i = 1; i < held_.size(); ++i) {
    const Record& before = held_[i - 1];
    if (before.sequence + 1 == held_[i].sequence) continue;
    if (!is_last() && before.end() > end + kNear) {
      read(begin, end);
      begin = before.end();
    }
    end = held_[i].position;
  }
  read(begin, end);
}

inline void CopyTracker::on_read(const Record& record) {
  if (!do_come_ || record.is_padding()) return;
  while (!held_.empty() && held_.front().position < record.position) {
    held_.pop_front();
  }
  if (held_.empty() || held_.front().position != record.position) counters_.repaired.add();
}

}  // namespace rockhopper::publisher
