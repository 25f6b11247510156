// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "roce/completion_queue.h"
#include "roce/congestion/congestion_control.h"
#include "roce/device_habits.h"
#include "roce/event_trace.h"
#include "roce/qp_attributes.h"
#include "roce/qp_list.h"
#include "roce/qp_observer.h"
#include "roce/recovery/recovery_config.h"
#include "roce/recovery/retransmission_timeout.h"
#include "roce/recovery/selective_repeat.h"
#include "roce/segmentation.h"
#include "roce/shared_receive_queue.h"
#include "roce/transport.h"
#include "roce/work_queue.h"
#include "roce/work_request.h"
#include "stack/host.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce {

class Engine;
class PacketBuilder;
class Pacer;
class TransportContext;

/// What a queue pair is made with, as ibv_qp_init_attr. The completion queues must outlive it. An
/// XRC initiator has no recv_cq, a target neither of them and no `pd`.
struct QpInit {
  QpType qp_type = QpType::rc;
  ProtectionDomain pd;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  XrcDomain xrcd{};  ///< XRC target
  /// RC and UD: receive requests come from here, max_recv_wr and max_recv_sge mean nothing.
  SharedReceiveQueue* srq = nullptr;
  std::uint32_t max_send_wr = 64;      ///< 1 to kMaxQpWr
  std::uint32_t max_recv_wr = 64;      ///< 0 to kMaxQpWr
  std::uint32_t max_send_sge = 1;      ///< 1 to kMaxSge
  std::uint32_t max_recv_sge = 1;      ///< 1 to kMaxSge
  std::uint32_t max_inline_data = 64;  ///< 0 to kMaxInlineBytes
  bool sq_sig_all = false;             ///< every send request is signalled
  /// UD: what it sends to a group that it is attached to does not come back.
  bool block_self_multicast = false;
  /// RC: masked atomics, which are ours (docs/wire.md). Only if the peer is known to serve them.
  bool extended_atomics = false;
  /// RC and DC: locks executed at the target, ours (docs/locks.md). Only if the peer is known to
  /// serve them.
  bool lock_execution = false;
  std::optional<EndToEndCredits> credits{};  ///< RC; nothing: EngineConfig::credits
};

/// A queue pair: its state machine and its two work queues. What its service does with them is in
/// its requester and responder, folders rc, uc and ud. Owned by the engine; belongs to its thread.
class QueuePair : public QpListHook {
 public:
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  [[nodiscard]] wire::Qpn number() const { return number_; }
  [[nodiscard]] QpState state() const { return attributes_.qp_state; }
  [[nodiscard]] const QpInit& init() const { return init_; }
  [[nodiscard]] ProtectionDomain pd() const { return init_.pd; }
  [[nodiscard]] XrcDomain xrcd() const { return init_.xrcd; }
  [[nodiscard]] EndToEndCredits credits() const { return *init_.credits; }

  /// As ibv_modify_qp: all or nothing. A move to ERR flushes both queues; a move to RESET empties
  /// them without completions.
  [[nodiscard]] Expected<void> modify(const QpAttributes& attributes, std::uint32_t mask);

  /// By modify(), state by state, up to `target`, which is INIT, RTR or RTS: with those of
  /// `attributes` that each step requires of the type, so that it need not be known here. Stops at
  /// the first step that fails.
  [[nodiscard]] Expected<void> bring_up(QpAttributes attributes, QpState target);

  /// As ibv_query_qp; sq_psn and rq_psn are the next to send and to expect. The rest, capabilities
  /// among it, is in init().
  [[nodiscard]] QpAttributes query() const;

  /// How fast it may send from now on, beginning anew. In any state; UD has none, and Swift needs
  /// the acknowledgements of RC. See docs/congestion-control.md.
  [[nodiscard]] Expected<void> set_congestion_control(const CongestionConfig& config);
  [[nodiscard]] CongestionConfig congestion_control() const;
  /// What the congestion control allows at this time, in bits per second; kUnlimited: as the link
  /// does.
  [[nodiscard]] std::uint64_t congestion_rate(std::uint64_t now_ns) const;

  /// How it recovers from losses. RC; in RESET and INIT, where it stays through the states. The
  /// adaptive timeout is this end's affair alone; selective repeat has to be agreed on with the
  /// peer, which must be a Rockhopper and do the same (docs/loss-recovery.md). XRC initiators have
  /// the timeout.
  [[nodiscard]] Expected<void> set_loss_recovery(const RecoveryConfig& config);
  /// The parameters of what is not in use are the default ones.
  [[nodiscard]] RecoveryConfig loss_recovery() const;

  /// As ibv_post_send for one request: states RTS and SQD queue it (and send it in RTS), SQE and
  /// ERR complete it at once with wr_flush_err, other states refuse it.
  [[nodiscard]] PostResult post_send(const SendWr& wr);
  /// As ibv_bind_mw: binds a window of type 1 as wr.mw_bind says, with wr_id and send_flags of
  /// `wr`. `rkey` is the window's and becomes the one that it will have.
  [[nodiscard]] PostResult bind_mw(MemoryKey& rkey, const SendWr& wr);
  /// As ibv_post_recv for one request: refused in RESET, and where there is an SRQ; ERR flushes it
  /// at once.
  [[nodiscard]] PostResult post_recv(const RecvWr& wr);

  /// As ib_drain_qp: moves to ERR, and behind all that was posted so far come completions with
  /// wr_flush_err and these ids, the last ones of this queue pair. One with an SRQ has none for
  /// receives. Fails in RESET.
  [[nodiscard]] Expected<void> drain(std::uint64_t send_wr_id, std::uint64_t recv_wr_id);

  /// Any thread, while the queue pair exists.
  [[nodiscard]] QpSummary summary() const;

  [[nodiscard]] std::size_t send_queue_depth() const { return send_queue_.size(); }
  [[nodiscard]] bool send_queue_full() const { return send_queue_.full(); }
  [[nodiscard]] std::size_t recv_queue_depth() const { return recv_queue_.size(); }

 protected:
  // What ExtensionQp needs too.
  QueuePair(Engine& engine, wire::Qpn number, const QpInit& init,
            const TransportMaker& make_transport);

  void assign(wire::Qpn number, ProtectionDomain pd, SharedReceiveQueue* srq,
              CompletionQueue* recv_cq);
  void apply(const QpAttributes& attributes, std::uint32_t mask);
  void enter_state(QpState next);
  /// What congestion control knows of the path to the peer is of another one.
  void forget_path();
  void schedule();
  [[nodiscard]] const QpAttributes& attributes() const { return attributes_; }
  /// The addresses of a packet are right: the peer's, or for datagrams anybody's to one of ours.
  [[nodiscard]] bool accepts(const stack::UdpDatagram& datagram) const {
    const AddressVector& av = attributes_.ah_attr;
    return is_connected() ? datagram.source == av.destination && datagram.destination == av.source
                          : !datagram.destination.is_multicast();
  }
  [[nodiscard]] const stack::Flow& flow() const { return flow_; }
  [[nodiscard]] SendQueue& send_queue() { return send_queue_; }
  /// A packet to the peer; requires that the flow is ready.
  [[nodiscard]] PacketBuilder start_packet(wire::Headers& headers,
                                           std::uint32_t payload_length) const;
  /// Returns a packet of nothing but these two; null if there is no mbuf. The same, for a queue
  /// pair without a prefix.
  [[nodiscard]] rte_mbuf* build_acknowledge(wire::Bth& bth, const wire::Aeth& aeth) const;

 private:
  friend class Engine;
  friend class TransportContext;

  /// What has been posted last: in a scope, or behind an acquire that has none.
  enum class PostedLock : std::uint8_t { none, scope, plain };

  using CnpHook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  /// It has one peer.
  [[nodiscard]] bool is_connected() const { return service_ != wire::ServiceClass::ud; }
  [[nodiscard]] PostResult check_send(const SendWr& wr, std::uint64_t length) const;
  [[nodiscard]] bool says_where(const SendWr& wr) const;
  [[nodiscard]] PostResult check_special(const SendWr& wr, std::uint64_t length) const;
  [[nodiscard]] PostResult check_memory_request(const SendWr& wr) const;
  [[nodiscard]] bool enqueue_plain(const SendWr& wr);
  [[nodiscard]] PostResult enqueue(const SendWr& wr);
  [[nodiscard]] PostResult bind_mw_2(const SendWr& wr);
  void fill_special(const SendWr& wr, SendWqe& wqe);
  void copy_list(const SendWr& wr);
  /// The packets that it takes are its service's, or some of ours that both ends know.
  [[nodiscard]] bool serves(const wire::OpcodeInfo& opcode) const {
    return (opcode.service == service_ && !half_) || serves_special(opcode);
  }
  [[nodiscard]] bool serves_special(const wire::OpcodeInfo& opcode) const;
  [[nodiscard]] bool repeats_selectively() const { return selective_repeat_ != nullptr; }
  /// The service's opcode for what RC calls `opcode`.
  [[nodiscard]] wire::Opcode service_opcode(wire::Opcode opcode) const {
    return service_ == wire::ServiceClass::rc ? opcode : of_service(service_, opcode);
  }
  /// Where receives complete now.
  [[nodiscard]] CompletionQueue* recv_cq() const {
    return srq_ != nullptr && srq_->cq() != nullptr ? srq_->cq() : init_.recv_cq;
  }
  /// XRC target: the SRQ that the request in hand names. False: it must not. Fails too when a
  /// message goes on with another than it has begun with.
  [[nodiscard]] bool select_srq(std::uint32_t number, bool starts);
  /// The SRQ goes.
  void forget_srq(const SharedReceiveQueue& srq);
  /// Whose keys the peer's requests name.
  [[nodiscard]] ProtectionDomain remote_pd() const {
    return init_.qp_type == QpType::xrc_recv && srq_ != nullptr ? srq_->pd() : init_.pd;
  }
  /// Valid where requests have what is in it: extended_atomics, XRC.
  [[nodiscard]] SendWqeExtension& extension(std::uint64_t sequence) {
    std::byte* place =
        send_queue_.extra(sequence).data() + send_queue_.extra_bytes() - sizeof(SendWqeExtension);
    return *reinterpret_cast<SendWqeExtension*>(place);
  }

  /// Valid with lock_execution.
  [[nodiscard]] LockWqe& lock_wqe(std::uint64_t sequence) {
    const std::size_t behind = has_extension_ ? sizeof(SendWqeExtension) : 0;
    std::byte* place =
        send_queue_.extra(sequence).data() + send_queue_.extra_bytes() - behind - sizeof(LockWqe);
    return *reinterpret_cast<LockWqe*>(place);
  }

  // queue_pair_lock.cc
  [[nodiscard]] bool check_lock_order(const SendWr& wr) const;
  /// What becomes of the scopes whose requests are flushed.
  void flush_scopes();
  void note_lock_order(const SendWr& wr, SendWqe& wqe);
  /// The acquire `scope_id`, which has no scope, is refused: there will be no release.
  void forget_posted_lock(std::uint16_t scope_id) {
    if (scope_id == lock_id_) posted_lock_ = PostedLock::none;
  }
  [[nodiscard]] std::uint32_t fill_lock(const SendWr& wr, LockWqe& wqe);

  // queue_pair_memory.cc
  /// Does what a request says that no packet carries. False: it is not allowed.
  [[nodiscard]] bool execute_local(const SendWqe& wqe);
  /// A peer's SEND with Invalidate. False: it must not.
  [[nodiscard]] bool invalidate_for_peer(MemoryKey key);
  /// A piece of memory that the peer's request names.
  [[nodiscard]] MemoryAccess remote_access(MemoryKey key, std::uint64_t addr, std::uint64_t length,
                                           std::uint32_t right) {
    return remote_access(remote_pd(), key, addr, length, right);
  }
  [[nodiscard]] MemoryAccess remote_access(ProtectionDomain pd, MemoryKey key, std::uint64_t addr,
                                           std::uint64_t length, std::uint32_t right);
  /// All of a region or window that the peer's request names, and its length.
  [[nodiscard]] MemoryAccess remote_region(MemoryKey key, std::uint32_t right,
                                           std::uint64_t& length);
  void configure_flow();
  // Hints for the processor where there are more queue pairs than the cache holds.
  void prefetch() const;
  /// Reads this queue pair: prefetch() should have been called some time before.
  void prefetch_transport() const;

  /// Moves to ERR because of a transport error, which a completion or an event has told: what is
  /// still queued is flushed, in order.
  void enter_error();
  /// The same where no completion and no other event tells of it: raises qp_fatal (IBTA vol. 1,
  /// 11.6.3.2).
  void fail_for_good();
  /// A local error of the front send request of an unreliable service: it completes with `status`,
  /// what is behind it is flushed, and the queue pair moves to SQE (IBTA vol. 1, 10.3.1).
  void fail_send(WcStatus status);
  void complete_flushed_recv(std::uint64_t wr_id);
  void flush_send_queue();
  void flush_recv_queue();
  void complete_send(const SendWqe& wqe, WcStatus status);
  /// The `count` oldest requests, which no lock is about, have succeeded. They are in the queue
  /// still.
  void complete_sends(std::uint32_t count);
  void complete_recv(const Completion& completion, bool solicited);
  /// The receive request that the next message gets; null if there is none.
  [[nodiscard]] const RecvWqe* next_receive() const {
    if (!recv_queue_.empty()) return &recv_queue_.front();
    return srq_ != nullptr ? srq_->front() : nullptr;
  }
  /// Makes it the front of recv_queue_; false if there is none.
  [[nodiscard]] bool take_receive() {
    return !recv_queue_.empty() || (srq_ != nullptr && srq_->take(recv_queue_));
  }
  /// Whose keys receive requests name.
  [[nodiscard]] ProtectionDomain receive_pd() const {
    return srq_ != nullptr ? srq_->pd() : init_.pd;
  }
  /// Copies a payload to the front receive request, `offset` bytes from its beginning.
  [[nodiscard]] MemoryStatus scatter_to_receive(std::uint64_t offset, const MbufBytes& payload);
  void add_details(const RxPacket& packet, Completion& completion) const;
  /// Completes the front receive request with a message's last packet, `length` bytes in all.
  void finish_receive(const RxPacket& packet, WcOpcode opcode, std::uint32_t length);
  /// Completes the front receive request with a SEND of one packet and no further headers.
  void finish_plain_receive(std::uint32_t length, bool solicited);
  /// The front receive request ends with a local error.
  void fail_receive(WcStatus status);
  /// Puts bytes [offset, offset + length) of the send request `sequence` into a packet. On an error
  /// the builder's packet is of no use.
  [[nodiscard]] MemoryStatus append_payload(PacketBuilder& builder, std::uint64_t sequence,
                                            std::uint64_t offset, std::uint32_t length);
  /// SQD, and the last request that had been started is done.
  void on_drained();
  void trace(TraceEvent event, std::uint32_t a, std::uint32_t b) const {
    if (traced_) [[unlikely]] {
      tell(event, a, b);
    }
  }
  void tell(TraceEvent event, std::uint32_t a, std::uint32_t b) const;

  Engine& engine_;
  wire::Qpn number_;
  const WrOpcodes send_opcodes_;  ///< that the service has
  QpInit init_;
  SharedReceiveQueue* srq_;  ///< XRC target: of the message in hand
  QpAttributes attributes_;
  std::uint16_t pkey_;         ///< the table's entry pkey_index
  std::uint16_t lock_id_ = 0;  ///< of the last acquire that was posted
  PostedLock posted_lock_ = PostedLock::none;
  std::atomic<QpState> told_state_ = QpState::reset;  ///< the state, for other threads
  const wire::ServiceClass service_;
  const bool has_extension_ : 1;  ///< send requests have SendWqeExtension
  const bool plain_ : 1;         ///< RC or UC with nothing of ours: requests are as verbs have them
  const bool plain_bursts_ : 1;  ///< its short packets may be made and taken in bursts
  const bool half_ : 1;          ///< is_half()
  const bool traced_ : 1;        ///< the engine has an EventTrace
  bool sqd_notify_ : 1 = false;  ///< raise sq_drained once drained
  bool established_ : 1 = false;  ///< comm_est has been raised
  SendQueue send_queue_;
  RecvQueue recv_queue_;  ///< with an SRQ: what has been taken from it for the message in progress
  stack::Flow flow_;
  std::unique_ptr<Pacer> pacer_;                             ///< null without congestion control
  std::unique_ptr<SelectiveRepeat> selective_repeat_;        ///< null: go-back-N
  std::unique_ptr<RetransmissionTimeout> adaptive_timeout_;  ///< null: the fixed timer
  Transport transport_;
  std::uint64_t next_cnp_ns_ = 0;  ///< the peer is told of marked packets again
  CnpHook cnp_hook_;               ///< linked: the peer is to be told
};

/// A scheduling list of the engine. A queue pair is in one list at most.
using QpList = boost::intrusive::list<QueuePair, boost::intrusive::base_hook<QpListHook>,
                                      boost::intrusive::constant_time_size<false>>;

}  // namespace rockhopper::roce
