// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "stack/error.h"

namespace rockhopper::stack::segment {

/// A part of a file in this process's memory, shared with all that map it. Any thread.
class Mapping {
 public:
  /// Requires whole pages. Errors: `io`.
  [[nodiscard]] static Expected<Mapping> create(int fd, std::size_t offset, std::size_t length);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~Mapping();

  /// What stands at `offset`. Requires a mapping that has it.
  template <typename Shared>
  [[nodiscard]] Shared& at(std::size_t offset) const {
    return *reinterpret_cast<Shared*>(static_cast<std::byte*>(base_) + offset);
  }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  void* base_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace rockhopper::stack::segment
