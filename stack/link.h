// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_ether.h>
#include <rte_mbuf.h>

namespace rockhopper::stack {

/// Bytes of Ethernet header and one VLAN tag around an IP packet; the FCS is the device's.
inline constexpr std::uint16_t kFrameOverhead = RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;

/// THE seam between packets and everything above: a port, a simulated wire, or a wrapper around
/// another link (FaultInjector, PcapWriter, Tracer). Single-threaded: one lcore owns a link.
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  /// Receives up to `count` packets; ownership of the returned mbufs passes to the caller.
  [[nodiscard]] virtual std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                               std::uint64_t now_ns) = 0;

  /// Takes ownership of the first `result` packets; the rest stay the caller's, to be offered
  /// again.
  [[nodiscard]] virtual std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                               std::uint64_t now_ns) = 0;

  /// The next time at which rx_burst or tx_burst has work of its own (a delayed packet);
  /// kNever when there is none. Only a virtual clock needs it.
  [[nodiscard]] virtual std::uint64_t next_deadline_ns() const { return UINT64_MAX; }

  [[nodiscard]] virtual rte_ether_addr mac() const = 0;
  /// Largest IP packet in bytes (the interface MTU, without Ethernet header).
  [[nodiscard]] virtual std::uint16_t mtu() const = 0;
};

/// No deadline: never.
inline constexpr std::uint64_t kNever = UINT64_MAX;

/// A name for the reason a received packet was not used. `reason` has static storage duration.
class DropObserver {
 public:
  DropObserver() = default;
  DropObserver(const DropObserver&) = delete;
  DropObserver& operator=(const DropObserver&) = delete;
  virtual ~DropObserver() = default;
  /// Called while `packet` is still valid, between its rx_burst and the next.
  virtual void on_drop(const rte_mbuf* packet, const char* reason) = 0;
};

}  // namespace rockhopper::stack
