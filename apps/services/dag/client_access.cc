// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What needs no software of the server: READs, updates, atomics, records in arenas.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "apps/services/dag/client.h"
#include "apps/services/dag/client_state.h"
#include "apps/services/dag/hash.h"

namespace rockhopper::dag {
namespace {

/// READs of one record that were torn, after which others are too fast.
constexpr std::uint16_t kTriesMax = 256;
/// After so many in a row there is a pause.
constexpr std::uint16_t kTriesAtOnce = 4;
constexpr std::uint64_t kPause_ns = 1000;
constexpr std::uint32_t kBackoffMax = 8;  ///< doublings

/// What a header says lies within the record that the entry led to. Peers may have written
/// anything.
bool fits(const RecordHeader& header, const Entry& entry) {
  return record_bytes(header.key_length, header.capacity, header.slots) <= entry.length;
}

}  // namespace

/// What it does takes effect before the lease has been renewed twice more.
void Client::pin(Operation& operation, bool changes) {
  operation.pinned = changes;
  operation.pin = link_of(operation).renewals;
}

/// Behind the data of an update.
std::byte* Client::head_room(const Operation& operation) const {
  return operation.buffer +
         (operation.data_length == 0 ? 0 : whole_lines(sizeof(SlotHeader) + operation.data_length));
}

// Reading.

Started Client::read(Key key, std::uint64_t context) {
  if (key.empty()) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::read, server_of(key), key, context, &operation);
  if (started == Started::yes) access(*operation);
  return started;
}

Started Client::begin(Kind kind, const Pointer& pointer, std::uint64_t context, Operation** begun) {
  if (!is_good(pointer)) return Started::invalid;
  return begin(kind, pointer.server, {}, context, begun);
}

Started Client::read(const Pointer& pointer, std::uint64_t context) {
  Operation* operation = nullptr;
  const Started started = begin(Kind::read, pointer, context, &operation);
  if (started == Started::yes) follow(*operation, pointer);
  return started;
}

void Client::access(Operation& operation) {
  operation.first = 0;
  operation.candidate_count = static_cast<std::uint8_t>(
      directory_.candidates(operation.server, operation.hash, operation.candidates));
  if (operation.candidate_count == 0) {
    counters_.misses.add();
    return ask_lookup(operation);
  }
  read_candidates(operation);
}

void Client::follow(Operation& operation, const Pointer& pointer) {
  operation.candidates[0] = pointer.entry;
  operation.candidate_count = 1;
  operation.first = 0;
  read_candidates(operation);
}

/// From `first` on as many as there is room for, together (DG-7).
void Client::read_candidates(Operation& operation) {
  clear_work(operation);
  operation.stage = Stage::reading;
  pin(operation, operation.kind != Kind::read);
  std::byte* to = head_room(operation);
  std::size_t room = config_.buffer_bytes - static_cast<std::size_t>(to - operation.buffer);
  const std::size_t all_room = room;
  for (std::size_t i = operation.first; i < operation.candidate_count; ++i) {
    const Entry& entry = operation.candidates[i];
    std::size_t length = entry.length;
    // Of one that is too long, its head decides whether that matters.
    if (operation.reads_heads() || length > all_room) {
      length = std::min<std::size_t>(length, kHeadBytes);
    }
    if (length > room) break;
    add_read(operation, entry, static_cast<std::uint32_t>(length), to);
    to += aligned_8(length);
    room -= std::min<std::size_t>(room, aligned_8(length));
  }
  assert(operation.work_count > 0);
  submit(operation);
}

void Client::on_read(Operation& operation) {
  if (operation.failed) return finish(operation, Status::unreachable);
  bool torn = false;
  for (std::size_t i = 0; i < operation.work_count; ++i) {
    const Work& work = operation.works[i];
    const Entry& entry = operation.candidates[operation.first + i];
    const std::span<const std::byte> bytes(work.local, work.length);
    const bool whole = !operation.reads_heads() && work.length == entry.length;
    const RecordView view = whole ? examine_record(bytes, entry.incarnation, operation.wanted_key())
                                  : examine_head(bytes, entry.incarnation, operation.wanted_key());
    switch (view.verdict) {
      case Verdict::match:
        operation.entry = entry;
        if (!operation.reads_heads() && !whole) return finish(operation, Status::too_long);
        return on_found(operation, view);
      case Verdict::other_key:
        counters_.false_candidates.add();
        break;
      case Verdict::stale:
        counters_.stale.add();
        directory_.erase(operation.server, entry);
        break;
      case Verdict::torn:
        operation.entry = entry;
        torn = true;
        break;
    }
  }
  if (torn) return on_torn(operation);
  operation.first = static_cast<std::uint8_t>(operation.first + operation.work_count);
  if (operation.first < operation.candidate_count) return read_candidates(operation);
  if (operation.key_length == 0) return finish(operation, Status::not_found);
  ask_lookup(operation);
}

/// It is the record, and no other candidate matters.
void Client::on_torn(Operation& operation) {
  counters_.torn.add();
  if (++operation.tries > kTriesMax) return finish(operation, Status::contended);
  operation.candidates[0] = operation.entry;
  operation.candidate_count = 1;
  operation.first = 0;
  if (operation.tries % kTriesAtOnce != 0) return read_candidates(operation);
  operation.stage = Stage::sleeping;
  operation.pinned = false;
  sleep_until(operation, now_ns_ + kPause_ns);
}

void Client::on_found(Operation& operation, const RecordView& view) {
  if (operation.key_length > 0) {
    directory_.touch(operation.server, operation.entry);
    if (!operation.looked_up) counters_.hits.add();
  }
  operation.looked_up = true;
  operation.header = view.header;
  switch (operation.kind) {
    case Kind::read:
      return finish(operation, Result{.version = {.incarnation = operation.entry.incarnation,
                                                  .version = view.version},
                                      .control = view.header.control,
                                      .data = view.data});
    case Kind::update:
      if (view.header.slots != 2) return finish(operation, Status::invalid);
      if (!fits(view.header, operation.entry)) return finish(operation, Status::damaged);
      if (operation.data_length > view.header.capacity) {
        return finish(operation, Status::too_long);
      }
      if (view.header.lock != 0 && view.header.lock != operation.lock) {
        return try_later(operation);
      }
      return lock(operation);
    default:
      return execute_atomic(operation);
  }
}

// Control words.

Started Client::start(const Pointer& pointer, const Atomic& atomic, std::uint64_t context) {
  if (atomic.word >= kControlWords || pointer.entry.length < sizeof(RecordHeader)) {
    return Started::invalid;
  }
  Operation* operation = nullptr;
  const Started started = begin(atomic.kind, pointer, context, &operation);
  if (started != Started::yes) return started;
  operation->word = atomic.word;
  operation->value = atomic.value;
  operation->swap = atomic.swap;
  const Link& link = link_of(*operation);
  const bool known = pointer.validated != 0 && pointer.validated <= link.renewals + 1 &&
                     pointer.validated >= link.renewals;
  // What was known before the last renewal holds up the next one: not again and again.
  if (!known || (pointer.validated <= link.renewals && link.held_up)) {
    follow(*operation, pointer);
    return started;
  }
  // It was there so short a time ago that its memory cannot be another's yet.
  operation->entry = pointer.entry;
  operation->pinned = true;
  operation->pin = pointer.validated - 1;
  execute_atomic(*operation);
  return started;
}

Started Client::start(Key key, const Atomic& atomic, std::uint64_t context) {
  if (atomic.word >= kControlWords || key.empty()) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(atomic.kind, server_of(key), key, context, &operation);
  if (started != Started::yes) return started;
  operation->word = atomic.word;
  operation->value = atomic.value;
  operation->swap = atomic.swap;
  access(*operation);
  return started;
}

Started Client::fetch_add(const Pointer& pointer, unsigned word, std::uint64_t add,
                          std::uint64_t context) {
  return start(pointer, {.kind = Kind::fetch_add, .word = word, .value = add, .swap = 0}, context);
}

Started Client::compare_swap(const Pointer& pointer, unsigned word, std::uint64_t compare,
                             std::uint64_t swap, std::uint64_t context) {
  return start(pointer, {.kind = Kind::compare_swap, .word = word, .value = compare, .swap = swap},
               context);
}

Started Client::fetch_add(Key key, unsigned word, std::uint64_t add, std::uint64_t context) {
  return start(key, {.kind = Kind::fetch_add, .word = word, .value = add, .swap = 0}, context);
}

Started Client::compare_swap(Key key, unsigned word, std::uint64_t compare, std::uint64_t swap,
                             std::uint64_t context) {
  return start(key, {.kind = Kind::compare_swap, .word = word, .value = compare, .swap = swap},
               context);
}

/// The READ behind it tells whether the record was still one.
void Client::execute_atomic(Operation& operation) {
  clear_work(operation);
  operation.stage = Stage::atomic;
  const Entry& entry = operation.entry;
  add_compare_swap(operation, 0, word_address(entry.address, operation.word), entry.rkey,
                   operation.value, operation.swap);
  if (operation.kind == Kind::fetch_add) {
    operation.works[0].opcode = roce::WrOpcode::atomic_fetch_and_add;
  }
  add_read(operation, entry, sizeof(RecordHeader), head_room(operation));
  submit(operation);
}

void Client::on_atomic(Operation& operation) {
  if (operation.failed || operation.works[0].status == roce::WcStatus::outcome_unknown) {
    return finish(operation, Status::outcome_unknown);
  }
  RecordHeader header;
  std::memcpy(&header, operation.works[1].local, sizeof header);
  if (header.incarnation != operation.entry.incarnation) {
    counters_.stale.add();
    directory_.erase(operation.server, operation.entry);
    return finish(operation, Status::not_found);
  }
  finish(operation, Result{.version = {.incarnation = operation.entry.incarnation,
                                       .version = RecordWord::from(header.word).version},
                           .control = header.control,
                           .value = operation.results[0]});
}

// Updates (DG-19): lock, fill the slot that is not active, swing the word, unlock.

bool Client::can_update(std::span<const std::byte> data) const {
  return data.size() < config_.buffer_bytes &&
         whole_lines(sizeof(SlotHeader) + data.size()) + kHeadBytes <= config_.buffer_bytes;
}

void Client::prepare_update(Operation& operation, std::span<const std::byte> data,
                            const std::optional<RecordVersion>& expected) {
  operation.expected = expected;
  operation.data_length = static_cast<std::uint32_t>(data.size());
  if (++lock_epoch_ == 0) ++lock_epoch_;
  operation.lock = LockWord{.owner = link_of(operation).grant.client, .epoch = lock_epoch_}.bits();
  if (!data.empty()) std::memcpy(operation.data(), data.data(), data.size());
}

Started Client::update(Key key, std::span<const std::byte> data, std::uint64_t context,
                       std::optional<RecordVersion> expected) {
  if (key.empty() || !can_update(data)) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::update, server_of(key), key, context, &operation);
  if (started != Started::yes) return started;
  prepare_update(*operation, data, expected);
  access(*operation);
  return started;
}

Started Client::update(const Pointer& pointer, std::span<const std::byte> data,
                       std::uint64_t context, std::optional<RecordVersion> expected) {
  if (!can_update(data)) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::update, pointer, context, &operation);
  if (started != Started::yes) return started;
  prepare_update(*operation, data, expected);
  follow(*operation, pointer);
  return started;
}

void Client::lock(Operation& operation) {
  clear_work(operation);
  operation.stage = Stage::locking;
  const Entry& entry = operation.entry;
  add_compare_swap(operation, 0, entry.address + offsetof(RecordHeader, lock), entry.rkey, 0,
                   operation.lock);
  // What is READ behind it cannot change until it is unlocked, but by the server's deleting it.
  add_read(operation, entry, std::min<std::uint32_t>(entry.length, kHeadBytes),
           head_room(operation));
  submit(operation);
}

void Client::on_locked(Operation& operation) {
  // If it is locked, it stays so until the server fences us.
  if (operation.failed) return finish(operation, Status::unreachable);
  if (operation.works[0].status == roce::WcStatus::outcome_unknown) return lock(operation);
  const std::uint64_t found = operation.results[0];
  if (found == kDead) return on_overtaken(operation);
  if (found != 0 && found != operation.lock) return try_later(operation);
  const Work& work = operation.works[1];
  const RecordView view =
      examine_head({work.local, work.length}, operation.entry.incarnation, operation.wanted_key());
  if (view.verdict != Verdict::match) return on_overtaken(operation);
  operation.header = view.header;
  if (view.header.slots != 2 || operation.data_length > view.header.capacity ||
      !fits(view.header, operation.entry)) {
    Result result{.status = Status::damaged};
    return unlock(operation, result);
  }
  const RecordWord word = RecordWord::from(view.header.word);
  if (operation.expected &&
      *operation.expected != RecordVersion{operation.entry.incarnation, word.version}) {
    Result result{.status = Status::version_mismatch};
    return unlock(operation, result);
  }
  swing(operation);
}

void Client::swing(Operation& operation) {
  clear_work(operation);
  operation.stage = Stage::swinging;
  const Entry& entry = operation.entry;
  const RecordHeader& header = operation.header;
  const RecordWord word = RecordWord::from(header.word);
  operation.next = word.next(header.slots);
  const std::size_t bytes = sizeof(SlotHeader) + operation.data_length;
  compose_slot(header, operation.next.version, operation.lock,
               {operation.data(), operation.data_length}, {operation.buffer, bytes});
  Work& write = add_work(operation);
  write.opcode = roce::WrOpcode::rdma_write;
  write.local = operation.buffer;
  write.length = static_cast<std::uint32_t>(bytes);
  write.remote =
      entry.address + slot_offset(header.key_length, header.capacity, operation.next.slot);
  write.rkey = entry.rkey;
  // In the order of the connection: the word swings when the slot is there.
  add_compare_swap(operation, 1, entry.address + offsetof(RecordHeader, word), entry.rkey,
                   header.word, operation.next.bits());
  submit(operation);
}

void Client::on_swung(Operation& operation) {
  if (operation.failed) return finish(operation, Status::outcome_unknown);
  // Under the lock nobody else swings it, so that another try tells whether the first one did.
  if (operation.works[1].status == roce::WcStatus::outcome_unknown) return swing(operation);
  const std::uint64_t found = operation.results[1];
  if (found == kDead) return on_overtaken(operation);
  Result result{.status = Status::damaged};
  if (found == operation.header.word || found == operation.next.bits()) {
    counters_.updates.add();
    result.status = Status::ok;
    result.version = {.incarnation = operation.entry.incarnation,
                      .version = operation.next.version};
  }
  unlock(operation, result);
}

/// Only when WRITE and CAS are complete: what a lost connection has repeated comes under the lock.
/// Nobody need wait for it but who wants the lock.
void Client::unlock(Operation& operation, Result& result) {
  tell(operation, result);
  operation.told = true;
  clear_work(operation);
  operation.stage = Stage::unlocking;
  add_compare_swap(operation, 0, operation.entry.address + offsetof(RecordHeader, lock),
                   operation.entry.rkey, operation.lock, 0);
  submit(operation);
}

void Client::on_unlocked(Operation& operation) {
  if (!operation.failed && operation.works[0].status == roce::WcStatus::outcome_unknown) {
    operation.posted = 0;
    return submit(operation);
  }
  finish(operation, Status::ok);
}

/// The record was deleted, or moved, before the word swung: the update has not taken effect.
void Client::on_overtaken(Operation& operation) {
  counters_.overtaken.add();
  directory_.erase(operation.server, operation.entry);
  ask_lookup(operation);
}

void Client::try_later(Operation& operation) {
  counters_.lock_conflicts.add();
  if (operation.give_up_ns == 0) operation.give_up_ns = now_ns_ + config_.update_timeout_ns;
  if (now_ns_ >= operation.give_up_ns) return finish(operation, Status::contended);
  operation.backoff = std::min(operation.backoff + 1, kBackoffMax);
  operation.candidates[0] = operation.entry;
  operation.candidate_count = 1;
  operation.first = 0;
  operation.stage = Stage::sleeping;
  operation.pinned = false;
  // Apart from each other.
  const std::uint64_t spread = (operation.lock * 0x9e3779b97f4a7c15) >> 54;
  sleep_until(operation, now_ns_ + (kPause_ns << operation.backoff) / 2 + spread);
}

// Records in arenas.

Started Client::write_record(const ArenaPlace& place, Key key, std::span<const std::byte> data,
                             const CreateOptions& options, std::uint64_t context) {
  const Entry& arena = place.arena.entry;
  const unsigned slots = options.fixed ? 1 : 2;
  const std::uint32_t capacity =
      std::max(options.capacity, static_cast<std::uint32_t>(data.size()));
  if (key.empty() || key.size() > kKeyMax || capacity > config_.buffer_bytes ||
      place.offset % kRecordAlignment != 0) {
    return Started::invalid;
  }
  const std::uint64_t length = record_bytes(key.size(), capacity, slots);
  if (length > config_.buffer_bytes || place.offset > arena.length ||
      length > arena.length - place.offset || place.number > arena.length / 128) {
    return Started::invalid;
  }
  Operation* operation = nullptr;
  const Started started = begin(Kind::write_record, place.arena, context, &operation);
  if (started != Started::yes) return started;
  operation->stage = Stage::writing;
  operation->entry = {.hash = cut_hash(hash_of(key), link_of(*operation).grant.hash_bits),
                      .incarnation = arena.incarnation + place.number,
                      .address = arena.address + place.offset,
                      .length = static_cast<std::uint32_t>(length),
                      .rkey = arena.rkey};
  compose_record({.key = key,
                  .incarnation = operation->entry.incarnation,
                  .capacity = capacity,
                  .slots = slots,
                  .control = options.control,
                  .data = data},
                 {operation->buffer, length});
  pin(*operation, true);
  Work& write = add_work(*operation);
  write.opcode = roce::WrOpcode::rdma_write;
  write.local = operation->buffer;
  write.length = static_cast<std::uint32_t>(slot_offset(key.size(), capacity, 0) +
                                            sizeof(SlotHeader) + data.size());
  write.remote = operation->entry.address;
  write.rkey = arena.rkey;
  submit(*operation);
  return started;
}

Started Client::write_arena(const Pointer& arena, std::uint64_t offset,
                            std::span<const std::byte> data, std::uint64_t context) {
  if (data.empty() || data.size() > config_.buffer_bytes || offset > arena.entry.length ||
      data.size() > arena.entry.length - offset) {
    return Started::invalid;
  }
  Operation* operation = nullptr;
  const Started started = begin(Kind::write_arena, arena, context, &operation);
  if (started != Started::yes) return started;
  operation->stage = Stage::writing;
  operation->entry = arena.entry;
  std::memcpy(operation->buffer, data.data(), data.size());
  pin(*operation, true);
  Work& write = add_work(*operation);
  write.opcode = roce::WrOpcode::rdma_write;
  write.local = operation->buffer;
  write.length = static_cast<std::uint32_t>(data.size());
  write.remote = arena.entry.address + offset;
  write.rkey = arena.entry.rkey;
  submit(*operation);
  return started;
}

void Client::on_written(Operation& operation) {
  if (operation.failed) return finish(operation, Status::outcome_unknown);
  finish(operation, Result{.version = {.incarnation = operation.entry.incarnation, .version = 1}});
}

}  // namespace rockhopper::dag
