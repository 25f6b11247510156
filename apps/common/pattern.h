// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rockhopper::apps {

/// Test data whose every byte follows from a seed, a message number and its offset, so that data
/// of another message, place or run does not pass for the right one.
void fill_pattern(std::span<std::byte> out, std::uint64_t seed, std::uint64_t message);

/// The offset of the first byte that is not the pattern's.
[[nodiscard]] std::optional<std::size_t> find_pattern_mismatch(std::span<const std::byte> data,
                                                               std::uint64_t seed,
                                                               std::uint64_t message);

}  // namespace rockhopper::apps
