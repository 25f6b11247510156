// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::apps::accounts {

/// What a server has in memory for its clients: a header, and the accounts behind it.
///
/// Who changes balances holds the words of these accounts exclusively and the table's shared; who
/// holds the table's exclusively sees, or changes, all balances at once.
struct alignas(64) TableHeader {
  std::uint64_t word;  ///< the table's lock
};
struct alignas(64) Account {
  std::uint64_t word;       ///< its lock
  std::int64_t balance;     ///< the sum over all accounts never changes
  std::uint64_t transfers;  ///< from it and to it
};
static_assert(sizeof(TableHeader) == 64 && sizeof(Account) == 64);

inline constexpr std::uint32_t kAccountsMin = 2;
/// All of them are read in one scope, which may read 64 KiB.
inline constexpr std::uint32_t kAccountsMax = 65536 / sizeof(Account);

/// Where the table is and how large: private data of the server's answer.
struct TableInfo {
  static constexpr std::size_t kSize = 20;
  static constexpr std::uint32_t kMagic = 0x52484143;  ///< "RHAC"

  std::uint32_t accounts = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;  ///< of the header

  [[nodiscard]] std::uint64_t table_word() const { return address; }
  [[nodiscard]] std::uint64_t account(std::uint32_t index) const {
    return address + sizeof(TableHeader) + std::uint64_t{index} * sizeof(Account);
  }

  [[nodiscard]] std::array<std::uint8_t, kSize> emit() const {
    std::array<std::uint8_t, kSize> bytes{};
    wire::store_be32(&bytes[0], kMagic);
    wire::store_be32(&bytes[4], accounts);
    wire::store_be32(&bytes[8], rkey);
    wire::store_be64(&bytes[12], address);
    return bytes;
  }
  /// Nothing: that is no table of this program.
  [[nodiscard]] static std::optional<TableInfo> parse(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < kSize || wire::load_be32(bytes.data()) != kMagic) return std::nullopt;
    const TableInfo info{.accounts = wire::load_be32(&bytes[4]),
                         .rkey = wire::load_be32(&bytes[8]),
                         .address = wire::load_be64(&bytes[12])};
    if (info.accounts < kAccountsMin || info.accounts > kAccountsMax) return std::nullopt;
    return info;
  }
};

}  // namespace rockhopper::apps::accounts
