// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/services/ami/descriptor.h"
#include "apps/services/ami/reduction.h"

namespace rockhopper::ami {

/// The number of a rank within a communicator.
using Rank = std::uint16_t;

enum class CollectiveType : std::uint8_t {
  barrier = 1,
  broadcast = 2,       ///< the bytes come with the message
  long_broadcast = 3,  ///< the bytes are sent to ranks that have said that they are ready
  all_reduce = 4,
  sync = 5,   ///< the communicator's own barrier at the end of an epoch
  abort = 6,  ///< the sender's communicator is broken
};

/// What all ranks of a collective have to agree on.
struct CollectiveCall {
  CollectiveType type = CollectiveType::barrier;
  Reduction reduction{};
  ElementType element{};
  Rank root = 0;             ///< of a broadcast
  std::uint32_t length = 0;  ///< bytes
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

/// The header of the active messages that collectives are made of (docs/ami.md), big endian.
struct CollectiveMessage {
  static constexpr std::size_t kSize = 16;

  CollectiveCall call{};
  std::uint8_t round = 0;
  std::uint32_t sequence = 0;  ///< of the collective, or of the epoch for a sync
  Status status = Status::ok;  ///< of an abort: why
  bool again = false;          ///< it may have come before

  /// Returns nothing if it is not such a header, or not one with a payload of so many bytes.
  [[nodiscard]] static std::optional<CollectiveMessage> parse(std::span<const std::byte> header,
                                                              std::size_t payload_length);
  void emit(std::span<std::byte, kSize> bytes) const;
  friend bool operator==(const CollectiveMessage&, const CollectiveMessage&) = default;
};

}  // namespace rockhopper::ami
