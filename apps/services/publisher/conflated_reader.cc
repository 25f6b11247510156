// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/conflated_reader.h"

#include <algorithm>
#include <cstring>

#include "apps/services/publisher/conflated_store.h"

namespace rockhopper::publisher {

std::uint64_t ConflatedReader::buffer_bytes(const StoreInfo& info, const ReaderConfig& config) {
  const std::uint64_t slot_bytes = Slot::size_of(info.message_max);
  const std::uint64_t slots = std::max<std::uint64_t>(
      1, std::min<std::uint64_t>(config.batch_bytes, info.ring_bytes) / slot_bytes);
  return sizeof(ControlBlock) + slots * slot_bytes;
}

ConflatedReader::ConflatedReader(const ReaderConfig& config, Listener& listener)
    : StoreReader(config, listener) {}

Expected<void> ConflatedReader::open(const StoreInfo& info, std::uint64_t now_ns) {
  if (info.layout != layout_of(StoreKind::conflated)) {
    return fail(ErrorCode::unsupported, "store {} has layout {:#06x}, not {:#06x}", info.name,
                info.layout, layout_of(StoreKind::conflated));
  }
  const std::uint64_t slot_bytes = Slot::size_of(info.message_max);
  if (info.message_max > Slot::kPayloadMax || info.ring_bytes == 0 ||
      info.ring_bytes % slot_bytes != 0 ||
      info.ring_bytes / slot_bytes > ConflatedStore::kMaxKeys) {
    return fail(ErrorCode::invalid_argument,
                "store {} cannot have slots of {} bytes with messages of up to {}", info.name,
                info.ring_bytes, info.message_max);
  }
  if (buffer_.size() < buffer_bytes(info, config_)) {
    return fail(ErrorCode::exhausted, "store {} needs a buffer of {} bytes, not {}", info.name,
                buffer_bytes(info, config_), buffer_.size());
  }
  if (info.ring_bytes != info_.ring_bytes || slot_bytes != slot_bytes_) {
    // Another store, which has another epoch.
    wanted_.assign(info.ring_bytes / slot_bytes, 0);
  }
  slot_bytes_ = slot_bytes;
  scanning_ = false;
  start(info, now_ns);
  return {};
}

std::span<const ReadRequest> ConflatedReader::next_round(std::uint64_t now_ns) {
  if (!is_due(now_ns)) return {};
  slots_bytes_ = 0;
  if (scanning_) {
    const std::span<std::byte> room = buffer_.subspan(sizeof(ControlBlock));
    slots_bytes_ =
        std::min<std::uint64_t>(room.size() / slot_bytes_ * slot_bytes_, used_bytes_ - scan_at_);
    request(sizeof(ControlBlock) + scan_at_, room.first(slots_bytes_));
  }
  request(0, buffer_.first(sizeof(ControlBlock)));
  return begin_round(now_ns);
}

std::optional<ControlBlock> ConflatedReader::take_control() {
  ControlBlock control;
  std::memcpy(&control, buffer_.data(), sizeof control);
  const bool plausible = control.magic == kStoreMagic && control.layout == info_.layout &&
                         control.store_id == info_.id && control.ring_bytes == info_.ring_bytes &&
                         static_cast<std::uint32_t>(control.epoch) != 0 &&
                         control.head_pos == slot_bytes_ && control.tail_pos <= info_.ring_bytes &&
                         control.tail_pos % slot_bytes_ == 0;
  if (!plausible) {
    counters_.invalid_control.add();
    return std::nullopt;
  }
  return control;
}

void ConflatedReader::on_round(std::uint64_t now_ns) {
  if (request_count_ == 0) return;
  request_count_ = 0;
  counters_.rounds.add();
  counters_.read_bytes.add(slots_bytes_);
  const auto control = take_control();
  if (!control) {
    pacing_.plan(false, false, now_ns);
    return;
  }
  const bool is_new = control->epoch != epoch_;
  if (is_new) restart(*control);
  const bool news =
      is_new || slots_bytes_ > 0 || control->tail_seq > changes_ || control->tail_pos > used_bytes_;
  if (news || control->heartbeat_ns != heartbeat_) {
    if (liveness_.on_change(now_ns)) counters_.revivals.add();
    heartbeat_ = control->heartbeat_ns;
  } else {
    tick(now_ns);
  }
  if (!is_new && slots_bytes_ > 0) take_slots();
  // What was being written is looked at again, but not at once: its writer may be gone.
  const bool again = slots_bytes_ > 0 && !scanning_ && !scan_whole_;
  changes_ = std::max(changes_, control->tail_seq);
  used_bytes_ = std::max(used_bytes_, control->tail_pos);
  begin_scan();
  if (!news) counters_.idle_rounds.add();
  if (!liveness_.dead()) enter(scanning_ ? ReaderState::catchup : ReaderState::live);
  pacing_.plan(news && !again, scanning_ && !again, now_ns);
  // Of a control block with news the one word may be older than the other: one without is needed.
  if (!news && !scanning_) rest_at(changes_);
}

void ConflatedReader::begin_scan() {
  // Of the two the one may be newer than the other.
  const bool more = changes_ > read_changes_ || used_bytes_ > read_bytes_;
  if (scanning_ || !more || used_bytes_ == 0) return;
  scanning_ = true;
  scan_changes_ = changes_;
  scan_at_ = 0;
  scan_whole_ = true;
}

void ConflatedReader::expect(std::uint64_t position) {
  changes_ = std::max(changes_, position);
  begin_scan();
}

/// Another incarnation (PB-27), or the first one: where to begin (PB-32).
void ConflatedReader::restart(const ControlBlock& control) {
  const std::uint64_t old = epoch_;
  epoch_ = control.epoch;
  std::uint64_t first = 0;
  if (old != 0) {
    counters_.restarts.add();
    enter(ReaderState::epoch_changed);
    listener_.on_restart(old, epoch_);
    config_.start = {.at = Start::At::oldest};
  } else if (config_.start.at == Start::At::tail) {
    first = control.tail_seq;
  } else if (config_.start.at == Start::At::sequence) {
    first = config_.start.value;
  }
  std::fill(wanted_.begin(), wanted_.end(), first);
  changes_ = read_changes_ = used_bytes_ = read_bytes_ = 0;
  scanning_ = false;
}

void ConflatedReader::take_slots() {
  std::span<const std::byte> bytes = buffer_.subspan(sizeof(ControlBlock), slots_bytes_);
  for (; !bytes.empty(); bytes = bytes.subspan(slot_bytes_), scan_at_ += slot_bytes_) {
    const auto [status, slot] = Slot::parse(bytes.first(slot_bytes_),
                                            static_cast<std::uint32_t>(epoch_), info_.message_max);
    if (status == Slot::Status::valid) {
      take(slot, scan_at_ / slot_bytes_);
    } else {
      scan_whole_ = false;
      (status == Slot::Status::wrong ? counters_.invalid_checksum : counters_.invalid_sequence)
          .add();
    }
  }
  if (scan_at_ < used_bytes_) return;
  scanning_ = false;
  if (!scan_whole_) return;
  read_changes_ = scan_changes_;
  read_bytes_ = scan_at_;
}

void ConflatedReader::take(const Slot& slot, std::size_t index) {
  const bool early = config_.start.at == Start::At::time && slot.time_ns < config_.start.value;
  if (slot.change < wanted_[index]) return;
  wanted_[index] = slot.change + 1;
  if (early) {
    counters_.skipped.add();
    return;
  }
  counters_.messages.add();
  counters_.message_bytes.add(slot.payload.size());
  listener_.on_message({.epoch = epoch_,
                        .sequence = slot.change,
                        .time_ns = slot.time_ns,
                        .key = slot.key,
                        .type = slot.type,
                        .payload = slot.payload});
}

}  // namespace rockhopper::publisher
