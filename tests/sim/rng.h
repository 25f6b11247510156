// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include "roce/random.h"

namespace rockhopper::sim {

/// The one source of chance in a simulated run: everything that a run draws comes from here, in an
/// order that depends on nothing but the seed.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : source_(seed) {}

  [[nodiscard]] std::uint64_t next() { return source_.next(); }
  /// Uniform in [low, high].
  [[nodiscard]] std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + source_.below(high - low + 1);
  }
  [[nodiscard]] std::uint32_t between32(std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(between(low, high));
  }
  /// True in `percent` of 100 cases.
  [[nodiscard]] bool chance(unsigned percent) { return source_.below(100) < percent; }
  template <typename T>
  [[nodiscard]] T pick(std::initializer_list<T> choices) {
    return choices.begin()[source_.below(choices.size())];
  }
  void fill(std::span<std::uint8_t> bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t word = next();
      std::memcpy(&bytes[i], &word, std::min(sizeof word, bytes.size() - i));
    }
  }

 private:
  roce::SeededRandom source_;
};

}  // namespace rockhopper::sim
