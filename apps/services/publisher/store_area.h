// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "stack/error.h"

namespace rockhopper::publisher {

/// Deals out one piece of memory to several stores (PB-1, PB-2), aligned to pages, so that no two
/// share one. Control path; belongs to one thread.
class StoreArea {
 public:
  static constexpr std::size_t kAlignment = 4096;

  /// `memory` begins at a page; it stays the caller's and must outlive the area.
  [[nodiscard]] static Expected<StoreArea> create(std::span<std::byte> memory);

  /// The first place that has so many bytes, zeroed.
  [[nodiscard]] Expected<std::span<std::byte>> allocate(std::uint64_t bytes);
  /// Gives a piece back that allocate() has given. Fails with `not_found` for others.
  [[nodiscard]] Expected<void> release(std::span<std::byte> piece);

  [[nodiscard]] std::uint64_t size() const { return memory_.size(); }
  [[nodiscard]] std::uint64_t used() const { return used_; }  ///< with what alignment costs

 private:
  explicit StoreArea(std::span<std::byte> memory) : memory_(memory) {}

  std::span<std::byte> memory_;
  std::map<std::uint64_t, std::uint64_t> pieces_;  ///< by offset: bytes as asked for
  std::uint64_t used_ = 0;
};

}  // namespace rockhopper::publisher
