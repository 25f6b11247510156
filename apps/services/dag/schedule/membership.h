// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>

#include "apps/services/dag/status.h"

namespace rockhopper::dag {

/// Whether a worker takes part in the runs of its home. What it asks the home for is answered
/// before it asks again; whatever happens, it can be lost.
///
///     outside --join--> joining --answer--> joined --leave()--> leaving --answer--> left
///        +----------------+-------------------------leave()-------^
class Membership {
 public:
  enum class State : std::uint8_t { outside, joining, joined, leaving, left, lost };

  [[nodiscard]] State state() const { return state_; }
  /// It may claim nodes.
  [[nodiscard]] bool takes_nodes() const { return state_ == State::joined && !draining_; }
  /// What it has, and what is under way, goes no further.
  [[nodiscard]] bool has_stopped() const { return state_ >= State::leaving; }
  [[nodiscard]] bool is_lost() const { return state_ == State::lost; }
  [[nodiscard]] bool is_over() const { return state_ >= State::left; }
  [[nodiscard]] bool awaits_answer() const { return asked_; }
  /// It is to ask to leave as soon as nothing of it is under way.
  [[nodiscard]] bool is_to_ask_to_leave() const { return state_ == State::leaving && !asked_; }

  /// Has asked the home to join, from State::outside on.
  void on_asked_to_join() {
    assert(state_ == State::outside && !asked_);
    asked_ = true;
    state_ = State::joining;
  }
  void on_joined() {
    asked_ = false;
    if (state_ == State::joining) state_ = State::joined;
  }
  /// It takes no more nodes, and has what it has.
  void drain() { draining_ = true; }
  /// Returns false if it has stopped before.
  [[nodiscard]] bool leave() {
    if (has_stopped()) return false;
    state_ = State::leaving;
    return true;
  }
  void on_asked_to_leave() {
    assert(is_to_ask_to_leave());
    asked_ = true;
  }
  void on_left() {
    asked_ = false;
    if (state_ == State::leaving) state_ = State::left;
  }
  /// Nothing that it had will count. The first reason is the one that is told.
  void lose(Status why) {
    if (is_lost()) return;
    state_ = State::lost;
    untold_ = why;
  }
  [[nodiscard]] bool has_to_tell() const { return untold_.has_value(); }
  /// Returns why it was lost, once.
  [[nodiscard]] std::optional<Status> take_reason() {
    assert(!untold_ || is_lost());
    const std::optional<Status> why = untold_;
    untold_.reset();
    return why;
  }

 private:
  State state_ = State::outside;
  bool draining_ = false;
  bool asked_ = false;            ///< the home has not answered yet
  std::optional<Status> untold_;  ///< only of State::lost
};

}  // namespace rockhopper::dag
