// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/services/dag/schedule/node_attempt.h"

namespace rockhopper::dag {

/// Writes a node's output into an arena of its run, before anybody hears of it (DG-37). Lives for
/// one call.
class NodeAttempt::Storing {
 public:
  explicit Storing(NodeAttempt& attempt) : attempt_(attempt), at_(attempt.at_) {}

  [[nodiscard]] bool post();
  void on_result(const Result& result);

 private:
  [[nodiscard]] bool find_memory(const Arenas::Key& key, std::uint64_t bytes);
  [[nodiscard]] bool write(const Arenas::Key& key, std::uint64_t bytes);

  NodeAttempt& attempt_;
  Workplace& at_;
};

}  // namespace rockhopper::dag
