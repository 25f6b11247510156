// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/plain_execution.h"

#include <span>

#include "roce/atomic_operation.h"
#include "roce/short_packet.h"

namespace rockhopper::roce::rc {

inline wire::Reth Responder::PlainExecution::reth() const {
  return wire::Reth::parse(
      std::span<const std::uint8_t, wire::Reth::kSize>(packet_.headers, wire::Reth::kSize));
}

inline std::byte* Responder::PlainExecution::find_memory(const wire::Reth& reth,
                                                         std::uint32_t right) const {
  if ((qp_.attributes().qp_access_flags & right) == 0 || reth.length == 0 ||
      reth.length > kMaxMessageBytes) {
    return nullptr;
  }
  return qp_.engine().memory().simple_access(MemoryKey{reth.rkey}, qp_.remote_pd(), reth.va,
                                             reth.length, right);
}

/// The SEND or WRITE is executed.
inline void Responder::PlainExecution::finish() {
  responder_.owed_.on_expected(packet_.psn());
  responder_.expected_psn_ = responder_.expected_psn_ + 1;
  responder_.msn_ = responder_.next_msn();
  if (packet_.ack_request()) responder_.acknowledge();
}

inline bool Responder::PlainExecution::send() {
  if (!qp_.take_receive()) return false;
  RecvQueue& queue = qp_.recv_queue();
  const RecvWqe& receive = queue.front();
  if (receive.num_sge != 1 || packet_.length > receive.length) return false;
  const Sge& sge = queue.sges(queue.head()).front();
  if (packet_.length > 0) {
    std::byte* to = qp_.engine().memory().simple_access(sge.lkey, qp_.receive_pd(), sge.addr,
                                                        packet_.length, kAccessLocalWrite);
    if (to == nullptr) return false;
    copy_short(reinterpret_cast<std::uint8_t*>(to), packet_.payload, packet_.length);
  }
  qp_.finish_plain_receive(packet_.length, packet_.solicited());
  finish();
  return true;
}

inline bool Responder::PlainExecution::write() {
  const wire::Reth place = reth();
  if (place.length != packet_.length) return false;
  std::byte* to = find_memory(place, kAccessRemoteWrite);
  if (to == nullptr) return false;
  copy_short(reinterpret_cast<std::uint8_t*>(to), packet_.payload, packet_.length);
  responder_.note_write(to, packet_.length);
  qp_.engine().counters().rx_write_requests.add();
  finish();
  return true;
}

inline bool Responder::PlainExecution::read() {
  const wire::Reth place = reth();
  if (packet_.length != 0 || !responder_.resources_.has_place() ||
      find_memory(place, kAccessRemoteRead) == nullptr) {
    return false;
  }
  responder_.owed_.on_expected(packet_.psn());
  qp_.engine().counters().rx_read_requests.add();
  responder_.finish_with(responder_.resource_of(place));
  return true;
}

inline bool Responder::PlainExecution::atomic() {
  wire::Headers headers;
  headers.xaeth = {};  // which it has none of, though the compiler does not see that
  headers.opcode = &wire::info(packet_.opcode());
  headers.atomic_eth = wire::AtomicEth::parse(std::span<const std::uint8_t, wire::AtomicEth::kSize>(
      packet_.headers, wire::AtomicEth::kSize));
  const AtomicOperation operation(headers);
  constexpr std::uint64_t kSize = sizeof(std::uint64_t);
  std::byte* word = find_memory(
      {.va = operation.va(), .rkey = static_cast<std::uint32_t>(operation.key()), .length = kSize},
      kAccessRemoteAtomic);
  if (packet_.length != 0 || word == nullptr || operation.va() % kSize != 0 ||
      reinterpret_cast<std::uintptr_t>(word) % kSize != 0 || !responder_.resources_.has_place()) {
    return false;
  }
  responder_.owed_.on_expected(packet_.psn());
  responder_.perform(operation, word);
  return true;
}

inline bool Responder::PlainExecution::run() {
  if (packet_.psn() != responder_.expected_psn_ || responder_.scope_ != nullptr ||
      qp_.repeats_selectively() || !responder_.message_.is_none()) {
    return false;
  }
  switch (packet_.opcode()) {
    case wire::Opcode::rc_send_only:
      return send();
    case wire::Opcode::rc_rdma_write_only:
      return write();
    case wire::Opcode::rc_rdma_read_request:
      return read();
    case wire::Opcode::rc_compare_swap:
    case wire::Opcode::rc_fetch_add:
      return atomic();
    default:
      return false;
  }
}

bool Responder::take_plain(const PlainPacket& packet) {
  return PlainExecution(*this, packet).run();
}

}  // namespace rockhopper::roce::rc
