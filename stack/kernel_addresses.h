// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/ip_address.h"

namespace rockhopper::stack {

/// An address of the device: an entry of its GID table.
struct DeviceAddress {
  IpAddress address{};
  std::uint8_t prefix_length = 0;
  std::uint32_t interface_index = 0;  ///< of the kernel's interface; 0: there is none
};

/// The addresses that this network namespace's interfaces have now, those of the loopback device
/// excepted: IPv4 before IPv6 before link-local ones, and among these the interface of the default
/// route first. May be empty.
[[nodiscard]] std::vector<DeviceAddress> kernel_addresses();

/// `mtu`, or the largest IP packet in bytes of the interface that has the address now if that is
/// less.
[[nodiscard]] std::uint16_t limit_mtu(std::uint16_t mtu, const IpAddress& address);

/// The kernel's interface that has the address now; 0 if none has.
[[nodiscard]] std::uint32_t interface_of(const IpAddress& address);

/// What the kernel calls the address's interface now; "" if there is none.
[[nodiscard]] std::string interface_name(const DeviceAddress& address);

}  // namespace rockhopper::stack
