// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/counter.h"
#include "stack/link.h"
#include "stack/priority_map.h"
#include "stack/sim/channel.h"

namespace rockhopper::stack::sim {

/// Is told what happens at a NIC. Calls come from within the simulation's events.
class NicListener {
 public:
  NicListener() = default;
  NicListener(const NicListener&) = delete;
  NicListener& operator=(const NicListener&) = delete;
  virtual ~NicListener() = default;
  /// rx_burst() has packets.
  virtual void on_packets(std::uint64_t now_ns) = 0;
  /// tx_burst() has refused some before and may take them now. Must not call it at once.
  virtual void on_room(std::uint64_t now_ns) = 0;
};

struct NicCounters {
  Counter sent;
  Counter received;
  Counter backpressure;  ///< packets not taken
  Counter pfc_received;  ///< pause frames
};

/// A host's end of a link: sends into one channel, receives from another. Obeys pause frames, which
/// the host does not get to see, as they concern the MAC.
class Nic final : public Link, private ChannelEnd {
 public:
  /// `priorities`: in which queue a packet waits, and which pauses concern it.
  Nic(const rte_ether_addr& mac, std::uint16_t mtu, const PriorityMap& priorities)
      : mac_(mac), mtu_(mtu), priorities_(priorities) {}

  /// Not owned. Without a listener the NIC is to be polled, and next_deadline_ns() says when.
  void set_listener(NicListener* listener);
  /// Neither is owned.
  void attach(Channel& outgoing, Channel& incoming);

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return listener_ != nullptr ? kNever : incoming_->next_arrival_ns();
  }
  [[nodiscard]] rte_ether_addr mac() const override { return mac_; }
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }

  [[nodiscard]] Channel& outgoing() { return *outgoing_; }
  [[nodiscard]] Channel& incoming() { return *incoming_; }
  [[nodiscard]] const NicCounters& counters() const { return counters_; }

 private:
  void on_arrival(std::uint64_t now_ns) override { listener_->on_packets(now_ns); }
  void on_departure(const rte_mbuf* packet, std::uint64_t now_ns) override;

  rte_ether_addr mac_;
  std::uint16_t mtu_;
  PriorityMap priorities_;
  NicListener* listener_ = nullptr;
  Channel* outgoing_ = nullptr;
  Channel* incoming_ = nullptr;
  bool refused_ = false;
  NicCounters counters_;
};

}  // namespace rockhopper::stack::sim
