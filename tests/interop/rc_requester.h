// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/interop/rc_endpoint.h"
#include "tests/interop/rc_script.h"

namespace rockhopper::interop {

/// Posts the operations of its script, phase by phase, and checks what their completions bring.
/// Throws Failure at the first thing that is wrong.
class RequesterHalf {
 public:
  /// wait_for_fence: see rc_script.h.
  RequesterHalf(Endpoint& endpoint, const ScriptOptions& options, Direction direction,
                bool wait_for_fence);

  /// Draws the next phase and lays out its local buffers; false at the end of the script.
  [[nodiscard]] bool begin_phase();
  /// The peer is ready: `keys` are those of this phase.
  void start(const RemoteRegion& region, std::vector<std::uint32_t> keys);
  /// Posts what the window allows; true if anything.
  [[nodiscard]] bool post();
  void on_completion(const Completed& completed);
  [[nodiscard]] bool phase_done() const { return completed_ == phase_.operations.size(); }

  [[nodiscard]] std::uint64_t operations_done() const { return done_; }
  /// Operations of each kind, and bytes.
  [[nodiscard]] nlohmann::json summary() const;
  /// Where it stands, for messages about a stall.
  [[nodiscard]] nlohmann::json progress() const;

 private:
  [[nodiscard]] bool may_post() const;
  [[nodiscard]] Request to_request(const Operation& operation) const;
  void check_result(const Operation& operation);
  void count(const Operation& operation);

  Endpoint& endpoint_;
  const std::uint32_t window_;
  const bool wait_for_fence_;
  Script script_;
  Phase phase_;
  RemoteRegion region_;
  std::vector<std::uint32_t> keys_;
  bool started_ = false;
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;  ///< all operations before this one are known to be complete
  std::vector<Request> batch_;
  std::array<std::uint64_t, kOperationKinds> count_{};
  std::uint64_t done_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace rockhopper::interop
