// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/completion_queue.h"
#include "roce/lock/request.h"
#include "roce/wire/lkaeth.h"
#include "roce/work_queue.h"

namespace rockhopper::roce::rc {

/// The lock scope whose acquire was the last to be answered: what the requests that follow it
/// complete with, and what the caller is told of them (docs/locks.md). Behind the release there is
/// none.
class ClientScope {
 public:
  /// What completes from now on was not executed.
  [[nodiscard]] bool is_failed() const { return failed_; }
  /// Requests of the scope that are complete, the acquire apart.
  [[nodiscard]] std::uint32_t accesses() const { return accesses_; }

  /// The acquire that `result` was given with, which may be null, is granted, or refused.
  void begin(lock::ScopeResult* result, const wire::Lkaeth& answer);
  /// The target had taken the lock back before its release came. Which of the accesses it has still
  /// executed is not known.
  void lose(wire::LockCause cause);
  /// Returns what `request`, a lock request or one that belongs to a scope, completes with, where
  /// `status` is what became of itself. `result` is what an acquire was given.
  [[nodiscard]] WcStatus complete(const SendWqe& request, lock::ScopeResult* result,
                                  WcStatus status);
  /// The lock request that `result` was given with ends the connection.
  static void fail(lock::ScopeResult* result, WcStatus status);

 private:
  lock::ScopeResult* result_ = nullptr;  ///< the caller's; may be null
  std::uint32_t accesses_ = 0;           ///< 0 without a scope
  bool failed_ = false;                  ///< stays so until the release
};

}  // namespace rockhopper::roce::rc
