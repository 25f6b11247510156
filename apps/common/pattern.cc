// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/pattern.h"

#include <cstring>

namespace rockhopper::apps {
namespace {

/// The finaliser of SplitMix64: each bit of the result depends on every bit of `x`.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The pattern's `index`th eight bytes of the message that `base` stands for.
std::uint64_t word(std::uint64_t base, std::uint64_t index) {
  return mix(base + index * 0x9e3779b97f4a7c15);
}

}  // namespace

void fill_pattern(std::span<std::byte> out, std::uint64_t seed, std::uint64_t message) {
  const std::uint64_t base = mix(seed) ^ mix(message + 1);
  std::uint64_t index = 0;
  while (!out.empty()) {
    const std::uint64_t value = word(base, index++);
    const std::size_t length = out.size() < sizeof(value) ? out.size() : sizeof(value);
    std::memcpy(out.data(), &value, length);
    out = out.subspan(length);
  }
}

std::optional<std::size_t> find_pattern_mismatch(std::span<const std::byte> data,
                                                 std::uint64_t seed, std::uint64_t message) {
  const std::uint64_t base = mix(seed) ^ mix(message + 1);
  for (std::size_t at = 0; at < data.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t value = word(base, at / sizeof(value));
    const std::size_t length = data.size() - at < sizeof(value) ? data.size() - at : sizeof(value);
    if (std::memcmp(data.data() + at, &value, length) == 0) continue;
    const auto* expected = reinterpret_cast<const std::byte*>(&value);
    for (std::size_t i = 0; i < length; ++i) {
      if (data[at + i] != expected[i]) return at + i;
    }
  }
  return std::nullopt;
}

}  // namespace rockhopper::apps
