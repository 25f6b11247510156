// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rockhopper::sim {

/// What happened to one 64-bit word that several queue pairs and the node's own processor change at
/// once, and whether that can have been one operation after the other.
class AtomicHistory {
 public:
  explicit AtomicHistory(std::uint64_t initial) : initial_(initial) {}

  /// An increment by one by `actor` that returned `before`. In the order of each actor's requests.
  void add_increment(std::uint32_t actor, std::uint64_t before) {
    increments_.push_back({actor, before});
  }
  /// A compare-and-swap; every `swap` of a history is a value of its own, and never a `compare`
  /// that nobody has written.
  void add_swap(std::uint32_t actor, std::uint64_t compare, std::uint64_t swap,
                std::uint64_t before) {
    swaps_.push_back({actor, compare, swap, before});
  }

  /// Why the operations and the word's final value have no order that explains them.
  [[nodiscard]] std::optional<std::string> contradiction(std::uint64_t final) const;

 private:
  struct Increment {
    std::uint32_t actor;
    std::uint64_t before;
  };
  struct Swap {
    std::uint32_t actor;
    std::uint64_t compare, swap, before;
  };
  [[nodiscard]] std::optional<std::string> check_increments(std::uint64_t final) const;
  [[nodiscard]] std::optional<std::string> check_swaps(std::uint64_t final) const;

  std::uint64_t initial_;
  std::vector<Increment> increments_;
  std::vector<Swap> swaps_;
};

}  // namespace rockhopper::sim
