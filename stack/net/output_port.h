// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>

#include "stack/counter.h"
#include "stack/link.h"
#include "stack/net/ecn_marking.h"
#include "stack/net/ring.h"
#include "stack/net/traffic_class.h"
#include "stack/random.h"

namespace rockhopper::stack::net {

/// What a frame takes on the wire beside its bytes: preamble, check sequence, gap (IEEE 802.3).
inline constexpr std::uint32_t kWireOverheadBytes = 24;
/// The shortest frame, without its check sequence.
inline constexpr std::uint32_t kShortestFrameBytes = 60;

struct OutputPortConfig {
  std::uint64_t rate_bits_per_s = 0;    ///< of wire bits; 0: as fast as packets are taken
  std::size_t queue_packets = 1024;     ///< that wait at most
  std::uint64_t queue_bytes = 1 << 30;  ///< that wait at most
  EcnMarking ecn{};                     ///< on each priority's queue
  /// How much time the port may make up for when it is not asked in time: a polling loop's pause.
  std::uint64_t catch_up_ns = 0;
  std::uint64_t seed = 1;  ///< of the marking
};

struct OutputPortCounters {
  Counter ecn_marked;      ///< packets that got the mark here or came with it and would have
  Counter ecn_not_marked;  ///< to be marked, but not ECN-capable or not writable
  Counter pauses;          ///< times that a priority was paused
};

/// The sending side of a port without I/O: a queue for each priority, served strictly, the highest
/// first; a rate; ECN marking as packets come; pauses of priorities. Full queues take no more
/// (tail drop is the caller's). Single-threaded; counters may be read by any thread.
class OutputPort {
 public:
  explicit OutputPort(const OutputPortConfig& config);
  OutputPort(const OutputPort&) = delete;
  OutputPort& operator=(const OutputPort&) = delete;
  ~OutputPort();

  [[nodiscard]] bool has_room(std::uint32_t packet_bytes) const {
    return packets_ < config_.queue_packets && bytes_ + packet_bytes <= config_.queue_bytes;
  }
  /// Takes ownership, and marks the packet if the queue of its priority is long. Requires
  /// has_room().
  void push(rte_mbuf* packet, std::uint8_t priority);
  /// A frame for the neighbour's MAC: goes before all others, is never marked nor paused, and has
  /// always room.
  void push_control(rte_mbuf* packet);

  /// Gives up the packet that leaves now, if there is one and the rate allows; else nullptr.
  [[nodiscard]] rte_mbuf* take(std::uint64_t now_ns) { return next(now_ns).packet; }
  /// For links that may refuse: the packets that take() would give now, up to `count`. They stay
  /// the port's.
  [[nodiscard]] std::uint16_t front(rte_mbuf** packets, std::uint16_t count,
                                    std::uint64_t now_ns) const;
  /// The first `count` packets of front() at the same time have another owner now. Returns the sum
  /// of their bytes.
  std::uint64_t sent(std::uint16_t count, std::uint64_t now_ns);

  /// When take() has the next packet: maybe a time that has passed; kNever if it has none.
  [[nodiscard]] std::uint64_t next_departure_ns() const;
  /// When the packets given up so far have left.
  [[nodiscard]] std::uint64_t free_ns() const { return free_ns_; }
  /// Lets a priority wait until then, or go on if that has passed.
  void pause(std::uint8_t priority, std::uint64_t until_ns, std::uint64_t now_ns);

  /// Frees what waits and returns the number of packets.
  std::size_t clear();

  [[nodiscard]] std::size_t queued_packets() const { return packets_; }
  [[nodiscard]] std::uint64_t queued_bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t queued_bytes(std::uint8_t priority) const {
    return queues_[priority].bytes;
  }
  /// The most bytes that ever waited.
  [[nodiscard]] std::uint64_t longest_bytes() const { return longest_bytes_; }
  [[nodiscard]] const OutputPortConfig& config() const { return config_; }
  [[nodiscard]] const OutputPortCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    rte_mbuf* packet;
    std::uint32_t bytes;  ///< as a packet that a link has taken must not be read
  };
  struct Queue {
    Ring<Waiting> packets;
    std::uint64_t bytes = 0;
    std::uint64_t paused_until_ns = 0;
  };
  static constexpr std::size_t kControl = kPriorities;  ///< the queue before all others

  void append(std::size_t queue, rte_mbuf* packet);
  /// take(), with a null packet when there is none.
  [[nodiscard]] Waiting next(std::uint64_t now_ns);
  void mark_if_long(const Queue& queue, rte_mbuf* packet);
  /// When what has been sent by then and one more packet of `bytes` will have left.
  [[nodiscard]] std::uint64_t busy_until(std::uint64_t start_ns, std::uint32_t bytes,
                                         std::uint64_t& carry) const;
  [[nodiscard]] std::uint64_t start_of_next(std::uint64_t free_ns, std::uint64_t now_ns) const;

  OutputPortConfig config_;
  Random random_;
  std::array<Queue, kPriorities + 1> queues_;
  std::uint32_t occupied_ = 0;  ///< bit n: queue n is not empty
  std::size_t packets_ = 0;     ///< in all, without control frames
  std::uint64_t bytes_ = 0;
  std::uint64_t longest_bytes_ = 0;
  std::uint64_t free_ns_ = 0;
  std::uint64_t carry_ = 0;  ///< of free_ns_: so many rate'ths of a nanosecond besides
  OutputPortCounters counters_;
};

}  // namespace rockhopper::stack::net
