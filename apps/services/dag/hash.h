// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::dag {

/// The hash code of a key (DG-6).
[[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> key);

/// Its `bits` highest bits, 1 to 64: what maps are looked up by. Fewer bits give more collisions,
/// and nothing else.
[[nodiscard]] constexpr std::uint64_t cut_hash(std::uint64_t hash, unsigned bits) {
  return hash >> (64 - bits);
}

}  // namespace rockhopper::dag
