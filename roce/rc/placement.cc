// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/placement.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "roce/payload.h"
#include "roce/persistence.h"

namespace rockhopper::roce::rc {

using wire::NakCode;

void Responder::Placement::take(Responder& responder, const RxPacket& packet) {
  Placement placement(responder, packet);
  if (packet.headers.opcode->operation == wire::Operation::flush) {
    placement.flush();
  } else {
    placement.atomic_write();
  }
}

void Responder::Placement::atomic_write() {
  const wire::Reth& reth = packet_.headers.reth;
  if ((qp_.attributes().qp_access_flags & kAccessRemoteWrite) == 0 ||
      reth.length != sizeof(std::uint64_t) || packet_.payload.length != sizeof(std::uint64_t)) {
    refuse(NakCode::invalid_request);
    return;
  }
  std::byte* word = nullptr;
  if (const auto refusal =
          responder_.find_word(MemoryKey{reth.rkey}, reth.va, kAccessRemoteWrite, word)) {
    refuse(*refusal);
    return;
  }
  if (!responder_.resources_.has_place()) {
    refuse(NakCode::invalid_request);
    return;
  }
  std::uint64_t value = 0;
  copy_from_mbuf(packet_.payload, reinterpret_cast<std::byte*>(&value));
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word)).store(value);
  responder_.note_write(word, sizeof value);
  qp_.engine().counters().rx_atomic_write_requests.add();
  confirm();
}

void Responder::Placement::flush() {
  const wire::Reth& reth = packet_.headers.reth;
  const wire::Feth& feth = packet_.headers.feth;
  constexpr unsigned kKnownTypes = wire::Feth::kGlobalVisibility | wire::Feth::kPersistence;
  const bool global = (feth.placement_type & wire::Feth::kGlobalVisibility) != 0;
  const bool persistent = (feth.placement_type & wire::Feth::kPersistence) != 0;
  const std::uint32_t needed = (global ? std::uint32_t{kAccessFlushGlobal} : 0u) |
                               (persistent ? std::uint32_t{kAccessFlushPersistent} : 0u);
  if (feth.placement_type == 0 || (feth.placement_type & ~kKnownTypes) != 0 ||
      feth.selectivity_level > wire::Feth::kMemoryRegion ||
      (qp_.attributes().qp_access_flags & needed) != needed || reth.length > kMaxMessageBytes ||
      !responder_.resources_.has_place()) {
    refuse(NakCode::invalid_request);
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
    refuse(NakCode::remote_access_error);
    return;
  }
  // What earlier requests wrote is seen by whoever sees what comes after this.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Persistence* persistence = qp_.engine().config().persistence;
  if (persistent && length > 0 &&
      (persistence == nullptr || !persistence->persist(target.data, length))) {
    refuse(NakCode::remote_operational_error);
    return;
  }
  qp_.engine().counters().rx_flush_requests.add();
  confirm();
}

void Responder::Placement::confirm() {
  const wire::Reth& reth = packet_.headers.reth;
  responder_.finish_with({.first_psn = responder_.expected_psn_,
                          .psn_count = 1,
                          .msn = responder_.next_msn(),
                          .length = 0,
                          .rkey = reth.rkey,
                          .va = reth.va});
}

}  // namespace rockhopper::roce::rc
