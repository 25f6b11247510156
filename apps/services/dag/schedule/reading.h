// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/services/dag/schedule/node_attempt.h"

namespace rockhopper::dag {

/// READs the inputs of a node that has been claimed, and prepares it for the executor. Lives for
/// one call.
class NodeAttempt::Reading {
 public:
  explicit Reading(NodeAttempt& attempt) : attempt_(attempt), at_(attempt.at_) {}

  void begin();
  [[nodiscard]] bool post_places();
  [[nodiscard]] bool post_inputs();
  /// One of the inputs has been READ, or cannot be.
  void on_result(std::uint32_t input, const Result& result);
  void on_inputs();

 private:
  [[nodiscard]] Started start(std::size_t input);
  void prepare();

  NodeAttempt& attempt_;
  Workplace& at_;
};

}  // namespace rockhopper::dag
