// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/operation_table.h"

#include <algorithm>
#include <cassert>

#include "apps/services/dag/client_parts.h"
#include "apps/services/dag/message.h"
#include "apps/services/dag/record.h"

namespace rockhopper::dag {

Expected<void> OperationTable::set_up(roce::Engine& engine, roce::ProtectionDomain pd,
                                      ClientParts& client) {
  assert(operations_.empty());
  // Each operation has a request, results of atomics, and the buffer.
  constexpr std::size_t kRequestRoom = whole_lines(kRequestMax);
  constexpr std::size_t kResultRoom = 64;
  static_assert(Operation::kAtomicResults * sizeof(std::uint64_t) <= kResultRoom);
  const std::size_t stride = kRequestRoom + kResultRoom + whole_lines(client.config.buffer_bytes);
  memory_.resize(stride * client.config.operations);
  ROCKHOPPER_TRY(region_,
                 roce::own(engine, engine.register_memory(pd, memory_.data(), memory_.size(),
                                                          roce::kAccessLocalWrite)));
  for (std::uint32_t index = 0; index < client.config.operations; ++index) {
    std::byte* bytes = memory_.data() + stride * index;
    operations_.emplace_back(
        client, index,
        Operation::Memory{.request = bytes,
                          .results = reinterpret_cast<std::uint64_t*>(bytes + kRequestRoom),
                          .buffer = bytes + kRequestRoom + kResultRoom});
    free_.push_back(index);
  }
  return {};
}

Operation* OperationTable::take() {
  if (free_.empty()) return nullptr;
  Operation& operation = operations_[free_.back()];
  free_.pop_back();
  return &operation;
}

bool OperationTable::is_pinned_before(const ServerLink& link, std::uint64_t renewal) const {
  return std::any_of(operations_.begin(), operations_.end(), [&](const Operation& operation) {
    return operation.is_of(link) && operation.is_pinned_before(renewal);
  });
}

void OperationTable::arm(Operation& operation, std::uint64_t when_ns) {
  operation.set_timer(when_ns);
  next_timer_ns_ = std::min(next_timer_ns_, when_ns == Operation::kNextTurn ? 0 : when_ns);
}

bool OperationTable::run_timers(std::uint64_t now_ns, std::uint64_t request_ns) {
  if (now_ns < next_timer_ns_) return false;
  next_timer_ns_ = UINT64_MAX;
  for (Operation& operation : operations_) {
    if (!operation.is_active() || operation.timer_ns() == UINT64_MAX) continue;
    if (operation.timer_ns() == Operation::kNextTurn) operation.set_timer(now_ns + request_ns);
    if (operation.timer_ns() > now_ns) {
      next_timer_ns_ = std::min(next_timer_ns_, operation.timer_ns());
    } else {
      operation.set_timer(UINT64_MAX);
      operation.on_timer();
    }
  }
  return true;
}

}  // namespace rockhopper::dag
