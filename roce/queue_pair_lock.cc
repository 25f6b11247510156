// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Posting lock requests (docs/locks.md).
#include <algorithm>

#include "roce/lock/request.h"
#include "roce/queue_pair.h"

namespace rockhopper::roce {
namespace {

bool is_right(const lock::Word& word) { return word.addr % sizeof(std::uint64_t) == 0; }

std::uint8_t subtype_of(const SendWr& wr) {
  const lock::Request& request = *wr.lock;
  if (wr.opcode == WrOpcode::lock_cancel) return wire::Lketh::kCancel;
  if (wr.opcode == WrOpcode::lock_release) {
    return lock::is_foreign(request.mode) ? wire::Lketh::kReleaseForeign : wire::Lketh::kRelease;
  }
  if (!request.more.empty()) return wire::Lketh::kAcquireSeveral;
  if (lock::is_foreign(request.mode)) return wire::Lketh::kAcquireForeign;
  return request.mode == lock::Mode::shared ? wire::Lketh::kAcquireShared
                                            : wire::Lketh::kAcquireExclusive;
}

}  // namespace

/// A connection has one lock, or set of locks, at a time, and only some requests belong to a scope.
bool QueuePair::check_lock_order(const SendWr& wr) const {
  if (!kLocks.has(wr.opcode)) {
    return posted_lock_ != PostedLock::scope ||
           (kScopeAccesses.has(wr.opcode) && (wr.send_flags & kSendFence) == 0);
  }
  if (wr.lock == nullptr || wr.remote_addr % sizeof(std::uint64_t) != 0 ||
      (wr.send_flags & kSendInline) != 0) {
    return false;
  }
  const lock::Request& request = *wr.lock;
  switch (wr.opcode) {
    case WrOpcode::lock_acquire:
      return posted_lock_ == PostedLock::none && request.more.size() < lock::kMaxClaims &&
             (request.more.empty() || request.mode == lock::Mode::exclusive) &&
             std::ranges::all_of(request.more, is_right);
    case WrOpcode::lock_cancel:
      return posted_lock_ != PostedLock::scope;
    default:
      // What a scope waits for would have to wait for the scope.
      return posted_lock_ != PostedLock::scope || (wr.send_flags & kSendFence) == 0;
  }
}

void QueuePair::flush_scopes() {
  for (std::uint64_t sequence = send_queue_.head(); sequence != send_queue_.tail(); ++sequence) {
    const SendWqe& wqe = send_queue_.at(sequence);
    if (wqe.is_lock() && wqe.lock().result != nullptr) {
      wqe.lock().result->status = WcStatus::wr_flush_err;
    }
  }
}

void QueuePair::note_lock_order(const SendWr& wr, SendWqe& wqe) {
  if (posted_lock_ == PostedLock::scope) wqe.flags |= SendWqe::kInScope;
  if (wr.opcode == WrOpcode::lock_acquire) {
    posted_lock_ = wr.lock->scope_psns != 0 ? PostedLock::scope : PostedLock::plain;
  } else if (wr.opcode == WrOpcode::lock_release) {
    posted_lock_ = PostedLock::none;
  }
}

/// Returns the bytes that follow the header.
std::uint32_t QueuePair::fill_lock(const SendWr& wr, LockWqe& wqe) {
  const lock::Request& request = *wr.lock;
  if (wr.opcode == WrOpcode::lock_acquire) ++lock_id_;
  const bool add = request.mode == lock::Mode::foreign_add;
  wqe.header = {.subtype = subtype_of(wr),
                .flags = static_cast<std::uint8_t>(request.flags | (add ? wire::Lketh::kAdd : 0)),
                .scope_id = lock_id_,
                .rkey = static_cast<std::uint32_t>(wr.rkey),
                .va = wr.remote_addr,
                .max_tries = request.tries,
                .timeout = 0,
                .reserved8 = 0,
                .wait_us = request.wait_us,
                .owner = request.owner,
                .lease_us = request.lease_us,
                .scope_psns = request.scope_psns,
                .reserved16 = 0,
                .reserved32 = 0};
  std::uint32_t length = 0;
  const auto put = [&]<typename Structure>(const Structure& structure) {
    structure.emit(std::span<std::uint8_t, Structure::kSize>(&wqe.body[length], Structure::kSize));
    length += static_cast<std::uint32_t>(Structure::kSize);
  };
  if (wqe.header.subtype == wire::Lketh::kAcquireForeign ||
      wqe.header.subtype == wire::Lketh::kReleaseForeign) {
    put(request.operation);
  } else if (wr.opcode == WrOpcode::lock_acquire) {
    for (const lock::Word& word : request.more) {
      put(wire::LockWord{
          .rkey = static_cast<std::uint32_t>(word.rkey), .shared = word.shared, .va = word.addr});
    }
  }
  return length;
}

}  // namespace rockhopper::roce
