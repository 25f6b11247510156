// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rockhopper::apps::messages {

/// How an end's memory is used, the same at both ends: a token that names it, a word for each slot
/// (notifications, what handlers leave, additions), what the peer puts and gets, and what this end
/// sends and fetches. Without --check there is one slot.
struct Layout {
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kToken = 0;

  std::uint64_t slots = 1;
  std::size_t size_max = 0;  ///< bytes of the largest payload

  [[nodiscard]] std::size_t word(std::uint64_t number) const {
    return kAlignment + number % slots * sizeof(std::uint64_t);
  }
  [[nodiscard]] std::size_t target(std::uint64_t number) const {
    return align(word(0) + slots * sizeof(std::uint64_t)) + number % slots * slot_bytes();
  }
  [[nodiscard]] std::size_t local(std::uint64_t number) const {
    return target(number) + slots * slot_bytes();
  }
  [[nodiscard]] std::size_t bytes() const { return local(0) + slots * slot_bytes(); }

 private:
  [[nodiscard]] static std::size_t align(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  [[nodiscard]] std::size_t slot_bytes() const {
    return align(std::max(size_max, sizeof(std::uint64_t)));
  }
};

}  // namespace rockhopper::apps::messages
