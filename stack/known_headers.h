// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <rte_mbuf.h>

#include "stack/byte_order.h"
#include "stack/checksum_offload.h"
#include "stack/udp_client.h"

namespace rockhopper::stack {

/// Headers of datagrams that passed all checks of a host, for each of some stations the last. Most
/// that follow differ only where nothing is checked (ports, class, hops, identification) or in
/// lengths and the IPv4 checksum, which are checked here: then one comparison does for all the
/// rest. Says nothing about any others. One thread.
class KnownHeaders {
 public:
  /// A datagram and its client; without a client there is neither.
  struct Match {
    UdpClient* client;
    const UdpDatagram* datagram;  ///< of KnownHeaders, until it is asked again
  };

  /// Returns nothing for a packet that is to be checked in full. Does not take the packet.
  [[nodiscard]] Match match(rte_mbuf* packet);

  /// The datagram has passed, its UDP checksum being 0, and is `client`'s. Returns
  /// UdpDatagram::known of it and of all that match.
  std::uint64_t remember(const UdpDatagram& datagram, UdpClient* client);

  /// For a change of what the host checks against.
  void forget() { entries_ = {}; }

 private:
  static constexpr std::size_t kStations = 16;
  static constexpr std::size_t kLengthMin = 14 + 20 + 8;  ///< Ethernet, IPv4, UDP
  static constexpr std::size_t kLengthMax = kDatagramHeadersMax;
  static constexpr std::size_t kBlockBytes = 16;
  static constexpr std::size_t kBlocksMax = (kLengthMax + kBlockBytes - 1) / kBlockBytes;

  using Bytes [[gnu::vector_size(kBlockBytes)]] = std::uint64_t;
  struct Block {
    Bytes value;  ///< where `mask` is 1, else 0
    Bytes mask;
  };
  /// Where the two versions of IP have what differs from packet to packet.
  struct Layout {
    std::uint8_t length_at;    ///< from the IP header on
    std::uint8_t length_more;  ///< what that length leaves out
    std::uint8_t class_shift;  ///< right, of the header's first 16 bits
    std::uint8_t hop_limit_at;
  };
  struct Entry {
    UdpClient* client = nullptr;
    std::uint16_t length = 0;       ///< of all headers; 0: empty
    std::uint16_t l3_length = 0;    ///< of IP
    Layout layout{};                ///< of its IP
    std::uint64_t address_sum = 0;  ///< IPv4: that of the addresses, by words of 32 bits
    std::array<Block, kBlocksMax> blocks{};
    UdpDatagram datagram{};
  };

  [[nodiscard]] static Bytes load(const std::uint8_t* bytes) {
    Bytes block;
    std::memcpy(&block, bytes, sizeof block);
    return block;
  }
  [[nodiscard]] static std::uint32_t load_word(const std::uint8_t* bytes) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }
  /// By the last byte of the source MAC.
  [[nodiscard]] static std::size_t station_of(const std::uint8_t* frame) {
    return frame[11] % kStations;
  }
  [[nodiscard]] static bool ipv4_checksum_right(const std::uint8_t* l3, std::uint64_t address_sum);

  std::uint64_t remembered_ = 0;
  std::array<Entry, kStations> entries_{};
};

/// The checksum of an IPv4 header without options is right: the sum of its 16-bit words is 0 in the
/// arithmetic of ones' complement, in which words of 32 bits have the same sum.
inline bool KnownHeaders::ipv4_checksum_right(const std::uint8_t* l3, std::uint64_t address_sum) {
  const std::uint64_t sum = address_sum + load_word(l3) + load_word(l3 + 4) + load_word(l3 + 8);
  return sum % 0xffff == 0;
}

[[gnu::always_inline]] inline KnownHeaders::Match KnownHeaders::match(rte_mbuf* packet) {
  constexpr Match kNone{nullptr, nullptr};
  const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  if (packet->data_len < kLengthMin) return kNone;
  Entry& entry = entries_[station_of(frame)];
  const std::size_t length = entry.length;
  if (length == 0 || packet->data_len < length ||
      (packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) {
    return kNone;
  }
  // The last block ends with the headers, and overlaps the one before.
  const Block* block = entry.blocks.data();
  const auto difference_at = [&block, frame](std::size_t at) {
    const Bytes difference = (load(frame + at) & block->mask) ^ block->value;
    ++block;
    return difference;
  };
  static_assert(kLengthMin > 2 * kBlockBytes);
  Bytes difference = difference_at(length - kBlockBytes);
  difference |= difference_at(0);
  difference |= difference_at(kBlockBytes);
  for (std::size_t at = 2 * kBlockBytes; at + kBlockBytes < length; at += kBlockBytes) {
    difference |= difference_at(at);
  }
  if ((difference[0] | difference[1]) != 0) return kNone;

  // IP ends with the datagram in nearly all packets; others are checked in full.
  UdpDatagram& datagram = entry.datagram;
  const std::uint8_t* l3 = frame + datagram.l3_offset;
  const std::uint8_t* udp = frame + length - kUdpHeaderBytes;
  const std::uint32_t udp_length = load_be16(udp + 4);
  const std::uint32_t ip_length =
      load_be16(l3 + entry.layout.length_at) + std::uint32_t{entry.layout.length_more};
  if (udp_length < kUdpHeaderBytes || ip_length != entry.l3_length + udp_length ||
      ip_length > packet->pkt_len - datagram.l3_offset) {
    return kNone;
  }
  if (entry.layout.class_shift == 0 && !ip_checksum_verified(packet) &&
      !ipv4_checksum_right(l3, entry.address_sum)) {
    return kNone;
  }
  datagram.packet = packet;
  datagram.source_port = load_be16(udp);
  datagram.payload_length = static_cast<std::uint16_t>(udp_length - kUdpHeaderBytes);
  datagram.traffic_class = static_cast<std::uint8_t>(load_be16(l3) >> entry.layout.class_shift);
  datagram.hop_limit = l3[entry.layout.hop_limit_at];
  return {entry.client, &datagram};
}

}  // namespace rockhopper::stack
