// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::publisher {

/// Where a reader begins (PB-32).
struct Start {
  enum class At : std::uint8_t {
    tail,      ///< with what is published from now on
    oldest,    ///< with the oldest message that is there
    sequence,  ///< with message number `value`; what of it on is there no more is told as lost
    time,      ///< with the first message whose time is `value` or later
  };
  At at = At::tail;
  std::uint64_t value = 0;  ///< a sequence number, or nanoseconds
};

struct ReaderConfig {
  Start start{};
  /// READ at a time, bytes; the longest message fits in any case.
  std::uint32_t batch_bytes = 256 * 1024;
  /// How long to wait before looking again: the first time after something new, and how far that is
  /// doubled while nothing comes, which is the latency to expect then. Not longer than a
  /// heart-beat. (PB-28)
  std::uint64_t poll_min_ns = 0;
  std::uint64_t poll_max_ns = 1'000'000;
  std::uint32_t reads_per_second = 0;  ///< at most; 0: without limit (PB-28)
  /// Once all is read, have the publisher tell when there is more, in place of looking (PB-29).
  bool watch = false;
};

}  // namespace rockhopper::publisher
