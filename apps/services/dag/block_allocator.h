// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rockhopper::dag {

/// Deals out a range of addresses from 0 on: the smallest hole that fits, in pieces of
/// kRecordAlignment. Knows nothing of memory. Control path; belongs to one thread.
class BlockAllocator {
 public:
  explicit BlockAllocator(std::uint64_t bytes);

  /// Returns nothing if no hole is so large.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  /// Takes back what allocate() has given, with the same length, or a part of it.
  void release(std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }

 private:
  void add_hole(std::uint64_t address, std::uint64_t bytes);
  void remove_hole(std::map<std::uint64_t, std::uint64_t>::iterator hole);

  std::map<std::uint64_t, std::uint64_t> holes_;  ///< length by address; no two adjoin
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_length_;
  std::uint64_t size_;
  std::uint64_t free_bytes_ = 0;
};

}  // namespace rockhopper::dag
