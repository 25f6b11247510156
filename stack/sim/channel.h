// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/fault_config.h"
#include "stack/fault_injector.h"
#include "stack/net/output_port.h"
#include "stack/net/pfc_frame.h"
#include "stack/net/ring.h"
#include "stack/random.h"
#include "stack/sim/event_queue.h"

namespace rockhopper::stack {
class FaultLane;
}  // namespace rockhopper::stack

namespace rockhopper::stack::sim {

struct ChannelConfig {
  net::OutputPortConfig output;  ///< of the sending end; its rate is the channel's
  std::uint64_t delay_ns = 1000;
  std::size_t in_flight_packets = SIZE_MAX;  ///< on the way or waiting at most
  std::optional<FaultRates> faults{};
  std::uint64_t fault_seed = 1;
  std::uint64_t fault_direction = 0;  ///< tells the two directions of a link apart
  rte_mempool* fault_pool = nullptr;  ///< for duplicates and damaged copies; not owned
  /// Received packets are copies in mbufs of this pool, as over a real wire; the sender's are
  /// freed. Not owned. nullptr: the mbufs themselves are handed over.
  rte_mempool* copy_pool = nullptr;
  /// Not 0, and with `copy_pool`: packets arrive cut into chains at random places, from this seed.
  std::uint64_t segment_seed = 0;
};

struct ChannelCounters {
  Counter packets;  ///< that began to leave
  Counter bytes;    ///< of these, without what the wire adds
  Counter no_mbuf;  ///< arrivals put off for lack of an mbuf
};

/// What is at an end of a channel.
class ChannelEnd {
 public:
  ChannelEnd() = default;
  ChannelEnd(const ChannelEnd&) = delete;
  ChannelEnd& operator=(const ChannelEnd&) = delete;
  virtual ~ChannelEnd() = default;
  /// At the receiving end: receive() has something.
  virtual void on_arrival(std::uint64_t now_ns) = 0;
  /// At the sending end: the packet begins to leave. Must not send on the same channel.
  virtual void on_departure(const rte_mbuf* packet, std::uint64_t now_ns) = 0;
};

/// One direction of a link: an output port, then a wire of constant delay, then perhaps faults.
/// Store and forward: a packet arrives with its last bit.
class Channel final : private Event {
 public:
  /// `events` is not owned.
  Channel(EventQueue& events, const ChannelConfig& config);
  ~Channel() override;

  /// Not owned. Without a receiver, arrivals are looked for by polling.
  void set_sender(ChannelEnd* sender) { sender_ = sender; }
  void set_receiver(ChannelEnd* receiver);

  [[nodiscard]] bool has_room(std::uint32_t packet_bytes) const {
    return in_flight_.size() + output_.queued_packets() < config_.in_flight_packets &&
           output_.has_room(packet_bytes);
  }
  /// Takes ownership. Requires has_room().
  void send(rte_mbuf* packet, std::uint8_t priority, std::uint64_t now_ns);
  /// A frame for the neighbour's MAC, which goes before all others.
  void send_control(rte_mbuf* packet, std::uint64_t now_ns);
  /// The receiving end asks for pauses, or for their end. Needs a rate.
  void obey(const net::PfcFrame& frame, std::uint64_t now_ns);

  /// Packets that have arrived, up to `count`; they are the caller's.
  [[nodiscard]] std::uint16_t receive(rte_mbuf** packets, std::uint16_t count,
                                      std::uint64_t now_ns);
  /// Returns when the next packet on the way arrives; kNever if there is none.
  [[nodiscard]] std::uint64_t next_arrival_ns() const;

  [[nodiscard]] const net::OutputPort& output() const { return output_; }
  [[nodiscard]] const ChannelConfig& config() const { return config_; }
  [[nodiscard]] const ChannelCounters& counters() const { return counters_; }
  /// Returns null without faults.
  [[nodiscard]] const FaultCounters* fault_counters() const;

 private:
  struct InFlight {
    rte_mbuf* packet;
    std::uint64_t arrival_ns;
  };

  void run(std::uint64_t now_ns) override;
  void advance(std::uint64_t now_ns);
  void schedule(std::uint64_t not_before_ns);
  [[nodiscard]] rte_mbuf* arrived(rte_mbuf* packet);
  [[nodiscard]] rte_mbuf* take_copy(const rte_mbuf* packet);
  [[nodiscard]] std::uint16_t receive_with_faults(rte_mbuf** packets, std::uint16_t count,
                                                  std::uint64_t now_ns);

  EventQueue& events_;
  ChannelConfig config_;
  net::OutputPort output_;
  net::Ring<InFlight> in_flight_;
  std::unique_ptr<FaultLane> faults_;
  bool faults_begun_ = false;
  ChannelEnd* sender_ = nullptr;
  ChannelEnd* receiver_ = nullptr;
  Random random_;
  ChannelCounters counters_;
};

}  // namespace rockhopper::stack::sim
