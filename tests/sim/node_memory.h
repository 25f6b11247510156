// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "roce/engine.h"
#include "tests/sim/raw_bytes.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {

/// A piece of a node's memory, registered for one purpose.
struct Area {
  std::uint32_t offset = 0;  ///< in the node's memory
  std::uint32_t size = 0;
  roce::MemoryRegion region;

  /// The address that requests use for byte `at` of the area.
  [[nodiscard]] std::uint64_t address(std::uint32_t at) const { return region.iova + at; }
};

/// All memory of a node that its engine may touch, beside what the model says it should hold. The
/// gaps between areas belong to nobody; comparing the two images at the end of a run finds any
/// stray write.
class NodeMemory {
 public:
  explicit NodeMemory(std::uint32_t size);

  /// Cuts off the next piece, with a gap before it, and registers it. Half of the areas get an
  /// iova of their own instead of the address.
  [[nodiscard]] Area make_area(roce::Engine& engine, roce::ProtectionDomain pd, std::uint32_t size,
                               std::uint32_t access, Rng& rng);

  [[nodiscard]] std::span<std::uint8_t> actual(std::uint32_t offset, std::uint32_t length) {
    return std::span(actual_).subspan(offset, length);
  }
  [[nodiscard]] std::span<std::uint8_t> expected(std::uint32_t offset, std::uint32_t length) {
    return std::span(expected_).subspan(offset, length);
  }
  [[nodiscard]] std::span<std::uint8_t> actual(const Area& area) {
    return actual(area.offset, area.size);
  }
  [[nodiscard]] std::span<std::uint8_t> expected(const Area& area) {
    return expected(area.offset, area.size);
  }

  /// Writes new random bytes where nobody should write any more, into both images.
  void scramble(std::uint32_t offset, std::uint32_t length, Rng& rng);
  /// Takes over what is there, where the model does not know it.
  void accept(std::uint32_t offset, std::uint32_t length);
  /// Offset of the first byte that differs from the model.
  [[nodiscard]] std::optional<std::uint32_t> first_difference() const;

  /// Fills what has been cut off so far.
  void fill(Rng& rng);

 private:
  RawBytes actual_;
  RawBytes expected_;
  std::uint32_t used_ = 0;
};

/// Disjoint ranges of an area, first fit.
class RangeAllocator {
 public:
  explicit RangeAllocator(std::uint32_t size = 0) : size_(size) {}
  [[nodiscard]] std::optional<std::uint32_t> allocate(std::uint32_t length);
  void free(std::uint32_t offset) { used_.erase(offset); }

 private:
  std::uint32_t size_;
  std::map<std::uint32_t, std::uint32_t> used_;  ///< end by start
};

/// A scatter list over one range of an area: `count` pieces in random order with gaps between.
struct ScatterBuffer {
  std::uint32_t offset = 0;  ///< of the range in the node's memory
  std::uint32_t span = 0;    ///< bytes of the range, gaps included
  std::uint32_t area_offset = 0;
  std::vector<roce::Sge> sges;
  std::vector<std::uint32_t> offsets;  ///< of each element in the node's memory

  /// Copies what an image holds at the first `length` bytes of the list.
  [[nodiscard]] std::vector<std::uint8_t> read(std::span<const std::uint8_t> image_of_range,
                                               std::uint32_t length) const;
};

/// Nothing when the area has no room now.
[[nodiscard]] std::optional<ScatterBuffer> make_scatter_buffer(const Area& area,
                                                               RangeAllocator& ranges,
                                                               std::uint32_t length,
                                                               std::uint32_t max_sge, Rng& rng);

}  // namespace rockhopper::sim
