// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/ud/responder.h"

#include <array>
#include <cstring>

#include <rte_ip.h>

#include "roce/address_vector.h"

namespace rockhopper::roce::ud {
namespace {

using Grh = std::array<std::byte, kGrhBytes>;

Grh make_grh(const RxPacket& packet) {
  static_assert(sizeof(rte_ipv6_hdr) == kGrhBytes);
  Grh grh{};
  const std::uint32_t length = packet.is_ipv6() ? sizeof(rte_ipv6_hdr) : sizeof(rte_ipv4_hdr);
  copy_from_mbuf({packet.payload.packet, packet.l3_offset, length},
                 grh.data() + (grh.size() - length));
  return grh;
}

}  // namespace

void Responder::on_request(const RxPacket& packet) {
  const EngineContext engine = qp_.engine();
  if (const auto reason = check(packet)) {
    engine.count_drop(*reason, packet.payload.packet);
    return;
  }
  (void)qp_.take_receive();  // check() has seen it
  if (deliver(packet) != MemoryStatus::ok) {
    engine.count_drop(DropReason::bad_receive, packet.payload.packet);
    qp_.fail_receive(WcStatus::loc_prot_err);
    qp_.enter_error();
    return;
  }
  qp_.finish_receive(packet, WcOpcode::recv, kGrhBytes + packet.payload.length);
}

std::optional<DropReason> Responder::check(const RxPacket& packet) const {
  if (packet.headers.deth.qkey != qp_.attributes().qkey) return DropReason::bad_qkey;
  if (!packet.length_fits(qp_.engine().max_path_mtu())) return DropReason::bad_length;
  const RecvWqe* next = qp_.next_receive();
  if (next == nullptr) return DropReason::no_receive;
  // The receive request waits for a datagram that fits.
  if (kGrhBytes + packet.payload.length > next->length) return DropReason::short_receive;
  return std::nullopt;
}

MemoryStatus Responder::deliver(const RxPacket& packet) {
  RecvQueue& queue = qp_.recv_queue();
  const auto list = queue.sges(queue.head()).first(queue.front().num_sge);
  const Grh grh = make_grh(packet);
  const std::byte* from = grh.data();
  const MemoryStatus status =
      for_each_piece(qp_.engine().memory(), qp_.receive_pd(), list, 0, kGrhBytes, kAccessLocalWrite,
                     [&from](std::byte* data, std::uint32_t length) {
                       std::memcpy(data, from, length);
                       from += length;
                       return true;
                     });
  if (status != MemoryStatus::ok) return status;
  return qp_.scatter_to_receive(kGrhBytes, packet.payload);
}

}  // namespace rockhopper::roce::ud
