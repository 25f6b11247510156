// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "roce/async_event.h"
#include "roce/counters.h"
#include "roce/engine.h"
#include "roce/lock/service.h"
#include "roce/memory.h"
#include "roce/queue_pair.h"
#include "stack/error.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce {

/// What the engine's own parts, and those of its queue pairs, may use of it beyond what everybody
/// may. A value that refers to the engine; its functions are called on the engine's thread.
class EngineContext {
 public:
  explicit EngineContext(Engine& engine) : engine_(engine) {}

  [[nodiscard]] const EngineConfig& config() const { return engine_.config_; }
  [[nodiscard]] EngineCounters& counters() const { return engine_.counters_; }
  [[nodiscard]] MemoryTable& memory() const { return engine_.memory_; }
  [[nodiscard]] stack::TimingWheel& timers() const { return engine_.timers_; }
  /// Returns the time of the engine's call that is under way.
  [[nodiscard]] std::uint64_t now_ns() const { return engine_.now_ns_; }
  /// Returns what locks need; null if the engine executes none.
  [[nodiscard]] lock::Service* locks() const { return engine_.locks_.get(); }
  /// Returns the address handle with that id; null if it is gone.
  [[nodiscard]] AddressHandle* find_ah(std::uint64_t id) const { return engine_.find_ah(id); }
  /// See Engine.
  [[nodiscard]] Expected<std::uint16_t> query_pkey(std::uint16_t index) const {
    return engine_.query_pkey(index);
  }
  [[nodiscard]] std::uint32_t max_path_mtu() const { return engine_.max_path_mtu(); }

  /// The queue pair has something to send.
  void schedule(QueuePair& qp) const { engine_.schedule(qp); }
  /// The received `packet` is dropped: counts it, and tells who watches.
  void count_drop(DropReason reason, const rte_mbuf* packet) const {
    engine_.count_drop(reason, packet);
  }
  /// The application gets an asynchronous event.
  void raise(const AsyncEvent& event) const { engine_.raise(event); }

 private:
  Engine& engine_;
};

}  // namespace rockhopper::roce
