// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/client_scope.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace rockhopper::roce::rc {

void ClientScope::begin(lock::ScopeResult* result, const wire::Lkaeth& answer) {
  assert(answer.status == wire::LockStatus::granted || answer.status == wire::LockStatus::failed);
  const bool granted = answer.status == wire::LockStatus::granted;
  result_ = result;
  accesses_ = 0;
  failed_ = !granted;
  if (result_ != nullptr) {
    result_->status = granted ? WcStatus::success : WcStatus::lock_failed;
    result_->cause = answer.cause;
    result_->previous_word = answer.previous_word;
    (granted ? result_->token : result_->looks) = answer.value;
  }
}

void ClientScope::lose(wire::LockCause cause) {
  if (result_ != nullptr) {
    result_->cause = cause;
    const auto accesses = result_->accesses;
    std::ranges::replace(accesses.first(std::min<std::size_t>(accesses_, accesses.size())),
                         WcStatus::success, WcStatus::outcome_unknown);
  }
}

WcStatus ClientScope::complete(const SendWqe& request, lock::ScopeResult* result, WcStatus status) {
  assert(request.of_lock());
  if (request.opcode == WrOpcode::lock_acquire) {
    if (request.is_settled()) {
      // Its connection is lost, and it may have been executed.
      *this = {};
      result_ = result;
      failed_ = true;
      if (result_ != nullptr) result_->status = status;
    }
  } else if (request.opcode == WrOpcode::lock_release) {
    if (failed_ && status != WcStatus::outcome_unknown) status = WcStatus::lock_failed;
    if (result_ != nullptr) result_->status = status;
    *this = {};
  } else if (request.in_scope()) {
    if (failed_ && status == WcStatus::success) status = WcStatus::lock_flushed;
    failed_ = failed_ || status == WcStatus::lock_flushed;
    if (result_ != nullptr && accesses_ < result_->accesses.size()) {
      result_->accesses[accesses_] = status;
    }
    ++accesses_;
  }
  return status;
}

void ClientScope::fail(lock::ScopeResult* result, WcStatus status) {
  if (result != nullptr) result->status = status;
}

}  // namespace rockhopper::roce::rc
