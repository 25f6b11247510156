// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/services/dag/schedule/node_attempt.h"

namespace rockhopper::dag {

/// Finds out whether a node is for this worker, and claims it (DG-35). Lives for one call.
class NodeAttempt::Claiming {
 public:
  explicit Claiming(NodeAttempt& attempt) : attempt_(attempt), at_(attempt.at_) {}

  [[nodiscard]] bool post_look() { return post_record(false); }
  void on_looked();
  [[nodiscard]] bool post_trace();
  void on_traced();
  [[nodiscard]] bool post_claim() { return post_record(true); }
  void on_claimed();

 private:
  [[nodiscard]] std::span<const std::byte> record() const {
    return attempt_.record_.bytes().first(attempt_.origin_.entry.length);
  }
  [[nodiscard]] bool post_record(bool claim);
  [[nodiscard]] bool find_traced();
  void on_lost(const NodeState& found);
  void on_won();

  NodeAttempt& attempt_;
  Workplace& at_;
};

}  // namespace rockhopper::dag
