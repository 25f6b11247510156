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

  void run();
  [[nodiscard]] bool is_well_formed() const;
  void dispatch();
  void send();
  void write();
  void read();
  void atomic();

  void refuse(wire::NakCode code) { responder_.refuse(code, packet_); }

  Responder& responder_;
  TransportContext qp_;
  const RxPacket& packet_;
};

}  // namespace rockhopper::roce::rc
