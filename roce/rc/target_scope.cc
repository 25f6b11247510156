// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/target_scope.h"

#include <algorithm>
#include <cassert>

#include "roce/lock/region.h"
#include "roce/wire/timer_code.h"
#include "stack/link.h"
#include "stack/time_units.h"

namespace rockhopper::roce::rc {

using wire::LockCause;
using wire::LockStatus;
using Statistics = lock::Region::Statistics;

namespace {

/// Returns when a request that begins to wait now gives up.
std::uint64_t deadline_of(const wire::Lketh& request, std::uint64_t now_ns) {
  return request.wait_us == wire::Lketh::kWaitUnlimited ? stack::kNever
                                                        : now_ns + request.wait_us * kNsPerUs;
}

}  // namespace

/// The picture of docs/locks.md.
std::optional<TargetScope::State> state_after(TargetScope::State state, TargetScope::Event event,
                                              bool has_scope) {
  using State = TargetScope::State;
  using Event = TargetScope::Event;
  const State ended = has_scope ? State::failed : State::none;
  // What may happen to an acquire that waits may happen to one that gathers, and to a new one.
  switch (state) {
    case State::none:
      if (event == Event::gather) return State::gathering;
      [[fallthrough]];
    case State::gathering:
      if (event == Event::wait) return State::waiting;
      [[fallthrough]];
    case State::waiting:
      if (event == Event::grant) return State::open;
      if (event == Event::refuse) return ended;
      break;
    case State::open:
      if (event == Event::release) return State::none;
      if (event == Event::lose) return ended;
      break;
    case State::failed:
      if (event == Event::finish) return State::none;
      break;
  }
  return std::nullopt;
}

TargetScope::TargetScope(lock::Service& service, lock::Waiter::Decide on_decided,
                         stack::Timer::Callback on_time, void* context)
    : service_(service), parked_(service), waiter_(on_decided, context), timer_(on_time, context) {
  service_.add_queue_pair();
}

TargetScope::~TargetScope() {
  abort();
  service_.remove_queue_pair();
}

void TargetScope::move(Event event) {
  const std::optional<State> next = state_after(state_, event, has_scope());
  assert(next.has_value());
  state_ = next.value_or(state_);
}

bool TargetScope::is_consistent() const {
  return parked_.is_consistent() && (!stalls() || parked_.psns() > 0) &&
         waiter_.waits() == (state_ == State::waiting) &&
         (!sign_owed_ || state_ == State::waiting) && (!asked_again_ || state_ == State::none) &&
         (timer_.armed() ? stalls() || state_ == State::open : state_ != State::open) &&
         read_bytes_ <= service_.config().max_scope_reads;
}

bool TargetScope::admits(const wire::Headers& headers, wire::Psn psn, std::uint32_t mtu) const {
  const bool lock_request = headers.opcode->operation == wire::Operation::lock_request;
  if (!has_scope()) return !lock_request || !headers.lketh.is_acquire();
  const std::int32_t left = wire::distance(psn, last_);
  if (lock_request) {
    return left == 0 && headers.lketh.is_release() && headers.lketh.scope_id == request_.scope_id;
  }
  return headers.opcode->operation != wire::Operation::send && !headers.opcode->has_immediate &&
         static_cast<std::int32_t>(psns_of(headers, mtu)) <= left;
}

TargetScope::Answer TargetScope::sign() const {
  assert(sign_owed_);
  return {.status = LockStatus::waiting,
          .scope_id = request_.scope_id,
          .previous = waiter_.first().previous,
          .value = waiter_.looks()};
}

TargetScope::Answer TargetScope::flushed() const {
  assert(state_ == State::failed);
  return {.status = LockStatus::flushed, .scope_id = request_.scope_id};
}

TargetScope::Answer TargetScope::answer_to_cancel(std::uint16_t scope_id) const {
  const bool canceled = ended_id_ == scope_id && ended_cause_ == LockCause::canceled;
  return {.status = canceled ? LockStatus::canceled : LockStatus::failed,
          .cause = canceled ? LockCause::none : LockCause::too_late,
          .scope_id = scope_id};
}

void TargetScope::prepare(const wire::Lketh& request) {
  assert(state_ == State::none && request.is_acquire());
  if (!has_asked_for(request)) {
    waiter_.reset({.tries = request.max_tries, .fifo = (request.flags & wire::Lketh::kFifo) != 0});
  }
  // The memory of one that comes again may have gone meanwhile.
  waiter_.forget_claims();
}

void TargetScope::begin(const wire::Lketh& request, wire::Psn psn) {
  assert(state_ == State::none && !waiter_.claims().empty());
  asked_again_ = false;
  request_ = request;
  last_ = psn + request.scope_psns;
  read_bytes_ = 0;
  deadline_ns_ = deadline_of(request_, service_.now_ns());
}

std::optional<LockCause> TargetScope::look(bool before) {
  const auto cause = before ? service_.table.again(waiter_) : service_.table.begin(waiter_);
  return cause || service_.now_ns() < deadline_ns_ ? cause : LockCause::wait;
}

bool TargetScope::gather() {
  const std::uint64_t lease_us = waiter_.first().region->config().max_lease_us;
  return stall(Event::gather, service_.now_ns() + lease_us * kNsPerUs);
}

std::optional<LockCause> TargetScope::end_gathering() {
  assert(is_gathered());
  deadline_ns_ = deadline_of(request_, service_.now_ns());
  const auto cause = look(false);
  if (!cause) {
    (void)wait();  // it has room
  }
  return cause;
}

bool TargetScope::wait() {
  if (!stall(Event::wait, deadline_ns_)) return false;
  service_.table.wait(waiter_);
  owe_sign();
  arm_timer();
  assert(is_consistent());
  return true;
}

/// From the acquire on, requests are parked.
bool TargetScope::stall(Event event, std::uint64_t deadline_ns) {
  if (!stalls() && !parked_.begin()) return false;
  asked_again_ = false;
  move(event);
  deadline_ns_ = deadline_ns;
  next_sign_ns_ = stack::kNever;
  arm_timer();
  return true;
}

void TargetScope::arm_timer() {
  service_.timers().arm(timer_, std::min(deadline_ns_, next_sign_ns_));
}

void TargetScope::owe_sign() {
  assert(state_ == State::waiting);
  sign_owed_ = true;
  const std::uint64_t timeout_ns = wire::local_ack_timeout_ns(request_.timeout & 0x1f);
  next_sign_ns_ = timeout_ns == 0 ? stack::kNever : service_.now_ns() + timeout_ns / 2;
}

void TargetScope::cancel() {
  assert(stalls());
  service_.table.leave(waiter_);
  waiter_.first().region->count(&Statistics::cancels);
}

TargetScope::Answer TargetScope::decide(LockCause cause) {
  assert(!waiter_.waits());
  lock::Region& region = *waiter_.first().region;
  if (stalls()) parked_.end();
  asked_again_ = sign_owed_ = false;
  service_.timers().cancel(timer_);
  Answer answer{.status = LockStatus::granted,
                .cause = cause,
                .scope_id = request_.scope_id,
                .previous = waiter_.first().previous,
                .value = waiter_.token()};
  if (cause == LockCause::none) {
    move(Event::grant);
    const std::uint64_t lease_us = request_.lease_us == 0
                                       ? region.config().lease_us
                                       : std::min(request_.lease_us, region.config().max_lease_us);
    service_.timers().arm(timer_, service_.now_ns() + lease_us * kNsPerUs);
  } else {
    lost_ = LockCause::none;
    if (cause != LockCause::tries) {  // those the table has counted
      region.count(&Statistics::failures);
    }
    move(Event::refuse);
    ended_id_ = request_.scope_id;
    ended_cause_ = cause;
    answer.status = LockStatus::failed;
    answer.value = waiter_.looks();
  }
  assert(is_consistent());
  return answer;
}

/// Takes the lock from its holder. The rest of the scope, if there is one, is not to be executed
/// (LK-20).
void TargetScope::lose(LockCause cause) {
  service_.timers().cancel(timer_);
  service_.table.undo(waiter_);
  lost_ = cause;
  move(Event::lose);
  ended_id_ = request_.scope_id;
  ended_cause_ = cause;
  assert(is_consistent());
}

TargetScope::Answer TargetScope::release(const wire::Lketh& request,
                                         const wire::LockOperation& operation) {
  const bool held = holds(request.scope_id);
  if (held) {
    service_.timers().cancel(timer_);
    move(Event::release);
    if (give_back(request, operation)) {
      return {.status = LockStatus::released,
              .scope_id = request.scope_id,
              .previous = waiter_.first().previous,
              .value = waiter_.token()};
    }
    waiter_.first().region->count(&Statistics::foreign_releases);
  }
  const bool expired = ended_id_ == request.scope_id && ended_cause_ == LockCause::expired;
  return {.status = LockStatus::failed,
          .cause = expired ? LockCause::expired : LockCause::not_owner,
          .scope_id = request.scope_id};
}

/// Returns false if the lock was not this scope's any more.
bool TargetScope::give_back(const wire::Lketh& request, const wire::LockOperation& operation) {
  const bool foreign = waiter_.first().is_foreign();
  if (foreign != (request.subtype == wire::Lketh::kReleaseForeign)) {
    service_.table.undo(waiter_);
    return false;
  }
  return foreign
             ? service_.table.perform(waiter_, operation, (request.flags & wire::Lketh::kAdd) != 0)
             : service_.table.give_back(waiter_);
}

TargetScope::Answer TargetScope::finish() {
  move(Event::finish);
  return {.status = lost_ == LockCause::none ? LockStatus::flushed : LockStatus::failed,
          .cause = lost_,
          .scope_id = request_.scope_id};
}

lock::SnapshotPool::Handle TargetScope::keep(const std::byte* data, std::uint32_t length) {
  assert(keeps_reads() && length > 0);
  lock::SnapshotPool::Handle kept{};
  if (length <= service_.config().max_scope_reads - read_bytes_) {
    kept = service_.snapshots.take(data, length);
  }
  if (kept.exists()) {
    read_bytes_ += length;
  } else {
    lose(LockCause::too_big);
  }
  return kept;
}

std::optional<LockCause> TargetScope::on_timer(std::uint64_t now_ns) {
  assert(stalls() || state_ == State::open);
  if (state_ == State::open) {
    waiter_.first().region->count(&Statistics::lease_expiries);
    lose(LockCause::expired);
    return std::nullopt;
  }
  if (now_ns >= deadline_ns_) {
    service_.table.leave(waiter_);
    return LockCause::wait;
  }
  owe_sign();
  arm_timer();
  return std::nullopt;
}

void TargetScope::abort() {
  service_.timers().cancel(timer_);
  service_.table.leave(waiter_);
  if (state_ == State::open) {
    waiter_.first().region->count(&Statistics::aborts);
    service_.table.undo(waiter_);
  }
  parked_.drop();
  parked_.forget_dropped();
  state_ = State::none;
  asked_again_ = sign_owed_ = false;
  ended_cause_ = LockCause::none;
  assert(is_consistent());
}

}  // namespace rockhopper::roce::rc
