// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/wire/qpn.h"

namespace rockhopper::roce {
class Engine;
class Random;
}  // namespace rockhopper::roce

namespace rockhopper::roce::cm {

/// Nanoseconds of a timeout code of connection manager messages: 4.096 us * 2^code.
[[nodiscard]] constexpr std::uint64_t timeout_ns(std::uint8_t code) {
  return std::uint64_t{4096} << (code & 0x1f);
}
/// Timeouts that a peer asks for are cut to this one, 69 s.
inline constexpr std::uint8_t kTimeoutCodeMax = 24;

/// A QPN that a connected queue pair can have.
[[nodiscard]] constexpr bool is_peer_qpn(wire::Qpn qpn) {
  return qpn > wire::kGsiQpn && qpn != wire::kMulticastQpn;
}

struct ConnectionManagerConfig {
  Engine* engine = nullptr;  ///< not owned; must outlive the manager
  Random* random = nullptr;  ///< not owned; communication IDs
  /// The highest byte of communication and request IDs, above 0, where several managers share a
  /// port: it tells whom a message is for. 0: all of them are
  /// random.
  std::uint8_t id_prefix = 0;
  std::uint32_t max_connections = 32'768;
  std::uint32_t max_lookups = 4096;
  /// For an answer, before a message is repeated: 4.096 us * 2^n. Told to peers for theirs too.
  std::uint8_t response_timeout = 18;  ///< 0 to 31
  std::uint8_t max_retries = 15;       ///< 0 to 15
  /// What a MRA asks a peer to wait for an application that has not decided yet.
  std::uint8_t service_timeout = 20;  ///< 0 to 31
  /// Requests of extended reliable connections become events too, to be accepted with an
  /// ExternalQp.
  bool accepts_xrc = false;
};

}  // namespace rockhopper::roce::cm
