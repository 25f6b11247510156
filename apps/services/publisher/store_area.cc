// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/store_area.h"

#include <cstring>

namespace rockhopper::publisher {
namespace {

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + StoreArea::kAlignment - 1) / StoreArea::kAlignment * StoreArea::kAlignment;
}

}  // namespace

Expected<StoreArea> StoreArea::create(std::span<std::byte> memory) {
  if (memory.empty() || reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment != 0) {
    return fail(ErrorCode::invalid_argument, "an area of stores has to begin at a page");
  }
  return StoreArea(memory);
}

Expected<std::span<std::byte>> StoreArea::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > memory_.size()) {
    return fail(ErrorCode::exhausted, "an area of {} bytes has no room for a store of {}",
                memory_.size(), bytes);
  }
  std::uint64_t free_from = 0;
  const auto fits_before = [&](std::uint64_t end) {
    return end - free_from >= whole_pages(bytes) ||
           (end == memory_.size() && end - free_from >= bytes);
  };
  bool found = false;
  for (const auto& [offset, length] : pieces_) {
    found = offset > free_from && fits_before(offset);
    if (found) break;
    free_from = offset + whole_pages(length);
  }
  if (!found && (free_from >= memory_.size() || !fits_before(memory_.size()))) {
    return fail(ErrorCode::exhausted,
                "an area of {} bytes, {} of them in use, has no room for a store of {}",
                memory_.size(), used_, bytes);
  }
  pieces_.emplace(free_from, bytes);
  used_ += whole_pages(bytes);
  const auto piece = memory_.subspan(free_from, bytes);
  std::memset(piece.data(), 0, piece.size());
  return piece;
}

Expected<void> StoreArea::release(std::span<std::byte> piece) {
  const auto found = piece.data() < memory_.data()
                         ? pieces_.end()
                         : pieces_.find(static_cast<std::uint64_t>(piece.data() - memory_.data()));
  if (found == pieces_.end() || found->second != piece.size()) {
    return fail(ErrorCode::not_found, "the area has no store there");
  }
  used_ -= whole_pages(found->second);
  pieces_.erase(found);
  return {};
}

}  // namespace rockhopper::publisher
