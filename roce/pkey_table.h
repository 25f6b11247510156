// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/wire/pkey.h"
#include "stack/error.h"

namespace rockhopper::roce {

/// The partitions of which a port is a member (IBTA vol. 1, 10.9.2). An entry of 0 is empty. What a
/// subnet manager does to it on InfiniBand, the application does here.
class PkeyTable {
 public:
  static constexpr std::uint16_t kSize = 128;

  /// Entries from 0 on, the rest is empty. Fails with more than kSize of them.
  [[nodiscard]] static Expected<PkeyTable> create(std::span<const std::uint16_t> pkeys);

  /// Fails for an index beyond the table.
  [[nodiscard]] Expected<std::uint16_t> at(std::uint16_t index) const;
  /// As at(), and fails for an entry that names no partition.
  [[nodiscard]] Expected<std::uint16_t> valid_at(std::uint16_t index) const;
  [[nodiscard]] Expected<void> set(std::uint16_t index, std::uint16_t pkey);
  /// An entry by which we may talk to a peer that has `pkey`; one of a full member if there is.
  [[nodiscard]] std::optional<std::uint16_t> find(std::uint16_t pkey) const;

 private:
  std::array<std::uint16_t, kSize> entries_{};
};

}  // namespace rockhopper::roce
