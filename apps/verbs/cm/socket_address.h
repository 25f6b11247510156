// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <netinet/in.h>

#include "stack/ip_address.h"

namespace rockhopper::verbs::cm {

/// An address with a port as programs give it: a sockaddr_in or sockaddr_in6.
struct SocketAddress {
  sa_family_t family = AF_UNSPEC;  ///< AF_INET, AF_INET6; AF_UNSPEC: there is none
  stack::IpAddress address;        ///< unspecified: any
  std::uint16_t port = 0;

  [[nodiscard]] bool is_there() const { return family != AF_UNSPEC; }
  [[nodiscard]] bool is_any() const {
    return address.is_unspecified() || (family == AF_INET && address.ipv4() == INADDR_ANY);
  }
  /// Stands for all addresses of the family.
  [[nodiscard]] static SocketAddress any(sa_family_t family, std::uint16_t port = 0);
  /// Nothing if it is of no family that is served, or has not all its bytes.
  [[nodiscard]] static std::optional<SocketAddress> parse(std::span<const std::byte> bytes);
  /// As a program is given it; zeros if there is none. Returns how many bytes it has.
  std::size_t emit(sockaddr_in6& to) const;
};

}  // namespace rockhopper::verbs::cm
