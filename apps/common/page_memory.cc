// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/page_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace rockhopper::apps {

Expected<PageMemory> PageMemory::allocate(std::size_t bytes) {
  PageMemory memory;
  // A buffer of no bytes still needs an address to be registered.
  memory.size_ = std::max<std::size_t>(bytes, 1);
  // Touched here, so that no page fault falls into a measurement.
  void* data = ::mmap(nullptr, memory.size_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (data == MAP_FAILED) {
    memory.size_ = 0;
    return fail(ErrorCode::exhausted, "no memory for a buffer of {} bytes: {}", bytes,
                std::strerror(errno));
  }
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) (void)::munmap(data_, size_);
}

std::size_t PageMemory::page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace rockhopper::apps
