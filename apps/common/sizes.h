// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stack/error.h"

namespace rockhopper::apps {

inline constexpr std::uint32_t kSizeMax = 1u << 31;
inline constexpr double kBytesPerMib = 1 << 20;

/// A value of --size, as stack::parse_bytes() takes it; kSizeMax at most.
[[nodiscard]] Expected<std::uint32_t> parse_size(std::string_view text);
/// Some with commas between them, each `max` (of whole MiB) at most.
[[nodiscard]] Expected<std::vector<std::uint32_t>> parse_sizes(std::string_view list,
                                                               std::uint32_t max);

}  // namespace rockhopper::apps
