// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/queue_pair.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <new>

#include "roce/address_handle.h"
#include "roce/congestion/notification_point.h"
#include "roce/congestion/pacer.h"
#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "roce/prefetch.h"
#include "roce/short_packet.h"
#include "stack/ecn.h"

namespace rockhopper::roce {
namespace {

WcOpcode wc_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
      return WcOpcode::rdma_write;
    case WrOpcode::rdma_read:
      return WcOpcode::rdma_read;
    case WrOpcode::atomic_cmp_and_swp:
      return WcOpcode::comp_swap;
    case WrOpcode::atomic_fetch_and_add:
      return WcOpcode::fetch_add;
    case WrOpcode::local_inv:
      return WcOpcode::local_inv;
    case WrOpcode::bind_mw:
      return WcOpcode::bind_mw;
    case WrOpcode::reg_mr:
      return WcOpcode::reg_mr;
    case WrOpcode::flush:
      return WcOpcode::flush;
    case WrOpcode::atomic_write:
      return WcOpcode::atomic_write;
    case WrOpcode::masked_atomic_cmp_and_swp:
      return WcOpcode::masked_comp_swap;
    case WrOpcode::masked_atomic_fetch_and_add:
      return WcOpcode::masked_fetch_add;
    case WrOpcode::lock_acquire:
      return WcOpcode::lock_acquire;
    case WrOpcode::lock_release:
      return WcOpcode::lock_release;
    case WrOpcode::lock_cancel:
      return WcOpcode::lock_cancel;
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_inv:
      break;
  }
  return WcOpcode::send;
}

/// The requests that a service has (IBTA vol. 1, 9.1).
WrOpcodes requests_of(const QpInit& init) {
  constexpr WrOpcodes kDatagrams = {WrOpcode::send, WrOpcode::send_with_imm};
  constexpr WrOpcodes kWrites = {WrOpcode::rdma_write, WrOpcode::rdma_write_with_imm};
  constexpr WrOpcodes kUnreliable = kDatagrams | kWrites | kLocalOpcodes;
  constexpr WrOpcodes kRemote =
      kDatagrams | kWrites | kPlacements |
      WrOpcodes{WrOpcode::send_with_inv, WrOpcode::rdma_read, WrOpcode::atomic_cmp_and_swp,
                WrOpcode::atomic_fetch_and_add};
  constexpr WrOpcodes kReliable = kRemote | kLocalOpcodes;
  const WrOpcodes extended = (init.extended_atomics ? kMaskedAtomics : WrOpcodes{}) |
                             (init.lock_execution ? kLocks : WrOpcodes{});
  switch (init.qp_type) {
    case QpType::rc:
      return kReliable | extended;
    case QpType::xrc_send:
      return kReliable;
    case QpType::extension_initiator:
      return kRemote | extended;
    case QpType::xrc_recv:
    case QpType::extension_responder:
      return {};
    case QpType::uc:
      return kUnreliable;
    case QpType::ud:
      return kDatagrams;
  }
  return {};
}

/// Returns whether its send requests need the extension of a WQE.
bool has_extension(const QpInit& init) {
  return init.extended_atomics || init.qp_type == QpType::xrc_send;
}

std::uint32_t extra_bytes_of(const QpInit& init) {
  constexpr std::uint32_t kAlignment = alignof(SendWqeExtension);
  static_assert(alignof(LockWqe) <= kAlignment && sizeof(LockWqe) % kAlignment == 0);
  const auto special =
      static_cast<std::uint32_t>((has_extension(init) ? sizeof(SendWqeExtension) : 0) +
                                 (init.lock_execution ? sizeof(LockWqe) : 0));
  return special == 0 ? init.max_inline_data
                      : (init.max_inline_data + kAlignment - 1) / kAlignment * kAlignment + special;
}

/// As ibv_query_qp tells it: with an SRQ there are no receives of its own.
QpInit without_unused(QpInit init) {
  if (init.srq != nullptr || is_half(init.qp_type)) init.max_recv_wr = init.max_recv_sge = 0;
  if (only_responds(init.qp_type)) init.max_send_wr = init.max_send_sge = init.max_inline_data = 0;
  return init;
}

/// Receive requests of its own; of an SRQ, one at a time.
RecvQueue make_recv_queue(const QpInit& init) {
  if (only_responds(init.qp_type)) {
    return {1, kMaxSge, 0};  // of any SRQ
  }
  if (init.srq != nullptr) return {1, init.srq->query().max_sge, 0};
  return {is_half(init.qp_type) ? 0 : init.max_recv_wr, init.max_recv_sge, 0};
}

/// All groups have one number, which nobody else has (IBTA vol. 1, 9.2.7 and 10.5).
bool reaches(wire::Qpn number, const AddressHandle& ah) {
  const bool group = ah.address_vector().destination.is_multicast();
  return number.value <= wire::kMask24 && group == (number == wire::kMulticastQpn);
}

}  // namespace

QueuePair::QueuePair(Engine& engine, wire::Qpn number, const QpInit& init,
                     const TransportMaker& make_transport)
    : engine_(engine),
      number_(number),
      send_opcodes_(requests_of(init)),
      init_(without_unused(init)),
      srq_(init.srq),
      pkey_(*engine.query_pkey(attributes_.pkey_index)),
      service_(service_of(init.qp_type).value()),
      has_extension_(has_extension(init)),
      plain_((init.qp_type == QpType::rc || init.qp_type == QpType::uc) && !init.extended_atomics &&
             !init.lock_execution),
      plain_bursts_(plain_ && init.qp_type == QpType::rc && engine.config_.plain_bursts &&
                    ShortPackets::possible()),
      half_(is_half(init.qp_type)),
      traced_(engine.config_.trace != nullptr),
      send_queue_(init.max_send_wr, init.max_send_sge, extra_bytes_of(init)),
      recv_queue_(make_recv_queue(init)),
      transport_(make_transport(*this)) {
  if (!init_.credits) init_.credits = engine.config_.credits;
}

QueuePair::~QueuePair() = default;

Expected<void> QueuePair::modify(const QpAttributes& attributes, std::uint32_t mask) {
  const QpState current = state();
  if (auto checked = check_transition(init_.qp_type, current, attributes, mask); !checked) {
    return checked;
  }
  const QpState next = (mask & kQpState) != 0 ? attributes.qp_state : current;
  if ((mask & kQpAv) != 0 && !engine_.config_.host->owns(attributes.ah_attr.source)) {
    return fail(ErrorCode::invalid_argument, "{} is not an address of this host",
                attributes.ah_attr.source.to_string());
  }
  if ((mask & kQpPkeyIndex) != 0) {
    if (const auto pkey = engine_.pkeys_.valid_at(attributes.pkey_index); !pkey) {
      return tl::make_unexpected(pkey.error());
    }
  }
  if ((mask & kQpPathMtu) != 0 && bytes(attributes.path_mtu) > engine_.max_path_mtu()) {
    return fail(ErrorCode::invalid_argument,
                "path MTU {} does not fit the interface MTU; the largest that does is {}",
                bytes(attributes.path_mtu), engine_.max_path_mtu());
  }
  if (current == QpState::sqd && next == QpState::sqd && !transport_.requester->drained()) {
    return fail(ErrorCode::invalid_state, "the send queue is not drained yet");
  }
  apply(attributes, mask);
  if (next != current || next == QpState::reset) enter_state(next);
  return {};
}

Expected<void> QueuePair::bring_up(QpAttributes attributes, QpState target) {
  for (const QpState next : {QpState::init, QpState::rtr, QpState::rts}) {
    if (next <= state() || next > target) continue;
    attributes.qp_state = next;
    const std::uint32_t required = required_attributes(init_.qp_type, state(), next);
    if (auto moved = modify(attributes, kQpState | required); !moved) return moved;
  }
  if (state() != target) {
    return fail(ErrorCode::invalid_state, "a queue pair in {} is not brought up to {}",
                to_string(state()), to_string(target));
  }
  return {};
}

void QueuePair::apply(const QpAttributes& attributes, std::uint32_t mask) {
  engine_.forget_plain_peer();
  const auto take = [&](std::uint32_t bit, auto member) {
    if ((mask & bit) != 0) attributes_.*member = attributes.*member;
  };
  take(kQpAccessFlags, &QpAttributes::qp_access_flags);
  take(kQpPkeyIndex, &QpAttributes::pkey_index);
  take(kQpPort, &QpAttributes::port_num);
  take(kQpQkey, &QpAttributes::qkey);
  take(kQpAv, &QpAttributes::ah_attr);
  take(kQpPathMtu, &QpAttributes::path_mtu);
  take(kQpTimeout, &QpAttributes::timeout);
  take(kQpRetryCnt, &QpAttributes::retry_cnt);
  take(kQpRnrRetry, &QpAttributes::rnr_retry);
  take(kQpRqPsn, &QpAttributes::rq_psn);
  take(kQpMaxQpRdAtomic, &QpAttributes::max_rd_atomic);
  take(kQpMinRnrTimer, &QpAttributes::min_rnr_timer);
  take(kQpSqPsn, &QpAttributes::sq_psn);
  take(kQpMaxDestRdAtomic, &QpAttributes::max_dest_rd_atomic);
  take(kQpDestQpn, &QpAttributes::dest_qp_num);
  if ((mask & kQpPkeyIndex) != 0) pkey_ = *engine_.query_pkey(attributes.pkey_index);
  if ((mask & kQpEnSqdAsyncNotify) != 0) sqd_notify_ = true;
  if ((mask & (kQpAv | kQpDestQpn)) != 0) configure_flow();
  if ((mask & kQpMaxDestRdAtomic) != 0) {
    transport_.responder->set_resources(attributes_.max_dest_rd_atomic);
  }
}

void QueuePair::assign(wire::Qpn number, ProtectionDomain pd, SharedReceiveQueue* srq,
                       CompletionQueue* recv_cq) {
  assert(state() == QpState::reset);
  number_ = number;
  init_.pd = pd;
  init_.recv_cq = recv_cq;
  srq_ = srq;
}

void QueuePair::forget_path() {
  if (pacer_ != nullptr) pacer_->reset();
}

void QueuePair::configure_flow() {
  flow_ = stack::Flow{};
  // Both numbers: equal-cost paths and receive-side scaling spread connections.
  flow_.config = flow_config(attributes_.ah_attr,
                             std::uint64_t{number_.value} << 24 | attributes_.dest_qp_num.value);
  if (pacer_ != nullptr && pacer_->control().uses_ecn() &&
      (flow_.config.traffic_class & stack::kEcnMask) == 0) {
    flow_.config.traffic_class |= stack::kEcnEct0;
  }
  // Look for the next hop now, so that the first request need not wait.
  (void)engine_.config_.host->resolve(flow_, engine_.now_ns_);
}

QpSummary QueuePair::summary() const {
  return {.number = number_,
          .type = init_.qp_type,
          .state = told_state_.load(std::memory_order_relaxed),
          .sent = transport_.requester->told_psn(),
          .received = transport_.responder->told_psn()};
}

void QueuePair::enter_state(QpState next) {
  const QpState previous = state();
  trace(TraceEvent::qp_state, static_cast<std::uint32_t>(previous),
        static_cast<std::uint32_t>(next));
  attributes_.qp_state = next;
  told_state_.store(next, std::memory_order_relaxed);
  ++engine_.state_changes_;
  engine_.forget_plain_peer();
  switch (next) {
    case QpState::reset:
      send_queue_.clear();
      recv_queue_.clear();
      posted_lock_ = PostedLock::none;
      transport_.requester->reset({});
      transport_.responder->reset({});
      attributes_ = QpAttributes{};
      pkey_ = *engine_.query_pkey(attributes_.pkey_index);
      sqd_notify_ = established_ = false;
      next_cnp_ns_ = 0;
      Engine::NotificationPoint::forget(*this);
      forget_path();
      if (selective_repeat_ != nullptr) selective_repeat_->reset();
      if (adaptive_timeout_ != nullptr) adaptive_timeout_->reset();
      engine_.unschedule(*this);
      break;
    case QpState::rtr:
      transport_.responder->reset(attributes_.rq_psn);
      break;
    case QpState::rts:
      if (previous == QpState::rtr) transport_.requester->reset(attributes_.sq_psn);
      engine_.schedule(*this);
      break;
    case QpState::sqd:
      if (transport_.requester->drained()) on_drained();
      break;
    case QpState::err:
      transport_.requester->stop();
      transport_.responder->stop();
      flush_send_queue();
      flush_recv_queue();
      if (init_.srq != nullptr) {
        engine_.raise({.type = AsyncEventType::qp_last_wqe_reached, .qp_num = number_});
      }
      break;
    case QpState::sqe:
      sqd_notify_ = false;
      flush_send_queue();
      break;
    case QpState::init:
      break;
  }
  attributes_.cur_qp_state = attributes_.qp_state;
}

Expected<void> QueuePair::set_congestion_control(const CongestionConfig& config) {
  CongestionConfig complete = config;
  complete.dcqcn = at_line_rate(config.dcqcn, engine_.config_.line_rate);
  if (complete.dcqcn.nak_cnp_period_ns == 0) {
    complete.dcqcn.nak_cnp_period_ns = engine_.config_.nak_cnp_period_ns;
  }
  if (auto checked = check_congestion_config(complete); !checked) return checked;
  auto control = make_congestion_control(complete);
  if (control == nullptr && config.algorithm != CongestionAlgorithm::none) {
    return fail(ErrorCode::invalid_argument, "no congestion control was made");
  }
  const bool has_acks =
      service_ == wire::ServiceClass::rc || init_.qp_type == QpType::extension_initiator;
  const bool possible = control == nullptr || has_acks || (is_connected() && !control->uses_acks());
  if (!possible) {
    return fail(ErrorCode::unsupported, "a queue pair of {} has no congestion control \"{}\"",
                to_string(init_.qp_type), to_string(config.algorithm));
  }
  pacer_.reset();
  if (control != nullptr) {
    pacer_ = std::make_unique<Pacer>(*this, complete, std::move(control),
                                     engine_.config_.max_unacked_packets);
  }
  if (is_connected() && state() != QpState::reset && state() != QpState::init) configure_flow();
  schedule();
  return {};
}

CongestionConfig QueuePair::congestion_control() const {
  return pacer_ == nullptr ? CongestionConfig{} : pacer_->config();
}

std::uint64_t QueuePair::congestion_rate(std::uint64_t now_ns) const {
  return pacer_ == nullptr ? kUnlimited : pacer_->control().rate(now_ns);
}

Expected<void> QueuePair::set_loss_recovery(const RecoveryConfig& config) {
  if (auto checked = check_recovery_config(config); !checked) return checked;
  if (state() != QpState::reset && state() != QpState::init) {
    return fail(ErrorCode::invalid_state, "loss recovery is chosen in RESET or INIT, not in {}",
                to_string(state()));
  }
  const bool selective = config.algorithm == RecoveryAlgorithm::selective_repeat;
  const bool has_timer = init_.qp_type == QpType::rc || init_.qp_type == QpType::xrc_send ||
                         init_.qp_type == QpType::extension_initiator;
  if ((selective && init_.qp_type != QpType::rc) || (config.adaptive_timeout && !has_timer)) {
    return fail(ErrorCode::unsupported, "a queue pair of {} has no {}", to_string(init_.qp_type),
                selective ? "selective repeat" : "retransmission timer");
  }
  selective_repeat_ =
      selective ? std::make_unique<SelectiveRepeat>(config.selective_repeat, engine_.held_packets_)
                : nullptr;
  adaptive_timeout_ =
      config.adaptive_timeout ? std::make_unique<RetransmissionTimeout>(config.timeout) : nullptr;
  return {};
}

RecoveryConfig QueuePair::loss_recovery() const {
  RecoveryConfig config;
  if (selective_repeat_ != nullptr) {
    config.algorithm = RecoveryAlgorithm::selective_repeat;
    config.selective_repeat = selective_repeat_->parameters();
  }
  if (adaptive_timeout_ != nullptr) {
    config.adaptive_timeout = true;
    config.timeout = adaptive_timeout_->parameters();
  }
  return config;
}

void QueuePair::schedule() { engine_.schedule(*this); }

QpAttributes QueuePair::query() const {
  QpAttributes attributes = attributes_;
  attributes.en_sqd_async_notify = sqd_notify_;
  attributes.sq_draining = state() == QpState::sqd && !transport_.requester->drained();
  if (state() == QpState::rts || state() == QpState::sqd || state() == QpState::sqe) {
    attributes.sq_psn = transport_.requester->next_psn();
  }
  if (state() != QpState::reset && state() != QpState::init) {
    attributes.rq_psn = transport_.responder->expected_psn();
  }
  return attributes;
}

Expected<void> QueuePair::drain(std::uint64_t send_wr_id, std::uint64_t recv_wr_id) {
  if (state() == QpState::reset) {
    return fail(ErrorCode::invalid_state, "a queue pair in RESET has nothing to drain");
  }
  if (state() != QpState::err) enter_state(QpState::err);
  if (init_.send_cq != nullptr) {
    SendWqe marker{};
    marker.wr_id = send_wr_id;
    complete_send(marker, WcStatus::wr_flush_err);
  }
  if (init_.srq == nullptr && init_.recv_cq != nullptr) complete_flushed_recv(recv_wr_id);
  return {};
}

[[gnu::always_inline]] inline PostResult QueuePair::check_send(const SendWr& wr,
                                                               std::uint64_t length) const {
  if (state() != QpState::rts && (state() == QpState::reset || state() == QpState::init ||
                                  state() == QpState::rtr)) [[unlikely]] {
    return PostResult::invalid_state;
  }
  if (!send_opcodes_.has(wr.opcode)) return PostResult::invalid_request;
  if (!plain_ && !says_where(wr)) return PostResult::invalid_request;
  if (send_queue_.full()) return PostResult::queue_full;
  if (wr.sg_list.size() > send_queue_.max_sge()) return PostResult::too_many_sges;
  // A SEND or WRITE if it is 0.
  const std::uint32_t kind = SendWqe::flags_of(wr.opcode);
  if ((wr.send_flags & kSendInline) != 0) {
    if (kind != 0 && wr.opcode != WrOpcode::atomic_write) return PostResult::invalid_request;
    if (length > init_.max_inline_data) return PostResult::inline_too_long;
  }
  if (length > kMaxMessageBytes) return PostResult::message_too_long;
  if (init_.lock_execution && !check_lock_order(wr)) [[unlikely]] {
    return PostResult::invalid_request;
  }
  return kind == 0 ? PostResult::ok : check_special(wr, length);
}

/// The address of a datagram, the SRQ of an XRC message.
bool QueuePair::says_where(const SendWr& wr) const {
  if (!is_connected() &&
      (wr.ah == nullptr || wr.ah->pd() != init_.pd || !reaches(wr.remote_qpn, *wr.ah) ||
       (number_ == wire::kGsiQpn && !engine_.pkeys_.valid_at(wr.pkey_index)))) {
    return false;
  }
  return init_.qp_type != QpType::xrc_send || wr.remote_srqn <= wire::kMask24;
}

/// What a request has to say that is no SEND or WRITE.
PostResult QueuePair::check_special(const SendWr& wr, std::uint64_t length) const {
  const std::uint32_t kind = SendWqe::flags_of(wr.opcode);
  const bool word = kAtomics.has(wr.opcode) || wr.opcode == WrOpcode::atomic_write;
  const bool response = (kind & SendWqe::kHasResponse) != 0;
  if ((word && (length != 8 || wr.remote_addr % 8 != 0)) ||
      (response && state() != QpState::err && attributes_.max_rd_atomic == 0)) {
    return PostResult::invalid_request;
  }
  const bool empty_list =
      (kind & (SendWqe::kLocal | SendWqe::kLock)) != 0 || wr.opcode == WrOpcode::flush;
  return empty_list ? check_memory_request(wr) : PostResult::ok;
}

/// Checks requests without a scatter/gather list.
PostResult QueuePair::check_memory_request(const SendWr& wr) const {
  const bool reserved_type = (wr.flush.placement_type & ~3u) != 0 || wr.flush.placement_type == 0;
  const bool bad_flush =
      wr.opcode == WrOpcode::flush &&
      (reserved_type || wr.flush.selectivity_level > 1 || wr.flush.length > kMaxMessageBytes);
  return wr.sg_list.empty() && !bad_flush ? PostResult::ok : PostResult::invalid_request;
}

PostResult QueuePair::post_send(const SendWr& wr) {
  if (enqueue_plain(wr)) [[likely]] {
    return PostResult::ok;
  }
  return wr.opcode == WrOpcode::bind_mw ? bind_mw_2(wr) : enqueue(wr);
}

/// What enqueue() does, for what nearly all requests are: a valid one of one element that is not
/// inline, on a queue pair that sends. Returns false, with nothing done, for others.
[[gnu::always_inline]] inline bool QueuePair::enqueue_plain(const SendWr& wr) {
  if (wr.sg_list.size() != 1 || (wr.send_flags & kSendInline) != 0 || !plain_ || traced_ ||
      state() != QpState::rts || !send_opcodes_.has(wr.opcode) || send_queue_.full() ||
      send_queue_.max_sge() == 0) {
    return false;
  }
  const Sge& sge = wr.sg_list.front();
  if (sge.length > kMaxMessageBytes) return false;
  if (SendWqe::flags_of(wr.opcode) != 0 &&
      (wr.opcode != WrOpcode::rdma_read || attributes_.max_rd_atomic == 0) &&
      check_special(wr, sge.length) != PostResult::ok) {
    return false;
  }
  send_queue_.next().begin(wr, kind_of(wr.opcode), sge.length);
  send_queue_.sges(send_queue_.tail()).front() = sge;
  send_queue_.push();
  engine_.schedule(*this);
  return true;
}

PostResult QueuePair::enqueue(const SendWr& wr) {
  const std::uint64_t length = total_length(wr.sg_list);
  if (const PostResult result = check_send(wr, length); result != PostResult::ok) return result;
  SendWqe& wqe = send_queue_.next();
  wqe.begin(wr, is_connected() ? kind_of(wr.opcode) : RequestKind::datagram,
            static_cast<std::uint32_t>(length));
  if (!plain_) fill_special(wr, wqe);
  const std::uint64_t sequence = send_queue_.tail();
  if ((wr.send_flags & kSendInline) == 0 && wr.sg_list.size() == 1) [[likely]] {
    send_queue_.sges(sequence).front() = wr.sg_list.front();
  } else {
    copy_list(wr);
  }
  send_queue_.push();
  trace(TraceEvent::request_posted, static_cast<std::uint32_t>(wr.opcode), wqe.length);
  if (state() != QpState::rts && (state() == QpState::err || state() == QpState::sqe)) {
    flush_send_queue();
  } else {
    engine_.schedule(*this);
  }
  return PostResult::ok;
}

/// Copies the scatter/gather list, or the bytes that it names, for the request that is to be
/// pushed.
[[gnu::noinline]] void QueuePair::copy_list(const SendWr& wr) {
  const std::uint64_t sequence = send_queue_.tail();
  if ((wr.send_flags & kSendInline) == 0) {
    std::copy(wr.sg_list.begin(), wr.sg_list.end(), send_queue_.sges(sequence).begin());
    return;
  }
  std::byte* to = send_queue_.extra(sequence).data();
  for (const Sge& sge : wr.sg_list) {
    if (sge.length > 0) {
      std::memcpy(to, reinterpret_cast<const void*>(sge.addr), sge.length);
      to += sge.length;
    }
  }
}

void QueuePair::fill_special(const SendWr& wr, SendWqe& wqe) {
  if (kMaskedAtomics.has(wr.opcode)) {
    const bool swap = is_compare_swap(wr.opcode);
    SendWqeExtension& masks = extension(send_queue_.tail());
    masks.compare_mask = swap ? wr.compare_add_mask : 0;
    masks.mask = swap ? wr.swap_mask : wr.compare_add_mask;
  }
  if (wqe.is_lock()) wqe.length = fill_lock(wr, lock_wqe(send_queue_.tail()));
  if (init_.lock_execution) note_lock_order(wr, wqe);
  if (init_.qp_type == QpType::xrc_send) extension(send_queue_.tail()).remote_srqn = wr.remote_srqn;
}

/// Packets of services of which this is one half; else those of ours that both ends have agreed on.
bool QueuePair::serves_special(const wire::OpcodeInfo& opcode) const {
  if (half_ && opcode.service == service_) return opcode.is_request == only_responds(init_.qp_type);
  switch (opcode.operation) {
    case wire::Operation::extended_atomic:
      return init_.extended_atomics;
    case wire::Operation::selective_acknowledge:
      return repeats_selectively();
    case wire::Operation::lock_request:
    case wire::Operation::lock_response:
      return init_.lock_execution;
    default:
      return false;
  }
}

PostResult QueuePair::post_recv(const RecvWr& wr) {
  if (state() == QpState::reset) return PostResult::invalid_state;
  if (init_.srq != nullptr || is_half(init_.qp_type)) return PostResult::invalid_request;
  if (const PostResult result = post_receive(recv_queue_, wr); result != PostResult::ok) {
    return result;
  }
  if (state() == QpState::err) {
    flush_recv_queue();
  } else {
    transport_.responder->on_receive_posted();
  }
  return PostResult::ok;
}

bool QueuePair::select_srq(std::uint32_t number, bool starts) {
  SharedReceiveQueue* srq = engine_.find_srq(number);
  if (srq != nullptr && srq->xrcd() != init_.xrcd) srq = nullptr;
  if (srq == nullptr || (!starts && srq != srq_)) return false;
  srq_ = srq;
  return true;
}

void QueuePair::forget_srq(const SharedReceiveQueue& srq) {
  if (srq_ != &srq) return;
  if (!recv_queue_.empty()) {
    fail_for_good();  // a message for it is half way here
  }
  srq_ = init_.srq;
}

void QueuePair::prefetch() const { prefetch_bytes(this, sizeof *this); }

void QueuePair::prefetch_transport() const { transport_.prefetch(); }

PacketBuilder QueuePair::start_packet(wire::Headers& headers, std::uint32_t payload_length) const {
  headers.bth.pkey = pkey_;
  if (transport_.prefix != nullptr) [[unlikely]] {
    transport_.prefix->add_to(headers);
  }
  return {engine_.config_.packet_pool, *engine_.config_.host, flow_, headers, payload_length};
}

rte_mbuf* QueuePair::build_acknowledge(wire::Bth& bth, const wire::Aeth& aeth) const {
  bth.pkey = pkey_;
  return roce::build_acknowledge(engine_.config_.packet_pool, *engine_.config_.host, flow_, bth,
                                 aeth);
}

void QueuePair::enter_error() {
  if (state() != QpState::err) enter_state(QpState::err);
}

void QueuePair::fail_for_good() {
  if (state() == QpState::err) return;
  engine_.raise({.type = AsyncEventType::qp_fatal, .qp_num = number_});
  enter_error();
}

void QueuePair::fail_send(WcStatus status) {
  const SendWqe wqe = send_queue_.front();
  send_queue_.pop();
  complete_send(wqe, status);
  enter_state(QpState::sqe);
}

void QueuePair::flush_send_queue() {
  if (init_.lock_execution) flush_scopes();
  while (!send_queue_.empty()) {
    const SendWqe wqe = send_queue_.front();
    send_queue_.pop();
    complete_send(wqe, WcStatus::wr_flush_err);
  }
  transport_.requester->stop();
}

void QueuePair::flush_recv_queue() {
  while (!recv_queue_.empty()) {
    const std::uint64_t wr_id = recv_queue_.front().wr_id;
    recv_queue_.pop();
    complete_flushed_recv(wr_id);
  }
}

void QueuePair::complete_flushed_recv(std::uint64_t wr_id) {
  complete_recv({.wr_id = wr_id,
                 .status = WcStatus::wr_flush_err,
                 .opcode = WcOpcode::recv,
                 .qp_num = number_},
                false);
}

void QueuePair::complete_send(const SendWqe& wqe, WcStatus status) {
  trace(TraceEvent::request_done, static_cast<std::uint32_t>(status),
        static_cast<std::uint32_t>(wqe.wr_id));
  const bool signaled = (wqe.flags & kSendSignaled) != 0 || init_.sq_sig_all;
  if (status == WcStatus::success) {
    engine_.counters_.rdma_sends.add(wqe.is_local() ? 0 : 1);
    if (!signaled) return;
  } else if (status == WcStatus::lock_failed || status == WcStatus::lock_flushed ||
             (status == WcStatus::outcome_unknown && wqe.of_lock())) {
    if (!signaled) return;  // the queue pair goes on, and the scope's own completion tells of it
  } else if (status == WcStatus::loc_prot_err || status == WcStatus::loc_len_err) {
    engine_.counters_.local_errors.add();
  }
  const Completion completion{
      .wr_id = wqe.wr_id,
      .status = status,
      .opcode = wc_opcode(wqe.opcode),
      .byte_len = wqe.has_response() && (wqe.is_read() || wqe.is_atomic()) ? wqe.length : 0,
      .qp_num = number_};
  if (!init_.send_cq->push(completion, false)) engine_.on_cq_overrun(*init_.send_cq);
}

void QueuePair::complete_sends(std::uint32_t count) {
  engine_.counters_.rdma_sends.add(count);
  std::uint64_t sequence = send_queue_.head();
  const std::uint64_t end = sequence + count;
  std::uint32_t lost = init_.send_cq->push_sends([&](Completion& completion) {
    while (sequence != end) {
      const SendWqe& wqe = send_queue_.at(sequence++);
      trace(TraceEvent::request_done, static_cast<std::uint32_t>(WcStatus::success),
            static_cast<std::uint32_t>(wqe.wr_id));
      if ((wqe.flags & kSendSignaled) == 0 && !init_.sq_sig_all) continue;
      // Made in its place, which an assignment would copy it to.
      new (&completion) Completion{.wr_id = wqe.wr_id,
                                   .opcode = wc_opcode(wqe.opcode),
                                   .byte_len = wqe.has_response() ? wqe.length : 0,
                                   .qp_num = number_};
      return true;
    }
    return false;
  });
  for (; lost > 0; --lost) {
    engine_.on_cq_overrun(*init_.send_cq);
  }
}

void QueuePair::complete_recv(const Completion& completion, bool solicited) {
  CompletionQueue& cq = *recv_cq();
  if (!cq.push(completion, solicited)) engine_.on_cq_overrun(cq);
}

MemoryStatus QueuePair::scatter_to_receive(std::uint64_t offset, const MbufBytes& payload) {
  const auto list = recv_queue_.sges(recv_queue_.head()).first(recv_queue_.front().num_sge);
  return scatter(engine_.memory_, receive_pd(), list, offset, payload);
}

/// What only some messages say.
void QueuePair::add_details(const RxPacket& packet, Completion& completion) const {
  const wire::Headers& headers = packet.headers;
  if (headers.opcode->has_immediate) {
    completion.wc_flags |= kWcWithImm;
    completion.imm_data = headers.imm_dt.data;
  }
  if (headers.opcode->has_invalidate) {
    completion.wc_flags |= kWcWithInv;
    completion.invalidated_rkey = MemoryKey{headers.ieth.rkey};
  }
  if (headers.opcode->has(wire::Header::deth)) {
    completion.wc_flags |= kWcGrh;
    completion.is_ipv6 = packet.is_ipv6();
    completion.src_qp = headers.deth.source;
    if (number_ == wire::kGsiQpn) {
      completion.pkey_index = engine_.pkeys_.find(headers.bth.pkey).value_or(0);
    }
  }
}

void QueuePair::finish_receive(const RxPacket& packet, WcOpcode opcode, std::uint32_t length) {
  const wire::Headers& headers = packet.headers;
  Completion completion{
      .wr_id = recv_queue_.front().wr_id, .opcode = opcode, .byte_len = length, .qp_num = number_};
  if (headers.opcode->has(wire::Header::imm_dt | wire::Header::ieth | wire::Header::deth)) {
    add_details(packet, completion);
  }
  recv_queue_.pop();
  engine_.counters_.rdma_recvs.add();
  complete_recv(completion, headers.bth.solicited);
}

void QueuePair::finish_plain_receive(std::uint32_t length, bool solicited) {
  const std::uint64_t wr_id = recv_queue_.front().wr_id;
  recv_queue_.pop();
  engine_.counters_.rdma_recvs.add();
  CompletionQueue& cq = *recv_cq();
  const auto make = [this, wr_id, length](Completion& completion) {
    new (&completion)
        Completion{.wr_id = wr_id, .opcode = WcOpcode::recv, .byte_len = length, .qp_num = number_};
  };
  if (!cq.push_made(make, solicited)) engine_.on_cq_overrun(cq);
}

void QueuePair::fail_receive(WcStatus status) {
  engine_.counters_.local_errors.add();
  const Completion completion{
      .wr_id = recv_queue_.front().wr_id, .status = status, .qp_num = number_};
  recv_queue_.pop();
  complete_recv(completion, false);
}

MemoryStatus QueuePair::append_payload(PacketBuilder& builder, std::uint64_t sequence,
                                       std::uint64_t offset, std::uint32_t length) {
  const SendWqe& wqe = send_queue_.at(sequence);
  if ((wqe.flags & kSendInline) != 0) {
    (void)builder.append(send_queue_.extra(sequence).data() + offset, length);
    return MemoryStatus::ok;
  }
  if (wqe.is_lock()) [[unlikely]] {
    (void)builder.append(reinterpret_cast<const std::byte*>(lock_wqe(sequence).body.data()),
                         length);
    return MemoryStatus::ok;
  }
  return for_each_piece(engine_.memory_, init_.pd, send_queue_.sges(sequence).first(wqe.num_sge),
                        offset, length, 0, [&builder](const std::byte* data, std::uint32_t piece) {
                          return builder.append(data, piece);
                        });
}

void QueuePair::on_drained() {
  if (sqd_notify_) {
    sqd_notify_ = false;
    engine_.raise({.type = AsyncEventType::sq_drained, .qp_num = number_});
  }
}

void QueuePair::tell(TraceEvent event, std::uint32_t a, std::uint32_t b) const {
  engine_.config_.trace->on_event(engine_.now_ns_, number_, event, a, b);
}

}  // namespace rockhopper::roce
