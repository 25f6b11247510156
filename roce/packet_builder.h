// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "roce/wire/icrc.h"
#include "roce/wire/packet.h"
#include "stack/host.h"

namespace rockhopper::roce {

/// One RoCEv2 packet on its way out: the flow's lower headers, transport headers, payload copied in
/// pieces, then padding and the ICRC, or zeros and a flag where the flow omits it. Frees its mbufs
/// unless finish() hands them out.
class PacketBuilder {
 public:
  /// Starts with all headers; the pad count is set for `payload_length`. Requires a ready flow.
  /// Check ok() afterwards: false when the pool is empty.
  PacketBuilder(rte_mempool* pool, const stack::Host& host, const stack::Flow& flow,
                wire::Headers& headers, std::uint32_t payload_length);
  ~PacketBuilder();
  PacketBuilder(const PacketBuilder&) = delete;
  PacketBuilder& operator=(const PacketBuilder&) = delete;

  [[nodiscard]] bool ok() const { return packet_ != nullptr; }
  /// Copies payload behind what is there. False when the pool is empty; the packet is lost then.
  [[nodiscard]] bool append(const std::byte* data, std::uint32_t length);
  /// All `payload_length` bytes have been appended: completes the packet and passes it on. Requires
  /// ok().
  [[nodiscard]] rte_mbuf* finish();

 private:
  [[nodiscard]] std::uint32_t icrc_of_all() const;

  rte_mempool* pool_;
  rte_mbuf* packet_;
  rte_mbuf* last_;
  std::uint8_t l3_offset_;
  std::uint8_t l3_length_;  ///< from the IP header through the BTH
  std::uint8_t pad_;
  bool in_one_pass_;  ///< the ICRC is computed as the payload is copied
  wire::Icrc icrc_;   ///< then: of all that is there
};

/// Returns a packet of a BTH and an AETH and nothing else, as PacketBuilder would make it: most
/// packets of a peer that takes SENDs and WRITEs are such, and its peers may wait for them. Null
/// when the pool is empty. Requires a ready flow.
[[nodiscard]] rte_mbuf* build_acknowledge(rte_mempool* pool, const stack::Host& host,
                                          const stack::Flow& flow, const wire::Bth& bth,
                                          const wire::Aeth& aeth);

/// The ICRC that the packet's bytes from the IP header on should end with. `l3_offset` and
/// `transport_offset` count from the start of the frame; `end` is where the ICRC field starts.
/// Needs all bytes through the BTH in `head`, which begins at the IP header.
[[nodiscard]] std::uint32_t packet_icrc(const rte_mbuf* packet, std::span<const std::uint8_t> head,
                                        std::uint32_t l3_offset, std::uint32_t end);

/// A stack::AddIcrc.
void add_icrc(rte_mbuf* packet);

}  // namespace rockhopper::roce
