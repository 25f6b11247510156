// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/reduction.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace rockhopper::ami {
namespace {

template <typename T, typename Operation>
void for_each(const std::byte* lower, const std::byte* upper, std::byte* result, std::size_t count,
              Operation operation) {
  for (std::size_t at = 0; at < count * sizeof(T); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, lower + at, sizeof a);
    std::memcpy(&b, upper + at, sizeof b);
    T made = operation(a, b);
    if constexpr (std::is_floating_point_v<T>) {
      // Which NaN comes of two is the compiler's choice.
      if (std::isnan(a) || std::isnan(b) || std::isnan(made)) {
        made = std::numeric_limits<T>::quiet_NaN();
      }
    }
    std::memcpy(result + at, &made, sizeof made);
  }
}

template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename T>
void reduce_as(Reduction reduction, const std::byte* lower, const std::byte* upper,
               std::byte* result, std::size_t count) {
  switch (reduction) {
    case Reduction::sum:
      return for_each<T>(lower, upper, result, count, [](T a, T b) { return add(a, b); });
    case Reduction::min:
      return for_each<T>(lower, upper, result, count, [](T a, T b) { return b < a ? b : a; });
    case Reduction::max:
      return for_each<T>(lower, upper, result, count, [](T a, T b) { return a < b ? b : a; });
    case Reduction::bit_and:
    case Reduction::bit_or:
      if constexpr (std::is_integral_v<T>) {
        const bool both = reduction == Reduction::bit_and;
        for_each<T>(lower, upper, result, count, [both](T a, T b) { return both ? a & b : a | b; });
      }
      return;
  }
}

}  // namespace

bool is_defined(Reduction reduction, ElementType type) {
  const bool known_reduction = reduction >= Reduction::sum && reduction <= Reduction::bit_or;
  const bool known_type = type >= ElementType::int64 && type <= ElementType::float64;
  return known_reduction && known_type &&
         (type != ElementType::float64 || reduction < Reduction::bit_and);
}

void reduce(Reduction reduction, ElementType type, const std::byte* lower, const std::byte* upper,
            std::byte* result, std::size_t count) {
  switch (type) {
    case ElementType::int64:
      return reduce_as<std::int64_t>(reduction, lower, upper, result, count);
    case ElementType::uint64:
      return reduce_as<std::uint64_t>(reduction, lower, upper, result, count);
    case ElementType::float64:
      return reduce_as<double>(reduction, lower, upper, result, count);
  }
}

}  // namespace rockhopper::ami
