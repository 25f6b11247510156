// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/counters.h"
#include "roce/rc/requester.h"
#include "roce/rx_packet.h"
#include "roce/transport_context.h"
#include "roce/wire/aeth.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce::rc {

/// A packet that comes back: an acknowledgement, a NAK, or a response. Checks whether it may be
/// believed, and does what it says. Lives for one packet.
class Requester::Answer {
 public:
  static void take(Requester& requester, const RxPacket& packet, std::uint64_t now_ns);

 private:
  Answer(Requester& requester, const RxPacket& packet, std::uint64_t now_ns)
      : requester_(requester), qp_(requester.qp_), packet_(packet), now_ns_(now_ns) {}

  void dispatch();
  [[gnu::always_inline]] void on_acknowledge();
  void on_nak();
  void on_rnr_nak();
  void on_selective_acknowledge();
  [[gnu::always_inline]] void on_read_response();
  [[gnu::always_inline]] void on_atomic_acknowledge();
  void on_lock_response();
  void on_sign_of_life();

  [[nodiscard]] wire::Psn psn() const { return packet_.headers.bth.psn; }
  /// Counts the PSNs from the oldest unacknowledged one to this packet's.
  [[nodiscard]] std::uint32_t ahead() const { return requester_.window_.ahead(psn()); }
  [[nodiscard]] const wire::Aeth& aeth() const { return packet_.headers.aeth; }

  [[nodiscard]] SendWqe* await_response();
  [[nodiscard]] bool hold();
  void note_received(wire::Psn psn);
  void take_credits();
  void begin_scope();
  void refuse();
  void drop(DropReason reason);

  Requester& requester_;
  TransportContext qp_;
  const RxPacket& packet_;
  std::uint64_t now_ns_;
};

}  // namespace rockhopper::roce::rc
