// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

#include <rte_mbuf.h>

#include "stack/link.h"
#include "stack/udp_datagram.h"

namespace rockhopper::stack {

/// A protocol above a host: it receives the datagrams of one UDP port, and is asked for packets of
/// its own. The host calls it from within its own calls as a Protocol, on the same thread and with
/// their times. A client that only receives overrides on_udp() alone.
class UdpClient {
 public:
  UdpClient() = default;
  UdpClient(const UdpClient&) = delete;
  UdpClient& operator=(const UdpClient&) = delete;
  virtual ~UdpClient() = default;

  /// A burst has arrived, of which nothing has been looked at yet and not all needs to be this
  /// client's. The packets remain the host's.
  virtual void begin_receive(std::span<rte_mbuf* const> /*packets*/, std::uint64_t /*now_ns*/) {}
  /// A datagram to the client's port. Must take ownership of datagram.packet.
  virtual void on_udp(const UdpDatagram& datagram, std::uint64_t now_ns) = 0;
  /// All of the burst has been handled.
  virtual void end_receive() {}

  /// As Protocol::transmit(): whole frames, headers of all layers included. Called after the host
  /// has put its own packets in front, so `count` may be 0.
  [[nodiscard]] virtual std::uint16_t transmit(rte_mbuf** /*packets*/, std::uint16_t /*count*/,
                                               std::uint64_t /*now_ns*/) {
    return 0;
  }
  /// As Protocol::next_deadline_ns().
  [[nodiscard]] virtual std::uint64_t next_deadline_ns() const { return kNever; }
};

}  // namespace rockhopper::stack
