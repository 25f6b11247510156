// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

namespace rockhopper::stack {

/// A protocol without I/O: takes packets and a time, hands packets back. Reads no clock, never
/// sleeps, starts no thread. The same object runs on an lcore and in the simulator.
/// Times are nanoseconds of one monotonic clock.
class Protocol {
 public:
  Protocol() = default;
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;
  virtual ~Protocol() = default;

  /// Takes ownership of `count` received packets.
  virtual void receive(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) = 0;

  /// Runs due timers, then writes up to `count` packets to send, in order, into `packets`; their
  /// ownership passes to the caller. Fewer than `count` means there is nothing more to send now.
  [[nodiscard]] virtual std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                               std::uint64_t now_ns) = 0;

  /// When transmit() has work again without anything being received or posted; kNever if it has
  /// not.
  [[nodiscard]] virtual std::uint64_t next_deadline_ns() const = 0;
};

}  // namespace rockhopper::stack
