// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

/// By what a worker knows what an answer is about.
namespace rockhopper::dag {

/// What a request on the home link is about. Its number stands in the upper byte of the wr_id, and
/// whose it is in the lower bytes.
enum class WrKind : std::uint8_t { attempt = 1, board, pool, completed };
[[nodiscard]] constexpr std::uint64_t wr_id_of(WrKind kind, std::uint64_t which) {
  return static_cast<std::uint64_t>(kind) << 56 | which;
}

/// The context of a worker's operations on the record store: what an operation is about, and whose
/// it is. What an earlier worker of the same client has begun may end later.
enum class AskKind : std::uint8_t { input = 1, output, arena, failure, join, leave };
struct AskContext {
  static constexpr std::uint64_t kBit = std::uint64_t{1} << 63;  ///< set in all of them

  std::uint32_t worker = 0;  ///< its number; the lower 8 bits matter
  AskKind kind{};
  std::uint32_t which = 0;   ///< a node in hand, or a slot of the board; 24 bits
  std::uint32_t number = 0;  ///< input, or Arenas::number_of(); 24 bits
  [[nodiscard]] constexpr std::uint64_t bits() const {
    return kBit | static_cast<std::uint64_t>(kind) << 56 | std::uint64_t{worker & 0xff} << 48 |
           std::uint64_t{number & 0xffffff} << 24 | (which & 0xffffff);
  }
  [[nodiscard]] static constexpr AskContext from(std::uint64_t bits) {
    return {.worker = static_cast<std::uint32_t>(bits >> 48 & 0xff),
            .kind = static_cast<AskKind>(bits >> 56 & 0x7f),
            .which = static_cast<std::uint32_t>(bits & 0xffffff),
            .number = static_cast<std::uint32_t>(bits >> 24 & 0xffffff)};
  }
};

}  // namespace rockhopper::dag
