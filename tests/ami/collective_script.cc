// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/ami/collective_script.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace rockhopper::sim {
namespace {

using ami::ElementType;
using ami::Reduction;

double draw_double(Rng& rng, bool zero) {
  // Which one is the least depends on the order of operands.
  if (zero) return rng.pick({0.0, -0.0});
  if (rng.chance(3)) {
    return rng.pick({std::numeric_limits<double>::quiet_NaN(),
                     -std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity(),
                     -std::numeric_limits<double>::infinity(), 0.0, -0.0});
  }
  // Of very different sizes: every other order of additions gives other bits.
  const double mantissa = static_cast<double>(static_cast<std::int64_t>(rng.next())) * 0x1p-63;
  return std::ldexp(mantissa, static_cast<int>(rng.between(0, 60)));
}

template <typename T>
T apply(Reduction reduction, T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    if (std::isnan(a) || std::isnan(b)) return none;
    if (reduction == Reduction::sum) return std::isnan(a + b) ? none : a + b;
  } else {
    if (reduction == Reduction::sum) {
      return std::bit_cast<T>(std::bit_cast<std::uint64_t>(a) + std::bit_cast<std::uint64_t>(b));
    }
    if (reduction == Reduction::bit_and) return a & b;
    if (reduction == Reduction::bit_or) return a | b;
  }
  if (reduction == Reduction::min) return a <= b ? a : b;
  return a >= b ? a : b;
}

/// Neighbours of the first 2 * (n - p) ranks together, p the largest power of two up to n; then
/// always two neighbouring blocks together.
template <typename T>
T tree(Reduction reduction, std::vector<T> blocks) {
  std::size_t p = 1;
  while (p * 2 <= blocks.size()) {
    p *= 2;
  }
  for (std::size_t pair = 0; blocks.size() > p; ++pair) {
    blocks[pair] = apply(reduction, blocks[pair], blocks[pair + 1]);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(pair) + 1);
  }
  while (blocks.size() > 1) {
    std::vector<T> halved;
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      halved.push_back(apply(reduction, blocks[i], blocks[i + 1]));
    }
    blocks = std::move(halved);
  }
  return blocks[0];
}

template <typename T>
std::vector<std::byte> reduced(const Planned& planned, unsigned ranks) {
  std::vector<std::byte> result(planned.length);
  for (std::size_t at = 0; at < planned.length; at += sizeof(T)) {
    std::vector<T> column(ranks);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      std::memcpy(&column[rank], given(planned, rank).data() + at, sizeof(T));
    }
    const T value = tree(planned.reduction, std::move(column));
    std::memcpy(result.data() + at, &value, sizeof value);
  }
  return result;
}

}  // namespace

Planned draw_collective(Rng& rng, unsigned ranks, std::uint32_t vector_bytes,
                        std::uint32_t long_bytes, bool broadcasts_only) {
  Planned planned;
  planned.kind =
      broadcasts_only
          ? Planned::Kind::broadcast
          : rng.pick({Planned::Kind::barrier, Planned::Kind::broadcast, Planned::Kind::all_reduce});
  planned.value = rng.next();
  if (planned.kind == Planned::Kind::broadcast) {
    planned.root = static_cast<unsigned>(rng.between(0, ranks - 1));
    planned.length = rng.pick({0u, 1u, 40u, vector_bytes, vector_bytes + 1, 900u, long_bytes});
    if (broadcasts_only && rng.chance(80)) {
      planned.root = 0;
      planned.length = 40;
    }
  }
  if (planned.kind == Planned::Kind::all_reduce) {
    planned.element = rng.pick({ElementType::int64, ElementType::uint64, ElementType::float64});
    planned.reduction = rng.pick({Reduction::sum, Reduction::min, Reduction::max});
    if (planned.element != ElementType::float64 && rng.chance(40)) {
      planned.reduction = rng.pick({Reduction::bit_and, Reduction::bit_or});
    }
    planned.length = 8 * rng.between32(0, vector_bytes / 8);
  }
  return planned;
}

std::vector<std::byte> given(const Planned& planned, unsigned rank) {
  std::vector<std::byte> bytes(planned.length);
  Rng rng(planned.value + rank * 0x9e3779b97f4a7c15u);
  if (planned.kind == Planned::Kind::broadcast && rank != planned.root) return bytes;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = rng.next();
    if (planned.kind == Planned::Kind::all_reduce && planned.element == ElementType::float64) {
      const bool zeros = Rng(planned.value ^ at).chance(20);  // at all ranks
      word = std::bit_cast<std::uint64_t>(draw_double(rng, zeros));
    }
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
  return bytes;
}

std::vector<std::byte> expected(const Planned& planned, unsigned ranks) {
  if (planned.kind == Planned::Kind::broadcast) return given(planned, planned.root);
  if (planned.kind == Planned::Kind::barrier) return {};
  switch (planned.element) {
    case ElementType::int64:
      return reduced<std::int64_t>(planned, ranks);
    case ElementType::uint64:
      return reduced<std::uint64_t>(planned, ranks);
    case ElementType::float64:
      return reduced<double>(planned, ranks);
  }
  return {};
}

}  // namespace rockhopper::sim
