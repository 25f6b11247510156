// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/reading.h"

#include "apps/services/dag/client_parts.h"
#include "apps/services/dag/control_word.h"
#include "apps/services/dag/hash.h"
#include "apps/services/dag/requesting.h"
#include "apps/services/dag/updating.h"

namespace rockhopper::dag {
namespace {

/// READs of one record that were torn, after which others are too fast.
constexpr std::uint16_t kTriesMax = 256;
/// After so many in a row there is a pause.
constexpr std::uint16_t kTriesAtOnce = 4;

}  // namespace

void Operation::Reading::look_up() {
  const std::uint64_t hash =
      cut_hash(hash_of(operation_.key()), operation_.link_->grant().hash_bits);
  const bool found = operation_.search_.look_up([&](std::span<Entry> room) {
    return client_.directory.candidates(operation_.link_->server(), hash, room);
  });
  if (found) return read_next();
  client_.counters.misses.add();
  Requesting(operation_).look_up();
}

void Operation::Reading::follow(const Entry& entry) {
  operation_.search_.set_only(entry);
  read_next();
}

/// READs heads only, unless the data is what is wanted.
void Operation::Reading::read_next() {
  operation_.enter(Stage::reading);
  operation_.pin(operation_.kind_ != Kind::read);
  std::byte* to = operation_.head_room();
  const std::size_t room =
      client_.config.buffer_bytes - static_cast<std::size_t>(to - operation_.memory_.buffer);
  operation_.search_.next_batch(room, operation_.kind_ != Kind::read,
                                [&](const RecordSearch::Read& read) {
                                  operation_.add_read(*read.entry, read.length, to + read.offset);
                                });
  operation_.submit();
}

void Operation::Reading::on_read() {
  if (operation_.is_failed_) return operation_.finish(Status::unreachable);
  RecordSearch& search = operation_.search_;
  bool torn = false;
  for (std::size_t i = 0; i < operation_.work_.size(); ++i) {
    const Work& work = operation_.work_[i];
    const Entry& entry = search.of_batch(i);
    const bool is_read = operation_.kind_ == Kind::read;
    const bool is_whole = is_read && work.length == entry.length;
    const RecordView view = (is_whole ? examine_record : examine_head)(
        {work.local, work.length}, entry.incarnation, operation_.wanted_key());
    switch (view.verdict) {
      case Verdict::match:
        if (is_read && !is_whole) return operation_.finish(Status::too_long);
        return on_found(Entry(entry), view);
      case Verdict::other_key:
        client_.counters.false_candidates.add();
        break;
      case Verdict::stale:
        client_.counters.stale.add();
        client_.directory.erase(operation_.link_->server(), entry);
        break;
      case Verdict::torn:
        search.set_torn(entry);
        torn = true;
        break;
    }
  }
  if (torn) return on_torn();
  if (!search.is_exhausted()) return read_next();
  if (operation_.key().empty()) return operation_.finish(Status::not_found);
  Requesting(operation_).look_up();
}

/// It is the record, and no other candidate matters.
void Operation::Reading::on_torn() {
  client_.counters.torn.add();
  const std::uint16_t tries = operation_.search_.on_torn();
  if (tries > kTriesMax) return operation_.finish(Status::contended);
  if (tries % kTriesAtOnce != 0) return read_next();
  operation_.retry_at(client_.now_ns + kPauseNs);
}

void Operation::Reading::on_found(const Entry& entry, const RecordView& view) {
  const bool is_hit = operation_.search_.set_found(entry);
  if (!operation_.key().empty()) {
    client_.directory.touch(operation_.link_->server(), entry);
    if (is_hit) client_.counters.hits.add();
  }
  switch (operation_.kind_) {
    case Kind::read:
      return operation_.finish(
          Result{.version = {.incarnation = entry.incarnation, .version = view.version},
                 .control = view.header.control,
                 .data = view.data});
    case Kind::update:
      return Updating(operation_).on_found(view.header);
    default:
      return ControlWord(operation_).execute();
  }
}

}  // namespace rockhopper::dag
