// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <rte_mbuf.h>

#include "roce/wire/packet.h"
#include "stack/ip_address.h"
#include "stack/ip_header.h"

namespace rockhopper {

/// A RoCEv2 packet in one piece of memory, which can be changed: a view of an mbuf that it does not
/// own. Nothing that it says goes beyond the bytes that are there.
class RoceFrame {
 public:
  /// Nothing for what is no RoCEv2 packet, is not in one piece, or has headers that do not parse.
  [[nodiscard]] static std::optional<RoceFrame> of(rte_mbuf* packet);
  /// A copy in one piece that can be changed; null if there is no mbuf, or `pool` has too small
  /// ones.
  [[nodiscard]] static rte_mbuf* copy(rte_mbuf* packet, rte_mempool* pool);

  [[nodiscard]] const wire::Headers& headers() const { return headers_; }
  [[nodiscard]] const wire::OpcodeInfo& opcode() const { return *headers_.opcode; }
  [[nodiscard]] bool is_ipv4() const { return source_.is_ipv4(); }
  [[nodiscard]] bool has_right_icrc() const;
  [[nodiscard]] const stack::IpAddress& source() const { return source_; }
  [[nodiscard]] const stack::IpAddress& destination() const { return destination_; }

  // Changes, after which seal() makes the packet right again.
  void set_source_mac_zero();
  void set_traffic_class(std::uint8_t value);
  void set_ttl(std::uint8_t value);
  void set_identification(std::uint16_t value);  ///< IPv4
  void set_source_port(std::uint16_t value);
  void set_bth(const wire::Bth& bth);
  void set_reth(const wire::Reth& reth);
  void set_syndrome(std::uint8_t syndrome);
  /// Another opcode, whose headers may be others: the BTH and, where it has one, the AETH given
  /// take the place of all headers. Returns false if there is no room.
  [[nodiscard]] bool set_headers(const wire::Bth& bth, const std::optional<wire::Aeth>& aeth);
  /// Cuts off everything behind the BTH and puts `rest` there, a multiple of four. Returns false
  /// if there is no room.
  [[nodiscard]] bool set_rest(std::span<const std::uint8_t> rest);
  /// Puts lengths, checksum of IPv4 and ICRC right, and the UDP checksum: that of the packet, or 0.
  void seal(bool udp_checksum);

 private:
  RoceFrame(rte_mbuf* packet, std::size_t l3, const stack::IpHeader& ip)
      : packet_(packet),
        l3_(l3),
        udp_(l3 + ip.length),
        source_(ip.source),
        destination_(ip.destination) {}
  [[nodiscard]] std::uint8_t* bytes() const;
  [[nodiscard]] std::uint8_t* bth() const { return bytes() + udp_ + 8; }
  /// Returns the ICRC that the bytes as they are should end with.
  [[nodiscard]] std::uint32_t icrc() const;
  /// Writes all transport headers that the opcode has, from their values.
  void emit_headers();
  /// Makes the transport part, from the BTH to the ICRC, so long. Returns false if there is no
  /// room.
  [[nodiscard]] bool resize(std::size_t length);

  rte_mbuf* packet_;
  std::size_t l3_;   ///< offset of the IP header
  std::size_t udp_;  ///< offset of the UDP header
  stack::IpAddress source_;
  stack::IpAddress destination_;
  wire::Headers headers_;
};

}  // namespace rockhopper
