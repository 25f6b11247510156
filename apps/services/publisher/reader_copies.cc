// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a reader does with copies of records (PB-13 to PB-17).
#include <algorithm>
#include <utility>

#include "apps/services/publisher/reader.h"

namespace rockhopper::publisher {
namespace {

/// Bytes between two gaps for which one READ more is not worth while.
constexpr std::uint64_t kNear = 1024;

}  // namespace

void Reader::expect_copies(std::uint32_t count, std::uint32_t bytes) {
  held_.resize(count, bytes);
  if (count == 0) forget_copies();
}

void Reader::on_copy(std::span<const std::byte> bytes, std::uint64_t now_ns) {
  if (state() == ReaderState::discover || held_.capacity() == 0) {
    copy_counters_.unwanted.add();
    return;
  }
  copy_counters_.received.add();
  const auto epoch = static_cast<std::uint32_t>(epoch_ != 0 ? epoch_ : info_.epoch);
  const auto [status, copy] = Record::parse_copy(bytes, epoch, info_.message_max);
  if (status != RecordStatus::valid) {
    count_invalid_copy(status);
    return;
  }
  if (known_ == Known::nothing || is_paused()) {
    copy_counters_.early.add();
    miss(now_ns);
    return;
  }
  if (copy.position < position_) {
    copy_counters_.duplicates.add();
    return;
  }
  if (!is_plausible(copy)) {
    copy_counters_.invalid_sequence.add();
    return;
  }
  copies_come_ = true;
  ++good_copies_;
  if (liveness_.on_change(now_ns)) counters_.revivals.add();
  if (is_next(copy)) {
    take_copy(copy);
    take_held();
  } else {
    hold(copy, bytes, now_ns);
  }
  if (awaits_copies_ && !is_gap() && position_ >= tail_position_) {
    // What a round was to be for has come.
    awaits_copies_ = false;
    pacing_.await_heartbeat(now_ns);
  }
  settle();
}

/// It can be in this ring, and there is room for all messages between what is next and it.
bool Reader::is_plausible(const Record& copy) const {
  const std::uint64_t to_end = info_.ring_bytes - (copy.position & (info_.ring_bytes - 1));
  if (copy.size > to_end) return false;
  if (known_ != Known::sequence) return true;
  if (copy.sequence == record_sequence_) return is_next(copy);
  return copy.sequence > record_sequence_ &&
         copy.sequence - record_sequence_ <= (copy.position - position_) / Record::kSizeMin;
}

/// Nothing is missing before it (PB-15): its number is the next one, and so is its place, at
/// position_ or, if it had no room there, where the ring begins again.
bool Reader::is_next(const Record& copy) const {
  if (known_ == Known::position) return copy.position == position_;
  const std::uint64_t to_end = info_.ring_bytes - (position_ & (info_.ring_bytes - 1));
  return copy.sequence == record_sequence_ &&
         copy.position == (copy.size > to_end ? position_ + to_end : position_);
}

/// What is missing before it is READ (PB-14).
void Reader::hold(const Record& copy, std::span<const std::byte> bytes, std::uint64_t now_ns) {
  // One that follows the last one, or comes late, shows nothing that is not known.
  const bool shows_gap = held_.empty() || copy.sequence > held_.back().sequence + 1;
  switch (held_.hold(copy, bytes, round_)) {
    case HeldCopies::Held::yes:
      copy_counters_.held.add();
      if (!shows_gap) return;
      copy_counters_.gaps.add();
      pacing_.hurry(now_ns);
      break;
    case HeldCopies::Held::already:
      copy_counters_.duplicates.add();
      break;
    case HeldCopies::Held::full:
      copy_counters_.dropped.add();
      miss(now_ns);
      break;
  }
}

/// A copy is not kept. How far there is something to be READ, the control block says: it is to be
/// believed more than whoever has sent the copy.
void Reader::miss(std::uint64_t now_ns) {
  missed_ = true;
  pacing_.hurry(now_ns);
}

void Reader::take_copy(const Record& copy) {
  position_ = copy.position;
  advance(copy);
  fruitless_ = 0;
  given_up_ = false;
  copy_counters_.taken.add();
}

/// Those whose turn it is.
void Reader::take_held() {
  for (; !held_.empty(); held_.pop_front()) {
    const Record& copy = held_.front();
    if (copy.position < position_) continue;
    if (is_next(copy)) {
      take_copy(copy);
    } else if (is_plausible(copy)) {
      return;
    } else {
      // It was not what the store has.
      copy_counters_.invalid_sequence.add();
    }
  }
}

/// What is before `position` cannot be READ any more: of what is held there all is delivered, and
/// what is missing between is lost.
void Reader::take_held_before(std::uint64_t position) {
  for (; !held_.empty() && held_.front().position < position; held_.pop_front()) {
    const Record& copy = held_.front();
    if (copy.position >= position_ && is_plausible(copy)) take_copy(copy);
  }
}

/// A message has been READ.
void Reader::note_read(const Record& record) {
  if (!copies_come_ || record.is_padding()) return;
  while (!held_.empty() && held_.front().position < record.position) held_.pop_front();
  if (held_.empty() || held_.front().position != record.position) copy_counters_.repaired.add();
}

/// To where there is something to be READ: what is missing, or all up to the tail.
std::uint64_t Reader::wanted_end() const {
  // What is said to be missing may end within a record, if whoever has said so is a forger.
  if (held_.empty() || fruitless_ > 0) return tail_position_;
  return held_.last_hole();
}

/// Something is missing that no copy will bring.
bool Reader::is_gap() const { return !held_.empty() || missed_ || position_ < missed_end_; }

void Reader::begin_repair() {
  repairing_ = is_gap();
  round_missed_ = std::exchange(missed_, false);
  good_before_ = good_copies_;
  awaits_copies_ = false;
}

/// Each gap by itself, so that nothing is READ that is there; but those near each other in one
/// piece, and so all that are too many.
void Reader::request_gaps() {
  std::uint64_t begin = position_;
  std::uint64_t end = held_.front().position;
  for (std::size_t i = 1; i < held_.size(); ++i) {
    const Record& before = held_[i - 1];
    if (before.sequence + 1 == held_[i].sequence) continue;
    if (range_count_ + 1 < kRangesMax && before.end() > end + kNear) {
      request_range(begin, end);
      begin = before.end();
    }
    end = held_[i].position;
  }
  request_range(begin, end);
}

/// With what the round has brought.
void Reader::judge_copies(const ControlBlock& control) {
  if (round_missed_) missed_end_ = control.tail_pos;
  // A copy is sent when its record is there, and what is READ later has it before the tail.
  copy_counters_.beyond_tail.add(held_.drop_beyond(control.tail_pos, round_));
  // Something was new, and no copy has come: they do not reach us, or are too long.
  if (records_bytes_ > 0 && !repairing_ && good_copies_ == good_before_) copies_come_ = false;
}

/// When the next round is.
void Reader::plan(bool news, std::uint64_t now_ns) {
  if (!copies_come_ || is_gap()) {
    const bool more = is_gap() || position_ < tail_position_;
    pacing_.plan(news, more && fruitless_ == 0, now_ns);
    return;
  }
  awaits_copies_ = position_ < tail_position_;
  if (awaits_copies_) {
    pacing_.await_copies(now_ns);
  } else {
    pacing_.await_heartbeat(now_ns);
  }
}

void Reader::forget_copies() {
  held_.clear();
  missed_ = round_missed_ = repairing_ = copies_come_ = awaits_copies_ = false;
  missed_end_ = 0;
}

void Reader::count_invalid_copy(RecordStatus status) {
  switch (status) {
    case RecordStatus::wrong_epoch:
      copy_counters_.invalid_epoch.add();
      break;
    case RecordStatus::wrong_trailer:
    case RecordStatus::wrong_checksum:
      copy_counters_.invalid_checksum.add();
      break;
    case RecordStatus::wrong_sequence:
    case RecordStatus::wrong_position:
      copy_counters_.invalid_sequence.add();
      break;
    case RecordStatus::valid:
    case RecordStatus::truncated:
    case RecordStatus::wrong_length:
      copy_counters_.invalid_length.add();
      break;
  }
}

}  // namespace rockhopper::publisher
