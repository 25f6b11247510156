// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "dc/session_table.h"

namespace rockhopper::dc {

struct EndpointConfig {
  /// The table of sessions as target; its shard is the engine's.
  SessionTable::Config sessions{};
  std::uint32_t lease_us = 2'000'000;  ///< after which an idle session is closed, above 0
  /// READs and atomics that each session may have outstanding, 1 to roce::kMaxRdAtomic; with
  /// lock_execution from kLockResources on.
  std::uint8_t responder_resources = 16;
  bool lock_execution = false;  ///< its targets serve locks (docs/locks.md)
  /// A session that has been idle so long may make room for another when no context is free.
  std::uint64_t idle_ns = 100'000;
  std::uint32_t backoff_us = 50;                 ///< what those are told for whom there is no room
  std::uint32_t cnaks_per_second = 100'000;      ///< to one source
  std::uint32_t all_cnaks_per_second = 200'000;  ///< to all of them together
};

}  // namespace rockhopper::dc
