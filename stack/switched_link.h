// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/link.h"
#include "stack/net/forwarder.h"
#include "stack/net/learning_switch.h"
#include "stack/telemetry.h"

namespace rockhopper::stack {

/// Joins several links to one endpoint as a learning switch does, whose last port is the
/// endpoint's own: for a server of programs that reach it by a link each (memif joins two), and
/// each other through it. Its user's calls move the packets of all. What an output queue has no
/// room for is dropped and counted, so that a peer that stands still holds up nobody. One thread.
class SwitchedLink final : public Link {
 public:
  struct Config {
    std::vector<net::ForwarderPort> ports{};  ///< 1 to net::kPortsMax - 1; not owned
    rte_mempool* pool = nullptr;              ///< for copies of what is for others too; not owned
    std::uint64_t seed = 1;                   ///< of the address table's hash
  };
  explicit SwitchedLink(const Config& config);

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  /// That of the first link.
  [[nodiscard]] rte_ether_addr mac() const override;
  /// The smallest of all.
  [[nodiscard]] std::uint16_t mtu() const override;

  [[nodiscard]] bool any_up() const;
  [[nodiscard]] const net::LearningSwitch& learning_switch() const { return switch_; }
  /// The address table's counters and its own; those of the ports are the switch's. Any thread.
  void visit_counters(CounterVisitor visit, void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(CounterTextVisitor visit, void* context);

 private:
  [[nodiscard]] net::PortNumber own_port() const {
    return static_cast<net::PortNumber>(forwarder_.ports().size());
  }

  rte_mempool* pool_;
  net::LearningSwitch switch_;
  net::Forwarder forwarder_;
  Counter no_mbuf_;  ///< copies that could not be made: lost
};

}  // namespace rockhopper::stack
