// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/local_memory.h"

#include <bit>

namespace rockhopper::dag {

void LocalMemory::allocate(std::size_t bytes) {
  const std::size_t lines = std::bit_ceil((bytes + sizeof(Line) - 1) / sizeof(Line));
  region_ = {};
  lines_ = std::make_unique<Line[]>(lines);
  size_ = lines * sizeof(Line);
}

Expected<void> LocalMemory::reserve(std::size_t bytes) {
  if (bytes <= size_) return {};
  allocate(bytes);
  ROCKHOPPER_TRY(region_, roce::own(engine_, engine_.register_memory(pd_, data(), size_,
                                                                     roce::kAccessLocalWrite)));
  return {};
}

Expected<void> LocalMemory::expose(std::size_t bytes, std::uint32_t access) {
  allocate(bytes);
  ROCKHOPPER_TRY(region_,
                 roce::own(engine_, engine_.register_memory_iova(pd_, data(), size_, access, 0)));
  return {};
}

}  // namespace rockhopper::dag
