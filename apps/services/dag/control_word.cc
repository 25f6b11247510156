// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/control_word.h"

#include <cstring>

#include "apps/services/dag/client_parts.h"

namespace rockhopper::dag {

bool Operation::ControlWord::execute_at(const Pointer& pointer) {
  const Lease& lease = operation_.link_->lease();
  const bool is_known = pointer.validated != 0 && pointer.validated <= lease.posted() + 1 &&
                        pointer.validated >= lease.posted();
  // What was known before the last renewal holds up the next one: not again and again.
  if (!is_known || (pointer.validated <= lease.posted() && lease.is_held_up())) return false;
  operation_.search_.set_only(pointer.entry);
  operation_.is_pinned_ = true;
  operation_.pin_ = pointer.validated - 1;
  execute();
  return true;
}

/// The READ behind it tells whether the record was still one.
void Operation::ControlWord::execute() {
  const Entry& entry = operation_.search_.entry();
  const Atomic& atomic = operation_.atomic_;
  operation_.enter(Stage::atomic);
  operation_.add_atomic(operation_.kind_ == Kind::fetch_add ? roce::WrOpcode::atomic_fetch_and_add
                                                            : roce::WrOpcode::atomic_cmp_and_swp,
                        0, word_address(entry.address, atomic.word), entry.rkey, atomic.value,
                        atomic.swap);
  operation_.add_read(entry, sizeof(RecordHeader), operation_.head_room());
  operation_.submit();
}

void Operation::ControlWord::on_executed() {
  if (operation_.is_failed_ || operation_.work_[0].is_unknown()) {
    return operation_.finish(Status::outcome_unknown);
  }
  const Entry& entry = operation_.search_.entry();
  RecordHeader header;
  std::memcpy(&header, operation_.work_[1].local, sizeof header);
  if (header.incarnation != entry.incarnation) {
    client_.counters.stale.add();
    client_.directory.erase(operation_.link_->server(), entry);
    return operation_.finish(Status::not_found);
  }
  operation_.finish(Result{.version = {.incarnation = entry.incarnation,
                                       .version = RecordWord::from(header.word).version},
                           .control = header.control,
                           .value = operation_.memory_.results[0]});
}

}  // namespace rockhopper::dag
