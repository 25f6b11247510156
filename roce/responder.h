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

/// The half of a queue pair that checks and executes what the peer asks for: one implementation for
/// each service. Called by the engine and the queue pair, on the engine's thread. Unreliable
/// services answer nothing: for them, what is said of replies stays as it is here.
class Responder {
 public:
  Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;
  virtual ~Responder() = default;

  /// Forgets everything; the next request is to have `first_psn`.
  virtual void reset(wire::Psn first_psn) = 0;
  /// The queue pair takes up nothing more; what is owed may still leave.
  virtual void stop() {}
  /// The attribute that sets how many READs and atomics can be owed has changed.
  virtual void set_resources(std::uint8_t /*max_dest_rd_atomic*/) {}

  /// Any request packet.
  virtual void on_request(const RxPacket& packet) = 0;
  /// A request packet. Returns false, with nothing changed, if it is to come to on_request().
  [[nodiscard]] virtual bool take_plain(const PlainPacket& /*packet*/) { return false; }
  /// A receive request was posted.
  virtual void on_receive_posted() {}

  [[nodiscard]] virtual bool has_replies() const { return false; }
  /// READ responses or atomic acknowledgements are owed.
  [[nodiscard]] virtual bool has_responses() const { return false; }
  /// All that is owed is an ACK before which no requests have been sent yet.
  [[nodiscard]] virtual bool may_wait() const { return false; }
  /// Requests have been sent before that ACK: it is left to the next turn. Requires may_wait().
  virtual void defer() {}
  /// Writes up to `count` packets of what is owed.
  [[nodiscard]] virtual TransmitResult transmit(rte_mbuf** /*packets*/, std::uint16_t /*count*/) {
    return {};
  }
  /// The peer's address cannot be resolved: what is owed is dropped.
  virtual void on_unreachable() {}

  /// Returns the PSN of the next request; 0 where requests have no order.
  [[nodiscard]] virtual wire::Psn expected_psn() const = 0;
  /// Returns the PSN for QpSummary::received. Any thread.
  [[nodiscard]] virtual wire::Psn told_psn() const { return {}; }
};

}  // namespace rockhopper::roce
