// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks executed here for the peer: acquire, release, cancel, and what becomes of the requests of a
// scope. docs/locks.md has the states as a picture.
#include <algorithm>
#include <array>

#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "roce/rc/responder.h"
#include "roce/segmentation.h"
#include "roce/wire/timer_code.h"
#include "stack/time_units.h"

namespace rockhopper::roce::rc {

using lock::Claim;
using lock::Scope;
using wire::Lketh;
using wire::LockCause;
using wire::LockStatus;
using wire::NakCode;
using wire::Operation;
using Statistics = lock::Region::Statistics;

namespace {

/// PSNs that a request packet takes.
std::uint32_t psns_of(const wire::Headers& headers, std::uint32_t mtu) {
  return headers.opcode->operation == Operation::rdma_read_request
             ? packets_of(headers.reth.length, mtu)
             : 1;
}

/// The fixed-size structure at `offset` of a payload that holds it.
template <typename Structure>
Structure read_at(const MbufBytes& payload, std::uint32_t offset) {
  std::array<std::uint8_t, Structure::kSize> bytes;
  copy_from_mbuf({payload.packet, payload.offset + offset, Structure::kSize},
                 reinterpret_cast<std::byte*>(bytes.data()));
  return Structure::parse(bytes);
}

bool is_acquire(std::uint8_t subtype) {
  return subtype == Lketh::kAcquireExclusive || subtype == Lketh::kAcquireShared ||
         subtype == Lketh::kAcquireSeveral || subtype == Lketh::kAcquireForeign;
}

bool is_release(std::uint8_t subtype) {
  return subtype == Lketh::kRelease || subtype == Lketh::kReleaseForeign;
}

/// The payload is as long as the subtype says.
bool has_right_payload(std::uint8_t subtype, std::uint32_t length) {
  switch (subtype) {
    case Lketh::kAcquireSeveral:
      return length > 0 && length % wire::LockWord::kSize == 0 &&
             length / wire::LockWord::kSize < lock::kMaxClaims;
    case Lketh::kAcquireForeign:
    case Lketh::kReleaseForeign:
      return length == wire::LockOperation::kSize;
    default:
      return length == 0;
  }
}

}  // namespace

std::unique_ptr<Scope> Responder::make_scope() {
  qp_.engine_.locks_->add_queue_pair();
  return std::make_unique<Scope>(
      [](void* self, LockCause cause, std::uint64_t) {
        static_cast<Responder*>(self)->decide(cause);
      },
      [](void* self, std::uint64_t now_ns) {
        static_cast<Responder*>(self)->on_scope_timer(now_ns);
      },
      this);
}

void Responder::execute_lock(const RxPacket& packet) {
  const std::uint8_t subtype = packet.headers.lketh.subtype;
  const bool known = is_acquire(subtype) || is_release(subtype) || subtype == Lketh::kCancel;
  if (!known || scope_ == nullptr || !has_right_payload(subtype, packet.payload.length) ||
      (qp_.attributes_.qp_access_flags & kAccessRemoteAtomic) == 0 || !resources_.has_place()) {
    refuse(NakCode::invalid_request, packet);
  } else if (is_acquire(subtype)) {
    execute_acquire(packet);
  } else if (is_release(subtype)) {
    execute_release(packet);
  } else {
    execute_cancel(packet);
  }
}

void Responder::execute_acquire(const RxPacket& packet) {
  Scope& scope = *scope_;
  const Lketh& request = packet.headers.lketh;
  // One that was told to come again goes on; its memory may have gone meanwhile.
  const bool again = scope.asked_again && request == scope.request;
  if (!again) {
    scope.waiter.reset({.tries = request.max_tries, .fifo = (request.flags & Lketh::kFifo) != 0});
  }
  if (const auto refusal = collect_claims(packet)) {
    refuse(*refusal, packet);
    return;
  }
  if (!again) {
    qp_.engine_.counters_.rx_lock_requests.add();
    scope.request = request;
    scope.last = expected_psn_ + request.scope_psns;
    scope.read_bytes = 0;
    scope.deadline_ns = wait_deadline_ns();
  }
  if (scope.has(Lketh::kStoreForward) && !scope.has(Lketh::kResend) && scope.has_scope()) {
    gather(packet);
    return;
  }
  if (const auto cause = ask(again)) {
    decide(*cause);
  } else if (scope.has(Lketh::kResend) || !wait()) {
    scope.asked_again = true;  // else there is no room to wait now
    rnr_nak(packet);
  }
}

/// Nothing: it may wait.
std::optional<LockCause> Responder::ask(bool again) {
  lock::LockTable& table = qp_.engine_.locks_->table;
  const auto cause = again ? table.again(scope_->waiter) : table.begin(scope_->waiter);
  return cause || qp_.engine_.now_ns_ < scope_->deadline_ns ? cause : LockCause::wait;
}

/// Of a request that begins now.
std::uint64_t Responder::wait_deadline_ns() const {
  const std::uint32_t wait_us = scope_->request.wait_us;
  return wait_us == Lketh::kWaitUnlimited ? stack::kNever
                                          : qp_.engine_.now_ns_ + wait_us * kNsPerUs;
}

/// What the request names, each word checked as an atomic's (LK-31).
std::optional<NakCode> Responder::collect_claims(const RxPacket& packet) {
  const Lketh& request = packet.headers.lketh;
  scope_->waiter.forget_claims();
  Claim claim{.leased = true, .owner = static_cast<std::uint16_t>(request.owner)};
  if (request.subtype == Lketh::kAcquireShared) {
    claim.mode = lock::Mode::shared;
  } else if (request.subtype == Lketh::kAcquireForeign) {
    const bool add = (request.flags & Lketh::kAdd) != 0;
    claim.mode = add ? lock::Mode::foreign_add : lock::Mode::foreign_swap;
    claim.operation = read_at<wire::LockOperation>(packet.payload, 0);
  }
  std::optional<NakCode> refusal = add_claim(claim, request.rkey, request.va);
  if (request.subtype == Lketh::kAcquireSeveral) {
    for (std::uint32_t offset = 0; !refusal && offset < packet.payload.length;
         offset += wire::LockWord::kSize) {
      const auto word = read_at<wire::LockWord>(packet.payload, offset);
      claim.mode = word.shared ? lock::Mode::shared : lock::Mode::exclusive;
      refusal = add_claim(claim, word.rkey, word.va);
    }
  }
  return refusal;
}

std::optional<NakCode> Responder::add_claim(Claim claim, std::uint32_t rkey, std::uint64_t va) {
  if (va % sizeof(std::uint64_t) != 0) {
    return NakCode::invalid_request;
  }
  const MemoryAccess target =
      qp_.remote_access(MemoryKey{rkey}, va, sizeof(std::uint64_t), kAccessRemoteAtomic);
  if (target.status != MemoryStatus::ok) {
    return NakCode::remote_access_error;
  }
  if (reinterpret_cast<std::uintptr_t>(target.data) % sizeof(std::uint64_t) != 0) {
    return NakCode::invalid_request;  // an iova can be aligned where the memory is not
  }
  claim.word = reinterpret_cast<std::uint64_t*>(target.data);
  claim.region = qp_.engine_.locks_->table.find(claim.word);
  if (claim.region == nullptr) {
    return NakCode::remote_access_error;
  }
  return scope_->waiter.add(claim) ? std::nullopt : std::optional(NakCode::invalid_request);
}

/// Store and forward: the lock is not asked for before the whole scope is here (LK-29).
void Responder::gather(const RxPacket& packet) {
  Scope& scope = *scope_;
  if (scope.request.scope_psns >= HeldPackets::kWindow) {
    decide(LockCause::too_big);
    return;
  }
  const std::uint64_t lease_us = scope.waiter.first().region->config().max_lease_us;
  if (!stall(Scope::State::gathering, qp_.engine_.now_ns_ + lease_us * kNsPerUs)) {
    rnr_nak(packet);
    return;
  }
  ask_when_gathered();
}

void Responder::ask_when_gathered() {
  Scope& scope = *scope_;
  if (scope.state != Scope::State::gathering || scope.parked_psns <= scope.request.scope_psns) {
    return;
  }
  scope.deadline_ns = wait_deadline_ns();
  if (const auto cause = ask(false)) {
    decide(*cause);
  } else {
    static_cast<void>(wait());  // it has room
  }
}

/// The lock is not to be had now. False: there is no room to wait for it.
bool Responder::wait() {
  if (!stall(Scope::State::waiting, scope_->deadline_ns)) {
    return false;
  }
  qp_.engine_.locks_->table.wait(scope_->waiter);
  return true;
}

/// From the acquire on, which has expected_psn_, requests are parked.
bool Responder::stall(Scope::State state, std::uint64_t deadline_ns) {
  Scope& scope = *scope_;
  if (scope.parked == nullptr) {
    scope.parked = qp_.engine_.locks_->take_place();
    if (scope.parked == nullptr) {
      return false;
    }
  }
  if (!scope.stalls()) {
    ++scope.parked_psns;
  }
  scope.asked_again = false;
  scope.state = state;
  scope.deadline_ns = deadline_ns;
  scope.next_sign_ns = stack::kNever;
  if (state == Scope::State::waiting) {
    owe_sign_of_life();
  }
  arm_scope_timer();
  return true;
}

/// The acquire is decided: it is answered, and what waited behind it is executed or flushed.
void Responder::decide(LockCause cause) {
  Scope& scope = *scope_;
  lock::Waiter& waiter = scope.waiter;
  lock::Region& region = *waiter.first().region;
  if (scope.stalls()) {
    --scope.parked_psns;
  }
  scope.asked_again = scope.sign_owed = false;
  qp_.engine_.timers_.cancel(scope.timer);
  if (cause == LockCause::none) {
    scope.state = Scope::State::open;
    answer_lock(LockStatus::granted, cause, waiter.first().previous, waiter.token());
    const std::uint64_t lease_us =
        scope.request.lease_us == 0
            ? region.config().lease_us
            : std::min(scope.request.lease_us, region.config().max_lease_us);
    qp_.engine_.timers_.arm(scope.timer, qp_.engine_.now_ns_ + lease_us * kNsPerUs);
  } else {
    scope.lost = LockCause::none;
    if (cause != LockCause::tries) {
      region.count(&Statistics::failures);
    }
    fail_scope(cause);
    answer_lock(LockStatus::failed, cause, waiter.first().previous, waiter.looks());
  }
  resume();
}

/// The rest of the scope, if there is one, is not to be executed (LK-20).
void Responder::fail_scope(LockCause cause) {
  Scope& scope = *scope_;
  scope.ended_id = scope.request.scope_id;
  scope.ended_cause = cause;
  scope.state = scope.has_scope() ? Scope::State::failed : Scope::State::none;
}

/// Takes the lock from its holder.
void Responder::fail_open_scope(LockCause cause) {
  qp_.engine_.timers_.cancel(scope_->timer);
  qp_.engine_.locks_->table.undo(scope_->waiter);
  scope_->lost = cause;
  fail_scope(cause);
}

/// Into the ring of what is owed, in the place of the request at expected_psn_.
void Responder::answer_lock(LockStatus status, LockCause cause, std::uint64_t previous,
                            std::uint64_t value, std::uint32_t psn_count) {
  const Resource resource{.first_psn = expected_psn_,
                          .psn_count = psn_count,
                          .msn = (msn_ + 1) & wire::kMask24,
                          .scope_id = scope_->request.scope_id,
                          .kind = Kind::lock,
                          .lock_status = status,
                          .lock_cause = cause,
                          .va = value,
                          .original = previous};
  static_cast<void>(take_resource(resource));
  msn_ = resource.msn;
  expected_psn_ = expected_psn_ + psn_count;
}

void Responder::execute_release(const RxPacket& packet) {
  Scope& scope = *scope_;
  const std::uint16_t id = packet.headers.lketh.scope_id;
  const bool mine = scope.state == Scope::State::open && scope.request.scope_id == id;
  if (mine) {
    scope.state = Scope::State::none;
    qp_.engine_.timers_.cancel(scope.timer);
    if (release(packet)) {
      answer_lock(LockStatus::released, LockCause::none, scope.waiter.first().previous,
                  scope.waiter.token());
      return;
    }
    scope.waiter.first().region->count(&Statistics::foreign_releases);
  }
  const bool expired = scope.ended_id == id && scope.ended_cause == LockCause::expired;
  answer_other(id, LockStatus::failed, expired ? LockCause::expired : LockCause::not_owner);
}

/// False: the lock was not this scope's any more.
bool Responder::release(const RxPacket& packet) {
  lock::Waiter& waiter = scope_->waiter;
  lock::LockTable& table = qp_.engine_.locks_->table;
  const Lketh& request = packet.headers.lketh;
  if (waiter.first().is_foreign() != (request.subtype == Lketh::kReleaseForeign)) {
    table.undo(waiter);
    return false;
  }
  return waiter.first().is_foreign()
             ? table.perform(waiter, read_at<wire::LockOperation>(packet.payload, 0),
                             (request.flags & Lketh::kAdd) != 0)
             : table.give_back(waiter);
}

/// Of an acquire that has been decided by now; while it waits, park() sees to it.
void Responder::execute_cancel(const RxPacket& packet) {
  const Scope& scope = *scope_;
  const std::uint16_t id = packet.headers.lketh.scope_id;
  const bool canceled = scope.ended_id == id && scope.ended_cause == LockCause::canceled;
  answer_other(id, canceled ? LockStatus::canceled : LockStatus::failed,
               canceled ? LockCause::none : LockCause::too_late);
}

/// A release or cancel of `id`, which may not be the id of the lock that is held.
void Responder::answer_other(std::uint16_t id, LockStatus status, LockCause cause) {
  const std::uint16_t held = std::exchange(scope_->request.scope_id, id);
  answer_lock(status, cause, 0, 0);
  scope_->request.scope_id = held;
}

/// A scope is READs, WRITEs, atomics and placements, and its release is where the acquire said. A
/// lock that is held by itself allows everything but another lock.
bool Responder::may_execute_in_scope(const RxPacket& packet) const {
  const wire::Headers& headers = packet.headers;
  const bool lock_request = headers.opcode->operation == Operation::lock_request;
  if (!scope_->has_scope()) {
    return !lock_request || !is_acquire(headers.lketh.subtype);
  }
  const std::int32_t left = distance(expected_psn_, scope_->last);
  if (lock_request) {
    return left == 0 && is_release(headers.lketh.subtype) &&
           headers.lketh.scope_id == scope_->request.scope_id;
  }
  return headers.opcode->operation != Operation::send && !headers.opcode->has_immediate &&
         static_cast<std::int32_t>(psns_of(headers, bytes(qp_.attributes_.path_mtu))) <= left;
}

/// A request of a scope that has failed: it is answered, not executed.
void Responder::flush(const RxPacket& packet) {
  const Operation operation = packet.headers.opcode->operation;
  if (operation == Operation::rdma_write) {
    if (packet.headers.opcode->starts()) {
      message_.begin_write(packet.headers.reth);
    }
    finish_packet(packet);
    return;
  }
  if (!resources_.has_place()) {
    refuse(NakCode::invalid_request, packet);
    return;
  }
  const std::uint32_t psns = psns_of(packet.headers, bytes(qp_.attributes_.path_mtu));
  if (operation == Operation::lock_request) {
    scope_->state = Scope::State::none;
    answer_lock(scope_->lost == LockCause::none ? LockStatus::flushed : LockStatus::failed,
                scope_->lost, 0, 0);
  } else {
    answer_lock(LockStatus::flushed, LockCause::none, 0, 0, psns);
  }
}

/// What a READ reads under the lock is kept for its repetitions (LK-23). False: it is too much.
bool Responder::take_snapshot(const MemoryAccess& source, Resource& resource) {
  lock::Service& locks = *qp_.engine_.locks_;
  if (!resources_.has_place()) {
    return true;  // it is refused for that
  }
  if (resource.length <= locks.config().max_scope_reads - scope_->read_bytes) {
    resource.snapshot = locks.snapshots.take(source.data, resource.length);
  }
  if (!resource.snapshot.exists()) {
    fail_open_scope(LockCause::too_big);
    return false;
  }
  scope_->read_bytes += resource.length;
  return true;
}

/// Everything of an earlier connection goes; locks that it held become free.
void Responder::abort_scope() {
  if (scope_ == nullptr) {
    return;
  }
  lock::LockTable& table = qp_.engine_.locks_->table;
  qp_.engine_.timers_.cancel(scope_->timer);
  table.leave(scope_->waiter);
  if (scope_->state == Scope::State::open) {
    scope_->waiter.first().region->count(&Statistics::aborts);
    table.undo(scope_->waiter);
  }
  drop_parked();
  scope_->state = Scope::State::none;
  scope_->asked_again = scope_->sign_owed = scope_->unparked = false;
  scope_->ended_cause = LockCause::none;
}

void Responder::repeat_lock(const RxPacket& packet) {
  Resource* found = resources_.find(packet.headers.bth.psn);
  if (found == nullptr || found->kind != Kind::lock) {
    drop(DropReason::duplicate_request, packet);
    return;
  }
  owe(*found, 0);
}

/// The next request behind an acquire that waits.
void Responder::park(const RxPacket& packet) {
  Scope& scope = *scope_;
  const wire::Headers& headers = packet.headers;
  if (scope.parked->hold(packet, scope.parked_psns) != HeldPackets::Result::held) {
    scope.unparked = true;
    drop(DropReason::lock_no_room, packet);
    return;
  }
  scope.parked_psns += psns_of(headers, bytes(qp_.attributes_.path_mtu));
  if (headers.opcode->operation == Operation::lock_request &&
      headers.lketh.subtype == Lketh::kCancel && headers.lketh.scope_id == scope.request.scope_id) {
    qp_.engine_.locks_->table.leave(scope.waiter);
    scope.waiter.first().region->count(&Statistics::cancels);
    decide(LockCause::canceled);
    return;
  }
  ask_when_gathered();
}

/// The peer has not heard of us for too long.
void Responder::on_parked_again(const RxPacket& packet) {
  qp_.engine_.counters_.duplicate_request.add();
  drop(DropReason::duplicate_request, packet);
  if (scope_->state == Scope::State::waiting) {
    owe_sign_of_life();
  }
}

/// Executes what was parked, up to the next acquire that waits.
void Responder::resume() {
  Scope& scope = *scope_;
  if (scope.resuming) {
    return;
  }
  scope.resuming = true;
  while (!scope.stalls() && scope.parked_psns > 0) {
    const wire::Psn turn = expected_psn_;
    const bool there = scope.parked->deliver(turn, [&](const RxPacket& packet) {
      scope.parked_psns -= psns_of(packet.headers, bytes(qp_.attributes_.path_mtu));
      execute_in_turn(packet);
    });
    if (!there || (expected_psn_ == turn && !scope.stalls())) {
      drop_parked();  // it was refused, and so is what is behind it
    }
  }
  scope.resuming = false;
  if (scope.stalls()) {
    return;
  }
  drop_parked();
  if (std::exchange(scope.unparked, false) && takes_requests(qp_.state()) &&
      !owed_.is_rnr_outstanding()) {
    ask_for_missing();
  }
}

void Responder::drop_parked() {
  scope_->parked_psns = 0;
  if (scope_->parked != nullptr) {
    qp_.engine_.locks_->give_back(std::exchange(scope_->parked, nullptr));
  }
}

/// Tells the requester, before its timer expires, that its request waits here.
void Responder::owe_sign_of_life() {
  scope_->sign_owed = true;
  const std::uint64_t timeout_ns = wire::local_ack_timeout_ns(scope_->request.timeout & 0x1f);
  scope_->next_sign_ns = timeout_ns == 0 ? stack::kNever : qp_.engine_.now_ns_ + timeout_ns / 2;
  qp_.engine_.schedule(qp_);
}

void Responder::arm_scope_timer() {
  qp_.engine_.timers_.arm(scope_->timer, std::min(scope_->deadline_ns, scope_->next_sign_ns));
}

void Responder::on_scope_timer(std::uint64_t now_ns) {
  Scope& scope = *scope_;
  if (scope.state == Scope::State::open) {
    scope.waiter.first().region->count(&Statistics::lease_expiries);
    fail_open_scope(LockCause::expired);
    return;
  }
  if (now_ns >= scope.deadline_ns) {
    qp_.engine_.locks_->table.leave(scope.waiter);
    decide(LockCause::wait);
    return;
  }
  owe_sign_of_life();
  arm_scope_timer();
}

rte_mbuf* Responder::build_lock_response(const Resource& owing) {
  wire::Headers headers = reply_headers(wire::Opcode::lock_response, owing.first_psn);
  headers.lkaeth = {.status = owing.lock_status,
                    .cause = owing.lock_cause,
                    .scope_id = owing.scope_id,
                    .msn = owing.msn,
                    .reserved8 = 0,
                    .previous_word = owing.original,
                    .value = owing.va};
  PacketBuilder builder = qp_.start_packet(headers, 0);
  return builder.ok() ? builder.finish() : nullptr;
}

rte_mbuf* Responder::build_sign_of_life() {
  wire::Headers headers = reply_headers(wire::Opcode::lock_response, expected_psn_);
  headers.lkaeth = {.status = LockStatus::waiting,
                    .cause = LockCause::none,
                    .scope_id = scope_->request.scope_id,
                    .msn = msn_,
                    .reserved8 = 0,
                    .previous_word = scope_->waiter.first().previous,
                    .value = scope_->waiter.looks()};
  PacketBuilder builder = qp_.start_packet(headers, 0);
  return builder.ok() ? builder.finish() : nullptr;
}

}  // namespace rockhopper::roce::rc
