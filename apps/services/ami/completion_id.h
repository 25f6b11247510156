// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::ami {

/// What a completion is about, as its wr_id says it.
struct CompletionId {
  enum Kind : std::uint8_t {
    transfer,   ///< tag of the Transfer
    untracked,  ///< index of the peer: nobody wants to know, unless it fails
    probe,      ///< index of the peer
    payload,    ///< index of the lane, and in the low 16 bits of the rendezvous buffer
  };

  Kind kind;
  std::uint32_t value;

  [[nodiscard]] static constexpr std::uint64_t of(Kind kind, std::uint32_t value) {
    return std::uint64_t{kind} << 32 | value;
  }
  [[nodiscard]] static constexpr CompletionId from(std::uint64_t wr_id) {
    return {static_cast<Kind>(wr_id >> 32), static_cast<std::uint32_t>(wr_id)};
  }
};

}  // namespace rockhopper::ami
