// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>

namespace rockhopper::stack {

/// Owns zeroed memory of this process alone, all of it present. Much of it lies in huge pages where
/// the kernel allows that (transparent_hugepage): a program that touches all of its buffers when it
/// starts would spend most of that time on faults of small pages.
class PrivatePages {
 public:
  PrivatePages() = default;
  PrivatePages(PrivatePages&& other) noexcept;
  PrivatePages& operator=(PrivatePages&& other) noexcept;
  ~PrivatePages();

  /// Maps `bytes` (more than 0) instead of what it had. Returns 0 or an errno.
  [[nodiscard]] int map(std::size_t bytes);

  /// Aligned to a page; null before map().
  [[nodiscard]] std::byte* data() const { return memory_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rockhopper::stack
