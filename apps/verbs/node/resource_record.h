// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rockhopper::verbs {

// What stands in a process's file "resources-SLOT-GENERATION" of the segment, which rh-stats reads:
// records of one size, each of which is written at once. Numbers are in the byte order of the
// machine. Only the checksum says that a record is whole, as it may be read while it is written.

/// What a record is about; the numbers are rh-stats's, too.
enum class ResourceKind : std::uint8_t {
  none,
  process,
  address,
  context,
  protection_domain,
  completion_queue,
  queue_pair,
  region,
  shared_receive_queue,
};

struct ResourceRecord {
  /// CRC-32, as zlib's, of all behind it.
  std::uint32_t checksum = 0;
  ResourceKind kind = ResourceKind::none;
  std::uint8_t type = 0;   ///< ibv_qp_type; of an address the length of its prefix
  std::uint8_t state = 0;  ///< ibv_qp_state; of a process one of the bits below
  /// Another number says that the record has another layout.
  std::uint8_t version = kVersion;
  std::uint32_t context = 0;  ///< which it belongs to, from 1 on
  std::uint32_t id = 0;       ///< its handle; of a process its number
  /// By its kind; 0 where there is none.
  ///  context, process: the device's and the command's name
  ///  address: the 16 bytes of its GID
  ///  completion_queue: capacity
  ///  queue_pair: protection domain, QPN, peer's QPN, next PSNs to send and to expect, handles of
  ///  the
  ///    queues for sends and for receives, of the shared receive queue
  ///  region: protection domain, lkey, rkey, 0, first address (2), length (2)
  ///  shared_receive_queue: protection domain, requests
  ///  the last two of a process: when it has opened the device, in ns since 1970
  std::array<std::uint32_t, 12> values{};

  static constexpr std::uint8_t kVersion = 1;
  // These are bits of a process's state.
  static constexpr std::uint8_t kUplink = 1;    ///< it has one
  static constexpr std::uint8_t kReceives = 2;  ///< it receives for all

  /// Puts in as much of the text as there is room for, in front of the last two values.
  void set_text(std::string_view text);
  void set_wide(std::size_t at, std::uint64_t value) {
    values[at] = static_cast<std::uint32_t>(value);
    values[at + 1] = static_cast<std::uint32_t>(value >> 32);
  }
  friend bool operator==(const ResourceRecord&, const ResourceRecord&) = default;
};
static_assert(sizeof(ResourceRecord) == 64);

}  // namespace rockhopper::verbs
