// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Requests that have been executed before (IBTA vol. 1, 9.7.4.1.2 and 9.7.5.1.2 to 9.7.5.1.5).
#include "roce/engine.h"
#include "roce/rc/responder.h"

namespace rockhopper::roce::rc {

using wire::Operation;

void Responder::on_duplicate(const RxPacket& packet) {
  qp_.engine_.counters_.duplicate_request.add();
  const wire::Headers& headers = packet.headers;
  switch (headers.opcode->operation) {
    case Operation::rdma_read_request:
      repeat_read(packet);
      break;
    case Operation::compare_swap:
    case Operation::fetch_add:
    case Operation::extended_atomic:
      repeat_atomic(packet);
      break;
    case Operation::flush:
    case Operation::atomic_write:
      repeat_placement(packet);
      break;
    case Operation::lock_request:
      repeat_lock(packet);
      break;
    case Operation::reserved:
      drop(DropReason::duplicate_request, packet);
      break;
    default:
      // SENDs and WRITEs are not executed again; the ACK that was lost is.
      drop(DropReason::duplicate_request, packet);
      acknowledge(Reply::repeated_ack);
      break;
  }
}

/// A READ may be repeated from a packet in the middle; its range must be the end of the original's.
void Responder::repeat_read(const RxPacket& packet) {
  const wire::Headers& headers = packet.headers;
  Resource* found = resources_.find(headers.bth.psn);
  if (found == nullptr || found->kind == Kind::atomic) {
    drop(DropReason::duplicate_request, packet);
    return;
  }
  if (found->kind == Kind::lock) {  // it was flushed with its scope
    repeat_lock(packet);
    return;
  }
  const std::uint32_t index =
      static_cast<std::uint32_t>(wire::distance(found->first_psn, headers.bth.psn));
  const std::uint64_t offset = std::uint64_t{index} * bytes(qp_.attributes_.path_mtu);
  if (headers.reth.rkey != found->rkey || headers.reth.va != found->va + offset ||
      headers.reth.length != found->length - offset) {
    drop(DropReason::duplicate_request, packet);
    return;
  }
  owe(*found, index);
}

void Responder::repeat_atomic(const RxPacket& packet) {
  Resource* found = resources_.find(packet.headers.bth.psn);
  if (found != nullptr && found->kind == Kind::lock) {
    repeat_lock(packet);
    return;
  }
  if (found == nullptr || found->kind != Kind::atomic ||
      found->va != atomic_target(packet.headers).va) {
    drop(DropReason::duplicate_request, packet);
    return;
  }
  owe(*found, 0);
}

/// The answer from its packet `index` on goes again.
void Responder::owe(Resource& resource, std::uint32_t index) {
  resources_.repeat(resource, index);
  qp_.engine_.schedule(qp_);
}

}  // namespace rockhopper::roce::rc
