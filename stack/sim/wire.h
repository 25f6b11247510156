// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/link.h"
#include "stack/random.h"

namespace rockhopper::stack::sim {

struct WireConfig {
  std::uint64_t delay_ns = 1000;       ///< one way
  std::uint32_t queue_packets = 4096;  ///< in flight in one direction; then tx_burst takes no more
  std::uint16_t mtu = 9000;
  /// Received packets are copies in mbufs of this pool, as over a real wire; the sender's are
  /// freed. Not owned. nullptr: the mbufs themselves are handed over.
  rte_mempool* pool = nullptr;
  /// Not 0, and with `pool`: packets arrive cut into chains at random places, from this seed.
  std::uint64_t segment_seed = 0;
};

struct WireCounters {
  Counter sent;
  Counter received;
  Counter backpressure;  ///< packets not taken
  Counter no_mbuf;       ///< arrivals put off for lack of an mbuf
};

class Wire;

/// One end of a Wire.
class WireEnd final : public Link {
 public:
  ~WireEnd() override;
  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  /// When the next packet arrives here.
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  [[nodiscard]] rte_ether_addr mac() const override { return mac_; }
  [[nodiscard]] std::uint16_t mtu() const override { return config_.mtu; }
  [[nodiscard]] const WireCounters& counters() const { return counters_; }

 private:
  friend class Wire;
  struct InFlight {
    rte_mbuf* packet;
    std::uint64_t arrival_ns;
  };

  WireEnd(const WireConfig& config, const rte_ether_addr& mac);
  [[nodiscard]] rte_mbuf* take_copy(const rte_mbuf* packet);

  WireConfig config_;
  rte_ether_addr mac_;
  WireEnd* peer_ = nullptr;
  std::vector<InFlight> incoming_;  ///< a ring of queue_packets
  std::uint32_t head_ = 0;          ///< index of the oldest
  std::uint32_t size_ = 0;
  Random random_;
  WireCounters counters_;
};

/// Two links joined back to back, in memory: first in, first out, each packet after a fixed delay
/// of virtual time. Single-threaded.
class Wire {
 public:
  explicit Wire(const WireConfig& config = {});
  /// `index` is 0 or 1.
  [[nodiscard]] WireEnd& end(unsigned index) { return *ends_.at(index); }

 private:
  std::array<std::unique_ptr<WireEnd>, 2> ends_;
};

}  // namespace rockhopper::stack::sim
