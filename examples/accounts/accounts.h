// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/cm_node.h"
#include "apps/common/endpoint_options.h"
#include "roce/wire/bytes.h"

namespace rockhopper::apps::accounts {
struct Options {
  std::string host;  ///< empty: the server
  std::uint16_t port = 7175;
  bool standard = false;  ///< without locks at the target: by compare and swap

  // The server's.
  std::uint32_t accounts = 1000;
  std::int64_t initial = 1000;  ///< balance of each account
  std::uint32_t threads = 0;    ///< of its own that transfer too
  std::uint32_t lease_us = 100'000;
  std::uint32_t clients = 0;  ///< to serve before it ends; 0: until a signal

  // A client's.
  std::uint64_t transfers = 10'000;
  std::uint32_t connections = 1;
  std::uint32_t audit_every = 1000;  ///< transfers of a connection; 0: only at the end
  std::uint32_t wait_us = 1'000'000;
  std::uint16_t hot = 0;  ///< transfers between the first so many accounts only; 0: all

  unsigned ack_timeout = 14;
  double timeout_s = 10;
  bool json = false;
  EndpointOptions endpoint;

  [[nodiscard]] Role role() const { return host.empty() ? Role::server : Role::client; }
};

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

/// Serves a table until a signal, or until its clients have left; the report. Fails if money has
/// been lost or made, or if a lock is left behind.
[[nodiscard]] Expected<nlohmann::json> serve(CmNode& node, const Options& options);
/// Transfers between random accounts and audits the table; the report. Fails if an audit does.
[[nodiscard]] Expected<nlohmann::json> transfer(CmNode& node, const Options& options);

}  // namespace rockhopper::apps::accounts
