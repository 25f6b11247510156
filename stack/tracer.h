// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "stack/link.h"

namespace rockhopper::stack {

/// One line about a packet's Ethernet, IP and UDP headers, and the opcode, destination QPN and PSN
/// of a RoCEv2 packet. Never reads past the packet.
[[nodiscard]] std::string summarize(const rte_mbuf* packet);

/// Writes a line for each packet that passes: seconds, rx or tx, frame length, summary. For
/// debugging; slow.
class Tracer final : public Link {
 public:
  /// `inner` and `out` are not owned.
  Tracer(Link& inner, std::FILE* out) : inner_(inner), out_(out) {}

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return inner_.next_deadline_ns();
  }
  [[nodiscard]] rte_ether_addr mac() const override { return inner_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return inner_.mtu(); }

 private:
  void trace(const char* direction, std::uint32_t length, const std::string& text,
             std::uint64_t now_ns);

  Link& inner_;
  std::FILE* out_;
};

}  // namespace rockhopper::stack
