// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/writing.h"

#include <algorithm>

#include "apps/services/dag/client_parts.h"

namespace rockhopper::dag {

void Operation::Writing::write_record(const RecordInit& record, const Entry& entry) {
  compose_record(record, {operation_.memory_.buffer, entry.length});
  operation_.search_.set_only(entry);
  // The other slot, and the rest of this one, need not be there.
  write(
      slot_offset(record.key.size(), record.capacity, 0) + sizeof(SlotHeader) + record.data.size(),
      entry.address);
}

void Operation::Writing::write(const Entry& arena, std::uint64_t offset,
                               std::span<const std::byte> data) {
  std::copy(data.begin(), data.end(), operation_.memory_.buffer);
  operation_.search_.set_only(arena);
  write(data.size(), arena.address + offset);
}

void Operation::Writing::write(std::size_t length, std::uint64_t remote) {
  operation_.enter(Stage::writing);
  operation_.pin(true);
  operation_.add_write(operation_.memory_.buffer, length, remote, operation_.search_.entry().rkey);
  operation_.submit();
}

void Operation::Writing::on_written() {
  if (operation_.is_failed_) return operation_.finish(Status::outcome_unknown);
  operation_.finish(
      Result{.version = {.incarnation = operation_.search_.entry().incarnation, .version = 1}});
}

}  // namespace rockhopper::dag
