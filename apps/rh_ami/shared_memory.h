// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <string>

#include "apps/common/tcp.h"
#include "stack/error.h"

namespace rockhopper::apps::messages {

/// Memory that another process of this machine and user can look at: a way to see what is there
/// that is not the link's.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// Zeroed, and touched.
  [[nodiscard]] static Expected<SharedMemory> create(std::size_t bytes);
  /// Another process's, to be read only.
  [[nodiscard]] static Expected<SharedMemory> open(const std::string& path, std::size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Null: there is none.
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// By which the other process opens it, as long as this one lives.
  [[nodiscard]] std::string path() const;

 private:
  [[nodiscard]] static Expected<SharedMemory> map(FileDescriptor file, std::size_t bytes,
                                                  int protection);

  FileDescriptor file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rockhopper::apps::messages
