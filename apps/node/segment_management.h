// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include <rte_mbuf.h>

#include "stack/segment/membership.h"

namespace rockhopper {

// The processes of a segment are one device, which has one queue pair 1. Each of them has a
// connection manager of its own, and what comes for that queue pair goes to one of them.

/// The highest byte of the communication IDs of the process in that slot: not 0.
[[nodiscard]] constexpr std::uint8_t id_prefix(std::uint16_t slot) {
  return static_cast<std::uint8_t>(slot + 1);
}
static_assert(stack::segment::kSlotsMax < UINT8_MAX);

/// The name that a service has among the processes of a segment; nothing if it cannot be shared.
/// Ports of connections and ports of datagrams are two spaces.
[[nodiscard]] std::optional<std::uint32_t> service_name(std::uint64_t service_id);

/// As stack::segment::FindReceiver: a request goes to who serves the service of that name, any
/// other message to who has chosen the receiver's ID. What goes to nobody is the asking process's
/// own, which rejects it; but a request waits first, as some programs tell their clients of a port
/// a moment before they listen, and here they may not get a processor in that moment.
[[nodiscard]] std::optional<std::uint16_t> find_manager(const rte_mbuf* frame,
                                                        const stack::segment::Membership& members);

}  // namespace rockhopper
