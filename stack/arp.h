// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

#include <rte_arp.h>
#include <rte_ether.h>

#include "stack/host_counters.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

/// An ARP request or reply for IPv4 over Ethernet (RFC 826).
struct ArpMessage {
  static constexpr std::size_t kSize = sizeof(rte_arp_hdr);

  bool is_request = false;
  rte_ether_addr sender_mac{};
  IpAddress sender_ip;
  rte_ether_addr target_mac{};
  IpAddress target_ip;

  /// Reads the message at the front of `bytes`; HostDrop::none if it is well formed.
  [[nodiscard]] static HostDrop parse(std::span<const std::uint8_t> bytes, ArpMessage& message);
  void emit(std::span<std::uint8_t, kSize> out) const;
};

}  // namespace rockhopper::stack
