// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <infiniband/verbs.h>

#include "apps/verbs/cm/socket_address.h"
#include "roce/cm/connection.h"
#include "roce/cm/ip_service.h"
#include "roce/cm/lookup.h"

namespace rockhopper::verbs::cm {

class Channel;
struct Identifier;

/// How far an identifier is; the names are those of the calls of librdmacm that lead there.
enum class IdentifierState : std::uint8_t {
  idle,
  bound,
  address_resolved,
  route_resolved,
  listening,
  requested,   ///< somebody asks to connect, and waits for an answer
  connecting,  ///< connect() or accept() was called; what is left of it the manager knows
};

/// A membership in a group, of an identifier.
struct Group {
  Identifier* identifier = nullptr;
  std::uint32_t handle = 0;
  std::uint64_t uid = 0;  ///< the program's name for it
  std::uint32_t events_reported = 0;
};

/// What the kernel has behind an rdma_cm_id. Belongs to the agent, which keeps to the states; in a
/// Section.
struct Identifier {
  std::uint32_t handle = 0;
  Channel* channel = nullptr;  ///< where its events go
  /// The program's name for it; 0: not told yet, of a request.
  std::uint64_t uid = 0;
  roce::cm::PortSpace space = roce::cm::PortSpace::tcp;
  std::uint8_t qp_type = IBV_QPT_RC;
  IdentifierState state = IdentifierState::idle;

  SocketAddress local;
  SocketAddress remote;
  bool has_device = false;   ///< its address is one of the device's
  roce::AddressVector path;  ///< from has_device on the source; then all of it

  // Options.
  bool reuses_address = false;
  bool is_ipv6_only = false;
  std::uint8_t type_of_service = 0;
  std::optional<std::uint8_t> ack_timeout;

  std::uint32_t backlog = 0;  ///< listening: requests that may still be told
  std::uint32_t events_reported = 0;
  std::uint32_t qkey = 0;  ///< of datagrams

  // The manager's; at most one of them.
  roce::cm::Connection* connection = nullptr;
  roce::cm::Lookup* lookup = nullptr;

  std::vector<std::unique_ptr<Group>> groups;

  [[nodiscard]] bool is_datagram() const { return qp_type == IBV_QPT_UD; }
  [[nodiscard]] std::uint64_t local_service_id() const {
    return roce::cm::ip_service_id(space, local.port);
  }
};

}  // namespace rockhopper::verbs::cm
