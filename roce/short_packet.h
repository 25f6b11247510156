// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <rte_mbuf.h>

#include "roce/wire/icrc.h"
#include "roce/wire/packet.h"
#include "roce/wire/short_icrc.h"
#include "stack/host.h"

namespace rockhopper::roce {

/// Copies up to 16 bytes at a time without a call: most short payloads are one step.
inline void copy_short(std::uint8_t* to, const std::byte* from, std::uint32_t length) {
  const auto step = [to, from](std::uint32_t at, std::size_t size) {
    std::memcpy(to + at, from + at, size);
  };
  if (length >= 16) {
    for (std::uint32_t at = 0; at + 16 < length; at += 16) {
      step(at, 16);
    }
    step(length - 16, 16);
  } else if (length >= 8) {
    step(0, 8);
    step(length - 8, 8);
  } else if (length >= 4) {
    step(0, 4);
    step(length - 4, 4);
  } else {
    for (std::uint32_t at = 0; at < length; ++at) {
      step(at, 1);
    }
  }
}

/// Puts a payload and its padding where nothing follows yet.
inline void put_payload(std::uint8_t* to, const std::byte* from, std::uint32_t length) {
  // The padding is what is left of these zeros.
  std::memset(to + (length & ~3u), 0, sizeof(std::uint32_t));
  copy_short(to, from, length);
}

/// Makes packets of one flow that fit into one mbuf, beside PacketBuilder, which makes any: the
/// ICRC's part of the flow's headers is computed once. Gives the same bytes.
class ShortPackets {
 public:
  /// Bytes of payload that one of them has at most.
  static constexpr std::uint32_t kPayloadMax = 128;
  static_assert(kPayloadMax + wire::kHeadersMax >= 16 &&
                wire::Bth::kSize + wire::Reth::kSize + kPayloadMax <= wire::kShortIcrcMax);

  /// The processor has what they need.
  [[nodiscard]] static bool possible() { return wire::kHasShortIcrc; }

  /// `flow` has to be ready, and to stay as it is while this lives.
  ShortPackets(const stack::Host& host, stack::Flow& flow) : below_(host.encapsulation(flow)) {
    if (flow.computed == 0) [[unlikely]] {
      const std::size_t length = flow.header_length - std::size_t{flow.l3_offset};
      flow.computed = wire::icrc_begin({flow.header.data() + flow.l3_offset, length});
    }
    icrc_begin_ = flow.computed;
  }

  /// Puts the flow's headers into an empty mbuf, for a packet with so many bytes from the BTH to
  /// the padding. Returns where the BTH begins.
  [[nodiscard, gnu::always_inline]] std::uint8_t* begin(rte_mbuf* packet,
                                                        std::uint32_t transport_length) const {
    below_.put(packet, transport_length + static_cast<std::uint32_t>(wire::Icrc::kSize));
    return rte_pktmbuf_mtod_offset(packet, std::uint8_t*, below_.header_length());
  }

  /// All from the BTH to the padding is there: adds the ICRC.
  [[gnu::always_inline]] void end(rte_mbuf* packet, std::uint8_t* transport,
                                  std::uint32_t transport_length) const {
    const std::uint32_t icrc =
        wire::short_icrc_behind(icrc_begin_, below_.is_ipv6(), {transport, transport_length});
    wire::store_icrc(icrc, std::span<std::uint8_t, wire::Icrc::kSize>(transport + transport_length,
                                                                      wire::Icrc::kSize));
    packet->pkt_len =
        below_.header_length() + transport_length + static_cast<std::uint32_t>(wire::Icrc::kSize);
    packet->data_len = static_cast<std::uint16_t>(packet->pkt_len);
  }

 private:
  stack::Encapsulation below_;
  std::uint32_t icrc_begin_;
};

}  // namespace rockhopper::roce
