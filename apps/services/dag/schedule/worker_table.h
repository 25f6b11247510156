// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "apps/services/dag/application.h"
#include "apps/services/dag/schedule/board_writer.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/status.h"

namespace rockhopper::dag {

/// Which clients are workers, and where each of them is on the board.
class WorkerTable {
 public:
  /// The board must outlive it.
  explicit WorkerTable(BoardWriter& board);

  /// A client joins once: what it had done before it left could not be told from what it does
  /// later. With `ok`, the slot. `exists`: it has joined before; `exhausted`: there is no slot.
  [[nodiscard]] ApplicationResponse join(ClientId client, const JoinRequest& request);
  /// It works no more, but is a client still. False: it is no worker.
  bool leave(ClientId client);
  /// It is no client any more. False: it was no worker.
  bool remove(ClientId client);

  /// Whether the number in a node's state is that of a worker. A node of any other owner is not
  /// going to be finished by it.
  [[nodiscard]] bool is_here(std::uint32_t owner) const {
    return slots_.find(ClientId{owner}) != slots_.end();
  }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }

 private:
  BoardWriter& board_;
  std::map<ClientId, std::uint32_t> slots_;
  std::vector<bool> taken_;  ///< by slot
  std::set<ClientId> left_;  ///< clients that were workers
};

}  // namespace rockhopper::dag
