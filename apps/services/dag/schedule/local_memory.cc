// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/local_memory.h"

#include <bit>

namespace rockhopper::dag {

LocalMemory::~LocalMemory() { release(); }

void LocalMemory::release() {
  if (key_ != roce::MemoryKey{}) static_cast<void>(engine_.deregister_memory(key_));
  key_ = {};
  lines_.reset();
  size_ = 0;
}

void LocalMemory::allocate(std::size_t bytes) {
  release();
  const std::size_t lines = std::bit_ceil((bytes + sizeof(Line) - 1) / sizeof(Line));
  lines_ = std::make_unique<Line[]>(lines);
  size_ = lines * sizeof(Line);
}

Expected<void> LocalMemory::reserve(std::size_t bytes) {
  if (bytes <= size_) return {};
  allocate(bytes);
  ROCKHOPPER_TRY(auto region, engine_.register_memory(pd_, data(), size_, roce::kAccessLocalWrite));
  key_ = region.key;
  return {};
}

Expected<void> LocalMemory::expose(std::size_t bytes, std::uint32_t access) {
  allocate(bytes);
  ROCKHOPPER_TRY(auto region, engine_.register_memory_iova(pd_, data(), size_, access, 0));
  key_ = region.key;
  return {};
}

}  // namespace rockhopper::dag
