// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/address_conflict_detection.h"
#include "stack/host_context.h"
#include "stack/host_frame.h"
#include "stack/neighbour_sender.h"
#include "stack/neighbour_table.h"

namespace rockhopper::stack {

/// Takes what comes by ARP and neighbour discovery: learns, answers, and finds out who else has an
/// address of ours.
class NeighbourReceiver {
 public:
  /// All must outlive it.
  NeighbourReceiver(HostContext& host, NeighbourTable& neighbours,
                    AddressConflictDetection& conflicts, NeighbourSender& sender)
      : host_(host), neighbours_(neighbours), conflicts_(conflicts), sender_(sender) {}

  [[nodiscard]] HostDrop receive_arp(const HostFrame& frame, std::uint64_t now_ns);
  /// A message of ICMPv6 of one of the two types, whose checksum is right.
  [[nodiscard]] HostDrop receive_message(const HostFrame& frame, std::uint64_t now_ns);

 private:
  [[nodiscard]] HostDrop on_advertisement(const NeighbourMessage& message, std::uint64_t now_ns);

  HostContext& host_;
  NeighbourTable& neighbours_;
  AddressConflictDetection& conflicts_;
  NeighbourSender& sender_;
};

}  // namespace rockhopper::stack
