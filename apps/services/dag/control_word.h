// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/services/dag/operation.h"

namespace rockhopper::dag {

/// A FETCH_ADD or CAS on a control word of a record. Lives for one call.
class Operation::ControlWord {
 public:
  explicit ControlWord(Operation& operation) : operation_(operation), client_(operation.client_) {}

  /// Before the record is looked for; `word` is below kControlWords.
  void prepare(unsigned word, std::uint64_t value, std::uint64_t swap) {
    operation_.atomic_ = {.word = word, .value = value, .swap = swap};
  }
  /// The record is where the pointer leads: it was there so short a time ago that its memory cannot
  /// be another's yet. Returns false if that is not so, and nothing has been done.
  [[nodiscard]] bool execute_at(const Pointer& pointer);
  /// The record has been found.
  void execute();
  void on_executed();

 private:
  Operation& operation_;
  ClientParts& client_;
};

}  // namespace rockhopper::dag
