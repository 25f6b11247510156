// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/completion_queue.h"
#include "roce/engine_context.h"
#include "roce/event_trace.h"
#include "roce/memory.h"
#include "roce/packet_builder.h"
#include "roce/payload.h"
#include "roce/qp_attributes.h"
#include "roce/queue_pair.h"
#include "roce/rx_packet.h"
#include "roce/short_packet.h"
#include "roce/types.h"
#include "roce/wire/opcode.h"
#include "roce/wire/packet.h"
#include "roce/wire/qpn.h"
#include "roce/work_queue.h"
#include "stack/host.h"

namespace rockhopper::roce {

/// What the halves of a queue pair, requester and responder of each service, may use of it and,
/// through engine(), of its engine: all of it is here. A value that refers to the queue pair, from
/// which it is made without being asked for; its functions are called on the engine's thread.
class TransportContext {
 public:
  TransportContext(QueuePair& qp) : qp_(qp) {}

  [[nodiscard]] EngineContext engine() const { return EngineContext(qp_.engine_); }

  // What the queue pair is.
  [[nodiscard]] wire::Qpn number() const { return qp_.number_; }
  [[nodiscard]] QpState state() const { return qp_.state(); }
  [[nodiscard]] const QpAttributes& attributes() const { return qp_.attributes_; }
  /// Returns how often a requester tries again: as the attribute says, or a schedule.
  [[nodiscard]] std::uint8_t retry_cnt() const {
    return retransmissions().empty() ? qp_.attributes_.retry_cnt : retransmissions().retries();
  }
  [[nodiscard]] const RetransmissionSchedule& retransmissions() const {
    return EngineContext(qp_.engine_).config().retransmissions;
  }
  [[nodiscard]] ProtectionDomain pd() const { return qp_.init_.pd; }
  [[nodiscard]] std::uint16_t pkey() const { return qp_.pkey_; }
  [[nodiscard]] bool executes_locks() const { return qp_.init_.lock_execution; }
  [[nodiscard]] const stack::Flow& flow() const { return qp_.flow_; }
  /// Returns null without congestion control.
  [[nodiscard]] Pacer* pacer() const { return qp_.pacer_.get(); }
  /// Returns null with the fixed timer.
  [[nodiscard]] RetransmissionTimeout* adaptive_timeout() const {
    return qp_.adaptive_timeout_.get();
  }
  [[nodiscard]] bool repeats_selectively() const { return qp_.repeats_selectively(); }
  /// Returns null for go-back-N.
  [[nodiscard]] SelectiveRepeat* selective_repeat() const { return qp_.selective_repeat_.get(); }
  /// Returns the service's opcode for what RC calls `opcode`.
  [[nodiscard]] wire::Opcode service_opcode(wire::Opcode opcode) const {
    return qp_.service_opcode(opcode);
  }

  // Its requests.
  [[nodiscard]] SendQueue& send_queue() const { return qp_.send_queue_; }
  /// Valid where requests have what is in it: masked atomics, XRC.
  [[nodiscard]] SendWqeExtension& extension(std::uint64_t sequence) const {
    return qp_.extension(sequence);
  }
  /// Valid with executes_locks().
  [[nodiscard]] LockWqe& lock_wqe(std::uint64_t sequence) const { return qp_.lock_wqe(sequence); }
  /// Does what a request says that no packet carries. Returns false if it is not allowed.
  [[nodiscard]] bool execute_local(const SendWqe& wqe) const { return qp_.execute_local(wqe); }
  /// A packet to the peer, whose flow has to be ready.
  [[nodiscard]] PacketBuilder start_packet(wire::Headers& headers,
                                           std::uint32_t payload_length) const {
    return qp_.start_packet(headers, payload_length);
  }
  /// Packets to the peer that are short; requires that the flow is ready, and sends_plain_bursts().
  [[nodiscard]] ShortPackets short_packets() const {
    return {*EngineContext(qp_.engine_).config().host, qp_.flow_, qp_.pkey_,
            qp_.attributes_.dest_qp_num};
  }
  [[nodiscard]] rte_mempool* packet_pool() const {
    return EngineContext(qp_.engine_).config().packet_pool;
  }
  /// Short packets of RC may be made and taken in bursts, without asking for each what no packet of
  /// this queue pair has.
  [[nodiscard]] bool sends_plain_bursts() const { return qp_.plain_bursts_; }
  /// Its packets have no headers but those of their service.
  [[nodiscard]] bool has_plain_packets() const { return qp_.transport_.prefix == nullptr; }
  /// An acknowledgement to the peer, whose flow has to be ready; null if there is no mbuf. Requires
  /// has_plain_packets().
  [[nodiscard]] rte_mbuf* build_acknowledge(wire::Bth& bth, const wire::Aeth& aeth) const {
    return qp_.build_acknowledge(bth, aeth);
  }
  /// Puts bytes [offset, offset + length) of the request `sequence` into a packet. On an error the
  /// builder's packet is of no use.
  [[nodiscard]] MemoryStatus append_payload(PacketBuilder& builder, std::uint64_t sequence,
                                            std::uint64_t offset, std::uint32_t length) const {
    return qp_.append_payload(builder, sequence, offset, length);
  }
  /// The request, which has left the queue, is complete.
  void complete_send(const SendWqe& wqe, WcStatus status) const { qp_.complete_send(wqe, status); }
  /// The `count` oldest requests, which are to leave the queue, have succeeded.
  void complete_sends(std::uint32_t count) const { qp_.complete_sends(count); }
  /// See QueuePair: a local error of the front request of an unreliable service.
  void fail_send(WcStatus status) const { qp_.fail_send(status); }
  /// The acquire `scope_id`, which has no scope, is refused: there will be no release.
  void forget_posted_lock(std::uint16_t scope_id) const { qp_.forget_posted_lock(scope_id); }
  /// In SQD, and the last request that had been started is done.
  void on_drained() const { qp_.on_drained(); }

  // Its receive requests. With a shared receive queue those of others too: nothing can be promised.
  [[nodiscard]] bool tells_credits() const { return qp_.srq_ == nullptr && qp_.credits().count; }
  [[nodiscard]] bool obeys_credits() const { return qp_.credits().obey; }
  [[nodiscard]] RecvQueue& recv_queue() const { return qp_.recv_queue_; }
  /// Returns the protection domain whose keys they name.
  [[nodiscard]] ProtectionDomain receive_pd() const { return qp_.receive_pd(); }
  /// XRC: the SRQ that the request in hand names serves it. Returns false if it must not.
  [[nodiscard]] bool select_srq(std::uint32_t number, bool starts) const {
    return qp_.select_srq(number, starts);
  }
  /// Returns the one that the next message gets; null if there is none.
  [[nodiscard]] const RecvWqe* next_receive() const { return qp_.next_receive(); }
  /// Makes it the front of recv_queue(). Returns false if there is none.
  [[nodiscard]] bool take_receive() const { return qp_.take_receive(); }
  /// Copies a payload to the front one, `offset` bytes from its beginning.
  [[nodiscard]] MemoryStatus scatter_to_receive(std::uint64_t offset,
                                                const MbufBytes& payload) const {
    return qp_.scatter_to_receive(offset, payload);
  }
  /// Completes the front one with a message's last packet, `length` bytes in all.
  void finish_receive(const RxPacket& packet, WcOpcode opcode, std::uint32_t length) const {
    qp_.finish_receive(packet, opcode, length);
  }
  void finish_plain_receive(std::uint32_t length, bool solicited) const {
    qp_.finish_plain_receive(length, solicited);
  }
  /// The front one ends with a local error.
  void fail_receive(WcStatus status) const { qp_.fail_receive(status); }

  // The memory that the peer's requests name.
  [[nodiscard]] ProtectionDomain remote_pd() const { return qp_.remote_pd(); }
  [[nodiscard]] MemoryAccess remote_access(MemoryKey key, std::uint64_t addr, std::uint64_t length,
                                           std::uint32_t right) const {
    return qp_.remote_access(key, addr, length, right);
  }
  [[nodiscard]] MemoryAccess remote_access(ProtectionDomain pd, MemoryKey key, std::uint64_t addr,
                                           std::uint64_t length, std::uint32_t right) const {
    return qp_.remote_access(pd, key, addr, length, right);
  }
  /// All of a region or window, and its length.
  [[nodiscard]] MemoryAccess remote_region(MemoryKey key, std::uint32_t right,
                                           std::uint64_t& length) const {
    return qp_.remote_region(key, right, length);
  }
  /// The peer's SEND invalidates that key. Returns false if it must not.
  [[nodiscard]] bool invalidate_for_peer(MemoryKey key) const {
    return qp_.invalidate_for_peer(key);
  }

  /// The queue pair has something to send.
  void schedule() const { engine().schedule(qp_); }
  /// A transport error: it goes to ERR, and what is still queued is flushed, in order.
  void enter_error() const { qp_.enter_error(); }
  void trace(TraceEvent event, std::uint32_t a, std::uint32_t b) const { qp_.trace(event, a, b); }

 private:
  QueuePair& qp_;
};

}  // namespace rockhopper::roce
