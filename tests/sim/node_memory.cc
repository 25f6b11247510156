// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/node_memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint32_t kGap = 64;

}  // namespace

NodeMemory::NodeMemory(std::uint32_t size) : actual_(size), expected_(size) {}

Area NodeMemory::make_area(roce::Engine& engine, roce::ProtectionDomain pd, std::uint32_t size,
                           std::uint32_t access, Rng& rng) {
  Area area{.offset = (used_ + kGap + 7) / 8 * 8, .size = size, .region = {}};
  used_ = area.offset + size;
  if (used_ + kGap > actual_.size()) die("node memory is too small");
  void* base = actual_.data() + area.offset;
  if (rng.chance(50)) {
    area.region = must(engine.register_memory(pd, base, size, access));
  } else {
    // As near to either end of the address space as it goes, or anywhere; aligned for atomics.
    const std::uint64_t highest = (UINT64_MAX - size) / 8 * 8;
    const std::uint64_t iova =
        rng.pick<std::uint64_t>({0, 4096, highest, rng.between(0, highest) / 8 * 8});
    area.region = must(engine.register_memory_iova(pd, base, size, access, iova));
  }
  return area;
}

void NodeMemory::fill(Rng& rng) {
  rng.fill(actual(0, used_ + kGap));
  accept(0, used_ + kGap);
}

void NodeMemory::scramble(std::uint32_t offset, std::uint32_t length, Rng& rng) {
  rng.fill(actual(offset, length));
  accept(offset, length);
}

void NodeMemory::accept(std::uint32_t offset, std::uint32_t length) {
  std::copy_n(actual_.begin() + offset, length, expected_.begin() + offset);
}

std::optional<std::uint32_t> NodeMemory::first_difference() const {
  const std::size_t end = used_ + kGap;
  // There is none, nearly always, and memcmp() sees that several times faster.
  if (std::memcmp(actual_.data(), expected_.data(), end) == 0) return std::nullopt;
  const auto [actual, expected] =
      std::mismatch(actual_.begin(), actual_.begin() + end, expected_.begin());
  return static_cast<std::uint32_t>(actual - actual_.begin());
}

std::optional<std::uint32_t> RangeAllocator::allocate(std::uint32_t length) {
  length = std::max(length, 1u);
  std::uint32_t start = 0;
  for (const auto& [used_start, used_end] : used_) {
    if (used_start - start >= length) break;
    start = used_end;
  }
  if (size_ - start < length) return std::nullopt;
  used_[start] = start + length;
  return start;
}

std::vector<std::uint8_t> ScatterBuffer::read(std::span<const std::uint8_t> image_of_range,
                                              std::uint32_t length) const {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(length);
  for (std::size_t i = 0; i < sges.size() && length > 0; ++i) {
    const std::uint32_t piece = std::min(length, sges[i].length);
    const auto from = image_of_range.subspan(offsets[i] - offset, piece);
    bytes.insert(bytes.end(), from.begin(), from.end());
    length -= piece;
  }
  return bytes;
}

std::optional<ScatterBuffer> make_scatter_buffer(const Area& area, RangeAllocator& ranges,
                                                 std::uint32_t length, std::uint32_t max_sge,
                                                 Rng& rng) {
  constexpr std::uint32_t kMaxGap = 9;
  const std::uint32_t count = length == 0 ? rng.between32(0, std::min(1u, max_sge))
                                          : rng.between32(1, std::min(max_sge, length));
  // Cut points of the message, then the order in which the pieces lie in memory.
  std::vector<std::uint32_t> cuts{0, length};
  for (std::uint32_t i = 1; i < count; ++i) {
    cuts.push_back(rng.between32(0, length));  // equal cuts give empty elements
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[rng.between(0, i - 1)]);
  }

  ScatterBuffer buffer;
  buffer.sges.resize(count);
  buffer.offsets.resize(count);
  std::uint32_t at = rng.between32(0, kMaxGap);
  for (const std::uint32_t piece : order) {
    buffer.offsets[piece] = at;
    buffer.sges[piece].length = cuts[piece + 1] - cuts[piece];
    at += buffer.sges[piece].length + rng.between32(0, kMaxGap);
  }
  const auto start = ranges.allocate(at);
  if (!start) return std::nullopt;
  buffer.area_offset = *start;
  buffer.offset = area.offset + *start;
  buffer.span = at;
  for (std::uint32_t i = 0; i < count; ++i) {
    buffer.sges[i].addr = area.address(*start + buffer.offsets[i]);
    buffer.sges[i].lkey = area.region.key;
    buffer.offsets[i] += buffer.offset;
  }
  return buffer;
}

}  // namespace rockhopper::sim
