// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/agreement.h"

#include <algorithm>

#include "apps/rh_perf/backend.h"
#include "apps/rh_perf/options.h"

namespace rockhopper::apps::perf {

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
