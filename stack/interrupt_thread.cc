// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/interrupt_thread.h"

#include <atomic>
#include <future>

#include <rte_alarm.h>
#include <rte_interrupts.h>

#include "stack/interrupt_gate.h"

namespace rockhopper::stack {
namespace {

struct Call {
  const std::function<int()>& function;
  std::promise<int> result;
  std::atomic<bool> complete{false};  ///< for ThreadSanitizer, which does not see the EAL's locks
};

void run(void* argument) {
  auto& call = *static_cast<Call*>(argument);
  while (!call.complete.load(std::memory_order_acquire)) {
  }
  call.result.set_value(call.function());
}

}  // namespace

int call_in_interrupt_thread(const std::function<int()>& call) {
  if (rte_thread_is_intr() != 0) return call();
  Call pending{call, {}};
  auto result = pending.result.get_future();
  pending.complete.store(true, std::memory_order_release);
  // Alarms are the one kind of work that the thread takes from others.
  if (const int refused = rte_eal_alarm_set(1, run, &pending); refused != 0) return refused;
  InterruptGate::ask_for_turn();
  return result.get();
}

}  // namespace rockhopper::stack
