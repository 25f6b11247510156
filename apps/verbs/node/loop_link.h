// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <vector>

#include <rte_ether.h>
#include <rte_mbuf.h>

#include "stack/link.h"

namespace rockhopper::verbs {

/// A wire on which a node hears itself and nobody else. Frames that find no room are dropped.
class LoopLink final : public stack::Link {
 public:
  LoopLink(const rte_ether_addr& mac, std::uint16_t mtu);
  ~LoopLink() override;

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  /// Frames that wait are to be received now.
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return head_ == tail_ ? stack::kNever : 0;
  }
  [[nodiscard]] rte_ether_addr mac() const override { return mac_; }
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }

 private:
  const rte_ether_addr mac_;
  const std::uint16_t mtu_;
  std::vector<rte_mbuf*> ring_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace rockhopper::verbs
