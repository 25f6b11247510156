// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/ip_address.h"

namespace rockhopper::stack {

/// Is told what concerns the users of a host's addresses. Calls come from inside the host's and
/// must not change it.
class HostObserver {
 public:
  HostObserver() = default;
  HostObserver(const HostObserver&) = delete;
  HostObserver& operator=(const HostObserver&) = delete;
  virtual ~HostObserver() = default;
  /// Addresses can be used that could not before, or the other way round.
  virtual void on_address_change() = 0;
  /// Another station has the address: a new one of ours is not used then, an old one is defended.
  virtual void on_duplicate_address(const IpAddress& address) = 0;
  /// A router says that a datagram to `destination` was too big: IP packets of up to `mtu` bytes
  /// get through, if it is not 0. Anybody can say so.
  virtual void on_packet_too_big(const IpAddress& destination, std::uint32_t mtu) = 0;
};

}  // namespace rockhopper::stack
