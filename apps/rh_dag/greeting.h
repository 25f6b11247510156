// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/common/fields.h"
#include "apps/services/dag/grant.h"
#include "roce/wire/qpn.h"
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
inline constexpr std::uint64_t kGreetingVersion = 1;

/// The TCP port of servers.
inline constexpr std::uint16_t kDefaultPort = 18519;

struct Offer {
  std::uint16_t path_mtu = 1024;  ///< for all its clients
  void describe(Fields& fields);
};

/// The client's DC target for this server.
struct Hello {
  std::uint16_t path_mtu = 1024;
  stack::IpAddress gid;
  wire::Qpn target;
  std::uint64_t access_key = 0;
  void describe(Fields& fields);
};

struct Welcome {
  stack::IpAddress gid;
  dag::Grant grant;
  void describe(Fields& fields);
};

/// `offer` is what the hello answers.
[[nodiscard]] Expected<Hello> hello_from_json(const nlohmann::json& object, const Offer& offer);

}  // namespace rockhopper::apps::dag_node
