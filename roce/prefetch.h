// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>

#include <rte_prefetch.h>

namespace rockhopper::roce {

/// Loads the cache lines of [begin, begin + length), which need not be readable: a hint.
inline void prefetch_bytes(const void* begin, std::size_t length) {
  const auto* bytes = static_cast<const std::byte*>(begin);
  for (std::size_t offset = 0; offset < length; offset += RTE_CACHE_LINE_SIZE) {
    rte_prefetch0(bytes + offset);
  }
}

}  // namespace rockhopper::roce
