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
static_assert(ReadRanges::kMax + 2 == StoreReader::kReadsMax,
              "one may go around the ring's end, and the control block is READ besides");

void count_invalid(ReaderCounters& counters, RecordStatus status) {
  switch (status) {
    case RecordStatus::wrong_position:
      return counters.invalid_position.add();
    case RecordStatus::wrong_epoch:
      return counters.invalid_epoch.add();
    case RecordStatus::wrong_sequence:
      return counters.invalid_sequence.add();
    case RecordStatus::wrong_trailer:
      return counters.invalid_trailer.add();
    case RecordStatus::wrong_checksum:
      return counters.invalid_checksum.add();
    case RecordStatus::valid:
    case RecordStatus::truncated:
    case RecordStatus::wrong_length:
      return counters.invalid_length.add();
  }
}

void count_invalid(CopyCounters& counters, RecordStatus status) {
  switch (status) {
    case RecordStatus::wrong_epoch:
      return counters.invalid_epoch.add();
    case RecordStatus::wrong_trailer:
    case RecordStatus::wrong_checksum:
      return counters.invalid_checksum.add();
    case RecordStatus::wrong_sequence:
    case RecordStatus::wrong_position:
      return counters.invalid_sequence.add();
    case RecordStatus::valid:
    case RecordStatus::truncated:
    case RecordStatus::wrong_length:
      return counters.invalid_length.add();
  }
}

/// Whole records, and one at least.
std::uint64_t batch_of(const ReaderConfig& config) {
  return config.batch_bytes / kRecordAlignment * kRecordAlignment;
}

}  // namespace

std::uint64_t Reader::buffer_bytes(const StoreInfo& info, const ReaderConfig& config) {
  const std::uint64_t longest = Record::size_of(info.message_max);
  const std::uint64_t batch = std::min(batch_of(config), info.ring_bytes);
  return sizeof(ControlBlock) + std::max(batch, longest);
}

Reader::Reader(const ReaderConfig& config, Listener& listener)
    : StoreReader(config, listener), order_(config.start, listener, counters_) {}

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
  ranges_.set_batch(std::max<std::uint64_t>(batch_of(config_), Record::kSizeMin));
  cursor_.set_ring(info.ring_bytes);
  // What is known of a ring of another size is of no use, and such a one has another epoch.
  fruitless_ = 0;
  start(info, now_ns);
  return {};
}

std::span<const ReadRequest> Reader::next_round(std::uint64_t now_ns) {
  if (!is_due(now_ns)) return {};
  ranges_.clear();
  round_position_ = cursor_.position();
  copies_.begin_round(round_position_);
  if (cursor_.is_known() && round_position_ < wanted_end()) request_records();
  request(0, buffer_.first(sizeof(ControlBlock)));
  return begin_round(now_ns);
}

/// To where there is something to be READ: what is missing, or all up to the tail.
std::uint64_t Reader::wanted_end() const {
  // What is said to be missing may end within a record, if whoever has said so is a forger.
  return copies_.empty() || fruitless_ > 0 ? tail_position_ : copies_.last_hole();
}

void Reader::request_records() {
  // One piece, if READs are to be few.
  if (copies_.empty() || fruitless_ > 0 || config_.reads_per_second != 0) {
    return request_range(cursor_.position(), wanted_end());
  }
  copies_.for_each_gap(
      cursor_.position(),
      [this](std::uint64_t begin, std::uint64_t end) { request_range(begin, end); },
      [this] { return ranges_.is_nearly_full(); });
}

/// A batch at most: one READ, or two around the ring's end (PB-23).
void Reader::request_range(std::uint64_t begin, std::uint64_t end) {
  if (request_count_ + 2 >= kReadsMax) return;
  const std::uint64_t ring_bytes = info_.ring_bytes;
  const std::span<std::byte> room = buffer_.subspan(sizeof(ControlBlock) + ranges_.bytes());
  const auto range = ranges_.add(begin, end, std::min<std::uint64_t>(room.size(), ring_bytes));
  if (range.bytes == 0) return;
  const std::uint64_t first = std::min(range.bytes, cursor_.to_ring_end(begin));
  request(sizeof(ControlBlock) + ring_bytes - cursor_.to_ring_end(begin), room.first(first));
  if (range.bytes > first) request(sizeof(ControlBlock), room.subspan(first, range.bytes - first));
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
  counters_.read_bytes.add(ranges_.bytes());
  const auto control = take_control();
  if (!control) {
    pacing_.plan(false, false, now_ns);
    return;
  }
  note_heartbeat(*control, now_ns);
  bool news = !ranges_.empty();
  if (control->epoch != epoch_) {
    restart(*control);
    news = true;
  } else if (control->tail_pos < round_position_) {
    // Older than what has been read, which a network that repeats READs may bring; or what we have
    // begun with was none.
    counters_.invalid_control.add();
    if (++fruitless_ >= kFruitlessRounds) {
      copies_.forget();
      begin_at(control->head_pos, control->tail_pos);
    }
  } else {
    news = news || control->tail_pos > tail_position_;
    tail_position_ = control->tail_pos;
    copies_.end_round(control->tail_pos, !ranges_.empty());
    take_round(*control);
    take_held();
  }
  if (!news) counters_.idle_rounds.add();
  settle();
  plan(news, now_ns);
  // Who has given up looks again whether there is something older that can be read, and copies are
  // news enough.
  if (control->epoch == epoch_ && control->tail_pos == cursor_.position() && !given_up_ &&
      !copies_.do_come()) {
    rest_at(cursor_.position());
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
  const bool needless = round_position_ == control.tail_pos || cursor_.position() > round_position_;
  // What has been read may reach beyond what is overwritten, or about to be.
  if (cursor_.position() < control.head_pos) lapped(control);
  if (ranges_.empty()) {
    // Nothing comes any more: then what is there can be read.
    if (given_up_ && control.tail_pos == cursor_.position()) cursor_.move_to(control.head_pos);
    given_up_ = false;
  } else if (take_ranges(control)) {
    fruitless_ = 0;
    given_up_ = false;
  } else if (!needless && ++fruitless_ >= kFruitlessRounds) {
    give_up(control);
  }
}

/// Delivers what the round has brought, and copies between. Returns false if there is nothing of
/// use.
bool Reader::take_ranges(const ControlBlock& control) {
  const std::span<const std::byte> all = buffer_.subspan(sizeof(ControlBlock), ranges_.bytes());
  bool any = false;
  for (const ReadRanges::Range& range : ranges_.all()) {
    take_held();
    const std::uint64_t position = cursor_.position();
    const std::uint64_t end = std::min(range.end(), control.tail_pos);
    if (position < range.position) break;
    if (position >= end) continue;
    const std::size_t at = range.at + (position - range.position);
    any = take_records(all.subspan(at, end - position)) || any;
  }
  return any;
}

/// The publisher is faster than a round, or something is damaged.
void Reader::give_up(const ControlBlock& control) {
  counters_.given_up.add();
  fruitless_ = 0;
  given_up_ = copies_.empty();
  cursor_.move_to(given_up_ ? control.tail_pos : copies_.front().position);
}

void Reader::settle() {
  if (liveness_.dead()) {
    enter(ReaderState::publisher_dead);
  } else {
    enter(cursor_.position() < wanted_end() ? ReaderState::catchup : ReaderState::live);
  }
}

/// The first control block says where to begin (PB-32); that of another incarnation, that nothing
/// of the old one may be mixed with it (PB-27).
void Reader::restart(const ControlBlock& control) {
  const std::uint64_t old = epoch_;
  epoch_ = control.epoch;
  if (old == 0) {
    begin_at(order_.begins_at_tail() ? control.tail_pos : control.head_pos, control.tail_pos);
  } else {
    counters_.restarts.add();
    enter(ReaderState::epoch_changed);
    listener_.on_restart(old, epoch_);
    order_.restart();
    copies_.forget();
    begin_at(control.head_pos, control.tail_pos);
  }
}

void Reader::begin_at(std::uint64_t position, std::uint64_t tail_position) {
  cursor_.move_to(position);
  tail_position_ = tail_position;
  fruitless_ = 0;
  given_up_ = false;
}

/// What was next is overwritten, or about to be (PB-21). The exact number that is lost is known
/// with the next record that is read.
void Reader::lapped(const ControlBlock& control) {
  counters_.lapped.add();
  enter(ReaderState::lapped);
  copies_.take_before(control.head_pos, cursor_, [this](const Record& copy) { take_copy(copy); });
  if (cursor_.position() < control.head_pos) cursor_.move_to(control.head_pos);
}

/// Delivers what of `bytes`, from the cursor on, is valid. Returns false if not even the first
/// record is.
bool Reader::take_records(std::span<const std::byte> bytes) {
  bool any = false;
  while (!bytes.empty()) {
    const std::uint64_t to_end = cursor_.to_ring_end();
    if (to_end < Record::kSizeMin) {
      const std::size_t step = std::min<std::size_t>(to_end, bytes.size());
      cursor_.pass(step);
      bytes = bytes.subspan(step);
      any = true;
      continue;
    }
    const auto [status, record] = Record::parse(bytes, cursor_.expected(epoch_, info_.message_max));
    // The next round has from its start on what is cut off at the end of this one.
    if (status == RecordStatus::truncated && (any || grow_batch(bytes))) return true;
    if (status != RecordStatus::valid || record.size > to_end) {
      count_invalid(counters_, status);
      return any;
    }
    any = true;
    copies_.on_read(record);
    take(record);
    bytes = bytes.subspan(std::min<std::size_t>(record.size, bytes.size()));
  }
  return any;
}

/// `record` is longer than what has been read of it: batches are as long from now on. Returns false
/// if they are already. A buffer has room for the longest message, of which there may be none:
/// batches that long would only be slower.
bool Reader::grow_batch(std::span<const std::byte> record) {
  if (record.size() < Record::kHeaderSize) return false;
  const std::uint64_t wanted =
      std::min<std::uint64_t>(shape_of(record.data()).size, buffer_.size() - sizeof(ControlBlock));
  if (wanted <= ranges_.batch_bytes()) return false;
  ranges_.set_batch(wanted);
  return true;
}

/// The next record is this one.
void Reader::take(const Record& record) {
  if (!record.is_padding()) order_.take(record, epoch_);
  cursor_.advance(record);
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

/// When the next round is.
void Reader::plan(bool news, std::uint64_t now_ns) {
  const bool is_gap = copies_.is_gap(cursor_.position());
  const bool is_behind = cursor_.position() < tail_position_;
  if (!copies_.do_come() || is_gap) {
    pacing_.plan(news, (is_gap || is_behind) && fruitless_ == 0, now_ns);
    return;
  }
  copies_.await(is_behind);
  if (is_behind) {
    pacing_.await_copies(now_ns);
  } else {
    pacing_.await_heartbeat(now_ns);
  }
}

// Copies.

void Reader::on_copy(std::span<const std::byte> bytes, std::uint64_t now_ns) {
  if (state() == ReaderState::discover || !copies_.is_expecting()) {
    return copies_.counters().unwanted.add();
  }
  copies_.counters().received.add();
  const auto epoch = static_cast<std::uint32_t>(epoch_ != 0 ? epoch_ : info_.epoch);
  const auto [status, copy] = Record::parse_copy(bytes, epoch, info_.message_max);
  if (status != RecordStatus::valid) return count_invalid(copies_.counters(), status);
  if (!cursor_.is_known() || is_paused()) {
    copies_.counters().early.add();
    copies_.miss();
    return pacing_.hurry(now_ns);
  }
  if (copy.position < cursor_.position()) {
    copies_.counters().duplicates.add();
    return;
  }
  if (!cursor_.is_plausible(copy)) {
    copies_.counters().invalid_sequence.add();
    return;
  }
  copies_.on_good();
  if (liveness_.on_change(now_ns)) counters_.revivals.add();
  if (cursor_.is_next(copy)) {
    take_copy(copy);
    take_held();
  } else if (copies_.hold(copy, bytes)) {
    pacing_.hurry(now_ns);
  }
  if (copies_.are_awaited() && !copies_.is_gap(cursor_.position()) &&
      cursor_.position() >= tail_position_) {
    // What a round was to be for has come.
    copies_.await(false);
    pacing_.await_heartbeat(now_ns);
  }
  settle();
}

void Reader::take_copy(const Record& copy) {
  take(copy);
  fruitless_ = 0;
  given_up_ = false;
  copies_.counters().taken.add();
}

/// Those copies whose turn it is.
void Reader::take_held() {
  copies_.take_next(cursor_, [this](const Record& copy) { take_copy(copy); });
}

}  // namespace rockhopper::publisher
