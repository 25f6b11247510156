// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/services/dag/operation.h"

namespace rockhopper::dag {

/// WRITEs into an arena: a whole record, or bytes. Lives for one call.
class Operation::Writing {
 public:
  explicit Writing(Operation& operation) : operation_(operation) {}

  /// `record`, at `entry`, which lies in the arena. The buffer has room for it.
  void write_record(const RecordInit& record, const Entry& entry);
  /// Bytes, `offset` from the begin of the arena. The buffer has room for them.
  void write(const Entry& arena, std::uint64_t offset, std::span<const std::byte> data);
  void on_written();

 private:
  void write(std::size_t length, std::uint64_t remote);

  Operation& operation_;
};

}  // namespace rockhopper::dag
