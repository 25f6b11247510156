// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/services/dag/client.h"
#include "apps/services/dag/counters.h"
#include "apps/services/dag/directory.h"
#include "apps/services/dag/operation_table.h"
#include "apps/services/dag/server_link.h"
#include "dc/dci_pool.h"

namespace rockhopper::dag {

/// What a client's operations and its ways to servers have in common. The client makes it and
/// outlives them.
struct ClientParts {
  ClientListener& listener;
  const ClientConfig& config;
  Directory directory;
  ClientCounters counters{};
  std::unique_ptr<dc::DciPool> pool{};
  std::vector<std::unique_ptr<ServerLink>> links{};  ///< by server
  OperationTable operations{};
  std::uint32_t lock_epoch = 0;  ///< of the last update's lock
  std::uint64_t now_ns = 0;      ///< of this turn

  /// It cannot cost a connection.
  [[nodiscard]] bool is_good(const Pointer& pointer) const {
    return pointer.server < links.size() && links[pointer.server]->is_good(pointer.entry);
  }
};

}  // namespace rockhopper::dag
