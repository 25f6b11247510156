// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/cm/socket_address.h"

#include <cstring>

namespace rockhopper::verbs::cm {

SocketAddress SocketAddress::any(sa_family_t family, std::uint16_t port) {
  return {
      .family = family,
      .address = family == AF_INET ? stack::IpAddress::from_ipv4(INADDR_ANY) : stack::IpAddress{},
      .port = port};
}

std::optional<SocketAddress> SocketAddress::parse(std::span<const std::byte> bytes) {
  sa_family_t family = AF_UNSPEC;
  if (bytes.size() < sizeof family) return std::nullopt;
  std::memcpy(&family, bytes.data(), sizeof family);
  if (family == AF_INET && bytes.size() >= sizeof(sockaddr_in)) {
    sockaddr_in given;
    std::memcpy(&given, bytes.data(), sizeof given);
    return SocketAddress{.family = family,
                         .address = stack::IpAddress::from_ipv4(ntohl(given.sin_addr.s_addr)),
                         .port = ntohs(given.sin_port)};
  }
  if (family == AF_INET6 && bytes.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 given;
    std::memcpy(&given, bytes.data(), sizeof given);
    return SocketAddress{.family = family,
                         .address = stack::IpAddress::from_bytes(&given.sin6_addr),
                         .port = ntohs(given.sin6_port)};
  }
  return std::nullopt;
}

std::size_t SocketAddress::emit(sockaddr_in6& to) const {
  to = {};
  if (family == AF_INET6) {
    to.sin6_family = family;
    to.sin6_port = htons(port);
    std::memcpy(&to.sin6_addr, address.bytes.data(), sizeof to.sin6_addr);
    return sizeof(sockaddr_in6);
  }
  if (family != AF_INET) return 0;
  sockaddr_in ipv4{};
  ipv4.sin_family = family;
  ipv4.sin_port = htons(port);
  ipv4.sin_addr.s_addr = htonl(address.ipv4());
  std::memcpy(&to, &ipv4, sizeof ipv4);
  return sizeof(sockaddr_in);
}

}  // namespace rockhopper::verbs::cm
