// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>

#include "roce/rc/responder.h"
#include "roce/rc/target_scope.h"
#include "roce/recovery/held_packets.h"
#include "roce/transport_context.h"
#include "roce/wire/aeth.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/opcode.h"
#include "roce/wire/packet.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce::rc {

/// What one packet of an answer looks like. Each function returns null if there is no mbuf.
class Responder::ReplyPacket {
 public:
  explicit ReplyPacket(const Responder& responder) : responder_(responder), qp_(responder.qp_) {}

  /// Returns the syndrome of an ACK: how many receive requests there are.
  [[nodiscard]] std::uint8_t ack_syndrome() const;

  /// An ACK, NAK or RNR NAK.
  [[nodiscard]] rte_mbuf* acknowledge(wire::Psn psn, wire::Aeth aeth) const;
  /// The ACK in place of which the peer is told what is `held` behind a missing packet.
  [[nodiscard]] rte_mbuf* selective_acknowledge(wire::Aeth aeth, const HeldPackets& held) const;
  /// The packet to send next of a READ, whose bytes are `data`.
  [[nodiscard]] rte_mbuf* read_response(const Resource& owing, const std::byte* data,
                                        std::uint32_t length) const;
  [[nodiscard]] rte_mbuf* atomic_acknowledge(const Resource& owing) const;
  [[nodiscard]] rte_mbuf* lock_response(const Resource& owing) const;
  /// The acquire with the expected PSN waits.
  [[nodiscard]] rte_mbuf* sign_of_life(const TargetScope::Answer& sign) const;

 private:
  [[nodiscard]] wire::Bth bth_of(wire::Opcode opcode, wire::Psn psn) const;
  [[nodiscard]] wire::Headers headers_of(wire::Opcode opcode, wire::Psn psn) const;
  [[nodiscard]] rte_mbuf* finish(wire::Headers& headers) const;
  [[nodiscard]] rte_mbuf* short_packet(wire::Opcode opcode, wire::Psn psn, const wire::Aeth& aeth,
                                       const std::byte* data, std::uint32_t length) const;

  const Responder& responder_;
  TransportContext qp_;
};

}  // namespace rockhopper::roce::rc
