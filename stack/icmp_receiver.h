// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/host_context.h"
#include "stack/host_frame.h"
#include "stack/multicast_groups.h"
#include "stack/neighbour_receiver.h"
#include "stack/token_bucket.h"

namespace rockhopper::stack {

/// Takes messages of ICMP and ICMPv6: answers echo requests, at a limited rate, hears routers'
/// complaints of packets that are too big, and hands the others to those who they are for.
class IcmpReceiver {
 public:
  /// All must outlive it.
  IcmpReceiver(HostContext& host, NeighbourReceiver& neighbours, MulticastGroups& groups);

  [[nodiscard]] HostDrop receive_icmp(const HostFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop receive_icmpv6(const HostFrame& frame, std::uint64_t now_ns);

 private:
  [[nodiscard]] HostDrop receive_too_big(const HostFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop reply_to_echo(const HostFrame& frame, std::uint8_t reply_type,
                                       std::uint64_t now_ns);

  HostContext& host_;
  NeighbourReceiver& neighbours_;
  MulticastGroups& groups_;
  TokenBucket echo_replies_;
  TokenBucket too_big_;  ///< events
};

}  // namespace rockhopper::stack
