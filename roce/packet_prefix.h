// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "roce/wire/packet.h"

namespace rockhopper::roce {

/// Headers that an extension puts before the others of a queue pair's packets, requests and
/// responses alike. A part of the queue pair's Transport.
class PacketPrefix {
 public:
  PacketPrefix() = default;
  PacketPrefix(const PacketPrefix&) = delete;
  PacketPrefix& operator=(const PacketPrefix&) = delete;
  virtual ~PacketPrefix() = default;

  /// Adds them to `headers`, which are otherwise complete. May give the packet another opcode, if
  /// wire::info() says then what is in it.
  virtual void add_to(wire::Headers& headers) const = 0;
};

}  // namespace rockhopper::roce
