// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// FLUSH and ATOMIC WRITE (IBTA vol. 1, annex A19): requests that are answered by a READ response
// without payload, and so are kept as READs of no bytes.
#include <atomic>
#include <cstring>

#include "roce/engine.h"
#include "roce/persistence.h"
#include "roce/rc/responder.h"

namespace rockhopper::roce::rc {

using wire::NakCode;

void Responder::execute_atomic_write(const RxPacket& packet) {
  const wire::Reth& reth = packet.headers.reth;
  if ((qp_.attributes_.qp_access_flags & kAccessRemoteWrite) == 0 || reth.va % 8 != 0 ||
      reth.length != sizeof(std::uint64_t) || packet.payload.length != sizeof(std::uint64_t)) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  const MemoryAccess target =
      qp_.remote_access(MemoryKey{reth.rkey}, reth.va, sizeof(std::uint64_t), kAccessRemoteWrite);
  if (target.status != MemoryStatus::ok) {
    refuse(NakCode::remote_access_error, packet);
    return;
  }
  if (reinterpret_cast<std::uintptr_t>(target.data) % 8 != 0 || !resources_.has_place()) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  std::uint64_t value = 0;
  copy_from_mbuf(packet.payload, reinterpret_cast<std::byte*>(&value));
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(target.data)).store(value);
  note_write(target.data, sizeof value);
  qp_.engine_.counters_.rx_atomic_write_requests.add();
  confirm_placement(reth);
}

void Responder::execute_flush(const RxPacket& packet) {
  const wire::Reth& reth = packet.headers.reth;
  const wire::Feth& feth = packet.headers.feth;
  constexpr unsigned kKnownTypes = wire::Feth::kGlobalVisibility | wire::Feth::kPersistence;
  const bool global = (feth.placement_type & wire::Feth::kGlobalVisibility) != 0;
  const bool persistent = (feth.placement_type & wire::Feth::kPersistence) != 0;
  const std::uint32_t needed = (global ? std::uint32_t{kAccessFlushGlobal} : 0u) |
                               (persistent ? std::uint32_t{kAccessFlushPersistent} : 0u);
  if (feth.placement_type == 0 || (feth.placement_type & ~kKnownTypes) != 0 ||
      feth.selectivity_level > wire::Feth::kMemoryRegion ||
      (qp_.attributes_.qp_access_flags & needed) != needed || reth.length > kMaxMessageBytes ||
      !resources_.has_place()) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  std::uint64_t length = reth.length;
  MemoryAccess target{MemoryStatus::ok, nullptr};
  if (feth.selectivity_level == wire::Feth::kMemoryRegion) {
    target = qp_.remote_region(MemoryKey{reth.rkey}, needed, length);
  } else if (length > 0) {
    target = qp_.remote_access(MemoryKey{reth.rkey}, reth.va, length, needed);
  }
  if (target.status != MemoryStatus::ok) {
    refuse(NakCode::remote_access_error, packet);
    return;
  }
  // What earlier requests wrote is seen by whoever sees what comes after this.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Persistence* persistence = qp_.engine_.config_.persistence;
  if (persistent && length > 0 &&
      (persistence == nullptr || !persistence->persist(target.data, length))) {
    refuse(NakCode::remote_operational_error, packet);
    return;
  }
  qp_.engine_.counters_.rx_flush_requests.add();
  confirm_placement(reth);
}

void Responder::confirm_placement(const wire::Reth& reth) {
  const Resource resource{.first_psn = expected_psn_,
                          .psn_count = 1,
                          .msn = (msn_ + 1) & wire::kMask24,
                          .length = 0,
                          .rkey = reth.rkey,
                          .va = reth.va};
  static_cast<void>(take_resource(resource));
  msn_ = resource.msn;
  expected_psn_ = expected_psn_ + 1;
}

/// Executed already: only the answer goes again.
void Responder::repeat_placement(const RxPacket& packet) {
  const wire::Reth& reth = packet.headers.reth;
  Resource* found = resources_.find(packet.headers.bth.psn);
  if (found != nullptr && found->kind == Kind::lock) {
    repeat_lock(packet);
    return;
  }
  if (found == nullptr || found->kind != Kind::read || found->length != 0 ||
      found->rkey != reth.rkey || found->va != reth.va) {
    drop(DropReason::duplicate_request, packet);
    return;
  }
  owe(*found, 0);
}

}  // namespace rockhopper::roce::rc
