// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::sim {

/// While one exists, and no AllocationsAllowed within it, what operator new gives is counted.
class AllocationsForbidden {
 public:
  AllocationsForbidden();
  ~AllocationsForbidden();
  AllocationsForbidden(const AllocationsForbidden&) = delete;
  AllocationsForbidden& operator=(const AllocationsForbidden&) = delete;
};

/// A test's own, for which the library cannot be blamed.
class AllocationsAllowed {
 public:
  AllocationsAllowed();
  ~AllocationsAllowed();
  AllocationsAllowed(const AllocationsAllowed&) = delete;
  AllocationsAllowed& operator=(const AllocationsAllowed&) = delete;

 private:
  unsigned before_;
};

/// Since the process began.
[[nodiscard]] std::uint64_t forbidden_allocations();

}  // namespace rockhopper::sim
