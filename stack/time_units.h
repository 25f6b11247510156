// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper {

inline constexpr std::uint64_t kNsPerUs = 1'000;
inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

[[nodiscard]] constexpr double in_seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / double{kNsPerSecond};
}

}  // namespace rockhopper
