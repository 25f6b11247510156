// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include <netinet/in.h>

#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

/// Whether a single interface may have the address, and send from it to others (RFC 1122, section
/// 3.2.1.3; RFC 4291, 2.5 and 2.7).
[[nodiscard]] inline bool is_station_address(const IpAddress& address) {
  return !address.is_unspecified() && !address.is_multicast() && !address.is_loopback() &&
         !(address.is_ipv4() && address.ipv4() == INADDR_BROADCAST);
}

/// An address of an interface, with the length of its network's prefix.
struct InterfaceAddress {
  IpAddress address{};
  std::uint8_t prefix_length = 0;

  /// Reads "10.0.0.1/24" or "fd00::1/64". Refuses what is no station address; with `loopback`,
  /// those of the loopback device count as such.
  [[nodiscard]] static Expected<InterfaceAddress> parse(std::string_view text,
                                                        bool loopback = false);
};

}  // namespace rockhopper::stack
