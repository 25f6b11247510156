// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>

#include "stack/error.h"

namespace rockhopper::apps {

/// Looks now and then, while a loop is busy, at what may end it: a signal, the peer, silence.
class Watch {
 public:
  /// `check` tells of a failure outside, such as the peer's; it may be slow. `timeout_ns` is the
  /// longest time without progress while this end waits for some.
  Watch(std::function<Expected<void>()> check, std::uint64_t timeout_ns);

  /// Once a turn of the loop; cheap nearly always.
  [[nodiscard]] Expected<void> turn(bool progress) {
    progress_ = progress_ || progress;
    return ++turns_ % kTurnsPerCheck == 0 ? look() : Expected<void>{};
  }

  /// Whether silence is a failure: not while this end just serves.
  void set_impatient(bool impatient);

 private:
  /// Few, as on a busy machine a turn may take as long as others compute.
  static constexpr std::uint32_t kTurnsPerCheck = 32;
  [[nodiscard]] Expected<void> look();

  std::function<Expected<void>()> check_;
  std::uint64_t timeout_ns_;
  std::uint32_t turns_ = 0;
  bool progress_ = false;
  bool impatient_ = false;
  std::uint64_t last_progress_ns_ = 0;
  std::uint64_t next_check_ns_ = 0;
};

}  // namespace rockhopper::apps
