// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "roce/engine.h"
#include "tests/sim/node_memory.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {

/// A receive request that is posted, and where its message goes.
struct Receive {
  std::uint64_t wr_id = 0;
  std::uint32_t capacity = 0;
  ScatterBuffer buffer;
};

/// The receives of a node's SRQ, in a protection domain of their own at times: which are posted,
/// whether the limit is armed, and what must have come of it.
class SharedReceives {
 public:
  /// `wr_id_high` is the upper half of the wr_ids.
  SharedReceives(std::uint32_t wr_id_high, roce::Engine& engine, const roce::SrqInit& init,
                 NodeMemory& memory, std::uint32_t max_message, Rng& rng);

  [[nodiscard]] bool owns(std::uint64_t wr_id) const { return wr_id >> 32 == wr_id_high_; }
  [[nodiscard]] roce::SharedReceiveQueue* srq() const { return srq_; }

  /// Bytes of node memory that one takes.
  [[nodiscard]] static std::uint32_t memory_bytes(std::uint32_t max_message, std::uint32_t depth);

  /// Posts one, if there is room.
  bool post(std::uint32_t capacity);
  /// Changes limit or size.
  void modify();
  /// An event of the SRQ's limit has come.
  void on_limit_reached();

  /// It has completed; nothing if it was not posted.
  [[nodiscard]] std::optional<Receive> take(std::uint64_t wr_id);
  /// Its buffer is not needed any more.
  void release(const Receive& receive);
  /// Takes the memory as it is where a failed connection leaves it open.
  void accept_unknown() { memory_.accept(area_.offset, area_.size); }

  /// What does not agree with the SRQ; requires that no queue pair has a receive in progress.
  [[nodiscard]] std::string contradiction() const;
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  std::uint64_t wr_id_high_;
  NodeMemory& memory_;
  Rng& rng_;
  std::uint32_t depth_;
  std::uint32_t max_sge_;
  roce::SharedReceiveQueue* srq_;
  Area area_;
  RangeAllocator ranges_;
  std::map<std::uint64_t, Receive> posted_;
  std::uint32_t next_ = 0;
  std::uint32_t armed_ = 0;  ///< the limit
  std::string error_;
};

}  // namespace rockhopper::sim
