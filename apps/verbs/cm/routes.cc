// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/cm/routes.h"

#include <algorithm>
#include <cerrno>

#include <sys/socket.h>

#include "stack/address_table.h"
#include "stack/descriptor.h"

namespace rockhopper::verbs::cm {
namespace {

bool is_around(const stack::DeviceAddress& own, const stack::IpAddress& other) {
  constexpr std::uint8_t kMappedBits = 96;
  const bool ipv4 = own.address.is_ipv4();
  const auto length =
      static_cast<std::uint8_t>(own.prefix_length + (ipv4 ? kMappedBits : std::uint8_t{0}));
  return ipv4 == other.is_ipv4() && stack::same_prefix(own.address, other, length);
}

}  // namespace

bool Routes::owns(const stack::IpAddress& address) const {
  return std::ranges::any_of(
      settings_.addresses, [&](const stack::DeviceAddress& own) { return own.address == address; });
}

std::optional<stack::IpAddress> Routes::first_of_family(bool ipv4) const {
  for (const stack::DeviceAddress& own : settings_.addresses) {
    if (own.address.is_ipv4() == ipv4) return own.address;
  }
  return std::nullopt;
}

std::optional<stack::IpAddress> Routes::local(const stack::IpAddress& address) const {
  if (owns(address)) return address;
  if (!address.is_loopback()) return std::nullopt;
  const auto same = first_of_family(address.is_ipv4());
  return same ? same : settings_.addresses.front().address;
}

std::optional<stack::IpAddress> Routes::on_link_with(const stack::IpAddress& destination) const {
  for (const stack::DeviceAddress& own : settings_.addresses) {
    if (is_around(own, destination)) return own.address;
  }
  return std::nullopt;
}

/// The kernel knows the way of what leaves through its sockets, and no other.
std::optional<stack::IpAddress> Routes::routed_source(const SocketAddress& destination) const {
  return settings_.uplink == UplinkKind::udp ? kernel_source(destination) : std::nullopt;
}

std::optional<stack::IpAddress> Routes::source_for_group(const SocketAddress& group) const {
  const auto chosen = kernel_source(group);
  if (chosen && owns(*chosen)) return chosen;
  return first_of_family(group.family == AF_INET);
}

int Routes::find(const SocketAddress& source, const SocketAddress& destination,
                 Route& route) const {
  const bool given = source.is_there() && !source.is_any();
  const auto own = local(destination.address);
  if (own) {
    // What is sent to an address of the host comes from it.
    route.source = given ? source.address : destination.address;
    route.path.destination = *own;
  } else {
    if (settings_.uplink == UplinkKind::none) return EHOSTUNREACH;
    const auto chosen = given ? std::optional(source.address) : routed_source(destination);
    route.source = chosen && local(*chosen) ? *chosen : stack::IpAddress{};
    if (route.source.is_unspecified()) {
      const auto neighbour = on_link_with(destination.address);
      if (!neighbour) return ENETUNREACH;
      route.source = *neighbour;
    }
    route.path.destination = destination.address;
  }
  const auto from = local(route.source);
  if (!from) return EADDRNOTAVAIL;
  route.path.source = *from;
  return from->is_ipv4() == route.path.destination.is_ipv4() ? 0 : EAFNOSUPPORT;
}

std::optional<stack::IpAddress> kernel_source(const SocketAddress& destination) {
  sockaddr_in6 address;
  auto length = static_cast<socklen_t>(destination.emit(address));
  const stack::Descriptor socket(
      ::socket(destination.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return std::nullopt;
  }
  length = sizeof address;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return std::nullopt;
  }
  const auto found = SocketAddress::parse(std::as_bytes(std::span(&address, 1)));
  if (!found) return std::nullopt;
  return found->address;
}

}  // namespace rockhopper::verbs::cm
