// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/lock/snapshot_pool.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace rockhopper::roce::lock {

SnapshotPool::SnapshotPool(std::size_t bytes)
    : memory_(new std::byte[bytes / kChunkBytes * kChunkBytes]),
      chunks_(bytes / kChunkBytes),
      free_(chunks_.size()) {
  std::iota(free_.rbegin(), free_.rend(), 0u);
}

SnapshotPool::Handle SnapshotPool::take(const std::byte* data, std::uint32_t length) {
  const std::uint32_t count = (length - 1) / kChunkBytes + 1;
  while (free_.size() < count) {
    if (answered_.empty()) return {};
    free(static_cast<std::uint32_t>(&answered_.front() - chunks_.data()));
  }
  const std::uint32_t first = free_.back();
  std::uint32_t* link = nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    if (link != nullptr) *link = index;
    link = &chunks_[index].next;
    const std::uint32_t done = i * kChunkBytes;
    std::memcpy(&memory_[std::size_t{index} * kChunkBytes], data + done,
                std::min(kChunkBytes, length - done));
  }
  Chunk& head = chunks_[first];
  head.count = count;
  head.used = true;
  head.stamp = std::max(head.stamp + 1, 1u);
  return {.index = first, .stamp = head.stamp};
}

bool SnapshotPool::holds(Handle handle) const {
  return handle.exists() && chunks_[handle.index].used &&
         chunks_[handle.index].stamp == handle.stamp;
}

const std::byte* SnapshotPool::at(Handle handle, std::uint32_t offset) const {
  if (!holds(handle)) return nullptr;
  std::uint32_t index = handle.index;
  for (std::uint32_t i = offset / kChunkBytes; i > 0; --i) {
    index = chunks_[index].next;
  }
  return &memory_[std::size_t{index} * kChunkBytes + offset % kChunkBytes];
}

void SnapshotPool::set_answered(Handle handle) {
  if (holds(handle) && !chunks_[handle.index].is_linked()) {
    answered_.push_back(chunks_[handle.index]);
  }
}

void SnapshotPool::release(Handle handle) {
  if (holds(handle)) free(handle.index);
}

void SnapshotPool::free(std::uint32_t first) {
  Chunk& head = chunks_[first];
  if (head.is_linked()) answered_.erase(answered_.iterator_to(head));
  head.used = false;
  std::uint32_t index = first;
  for (std::uint32_t i = 0; i < head.count; ++i) {
    const std::uint32_t next = chunks_[index].next;
    free_.push_back(index);
    index = next;
  }
}

}  // namespace rockhopper::roce::lock
