// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "roce/rc/responder.h"
#include "roce/rx_packet.h"
#include "roce/transport_context.h"
#include "roce/wire/aeth.h"

namespace rockhopper::roce::rc {

/// A FLUSH or ATOMIC WRITE (IBTA vol. 1, annex A19), which is the next request: checks and executes
/// it. It is answered by a READ response without payload, and so is kept as a READ of no bytes.
/// Lives for one packet.
class Responder::Placement {
 public:
  static void take(Responder& responder, const RxPacket& packet);

 private:
  Placement(Responder& responder, const RxPacket& packet)
      : responder_(responder), qp_(responder.qp_), packet_(packet) {}

  void atomic_write();
  void flush();
  void confirm();

  void refuse(wire::NakCode code) { responder_.refuse(code, packet_); }

  Responder& responder_;
  TransportContext qp_;
  const RxPacket& packet_;
};

}  // namespace rockhopper::roce::rc
