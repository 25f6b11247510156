// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/duplicate.h"

#include "roce/atomic_operation.h"

namespace rockhopper::roce::rc {

using wire::Operation;

void Responder::Duplicate::take(Responder& responder, const RxPacket& packet) {
  responder.qp_.engine().counters().duplicate_request.add();
  Duplicate(responder, packet).dispatch();
}

inline void Responder::Duplicate::dispatch() {
  switch (packet_.headers.opcode->operation) {
    case Operation::rdma_read_request:
    case Operation::compare_swap:
    case Operation::fetch_add:
    case Operation::extended_atomic:
    case Operation::flush:
    case Operation::atomic_write:
    case Operation::lock_request:
      repeat_response();
      break;
    case Operation::reserved:
      drop();
      break;
    default:
      // SENDs and WRITEs are not executed again; the ACK that was lost is.
      drop();
      responder_.acknowledge(Reply::repeated_ack);
      break;
  }
}

void Responder::Duplicate::repeat_response() {
  Resource* const found = responder_.resources_.find(packet_.headers.bth.psn);
  if (found == nullptr) {
    drop();
    return;
  }
  if (found->kind == Kind::lock) {
    owe(*found);  // that of a lock request, or of one that was flushed with its scope
    return;
  }
  switch (packet_.headers.opcode->operation) {
    case Operation::rdma_read_request:
      repeat_read(*found);
      break;
    case Operation::flush:
    case Operation::atomic_write:
      repeat_placement(*found);
      break;
    case Operation::lock_request:
      drop();
      break;
    default:
      repeat_atomic(*found);
      break;
  }
}

/// A READ may be repeated from a packet in the middle, to the end of the original's range (IBTA
/// vol. 1, 9.7.5.1.2), or whole packets of it: RNICs that retransmit selectively ask for what they
/// miss.
void Responder::Duplicate::repeat_read(Resource& read) {
  const wire::Headers& headers = packet_.headers;
  const auto index = static_cast<std::uint32_t>(wire::distance(read.first_psn, headers.bth.psn));
  const std::uint32_t mtu = bytes(qp_.attributes().path_mtu);
  const std::uint64_t offset = std::uint64_t{index} * mtu;
  const std::uint32_t length = headers.reth.length;
  if (read.kind != Kind::read || headers.reth.rkey != read.rkey ||
      headers.reth.va != read.va + offset) {
    drop();
    return;
  }
  const std::uint64_t rest = read.length - offset;
  if (length == rest) {
    owe(read, index, read.psn_count - index);
  } else if (length > 0 && length < rest && length % mtu == 0) {
    owe(read, index, length / mtu);
  } else {
    drop();
  }
}

void Responder::Duplicate::repeat_atomic(Resource& atomic) {
  if (atomic.kind != Kind::atomic || atomic.va != AtomicOperation(packet_.headers).va()) {
    drop();
    return;
  }
  owe(atomic);
}

/// It was kept as a READ of no bytes.
void Responder::Duplicate::repeat_placement(Resource& placement) {
  const wire::Reth& reth = packet_.headers.reth;
  if (placement.kind != Kind::read || placement.length != 0 || placement.rkey != reth.rkey ||
      placement.va != reth.va) {
    drop();
    return;
  }
  owe(placement);
}

/// `count` packets of the answer from `index` on go again.
void Responder::Duplicate::owe(Resource& resource, std::uint32_t index, std::uint32_t count) {
  responder_.resources_.repeat(resource, index, count);
  qp_.schedule();
}

}  // namespace rockhopper::roce::rc
