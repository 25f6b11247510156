// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "apps/services/publisher/layout.h"

namespace rockhopper::test {

/// Memory for a store between canaries.
class GuardedMemory {
 public:
  static constexpr std::byte kCanary{0xa5};
  explicit GuardedMemory(std::size_t bytes) : lines_(bytes / kLine + 2), bytes_(bytes) {
    std::memset(lines_.data(), std::to_integer<int>(kCanary), lines_.size() * kLine);
    std::memset(bytes_begin(), 0, bytes);
  }
  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_begin(), bytes_}; }
  [[nodiscard]] bool intact() const {
    for (const Line* line : {&lines_.front(), &lines_.back()}) {
      for (const std::byte byte : line->bytes) {
        if (byte != kCanary) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kLine = 64;
  struct alignas(kLine) Line {
    std::byte bytes[kLine];
  };
  [[nodiscard]] std::byte* bytes_begin() { return lines_[1].bytes; }

  std::vector<Line> lines_;
  std::size_t bytes_;
};

[[nodiscard]] inline publisher::ControlBlock control_of(std::span<const std::byte> store) {
  publisher::ControlBlock control;
  std::memcpy(&control, store.data(), sizeof control);
  return control;
}

}  // namespace rockhopper::test
