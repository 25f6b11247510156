// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include <rte_mbuf.h>

namespace rockhopper::stack {

/// Returns a copy of the bytes from `offset` of the frame on, which may lie in several segments;
/// nothing where the frame ends before.
template <typename T>
[[nodiscard]] std::optional<T> read_at(const rte_mbuf* frame, std::uint32_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  const void* data = rte_pktmbuf_read(frame, offset, sizeof(T), &value);
  if (data == nullptr) return std::nullopt;
  if (data != &value) std::memcpy(&value, data, sizeof(T));
  return value;
}

}  // namespace rockhopper::stack
