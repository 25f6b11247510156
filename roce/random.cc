// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/random.h"

#include <cstdlib>

#include <sys/random.h>

namespace rockhopper::roce {

std::uint64_t Random::below(std::uint64_t bound) {
  // Values under the remainder of 2^64 / bound would be hit once more often than the rest.
  const std::uint64_t unfair = (0 - bound) % bound;
  std::uint64_t value = next();
  while (value < unfair) {
    value = next();
  }
  return value % bound;
}

std::uint64_t SystemRandom::next() {
  std::uint64_t value = 0;
  // Up to 256 bytes are never cut short; only a kernel without the call can fail here.
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}

std::uint64_t SeededRandom::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace rockhopper::roce
