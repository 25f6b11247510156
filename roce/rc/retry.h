// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>

#include "stack/timing_wheel.h"

namespace rockhopper::roce::rc {

/// What a requester waits for, and how often it may still try again (IBTA vol. 1, 9.7.6.1.3 and
/// 9.9.2). One timer serves all waits, as there is one at a time: nothing is sent that could be
/// answered until that of an RNR NAK is over.
///
/// The timing wheel is named in each call, so that this needs no reference to it.
class Retry {
 public:
  enum class State : std::uint8_t {
    idle,          ///< it waits for nothing, or for what may take any time
    awaiting_ack,  ///< it waits for an answer: Local ACK Timeout
    rnr_wait,      ///< it waits as an RNR NAK has told: RNR NAK timer
    unreachable,   ///< it waits for the next hop's address, as long as for an answer
  };
  /// With this rnr_retry RNR NAKs are obeyed for ever (IBTA vol. 1, 9.7.5.2.8).
  static constexpr std::uint8_t kWithoutLimit = 7;

  /// `on_timer` is called with `context` when the timer has expired; it begins with on_expired().
  Retry(stack::Timer::Callback on_timer, void* context) : timer_(on_timer, context) {}

  [[nodiscard]] State state() const { return state_; }
  /// The peer has told not to send.
  [[nodiscard]] bool is_rnr_wait() const { return state_ == State::rnr_wait; }
  [[nodiscard]] bool is_idle() const { return state_ == State::idle; }
  [[nodiscard]] std::uint8_t retries_left() const { return retries_left_; }
  /// A NAK, or an implied one, has been obeyed since the last progress.
  [[nodiscard]] bool is_loss_known() const { return loss_known_; }

  /// Makes it as new: it waits for nothing and has all retries.
  void reset(stack::TimingWheel& timers, std::uint8_t retry_cnt, std::uint8_t rnr_retry);
  /// Waits for nothing.
  void stop(stack::TimingWheel& timers);
  /// Waits for nothing and counts anew, as if nothing had been sent.
  void pause(stack::TimingWheel& timers, std::uint8_t retry_cnt);

  /// Waits until `deadline_ns` for an answer, or if the next hop is not known, for that.
  void await_answer(stack::TimingWheel& timers, std::uint64_t deadline_ns);
  /// Waits for nothing: everything is answered, or an answer may take any time.
  void await_nothing(stack::TimingWheel& timers);
  /// Nothing is to be sent until `deadline_ns`, as an RNR NAK has told.
  void await_receiver(stack::TimingWheel& timers, std::uint64_t deadline_ns);
  /// The next hop is not known. What is being waited for is waited for until then too; only if
  /// nothing is, and `pending` says that there are requests, a wait until `deadline_ns` begins,
  /// where kNever means that it would take any time.
  void on_unreachable(stack::TimingWheel& timers, bool pending, std::uint64_t deadline_ns);
  /// The next hop is known.
  void on_reachable() {
    if (state_ == State::unreachable) [[unlikely]] {
      state_ = State::awaiting_ack;
      check();
    }
  }
  /// The timer has expired. Returns what was waited for; from now on that is nothing.
  [[nodiscard]] State on_expired();

  /// The peer has answered: all retries are regained, and no RNR NAK holds any more.
  void on_progress(std::uint8_t retry_cnt, std::uint8_t rnr_retry) {
    retries_left_ = retry_cnt;
    rnr_retries_left_ = rnr_retry;
    loss_known_ = false;
    received_ahead_ = 0;
    if (state_ == State::rnr_wait) [[unlikely]] {
      state_ = State::awaiting_ack;
      check();
    }
  }
  /// The peer has shown that it is not out of reach, though nothing is acknowledged.
  void on_sign_of_life(std::uint8_t retry_cnt) { retries_left_ = retry_cnt; }
  /// The peer has `distance` PSNs behind the oldest unacknowledged one. Where these are more than
  /// before, that is progress, though nothing is acknowledged.
  void on_received(std::uint32_t distance, std::uint8_t retry_cnt);
  /// It is time to try again. Returns false if that has been done retry_cnt times.
  [[nodiscard]] bool use_retry();
  /// The peer has sent an RNR NAK. Returns false if that has happened rnr_retry times before.
  [[nodiscard]] bool use_rnr_retry(std::uint8_t rnr_retry);
  /// What is lost has been told of by what came behind it; until there is progress, further NAKs
  /// and answers say the same. Some RNICs send one for each packet that comes too early.
  void note_known_loss() { loss_known_ = true; }
  /// What will be sent again may be lost again.
  void forget_known_loss() { loss_known_ = false; }

 private:
  /// What holds between any two calls.
  void check() const { assert(timer_.armed() == (state_ != State::idle)); }

  stack::Timer timer_;                ///< armed if and only if state_ is not idle
  std::uint32_t received_ahead_ = 0;  ///< PSNs that the peer has, by NAKs; 0 after progress
  State state_ = State::idle;
  bool loss_known_ = false;
  std::uint8_t retries_left_ = 0;      ///< <= retry_cnt
  std::uint8_t rnr_retries_left_ = 0;  ///< <= rnr_retry; kWithoutLimit is not counted down
};

inline void Retry::await_answer(stack::TimingWheel& timers, std::uint64_t deadline_ns) {
  assert(state_ != State::rnr_wait);
  timers.arm(timer_, deadline_ns);
  if (state_ == State::idle) state_ = State::awaiting_ack;
  check();
}

inline void Retry::await_nothing(stack::TimingWheel& timers) {
  timers.cancel(timer_);
  state_ = State::idle;
  check();
}

}  // namespace rockhopper::roce::rc
