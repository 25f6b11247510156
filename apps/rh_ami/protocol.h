// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_ami/layout.h"
#include "apps/rh_ami/options.h"
#include "stack/ip_address.h"

namespace rockhopper::apps::messages {

/// What the two ends say to each other by TCP, each an object of one member:
///
///   server                  client
///   offer  {version, path_mtu}
///                           hello  {agreement, side}
///   welcome {side}
///                           start  {spec}
///   started {}
///                           stop   {instructions}
///   stopped {handled}
///                           end    {results}
///   ended {}
///
/// and `error` of either.
inline constexpr int kProtocolVersion = 1;

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
};

/// What the other end must know of this one.
struct Side {
  stack::IpAddress gid;
  std::uint64_t address = 0;  ///< of the memory, for its rkey
  std::uint32_t rkey = 0;
  std::uint32_t qpn = 0;         ///< DC: of the target
  std::uint32_t psn = 0;         ///< RC: the first
  std::uint64_t access_key = 0;  ///< DC: the target's
  std::string shared_path;       ///< of the memory, to be looked at; empty: it cannot be
  std::uint64_t token = 0;       ///< that the memory has, so that no other is taken for it
};

[[nodiscard]] nlohmann::json to_json(const Agreement& agreement);
[[nodiscard]] Expected<Agreement> agreement_from_json(const nlohmann::json& json);
[[nodiscard]] nlohmann::json to_json(const Side& side);
[[nodiscard]] Expected<Side> side_from_json(const nlohmann::json& json);
[[nodiscard]] nlohmann::json to_json(const RunSpec& spec);
[[nodiscard]] Expected<RunSpec> run_spec_from_json(const nlohmann::json& json,
                                                   const Agreement& agreement);
/// A member that is a number.
[[nodiscard]] Expected<std::uint64_t> number_from_json(const nlohmann::json& json,
                                                       const char* name);

}  // namespace rockhopper::apps::messages
