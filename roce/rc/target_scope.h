// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "roce/lock/claim.h"
#include "roce/lock/service.h"
#include "roce/lock/snapshot_pool.h"
#include "roce/lock/waiter.h"
#include "roce/rc/parked_requests.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/lketh.h"
#include "roce/wire/packet.h"
#include "roce/wire/psn.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::rc {

/// The lock that a connection asks for or holds at its target, and the requests that belong to it:
/// its scope (docs/locks.md). A connection has one at a time.
///
/// It looks at lock words, takes them and gives them back, and knows which requests it allows. It
/// sends nothing: what the peer is to be told is returned as an Answer, for the responder to send.
class TargetScope {
 public:
  enum class State : std::uint8_t {
    none,
    gathering,  ///< store and forward: until the last of its packets is there
    waiting,    ///< for the lock
    open,       ///< the lock is held
    failed,     ///< the lock was not to be had, or is lost: the rest is not executed
  };
  /// What changes the state.
  enum class Event : std::uint8_t {
    gather,   ///< the acquire of a scope that is not here as a whole has come
    wait,     ///< the lock is not to be had now
    grant,    ///< the lock is taken
    refuse,   ///< the acquire ends without the lock
    lose,     ///< the lock is taken from its holder
    release,  ///< the holder gives the lock back
    finish,   ///< the release of a scope that has failed is here
  };
  /// What the peer is told of a lock request, or of another request of a scope.
  struct Answer {
    wire::LockStatus status{};
    wire::LockCause cause = wire::LockCause::none;
    std::uint16_t scope_id = 0;
    std::uint64_t previous = 0;  ///< wire::Lkaeth::previous_word
    std::uint64_t value = 0;     ///< wire::Lkaeth::value
  };

  /// `service` outlives it. `on_decided` is called with `context` when an acquire that waited is
  /// decided, and has to call decide(); `on_time` when its timer has expired, and has to call
  /// on_timer().
  TargetScope(lock::Service& service, lock::Waiter::Decide on_decided,
              stack::Timer::Callback on_time, void* context);
  TargetScope(const TargetScope&) = delete;
  TargetScope& operator=(const TargetScope&) = delete;
  ~TargetScope();

  [[nodiscard]] State state() const { return state_; }
  /// An acquire waits, and with it all that is behind it.
  [[nodiscard]] bool stalls() const {
    return state_ == State::gathering || state_ == State::waiting;
  }
  [[nodiscard]] bool holds(std::uint16_t scope_id) const {
    return state_ == State::open && request_.scope_id == scope_id;
  }
  /// READs have to be answered again with what they read under the lock (LK-23).
  [[nodiscard]] bool keeps_reads() const { return state_ == State::open && has_scope(); }
  /// The whole scope is here.
  [[nodiscard]] bool is_gathered() const {
    return state_ == State::gathering && parked_.psns() > request_.scope_psns;
  }
  /// `request` is the acquire that was told to come again.
  [[nodiscard]] bool has_asked_for(const wire::Lketh& request) const {
    return asked_again_ && request == request_;
  }
  /// `request` cancels the acquire that waits.
  [[nodiscard]] bool is_canceled_by(const wire::Lketh& request) const {
    return stalls() && request.subtype == wire::Lketh::kCancel &&
           request.scope_id == request_.scope_id;
  }
  /// The request at `psn` may be executed, or flushed. A scope is READs, WRITEs, atomics and
  /// placements, and its release is where the acquire said. A lock that is held by itself allows
  /// everything but another lock.
  [[nodiscard]] bool admits(const wire::Headers& headers, wire::Psn psn, std::uint32_t mtu) const;
  /// The peer is to be told that its acquire waits.
  [[nodiscard]] bool owes_sign() const { return sign_owed_; }
  /// Returns what that sign of life says.
  [[nodiscard]] Answer sign() const;
  /// Returns what a request of a scope that has failed is answered with.
  [[nodiscard]] Answer flushed() const;
  /// Returns what is said to a cancel that finds nothing waiting.
  [[nodiscard]] Answer answer_to_cancel(std::uint16_t scope_id) const;

  [[nodiscard]] ParkedRequests& parked() { return parked_; }
  [[nodiscard]] const ParkedRequests& parked() const { return parked_; }

  /// What holds between any two calls; see the fields too.
  [[nodiscard]] bool is_consistent() const;

  /// An acquire begins, or comes again: its claims are add()ed next.
  void prepare(const wire::Lketh& request);
  /// Returns false if the claims are too many, or one is there twice.
  [[nodiscard]] bool add(const lock::Claim& claim) { return waiter_.add(claim); }
  /// The acquire at `psn`, whose claims are there, is a new one.
  void begin(const wire::Lketh& request, wire::Psn psn);
  /// Looks at the words, once more if it has been done `before`. Returns how that decides the
  /// acquire; nothing: it may wait.
  [[nodiscard]] std::optional<wire::LockCause> look(bool before);
  /// Waits for the rest of the scope. Returns false if there is no room for it.
  [[nodiscard]] bool gather();
  /// The whole scope is here. Looks at the words, and if the lock is not to be had, waits. Returns
  /// how that decides the acquire, if it does.
  [[nodiscard]] std::optional<wire::LockCause> end_gathering();
  /// Waits for the lock. Returns false if there is no room for what is behind the acquire.
  [[nodiscard]] bool wait();
  /// The peer has been told to send the acquire again.
  void ask_again() { asked_again_ = true; }
  /// The acquire that waits waits no more: its peer has taken it back. It is to be decided.
  void cancel();
  /// The acquire is decided: `cause` is none if it is granted. Returns its answer.
  [[nodiscard]] Answer decide(wire::LockCause cause);
  /// Gives the lock back, if it is the one that `request` names. `operation` is that of a foreign
  /// release.
  [[nodiscard]] Answer release(const wire::Lketh& request, const wire::LockOperation& operation);
  /// The release of a scope that has failed is here. Returns its answer.
  [[nodiscard]] Answer finish();
  /// Keeps what a READ under the lock has read, `length` bytes, at least 1. Nothing exists if that
  /// is too much: then the lock is lost. Requires keeps_reads().
  [[nodiscard]] lock::SnapshotPool::Handle keep(const std::byte* data, std::uint32_t length);
  /// Its timer has expired. Returns how that decides an acquire that waits, if it does; a sign of
  /// life may be owed then, or the lock be lost.
  [[nodiscard]] std::optional<wire::LockCause> on_timer(std::uint64_t now_ns);
  /// Tells the requester, before its timer expires, that its request waits here.
  void owe_sign();
  void on_sign_sent() { sign_owed_ = false; }
  /// Everything of a connection goes; a lock that it held becomes free.
  void abort();

 private:
  /// Requests behind the acquire belong to it, up to its release.
  [[nodiscard]] bool has_scope() const { return request_.scope_psns != 0; }
  [[nodiscard]] bool stall(Event event, std::uint64_t deadline_ns);
  void move(Event event);
  void lose(wire::LockCause cause);
  [[nodiscard]] bool give_back(const wire::Lketh& request, const wire::LockOperation& operation);
  void arm_timer();

  lock::Service& service_;
  ParkedRequests parked_;
  lock::Waiter waiter_;  ///< waits if state_ is waiting, and holds its claims if it is open
  stack::Timer timer_;   ///< while it stalls, deadline or sign of life; open: end of the lease
  State state_ = State::none;
  bool sign_owed_ = false;                        ///< only while it waits
  bool asked_again_ = false;                      ///< only without a state
  wire::LockCause lost_ = wire::LockCause::none;  ///< failed: why, if it had been granted
  wire::Lketh request_{};                         ///< the last acquire
  wire::Psn last_{};                              ///< of the release; see has_scope()
  std::uint32_t read_bytes_ = 0;                  ///< by its READs so far; <= max_scope_reads
  std::uint64_t deadline_ns_ = 0;                 ///< when it gives up waiting or gathering
  std::uint64_t next_sign_ns_ = 0;
  // The last lock that ended otherwise than by its release, for a peer that still asks for it.
  std::uint16_t ended_id_ = 0;
  wire::LockCause ended_cause_ = wire::LockCause::none;
};

/// Returns the state that `event` leads to; nothing if it cannot happen in `state`. A lock by
/// itself has no scope: without it nothing is left that could fail.
[[nodiscard]] std::optional<TargetScope::State> state_after(TargetScope::State state,
                                                            TargetScope::Event event,
                                                            bool has_scope);

}  // namespace rockhopper::roce::rc
