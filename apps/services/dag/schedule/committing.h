// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/services/dag/schedule/node_attempt.h"

namespace rockhopper::dag {

/// Makes a node's end known (DG-34, DG-35, DG-37): where the output is and that the node is done,
/// in one WRITE; then to the successors. Executed in this order, all of it or what comes first.
/// That the node is released is written only when it is known that all successors have been told.
/// Lives for one call.
class NodeAttempt::Committing {
 public:
  explicit Committing(NodeAttempt& attempt)
      : attempt_(attempt), at_(attempt.at_), releases_(attempt.releases_) {}

  void begin();
  [[nodiscard]] bool post_commit();
  [[nodiscard]] bool post_successors();
  void on_successors();
  [[nodiscard]] bool post_directed();
  void on_directed();
  [[nodiscard]] bool post_release();
  void on_released();

 private:
  void note_committed();
  void make_ready(const NodeLink& link, std::uint32_t label);
  void go_on();
  void wait(std::uint64_t delay_ns);

  NodeAttempt& attempt_;
  Workplace& at_;
  SuccessorReleases& releases_;
};

}  // namespace rockhopper::dag
