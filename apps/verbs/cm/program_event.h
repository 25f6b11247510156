// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::verbs::cm {

/// As enum rdma_cm_event_type of rdma/rdma_cma.h, which cannot be included beside the kernel's
/// rdma/rdma_user_cm.h.
enum class ProgramEvent : std::uint32_t {
  addr_resolved = 0,
  addr_error = 1,
  route_resolved = 2,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  multicast_join = 12,
  timewait_exit = 15,
};

[[nodiscard]] constexpr std::uint32_t number_of(ProgramEvent event) {
  return static_cast<std::uint32_t>(event);
}

}  // namespace rockhopper::verbs::cm
