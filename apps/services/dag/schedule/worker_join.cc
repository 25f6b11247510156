// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Joining, leaving, being lost.
#include <algorithm>
#include <cstddef>

#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/schedule/worker_state.h"

namespace rockhopper::dag {

void Worker::join() {
  JoinRequest request{.target = dct_->number().value,
                      .access_key = dct_->access_key(),
                      .deque_key = static_cast<std::uint32_t>(deque_memory_->key()),
                      .deque_capacity = config_.deque_entries,
                      .path_mtu = roce::bytes(client_.config().path_mtu),
                      .name = config_.name};
  std::transform(init_.home_av.source.bytes.begin(), init_.home_av.source.bytes.end(),
                 request.gid.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
  const auto bytes = emit(request);
  const Started started = client_.ask(init_.home, static_cast<std::uint8_t>(HomeRequest::join), {},
                                      bytes, 0, context(AskKind::join, 0));
  if (started == Started::no_room) return;
  if (started != Started::yes) return lose(Status::unreachable);
  joining_ = true;
  ++asked_;
}

void Worker::drain() { draining_ = true; }

bool Worker::idle() const {
  if (lost_ || left_) {
    return std::none_of(slots_.begin(), slots_.end(),
                        [](const std::unique_ptr<Slot>& slot) { return slot->job; });
  }
  return in_slots_ == 0 && asked_ == 0 && home_->quiet() && thief_->quiet() &&
         std::all_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.to_add == 0; });
}

void Worker::leave() {
  if (leaving_ || lost_) return;
  leaving_ = draining_ = true;
  for (const auto& slot : slots_) {
    if (slot->job) init_.executor.abandon(slot->ticket());
  }
}

/// When nothing of this worker can be executed any more, so that nobody is disturbed.
void Worker::ask_to_leave() {
  const bool quiet = std::none_of(slots_.begin(), slots_.end(),
                                  [](const auto& slot) { return slot->outstanding > 0; });
  if (left_ || asked_ > 0 || !quiet || !home_->quiet()) return;
  const Started started = client_.ask(init_.home, static_cast<std::uint8_t>(HomeRequest::leave), {},
                                      {}, 0, context(AskKind::leave, 0));
  if (started == Started::no_room) return;
  if (started != Started::yes) return lose(Status::unreachable);
  ++asked_;
}

/// What it had does not count any more: the home puts it back, once it has fenced the client.
void Worker::lose(Status why) {
  if (lost_) return;
  lost_ = true;
  lost_why_ = why;
  moved_ = true;
  for (const auto& slot : slots_) {
    if (!slot->job) continue;
    slot->outstanding = 0;
    slot->stage = Stage::abandoned;
    init_.executor.abandon(slot->ticket());
  }
}

void Worker::on_server_lost(std::uint16_t server) {
  if (server == init_.home) return lose(Status::unreachable);
  for (Run& run : runs_) {
    if (server < run.arenas.size()) run.arenas[server].pointer = {};
  }
}

}  // namespace rockhopper::dag
