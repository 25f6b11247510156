// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <optional>
#include <span>

#include "apps/services/dag/operation.h"

namespace rockhopper::dag {

/// Finds a record: READs what may be it, and lets the bytes decide (DG-6 to DG-9). Lives for one
/// call.
class Operation::Reading {
 public:
  explicit Reading(Operation& operation) : operation_(operation), client_(operation.client_) {}

  /// By the operation's key: goes by the client's own map.
  void look_up();
  /// There is one candidate.
  void follow(const Entry& entry);
  /// READs the next candidates.
  void read_next();
  void on_read();

 private:
  void on_torn();
  void on_found(const Entry& entry, const RecordView& view);

  Operation& operation_;
  ClientParts& client_;
};

}  // namespace rockhopper::dag
