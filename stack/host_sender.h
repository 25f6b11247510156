// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <rte_ether.h>
#include <rte_mbuf.h>

#include "stack/host_config.h"
#include "stack/host_counters.h"
#include "stack/ip_header.h"
#include "stack/output_queue.h"

namespace rockhopper::stack {

/// Where ICMP and ICMPv6 messages alike have their checksum.
inline constexpr std::size_t kIcmpChecksumOffset = 2;

/// Sends what a host has to say for itself: puts headers before messages, and has the packets until
/// the link takes them. A packet that cannot be sent is freed and counted.
class HostSender {
 public:
  /// Both must outlive it.
  HostSender(const HostConfig& config, HostCounters& counters)
      : config_(config), counters_(counters) {}

  /// Returns a packet of that length with room for all headers; null if there is no buffer.
  [[nodiscard]] rte_mbuf* new_packet(std::uint16_t length);
  /// Returns false if it cannot be sent.
  bool send(rte_mbuf* packet, const rte_ether_addr& destination, std::uint16_t ether_type);
  /// The same with an IP header, whose payload length is filled in.
  bool send_ip(rte_mbuf* payload, IpHeader header, const rte_ether_addr& destination);
  /// Sends a message of IGMP or ICMPv6 from a buffer, the latter with its checksum filled in.
  bool send_message(std::span<std::uint8_t> message, const IpHeader& header,
                    const rte_ether_addr& destination);

  [[nodiscard]] bool empty() const { return output_.empty(); }
  /// Requires that it is not empty.
  [[nodiscard]] rte_mbuf* pop() { return output_.pop(); }

 private:
  [[nodiscard]] bool put_before(rte_mbuf* packet, std::span<const std::uint8_t> header);

  const HostConfig& config_;
  HostCounters& counters_;
  OutputQueue output_;
};

}  // namespace rockhopper::stack
