// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/ami/allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local unsigned forbidden = 0;
thread_local std::uint64_t counted = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (forbidden > 0) ++counted;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole > 0 ? whole : alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace rockhopper::sim {

AllocationsForbidden::AllocationsForbidden() { ++forbidden; }
AllocationsForbidden::~AllocationsForbidden() { --forbidden; }
AllocationsAllowed::AllocationsAllowed() : before_(forbidden) { forbidden = 0; }
AllocationsAllowed::~AllocationsAllowed() { forbidden = before_; }
std::uint64_t forbidden_allocations() { return counted; }

}  // namespace rockhopper::sim

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignof(std::max_align_t));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
