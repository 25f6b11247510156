// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/execution.h"

#include "roce/atomic_operation.h"
#include "roce/payload.h"
#include "roce/rc/lock_execution.h"
#include "roce/rc/placement.h"

namespace rockhopper::roce::rc {

using wire::NakCode;
using wire::Operation;

void Responder::Execution::take(Responder& responder, const RxPacket& packet) {
  Execution(responder, packet).run();
}

/// The packet's place in its message and its length are right (IBTA vol. 1, 9.7.4.1.5
/// and 9.7.4.1.6).
inline bool Responder::Execution::is_well_formed() const {
  return responder_.message_.admits(*packet_.headers.opcode) &&
         packet_.length_fits(bytes(qp_.attributes().path_mtu));
}

inline void Responder::Execution::run() {
  const wire::Headers& headers = packet_.headers;
  if (!is_well_formed()) {
    refuse(NakCode::invalid_request);
    return;
  }
  if (headers.opcode->has(wire::Header::xrceth) &&
      !qp_.select_srq(headers.xrceth.xrc_srq.value, headers.opcode->starts())) {
    refuse(NakCode::invalid_request);
    return;
  }
  if (responder_.scope_ != nullptr && responder_.scope_->state() != TargetScope::State::none)
      [[unlikely]] {
    const TargetScope& scope = *responder_.scope_;
    if (!scope.admits(headers, responder_.expected_psn_, bytes(qp_.attributes().path_mtu))) {
      refuse(NakCode::invalid_request);
      return;
    }
    if (scope.state() == TargetScope::State::failed) {
      LockExecution(responder_).flush(packet_);
      return;
    }
  }
  dispatch();
}

inline void Responder::Execution::dispatch() {
  switch (packet_.headers.opcode->operation) {
    case Operation::send:
      send();
      break;
    case Operation::rdma_write:
      write();
      break;
    case Operation::rdma_read_request:
      read();
      break;
    case Operation::compare_swap:
    case Operation::fetch_add:
    case Operation::extended_atomic:
      atomic();
      break;
    case Operation::atomic_write:
    case Operation::flush:
      Placement::take(responder_, packet_);
      break;
    case Operation::lock_request:
      LockExecution(responder_).execute(packet_);
      break;
    default:
      refuse(NakCode::invalid_request);
      break;
  }
}

inline void Responder::Execution::send() {
  const wire::OpcodeInfo& opcode = *packet_.headers.opcode;
  MessageProgress& message = responder_.message_;
  if (opcode.starts()) {
    if (!qp_.take_receive()) {
      responder_.refuse_for_now(packet_);
      return;
    }
    message.begin_send();
  }
  const std::uint64_t received = message.received();
  if (received + packet_.payload.length > qp_.recv_queue().front().length) {
    qp_.fail_receive(WcStatus::loc_len_err);
    refuse(NakCode::invalid_request);
    return;
  }
  if (qp_.scatter_to_receive(received, packet_.payload) != MemoryStatus::ok) {
    qp_.fail_receive(WcStatus::loc_prot_err);
    refuse(NakCode::remote_operational_error);
    return;
  }
  message.receive(packet_.payload.length);
  if (opcode.has_invalidate && !qp_.invalidate_for_peer(MemoryKey{packet_.headers.ieth.rkey})) {
    qp_.fail_receive(WcStatus::loc_prot_err);
    refuse(NakCode::remote_access_error);
    return;
  }
  if (opcode.ends()) {
    qp_.finish_receive(packet_, WcOpcode::recv, static_cast<std::uint32_t>(message.received()));
  }
  responder_.finish_packet(packet_);
}

inline void Responder::Execution::write() {
  const wire::OpcodeInfo& opcode = *packet_.headers.opcode;
  MessageProgress& message = responder_.message_;
  const bool starts = opcode.starts();
  const wire::Reth& reth = starts ? packet_.headers.reth : message.write();
  const std::uint64_t received = starts ? 0 : message.received();
  MemoryAccess target{MemoryStatus::ok, nullptr};
  if (starts) {
    if ((qp_.attributes().qp_access_flags & kAccessRemoteWrite) == 0 ||
        reth.length > kMaxMessageBytes) {
      refuse(NakCode::invalid_request);
      return;
    }
    // A message without bytes touches no memory: its key is not looked at (IBTA vol. 1, 9.7.4.1.4).
    if (reth.length > 0) {
      target = qp_.remote_access(MemoryKey{reth.rkey}, reth.va, reth.length, kAccessRemoteWrite);
    }
    if (target.status != MemoryStatus::ok) {
      refuse(NakCode::remote_access_error);
      return;
    }
  }
  const std::uint64_t end = received + packet_.payload.length;
  if (opcode.ends() ? end != reth.length : end >= reth.length) {
    refuse(NakCode::invalid_request);
    return;
  }
  if (opcode.has_immediate && qp_.next_receive() == nullptr) {
    responder_.refuse_for_now(packet_);
    return;
  }
  if (packet_.payload.length > 0) {
    // The first packet's bytes are at the beginning of what was looked up for all of the message.
    if (!starts) {
      target = qp_.remote_access(MemoryKey{reth.rkey}, reth.va + received, packet_.payload.length,
                                 kAccessRemoteWrite);
    }
    if (target.status != MemoryStatus::ok) {
      refuse(NakCode::remote_access_error);
      return;
    }
    copy_from_mbuf(packet_.payload, target.data);
    responder_.note_write(target.data, packet_.payload.length);
  }
  if (starts) message.begin_write(reth);
  message.receive(packet_.payload.length);
  if (opcode.ends()) {
    qp_.engine().counters().rx_write_requests.add();
    if (opcode.has_immediate) {
      (void)qp_.take_receive();  // seen above
      qp_.finish_receive(packet_, WcOpcode::recv_rdma_with_imm, reth.length);
    }
  }
  responder_.finish_packet(packet_);
}

inline void Responder::Execution::read() {
  const wire::Reth& reth = packet_.headers.reth;
  if ((qp_.attributes().qp_access_flags & kAccessRemoteRead) == 0 ||
      reth.length > kMaxMessageBytes) {
    refuse(NakCode::invalid_request);
    return;
  }
  MemoryAccess source{MemoryStatus::ok, nullptr};
  if (reth.length > 0) {
    source = qp_.remote_access(MemoryKey{reth.rkey}, reth.va, reth.length, kAccessRemoteRead);
  }
  if (source.status != MemoryStatus::ok) {
    refuse(NakCode::remote_access_error);
    return;
  }
  if (!responder_.resources_.has_place()) {
    refuse(NakCode::invalid_request);
    return;
  }
  Resource resource = responder_.resource_of(reth);
  if (responder_.scope_ != nullptr && responder_.scope_->keeps_reads() && reth.length > 0)
      [[unlikely]] {
    resource.snapshot = responder_.scope_->keep(source.data, reth.length);
    if (!resource.snapshot.exists()) {
      LockExecution(responder_).flush(packet_);  // it was too much: the scope has failed
      return;
    }
  }
  qp_.engine().counters().rx_read_requests.add();
  responder_.finish_with(resource);
}

inline void Responder::Execution::atomic() {
  const AtomicOperation operation(packet_.headers);
  if ((qp_.attributes().qp_access_flags & kAccessRemoteAtomic) == 0 || !operation.is_known()) {
    refuse(NakCode::invalid_request);
    return;
  }
  std::byte* word = nullptr;
  if (const auto refusal =
          responder_.find_word(operation.key(), operation.va(), kAccessRemoteAtomic, word)) {
    refuse(*refusal);
    return;
  }
  if (!responder_.resources_.has_place()) {
    refuse(NakCode::invalid_request);
    return;
  }
  responder_.perform(operation, word);
}

}  // namespace rockhopper::roce::rc
