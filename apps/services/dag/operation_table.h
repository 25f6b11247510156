// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "apps/services/dag/operation.h"
#include "roce/owned.h"
#include "stack/error.h"

namespace rockhopper::dag {

/// The operations of a client, as many as there may be at a time, with their registered memory and
/// their timers.
class OperationTable {
 public:
  /// Makes as many as the client's configuration says. Once, before any begins; before the engine
  /// and the protection domain the table goes.
  [[nodiscard]] Expected<void> set_up(roce::Engine& engine, roce::ProtectionDomain pd,
                                      ClientParts& client);
  /// The lkey of the memory of all of them.
  [[nodiscard]] roce::MemoryKey memory_key() const { return region_.key(); }

  [[nodiscard]] Operation& at(std::uint64_t index) { return operations_[index]; }
  [[nodiscard]] std::size_t in_use() const { return operations_.size() - free_.size(); }
  /// Returns one that is free, until put_back(); null if all are in use.
  [[nodiscard]] Operation* take();
  void put_back(const Operation& operation) { free_.push_back(operation.index()); }
  template <typename Visit>
  void for_each_active(const Visit& visit) {
    for (Operation& operation : operations_) {
      if (operation.is_active()) visit(operation);
    }
  }
  /// Some change of that server's records has begun before that renewal.
  [[nodiscard]] bool is_pinned_before(const ServerLink& link, std::uint64_t renewal) const;

  /// Returns when run_timers() has something to do; UINT64_MAX: never.
  [[nodiscard]] std::uint64_t next_timer_ns() const { return next_timer_ns_; }
  void arm(Operation& operation, std::uint64_t when_ns);
  /// Tells those whose time has come. Timers that begin with this turn run for `request_ns`.
  /// Returns false if it was not yet time.
  bool run_timers(std::uint64_t now_ns, std::uint64_t request_ns);

 private:
  std::vector<std::byte> memory_;     ///< of all operations
  roce::OwnedRegion region_;          ///< of that memory
  std::deque<Operation> operations_;  ///< by index
  std::vector<std::uint32_t> free_;
  std::uint64_t next_timer_ns_ = UINT64_MAX;  ///< at or before that of the first one
};

}  // namespace rockhopper::dag
