// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::fuzz {

/// Reads the input of a target from its front; zeros when it has ended.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] std::uint8_t u8() {
    const std::uint8_t value = bytes_.empty() ? 0 : bytes_[0];
    bytes_ = bytes_.subspan(std::min<std::size_t>(1, bytes_.size()));
    return value;
  }
  [[nodiscard]] std::uint16_t u16() { return static_cast<std::uint16_t>(u8() << 8 | u8()); }
  [[nodiscard]] std::uint32_t u32() { return std::uint32_t{u16()} << 16 | u16(); }
  [[nodiscard]] std::uint64_t u64() { return std::uint64_t{u32()} << 32 | u32(); }
  [[nodiscard]] std::span<const std::uint8_t> take(std::size_t length) {
    const auto result = bytes_.first(std::min(length, bytes_.size()));
    bytes_ = bytes_.subspan(result.size());
    return result;
  }
  void read(std::span<std::uint8_t> to) {
    for (std::uint8_t& byte : to) {
      byte = u8();
    }
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace rockhopper::fuzz
