// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

#include "apps/common/names.h"
#include "apps/common/transport.h"

namespace rockhopper::apps {
class Fields;
}  // namespace rockhopper::apps

namespace rockhopper::apps::perf {

class Backend;
struct Options;

/// Who takes the lock of Operation::lock; none: there are other operations.
enum class LockMode : std::uint8_t { none, target, cas };

constexpr auto names_of(LockMode) {
  return std::array{Names{"none"}, Names{"target", "at the target"},
                    Names{"cas", "by compare and swap"}};
}

/// What both ends' queue pairs have in common.
struct Agreement {
  Transport transport = Transport::rc;
  LockMode lock_mode = LockMode::none;
  std::uint16_t qps = 1;
  std::uint32_t window = 128;         ///< operations outstanding for each queue pair
  std::uint32_t receive_depth = 512;  ///< receives posted for each queue pair
  std::uint32_t size_max = 0;         ///< bytes of the largest message
  std::uint32_t inline_bytes = 0;     ///< messages up to this size are sent inline
  std::uint16_t outstanding_reads = 16;
  std::uint16_t path_mtu = 1024;
  std::uint8_t ack_timeout = 14;
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  bool selective_repeat = false;  ///< else go-back-N

  /// Work requests that a window has: those of a scope are acquire, access and release.
  [[nodiscard]] std::uint32_t send_depth() const {
    return lock_mode == LockMode::none ? window : 3 * window;
  }

  void describe(Fields& fields);
};

/// What the options ask for, within the device's limits; `size_max` is the workload's to set.
[[nodiscard]] Agreement propose(const Options& options, const Backend& device);

}  // namespace rockhopper::apps::perf
