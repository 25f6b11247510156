// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "stack/error.h"
#include "stack/event_fd.h"

namespace rockhopper::stack {

/// Makes the EAL's interrupt thread and the threads that poll take turns, for drivers that change a
/// queue in the former without regard to the latter: memif (DPDK 22.11) unmaps the rings there when
/// its peer has gone.
///
/// While ports are polled, the interrupt thread waits in a callback of ours. By itself, about once
/// a millisecond, every 8 ms under traffic, it keeps new bursts out, waits until those that
/// run are over, lets DPDK handle what is pending, and comes back. A thread counts only during a
/// burst, so one that sleeps, ends or never polls again is in nobody's way; when no one polls, the
/// interrupt thread is free as without a gate.
///
/// One for the process, as there is one such thread. Other users of that thread (alarms, other
/// drivers' interrupts) get their turn 8 ms later at worst.
class InterruptGate {
 public:
  /// Starts it at the first call. Control path, any thread; after the EAL has started. The gate
  /// lasts until the process ends.
  [[nodiscard]] static Expected<InterruptGate*> get();
  /// Lets the interrupt thread go on at once, if there is a gate. Any thread.
  static void ask_for_turn();

  /// Keeps the interrupt thread where it is during one burst. Waits while that thread has its turn,
  /// normally some microseconds; waits for no other thread. Free without a gate, and in the
  /// interrupt thread itself. Do nothing in it that needs the interrupt thread.
  class Burst {
   public:
    explicit Burst(InterruptGate* gate) : gate_(gate) {
      if (gate_ != nullptr && !gate_->enter()) gate_ = nullptr;
    }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;
    ~Burst() {
      if (gate_ != nullptr) gate_->state_.fetch_sub(1, std::memory_order_release);
    }
    /// Says how many packets it moved.
    void moved(std::uint16_t packets) {
      if (gate_ == nullptr) return;
      const Activity activity = packets > 0 ? Activity::traffic : Activity::polled;
      if (gate_->activity_.load(std::memory_order_relaxed) < activity) {
        gate_->activity_.store(activity, std::memory_order_relaxed);
      }
    }

   private:
    InterruptGate* gate_;
  };

 private:
  enum class Activity : std::uint8_t { none, polled, traffic };
  // Bits of state_; the others count bursts.
  static constexpr std::uint32_t kParked = 1u << 31;  ///< the interrupt thread waits in park()
  static constexpr std::uint32_t kComing = 1u << 30;  ///< or it is on its way there

  InterruptGate() = default;
  [[nodiscard]] Expected<void> start();
  /// Returns false in the interrupt thread.
  bool enter() {
    if ((state_.fetch_add(1, std::memory_order_acquire) & kParked) != 0) return true;
    return wait_to_enter();
  }
  bool wait_to_enter();
  /// Makes a parked thread leave, and one that is free come.
  void ring();
  void park();
  /// Waits in the interrupt thread until its next turn is due. True if someone polled meanwhile.
  bool wait_for_turn();

  alignas(64) std::atomic<std::uint32_t> state_{0};
  std::atomic<Activity> activity_{Activity::none};
  std::unique_ptr<EventFd> event_;  ///< readable when that thread shall come, or leave
  int wait_ms_ = 1;
};

}  // namespace rockhopper::stack
