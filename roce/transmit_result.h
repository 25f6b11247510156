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
  std::uint32_t bytes = 0;    ///< UDP payload of the packets

  /// One more packet of `flow`, behind those in `packets`.
  void add(rte_mbuf** packets, rte_mbuf* packet, const stack::Flow& flow) {
    packets[count++] = packet;
    bytes += packet->pkt_len - flow.header_length;
  }
};

}  // namespace rockhopper::roce
