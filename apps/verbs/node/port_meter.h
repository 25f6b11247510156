// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/counter.h"
#include "stack/link.h"

namespace rockhopper::verbs {

/// A link around another one, which counts the RoCE packets that cross it: as a device's port does,
/// whoever they are for and whatever becomes of them behind.
class PortMeter final : public stack::Link {
 public:
  /// What has crossed in one direction. Any thread may read it.
  struct Counts {
    stack::Counter unicast;    ///< frames
    stack::Counter multicast;  ///< frames to groups
    stack::Counter bytes;      ///< of all these, from the Ethernet header to the ICRC
  };

  /// `inner` is not owned.
  explicit PortMeter(stack::Link& inner) : inner_(inner) {}

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return inner_.next_deadline_ns();
  }
  [[nodiscard]] rte_ether_addr mac() const override { return inner_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return inner_.mtu(); }

  [[nodiscard]] const Counts& received() const { return received_; }
  [[nodiscard]] const Counts& sent() const { return sent_; }

 private:
  stack::Link& inner_;
  Counts received_;
  Counts sent_;
};

}  // namespace rockhopper::verbs
