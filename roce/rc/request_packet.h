// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>

#include <rte_mbuf.h>

#include "roce/packet_builder.h"
#include "roce/rc/requester.h"
#include "roce/segmentation.h"
#include "roce/transport_context.h"
#include "roce/wire/opcode.h"
#include "roce/wire/packet.h"

namespace rockhopper::roce::rc {

/// What one packet of a request looks like.
class Requester::RequestPacket {
 public:
  /// The packet `index` of the request `sequence` of the send queue, which has PSNs; `psn` is the
  /// packet's.
  RequestPacket(const TransportContext& qp, std::uint64_t sequence, SendWqe& request,
                std::uint32_t index, wire::Psn psn)
      : qp_(qp), sequence_(sequence), request_(request), index_(index), psn_(psn) {}

  /// The request ends with this packet.
  [[nodiscard]] bool is_last() const {
    return request_.has_response() || index_ + 1 == request_.psn_count;
  }
  /// Returns null if there is no mbuf, or if the request cannot read its memory: then it has a
  /// failure.
  [[nodiscard, gnu::always_inline]] rte_mbuf* build(bool ask_for_acknowledgement);

 private:
  /// These headers are carried by requests that are no SEND, WRITE, READ, or atomic of plain RC.
  static constexpr wire::HeaderSet kRareHeaders =
      wire::Header::xrceth | wire::Header::feth | wire::Header::xaeth | wire::Header::lketh;

  void add_rare_headers(const wire::OpcodeInfo& info, wire::Headers& headers) const;
  [[nodiscard]] wire::Xaeth masked_atomic_header() const;

  TransportContext qp_;
  std::uint64_t sequence_;
  SendWqe& request_;
  std::uint32_t index_;
  wire::Psn psn_;
};

inline rte_mbuf* Requester::RequestPacket::build(bool ask_for_acknowledgement) {
  const std::uint32_t mtu = bytes(qp_.attributes().path_mtu);
  const std::uint64_t offset = std::uint64_t{index_} * mtu;

  wire::Headers headers;
  const wire::Opcode opcode =
      qp_.service_opcode(opcode_of(request_.opcode, index_, request_.psn_count));
  const wire::OpcodeInfo& info = wire::info(opcode);
  headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  headers.bth.mig_req = true;  // as RNICs send it; a path is always in the migrated state
  headers.bth.destination = qp_.attributes().dest_qp_num;
  headers.bth.psn = psn_;
  headers.bth.solicited =
      is_last() && takes_receive(request_.opcode) && (request_.flags & kSendSolicited) != 0;
  headers.bth.ack_request = ask_for_acknowledgement;
  if (info.has(wire::Header::reth)) {
    // A READ that has been answered in part is asked for from where it stopped.
    const auto done = static_cast<std::uint32_t>(offset);
    const SendWqe::RemoteMemory& remote = request_.remote();
    headers.reth = {.va = remote.addr + done,
                    .rkey = static_cast<std::uint32_t>(remote.rkey),
                    .length = request_.length - done};
  }
  if (info.has(wire::Header::atomic_eth)) {
    const SendWqe::Atomic& atomic = request_.atomic();
    headers.atomic_eth = {.va = atomic.remote.addr,
                          .rkey = static_cast<std::uint32_t>(atomic.remote.rkey),
                          .swap_add = atomic.swap_add,
                          .compare = atomic.compare};
  }
  if (info.has(kRareHeaders)) [[unlikely]] {
    RequestPacket(*this).add_rare_headers(info, headers);  // this one stays in registers
  }
  if (info.has_immediate) {
    headers.imm_dt.data = request_.imm_data();
  } else if (info.has_invalidate) {
    headers.ieth.rkey = static_cast<std::uint32_t>(request_.send().invalidate_rkey);
  }

  const auto length =
      info.has_payload
          ? static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, request_.length - offset))
          : 0;
  PacketBuilder builder = qp_.start_packet(headers, length);
  if (!builder.ok()) return nullptr;
  if (qp_.append_payload(builder, sequence_, offset, length) != MemoryStatus::ok) {
    request_.failure = WcStatus::loc_prot_err;
    return nullptr;
  }
  return builder.ok() ? builder.finish() : nullptr;
}

}  // namespace rockhopper::roce::rc
