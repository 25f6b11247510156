// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <rte_ether.h>

#include "dc/message.h"
#include "roce/address_vector.h"
#include "roce/rx_packet.h"
#include "roce/transmit_result.h"
#include "stack/token_bucket.h"
#include "stack/udp_datagram.h"

namespace rockhopper::dc {

struct EndpointContext;

/// The CNAKs that are to leave. They belong to no session and keep no state of the peer that is
/// refused, not even of its neighbour: they go back to the station that the refused packet came
/// from. What finds no place or comes too often, from one source or from all, is as good as lost on
/// the way (DC-32).
class CnakQueue {
 public:
  /// The limits are those of the endpoint's configuration.
  explicit CnakQueue(EndpointContext& endpoint);

  /// To `initiator`, where the packet has come from.
  void push(const Cnak& cnak, wire::Qpn initiator, const stack::UdpDatagram& datagram,
            const roce::RxPacket& packet, std::uint64_t now_ns);
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] roce::TransmitResult transmit(rte_mbuf** packets, std::uint16_t count);

 private:
  static constexpr std::size_t kCapacity = 256;
  /// Sources share a bucket where there are more.
  static constexpr std::size_t kBuckets = 256;

  struct Entry {
    Cnak cnak;
    wire::Qpn initiator;
    wire::Qpn source;
    roce::AddressVector av;
    rte_ether_addr station;
    std::uint16_t pkey;
  };
  [[nodiscard]] rte_mbuf* build(const Entry& entry, roce::TransmitResult& result) const;

  EndpointContext& endpoint_;
  std::uint64_t seed_;
  std::vector<stack::TokenBucket> of_sources_;
  stack::TokenBucket of_all_;
  std::array<Entry, kCapacity> entries_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace rockhopper::dc
