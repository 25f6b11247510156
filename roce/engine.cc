// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/engine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <iterator>
#include <string>

#include "roce/congestion/notification_point.h"
#include "roce/congestion/pacer.h"
#include "roce/extension.h"
#include "roce/extension_context.h"
#include "roce/packet_builder.h"
#include "roce/wire/crc32.h"
#include "stack/roce_locator.h"
#include "stack/steering.h"

namespace rockhopper::roce {
namespace {

constexpr std::uint32_t kIndexBits = 16;
constexpr std::uint64_t kTimerTickNs = 1024;
constexpr std::uint64_t kNoMbufRetryNs = 10'000;
/// Bytes of a packet on the wire beside its payload: preamble, check sequence and gap of Ethernet;
/// a BTH, a RETH and the ICRC.
constexpr std::uint32_t kEthernetOverhead = 24;
constexpr std::uint32_t kTransportOverhead = 12 + 16 + 4;
/// Packets that one queue pair may send before the next has its turn.
constexpr std::uint16_t kBurst = 32;
/// From here on their states no longer fit the caches next to a core.
constexpr std::size_t kManyQps = 256;

}  // namespace

Expected<std::unique_ptr<Engine>> Engine::create(const EngineConfig& config) {
  if (config.host == nullptr || config.packet_pool == nullptr || config.random == nullptr) {
    return fail(ErrorCode::invalid_argument,
                "an engine needs a host, a packet pool and a generator");
  }
  if (const std::string& error = wire::crc32_error(); !error.empty()) {
    return fail(ErrorCode::invalid_argument, "{}", error);
  }
  if (!std::has_single_bit(config.shards) || config.shards > stack::kShardsMax ||
      config.shard >= config.shards) {
    return fail(ErrorCode::invalid_argument,
                "the shards of a port are a power of two up to {} and counted from 0, not {} of {}",
                stack::kShardsMax, config.shard, config.shards);
  }
  // One place is kept for queue pair 1.
  const std::uint32_t max_qp = (1u << kIndexBits) / config.shards - 1;
  if (config.max_qp == 0 || config.max_qp > max_qp) {
    return fail(ErrorCode::invalid_argument, "an engine has 1 to {} queue pairs, not {}", max_qp,
                config.max_qp);
  }
  if (config.max_ah == 0 || config.max_ah > (1u << kIndexBits)) {
    return fail(ErrorCode::invalid_argument, "an engine has 1 to {} address handles, not {}",
                1u << kIndexBits, config.max_ah);
  }
  if (config.cnp.dscp > 63 || config.cnp.priority > 7) {
    return fail(ErrorCode::invalid_argument,
                "CNPs have a DSCP of 0 to 63 and a priority of 0 to 7, not {} and {}",
                config.cnp.dscp, config.cnp.priority);
  }
  if (config.max_unacked_packets == 0 || config.max_unacked_packets > (1u << 16)) {
    return fail(ErrorCode::invalid_argument, "1 to {} packets can be unacknowledged, not {}",
                1u << 16, config.max_unacked_packets);
  }
  auto pkeys = PkeyTable::create(config.pkeys);
  if (!pkeys) return tl::make_unexpected(pkeys.error());
  return std::unique_ptr<Engine>(new Engine(config, *pkeys));
}

Engine::Engine(const EngineConfig& config, const PkeyTable& pkeys)
    : config_(config),
      shard_bits_(std::countr_zero(config.shards)),
      memory_(*config.random, config.pager),
      timers_(kTimerTickNs),
      held_packets_{.limit = config.max_held_packets},
      pkeys_(pkeys),
      overrun_timer_([](void* self,
                        std::uint64_t) { static_cast<Engine*>(self)->fail_users_of_overrun_cqs(); },
                     this),
      notifications_(std::make_unique<NotificationPoint>(*this)) {
  config_.host->bind_udp(stack::kRoceUdpPort, this);
  config_.host->set_observer(this);
}

Engine::~Engine() {
  config_.host->bind_udp(stack::kRoceUdpPort, nullptr);
  config_.host->set_observer(nullptr);
  for (const auto& qp : qps_) {
    if (qp != nullptr && config_.qpns != nullptr) config_.qpns->release(qp->number());
  }
  ready_.clear();
  next_turn_.clear();
  waiting_.clear();
}

ProtectionDomain Engine::allocate_pd() {
  pds_.push_back({next_pd_++});
  return pds_.back();
}

bool Engine::has_pd(ProtectionDomain pd) const {
  return std::find(pds_.begin(), pds_.end(), pd) != pds_.end();
}

Expected<void> Engine::deallocate_pd(ProtectionDomain pd) {
  const auto found = std::find(pds_.begin(), pds_.end(), pd);
  if (found == pds_.end()) return fail(ErrorCode::not_found, "no such protection domain");
  const auto used_by = [pd](const auto& objects) {
    return std::any_of(objects.begin(), objects.end(), [pd](const auto& object) {
      return object != nullptr && object->pd() == pd;
    });
  };
  if (used_by(qps_) || used_by(extension_qps_) || used_by(srqs_) || used_by(ahs_) ||
      (extension_ != nullptr && extension_->uses(pd)) || memory_.regions_of(pd) > 0) {
    return fail(ErrorCode::busy,
                "the protection domain still has queue pairs, DC targets, shared receive queues, "
                "address handles, memory regions or windows");
  }
  pds_.erase(found);
  return {};
}

Expected<MemoryRegion> Engine::register_memory(ProtectionDomain pd, void* base,
                                               std::uint64_t length, std::uint32_t access) {
  const bool zero_based = (access & kAccessZeroBased) != 0;
  return register_memory_iova(pd, base, length, access & ~std::uint32_t{kAccessZeroBased},
                              zero_based ? 0 : reinterpret_cast<std::uintptr_t>(base));
}

Expected<MemoryRegion> Engine::register_memory_iova(ProtectionDomain pd, void* base,
                                                    std::uint64_t length, std::uint32_t access,
                                                    std::uint64_t iova) {
  ROCKHOPPER_TRY(check_memory(pd, access));
  return memory_.register_region(pd, base, length, access, iova);
}

Expected<void> Engine::check_memory(ProtectionDomain pd, std::uint32_t access) const {
  if (!has_pd(pd)) return fail(ErrorCode::not_found, "no such protection domain");
  if ((access & kAccessFlushPersistent) != 0 && config_.persistence == nullptr) {
    return fail(ErrorCode::unsupported, "the engine knows no way to make memory persistent");
  }
  return {};
}

Expected<void> Engine::change_memory(MemoryKey key, ProtectionDomain pd, void* base,
                                     std::uint64_t length, std::uint32_t access,
                                     std::uint64_t iova) {
  ROCKHOPPER_TRY(check_memory(pd, access));
  return memory_.change_region(key, pd, base, length, access, iova);
}

Expected<void> Engine::deregister_memory(MemoryKey key) { return memory_.deregister(key); }

Expected<MemoryRegion> Engine::allocate_fast_memory(ProtectionDomain pd, std::uint64_t max_length) {
  if (!has_pd(pd)) return fail(ErrorCode::not_found, "no such protection domain");
  return memory_.allocate_fast_region(pd, max_length);
}

Expected<MemoryWindow> Engine::allocate_window(ProtectionDomain pd, MemoryKind type) {
  if (!has_pd(pd)) return fail(ErrorCode::not_found, "no such protection domain");
  return memory_.allocate_window(pd, type);
}

Expected<void> Engine::deallocate_window(MemoryKey rkey) { return memory_.deallocate_window(rkey); }

Expected<void> Engine::check_qp_init(const QpInit& init) const {
  if (init.qp_type != QpType::xrc_recv && !has_pd(init.pd)) {
    return fail(ErrorCode::not_found, "no such protection domain");
  }
  if (!service_of(init.qp_type) || is_of_extension(init.qp_type)) {
    return fail(ErrorCode::unsupported, "no queue pairs of type {}",
                static_cast<unsigned>(init.qp_type));
  }
  if (auto checked = check_xrc(init); !checked) return checked;
  if (!is_xrc(init.qp_type) && (init.send_cq == nullptr || init.recv_cq == nullptr)) {
    return fail(ErrorCode::invalid_argument, "a queue pair needs two completion queues");
  }
  if (auto checked = check_sizes(init); !checked) return checked;
  if (auto checked = check_receive_side(init); !checked) {
    return tl::make_unexpected(checked.error());
  }
  const auto overrun = [](const CompletionQueue* cq) { return cq != nullptr && cq->overrun(); };
  if (overrun(init.send_cq) || overrun(init.recv_cq)) {
    return fail(ErrorCode::invalid_state, "the completion queue is in error after an overrun");
  }
  if (qp_count_ == config_.max_qp) {
    return fail(ErrorCode::exhausted, "all {} queue pairs are in use", config_.max_qp);
  }
  return {};
}

Expected<void> Engine::check_sizes(const QpInit& init) {
  if (init.max_send_wr == 0 || init.max_send_wr > kMaxQpWr || init.max_recv_wr > kMaxQpWr ||
      init.max_send_sge == 0 || init.max_send_sge > kMaxSge || init.max_recv_sge == 0 ||
      init.max_recv_sge > kMaxSge || init.max_inline_data > kMaxInlineBytes) {
    return fail(ErrorCode::invalid_argument,
                "a queue pair has 1 to {} requests a queue, 1 to {} elements a request and up to "
                "{} bytes inline",
                kMaxQpWr, kMaxSge, kMaxInlineBytes);
  }
  return {};
}

Expected<QueuePair*> Engine::create_qp(const QpInit& init) {
  if (auto checked = check_qp_init(init); !checked) return tl::make_unexpected(checked.error());
  ROCKHOPPER_TRY(const wire::Qpn number, choose_qpn());
  return add_qp(number, init);
}

Expected<QueuePair*> Engine::create_gsi_qp(const QpInit& init) {
  if (auto checked = check_qp_init(init); !checked) return tl::make_unexpected(checked.error());
  if (init.qp_type != QpType::ud) {
    return fail(ErrorCode::invalid_argument, "queue pair 1 is one of UD, not of {}",
                to_string(init.qp_type));
  }
  if (!has_gsi()) {
    return fail(ErrorCode::unsupported, "queue pair 1 belongs to shard {} of this port",
                wire::kGsiQpn.value & (config_.shards - 1u));
  }
  if (find_qp(wire::kGsiQpn) != nullptr) {
    return fail(ErrorCode::busy, "queue pair 1 exists already");
  }
  if (!claim(wire::kGsiQpn)) {
    return fail(ErrorCode::busy, "another process of this port has queue pair 1");
  }
  grow_qp_table(index_of(wire::kGsiQpn.value) + 1);
  return add_qp(wire::kGsiQpn, init);
}

QueuePair* Engine::add_qp(wire::Qpn number, const QpInit& init) {
  if (init.lock_execution) need_locks();
  auto& slot = qps_[index_of(number.value)];
  slot.reset(new QueuePair(*this, number, init, [type = init.qp_type](QueuePair& qp) {
    return make_transport(type, qp);
  }));
  count_users(init, 1);
  ++qp_count_;
  if (config_.qp_observer != nullptr) config_.qp_observer->on_created(*slot);
  return slot.get();
}

/// Counts the users of the objects that a queue pair uses.
void Engine::count_users(const QpInit& init, int change) {
  for (CompletionQueue* cq : {init.send_cq, init.recv_cq}) {
    if (cq != nullptr) cq->count_users(change);
  }
  if (init.srq != nullptr) init.srq->count_users(change);
}

void Engine::grow_qp_table(std::size_t used) {
  // With few places an old number would soon come back: packets that are late, and people who read
  // captures, would take one queue pair for another.
  constexpr std::size_t kFirstSlots = 1024;
  const std::size_t slots_max = (std::size_t{1} << kIndexBits) >> shard_bits_;
  if (used * 2 > qps_.size() && qps_.size() < slots_max) {
    qps_.resize(std::clamp(std::max(qps_.size() * 2, used), kFirstSlots, slots_max));
  }
}

/// A free place of the table, at random, whose number no other engine of the port has.
Expected<wire::Qpn> Engine::choose_qpn() {
  grow_qp_table(qp_count_ + 1);
  const auto taken = [this](std::size_t index) {
    return qps_[index] != nullptr || (has_gsi() && index == index_of(wire::kGsiQpn.value));
  };
  while (true) {
    const std::size_t size = qps_.size();
    const std::size_t first = config_.random->below(size);
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t index = (first + i) % size;
      if (taken(index)) continue;
      const wire::Qpn number = random_qpn_at(index);
      if (claim(number)) return number;
    }
    grow_qp_table(size);
    if (qps_.size() == size) {
      return fail(ErrorCode::exhausted, "all numbers of queue pairs are in use");
    }
  }
}

/// Low bits: the shard. Then the place. High bits: random, so that an old number is not soon a live
/// one again. QPNs 0, 1 and 0xFFFFFF have meanings of their own.
wire::Qpn Engine::random_qpn_at(std::size_t index) {
  while (true) {
    const auto high = static_cast<std::uint32_t>(1 + config_.random->below(0xfe));
    const wire::Qpn number{high << kIndexBits | static_cast<std::uint32_t>(index << shard_bits_) |
                           config_.shard};
    if (!is_extension_qpn(number)) return number;
  }
}

void Engine::destroy_qp(QueuePair* qp) {
  assert(qp != nullptr && find_qp(qp->number()) == qp);
  if (config_.qp_observer != nullptr) config_.qp_observer->on_destroyed(*qp);
  detach_from_all(*qp);
  count_users(qp->init(), -1);
  std::erase_if(overrun_cqs_, [](const CompletionQueue* cq) { return !cq->is_used(); });
  std::erase_if(async_events_,
                [qp](const AsyncEvent& event) { return event.qp_num == qp->number(); });
  forget_plain_peer();
  --qp_count_;
  if (config_.qpns != nullptr) config_.qpns->release(qp->number());
  qps_[index_of(qp->number().value)].reset();
}

Expected<AddressHandle*> Engine::create_ah(ProtectionDomain pd, const AddressVector& av) {
  if (!has_pd(pd)) return fail(ErrorCode::not_found, "no such protection domain");
  if (auto checked = check_datagram_vector(av); !checked) {
    return tl::make_unexpected(checked.error());
  }
  if (!config_.host->owns(av.source)) {
    return fail(ErrorCode::invalid_argument, "{} is not an address of this host",
                av.source.to_string());
  }
  if (free_ahs_.empty()) {
    if (ahs_.size() == config_.max_ah) {
      return fail(ErrorCode::exhausted, "all {} address handles are in use", config_.max_ah);
    }
    free_ahs_.push_back(static_cast<std::uint16_t>(ahs_.size()));
    ahs_.emplace_back();
  }
  const std::uint16_t place = free_ahs_.back();
  free_ahs_.pop_back();
  auto& slot = ahs_[place];
  slot.reset(new AddressHandle(pd, av, ++ahs_made_ << kIndexBits | place));
  // Look for the next hop now, so that the first request need not wait.
  (void)config_.host->resolve(slot->flow(), now_ns_);
  return slot.get();
}

void Engine::destroy_ah(AddressHandle* ah) {
  assert(ah != nullptr && find_ah(ah->id()) == ah);
  const auto place = static_cast<std::uint16_t>(ah->id());
  ahs_[place].reset();
  free_ahs_.push_back(place);
}

stack::Resolution Engine::resolve_ah(AddressHandle& ah, std::uint64_t now_ns) {
  return config_.host->resolve(ah.flow(), now_ns);
}

AddressHandle* Engine::find_ah(std::uint64_t id) const {
  const std::size_t place = id & ((1u << kIndexBits) - 1);
  AddressHandle* ah = place < ahs_.size() ? ahs_[place].get() : nullptr;
  return ah != nullptr && ah->id() == id ? ah : nullptr;
}

wire::Psn Engine::random_psn() {
  return wire::Psn::make(static_cast<std::uint32_t>(config_.random->next()));
}

std::uint32_t Engine::max_path_mtu(std::uint32_t more) const {
  // IP, UDP, BTH, the longest extension headers with payload, ICRC: as RNICs and rxe reckon.
  constexpr std::uint32_t kOverhead = 80;
  std::uint32_t mtu = 256;
  while (mtu < 4096 && mtu * 2 + kOverhead + more <= config_.host->mtu()) {
    mtu *= 2;
  }
  return mtu;
}

void Engine::begin_receive(std::span<rte_mbuf* const> packets, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  forget_plain_peer();
  if (qp_count_ >= kManyQps) prefetch_receivers(packets);
}

void Engine::end_receive() {
  retire_answered();
  free_spent();
  if (locks_ != nullptr && !locks_->table.idle()) [[unlikely]] {
    locks_->table.run();
  }
  // One of the packets may have been the answer that these wait for.
  ready_.splice(ready_.end(), waiting_);
}

std::uint16_t Engine::transmit(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  timers_.advance(now_ns);
  if (locks_ != nullptr && !locks_->table.idle()) [[unlikely]] {
    locks_->table.run();
  }
  if (now_ns >= waiting_retry_ns_) {
    waiting_retry_ns_ = stack::kNever;
    ready_.splice(ready_.end(), waiting_);
  }
  ready_.splice(ready_.end(), next_turn_);
  std::uint16_t sent = 0;
  if (!notifications_->empty()) [[unlikely]] {
    const auto room = static_cast<std::uint16_t>(count - sent);
    sent = static_cast<std::uint16_t>(sent + transmit_cnps(packets + sent, room));
  }
  if (extension_ != nullptr && extension_->has_packets()) [[unlikely]] {
    const TransmitResult result =
        extension_->transmit(packets + sent, static_cast<std::uint16_t>(count - sent), now_ns);
    counters_.sent_bytes.add(result.bytes);
    sent = static_cast<std::uint16_t>(sent + result.count);
  }
  while (sent < count && !ready_.empty()) {
    QueuePair& qp = ready_.front();
    ready_.pop_front();
    prefetch_senders();
    if (qp.is_connected() && !resolve(qp)) continue;
    const auto room = std::min<std::uint16_t>(kBurst, static_cast<std::uint16_t>(count - sent));
    const TransmitResult result = qp.pacer_ == nullptr ? transmit_from(qp, packets + sent, room)
                                                       : transmit_paced(qp, packets + sent, room);
    counters_.sent_bytes.add(result.bytes);
    sent = static_cast<std::uint16_t>(sent + result.count);
    if (result.out_of_mbufs) {
      waiting_.push_back(qp);
      waiting_.splice(waiting_.end(), ready_);
      wait_until(now_ns + kNoMbufRetryNs);
      break;
    }
    if (result.unresolved) {
      waiting_.push_back(qp);
      wait_until(now_ns + kUnresolvedRetryNs);
    } else if (result.paced) {
      // Its pacer puts it back. Acknowledgements do not wait for that.
      if (qp.transport_.responder->has_replies() && !qp.transport_.responder->has_responses()) {
        next_turn_.push_back(qp);
      }
    } else if (result.count == room) {
      schedule(qp);
    } else if (qp.transport_.responder->has_replies()) {
      next_turn_.push_back(qp);
    }
  }
  if (qp_count_ >= kManyQps && !ready_.empty()) {
    ready_.front().transport_.requester->prefetch_requests();  // for the next call
  }
  counters_.sent_pkts.add(sent);
  return sent;
}

/// Before a queue pair sends: loads the state of those behind it, a step for each. What a step
/// reads is what the one before has loaded.
void Engine::prefetch_senders() const {
  if (qp_count_ < kManyQps || ready_.empty()) return;
  const QueuePair& next = ready_.front();
  next.prefetch_transport();
  if (&next != &ready_.back()) std::next(ready_.begin())->prefetch();
}

/// Returns false if the queue pair cannot send now; it then stands where it will be found again if
/// it has to.
bool Engine::resolve(QueuePair& qp) {
  switch (config_.host->resolve(qp.flow_, now_ns_)) {
    case stack::Resolution::ready:
      return true;
    case stack::Resolution::pending:
      waiting_.push_back(qp);
      wait_until(now_ns_ + kUnresolvedRetryNs);
      break;
    case stack::Resolution::unreachable:
      qp.transport_.responder->on_unreachable();
      qp.transport_.requester->on_unreachable(now_ns_);
      break;
  }
  return false;
}

void Engine::wait_until(std::uint64_t retry_ns) {
  waiting_retry_ns_ = std::min(waiting_retry_ns_, retry_ns);
}

/// Responses and requests share what may be sent; neither keeps the other from going on. An ACK
/// behind requests waits for the next call: it would only hold them up, at the peer too.
TransmitResult Engine::transmit_from(QueuePair& qp, rte_mbuf** packets, std::uint16_t count,
                                     bool requests_first) {
  TransmitResult result;
  const auto room = [&] { return static_cast<std::uint16_t>(count - result.count); };
  if (qp.transport_.responder->has_responses() && !requests_first) {
    result.add(
        qp.transport_.responder->transmit(packets, static_cast<std::uint16_t>((count + 1) / 2)));
  }
  if (!result.out_of_mbufs && room() > 0) {
    const std::uint16_t before = result.count;
    result.add(qp.transport_.requester->transmit(packets + result.count, room(), now_ns_));
    if (result.count > before && qp.transport_.responder->may_wait()) {
      qp.transport_.responder->defer();
      return result;
    }
  }
  if (!result.out_of_mbufs && room() > 0) {
    result.add(qp.transport_.responder->transmit(packets + result.count, room()));
  }
  return result;
}

/// transmit_from() as far as the queue pair's congestion control allows. With one packet at a time,
/// requests and responses take turns in going first.
TransmitResult Engine::transmit_paced(QueuePair& qp, rte_mbuf** packets, std::uint16_t count) {
  Pacer& pacer = *qp.pacer_;
  const std::uint32_t overhead = qp.flow_.header_length + kEthernetOverhead;
  const std::uint32_t packet_bytes = bytes(qp.attributes_.path_mtu) + kTransportOverhead + overhead;
  TransmitResult result;
  while (result.count < count) {
    pacer.begin_turn(now_ns_);
    const std::uint16_t allowed = pacer.allowance(packet_bytes, now_ns_);
    if (allowed == 0) {
      if (!qp.transport_.responder->has_responses()) {
        result.add(qp.transport_.responder->transmit(
            packets + result.count, static_cast<std::uint16_t>(count - result.count)));
      }
      pacer.wait();
      result.paced = true;
      break;
    }
    const auto room = std::min(allowed, static_cast<std::uint16_t>(count - result.count));
    const TransmitResult sent =
        transmit_from(qp, packets + result.count, room, allowed == 1 && pacer.take_turn());
    result.add(sent);
    if (sent.count > 0) pacer.on_sent(sent.bytes + std::uint64_t{sent.count} * overhead, now_ns_);
    // In line again: it begins something new, which is that turn's.
    if (sent.count < room || qp.is_linked()) break;
  }
  return result;
}

std::uint16_t Engine::transmit_cnps(rte_mbuf** packets, std::uint16_t count) {
  const TransmitResult result = notifications_->transmit(packets, count, now_ns_);
  counters_.sent_bytes.add(result.bytes);
  return result.count;
}

std::uint64_t Engine::next_deadline_ns() const {
  if (!ready_.empty() || !next_turn_.empty() || !notifications_->empty() ||
      (extension_ != nullptr && extension_->has_packets())) {
    return now_ns_;
  }
  return std::min(timers_.next_deadline_ns(), waiting_.empty() ? stack::kNever : waiting_retry_ns_);
}

void Engine::unschedule(QueuePair& qp) {
  if (qp.is_linked()) qp.unlink();
}

void Engine::count_drop(DropReason reason, const rte_mbuf* packet) {
  counters_.drops[static_cast<std::size_t>(reason)].add();
  if (config_.drop_observer != nullptr) config_.drop_observer->on_drop(packet, to_string(reason));
}

/// Its queue pairs fail once the call that is under way has left them alone.
void Engine::on_cq_overrun(const CompletionQueue& cq) {
  counters_.cq_overrun.add();
  if (std::find(overrun_cqs_.begin(), overrun_cqs_.end(), &cq) == overrun_cqs_.end()) {
    overrun_cqs_.push_back(&cq);
    raise({.type = AsyncEventType::cq_err, .cq = &cq});
  }
  timers_.arm(overrun_timer_, now_ns_);
}

void Engine::fail_users_of_overrun_cqs() {
  const auto fail = [this](const auto& qp) {
    const auto uses = [&qp](const CompletionQueue* cq) {
      return qp->init().send_cq == cq || qp->recv_cq() == cq;
    };
    if (qp != nullptr && qp->state() != QpState::reset &&
        std::any_of(overrun_cqs_.begin(), overrun_cqs_.end(), uses)) {
      qp->fail_for_good();
    }
  };
  std::ranges::for_each(qps_, fail);
  std::ranges::for_each(extension_qps_, fail);
}

void Engine::visit_counters(void (*visit)(void*, const char*, std::uint64_t), void* context) const {
#define X(name, text) visit(context, #name, counters_.name.value());
  ROCKHOPPER_ENGINE_COUNTERS(X)
#undef X
#define X(name, text)           \
  visit(context, "drop_" #name, \
        counters_.drops[static_cast<std::size_t>(DropReason::name)].value());
  ROCKHOPPER_DROP_REASONS(X)
#undef X
}

void Engine::describe_counters(void (*visit)(void*, const char*, const char*), void* context) {
#define X(name, text) visit(context, #name, text);
  ROCKHOPPER_ENGINE_COUNTERS(X)
#undef X
#define X(name, text) visit(context, "drop_" #name, text);
  ROCKHOPPER_DROP_REASONS(X)
#undef X
}

}  // namespace rockhopper::roce
