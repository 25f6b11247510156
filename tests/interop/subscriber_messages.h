// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/interop/store_reading.h"

/// The messages between publisher and subscriber, as docs/publisher.md has them; those that one
/// store takes.
namespace rockhopper::interop {

inline constexpr std::uint32_t kMessageMax = 768;

[[nodiscard]] std::vector<std::byte> subscribe_message(std::uint32_t tag, std::uint16_t version,
                                                       const std::string& store);
[[nodiscard]] std::vector<std::byte> leave_message(std::uint16_t store_id);

struct PublisherMessage {
  enum class Kind : std::uint8_t { grant, refused, revoke };
  Kind kind;
  std::uint32_t tag = 0;      ///< of grant and refused
  std::uint32_t rkey = 0;     ///< of grant
  StoreReading::Store store;  ///< of grant; of revoke its id
  std::string name;           ///< of grant
  std::uint8_t why = 0;       ///< of refused
};
/// Throws Failure for what a subscriber of one store does not expect.
[[nodiscard]] PublisherMessage parse_message(std::span<const std::byte> bytes);

}  // namespace rockhopper::interop
