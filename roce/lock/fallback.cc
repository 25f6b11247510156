// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/lock/fallback.h"

#include <algorithm>

#include "roce/lock/claim.h"
#include "roce/lock/lock_word.h"
#include "stack/time_units.h"

namespace rockhopper::roce::lock {
namespace {}  // namespace

PostResult FallbackScope::post(ScopeBuilder& scope, ScopeResult* result, std::uint64_t now_ns) {
  const std::size_t room = qp_.init().max_send_wr - qp_.send_queue_depth();
  if (busy() || scope.access_count() + 1 > room) return PostResult::queue_full;
  if (scope.word_count() > 1) return PostResult::invalid_request;
  scope_ = &scope;
  result_ = result;
  looks_ = 0;
  began_ns_ = now_ns;
  pause_ns_ = config_.first_pause_ns;
  if (scope.acquire().tries == 0) {
    finish(WcStatus::lock_failed, wire::LockCause::tries);
    return PostResult::ok;
  }
  look();
  return PostResult::ok;
}

PostResult FallbackScope::compare_swap(std::uint64_t compare, std::uint64_t swap) {
  SendWr wr;
  wr.wr_id = config_.wr_id;
  wr.opcode = WrOpcode::atomic_cmp_and_swp;
  wr.send_flags = kSendSignaled | kSendFence;
  wr.sg_list = {&scratch_, 1};
  wr.remote_addr = scope_->first_word().addr;
  wr.rkey = scope_->first_word().rkey;
  wr.compare_add = compare;
  wr.swap = swap;
  return qp_.post_send(wr);
}

/// One try: the word is taken if it still is what it was last.
void FallbackScope::look() {
  std::optional<std::uint64_t> next = taken(compare_);
  if (!next) {
    // The word was held. By now it may be free again, with the next generation.
    const LockWord held = LockWord::from(compare_);
    compare_ = !is_foreign(scope_->acquire().mode) ? lock::freed(held).value()
                                                   : scope_->acquire().operation.compare;
    next = taken(compare_);
  }
  held_ = next.value_or(compare_);  // without one, only to see what the word is
  ++looks_;
  state_ = State::acquiring;
  resume_ns_ = UINT64_MAX;
  if (compare_swap(compare_, held_) != PostResult::ok) {
    finish(WcStatus::wr_flush_err, wire::LockCause::none);
  }
}

void FallbackScope::on_acquire(std::uint64_t now_ns) {
  const bool swapped = found_ == compare_;
  compare_ = found_;
  if (swapped) {
    if (result_ != nullptr) {
      result_->status = WcStatus::success;
      result_->previous_word = found_;
      result_->token = LockWord::from(found_).generation;
    }
    access();
    return;
  }
  const Request& request = scope_->acquire();
  if (request.tries != wire::Lketh::kTriesUnlimited && looks_ >= request.tries) {
    finish(WcStatus::lock_failed, wire::LockCause::tries);
  } else if (request.wait_us != wire::Lketh::kWaitUnlimited &&
             now_ns - began_ns_ >= request.wait_us * kNsPerUs) {
    finish(WcStatus::lock_failed, wire::LockCause::wait);
  } else if (taken(found_)) {
    look();  // it was only not what it was believed to be
  } else {
    state_ = State::pausing;
    resume_ns_ = now_ns + pause_ns_;
    pause_ns_ = std::min(2 * pause_ns_, config_.max_pause_ns);
  }
}

void FallbackScope::poll(std::uint64_t now_ns) {
  if (state_ == State::pausing && now_ns >= resume_ns_) look();
}

/// The last of them is signaled: it completes behind the others.
void FallbackScope::access() {
  state_ = State::accessing;
  if (scope_->access_count() == 0) {
    release();
    return;
  }
  for (std::size_t i = 0; i < scope_->access_count(); ++i) {
    SendWr wr = scope_->request_at(i + 1, 0);
    wr.wr_id = config_.wr_id;
    wr.send_flags &= ~std::uint32_t{kSendSignaled};
    if (i + 1 == scope_->access_count()) wr.send_flags |= kSendSignaled;
    if (qp_.post_send(wr) != PostResult::ok) {
      finish(WcStatus::wr_flush_err, wire::LockCause::none);
      return;
    }
  }
}

void FallbackScope::release() {
  state_ = State::releasing;
  compare_ = held_;
  if (compare_swap(held_, freed(held_).value_or(held_)) != PostResult::ok) {
    finish(WcStatus::wr_flush_err, wire::LockCause::none);
  }
}

void FallbackScope::on_release() {
  if (found_ == compare_) {
    compare_ = freed(found_).value_or(found_);
    finish(WcStatus::success, wire::LockCause::none);
    return;
  }
  // Others may have changed it beside our part: other readers, the bit for waiters.
  const std::optional<std::uint64_t> next = freed(found_);
  compare_ = found_;
  if (!next) {
    finish(WcStatus::lock_failed, wire::LockCause::not_owner);
  } else if (compare_swap(found_, *next) != PostResult::ok) {
    finish(WcStatus::wr_flush_err, wire::LockCause::none);
  }
}

bool FallbackScope::take(const Completion& completion, std::uint64_t now_ns) {
  if (completion.wr_id != config_.wr_id) return false;
  if (!busy()) return true;  // of a scope that has failed
  if (completion.status != WcStatus::success) {
    finish(completion.status, wire::LockCause::none);
    return true;
  }
  switch (state_) {
    case State::acquiring:
      on_acquire(now_ns);
      break;
    case State::accessing:
      release();
      break;
    case State::releasing:
      on_release();
      break;
    case State::idle:
    case State::pausing:
      break;
  }
  return true;
}

void FallbackScope::finish(WcStatus status, wire::LockCause cause) {
  state_ = State::idle;
  resume_ns_ = UINT64_MAX;
  if (result_ == nullptr) return;
  result_->status = status;
  result_->cause = cause;
  result_->looks = looks_;
  std::ranges::fill(result_->accesses,
                    status == WcStatus::lock_failed && cause != wire::LockCause::not_owner
                        ? WcStatus::lock_flushed
                        : status);
}

std::optional<std::uint64_t> FallbackScope::taken(std::uint64_t word) const {
  const Request& request = scope_->acquire();
  return lock::taken(word, request.mode, request.owner, false, request.operation);
}

std::optional<std::uint64_t> FallbackScope::freed(std::uint64_t word) const {
  const Request& request = scope_->acquire();
  return is_foreign(request.mode) ? performed(word, request.mode, scope_->release_operation())
                                  : lock::freed(word, request.mode, request.owner, held_);
}

}  // namespace rockhopper::roce::lock
