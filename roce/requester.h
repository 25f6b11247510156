// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "roce/plain_packet.h"
#include "roce/rx_packet.h"
#include "roce/transmit_result.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce {

/// The half of a queue pair that turns its send queue into packets and completions: one
/// implementation for each service. Called by the engine and the queue pair, on the engine's
/// thread.
class Requester {
 public:
  Requester() = default;
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;
  virtual ~Requester() = default;

  /// Forgets everything; the next request gets `first_psn`.
  virtual void reset(wire::Psn first_psn) = 0;
  /// The queue pair takes up nothing more: disarms timers, and starts behind what is queued now.
  virtual void stop() = 0;

  /// Writes up to `count` request packets, in order; fewer: nothing more can go now.
  [[nodiscard]] virtual TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                                std::uint64_t now_ns) = 0;
  /// The peer's address cannot be resolved.
  virtual void on_unreachable(std::uint64_t now_ns) = 0;
  /// An acknowledgement or a response. Services without them never get one.
  virtual void on_response(const RxPacket& /*packet*/, std::uint64_t /*now_ns*/) {}

  /// An acknowledgement. Returns false, with nothing changed, if it is to come to on_response().
  [[nodiscard]] virtual bool take_plain(const PlainPacket& /*packet*/, std::uint64_t /*now_ns*/) {
    return false;
  }
  /// The response to a request `ahead` of the oldest. Puts its data in place and returns true: the
  /// caller owes retire_answered() then, of all so far, before it calls anything else. Returns
  /// false, with nothing changed, if it is to come to on_response().
  [[nodiscard]] virtual bool take_plain_response(const PlainPacket& /*packet*/,
                                                 std::uint32_t /*ahead*/) {
    return false;
  }
  /// The `count` oldest requests have been answered.
  virtual void retire_answered(std::uint32_t /*count*/, std::uint64_t /*now_ns*/) {}

  /// Loads what is to be sent next: a hint.
  virtual void prefetch_requests() const = 0;

  [[nodiscard]] virtual wire::Psn next_psn() const = 0;
  /// Returns the PSN for QpSummary::sent. Any thread.
  [[nodiscard]] virtual wire::Psn told_psn() const { return {}; }
  /// No request that has been started is unfinished.
  [[nodiscard]] virtual bool drained() const = 0;
};

}  // namespace rockhopper::roce
