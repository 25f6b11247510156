// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "apps/common/tcp.h"
#include "stack/error.h"

namespace rockhopper::apps::publish {

/// The memory of a store: pages of its own, or of a file that has what earlier publishers wrote.
class StoreMemory {
 public:
  StoreMemory() = default;
  /// Zeroed.
  [[nodiscard]] static Expected<StoreMemory> allocate(std::size_t bytes);
  /// Makes the file, or maps the one that is there, which must have that size. Nobody else writes
  /// it meanwhile: fails if another publisher does.
  [[nodiscard]] static Expected<StoreMemory> open(const std::string& path, std::size_t bytes);
  StoreMemory(StoreMemory&& other) noexcept;
  StoreMemory& operator=(StoreMemory&& other) noexcept;
  ~StoreMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  [[nodiscard]] static Expected<StoreMemory> map(FileDescriptor file, std::size_t bytes, int flags);

  FileDescriptor file_;  ///< with its lock
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rockhopper::apps::publish
