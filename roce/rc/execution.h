// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/rc/responder.h"
#include "roce/rx_packet.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::rc {

/// The request packet with the expected PSN: checks whether it may be executed, and does what a
/// SEND, WRITE, READ or atomic asks for. Lives for one packet.
class Responder::Execution {
 public:
  static void take(Responder& responder, const RxPacket& packet);

 private:
  Execution(Responder& responder, const RxPacket& packet)
      : responder_(responder), qp_(responder.qp_), packet_(packet) {}

  // One function, in which nothing of the object is in memory.
  [[gnu::always_inline]] void run();
  [[nodiscard]] bool is_well_formed() const;
  [[gnu::always_inline]] void dispatch();
  [[gnu::always_inline]] void send();
  [[gnu::always_inline]] void write();
  [[gnu::always_inline]] void read();
  [[gnu::always_inline]] void atomic();

  void refuse(wire::NakCode code) { responder_.refuse(code, packet_); }

  Responder& responder_;
  TransportContext qp_;
  const RxPacket& packet_;
};

}  // namespace rockhopper::roce::rc
