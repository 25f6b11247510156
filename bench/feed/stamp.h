// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace rockhopper::bench {

/// What the messages of a feed begin with, whoever carries them.
struct Stamp {
  std::uint64_t sequence = 0;
  std::uint64_t time_ns = 0;   ///< when it was published, by the steady clock
  std::uint64_t measured = 0;  ///< 0 while the feed warms up
};

inline void put_stamp(std::span<std::byte> payload, const Stamp& stamp) {
  std::memcpy(payload.data(), &stamp, sizeof stamp);
}

/// Nothing if the message is too short to have one.
[[nodiscard]] inline std::optional<Stamp> stamp_of(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(Stamp)) return std::nullopt;
  Stamp stamp;
  std::memcpy(&stamp, payload.data(), sizeof stamp);
  return stamp;
}

}  // namespace rockhopper::bench
