// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rockhopper::stack {

/// An IPv4 or IPv6 address in the form of a RoCEv2 GID: 16 bytes in network order, IPv4 as
/// ::ffff:a.b.c.d (RFC 4291, section 2.5.5.2).
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  /// `host_order` as in 0x0A000001 = 10.0.0.1.
  [[nodiscard]] static IpAddress from_ipv4(std::uint32_t host_order);
  /// Accepts dotted IPv4 and any textual IPv6; nothing else.
  [[nodiscard]] static std::optional<IpAddress> parse(std::string_view text);

  [[nodiscard]] bool is_ipv4() const;
  /// The IPv4 address in host order. Requires is_ipv4().
  [[nodiscard]] std::uint32_t ipv4() const;
  [[nodiscard]] bool is_unspecified() const;
  [[nodiscard]] bool is_multicast() const;
  [[nodiscard]] bool is_link_local() const;
  [[nodiscard]] std::string to_string() const;

  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};

}  // namespace rockhopper::stack
