// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <rte_mbuf.h>

#include "stack/udp_client.h"

namespace rockhopper::stack {

/// Headers of datagrams that passed all checks of a host, for each of some stations the last. Most
/// that follow differ only where nothing is checked (ports, class, hops, identification) or in
/// lengths and the IPv4 checksum, which are checked here: then one comparison does for all the
/// rest. Says nothing about any others. One thread.
class KnownHeaders {
 public:
  /// The client of the packet's datagram, which is filled in; nullptr: to be checked in full.
  /// Does not take the packet.
  [[nodiscard]] UdpClient* match(rte_mbuf* packet, UdpDatagram& datagram) const;

  /// The datagram has passed, its UDP checksum being 0, and is `client`'s.
  void remember(const UdpDatagram& datagram, UdpClient* client);

  /// For a change of what the host checks against.
  void forget() { entries_ = {}; }

 private:
  static constexpr std::size_t kStations = 16;
  static constexpr std::size_t kLengthMax = kDatagramHeadersMax;
  static constexpr std::size_t kBlockBytes = 16;
  static constexpr std::size_t kBlocksMax = (kLengthMax + kBlockBytes - 1) / kBlockBytes;

  using Bytes [[gnu::vector_size(kBlockBytes)]] = std::uint64_t;
  struct Block {
    Bytes value;  ///< where `mask` is 1, else 0
    Bytes mask;
  };
  struct Entry {
    UdpClient* client = nullptr;
    std::uint16_t length = 0;  ///< of all headers; 0: empty
    std::array<Block, kBlocksMax> blocks{};
    UdpDatagram datagram{};
  };

  [[nodiscard]] static Bytes load(const std::uint8_t* bytes) {
    Bytes block;
    std::memcpy(&block, bytes, sizeof block);
    return block;
  }
  /// By the last byte of the source MAC.
  [[nodiscard]] static std::size_t station_of(const std::uint8_t* frame) {
    return frame[11] % kStations;
  }

  std::array<Entry, kStations> entries_{};
};

}  // namespace rockhopper::stack
