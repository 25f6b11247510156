// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/switch/interrupt_loop.h"

#include <utility>

#include <rte_alarm.h>
#include <rte_lcore.h>
#include <sched.h>

#include "apps/common/steady_clock.h"

namespace rockhopper::apps::ethernet_switch {
namespace {

/// Interrupts, which are peers that come and go, wait so long at most.
constexpr std::uint64_t kSliceNs = 2 * kNsPerMs;
constexpr int kTurnsPerClock = 64;
constexpr int kIdleTurns = 200;
/// Long enough that the alarm is not due at once, which would leave other interrupts waiting.
constexpr std::uint64_t kPauseUs = 5;
constexpr std::uint64_t kSleepUs = 50;

}  // namespace

InterruptLoop::InterruptLoop(std::function<bool()> turn, IdlePolicy idle)
    : turn_(std::move(turn)), idle_(idle) {}

Expected<void> InterruptLoop::start() {
  running_.store(true, std::memory_order_release);
  if (rte_eal_alarm_set(kPauseUs, &InterruptLoop::on_alarm, this) != 0) {
    running_.store(false, std::memory_order_release);
    return fail(ErrorCode::exhausted, "DPDK has no memory for an alarm");
  }
  return {};
}

void InterruptLoop::stop() {
  stop_.store(true, std::memory_order_relaxed);
  running_.wait(true, std::memory_order_acquire);
}

void InterruptLoop::run_slice() {
  if (!registered_) registered_ = rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0;
  if (stop_.load(std::memory_order_relaxed)) return end();
  const std::uint64_t wait_us = turns();
  if (rte_eal_alarm_set(wait_us, &InterruptLoop::on_alarm, this) != 0) end();
}

void InterruptLoop::end() {
  if (registered_) rte_thread_unregister();
  running_.store(false, std::memory_order_release);
  running_.notify_all();
}

std::uint64_t InterruptLoop::turns() {
  const std::uint64_t end_ns = steady_now_ns() + kSliceNs;
  int idle_turns = 0;
  do {
    for (int i = 0; i < kTurnsPerClock; ++i) {
      if (turn_()) {
        idle_turns = 0;
      } else if (++idle_turns >= kIdleTurns) {
        if (idle_ == IdlePolicy::sleep) return kSleepUs;
        if (idle_ == IdlePolicy::yield) sched_yield();
      }
    }
  } while (steady_now_ns() < end_ns && !stop_.load(std::memory_order_relaxed));
  return kPauseUs;
}

}  // namespace rockhopper::apps::ethernet_switch
