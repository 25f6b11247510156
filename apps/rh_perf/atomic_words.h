// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "apps/common/pattern.h"

namespace rockhopper::apps::perf {

/// What atomics act on (IBTA vol. 1, 9.4.5). The words stand in host byte order, as for verbs.
inline constexpr std::size_t kWordBytes = 8;

[[nodiscard]] inline std::uint64_t load_word(std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.first(kWordBytes).data(), kWordBytes);
  return word;
}

inline void store_word(std::span<std::byte> bytes, std::uint64_t word) {
  std::memcpy(bytes.first(kWordBytes).data(), &word, kWordBytes);
}

/// The values of one atomic in a validation: the word before it, and the swap or add operand.
struct AtomicWords {
  std::uint64_t before = 0;
  std::uint64_t operand = 0;
};

[[nodiscard]] inline AtomicWords atomic_words(std::uint64_t seed, std::uint64_t number) {
  std::byte bytes[2 * kWordBytes];
  fill_pattern(bytes, seed, number);
  return {load_word(bytes), load_word(std::span(bytes).subspan(kWordBytes))};
}

}  // namespace rockhopper::apps::perf
