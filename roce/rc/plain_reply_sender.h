// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <rte_mbuf.h>

#include "roce/plain_packet.h"
#include "roce/rc/reply_packet.h"
#include "roce/rc/responder.h"
#include "roce/short_packet.h"
#include "roce/transmit_result.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::rc {

/// Answers READs and atomics of one short packet, for the first time, as ReplySender would: what
/// all of a burst depends on is asked once. ReplySender goes on from where this one stops. Lives
/// for one call of Responder::transmit().
class Responder::PlainReplySender {
 public:
  explicit PlainReplySender(Responder& responder) : responder_(responder), qp_(responder.qp_) {}

  [[nodiscard, gnu::always_inline]] TransmitResult run(rte_mbuf** packets, std::uint16_t count) {
    if (!responder_.resources_.owes() || !qp_.sends_plain_bursts()) return {};
    return answer(packets, count);
  }

 private:
  [[nodiscard]] static bool is_plain(const Resource& owing) {
    return owing.psn_count == 1 && owing.sent == 0 && owing.kind != Kind::lock &&
           owing.length <= ShortPackets::kPayloadMax && !owing.snapshot.exists();
  }
  [[nodiscard]] TransmitResult answer(rte_mbuf** packets, std::uint16_t count);

  Responder& responder_;
  TransportContext qp_;
};

inline TransmitResult Responder::PlainReplySender::answer(rte_mbuf** packets, std::uint16_t count) {
  static constexpr std::byte kNothing{};
  TransmitResult result;
  ResponderResources& resources = responder_.resources_;
  const std::uint32_t most = std::min<std::uint32_t>(count, resources.owing_count());
  if (!is_plain(resources.owing()) || !stack::take_mbufs(qp_.packet_pool(), packets, most)) {
    return result;  // ReplySender says what is missing
  }
  ShortPackets made = qp_.short_packets();
  const ProtectionDomain pd = qp_.remote_pd();
  MemoryTable::SimpleUser memory(qp_.engine().memory(), pd, kAccessRemoteRead);
  const std::uint8_t syndrome = ReplyPacket(responder_).ack_syndrome();
  std::uint32_t sent = 0;
  for (; sent < most && resources.owes(); ++sent) {
    const Resource& owing = resources.owing();
    if (!is_plain(owing)) break;
    std::array<std::uint8_t, wire::AtomicAckEth::kSize> original;
    const std::byte* data = &kNothing;
    std::uint32_t length = owing.length;
    wire::Opcode opcode = wire::Opcode::rc_rdma_read_response_only;
    if (owing.kind == Kind::atomic) {
      wire::AtomicAckEth{.original = owing.original}.emit(original);
      data = reinterpret_cast<const std::byte*>(original.data());
      length = original.size();
      opcode = wire::Opcode::rc_atomic_acknowledge;
    } else if (length > 0) {
      if (owing.pd != pd) break;
      data = memory.access(MemoryKey{owing.rkey}, owing.va, length);
      if (data == nullptr) break;  // ReplySender finds out why
    }
    result.bytes += made.put_reply(packets[sent], opcode, owing.first_psn,
                                   {.syndrome = syndrome, .msn = owing.msn}, data, length);
    responder_.owed_.on_acknowledged(owing.first_psn);
    resources.on_sent_whole();
  }
  stack::return_mbufs(qp_.packet_pool(), packets + sent, most - sent);
  result.count = static_cast<std::uint16_t>(sent);
  return result;
}

}  // namespace rockhopper::roce::rc
