// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>

#include "stack/time_units.h"

namespace rockhopper::stack {

/// When a memif client without a link looks for its server, as its driver connects only when it
/// starts. One thread looks at a time.
class MemifReconnection {
 public:
  /// Before all else, if the port is such a client.
  void enable() { is_enabled_ = true; }
  [[nodiscard]] bool is_enabled() const { return is_enabled_; }

  /// The device has started: the peers shake hands in the background. With a guard, which knows
  /// when they have given up, the next look does not wait for their time to pass.
  void on_started(std::uint64_t now_ns, bool has_guard) {
    handshake_end_ns_ = now_ns + kHandshakeTimeoutNs;
    next_look_ns_ = has_guard ? now_ns + kIntervalNs : handshake_end_ns_;
  }
  /// They may be shaking hands still.
  [[nodiscard]] bool is_in_handshake(std::uint64_t now_ns) const {
    return now_ns < handshake_end_ns_;
  }
  /// Returns true if it is time to look; then no other thread does until end_look().
  [[nodiscard]] bool begin_look(std::uint64_t now_ns) {
    if (now_ns < next_look_ns_ || is_looking_.test_and_set(std::memory_order_acquire)) return false;
    next_look_ns_ = now_ns + kIntervalNs;
    return true;
  }
  void end_look() { is_looking_.clear(std::memory_order_release); }

 private:
  static constexpr std::uint64_t kIntervalNs = 50 * kNsPerMs;
  static constexpr std::uint64_t kHandshakeTimeoutNs = 1000 * kNsPerMs;

  bool is_enabled_ = false;
  std::atomic_flag is_looking_;
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t handshake_end_ns_ = 0;
};

}  // namespace rockhopper::stack
