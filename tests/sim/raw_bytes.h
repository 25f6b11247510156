// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace rockhopper::sim {

/// Leaves what resize() adds as it is.
template <typename T>
struct RawAllocator : std::allocator<T> {
  void construct(T* place) noexcept { ::new (static_cast<void*>(place)) T; }
};

/// Memory for as much as a run may need. A run needs a small part of it, nearly always, and there
/// are thousands of runs: to clear the rest would be most of what they do.
using RawBytes = std::vector<std::uint8_t, RawAllocator<std::uint8_t>>;

}  // namespace rockhopper::sim
