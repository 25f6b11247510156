// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/services/dag/grant.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::apps::dag_node {

/// What a server of the DAG store and a client say to each other by TCP, each an object of one
/// member:
///
///   server                            client
///   offer   {version, path_mtu}
///                                     hello {path_mtu, gid, target, access_key}
///   welcome {gid, grant}
///
/// and `error` of either. A client closes the connection when it leaves; a server closes it when it
/// has fenced the client, which may then come again.
inline constexpr unsigned kGreetingVersion = 1;

/// The TCP port of servers.
inline constexpr std::uint16_t kDefaultPort = 18519;

struct Offer {
  std::uint16_t path_mtu = 1024;  ///< for all its clients
};

/// The client's DC target for this server.
struct Hello {
  std::uint16_t path_mtu = 1024;
  stack::IpAddress gid;
  wire::Qpn target;
  std::uint64_t access_key = 0;
};

struct Welcome {
  stack::IpAddress gid;
  dag::Grant grant;
};

[[nodiscard]] nlohmann::json to_json(const Offer& offer);
[[nodiscard]] nlohmann::json to_json(const Hello& hello);
[[nodiscard]] nlohmann::json to_json(const Welcome& welcome);
[[nodiscard]] Expected<Offer> offer_from_json(const nlohmann::json& object);
/// `offer` is what it answers.
[[nodiscard]] Expected<Hello> hello_from_json(const nlohmann::json& object, const Offer& offer);
[[nodiscard]] Expected<Welcome> welcome_from_json(const nlohmann::json& object);

}  // namespace rockhopper::apps::dag_node
