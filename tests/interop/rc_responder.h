// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/interop/rc_endpoint.h"
#include "tests/interop/rc_script.h"

namespace rockhopper::interop {

/// Takes what the peer's script sends: posts receives, checks each message, and compares the region
/// with the script's model after each phase. Throws Failure at the first thing that is wrong.
class ResponderHalf {
 public:
  /// late_receives: 0, or how many receives to post at a time once the peer sends already.
  ResponderHalf(Endpoint& endpoint, const ScriptOptions& options, Direction direction,
                std::uint32_t late_receives);

  /// Draws the next phase, posts its receives and renews its keys; false at the end of the script.
  [[nodiscard]] bool begin_phase();
  [[nodiscard]] const std::vector<std::uint32_t>& keys() const { return keys_; }
  /// Posts late receives where the posted ones are used up; true if anything.
  [[nodiscard]] bool post_late();
  void on_completion(const Completed& completed);
  [[nodiscard]] bool phase_done() const { return received_ == expected_.size(); }
  /// The peer says that its phase is done: every byte of the region must be as in the model.
  void check_region() const;

  [[nodiscard]] nlohmann::json summary() const;
  /// Where it stands, for messages about a stall.
  [[nodiscard]] nlohmann::json progress() const;

 private:
  void post(std::size_t count);
  void check_receive(const Operation& operation, const Completed& completed) const;

  Endpoint& endpoint_;
  const std::uint32_t late_receives_;
  Script script_;
  Phase phase_;
  std::vector<const Operation*> expected_;  ///< those of the phase that consume a receive, in order
  std::vector<std::uint32_t> keys_;
  std::size_t posted_ = 0;
  std::size_t received_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace rockhopper::interop
