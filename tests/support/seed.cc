// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/seed.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace rockhopper::test {
namespace {

std::uint64_t draw_seed() {
  const char* given = std::getenv("ROCKHOPPER_SEED");
  std::random_device device;
  const std::uint64_t seed = given != nullptr
                                 ? std::strtoull(given, nullptr, 0)
                                 : std::uint64_t{device()} << 32 | std::uint64_t{device()};
  std::printf("seed: repeat with ROCKHOPPER_SEED=0x%" PRIx64 "\n", seed);
  std::fflush(stdout);
  return seed;
}

}  // namespace

std::uint64_t seed() {
  static const std::uint64_t value = draw_seed();
  return value;
}

}  // namespace rockhopper::test
