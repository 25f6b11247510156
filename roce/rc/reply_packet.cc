// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/reply_packet.h"

#include <array>

#include "roce/packet_builder.h"
#include "roce/plain_packet.h"
#include "roce/short_packet.h"

namespace rockhopper::roce::rc {

using wire::Opcode;

/// Credits count from the MSN on, so a SEND in progress still counts its receive request. Nobody
/// can promise receive requests that others may take.
std::uint8_t Responder::ReplyPacket::ack_syndrome() const {
  if (!qp_.tells_credits()) return wire::Aeth::ack(wire::kCreditCodeUnlimited, 0).syndrome;
  const auto receives = static_cast<std::uint32_t>(qp_.recv_queue().size());
  return wire::Aeth::ack(wire::credit_code(receives), 0).syndrome;
}

inline wire::Bth Responder::ReplyPacket::bth_of(Opcode opcode, wire::Psn psn) const {
  return {.opcode = static_cast<std::uint8_t>(qp_.service_opcode(opcode)),
          .mig_req = true,
          .destination = qp_.attributes().dest_qp_num,
          .psn = psn};
}

inline wire::Headers Responder::ReplyPacket::headers_of(Opcode opcode, wire::Psn psn) const {
  wire::Headers headers;
  headers.bth = bth_of(opcode, psn);
  return headers;
}

/// Makes a packet without payload.
inline rte_mbuf* Responder::ReplyPacket::finish(wire::Headers& headers) const {
  PacketBuilder builder = qp_.start_packet(headers, 0);
  return builder.ok() ? builder.finish() : nullptr;
}

/// Makes a packet of a BTH, an AETH and `length` bytes that follow, more headers or a payload.
inline rte_mbuf* Responder::ReplyPacket::short_packet(Opcode opcode, wire::Psn psn,
                                                      const wire::Aeth& aeth, const std::byte* data,
                                                      std::uint32_t length) const {
  rte_mbuf* packet = nullptr;
  if (!stack::take_mbufs(qp_.packet_pool(), &packet, 1)) return nullptr;
  (void)qp_.short_packets().put_reply(packet, opcode, psn, aeth, data, length);
  return packet;
}

rte_mbuf* Responder::ReplyPacket::acknowledge(wire::Psn psn, wire::Aeth aeth) const {
  if (qp_.sends_plain_bursts()) [[likely]] {
    return short_packet(Opcode::rc_acknowledge, psn, aeth, nullptr, 0);
  }
  if (qp_.has_plain_packets()) {
    wire::Bth bth = bth_of(Opcode::rc_acknowledge, psn);
    return qp_.build_acknowledge(bth, aeth);
  }
  wire::Headers headers = headers_of(Opcode::rc_acknowledge, psn);
  headers.aeth = aeth;
  return finish(headers);
}

rte_mbuf* Responder::ReplyPacket::selective_acknowledge(wire::Aeth aeth,
                                                        const HeldPackets& held) const {
  const wire::Psn missing = responder_.received_psn();
  wire::Headers headers = headers_of(Opcode::selective_acknowledge, missing);
  headers.aeth = aeth;
  headers.saeth = held.behind(missing);
  return finish(headers);
}

rte_mbuf* Responder::ReplyPacket::read_response(const Resource& owing, const std::byte* data,
                                                std::uint32_t length) const {
  const std::uint32_t index = owing.next;
  const bool last = index + 1 == owing.end;
  Opcode opcode = last ? Opcode::rc_rdma_read_response_last : Opcode::rc_rdma_read_response_middle;
  if (index == owing.start) {
    opcode = last ? Opcode::rc_rdma_read_response_only : Opcode::rc_rdma_read_response_first;
  }
  if (opcode == Opcode::rc_rdma_read_response_only && length <= ShortPackets::kPayloadMax &&
      qp_.sends_plain_bursts()) {
    return short_packet(opcode, owing.first_psn + index,
                        {.syndrome = ack_syndrome(), .msn = owing.msn}, data, length);
  }
  wire::Headers headers = headers_of(opcode, owing.first_psn + index);
  headers.aeth = {.syndrome = ack_syndrome(), .msn = owing.msn};
  PacketBuilder builder = qp_.start_packet(headers, length);
  if (!builder.ok() || (length > 0 && !builder.append(data, length))) return nullptr;
  return builder.finish();
}

rte_mbuf* Responder::ReplyPacket::atomic_acknowledge(const Resource& owing) const {
  if (qp_.sends_plain_bursts()) {
    std::array<std::uint8_t, wire::AtomicAckEth::kSize> original;
    wire::AtomicAckEth{.original = owing.original}.emit(original);
    return short_packet(Opcode::rc_atomic_acknowledge, owing.first_psn,
                        {.syndrome = ack_syndrome(), .msn = owing.msn},
                        reinterpret_cast<const std::byte*>(original.data()), original.size());
  }
  wire::Headers headers = headers_of(Opcode::rc_atomic_acknowledge, owing.first_psn);
  headers.aeth = {.syndrome = ack_syndrome(), .msn = owing.msn};
  headers.atomic_ack_eth.original = owing.original;
  return finish(headers);
}

rte_mbuf* Responder::ReplyPacket::lock_response(const Resource& owing) const {
  wire::Headers headers = headers_of(Opcode::lock_response, owing.first_psn);
  headers.lkaeth = {.status = owing.lock_status,
                    .cause = owing.lock_cause,
                    .scope_id = owing.scope_id,
                    .msn = owing.msn,
                    .reserved8 = 0,
                    .previous_word = owing.original,
                    .value = owing.va};
  return finish(headers);
}

rte_mbuf* Responder::ReplyPacket::sign_of_life(const TargetScope::Answer& sign) const {
  wire::Headers headers = headers_of(Opcode::lock_response, responder_.expected_psn_);
  headers.lkaeth = {.status = sign.status,
                    .cause = sign.cause,
                    .scope_id = sign.scope_id,
                    .msn = responder_.msn_,
                    .reserved8 = 0,
                    .previous_word = sign.previous,
                    .value = sign.value};
  return finish(headers);
}

}  // namespace rockhopper::roce::rc
