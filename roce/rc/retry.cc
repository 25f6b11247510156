// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/retry.h"

#include "stack/link.h"

namespace rockhopper::roce::rc {

void Retry::reset(stack::TimingWheel& timers, std::uint8_t retry_cnt, std::uint8_t rnr_retry) {
  stop(timers);
  on_progress(retry_cnt, rnr_retry);
}

void Retry::stop(stack::TimingWheel& timers) { await_nothing(timers); }

void Retry::pause(stack::TimingWheel& timers, std::uint8_t retry_cnt) {
  retries_left_ = retry_cnt;
  loss_known_ = false;
  await_nothing(timers);
}

void Retry::await_receiver(stack::TimingWheel& timers, std::uint64_t deadline_ns) {
  timers.arm(timer_, deadline_ns);
  state_ = State::rnr_wait;
  check();
}

void Retry::on_unreachable(stack::TimingWheel& timers, bool pending, std::uint64_t deadline_ns) {
  switch (state_) {
    case State::idle:
      if (pending && deadline_ns != stack::kNever) {
        timers.arm(timer_, deadline_ns);
        state_ = State::unreachable;
      }
      break;
    case State::awaiting_ack:
      state_ = State::unreachable;
      break;
    case State::rnr_wait:
    case State::unreachable:
      break;
  }
  check();
}

Retry::State Retry::on_expired() {
  const State was = state_;
  state_ = State::idle;
  check();
  return was;
}

void Retry::on_received(std::uint32_t distance, std::uint8_t retry_cnt) {
  if (distance > received_ahead_) {
    received_ahead_ = distance;
    retries_left_ = retry_cnt;
    loss_known_ = false;
  }
}

bool Retry::use_retry() {
  if (retries_left_ == 0) return false;
  --retries_left_;
  return true;
}

bool Retry::use_rnr_retry(std::uint8_t rnr_retry) {
  if (rnr_retry == kWithoutLimit) return true;
  if (rnr_retries_left_ == 0) return false;
  --rnr_retries_left_;
  return true;
}

}  // namespace rockhopper::roce::rc
