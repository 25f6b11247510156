// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/updating.h"

#include <algorithm>
#include <cstddef>

#include "apps/services/dag/client_parts.h"
#include "apps/services/dag/requesting.h"

namespace rockhopper::dag {
namespace {

constexpr std::uint32_t kBackoffMax = 8;  ///< doublings

}  // namespace

bool Operation::Updating::fits(std::size_t bytes, std::size_t buffer_bytes) {
  return bytes < buffer_bytes &&
         whole_lines(sizeof(SlotHeader) + bytes) + kHeadBytes <= buffer_bytes;
}

void Operation::Updating::prepare(std::span<const std::byte> data,
                                  const std::optional<RecordVersion>& expected) {
  if (++client_.lock_epoch == 0) ++client_.lock_epoch;
  operation_.update_ = {
      .expected = expected,
      .lock =
          LockWord{.owner = operation_.link_->grant().client, .epoch = client_.lock_epoch}.bits(),
      .data_length = static_cast<std::uint32_t>(data.size())};
  std::copy(data.begin(), data.end(), operation_.memory_.buffer + sizeof(SlotHeader));
}

/// What a header says lies within the record that the entry led to. Peers may have written
/// anything.
bool Operation::Updating::fits_entry(const RecordHeader& header) const {
  return record_bytes(header.key_length, header.capacity, header.slots) <=
         operation_.search_.entry().length;
}

void Operation::Updating::on_found(const RecordHeader& header) {
  if (header.slots != 2) return operation_.finish(Status::invalid);
  if (!fits_entry(header)) return operation_.finish(Status::damaged);
  if (operation_.update_.data_length > header.capacity) return operation_.finish(Status::too_long);
  if (header.lock != 0 && header.lock != operation_.update_.lock) return try_later();
  lock();
}

void Operation::Updating::add_compare_swap(unsigned result, std::size_t member,
                                           std::uint64_t compare, std::uint64_t swap) {
  const Entry& entry = operation_.search_.entry();
  operation_.add_atomic(roce::WrOpcode::atomic_cmp_and_swp, result, entry.address + member,
                        entry.rkey, compare, swap);
}

void Operation::Updating::lock() {
  const Entry& entry = operation_.search_.entry();
  operation_.enter(Stage::locking);
  add_compare_swap(0, offsetof(RecordHeader, lock), 0, operation_.update_.lock);
  // What is READ behind it cannot change until it is unlocked, but by the server's deleting it.
  operation_.add_read(entry, std::min<std::uint32_t>(entry.length, kHeadBytes),
                      operation_.head_room());
  operation_.submit();
}

void Operation::Updating::on_locked() {
  // If it is locked, it stays so until the server fences us.
  if (operation_.is_failed_) return operation_.finish(Status::unreachable);
  if (operation_.work_[0].is_unknown()) return lock();
  Update& update = operation_.update_;
  const std::uint64_t found = operation_.memory_.results[0];
  if (found == kDead) return on_overtaken();
  if (found != 0 && found != update.lock) return try_later();
  const Work& head = operation_.work_[1];
  const std::uint64_t incarnation = operation_.search_.entry().incarnation;
  const RecordView view =
      examine_head({head.local, head.length}, incarnation, operation_.wanted_key());
  if (view.verdict != Verdict::match) return on_overtaken();
  update.header = view.header;
  if (view.header.slots != 2 || update.data_length > view.header.capacity ||
      !fits_entry(view.header)) {
    return unlock({.status = Status::damaged});
  }
  const RecordVersion version{incarnation, RecordWord::from(view.header.word).version};
  if (update.expected && *update.expected != version) {
    return unlock({.status = Status::version_mismatch});
  }
  swing();
}

void Operation::Updating::swing() {
  const Entry& entry = operation_.search_.entry();
  Update& update = operation_.update_;
  const RecordHeader& header = update.header;
  const RecordWord word = RecordWord::from(header.word);
  update.next = word.next(header.slots);
  std::byte* buffer = operation_.memory_.buffer;
  const std::size_t bytes = sizeof(SlotHeader) + update.data_length;
  compose_slot(header, update.next.version, update.lock,
               {buffer + sizeof(SlotHeader), update.data_length}, {buffer, bytes});
  operation_.enter(Stage::swinging);
  operation_.add_write(
      buffer, bytes,
      entry.address + slot_offset(header.key_length, header.capacity, update.next.slot),
      entry.rkey);
  // In the order of the connection: the word swings when the slot is there.
  add_compare_swap(1, offsetof(RecordHeader, word), header.word, update.next.bits());
  operation_.submit();
}

void Operation::Updating::on_swung() {
  if (operation_.is_failed_) return operation_.finish(Status::outcome_unknown);
  // Under the lock nobody else swings it, so that another try tells whether the first one did.
  if (operation_.work_[1].is_unknown()) return swing();
  const Update& update = operation_.update_;
  const std::uint64_t found = operation_.memory_.results[1];
  if (found == kDead) return on_overtaken();
  if (found != update.header.word && found != update.next.bits()) {
    return unlock({.status = Status::damaged});
  }
  client_.counters.updates.add();
  unlock({.version = {.incarnation = operation_.search_.entry().incarnation,
                      .version = update.next.version}});
}

/// Only when WRITE and CAS are complete: what a lost connection has repeated comes under the lock.
/// Nobody need wait for it but who wants the lock.
void Operation::Updating::unlock(const Result& result) {
  operation_.tell(result);
  operation_.enter(Stage::unlocking);
  add_compare_swap(0, offsetof(RecordHeader, lock), operation_.update_.lock, 0);
  operation_.submit();
}

void Operation::Updating::on_unlocked() {
  if (!operation_.is_failed_ && operation_.work_[0].is_unknown()) {
    operation_.work_.repeat();
    return operation_.submit();
  }
  operation_.finish(Status::ok);
}

/// The record was deleted, or moved, before the word swung: the update has not taken effect.
void Operation::Updating::on_overtaken() {
  client_.counters.overtaken.add();
  client_.directory.erase(operation_.link_->server(), operation_.search_.entry());
  Requesting(operation_).look_up();
}

/// Another one has the lock.
void Operation::Updating::try_later() {
  Update& update = operation_.update_;
  client_.counters.lock_conflicts.add();
  if (update.give_up_ns == 0) update.give_up_ns = client_.now_ns + client_.config.update_timeout_ns;
  if (client_.now_ns >= update.give_up_ns) return operation_.finish(Status::contended);
  update.backoff = std::min(update.backoff + 1, kBackoffMax);
  operation_.search_.repeat();
  // Apart from each other.
  const std::uint64_t spread = (update.lock * 0x9e3779b97f4a7c15) >> 54;
  operation_.retry_at(client_.now_ns + (kPauseNs << update.backoff) / 2 + spread);
}

}  // namespace rockhopper::dag
