// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/rh_perf/backend.h"
#include "stack/error.h"

namespace rockhopper::apps::perf {

/// How an end's memory is used; the same at both ends. For each queue pair there are local slots
/// (what it sends, what its READs and atomics bring) and target slots (what the peer writes, reads
/// and sends into).
class Layout {
 public:
  /// Fails when the memory would be larger than kBytesMax.
  [[nodiscard]] static Expected<Layout> make(const Agreement& agreement);

  [[nodiscard]] std::size_t bytes() const { return 2 * half(); }
  /// Slots of a queue pair, 1 to kSlotsMax.
  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  [[nodiscard]] std::size_t local(std::uint16_t qp, std::uint64_t slot) const {
    return (std::size_t{qp} * slots_ + slot % slots_) * slot_bytes_;
  }
  [[nodiscard]] std::size_t target(std::uint16_t qp, std::uint64_t slot) const {
    return half() + local(qp, slot);
  }

  static constexpr std::uint32_t kSlotsMax = 32;
  static constexpr std::size_t kBytesMax = std::size_t{4} << 30;

 private:
  Layout() = default;
  [[nodiscard]] std::size_t half() const { return std::size_t{qps_} * slots_ * slot_bytes_; }

  std::uint16_t qps_ = 0;
  std::uint32_t slots_ = 0;
  std::size_t slot_bytes_ = 0;
};

}  // namespace rockhopper::apps::perf
