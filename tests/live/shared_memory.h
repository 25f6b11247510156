// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <string>

#include "stack/error.h"

namespace rockhopper::live {

/// Zeroed memory that stays one and the same when the process forks.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// `path` is a file of that memory, made anew; empty: none.
  [[nodiscard]] static Expected<SharedMemory> allocate(std::size_t bytes,
                                                       const std::string& path = {});
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rockhopper::live
