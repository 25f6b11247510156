// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>

#include "roce/cm/connection.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::cm {

/// A message that waits for an answer, and how often it may still be repeated. The same timer
/// serves other waits of the one that sent it.
class PendingAnswer {
 public:
  PendingAnswer(stack::Timer::Callback on_timer, void* context) : timer_(on_timer, context) {}

  [[nodiscard]] const Mad& message() const { return message_; }

  /// `message` has been sent. It is time to repeat it after `timeout_ns`, up to `retries` times.
  void await(stack::TimingWheel& timers, std::uint64_t now_ns, const Mad& message,
             std::uint64_t timeout_ns, std::uint8_t retries) {
    message_ = message;
    timeout_ns_ = timeout_ns;
    retries_left_ = retries;
    wait_again(timers, now_ns);
  }
  /// Waits for as long once more, and `more_ns`.
  void wait_again(stack::TimingWheel& timers, std::uint64_t now_ns, std::uint64_t more_ns = 0) {
    timers.arm(timer_, now_ns + timeout_ns_ + more_ns);
  }
  /// It is to be repeated. Returns false if that has been done as often as it may be.
  [[nodiscard]] bool use_retry() {
    if (retries_left_ == 0) return false;
    --retries_left_;
    return true;
  }
  /// Waits for something else, until then.
  void wait_until(stack::TimingWheel& timers, std::uint64_t deadline_ns) {
    timers.arm(timer_, deadline_ns);
  }
  /// Waits for nothing.
  void stop(stack::TimingWheel& timers) { timers.cancel(timer_); }
  /// Waits for nothing, and keeps another message, to be repeated when it is asked for.
  void keep(stack::TimingWheel& timers, const Mad& message) {
    stop(timers);
    message_ = message;
  }
  [[nodiscard]] bool has_message() const { return message_ != Mad{}; }

 private:
  Mad message_{};
  std::uint64_t timeout_ns_ = 0;
  std::uint8_t retries_left_ = 0;
  stack::Timer timer_;
};

}  // namespace rockhopper::roce::cm
