// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Addresses of identifiers: given to them, resolved, asked for.
#include <cerrno>
#include <cstring>
#include <optional>

#include <endian.h>
#include <infiniband/ib.h>

#include "apps/verbs/cm/agent.h"
#include "roce/wire/cm.h"
#include "roce/wire/pkey.h"

namespace rockhopper::verbs::cm {
namespace {

constexpr std::uint8_t kRate100Gbit = 16;     // IBV_RATE_100_GBPS
constexpr std::uint8_t kExactly = 2;          // a selector of a path record
constexpr std::uint8_t kPacketLifeTime = 13;  // 34 ms

static_assert(sizeof(sockaddr_ib) <= sizeof(__kernel_sockaddr_storage));

void copy(const stack::IpAddress& from, std::uint8_t (&to)[16]) {
  std::memcpy(to, from.bytes.data(), sizeof to);
}

}  // namespace

int Agent::bind(Identifier& identifier, const SocketAddress& address) {
  if (identifier.state != IdentifierState::idle) return EINVAL;
  if (const int error = give_address(identifier, address); error != 0) return error;
  identifier.state = IdentifierState::bound;
  return 0;
}

int Agent::give_address(Identifier& identifier, const SocketAddress& address) {
  std::optional<stack::IpAddress> own;
  if (!address.is_any()) {
    own = routes_.local(address.address);
    if (!own) return EADDRNOTAVAIL;
  }
  identifier.local = address;
  if (const int error = ports_.bind(identifier); error != 0) {
    identifier.local = {};
    return error;
  }
  identifier.has_device = own.has_value();
  if (own) identifier.path.source = *own;
  return 0;
}

int Agent::resolve_address(Identifier& identifier, const SocketAddress& source,
                           const SocketAddress& destination) {
  if (identifier.state == IdentifierState::idle) {
    const SocketAddress from = source.is_there() ? source : SocketAddress::any(destination.family);
    if (const int error = bind(identifier, from); error != 0) return error;
  }
  if (identifier.state != IdentifierState::bound) return EINVAL;
  if (identifier.local.family != destination.family) return EINVAL;
  identifier.remote = destination;
  if (destination.is_any()) {
    // The kernel's, too, leads to the host itself.
    identifier.remote.address = destination.family == AF_INET
                                    ? stack::IpAddress::from_ipv4(INADDR_LOOPBACK)
                                    : stack::IpAddress::from_bytes(&in6addr_loopback);
  }
  if (destination.address.is_multicast()) {
    // A group is on every link: what counts is whence.
    const auto from = identifier.has_device ? std::optional(identifier.path.source)
                                            : routes_.source_for_group(destination);
    if (!from) {
      tell(identifier, ProgramEvent::addr_error, -ENETUNREACH);
      return 0;
    }
    identifier.path.source = *from;
    identifier.path.destination = destination.address;
    if (identifier.local.is_any()) identifier.local.address = *from;
  } else {
    Routes::Route route;
    if (const int error = routes_.find(identifier.local, identifier.remote, route); error != 0) {
      tell(identifier, ProgramEvent::addr_error, -error);
      return 0;
    }
    identifier.path = route.path;
    identifier.local.address = route.source;
  }
  identifier.has_device = true;
  identifier.state = IdentifierState::address_resolved;
  tell(identifier, ProgramEvent::addr_resolved);
  return 0;
}

int Agent::resolve_route(Identifier& identifier) {
  if (identifier.state != IdentifierState::address_resolved) return EINVAL;
  tell_route(identifier);
  return 0;
}

void Agent::tell_route(Identifier& identifier) {
  identifier.state = IdentifierState::route_resolved;
  tell(identifier, ProgramEvent::route_resolved);
}

int Agent::query_route(const Identifier& identifier, rdma_ucm_query_route_resp& response) const {
  response = {};
  (void)identifier.local.emit(response.src_addr);
  (void)identifier.remote.emit(response.dst_addr);
  if (!identifier.has_device) return 0;
  response.node_guid = device_.guid;
  response.port_num = kPort;
  response.ibdev_index = static_cast<std::uint32_t>(device_.index);
  ib_user_path_rec& path = response.ib_route[0];
  copy(identifier.path.source, path.sgid);
  copy(identifier.path.destination, path.dgid);
  path.pkey = htobe16(wire::kDefaultPkey);
  if (identifier.state < IdentifierState::route_resolved ||
      identifier.state == IdentifierState::listening) {
    return 0;
  }
  response.num_paths = 1;
  path.flow_label = htobe32(identifier.path.flow_label);
  path.reversible = 1;
  path.mtu = wire::cm::mtu_code(node_.engine().max_path_mtu());
  path.hop_limit = identifier.path.hop_limit;
  path.traffic_class = identifier.type_of_service;
  path.numb_path = 1;
  path.mtu_selector = kExactly;
  path.rate_selector = kExactly;
  path.rate = kRate100Gbit;
  path.packet_life_time_selector = kExactly;
  path.packet_life_time = kPacketLifeTime;
  return 0;
}

int Agent::query_address(const Identifier& identifier, rdma_ucm_query_addr_resp& response) const {
  response = {};
  sockaddr_in6 address;
  response.src_size = static_cast<std::uint16_t>(identifier.local.emit(address));
  std::memcpy(&response.src_addr, &address, sizeof address);
  response.dst_size = static_cast<std::uint16_t>(identifier.remote.emit(address));
  std::memcpy(&response.dst_addr, &address, sizeof address);
  if (!identifier.has_device) return 0;
  response.node_guid = device_.guid;
  response.port_num = kPort;
  response.pkey = htobe16(wire::kDefaultPkey);
  response.ibdev_index = static_cast<std::uint32_t>(device_.index);
  return 0;
}

int Agent::query_gids(const Identifier& identifier, rdma_ucm_query_addr_resp& response) const {
  if (const int error = query_address(identifier, response); error != 0) return error;
  const auto put = [](const stack::IpAddress& gid, auto& to) {
    sockaddr_ib address{};
    address.sib_family = AF_IB;
    address.sib_pkey = htobe16(wire::kDefaultPkey);
    copy(gid, address.sib_addr.sib_addr8);
    std::memcpy(&to, &address, sizeof address);
    return static_cast<std::uint16_t>(sizeof address);
  };
  response.src_size = put(identifier.path.source, response.src_addr);
  response.dst_size = put(identifier.path.destination, response.dst_addr);
  return 0;
}

}  // namespace rockhopper::verbs::cm
