// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "roce/completion_queue.h"
#include "roce/lock/waiter.h"
#include "roce/memory.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/lketh.h"

namespace rockhopper::roce::lock {

/// What became of a scope, or of a lock that is held by itself: the caller's, to stay where it is
/// until the release is complete. Written by the engine's thread before that completes.
struct ScopeResult {
  WcStatus status = WcStatus::wr_flush_err;  ///< of the acquire, then of the scope
  wire::LockCause cause = wire::LockCause::none;
  std::uint64_t token = 0;          ///< fencing token, if the lock was granted
  std::uint64_t previous_word = 0;  ///< the lock word as it was found
  std::uint64_t looks = 0;          ///< times that it was looked at, if the lock was not granted
  std::span<WcStatus> accesses{};  ///< of the READs, WRITEs and so on, in their order; may be short
};

/// One of several words that are taken together.
struct Word {
  std::uint64_t addr = 0;  ///< multiple of 8
  MemoryKey rkey{};
  bool shared = false;
};

/// What a lock request says beyond remote_addr and rkey of its SendWr, which name the lock word.
struct Request {
  Mode mode = Mode::exclusive;
  std::uint8_t flags = 0;  ///< kStoreForward, kFifo, kResend of wire::Lketh
  std::uint16_t tries = wire::Lketh::kTriesUnlimited;
  std::uint32_t wait_us = wire::Lketh::kWaitUnlimited;
  std::uint16_t owner = 0;
  std::uint32_t lease_us = 0;  ///< 0: what the target gives
  /// Acquire: PSNs of the requests that are posted right behind it, the last of them its release;
  /// 0: the lock is held by itself.
  std::uint16_t scope_psns = 0;
  std::span<const Word> more{};     ///< acquire: words beside the first, which is exclusive
  wire::LockOperation operation{};  ///< foreign modes: of this request
  ScopeResult* result = nullptr;    ///< acquire and release: the same
};

}  // namespace rockhopper::roce::lock
