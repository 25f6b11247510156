// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/private_pages.h"

#include <cassert>
#include <cerrno>
#include <utility>

#include <rte_common.h>
#include <sys/mman.h>

namespace rockhopper::stack {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

PrivatePages::PrivatePages(PrivatePages&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PrivatePages& PrivatePages::operator=(PrivatePages&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PrivatePages::~PrivatePages() {
  if (memory_ != nullptr) (void)munmap(memory_, bytes_);
}

int PrivatePages::map(std::size_t bytes) {
  assert(bytes > 0);
  const bool huge = bytes >= kHugePage;
  const std::size_t wanted = huge ? RTE_ALIGN_CEIL(bytes, kHugePage) : bytes;
  const std::size_t spare = huge ? kHugePage : 0;
  void* got =
      mmap(nullptr, wanted + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return errno;
  auto* memory = static_cast<std::byte*>(got);
  if (huge) {
    auto* aligned = RTE_PTR_ALIGN_CEIL(memory, kHugePage);
    const auto before = static_cast<std::size_t>(aligned - memory);
    if (before > 0) (void)munmap(memory, before);
    if (before < spare) (void)munmap(aligned + wanted, spare - before);
    memory = aligned;
    (void)madvise(memory, wanted, MADV_HUGEPAGE);  // refused where the kernel has none
  }
#ifdef MADV_POPULATE_WRITE  // Linux 5.14; without it each page is made when it is first used
  (void)madvise(memory, wanted, MADV_POPULATE_WRITE);
#endif
  PrivatePages made;
  made.memory_ = memory;
  made.bytes_ = wanted;
  *this = std::move(made);
  return 0;
}

}  // namespace rockhopper::stack
