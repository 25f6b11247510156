// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::roce::cm {

/// What two Rockhoppers can do beyond the standard; bits.
using Capabilities = std::uint16_t;
inline constexpr Capabilities kNoCapabilities = 0;
inline constexpr Capabilities kCapabilitySelectiveRepeat = 1 << 0;  ///< docs/loss-recovery.md
inline constexpr Capabilities kCapabilityMaskedAtomics = 1 << 1;    ///< docs/wire.md
inline constexpr Capabilities kCapabilityLocks = 1 << 2;            ///< docs/locks.md

/// How they are told: the last bytes of the private data of a REQ, if its application offers any,
/// and of the REP that answers it (docs/wire.md). Applications that offer none have all of the
/// private data for themselves, and nobody looks for the block there.
struct CapabilityBlock {
  static constexpr std::size_t kSize = 8;
  static constexpr std::uint32_t kMagic = 0x52484350;  ///< "RHCP"
  static constexpr std::uint8_t kVersion = 1;

  Capabilities bits = kNoCapabilities;

  /// That at the end of `data`; nothing if there is none that this version understands.
  [[nodiscard]] static std::optional<CapabilityBlock> parse(std::span<const std::uint8_t> data) {
    if (data.size() < kSize) return std::nullopt;
    const std::uint8_t* block = &data[data.size() - kSize];
    if (wire::load_be32(block) != kMagic || block[4] != kVersion || block[5] != 0) {
      return std::nullopt;
    }
    return CapabilityBlock{.bits = wire::load_be16(block + 6)};
  }
  /// At the end of `data`, which has room for it.
  void emit(std::span<std::uint8_t> data) const {
    std::uint8_t* block = &data[data.size() - kSize];
    wire::store_be32(block, kMagic);
    block[4] = kVersion;
    block[5] = 0;
    wire::store_be16(block + 6, bits);
  }
};

}  // namespace rockhopper::roce::cm
