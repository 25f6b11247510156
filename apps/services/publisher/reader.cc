// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rockhopper::publisher {
namespace {

/// Rounds in a row without a valid record, before all up to the tail is given up.
constexpr unsigned kFruitlessRounds = 16;

}  // namespace

std::uint64_t Reader::buffer_bytes(const StoreInfo& info, const ReaderConfig& config) {
  const std::uint64_t longest = Record::size_of(info.message_max);
  const std::uint64_t batch = std::min<std::uint64_t>(
      config.batch_bytes / kRecordAlignment * kRecordAlignment, info.ring_bytes);
  return sizeof(ControlBlock) + std::max(batch, longest);
}

Reader::Reader(const ReaderConfig& config, Listener& listener) : StoreReader(config, listener) {
  if (config_.start.at == Start::At::sequence) next_sequence_ = config_.start.value;
}

Expected<void> Reader::open(const StoreInfo& info, std::uint64_t now_ns) {
  if (info.layout != layout_of(StoreKind::log)) {
    return fail(ErrorCode::unsupported, "store {} has layout {:#06x}, not {:#06x}", info.name,
                info.layout, layout_of(StoreKind::log));
  }
  if (!std::has_single_bit(info.ring_bytes) || info.ring_bytes < kRingMin ||
      info.ring_bytes > kRingMax || info.message_max > message_max(info.ring_bytes)) {
    return fail(ErrorCode::invalid_argument,
                "store {} cannot have a ring of {} bytes with messages of up to {}", info.name,
                info.ring_bytes, info.message_max);
  }
  if (buffer_.size() < buffer_bytes(info, config_)) {
    return fail(ErrorCode::exhausted, "store {} needs a buffer of {} bytes, not {}", info.name,
                buffer_bytes(info, config_), buffer_.size());
  }
  batch_bytes_ = std::max<std::uint64_t>(config_.batch_bytes / kRecordAlignment * kRecordAlignment,
                                         Record::kSizeMin);
  // What is known of a ring of another size is of no use, and such a one has another epoch.
  fruitless_ = 0;
  start(info, now_ns);
  return {};
}

std::span<const ReadRequest> Reader::next_round(std::uint64_t now_ns) {
  if (!is_due(now_ns)) return {};
  records_bytes_ = range_count_ = 0;
  ++round_;
  round_position_ = position_;
  begin_repair();
  if (known_ != Known::nothing && position_ < wanted_end()) request_records();
  request(0, buffer_.first(sizeof(ControlBlock)));
  return begin_round(now_ns);
}

void Reader::request_records() {
  // One piece, if READs are to be few.
  if (held_.empty() || fruitless_ > 0 || config_.reads_per_second != 0) {
    request_range(position_, wanted_end());
  } else {
    request_gaps();
  }
}

/// A batch at most: one READ, or two around the ring's end (PB-23).
void Reader::request_range(std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t offset = begin & (info_.ring_bytes - 1);
  const std::span<std::byte> room = buffer_.subspan(sizeof(ControlBlock) + records_bytes_);
  const bool possible = begin < end && request_count_ + 2 < kReadsMax && range_count_ < kRangesMax;
  const std::uint64_t most = std::min(
      {batch_bytes_ - std::min(batch_bytes_, records_bytes_), room.size(), info_.ring_bytes});
  const std::uint64_t bytes = possible ? std::min(end - begin, most) : 0;
  if (bytes == 0) return;
  const std::uint64_t first = std::min(bytes, info_.ring_bytes - offset);
  request(sizeof(ControlBlock) + offset, room.first(first));
  if (bytes > first) request(sizeof(ControlBlock), room.subspan(first, bytes - first));
  ranges_[range_count_++] = {.position = begin, .bytes = bytes, .at = records_bytes_};
  records_bytes_ += bytes;
}

std::optional<ControlBlock> Reader::take_control() {
  ControlBlock control;
  std::memcpy(&control, buffer_.data(), sizeof control);
  const bool plausible =
      control.magic == kStoreMagic && control.layout == info_.layout &&
      control.store_id == info_.id && control.ring_bytes == info_.ring_bytes &&
      static_cast<std::uint32_t>(control.epoch) != 0 && control.head_pos <= control.tail_pos &&
      control.tail_pos - control.head_pos <= info_.ring_bytes &&
      control.tail_pos % kRecordAlignment == 0 && control.head_pos % kRecordAlignment == 0;
  if (!plausible) {
    counters_.invalid_control.add();
    return std::nullopt;
  }
  return control;
}

void Reader::on_round(std::uint64_t now_ns) {
  if (request_count_ == 0) return;
  request_count_ = 0;
  counters_.rounds.add();
  counters_.read_bytes.add(records_bytes_);
  const auto control = take_control();
  if (!control) {
    pacing_.plan(false, false, now_ns);
    return;
  }
  note_heartbeat(*control, now_ns);
  bool news = records_bytes_ > 0;
  if (control->epoch != epoch_) {
    restart(*control);
    news = true;
  } else if (control->tail_pos < round_position_) {
    // Older than what has been read, which a network that repeats READs may bring; or what we have
    // begun with was none.
    counters_.invalid_control.add();
    if (++fruitless_ >= kFruitlessRounds) {
      forget_copies();
      begin_at(control->head_pos, control->tail_pos);
    }
  } else {
    news = news || control->tail_pos > tail_position_;
    tail_position_ = control->tail_pos;
    judge_copies(*control);
    take_round(*control);
    take_held();
  }
  if (!news) counters_.idle_rounds.add();
  settle();
  plan(news, now_ns);
  // Who has given up looks again whether there is something older that can be read, and copies are
  // news enough.
  if (control->epoch == epoch_ && control->tail_pos == position_ && !given_up_ && !copies_come_) {
    rest_at(position_);
  }
}

/// What is new can be READ at once, with the control block behind it that says the truth.
void Reader::expect(std::uint64_t position) {
  if (position <= tail_position_ || position % kRecordAlignment != 0) return;
  tail_position_ = position;
  settle();
}

void Reader::take_round(const ControlBlock& control) {
  // Nothing was there, or copies have brought it meanwhile.
  const bool needless = round_position_ == control.tail_pos || position_ > round_position_;
  // What has been read may reach beyond what is overwritten, or about to be.
  if (position_ < control.head_pos) lapped(control);
  if (records_bytes_ == 0) {
    // Nothing comes any more: then what is there can be read.
    if (given_up_ && control.tail_pos == position_) position_ = control.head_pos;
    given_up_ = false;
  } else if (take_ranges(control)) {
    fruitless_ = 0;
    given_up_ = false;
  } else if (!needless && ++fruitless_ >= kFruitlessRounds) {
    give_up(control);
  }
}

/// Delivers what the round has brought, and copies between. False: there is nothing of use.
bool Reader::take_ranges(const ControlBlock& control) {
  const std::span<const std::byte> all = buffer_.subspan(sizeof(ControlBlock), records_bytes_);
  bool any = false;
  for (const Range& range : std::span(ranges_).first(range_count_)) {
    take_held();
    const std::uint64_t end = std::min(range.position + range.bytes, control.tail_pos);
    if (position_ < range.position) break;
    if (position_ >= end) continue;
    const std::size_t at = range.at + (position_ - range.position);
    any = take_records(all.subspan(at, end - position_)) || any;
  }
  return any;
}

/// The publisher is faster than a round, or something is damaged.
void Reader::give_up(const ControlBlock& control) {
  counters_.given_up.add();
  known_ = Known::position;
  fruitless_ = 0;
  given_up_ = held_.empty();
  position_ = given_up_ ? control.tail_pos : held_.front().position;
}

void Reader::settle() {
  if (liveness_.dead()) {
    enter(ReaderState::publisher_dead);
  } else {
    enter(position_ < wanted_end() ? ReaderState::catchup : ReaderState::live);
  }
}

/// The first control block says where to begin (PB-32); that of another incarnation, that nothing
/// of the old one may be mixed with it (PB-27).
void Reader::restart(const ControlBlock& control) {
  const std::uint64_t old = epoch_;
  epoch_ = control.epoch;
  if (old == 0) {
    const bool at_tail = config_.start.at == Start::At::tail;
    begin_at(at_tail ? control.tail_pos : control.head_pos, control.tail_pos);
  } else {
    counters_.restarts.add();
    enter(ReaderState::epoch_changed);
    listener_.on_restart(old, epoch_);
    // What there is of the new one has not been seen.
    config_.start = {.at = Start::At::oldest};
    next_sequence_.reset();
    scanned_.reset();
    forget_copies();
    begin_at(control.head_pos, control.tail_pos);
  }
}

void Reader::begin_at(std::uint64_t position, std::uint64_t tail_position) {
  position_ = position;
  tail_position_ = tail_position;
  known_ = Known::position;
  fruitless_ = 0;
  given_up_ = false;
}

/// What was next is overwritten, or about to be (PB-21). The exact number that is lost is known
/// with the next record that is read.
void Reader::lapped(const ControlBlock& control) {
  counters_.lapped.add();
  enter(ReaderState::lapped);
  take_held_before(control.head_pos);
  if (position_ >= control.head_pos) return;
  position_ = control.head_pos;
  known_ = Known::position;
}

/// Delivers what of `bytes`, from position_ on, is valid. False: not even the first record is.
bool Reader::take_records(std::span<const std::byte> bytes) {
  bool any = false;
  while (!bytes.empty()) {
    const std::uint64_t to_end = info_.ring_bytes - (position_ & (info_.ring_bytes - 1));
    if (to_end < Record::kSizeMin) {
      const std::size_t step = std::min<std::size_t>(to_end, bytes.size());
      position_ += step;
      bytes = bytes.subspan(step);
      any = true;
      continue;
    }
    const auto [status, record] =
        Record::parse(bytes, {.position = position_,
                              .epoch = static_cast<std::uint32_t>(epoch_),
                              .sequence = known_ == Known::sequence ? record_sequence_ : 0,
                              .any_sequence = known_ == Known::position,
                              .message_max = info_.message_max});
    // The next round has from its start on what is cut off at the end of this one.
    if (status == RecordStatus::truncated && (any || grow_batch(bytes))) return true;
    if (status != RecordStatus::valid || record.size > to_end) {
      count_invalid(status);
      return any;
    }
    any = true;
    note_read(record);
    advance(record);
    bytes = bytes.subspan(std::min<std::size_t>(record.size, bytes.size()));
  }
  return any;
}

/// `record` is longer than what has been read of it: batches are as long from now on. False if they
/// are already. A buffer has room for the longest message, of which there may be none: batches that
/// long would only be slower.
bool Reader::grow_batch(std::span<const std::byte> record) {
  if (record.size() < Record::kHeaderSize) return false;
  const std::uint64_t wanted =
      std::min<std::uint64_t>(shape_of(record.data()).size, buffer_.size() - sizeof(ControlBlock));
  if (wanted <= batch_bytes_) return false;
  batch_bytes_ = wanted;
  return true;
}

/// The record at position_ is this one.
void Reader::advance(const Record& record) {
  if (!record.is_padding()) take(record);
  position_ = record.end();
  record_sequence_ = record.sequence + (record.is_padding() ? 0 : 1);
  known_ = Known::sequence;
}

void Reader::take(const Record& record) {
  if (!next_sequence_) {
    const bool early = config_.start.at == Start::At::time && record.time_ns < config_.start.value;
    if (early) {
      counters_.skipped.add();
      scanned_ = record.sequence + 1;
      return;
    }
    // What was overwritten between the last one that was too early and this one may be lost.
    next_sequence_ = scanned_.value_or(record.sequence);
  }
  if (record.sequence < *next_sequence_) {
    counters_.skipped.add();
    return;
  }
  if (record.sequence > *next_sequence_) {
    counters_.lost.add(record.sequence - *next_sequence_);
    listener_.on_lost(*next_sequence_, record.sequence - 1);
  }
  next_sequence_ = record.sequence + 1;
  counters_.messages.add();
  counters_.message_bytes.add(record.payload.size());
  listener_.on_message({.epoch = epoch_,
                        .sequence = record.sequence,
                        .time_ns = record.time_ns,
                        .type = record.type,
                        .payload = record.payload});
}

void Reader::count_invalid(RecordStatus status) {
  switch (status) {
    case RecordStatus::wrong_position:
      counters_.invalid_position.add();
      break;
    case RecordStatus::wrong_epoch:
      counters_.invalid_epoch.add();
      break;
    case RecordStatus::wrong_sequence:
      counters_.invalid_sequence.add();
      break;
    case RecordStatus::wrong_trailer:
      counters_.invalid_trailer.add();
      break;
    case RecordStatus::wrong_checksum:
      counters_.invalid_checksum.add();
      break;
    case RecordStatus::valid:
    case RecordStatus::truncated:
    case RecordStatus::wrong_length:
      counters_.invalid_length.add();
      break;
  }
}

void Reader::note_heartbeat(const ControlBlock& control, std::uint64_t now_ns) {
  if (control.heartbeat_ns == heartbeat_ && control.tail_pos == tail_position_ &&
      control.epoch == epoch_) {
    tick(now_ns);
    return;
  }
  heartbeat_ = control.heartbeat_ns;
  if (liveness_.on_change(now_ns)) counters_.revivals.add();
}

}  // namespace rockhopper::publisher
