// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "apps/common/queue_address.h"
#include "apps/rh_ami/layout.h"
#include "apps/rh_ami/options.h"

namespace rockhopper::apps::messages {

// How the two ends greet each other by TCP; the rest is as in apps/common/measuring.h:
//
//   server                  client
//   offer  {version, path_mtu}
//                           hello  {agreement, side}
//   welcome {side}

inline constexpr std::uint64_t kProtocolVersion = 1;

inline constexpr ami::EndpointId kServerId = 0;
inline constexpr ami::EndpointId kClientId = 1;

/// Handlers.
inline constexpr std::uint16_t kMessage = 1;
inline constexpr std::uint16_t kPing = 2;
inline constexpr std::uint16_t kPong = 3;

/// What both ends have in common.
struct Agreement {
  Transport transport = Transport::rc;
  std::uint16_t path_mtu = 1024;
  std::uint32_t size_max = 0;
  std::uint32_t window = 1;
  std::uint32_t eager_bytes = 4096;
  std::uint8_t ack_timeout = 14;
  bool check = false;

  [[nodiscard]] Layout layout() const {
    return {.slots = check ? window : 1, .size_max = size_max};
  }
  void describe(Fields& fields);
};

/// What the other end must know of this one.
struct Side : QueueAddress {
  std::uint64_t address = 0;  ///< of the memory, for its rkey
  std::uint32_t rkey = 0;
  std::string shared_path;  ///< of the memory, to be looked at; empty: it cannot be
  std::uint64_t token = 0;  ///< that the memory has, so that no other is taken for it

  void describe(Fields& fields);
};

struct Offer {
  std::uint16_t path_mtu = 1024;  ///< the server's largest
  void describe(Fields& fields);
};
struct Hello {
  Agreement agreement{};
  Side side{};
  void describe(Fields& fields);
};
struct Welcome {
  Side side{};
  void describe(Fields& fields);
};
/// The client's "stop" of a run.
struct Stop {
  std::uint64_t instructions = 0;
  void describe(Fields& fields);
};

}  // namespace rockhopper::apps::messages
