// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <rte_mbuf.h>

#include "roce/plain_packet.h"
#include "roce/wire/aeth.h"
#include "roce/wire/bytes.h"
#include "roce/wire/icrc.h"
#include "roce/wire/opcode.h"
#include "roce/wire/packet.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"
#include "roce/wire/short_icrc.h"
#include "stack/host.h"
#include "stack/mbuf_pool.h"
#include "stack/without_icrc.h"

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
[[gnu::always_inline]] inline void put_payload(std::uint8_t* to, const std::byte* from,
                                               std::uint32_t length) {
  // The padding is what is left of these zeros.
  std::memset(to + (length & ~3u), 0, sizeof(std::uint32_t));
  copy_short(to, from, length);
}

/// Makes packets of one queue pair that fit into one mbuf, beside PacketBuilder, which makes any:
/// what all of them have is looked up once, and the ICRC's part of the flow's headers computed
/// once. Packets in a row of one opcode and one length, as most are, begin with a copy of the same
/// bytes. Gives the same as PacketBuilder.
class ShortPackets {
 public:
  /// Bytes of payload that one of them has at most.
  static constexpr std::uint32_t kPayloadMax = 128;
  static_assert(kPayloadMax + wire::kHeadersMax >= 16 &&
                wire::Bth::kSize + wire::Reth::kSize + kPayloadMax <= wire::kShortIcrcMax);

  /// The processor has what they need.
  [[nodiscard]] static bool possible() { return wire::kHasShortIcrc; }

  /// `flow` has to be ready, and to stay as it is while this lives.
  ShortPackets(const stack::Host& host, stack::Flow& flow, std::uint16_t pkey,
               wire::Qpn destination)
      : below_(host.encapsulation(flow)), pkey_(pkey), destination_(destination.value) {
    if (flow.computed == 0) [[unlikely]] {
      const std::size_t length = flow.header_length - std::size_t{flow.l3_offset};
      flow.computed = wire::icrc_begin({flow.header.data() + flow.l3_offset, length});
    }
    icrc_begin_ = flow.computed;
    if (flow.omits_icrc) marks_ = stack::kWithoutIcrc;
  }

  /// Packets have so many bytes from the BTH to the padding from now on, and `first` as the first
  /// word of the BTH but for the P_Key.
  [[gnu::always_inline]] void prepare(std::uint32_t transport_length, std::uint32_t first) {
    transport_length_ = transport_length;
    first_ = first;
    below_.write(begin_.data(), transport_length + static_cast<std::uint32_t>(wire::Icrc::kSize));
    std::uint8_t* transport = begin_.data() + below_.header_length();
    wire::store_be32(transport, first | pkey_);
    wire::store_be32(transport + 4, destination_);
    icrc_ = marks_ != 0 ? [](std::uint32_t, const std::uint8_t*, std::size_t) { return 0u; }
                        : wire::short_icrc_behind(below_.is_ipv6(), transport_length);
  }

  /// Begins a packet in an mbuf from stack::take_mbufs(): the flow's headers and the BTH, of which
  /// `third` is the last word. Returns what is behind the BTH.
  [[nodiscard, gnu::always_inline]] std::uint8_t* begin(rte_mbuf* packet,
                                                        std::uint32_t third) const {
    stack::begin_packet(packet);
    packet->ol_flags |= marks_;
    assert(packet->buf_len - RTE_PKTMBUF_HEADROOM >= static_cast<int>(begin_.size()));
    below_.request_checksum(packet);
    std::uint8_t* transport = transport_of(packet);
    std::memcpy(transport - below_.header_length(), begin_.data(), begin_.size());
    wire::store_be32(transport + 8, third);
    return transport + wire::Bth::kSize;
  }

  /// All from the BTH to the padding is there: adds the ICRC, or zeros.
  [[gnu::always_inline]] void end(rte_mbuf* packet) const {
    std::uint8_t* transport = transport_of(packet);
    wire::store_icrc(icrc_(icrc_begin_, transport, transport_length_),
                     std::span<std::uint8_t, wire::Icrc::kSize>(transport + transport_length_,
                                                                wire::Icrc::kSize));
    const std::uint32_t length =
        below_.header_length() + transport_length_ + static_cast<std::uint32_t>(wire::Icrc::kSize);
    packet->pkt_len = length;
    packet->data_len = static_cast<std::uint16_t>(length);
  }

  /// Makes a packet of a BTH, an AETH and `length` bytes that follow, more headers or a payload, in
  /// an mbuf from stack::take_mbufs(). Returns the bytes from the BTH to the ICRC.
  [[gnu::always_inline]] std::uint32_t put_reply(rte_mbuf* packet, wire::Opcode opcode,
                                                 wire::Psn psn, const wire::Aeth& aeth,
                                                 const std::byte* data, std::uint32_t length) {
    constexpr std::uint32_t kHeaders = wire::Bth::kSize + wire::Aeth::kSize;
    const std::uint32_t pad = wire::pad_count(length);
    const std::uint32_t transport_length = kHeaders + length + pad;
    const std::uint32_t first = plain_first_word(opcode) | pad << 20;
    if (transport_length != transport_length_ || first != first_) prepare(transport_length, first);
    std::uint8_t* next = begin(packet, psn.value);
    aeth.emit(std::span<std::uint8_t, wire::Aeth::kSize>(next, wire::Aeth::kSize));
    if (length > 0) put_payload(next + wire::Aeth::kSize, data, length);
    end(packet);
    return transport_length + static_cast<std::uint32_t>(wire::Icrc::kSize);
  }

 private:
  [[nodiscard]] std::uint8_t* transport_of(rte_mbuf* packet) const {
    return static_cast<std::uint8_t*>(packet->buf_addr) + RTE_PKTMBUF_HEADROOM +
           below_.header_length();
  }

  /// Bytes of the BTH that packets in a row have in common.
  static constexpr std::size_t kCommon = 8;

  stack::Encapsulation below_;
  std::uint32_t pkey_;
  std::uint32_t destination_;
  std::uint32_t icrc_begin_;
  std::uint64_t marks_ = 0;  ///< flags of each packet
  // What is prepared, of packets with this length and this word; 0: nothing.
  std::uint32_t transport_length_ = 0;
  std::uint32_t first_ = 0;
  wire::ShortIcrcBehind* icrc_ = nullptr;
  /// Copied as a whole, so in whole steps: what follows in the packet covers what is too much.
  std::array<std::uint8_t, (stack::Flow::kHeaderMax + kCommon + 15) / 16 * 16> begin_{};
};

}  // namespace rockhopper::roce
