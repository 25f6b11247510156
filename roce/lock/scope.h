// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/lock/waiter.h"
#include "roce/recovery/held_packets.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/lketh.h"
#include "roce/wire/psn.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::lock {

/// The lock that a connection asks for or holds at its target, and the requests that belong to it:
/// its scope. A connection has one at a time. docs/locks.md has the states as a picture.
struct Scope {
  enum class State : std::uint8_t {
    none,
    gathering,  ///< store and forward: until the last of its packets is there
    waiting,    ///< for the lock
    open,       ///< the lock is held
    failed,     ///< the lock was not to be had, or is lost: the rest is not executed
  };

  Scope(Waiter::Decide decide, stack::Timer::Callback on_time, void* context)
      : waiter(decide, context), timer(on_time, context) {}

  State state = State::none;
  bool sign_owed = false;    ///< a sign of life while it waits
  bool resuming = false;     ///< what was parked behind it is being executed
  bool asked_again = false;  ///< the peer was told to send the acquire again
  bool unparked = false;     ///< a packet behind it was dropped as there was no room for it
  wire::LockCause lost = wire::LockCause::none;  ///< failed: why, if it had been granted
  wire::Lketh request{};                         ///< the acquire
  wire::Psn last{};                              ///< of the release; see has_scope()
  std::uint32_t read_bytes = 0;                  ///< by its READs so far
  std::uint64_t deadline_ns = 0;                 ///< when it gives up waiting or gathering
  std::uint64_t next_sign_ns = 0;
  Waiter waiter;
  stack::Timer timer;  ///< gathering, waiting: deadline or sign of life; open: end of the lease

  /// PSNs from the acquire on that have been received and wait with it; 0: it does not wait.
  std::uint32_t parked_psns = 0;
  HeldPackets* parked = nullptr;  ///< the packets behind the acquire

  // The last lock that ended otherwise than by its release, for requests that still ask for it.
  std::uint16_t ended_id = 0;
  wire::LockCause ended_cause = wire::LockCause::none;

  /// Requests behind the acquire belong to it, up to its release.
  [[nodiscard]] bool has_scope() const { return request.scope_psns != 0; }
  [[nodiscard]] bool stalls() const { return state == State::gathering || state == State::waiting; }
  [[nodiscard]] bool has(std::uint8_t flag) const { return (request.flags & flag) != 0; }
};

}  // namespace rockhopper::roce::lock
