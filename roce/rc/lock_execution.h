// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/lock/claim.h"
#include "roce/rc/responder.h"
#include "roce/rc/target_scope.h"
#include "roce/rx_packet.h"
#include "roce/transport_context.h"
#include "roce/wire/aeth.h"
#include "roce/wire/lkaeth.h"

namespace rockhopper::roce::rc {

/// What becomes of lock requests, and of other requests because of them: checks them, has the
/// TargetScope decide, and puts its answers where those of READs and atomics are (LK-22). Lives for
/// one call.
class Responder::LockExecution {
 public:
  explicit LockExecution(Responder& responder) : responder_(responder), qp_(responder.qp_) {}

  /// The next request is one for a lock.
  void execute(const RxPacket& packet);
  /// The next request belongs to a scope that has failed: it is answered, not executed.
  void flush(const RxPacket& packet);
  /// The packet is the next one behind an acquire that waits.
  void park(const RxPacket& packet);
  /// The packet is the acquire that waits, or one that was parked behind it, once more.
  void on_parked_again(const RxPacket& packet);
  /// The acquire at the expected PSN is decided: it is answered, and what was parked behind it is
  /// executed or flushed.
  void decide(wire::LockCause cause);
  /// The timer of the scope has expired.
  void on_timer(std::uint64_t now_ns);

 private:
  void acquire(const RxPacket& packet);
  void release(const RxPacket& packet);
  void cancel(const RxPacket& packet);
  [[nodiscard]] std::optional<wire::NakCode> collect_claims(const RxPacket& packet);
  [[nodiscard]] std::optional<wire::NakCode> add_claim(lock::Claim claim, std::uint32_t rkey,
                                                       std::uint64_t va);
  void look_when_gathered();
  void resume();
  void put(const TargetScope::Answer& answer, std::uint32_t psn_count = 1);
  void schedule_sign();

  [[nodiscard]] TargetScope& scope() { return *responder_.scope_; }
  [[nodiscard]] std::uint32_t mtu() const;

  Responder& responder_;
  TransportContext qp_;
};

}  // namespace rockhopper::roce::rc
