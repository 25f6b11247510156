// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Checking and executing requests.
#include <algorithm>
#include <atomic>
#include <cassert>

#include "roce/engine.h"
#include "roce/masked_atomic.h"
#include "roce/rc/responder.h"

namespace rockhopper::roce::rc {

using wire::NakCode;
using wire::Operation;

/// True: the packet has the expected PSN (IBTA vol. 1, 9.7.4.1.2).
inline bool Responder::in_order(const RxPacket& packet) {
  const std::uint32_t distance =
      (packet.headers.bth.psn.value - received_psn().value) & wire::kMask24;
  if (distance == 0) {
    if (reply_ == Reply::nak) {
      // It had not left yet, and what it asked for is here: now it is to ask for what was dropped
      // behind this packet. Without that, what it covers is still to be acknowledged.
      const bool more_dropped =
          !rnr_outstanding_ && wire::distance(received_psn(), last_dropped_psn_) > 0;
      reply_ = more_dropped ? Reply::nak : Reply::ack;
    }
    nak_outstanding_ = reply_ == Reply::nak;
    rnr_outstanding_ = false;
    return true;
  }
  on_out_of_order(packet, distance);
  return false;
}

/// The order of opcodes within and between messages (IBTA vol. 1, 9.7.4.1.5).
inline bool Responder::check_sequence(const wire::OpcodeInfo& opcode) const {
  switch (message_) {
    case Message::none:
      return opcode.starts();
    case Message::send:
      return !opcode.starts() && opcode.operation == Operation::send;
    case Message::write:
      return !opcode.starts() && opcode.operation == Operation::rdma_write;
  }
  return false;
}

void Responder::execute(const RxPacket& packet) {
  if (!in_order(packet)) {
    return;
  }
  if (stalls()) [[unlikely]] {
    park(packet);
    return;
  }
  execute_in_turn(packet);
}

void Responder::on_request(const RxPacket& packet) {
  if (!qp_.repeats_selectively()) [[likely]] {
    execute(packet);
    return;
  }
  const wire::Psn turn = received_psn();
  execute(packet);
  execute_held(turn);
}

/// The packet with expected_psn_.
void Responder::execute_in_turn(const RxPacket& packet) {
  if (!check_sequence(*packet.headers.opcode) ||
      !packet.length_fits(bytes(qp_.attributes_.path_mtu))) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  if (packet.headers.opcode->has(wire::Header::xrceth) &&
      !qp_.select_srq(packet.headers.xrceth.xrc_srq.value, packet.headers.opcode->starts())) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  if (scope_ != nullptr && scope_->state != lock::Scope::State::none) [[unlikely]] {
    if (!may_execute_in_scope(packet)) {
      refuse(NakCode::invalid_request, packet);
      return;
    }
    if (scope_->state == lock::Scope::State::failed) {
      flush(packet);
      return;
    }
  }
  switch (packet.headers.opcode->operation) {
    case Operation::send:
      execute_send(packet);
      break;
    case Operation::rdma_write:
      execute_write(packet);
      break;
    case Operation::rdma_read_request:
      execute_read(packet);
      break;
    case Operation::compare_swap:
    case Operation::fetch_add:
    case Operation::extended_atomic:
      execute_atomic(packet);
      break;
    case Operation::atomic_write:
      execute_atomic_write(packet);
      break;
    case Operation::flush:
      execute_flush(packet);
      break;
    case Operation::lock_request:
      execute_lock(packet);
      break;
    default:
      refuse(NakCode::invalid_request, packet);
      break;
  }
}

/// The packet is `distance` PSNs ahead of the expected one. Half of all PSNs or more means that it
/// has been here before.
void Responder::on_out_of_order(const RxPacket& packet, std::uint32_t distance) {
  constexpr std::uint32_t kHalf = 1u << 23;
  if (distance >= kHalf) {
    if (stalls() && wire::distance(expected_psn_, packet.headers.bth.psn) >= 0) {
      on_parked_again(packet);
    } else {
      on_duplicate(packet);
    }
    return;
  }
  if (qp_.repeats_selectively() && hold(packet, distance)) {
    return;
  }
  if (rnr_outstanding_) {
    drop(DropReason::rnr_dropped_request, packet);
    return;
  }
  drop(DropReason::out_of_seq_request, packet);
  qp_.engine_.counters_.out_of_seq_request.add();
  last_dropped_psn_ = packet.headers.bth.psn;
  if (!nak_outstanding_) {
    ask_for_missing();
  }
}

/// A NAK for the next packet, behind which some were dropped.
void Responder::ask_for_missing() {
  nak_outstanding_ = true;
  reply_ = Reply::nak;
  nak_syndrome_ = wire::Aeth::nak(NakCode::psn_sequence_error, 0).syndrome;
  qp_.engine_.counters_.send_seq_err.add();
  qp_.trace(TraceEvent::nak_sent, nak_syndrome_, received_psn().value);
  qp_.engine_.schedule(qp_);
}

void Responder::execute_send(const RxPacket& packet) {
  const wire::OpcodeInfo& opcode = *packet.headers.opcode;
  if (opcode.starts()) {
    if (!qp_.take_receive()) {
      rnr_nak(packet);
      return;
    }
    message_ = Message::send;
    received_ = 0;
  }
  if (received_ + packet.payload.length > qp_.recv_queue_.front().length) {
    qp_.fail_receive(WcStatus::loc_len_err);
    refuse(NakCode::invalid_request, packet);
    return;
  }
  if (qp_.scatter_to_receive(received_, packet.payload) != MemoryStatus::ok) {
    qp_.fail_receive(WcStatus::loc_prot_err);
    refuse(NakCode::remote_operational_error, packet);
    return;
  }
  received_ += packet.payload.length;
  if (opcode.has_invalidate && !qp_.invalidate_for_peer(MemoryKey{packet.headers.ieth.rkey})) {
    qp_.fail_receive(WcStatus::loc_prot_err);
    refuse(NakCode::remote_access_error, packet);
    return;
  }
  if (opcode.ends()) {
    qp_.finish_receive(packet, WcOpcode::recv, static_cast<std::uint32_t>(received_));
  }
  finish_packet(packet);
}

void Responder::execute_write(const RxPacket& packet) {
  const wire::OpcodeInfo& opcode = *packet.headers.opcode;
  MemoryAccess target{MemoryStatus::ok, nullptr};
  if (opcode.starts()) {
    if ((qp_.attributes_.qp_access_flags & kAccessRemoteWrite) == 0) {
      refuse(NakCode::invalid_request, packet);
      return;
    }
    write_ = packet.headers.reth;
    received_ = 0;
    if (write_.length > kMaxMessageBytes) {
      refuse(NakCode::invalid_request, packet);
      return;
    }
    // A message without bytes touches no memory: its key is not looked at (IBTA vol. 1, 9.7.4.1.4).
    if (write_.length > 0) {
      target =
          qp_.remote_access(MemoryKey{write_.rkey}, write_.va, write_.length, kAccessRemoteWrite);
    }
    if (target.status != MemoryStatus::ok) {
      refuse(NakCode::remote_access_error, packet);
      return;
    }
  }
  const std::uint64_t end = received_ + packet.payload.length;
  if (opcode.ends() ? end != write_.length : end >= write_.length) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  if (opcode.has_immediate && qp_.next_receive() == nullptr) {
    rnr_nak(packet);
    return;
  }
  if (packet.payload.length > 0) {
    // The first packet's bytes are at the beginning of what was looked up for all of the message.
    if (!opcode.starts()) {
      target = qp_.remote_access(MemoryKey{write_.rkey}, write_.va + received_,
                                 packet.payload.length, kAccessRemoteWrite);
    }
    if (target.status != MemoryStatus::ok) {
      refuse(NakCode::remote_access_error, packet);
      return;
    }
    copy_from_mbuf(packet.payload, target.data);
    note_write(target.data, packet.payload.length);
  }
  received_ = end;
  message_ = Message::write;
  if (opcode.ends()) {
    qp_.engine_.counters_.rx_write_requests.add();
    if (opcode.has_immediate) {
      static_cast<void>(qp_.take_receive());  // seen above
      qp_.finish_receive(packet, WcOpcode::recv_rdma_with_imm, write_.length);
    }
  }
  finish_packet(packet);
}

void Responder::execute_read(const RxPacket& packet) {
  const wire::Reth& reth = packet.headers.reth;
  if ((qp_.attributes_.qp_access_flags & kAccessRemoteRead) == 0 ||
      reth.length > kMaxMessageBytes) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  MemoryAccess source{MemoryStatus::ok, nullptr};
  if (reth.length > 0) {
    source = qp_.remote_access(MemoryKey{reth.rkey}, reth.va, reth.length, kAccessRemoteRead);
  }
  if (source.status != MemoryStatus::ok) {
    refuse(NakCode::remote_access_error, packet);
    return;
  }
  const std::uint32_t mtu = bytes(qp_.attributes_.path_mtu);
  Resource resource{.first_psn = expected_psn_,
                    .psn_count = reth.length == 0 ? 1 : (reth.length - 1) / mtu + 1,
                    .msn = (msn_ + 1) & wire::kMask24,
                    .length = reth.length,
                    .rkey = reth.rkey,
                    .pd = qp_.remote_pd(),
                    .va = reth.va};
  if (scope_ != nullptr && scope_->state == lock::Scope::State::open && scope_->has_scope() &&
      reth.length > 0 && !take_snapshot(source, resource)) [[unlikely]] {
    flush(packet);  // it was too much: the scope has failed
    return;
  }
  if (!take_resource(resource)) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  qp_.engine_.counters_.rx_read_requests.add();
  msn_ = resource.msn;
  expected_psn_ = expected_psn_ + resource.psn_count;
}

/// What an atomic request names.
Responder::AtomicTarget Responder::atomic_target(const wire::Headers& headers) {
  return headers.opcode->has(wire::Header::xaeth)
             ? AtomicTarget{.va = headers.xaeth.va, .rkey = headers.xaeth.rkey}
             : AtomicTarget{.va = headers.atomic_eth.va, .rkey = headers.atomic_eth.rkey};
}

/// The value that an atomic request other than a plain CAS leaves where it finds `value`.
std::uint64_t Responder::atomic_result(const wire::Headers& headers, std::uint64_t value) {
  const wire::Xaeth& xaeth = headers.xaeth;
  switch (headers.opcode->operation) {
    case Operation::fetch_add:
      return value + headers.atomic_eth.swap_add;
    default:
      return xaeth.subtype == wire::Xaeth::kMaskedCompareSwap
                 ? masked_compare_swap(value, xaeth.compare, xaeth.compare_mask, xaeth.swap_add,
                                       xaeth.mask)
                 : masked_add(value, xaeth.swap_add, xaeth.mask);
  }
}

/// Atomic with respect to the CPU's own atomics on the same word. Returns the value before.
std::uint64_t Responder::perform_atomic(const wire::Headers& headers, std::byte* target) {
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target));
  if (headers.opcode->operation == Operation::compare_swap) {
    std::uint64_t original = headers.atomic_eth.compare;
    word.compare_exchange_strong(original, headers.atomic_eth.swap_add);
    return original;
  }
  std::uint64_t original = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(original, atomic_result(headers, original))) {
  }
  return original;
}

void Responder::execute_atomic(const RxPacket& packet) {
  const AtomicTarget eth = atomic_target(packet.headers);
  const bool known = packet.headers.opcode->operation != Operation::extended_atomic ||
                     packet.headers.xaeth.subtype == wire::Xaeth::kMaskedCompareSwap ||
                     packet.headers.xaeth.subtype == wire::Xaeth::kMaskedFetchAdd;
  if ((qp_.attributes_.qp_access_flags & kAccessRemoteAtomic) == 0 || eth.va % 8 != 0 || !known) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  const MemoryAccess target =
      qp_.remote_access(MemoryKey{eth.rkey}, eth.va, 8, kAccessRemoteAtomic);
  if (target.status != MemoryStatus::ok) {
    refuse(NakCode::remote_access_error, packet);
    return;
  }
  if (reinterpret_cast<std::uintptr_t>(target.data) % 8 != 0) {
    refuse(NakCode::invalid_request, packet);  // an iova can be aligned where the memory is not
    return;
  }
  Resource resource{.first_psn = expected_psn_,
                    .psn_count = 1,
                    .msn = (msn_ + 1) & wire::kMask24,
                    .kind = Kind::atomic,
                    .va = eth.va};
  if (!resources_.has_place()) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  resource.original = perform_atomic(packet.headers, target.data);
  note_write(target.data, sizeof(std::uint64_t));
  put_resource(resource);
  qp_.engine_.counters_.rx_atomic_requests.add();
  msn_ = resource.msn;
  expected_psn_ = expected_psn_ + 1;
}

/// False: there is no place for it.
bool Responder::take_resource(const Resource& resource) {
  if (!resources_.has_place()) {
    return false;
  }
  put_resource(resource);
  return true;
}

/// Puts a READ or atomic into the ring, in place of the oldest when it is full. Requires
/// resources_.has_place().
void Responder::put_resource(const Resource& resource) {
  if (resources_.is_full()) {
    drop_oldest_resource();
  }
  resources_.put(resource);
  if (reply_ == Reply::ack) {
    reply_ = Reply::none;  // the response acknowledges what came before it
    qp_.engine_.counters_.ack_deferred.add();
  }
  qp_.engine_.schedule(qp_);
}

void Responder::release_snapshot(const Resource& resource) {
  qp_.engine_.locks_->snapshots.release(resource.snapshot);
}

/// Somebody may wait for what was there.
void Responder::note_write(const std::byte* data, std::uint64_t length) {
  if (qp_.engine_.locks_ != nullptr) {
    qp_.engine_.locks_->table.note_write(data, length);
  }
}

void Responder::finish_packet(const RxPacket& packet) {
  expected_psn_ = expected_psn_ + 1;
  if (packet.headers.opcode->ends()) {
    message_ = Message::none;
    msn_ = (msn_ + 1) & wire::kMask24;
  }
  if (packet.headers.bth.ack_request) {
    acknowledge();
  }
}

void Responder::drop(DropReason reason, const RxPacket& packet) {
  qp_.engine_.count_drop(reason, packet.payload.packet);
}

}  // namespace rockhopper::roce::rc
