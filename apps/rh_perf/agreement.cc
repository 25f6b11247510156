// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/agreement.h"

#include <algorithm>
#include <array>

#include "apps/common/names.h"
#include "apps/rh_perf/backend.h"
#include "apps/rh_perf/options.h"

namespace rockhopper::apps::perf {
namespace {

constexpr std::array kLockModes = {
    Names{"none"},
    Names{"target", "at the target"},
    Names{"cas", "by compare and swap"},
};

}  // namespace

std::string_view to_string(LockMode mode) { return names_of(kLockModes, mode).name; }

std::string_view title(LockMode mode) { return names_of(kLockModes, mode).title; }

std::optional<LockMode> parse_lock_mode(std::string_view name) {
  return parse_name<LockMode>(kLockModes, name);
}

Agreement propose(const Options& options, const Backend& device) {
  return {
      .transport = options.transport,
      .lock_mode = options.lock_mode,
      .qps = options.qps,
      .window = options.window,
      .receive_depth = options.receive_depth,
      .inline_bytes = options.inline_bytes,
      .outstanding_reads = std::min(options.outstanding_reads, device.outstanding_reads_max()),
      .path_mtu = options.path_mtu.value_or(static_cast<std::uint16_t>(device.path_mtu_max())),
      .ack_timeout = static_cast<std::uint8_t>(options.ack_timeout),
      .service_level = static_cast<std::uint8_t>(options.service_level),
      .traffic_class = static_cast<std::uint8_t>(options.endpoint.traffic_class),
      .selective_repeat = options.recovery == roce::RecoveryAlgorithm::selective_repeat &&
                          device.selective_repeat(),
  };
}

}  // namespace rockhopper::apps::perf
