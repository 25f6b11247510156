// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/worker_table.h"

#include <algorithm>
#include <iterator>

namespace rockhopper::dag {

WorkerTable::WorkerTable(BoardWriter& board) : board_(board), taken_(board.layout().workers) {}

ApplicationResponse WorkerTable::join(ClientId client, const JoinRequest& request) {
  if (slots_.contains(client) || left_.contains(client)) return {.status = Status::exists};
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) return {.status = Status::exhausted};
  const auto slot = static_cast<std::uint32_t>(std::distance(taken_.begin(), free));
  *free = true;
  slots_.emplace(client, slot);
  WorkerSlot shown{.client = static_cast<std::uint32_t>(client),
                   .target = request.target,
                   .access_key = request.access_key,
                   .gid = request.gid,
                   .deque_key = request.deque_key,
                   .deque_capacity = request.deque_capacity,
                   .path_mtu = request.path_mtu};
  put_text(request.name, shown.name);
  board_.show(slot, shown);
  return {.status = Status::ok, .value = slot};
}

bool WorkerTable::leave(ClientId client) {
  const auto found = slots_.find(client);
  if (found == slots_.end()) return false;
  board_.show(found->second, WorkerSlot{});
  taken_[found->second] = false;
  slots_.erase(found);
  left_.insert(client);
  return true;
}

bool WorkerTable::remove(ClientId client) {
  const bool was_worker = leave(client);
  left_.erase(client);
  return was_worker;
}

}  // namespace rockhopper::dag
