// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "stack/host.h"

namespace rockhopper::roce {

/// What a call to transmit did.
struct TransmitResult {
  std::uint16_t count = 0;
  bool out_of_mbufs = false;  ///< more is to be sent, but the pool is empty
  bool unresolved = false;    ///< more is to be sent, but the next hop's MAC is not known yet
  bool paced = false;         ///< no more may be sent now; a timer will say when
  std::uint32_t bytes = 0;    ///< UDP payload of the packets

  /// Another result behind this one.
  void add(const TransmitResult& more) {
    count = static_cast<std::uint16_t>(count + more.count);
    out_of_mbufs = more.out_of_mbufs;
    unresolved |= more.unresolved;
    bytes += more.bytes;
  }
  /// One more packet of `flow`, behind those in `packets`.
  void add(rte_mbuf** packets, rte_mbuf* packet, const stack::Flow& flow) {
    packets[count++] = packet;
    bytes += packet->pkt_len - flow.header_length;
  }
};

}  // namespace rockhopper::roce
