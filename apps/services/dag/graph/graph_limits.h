// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::dag {

/// What a graph may have at most. Memory that a server reserves for one follows from these.
struct GraphLimits {
  std::uint32_t nodes = 1u << 22;
  std::uint32_t edges = 1u << 25;
  std::uint32_t tasks = 1u << 23;
  std::uint32_t tasks_of_node = 1024;
  std::uint32_t key_bytes = 1024;
  std::uint32_t arguments_bytes = 1u << 20;              ///< of one task
  std::uint64_t strings_bytes = std::uint64_t{1} << 31;  ///< all keys and arguments
};

/// All work and all times to wait of a graph together, so that no sum of them overflows: 146 years.
inline constexpr std::uint64_t kTotalTimeMaxNs = std::uint64_t{1} << 62;

}  // namespace rockhopper::dag
