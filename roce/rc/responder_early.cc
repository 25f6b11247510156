// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Selective repeat (docs/loss-recovery.md): requests that have come before others are held, the
// peer is told of them, and they are executed in their turn.
#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "roce/rc/responder.h"

namespace rockhopper::roce::rc {

void Responder::stop() {
  if (HeldPackets* held = held_requests(); held != nullptr) {
    held->clear();
  }
  abort_scope();
}

HeldPackets* Responder::held_requests() const {
  return qp_.repeats_selectively() ? &qp_.selective_repeat_->requests() : nullptr;
}

/// False: the packet, `distance` ahead of the expected one, is not held.
bool Responder::hold(const RxPacket& packet, std::uint32_t distance) {
  HeldPackets* held = held_requests();
  // A reserved opcode is refused in its turn, which who holds it could not.
  if (held == nullptr || packet.headers.opcode->operation == wire::Operation::reserved) {
    return false;
  }
  EngineCounters& counters = qp_.engine_.counters_;
  switch (held->hold(packet, distance)) {
    case HeldPackets::Result::held:
      counters.out_of_seq_request.add();
      counters.held_requests.add();
      break;
    case HeldPackets::Result::duplicate:
      counters.duplicate_request.add();
      drop(DropReason::duplicate_request, packet);
      break;
    case HeldPackets::Result::no_room:
      counters.held_pkts_no_room.add();
      return false;
  }
  acknowledge(Reply::repeated_ack);
  return true;
}

/// What was held behind the packet that has just come, when `turn` was expected.
void Responder::execute_held(wire::Psn turn) {
  HeldPackets* held = held_requests();
  while (held != nullptr && !held->empty() && received_psn() != turn) {
    if (received_psn() != turn + 1) {
      held->discard_before(received_psn());  // a READ has taken more than one
    }
    turn = received_psn();
    if (!held->deliver(received_psn(), [this](const RxPacket& packet) { execute(packet); })) {
      return;
    }
  }
}

/// Takes the place of an ACK while something is held: the PSN is that of the missing packet.
rte_mbuf* Responder::build_selective_acknowledge(const HeldPackets& held) {
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::selective_acknowledge);
  headers.bth.mig_req = true;
  headers.bth.destination = qp_.attributes_.dest_qp_num;
  headers.bth.psn = received_psn();
  headers.aeth = {.syndrome = ack_syndrome(), .msn = msn_};
  headers.saeth = held.behind(received_psn());
  PacketBuilder builder = qp_.start_packet(headers, 0);
  return builder.ok() ? builder.finish() : nullptr;
}

}  // namespace rockhopper::roce::rc
