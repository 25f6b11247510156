// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::stack {

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): the
/// same sequence from a seed on every machine, which std:: distributions do not promise. Not for
/// secrets.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Uniform in 0 to bound - 1; 0 when bound is 0. The bias is below bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

  /// Returns true with `probability`, 0 to 1.
  constexpr bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

}  // namespace rockhopper::stack
