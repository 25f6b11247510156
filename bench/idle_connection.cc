// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/idle_connection.h"

#include <malloc.h>

#include "bench/engine_pair.h"

namespace rockhopper::bench {
namespace {

/// Bytes that the allocator has given for each of `qps` connections, whose queues have `depth`
/// entries.
double bytes_per_connection(std::uint32_t qps, std::uint32_t depth, std::uint8_t max_rd_atomic) {
  const auto used = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
  };
  const double before = used();
  const EnginePair pair({.qps = qps, .outstanding = depth, .max_rd_atomic = max_rd_atomic});
  return (used() - before) / qps;
}

}  // namespace

double idle_connection_bytes(std::uint32_t qps, std::uint8_t max_rd_atomic) {
  // The queues grow with the depth, so that two depths tell them from the rest.
  const double shallow = bytes_per_connection(qps, 16, max_rd_atomic);
  const double deep = bytes_per_connection(qps, 32, max_rd_atomic);
  return (2 * shallow - deep) / 2;
}

}  // namespace rockhopper::bench
