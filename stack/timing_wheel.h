// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <boost/intrusive/list.hpp>

namespace rockhopper::stack {

class TimingWheel;

/// One timer, embedded in the object that it serves; arming it allocates nothing. It disarms itself
/// when destroyed, also from within a callback of the same wheel.
class Timer : public boost::intrusive::list_base_hook<> {
 public:
  /// Called by TimingWheel::advance with that call's `now_ns`; the timer is no longer armed then
  /// and may be armed again or destroyed.
  using Callback = void (*)(void* context, std::uint64_t now_ns);

  Timer(Callback callback, void* context) : callback_(callback), context_(context) {}
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  [[nodiscard]] bool armed() const { return wheel_ != nullptr; }
  /// What arm() was given. Requires armed().
  [[nodiscard]] std::uint64_t deadline_ns() const { return deadline_ns_; }

 private:
  friend class TimingWheel;

  Callback callback_;
  void* context_;
  TimingWheel* wheel_ = nullptr;  ///< the wheel in which it is armed
  std::uint64_t deadline_ns_ = 0;
  std::uint64_t placed_tick_ = 0;  ///< the tick for which it was put into its slot
  std::uint32_t slot_ = 0;         ///< index of that slot, see TimingWheel
};

/// A hierarchical timing wheel (Varghese and Lauck, scheme 7): arm and cancel in constant time.
/// A timer never fires before its deadline, and less than one tick after it if advance() is called
/// then. Single-threaded.
///
/// A timer that is due at tick T stands, seen from the current tick C, on the level of the highest
/// base-64 digit in which T and C differ, in the slot that T's digit names. So every occupied slot
/// of a level lies ahead of C's digit on that level, the first occupied slot of the lowest occupied
/// level is the next one in time, and no slot is ever met before its time has come.
class TimingWheel {
 public:
  /// `tick_ns`, at least 1, is rounded down to a power of two.
  explicit TimingWheel(std::uint64_t tick_ns);
  ~TimingWheel();
  TimingWheel(const TimingWheel&) = delete;
  TimingWheel& operator=(const TimingWheel&) = delete;

  [[nodiscard]] std::uint64_t tick_ns() const { return std::uint64_t{1} << shift_; }

  /// Arms or re-arms. A deadline in the past fires at the next advance(); kNever only disarms.
  /// Re-arming for a later time, as acknowledgements do, costs a store: the timer stays in its old
  /// slot until that comes due.
  void arm(Timer& timer, std::uint64_t deadline_ns) {
    if (timer.wheel_ == this && deadline_ns != UINT64_MAX &&
        to_tick(deadline_ns) >= timer.placed_tick_) {
      timer.deadline_ns_ = deadline_ns;
      return;
    }
    rearm(timer, deadline_ns);
  }
  /// No effect on a timer that is not armed.
  void cancel(Timer& timer);

  /// Fires the timers due at `now_ns`, in the order of their ticks. Callbacks may arm, cancel and
  /// destroy any timer; a timer that one of them arms anew for a time up to `now_ns` fires in the
  /// next advance(). `now_ns` must not decrease. Not to be called from a callback.
  void advance(std::uint64_t now_ns);

  /// When advance() next has work: not later than the first timer fires, but possibly earlier,
  /// where a slot must be sorted anew first. kNever if no timer is armed.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  [[nodiscard]] bool empty() const { return armed_count_ == 0; }

 private:
  using TimerList = boost::intrusive::list<Timer, boost::intrusive::constant_time_size<false>>;

  static constexpr unsigned kDigitBits = 6;
  static constexpr unsigned kSlots = 1U << kDigitBits;
  static constexpr unsigned kLevels = 6;
  static constexpr std::uint32_t kOverflowSlot = kLevels * kSlots;  ///< beyond the highest level
  static constexpr std::uint32_t kDueSlot = kOverflowSlot + 1;      ///< was due when armed

  /// The first tick that is not before `time_ns`.
  [[nodiscard]] std::uint64_t to_tick(std::uint64_t time_ns) const {
    return (time_ns >> shift_) + ((time_ns & (tick_ns() - 1)) != 0 ? 1 : 0);
  }
  void rearm(Timer& timer, std::uint64_t deadline_ns);
  void place_ahead(Timer& timer, std::uint64_t tick);
  void link(Timer& timer, std::uint32_t slot, std::uint64_t tick);
  [[nodiscard]] std::uint64_t next_tick(std::uint32_t& slot) const;
  void work_off(std::uint32_t slot, std::uint64_t now_ns);

  unsigned shift_;
  std::size_t armed_count_ = 0;
  std::uint64_t current_tick_ = 0;
  std::uint64_t target_tick_ = 0;  ///< where advance() is going; else the current tick
  std::array<std::uint64_t, kLevels> occupied_{};  ///< a bit for each slot that is not empty
  std::array<TimerList, kDueSlot + 1> slots_;      ///< level by level, then the two others
};

}  // namespace rockhopper::stack
