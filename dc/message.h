// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "roce/wire/dcch.h"
#include "roce/wire/dcsh.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"

/// The messages that open and close dynamic connections: payloads of opcode 0xD8 (docs/wire.md,
/// "Dynamic connections"). Reserved fields are sent as 0 and not looked at.
namespace rockhopper::dc {

inline constexpr std::uint32_t kMagic = 0x44435631;  // "DCV1"
inline constexpr std::uint8_t kVersion = 1;

/// Opens a connection.
struct Connect {
  bool full = false;          ///< the initiator waits for the ACCEPT before it sends data
  bool data_follows = false;  ///< it does not
  std::uint8_t mtu_code = 0;  ///< of the path MTU, as enum ibv_mtu
  wire::Qpn initiator{};
  wire::Psn first_psn{};
  std::uint32_t nonce = 0;
  std::uint32_t lease_us = 0;
  std::uint64_t access_key = 0;
  std::uint64_t incarnation = 0;
  std::uint8_t stream = 0;
  std::uint8_t responder_resources = 0;
  friend bool operator==(const Connect&, const Connect&) = default;
};

/// It is open.
struct Accept {
  std::uint8_t mtu_code = 0;
  std::uint32_t nonce = 0;
  std::uint64_t session_id = 0;
  wire::Psn expected_psn{};
  std::uint32_t lease_us = 0;
  std::uint8_t responder_resources = 0;
  friend bool operator==(const Accept&, const Accept&) = default;
};

enum class CnakReason : std::uint8_t {
  no_context = 1,
  no_such_dct,
  draining,
  stale_session,
  incompatible,
  quota,
};
inline constexpr std::size_t kCnakReasons = 6;

/// It is not open, or no more.
struct Cnak {
  CnakReason reason{};
  bool executed_known = false;  ///< expected_psn has a meaning: all before it has been executed
  std::uint32_t nonce = 0;
  std::uint64_t session_id = 0;
  wire::Psn expected_psn{};
  std::uint32_t backoff_us = 0;
  friend bool operator==(const Cnak&, const Cnak&) = default;
};

/// Closes a connection.
struct Disconnect {
  std::uint64_t session_id = 0;
  wire::Psn next_psn{};
  friend bool operator==(const Disconnect&, const Disconnect&) = default;
};

/// A connection that waits is still wanted.
struct KeepAlive {
  bool answer = false;
  std::uint64_t session_id = 0;
  wire::Psn next_psn{};
  friend bool operator==(const KeepAlive&, const KeepAlive&) = default;
};

using Message = std::variant<Connect, Accept, Cnak, Disconnect, KeepAlive>;

/// The longest, a CONNECT.
inline constexpr std::size_t kMessageMax = wire::Dcch::kSize;

/// The longest payload beside a CONNECT, so that the packet is no longer than any other with that
/// path MTU, bytes.
[[nodiscard]] constexpr std::uint32_t carried_max(std::uint32_t path_mtu) {
  return path_mtu - static_cast<std::uint32_t>(wire::Dcch::kSize - wire::Dcsh::kSize);
}

/// Returns nothing for a wrong magic number or version, an unknown subtype, another length than the
/// subtype's, or a value that the subtype does not have.
[[nodiscard]] std::optional<Message> parse_message(std::span<const std::uint8_t> bytes);
/// Returns the bytes written.
[[nodiscard]] std::size_t emit_message(const Message& message,
                                       std::span<std::uint8_t, kMessageMax> out);

/// Session ids name a responder context of a shard and the session that it serves.
[[nodiscard]] constexpr std::uint64_t session_id(std::uint8_t shard, std::uint32_t index,
                                                 std::uint32_t generation) {
  return std::uint64_t{shard} << 56 | std::uint64_t{index & wire::kMask24} << 32 | generation;
}
[[nodiscard]] constexpr std::uint32_t context_index(std::uint64_t session_id) {
  return static_cast<std::uint32_t>(session_id >> 32) & wire::kMask24;
}

}  // namespace rockhopper::dc
