// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/counters.h"
#include "roce/rc/responder.h"
#include "roce/rx_packet.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::rc {

/// A request packet that has been executed before (IBTA vol. 1, 9.7.4.1.2 and 9.7.5.1.2 to
/// 9.7.5.1.5): its answer goes again, if it is still known, and nothing else happens. Lives for one
/// packet.
class Responder::Duplicate {
 public:
  static void take(Responder& responder, const RxPacket& packet);

 private:
  Duplicate(Responder& responder, const RxPacket& packet)
      : responder_(responder), qp_(responder.qp_), packet_(packet) {}

  void dispatch();
  void repeat_response();
  void repeat_read(Resource& read);
  void repeat_atomic(Resource& atomic);
  void repeat_placement(Resource& placement);
  void owe(Resource& resource) { owe(resource, 0, resource.psn_count); }
  void owe(Resource& resource, std::uint32_t index, std::uint32_t count);
  void drop() { responder_.drop(DropReason::duplicate_request, packet_); }

  Responder& responder_;
  TransportContext qp_;
  const RxPacket& packet_;
};

}  // namespace rockhopper::roce::rc
