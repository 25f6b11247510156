// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "apps/common/file_descriptor.h"
#include "stack/error.h"

namespace rockhopper::apps {

/// Memory of whole pages, to be registered: of its own, or of a file.
class PageMemory {
 public:
  PageMemory() = default;
  /// Zeroed.
  [[nodiscard]] static Expected<PageMemory> allocate(std::size_t bytes);
  /// Zeroed, and for other processes of this machine and user to look at as long as this one lives.
  [[nodiscard]] static Expected<PageMemory> share(const char* name, std::size_t bytes);
  /// A file's, which stays open and has at least as many bytes; shared with whoever maps it too.
  [[nodiscard]] static Expected<PageMemory> map(FileDescriptor file, std::size_t bytes,
                                                bool writable = true);
  PageMemory(PageMemory&& other) noexcept { *this = std::move(other); }
  PageMemory& operator=(PageMemory&& other) noexcept;
  ~PageMemory();

  /// Null: there is none.
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  /// By which another process opens the file.
  [[nodiscard]] std::string path() const;

  [[nodiscard]] static std::size_t page_size();

 private:
  FileDescriptor file_;  ///< with what is locked of it
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;  ///< as asked for; the pages may have more
};

}  // namespace rockhopper::apps
