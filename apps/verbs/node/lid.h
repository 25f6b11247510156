// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/ip_address.h"

namespace rockhopper::verbs {

/// A port on Ethernet has no LID. Programs that know nothing else (qperf, ping-pongs without `-g`)
/// get the last 16 bits of its first IPv4 address, which tell the hosts of a network apart.
[[nodiscard]] inline std::uint16_t lid_of(const stack::IpAddress& ipv4) {
  return static_cast<std::uint16_t>(ipv4.ipv4());
}

}  // namespace rockhopper::verbs
