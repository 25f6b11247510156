// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "apps/node/personality/roce_frame.h"

namespace rockhopper {

struct FreeMbuf {
  void operator()(rte_mbuf* packet) const { rte_pktmbuf_free(packet); }
};
using OwnedMbuf = std::unique_ptr<rte_mbuf, FreeMbuf>;

/// The READs of one queue pair whose missing responses are asked for one part at a time (US patent
/// 10,430,374, claim 1): what comes behind a gap is kept, and only the gap is asked for again. The
/// engine sees all responses in order.
class ReadRepair {
 public:
  /// A READ request leaves. One that asks for the rest of another begins that anew.
  void on_request(OwnedMbuf packet, const RoceFrame& request);
  /// Returns true if the response belongs to a READ and is taken: then `ready` has what the engine
  /// is to see now, in order, and `missing` the request for a gap that has just been found, not
  /// sealed yet. `mtu` is the path MTU in bytes.
  [[nodiscard]] bool on_response(OwnedMbuf& packet, RoceFrame& frame, std::uint32_t mtu,
                                 rte_mempool* pool, std::vector<OwnedMbuf>& ready,
                                 OwnedMbuf& missing);

  [[nodiscard]] std::size_t mbufs_held() const;

 private:
  struct Read {
    OwnedMbuf request;
    wire::Psn first{};
    wire::Reth reth{};
    std::uint32_t next = 0;  ///< response that the engine is to see next
    bool asked = false;      ///< for the gap before the ones that are kept
    std::map<std::uint32_t, OwnedMbuf> kept{};
  };

  static void ask_for(Read& read, std::uint32_t mtu, rte_mempool* pool, OwnedMbuf& missing);

  std::deque<Read> reads_;  ///< in the order of their PSNs
};

}  // namespace rockhopper
