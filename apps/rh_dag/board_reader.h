// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rh_dag/connection.h"
#include "apps/services/dag/schedule/board.h"
#include "dc/dci_pool.h"

namespace rockhopper::apps::dag_node {

/// What a home shows, as it was at one time.
struct Board {
  std::vector<dag::RunSlot> runs;        ///< those that there are
  std::vector<dag::WorkerSlot> workers;  ///< likewise
};
/// Null: there is no such run.
[[nodiscard]] const dag::RunSlot* find_run(const Board& board, std::string_view name);
/// Nothing more will come of it.
[[nodiscard]] bool has_ended(dag::RunPhase phase);

/// READs the board of a home; the server's software has no part in it. Belongs to the connection's
/// thread.
class BoardReader {
 public:
  /// `connection` is connected to `server`, and must outlive it. Fails if it is no home.
  [[nodiscard]] static Expected<std::unique_ptr<BoardReader>> create(Connection& connection,
                                                                     std::uint16_t server);
  BoardReader(const BoardReader&) = delete;
  BoardReader& operator=(const BoardReader&) = delete;
  ~BoardReader();

  /// Waits for it. A slot that changes meanwhile is READ again.
  [[nodiscard]] Expected<Board> read();

 private:
  BoardReader(Connection& connection, std::uint16_t server)
      : connection_(connection), server_(server) {}
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] Expected<void> read_layout();
  /// Into memory_, from its begin on.
  [[nodiscard]] Expected<void> read(std::uint64_t offset, std::uint64_t bytes);

  Connection& connection_;
  std::uint16_t server_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::unique_ptr<dc::DciPool> pool_;
  roce::AddressHandle* ah_ = nullptr;
  std::optional<dc::PoolTarget> target_;
  std::vector<std::byte> memory_;
  roce::MemoryKey key_{};
  dag::BoardLayout layout_;
};

}  // namespace rockhopper::apps::dag_node
