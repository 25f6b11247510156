// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <deque>

#include "roce/cm/connection_table.h"
#include "roce/cm/counters.h"
#include "roce/cm/event.h"
#include "roce/cm/listeners.h"
#include "roce/cm/manager_config.h"
#include "roce/cm/messenger.h"
#include "roce/engine.h"
#include "roce/random.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::cm {

/// What the parts of a connection manager have in common. The manager makes it and outlives them.
struct ManagerParts {
  const ConnectionManagerConfig& config;
  Engine& engine;
  Counters& counters;
  Messenger messenger;
  stack::TimingWheel timers;
  ConnectionTable table;
  Listeners listeners{};
  std::deque<Event> events{};  ///< not yet taken, the oldest one first
  std::uint64_t now_ns = 0;    ///< of this poll()

  void tell(const Event& event) {
    if (event.connection != nullptr && managed(*event.connection).is_released) return;
    events.push_back(event);
  }
  /// Returns an unpredictable number above 0 that is not `is_taken(number)`.
  template <typename IsTaken>
  [[nodiscard]] std::uint32_t new_id(const IsTaken& is_taken) const {
    while (true) {
      auto id = static_cast<std::uint32_t>(config.random->next());
      if (config.id_prefix != 0) id = (id & 0xffffff) | std::uint32_t{config.id_prefix} << 24;
      if (id != 0 && !is_taken(id)) return id;
    }
  }
};

}  // namespace rockhopper::roce::cm
