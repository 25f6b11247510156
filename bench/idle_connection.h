// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::bench {

/// The memory, in bytes, of one end of an idle connection beyond its work queues and its share of
/// the completion queue. Both ends of `qps` connections are made and taken away again.
[[nodiscard]] double idle_connection_bytes(std::uint32_t qps, std::uint8_t max_rd_atomic);

}  // namespace rockhopper::bench
