// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/mapping.h"

#include <cerrno>
#include <system_error>

#include <sys/mman.h>

namespace rockhopper::stack::segment {

Expected<Mapping> Mapping::create(int fd, std::size_t offset, std::size_t length) {
  void* base =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (base == MAP_FAILED) {
    return fail(ErrorCode::io, "cannot map {} bytes: {}", length,
                std::generic_category().message(errno));
  }
  Mapping mapping;
  mapping.base_ = base;
  mapping.length_ = length;
  return mapping;
}

Mapping::~Mapping() {
  if (base_ != nullptr) (void)munmap(base_, length_);
}

}  // namespace rockhopper::stack::segment
