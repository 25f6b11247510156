// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/lane_port.h"

namespace rockhopper::ami {

/// What the parts of an adapter have in common.
struct AdapterParts {
  const AdapterConfig config;
  Counters counters{};
  std::vector<std::unique_ptr<LanePort>> ports{};
  std::vector<std::unique_ptr<Peer>> peers{};
  std::uint64_t now_ns = 0;  ///< of this turn
};

}  // namespace rockhopper::ami
