// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/interrupt_gate.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>

#include <poll.h>
#include <rte_errno.h>
#include <rte_interrupts.h>
#include <rte_pause.h>
#include <sched.h>

namespace rockhopper::stack {
namespace {

/// A message of a peer that connects waits so long while ports are polled without traffic.
constexpr int kIdleWaitMs = 1;
/// And so long under traffic: a turn interrupts it for tens of microseconds.
constexpr int kTrafficWaitMs = 8;
constexpr int kPausesBeforeYield = 1000;

std::atomic<InterruptGate*> the_gate{nullptr};

}  // namespace

Expected<InterruptGate*> InterruptGate::get() {
  static std::mutex starting;
  const std::lock_guard guard(starting);
  if (InterruptGate* gate = the_gate.load(std::memory_order_acquire)) return gate;
  // Never destroyed: the interrupt thread may be in it until the very end of the process.
  std::unique_ptr<InterruptGate> gate(new InterruptGate);
  ROCKHOPPER_TRY(gate->start());
  the_gate.store(gate.get(), std::memory_order_release);
  return gate.release();
}

void InterruptGate::ask_for_turn() {
  if (InterruptGate* gate = the_gate.load(std::memory_order_acquire)) gate->ring();
}

Expected<void> InterruptGate::start() {
  ROCKHOPPER_TRY(event_, EventFd::create());
  // For park(): the EAL's lock orders this too, but ThreadSanitizer does not see it.
  state_.store(0, std::memory_order_release);
  rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  int result = -ENOMEM;
  if (handle != nullptr && rte_intr_fd_set(handle, event_->fd()) == 0 &&
      rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0) {
    const auto callback = [](void* gate) { static_cast<InterruptGate*>(gate)->park(); };
    result = rte_intr_callback_register(handle, callback, this);
  }
  rte_intr_instance_free(handle);  // the EAL has a copy
  if (result == 0) return {};
  return fail(ErrorCode::exhausted, "DPDK takes no interrupt callback: {}", rte_strerror(-result));
}

void InterruptGate::ring() { event_->notify(); }

bool InterruptGate::wait_to_enter() {
  for (;;) {
    state_.fetch_sub(1, std::memory_order_release);
    // A poll in the interrupt thread is alone: the thread is not parked, so no other one enters.
    if (rte_thread_is_intr() != 0) return false;
    for (;;) {
      const std::uint32_t before = state_.fetch_or(kComing, std::memory_order_relaxed);
      if ((before & kParked) != 0) break;
      if ((before & kComing) == 0) ring();
      // Returns also if it has parked and left meanwhile without the intent to come back.
      state_.wait(before | kComing, std::memory_order_relaxed);
    }
    if ((state_.fetch_add(1, std::memory_order_acquire) & kParked) != 0) return true;
  }
}

// The EAL calls this between other callbacks whenever the eventfd is readable. As that is so in
// every round of its epoll_wait() until we read it, and epoll_wait() reports all that is ready, one
// turn handles at least what was pending when the thread last came here.
void InterruptGate::park() {
  (void)state_.load(std::memory_order_acquire);  // see start()
  event_->take();
  state_.fetch_or(kParked | kComing, std::memory_order_release);
  state_.notify_all();
  const bool polled = wait_for_turn();
  if (polled) ring();  // for the way back
  state_.fetch_and(polled ? ~kParked : ~(kParked | kComing), std::memory_order_acquire);
  for (int pauses = 0; (state_.load(std::memory_order_acquire) & ~kComing) != 0; ++pauses) {
    if (pauses < kPausesBeforeYield) {
      rte_pause();
    } else {
      sched_yield();  // a thread with a burst to finish may wait for this CPU
    }
  }
}

bool InterruptGate::wait_for_turn() {
  pollfd asked{event_->fd(), POLLIN, 0};
  const bool called = poll(&asked, 1, wait_ms_) > 0;
  const Activity activity = activity_.exchange(Activity::none, std::memory_order_relaxed);
  wait_ms_ = activity == Activity::traffic && !called ? std::min(2 * wait_ms_, kTrafficWaitMs)
                                                      : kIdleWaitMs;
  return activity != Activity::none;
}

}  // namespace rockhopper::stack
