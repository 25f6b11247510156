// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/layout.h"

#include <algorithm>

namespace rockhopper::apps::perf {
namespace {

/// Two results of atomics fit, and slots do not share a cache line.
constexpr std::size_t kSlotAlignment = 64;
/// More slots than one must not cost more memory than this.
constexpr std::size_t kComfortableBytes = std::size_t{32} << 20;

}  // namespace

Expected<Layout> Layout::make(const Agreement& agreement) {
  Layout layout;
  layout.qps_ = agreement.qps;
  const std::size_t size = std::max<std::size_t>(agreement.size_max, 1);
  layout.slot_bytes_ = (size + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  const std::size_t smallest = std::size_t{2} * layout.qps_ * layout.slot_bytes_;
  if (smallest > kBytesMax) {
    return fail(
        ErrorCode::invalid_argument,
        "{} queue pairs with messages of {} bytes need {} MiB of memory, more than {}; take "
        "fewer or smaller ones",
        agreement.qps, size, smallest >> 20, kBytesMax >> 20);
  }
  layout.slots_ = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(kComfortableBytes / smallest, 1, kSlotsMax));
  return layout;
}

}  // namespace rockhopper::apps::perf
