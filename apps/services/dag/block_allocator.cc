// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/block_allocator.h"

#include <cassert>
#include <iterator>

#include "apps/services/dag/record.h"

namespace rockhopper::dag {
namespace {

std::uint64_t whole_pieces(std::uint64_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

}  // namespace

BlockAllocator::BlockAllocator(std::uint64_t bytes)
    : size_(bytes / kRecordAlignment * kRecordAlignment) {
  if (size_ > 0) add_hole(0, size_);
}

std::optional<std::uint64_t> BlockAllocator::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > size_) return std::nullopt;
  const std::uint64_t wanted = whole_pieces(bytes);
  const auto fits = by_length_.lower_bound({wanted, 0});
  if (fits == by_length_.end()) return std::nullopt;
  const auto [length, address] = *fits;
  remove_hole(holes_.find(address));
  if (length > wanted) add_hole(address + wanted, length - wanted);
  return address;
}

void BlockAllocator::release(std::uint64_t address, std::uint64_t bytes) {
  std::uint64_t length = whole_pieces(bytes);
  assert(address % kRecordAlignment == 0 && length <= size_ && address <= size_ - length);
  auto next = holes_.lower_bound(address);
  assert(next == holes_.end() || address + length <= next->first);
  if (next != holes_.begin()) {
    const auto previous = std::prev(next);
    assert(previous->first + previous->second <= address);
    if (previous->first + previous->second == address) {
      address = previous->first;
      length += previous->second;
      remove_hole(previous);
    }
  }
  if (next != holes_.end() && address + length == next->first) {
    length += next->second;
    remove_hole(next);
  }
  add_hole(address, length);
}

void BlockAllocator::add_hole(std::uint64_t address, std::uint64_t bytes) {
  holes_.emplace(address, bytes);
  by_length_.emplace(bytes, address);
  free_bytes_ += bytes;
}

void BlockAllocator::remove_hole(std::map<std::uint64_t, std::uint64_t>::iterator hole) {
  by_length_.erase({hole->second, hole->first});
  free_bytes_ -= hole->second;
  holes_.erase(hole);
}

}  // namespace rockhopper::dag
