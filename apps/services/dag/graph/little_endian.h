// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>

namespace rockhopper::dag {

static_assert(std::endian::native == std::endian::little, "no other byte order is supported");

/// Takes numbers from the front of bytes. The caller has checked that there are enough.
class LittleEndianReader {
 public:
  explicit LittleEndianReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <std::integral T>
  [[nodiscard]] T take() {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Puts numbers into bytes, of which there are enough.
class LittleEndianWriter {
 public:
  explicit LittleEndianWriter(std::span<std::byte> bytes) : bytes_(bytes) {}
  template <std::integral T>
  void put(T value) {
    std::memcpy(bytes_.data(), &value, sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
  }
  void put(std::span<const std::byte> other) {
    if (!other.empty()) std::memcpy(bytes_.data(), other.data(), other.size());
    bytes_ = bytes_.subspan(other.size());
  }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace rockhopper::dag
