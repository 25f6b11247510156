// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>

#include "stack/error.h"

namespace rockhopper::apps {

/// Memory of whole pages, zeroed, to be registered.
class PageMemory {
 public:
  PageMemory() = default;
  [[nodiscard]] static Expected<PageMemory> allocate(std::size_t bytes);
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  ~PageMemory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

  [[nodiscard]] static std::size_t page_size();

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;  ///< as asked for; the pages may have more
};

}  // namespace rockhopper::apps
